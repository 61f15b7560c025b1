# SPDX-License-Identifier: Apache-2.0
"""ExecutionArena alone: each property and verb, who may do what, closing in any order, fork. That of a service is in
test_service.py."""

import ast
import copy
import gc
import inspect
import os
import pathlib
import pickle
import random
import sys
import threading
import time
import weakref

import pytest

import hearth

MIB = 1 << 20

FIGURES = ("live_count", "live_bytes", "live_capacity", "peak_bytes", "retained_count",
           "retained_bytes", "pending_count", "pending_bytes", "footprint")

STORES = ("lists", "spans", "plans")


def balanced(arena):
    """Whether the books agree."""
    now = arena.stats()
    assert now.consistent
    assert now.live_capacity + now.retained_bytes + now.pending_bytes == now.footprint
    assert now.allocs - now.frees == now.live_count
    return True


def all_home(arena):
    gc.collect()
    assert (arena.live_count, arena.live_bytes, arena.live_capacity) == (0, 0, 0)
    return balanced(arena)


def in_thread(function):
    """Call in a new thread; its answer, or its exception."""
    answers = []

    def body():
        try:
            answers.append((function(), None))
        except BaseException as error:
            answers.append((None, error))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the thread hangs"
    answer, error = answers[0]
    if error is not None:
        raise error
    return answer


def in_child(body):
    """Run in a forked child, which must get to its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0


def fields_of_stub(name):
    text = pathlib.Path(hearth.__file__).with_name("_core.pyi").read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return tuple(line.target.id for line in node.body if isinstance(line, ast.AnnAssign))
    raise AssertionError(name)


# Construction


def test_defaults():
    arena = hearth.ExecutionArena()
    assert arena.capacity == 1 << 20
    assert arena.retention_limit is None
    assert not arena.closed
    for name in FIGURES:
        assert getattr(arena, name) == 0, name


@pytest.mark.parametrize("store", STORES + (None,))
def test_options_hold(store):
    arena = hearth.ExecutionArena(3, retention_limit=MIB, reuse_ratio=1, store=store, backing="mmap")
    assert arena.capacity == 3 and arena.retention_limit == MIB
    kept = [arena.empty(8) for _ in range(3)]
    with pytest.raises(hearth.NoMemoryError) as caught:
        arena.empty(8)
    assert caught.value.status == "NO_SLOT"
    assert "ExecutionArena.empty of 8 bytes" in str(caught.value)
    del kept
    assert all_home(arena)


@pytest.mark.parametrize("options, kind, words", [
    ({"capacity": 0}, hearth.InvalidError, "capacity must be at least 1"),
    ({"capacity": -1}, ValueError, "capacity must not be negative"),
    ({"capacity": True}, TypeError, "capacity must be an integer or None, not a bool"),
    ({"capacity": 1 << 40}, hearth.NoMemoryError, "ExecutionArena"),
    ({"retention_limit": -5}, ValueError, "retention_limit must not be negative"),
    ({"retention_limit": "1M"}, TypeError, "retention_limit must be an integer or None"),
    ({"reuse_ratio": 5000}, hearth.InvalidError, "reuse_ratio must be from 1 to 1024"),
    ({"store": "heap"}, hearth.InvalidError, 'store must be one of "lists", "spans", "plans"'),
    ({"store": 1}, TypeError, 'store must be one of "lists", "spans", "plans"'),
    ({"backing": "MMAP"}, hearth.InvalidError, 'backing must be one of "jemalloc", "mmap"'),
    ({"live_limit": 3}, TypeError, "live_limit"),
])
def test_wrong_options(options, kind, words):
    with pytest.raises(kind) as caught:
        hearth.ExecutionArena(**options)
    assert words in str(caught.value)


# Buffers


@pytest.mark.parametrize("store", STORES)
def test_shapes_types_alignment(store):
    arena = hearth.ExecutionArena(store=store)
    for shape in (0, 7, (), (3, 4), [2, 0, 3]):
        for dtype in ("uint8", "float64", "bool"):
            for alignment in (0, 64, 4096):
                lease = arena.empty(shape, dtype, alignment=alignment)
                assert lease.dtype == dtype
                assert lease.address % max(alignment, 64) == 0
                assert arena.live_bytes == lease.nbytes and arena.live_count == 1
                del lease
    assert all_home(arena)


@pytest.mark.parametrize("method", ["empty", "zeros"])
@pytest.mark.parametrize("args, options, kind, words", [
    ((), {}, TypeError, "needs a shape"),
    ((1,), {"timeout": 1}, TypeError, "has no argument 'timeout'; it takes shape, dtype, alignment"),
    ((1,), {"alignment": 48}, hearth.InvalidError, "alignment must be a power of two"),
    (((2, -1),), {}, hearth.InvalidError, ""),
    (((1 << 40, 1 << 40),), {}, hearth.NoMemoryError, ""),
    ((sys.maxsize,), {}, hearth.NoMemoryError, ""),
])
def test_wrong_requests(method, args, options, kind, words):
    arena = hearth.ExecutionArena()
    kept = arena.empty(100)
    before = arena.stats()
    with pytest.raises(kind) as caught:
        getattr(arena, method)(*args, **options)
    assert words in str(caught.value)
    assert arena.stats() == before
    del kept
    assert all_home(arena)


def test_reuse_with_warm_pages():
    arena = hearth.ExecutionArena()
    lease = arena.empty(MIB)
    address = lease.address
    for _ in range(50):
        del lease
        lease = arena.empty(MIB)
        assert lease.address == address
    now = arena.stats()
    assert (now.allocs, now.hits, now.misses, now.backing_acquires) == (51, 50, 1, 1)


@pytest.mark.parametrize("size", [1, 4096, 3 * MIB])
def test_zeros_on_reused_storage(size):
    arena = hearth.ExecutionArena()
    lease = arena.empty(size)
    memoryview(lease)[:] = b"\xff" * size
    address = lease.address
    del lease
    lease = arena.zeros(size)
    assert lease.address == address, "not reused, so this tests nothing"
    assert not any(lease.tobytes())


@pytest.mark.parametrize("store", STORES)
def test_accounting_of_random_work(store):
    arena = hearth.ExecutionArena(store=store)
    dice = random.Random(11)
    out = []
    for i in range(1500):
        if out and dice.random() < 0.5:
            out.pop(dice.randrange(len(out)))
        else:
            out.append(arena.empty(dice.choice((0, 1, 100, 5000, 100_000))))
        assert arena.live_count == len(out)
        assert arena.live_bytes == sum(lease.nbytes for lease in out)
        if i % 100 == 0:
            assert balanced(arena)
    allocs = arena.stats().allocs
    out.clear()
    assert all_home(arena)
    assert arena.stats().frees == allocs
    arena.trim()
    assert arena.footprint == 0


def test_figures_and_stats():
    arena = hearth.ExecutionArena(retention_limit=5 * MIB)
    kept = [arena.empty(1000), arena.zeros(MIB)]
    arena.empty(5000)
    now = arena.stats()
    assert isinstance(now, hearth.ExecutionArenaStats)
    for name in FIGURES:
        assert getattr(now, name) == getattr(arena, name), name
    assert now.retention_cap == 5 * MIB and now.slots == arena.capacity
    assert now._fields == fields_of_stub("ExecutionArenaStats")
    assert pickle.loads(pickle.dumps(now)) == now
    assert hearth.ExecutionArena().stats().retention_cap is None
    del kept


def test_peak():
    arena = hearth.ExecutionArena()
    arena.empty(3 * MIB)
    assert arena.peak_bytes == 3 * MIB and arena.live_bytes == 0
    assert arena.reset_peak() is None
    assert arena.peak_bytes == 0


def test_trim():
    arena = hearth.ExecutionArena()
    kept = arena.empty(MIB)
    arena.empty(2 * MIB)
    retained = arena.retained_bytes
    assert retained >= 2 * MIB
    assert arena.trim() == retained
    assert arena.retained_bytes == 0 and arena.trim() == 0
    memoryview(kept)[:] = b"x" * MIB
    assert balanced(arena)


def test_retention_limit():
    arena = hearth.ExecutionArena()
    leases = [arena.empty(MIB) for _ in range(4)]
    del leases
    assert arena.retained_count == 4
    arena.retention_limit = 2 * MIB
    assert arena.retention_limit == 2 * MIB and arena.retained_bytes <= 2 * MIB
    arena.retention_limit = 0
    assert arena.retention_limit == 0 and arena.footprint == 0
    arena.empty(100)
    assert arena.retained_count == 0
    arena.retention_limit = None
    assert arena.retention_limit is None
    arena.empty(100)
    assert arena.retained_count == 1 and balanced(arena)
    assert hearth.ExecutionArena(retention_limit=0).retention_limit == 0


@pytest.mark.parametrize("value, kind", [(-1, ValueError), (True, TypeError), ("1", TypeError)])
def test_wrong_retention_limits(value, kind):
    arena = hearth.ExecutionArena(retention_limit=MIB)
    with pytest.raises(kind, match="retention_limit"):
        arena.retention_limit = value
    with pytest.raises(AttributeError, match="cannot be deleted; set it to None"):
        del arena.retention_limit
    assert arena.retention_limit == MIB


def test_runs_and_plans():
    arena = hearth.ExecutionArena(store="plans")
    for _ in range(8):
        arena.run_begin(5)
        kept = [arena.empty(size * 1000) for size in range(40, 70)]  # short runs are not planned
        del kept[::2]
        kept.append(arena.empty(200_000))
        del kept
        assert arena.run_end() is None
    now = arena.stats()
    assert now.runs == 8 and now.plans_made >= 1 and now.planned_runs >= 1 and now.plan_hits > 0
    assert all_home(arena)
    arena.run_begin(key=(1 << 64) - 1)
    arena.run_end()
    for wrong in (-1, 1 << 64, "a"):
        with pytest.raises((ValueError, OverflowError, TypeError), match="key"):
            arena.run_begin(wrong)


# Python's own


def test_repr():
    arena = hearth.ExecutionArena()
    kept = arena.empty(100)
    assert repr(arena).startswith("<hearth.ExecutionArena: 1 live of 100 bytes; 0 retained")
    assert "1 live" in in_thread(lambda: repr(arena))
    arena.close()
    assert repr(arena) == "<hearth.ExecutionArena, closed>"
    del kept


def test_equality_hash_weak_reference():
    one, other = hearth.ExecutionArena(), hearth.ExecutionArena()
    assert one == one and one != other and one != 3 and len({one, other, one}) == 2
    one.close()
    other.close()
    assert one != other
    reference = weakref.ref(one)
    del one
    assert reference() is None


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copies(how):
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        how(hearth.ExecutionArena())


def test_what_cannot_be_set():
    arena = hearth.ExecutionArena()
    for name in FIGURES + ("capacity", "closed", "new_attribute"):
        with pytest.raises(AttributeError):
            setattr(arena, name, 1)
    with pytest.raises(TypeError):
        type("Sub", (hearth.ExecutionArena,), {})
    assert list(inspect.signature(hearth.ExecutionArena).parameters) == \
        ["capacity", "retention_limit", "reuse_ratio", "store", "backing"]
    for name in dir(hearth.ExecutionArena):
        if not name.startswith("_"):
            assert getattr(hearth.ExecutionArena, name).__doc__, name


# Closing

EVERYTHING = {
    "empty": lambda arena: arena.empty(1),
    "zeros": lambda arena: arena.zeros(1),
    "trim": lambda arena: arena.trim(),
    "reset_peak": lambda arena: arena.reset_peak(),
    "run_begin": lambda arena: arena.run_begin(),
    "run_end": lambda arena: arena.run_end(),
    "release_owner": lambda arena: arena.release_owner(),
    "retention_limit": lambda arena: setattr(arena, "retention_limit", 5),
}


def test_close():
    arena = hearth.ExecutionArena()
    kept = arena.empty(5000)
    arena.empty(MIB)
    assert arena.close() is None
    assert arena.closed
    assert arena.close() is None
    for name, call in EVERYTHING.items():
        with pytest.raises(hearth.ClosedError, match="ExecutionArena." + name) as caught:
            call(arena)
        assert caught.value.status == "CLOSED"
    for name in FIGURES + ("capacity", "retention_limit"):
        with pytest.raises(hearth.ClosedError, match="ExecutionArena." + name):
            getattr(arena, name)
    with pytest.raises(hearth.ClosedError):
        arena.stats()
    with pytest.raises(hearth.ClosedError):
        arena.__enter__()
    memoryview(kept)[:] = b"y" * 5000
    assert kept.numpy()[4999] == ord("y")


def test_context_manager():
    with hearth.ExecutionArena() as arena:
        kept = arena.empty(10)
    assert arena.closed and kept.nbytes == 10
    with pytest.raises(ZeroDivisionError):
        with hearth.ExecutionArena() as other:
            1 / 0
    assert other.closed


@pytest.mark.parametrize("dropped_by", ["owner", "another"])
@pytest.mark.parametrize("closed_by", ["owner", "another", "nobody"])
@pytest.mark.parametrize("order", ["arena first", "lease first"])
def test_orders_of_going(order, closed_by, dropped_by):
    arena = hearth.ExecutionArena()
    held = [arena.empty(MIB)]
    view = memoryview(held[0])
    if closed_by == "owner":
        arena.close()
    elif closed_by == "another":
        in_thread(arena.close)
    if order == "arena first":
        del arena
        gc.collect()
        view[:] = b"z" * MIB
    del view
    if dropped_by == "owner":
        held.clear()
    else:
        in_thread(held.clear)
    if order == "lease first" and closed_by == "nobody":
        assert arena.empty(1).nbytes == 1
        assert all_home(arena)


def test_arenas_dropped_by_other_threads():
    for _ in range(50):
        held = [hearth.ExecutionArena()]
        lease = held[0].empty(MIB)
        in_thread(held.clear)
        memoryview(lease)[:1] = b"a"
        del lease
        held = in_thread(lambda: [hearth.ExecutionArena()])
        held.clear()


def test_many_arenas_leave_nothing():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def one():
        arena = hearth.ExecutionArena()
        lease = arena.zeros(MIB)
        arena.empty(MIB)
        del arena
        assert lease.nbytes == MIB

    for _ in range(20):
        one()
    before = resident()
    for _ in range(200):
        one()
    assert resident() - before < 40 * MIB


# Threads


def test_other_threads_read_figures_alone(capfd):
    arena = hearth.ExecutionArena()
    kept = arena.empty(100)
    for name, call in EVERYTHING.items():
        with pytest.raises(hearth.NotOwnerError, match="ExecutionArena." + name) as caught:
            in_thread(lambda: call(arena))
        assert caught.value.status == "NOT_OWNER"
        assert "release_owner()" in str(caught.value)
    for name in FIGURES + ("capacity", "retention_limit", "closed"):
        assert in_thread(lambda: getattr(arena, name)) == getattr(arena, name)
    assert in_thread(lambda: arena.stats().live_count) == 1
    del kept
    assert all_home(arena)
    assert capfd.readouterr().err == "" and arena.stats().misuses == 0


def test_returns_of_other_threads_are_pending_until_the_owner_looks():
    arena = hearth.ExecutionArena()
    held = [arena.empty(MIB) for _ in range(3)]
    in_thread(held.clear)
    assert arena.live_count == 0
    assert arena.pending_count + arena.retained_count == 3 and balanced(arena)
    assert arena.stats().remote_frees == 3
    for _ in range(3):
        held.append(arena.empty(MIB))
    assert arena.stats().misses == 3, "the same three again"
    held.clear()
    assert arena.pending_count == 0 and all_home(arena)


def test_release_owner():
    arena = hearth.ExecutionArena()
    kept = arena.empty(MIB)
    address = kept.address
    del kept
    assert arena.release_owner() is None

    def work():
        lease = arena.empty(MIB)
        assert lease.address == address
        del lease
        arena.release_owner()

    in_thread(work)
    assert arena.empty(MIB).address == address

    def keep():
        arena.empty(1)

    arena.release_owner()
    in_thread(keep)
    with pytest.raises(hearth.NotOwnerError):
        arena.empty(1)
    assert all_home(arena)
    in_thread(arena.close)


def test_an_arena_whose_thread_is_gone():
    arena = in_thread(hearth.ExecutionArena)
    assert arena.live_count == 0 and arena.stats().allocs == 0
    with pytest.raises(hearth.NotOwnerError):
        arena.empty(1)
    arena.close()

    def made():
        mine = hearth.ExecutionArena()
        return mine, mine.empty(MIB)

    arena, lease = in_thread(made)
    del arena
    memoryview(lease)[:] = b"x" * MIB


def test_a_producer_and_consumers():
    arena = hearth.ExecutionArena(retention_limit=16 * MIB)
    mailbox, done, wrong = [], threading.Event(), []

    def consume():
        while not done.is_set() or mailbox:
            try:
                number, lease = mailbox.pop()
            except IndexError:
                time.sleep(0.0002)
                continue
            if int.from_bytes(memoryview(lease)[:8], "little") != number:
                wrong.append(number)
            del lease

    threads = [threading.Thread(target=consume) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(3000):
        lease = arena.empty(8 + i % 50_000)
        memoryview(lease)[:8] = i.to_bytes(8, "little")
        mailbox.append((i, lease))
        del lease
    done.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong
    assert all_home(arena)
    now = arena.stats()
    assert now.allocs == now.frees == 3000 and now.misuses == 0


def test_closing_while_the_owner_works():
    """The owner gives up the GIL inside large zeros and trims; a close at that moment waits for it."""
    for _ in range(25):
        box, ready, errors = [], threading.Event(), []

        def work():
            arena = hearth.ExecutionArena()
            box.append(arena)
            ready.set()
            try:
                while True:
                    kept = arena.zeros(4 * MIB)
                    del kept
                    arena.trim()
            except hearth.ClosedError:
                pass
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        ready.wait()
        time.sleep(0.003)
        box[0].close()
        assert box[0].closed
        thread.join(30)
        assert not thread.is_alive() and not errors


def test_figures_while_the_owner_works():
    arena_box, stop = [], threading.Event()
    ready = threading.Event()

    def work():
        arena = hearth.ExecutionArena()
        arena_box.append(arena)
        ready.set()
        while not stop.is_set():
            arena.zeros(2 * MIB)
            arena.trim()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    for _ in range(2000):
        now = arena_box[0].stats()
        assert now.live_count <= 1 and now.footprint <= 64 * MIB
        assert arena_box[0].live_count <= 1
        repr(arena_box[0])
    stop.set()
    thread.join(30)
    assert all_home(arena_box[0])


# Fork


def test_fork():
    arena = hearth.ExecutionArena()
    kept = arena.empty(4096)
    memoryview(kept)[:] = b"p" * 4096
    arena.empty(MIB)

    def child():
        assert bytes(memoryview(kept)[:2]) == b"pp"
        again = arena.empty(MIB)
        memoryview(again)[:] = b"c" * MIB
        assert arena.live_count == 2
        del again
        assert balanced(arena)
        arena.trim()
        arena.close()

    for _ in range(3):
        in_child(child)
    assert arena.live_count == 1 and bytes(memoryview(kept)[:2]) == b"pp"
    del kept
    assert all_home(arena)


def test_fork_in_a_thread():
    """The child's only thread is the one that forked: what the others own has figures and can be closed."""
    arena = hearth.ExecutionArena()
    kept = [arena.empty(4096)]

    def child():
        assert arena.live_count == 1
        try:
            arena.empty(1)
        except hearth.NotOwnerError:
            pass
        else:
            raise AssertionError("the main thread's")
        kept.clear()
        arena.close()
        mine = hearth.ExecutionArena()
        mine.zeros(MIB)
        assert all_home(mine)

    in_thread(lambda: in_child(child))
    kept.clear()
    assert all_home(arena)
