# SPDX-License-Identifier: Apache-2.0
"""IOArena: each property and verb, what is refused and how, threads, closing in any order, fork."""

import ast
import copy
import gc
import inspect
import multiprocessing
import os
import pathlib
import pickle
import random
import subprocess
import sys
import threading
import time
import weakref

import pytest

import hearth

MIB = 1 << 20

FIGURES = ("live_count", "owned_count", "leased_count", "live_bytes", "leased_bytes", "live_capacity",
           "peak_bytes", "retained_count", "retained_bytes", "pending_count", "pending_bytes",
           "footprint")


def balanced(io):
    """Whether the books agree."""
    now = io.stats()
    assert now.consistent
    assert now.live_capacity + now.retained_bytes + now.pending_bytes == now.footprint
    assert now.owned_count + now.leased_count == now.live_count
    return True


def all_home(io):
    gc.collect()
    assert (io.live_count, io.leased_count, io.live_bytes, io.leased_bytes) == (0, 0, 0, 0)
    return balanced(io)


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
    io = hearth.IOArena()
    assert io.capacity == 1 << 20
    assert io.retention_limit is None
    assert not io.closed
    for name in FIGURES:
        assert getattr(io, name) == 0, name


def test_none_is_the_default():
    io = hearth.IOArena(None, retention_limit=None, live_limit=None, reuse_ratio=None, backing=None)
    assert io.capacity == 1 << 20 and io.retention_limit is None


def test_options_hold():
    io = hearth.IOArena(7, retention_limit=MIB, live_limit=8 * MIB, reuse_ratio=2, backing="mmap")
    assert io.capacity == 7
    assert io.retention_limit == MIB
    with pytest.raises(hearth.NoMemoryError) as caught:
        io.empty(9 * MIB)
    assert caught.value.status == "NO_MEMORY"
    assert "IOArena.empty of 9437184 bytes" in str(caught.value)
    assert all_home(io)


def test_capacity_counts_slots():
    io = hearth.IOArena(capacity=2)
    first, second = io.empty(8), io.empty(8)
    with pytest.raises(hearth.NoMemoryError) as caught:
        io.empty(8)
    assert caught.value.status == "NO_SLOT"
    del first
    third = io.empty(8)
    del second, third
    assert all_home(io)


@pytest.mark.parametrize("options, kind, words", [
    ({"capacity": 0}, hearth.InvalidError, "capacity must be at least 1"),
    ({"capacity": -1}, ValueError, "capacity must not be negative"),
    ({"capacity": True}, TypeError, "capacity must be an integer or None, not a bool"),
    ({"capacity": "8"}, TypeError, "capacity must be an integer or None"),
    ({"capacity": 1.5}, TypeError, "capacity must be an integer or None"),
    ({"capacity": 1 << 40}, hearth.NoMemoryError, "IOArena"),
    ({"capacity": 1 << 80}, OverflowError, "capacity"),
    ({"retention_limit": -5}, ValueError, "retention_limit must not be negative"),
    ({"retention_limit": False}, TypeError, "retention_limit must be an integer or None, not a bool"),
    ({"live_limit": 0}, hearth.InvalidError, "live_limit must be at least 1"),
    ({"reuse_ratio": 0}, hearth.InvalidError, "reuse_ratio must be from 1 to 1024"),
    ({"reuse_ratio": 1025}, hearth.InvalidError, "reuse_ratio must be from 1 to 1024"),
    ({"backing": "malloc"}, hearth.InvalidError, 'backing must be one of "jemalloc", "mmap"'),
    ({"backing": 3}, TypeError, 'backing must be one of "jemalloc", "mmap"'),
    ({"nonsense": 3}, TypeError, "nonsense"),
])
def test_wrong_options(options, kind, words):
    with pytest.raises(kind) as caught:
        hearth.IOArena(**options)
    assert words in str(caught.value)


def test_a_backing_that_is_not_in_the_build():
    if "jemalloc" in hearth.backings():
        assert hearth.IOArena(backing="jemalloc").empty(8).nbytes == 8
        return
    with pytest.raises(hearth.InvalidError, match=r"not in this build; backings\(\) tells"):
        hearth.IOArena(backing="jemalloc")


def test_to_ask_for_backings_is_no_misuse(capfd):
    assert hearth.backing() in hearth.backings()
    for name in hearth.backings():
        assert hearth.IOArena(backing=name).empty(8).nbytes == 8
    assert capfd.readouterr().err == ""


def test_options_but_capacity_go_by_name():
    with pytest.raises(TypeError):
        hearth.IOArena(8, 8)


@pytest.mark.parametrize("conf, expected", [("io_cap:0", "0"), ("io_cap:64K", "65536"),
                                            ("io_cap:unbounded", "None")])
def test_environment(conf, expected):
    done = subprocess.run(
        [sys.executable, "-c", "import hearth; print(hearth.IOArena().retention_limit)"],
        env={**os.environ, "HEARTH_CONF": conf}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [expected]


def test_wrong_environment():
    code = "import hearth\ntry: hearth.IOArena()\nexcept hearth.InvalidError as e: print(e.status)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "HEARTH_CONF": "io_cap:x"},
                          capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["INVALID"]
    assert "io_cap" in done.stderr


# Leasing


@pytest.mark.parametrize("shape, expected", [(0, (0,)), (5, (5,)), ((), ()), ((3, 4), (3, 4)),
                                             ([2, 0, 3], (2, 0, 3)), ((1,) * 8, (1,) * 8)])
def test_shapes(shape, expected):
    io = hearth.IOArena()
    lease = io.empty(shape, "float32")
    assert lease.shape == expected
    size = 4
    for length in expected:
        size *= length
    assert lease.nbytes == size
    assert io.live_bytes == size and io.leased_count == 1
    del lease
    assert all_home(io)


def test_the_default_type_is_bytes():
    lease = hearth.IOArena().empty(12)
    assert lease.dtype == "uint8" and lease.nbytes == 12


def test_arguments_by_name():
    lease = hearth.IOArena().empty(dtype="int16", shape=(2, 3), alignment=4096, timeout=None)
    assert lease.shape == (2, 3) and lease.dtype == "int16" and lease.address % 4096 == 0


@pytest.mark.parametrize("alignment", [0, 1, 8, 64, 128, 4096, 65536, 2 * MIB])
def test_alignment(alignment):
    lease = hearth.IOArena().empty(10, alignment=alignment)
    assert lease.address % max(alignment, 64) == 0


@pytest.mark.parametrize("method", ["empty", "zeros"])
@pytest.mark.parametrize("args, options, kind, words", [
    ((), {}, TypeError, "needs a shape"),
    ((1, "uint8", 64), {}, TypeError, "takes shape and dtype by place"),
    ((1,), {"shape": 2}, TypeError, "got 'shape' twice"),
    ((1,), {"order": "C"}, TypeError, "has no argument 'order'"),
    ((-1,), {}, hearth.InvalidError, ""),
    (((3, -1),), {}, hearth.InvalidError, ""),
    (("ab",), {}, TypeError, ""),
    (((1,) * 65,), {}, ValueError, ""),
    ((1, "nonsense"), {}, TypeError, ""),
    ((1,), {"alignment": 3}, hearth.InvalidError, "alignment must be a power of two"),
    ((1,), {"alignment": 4 * MIB}, hearth.InvalidError, "alignment must be a power of two"),
    ((1,), {"alignment": -64}, ValueError, "alignment must not be negative"),
    ((1,), {"timeout": -1}, hearth.InvalidError, "timeout must be a number of seconds"),
    ((1,), {"timeout": float("nan")}, hearth.InvalidError, "timeout must be a number of seconds"),
    ((1,), {"timeout": "1"}, TypeError, "timeout must be a number of seconds or None"),
])
def test_wrong_requests(method, args, options, kind, words):
    io = hearth.IOArena()
    with pytest.raises(kind) as caught:
        getattr(io, method)(*args, **options)
    assert words in str(caught.value)
    assert io.footprint == 0 and io.stats().misuses == 0
    assert all_home(io)


@pytest.mark.parametrize("shape", [1 << 62, (1 << 40, 1 << 40), (1 << 31, 1 << 31, 4),
                                   (sys.maxsize, 8)])
def test_huge_requests_change_nothing(shape):
    io = hearth.IOArena()
    kept = io.empty(4096)
    before = io.stats()
    with pytest.raises(hearth.NoMemoryError) as caught:
        io.empty(shape, "float64")
    assert caught.value.status == "OVERFLOW"
    assert isinstance(caught.value, MemoryError)
    assert io.stats() == before
    del kept


def test_zeros_are_zero_also_on_reused_storage():
    io = hearth.IOArena()
    for size in (1, 100, 4096, 3 * MIB):
        lease = io.empty(size)
        memoryview(lease)[:] = b"\xff" * size
        address = lease.address
        del lease
        lease = io.zeros(size)
        assert lease.address == address, "not reused, so this tests nothing"
        assert not any(lease.tobytes())
        del lease
    assert all_home(io)


def test_a_timeout_means_nothing_to_an_arena_that_grows():
    io = hearth.IOArena(live_limit=MIB)
    begin = time.monotonic()
    with pytest.raises(hearth.NoMemoryError):
        io.empty(2 * MIB, timeout=30)
    assert time.monotonic() - begin < 10
    assert io.empty(8, timeout=float("inf")).nbytes == 8


def test_reuse():
    io = hearth.IOArena()
    lease = io.empty(MIB)
    address = lease.address
    for _ in range(50):
        del lease
        lease = io.empty(MIB)
        assert lease.address == address
    assert io.stats().misses == 1 and io.stats().backing_acquires == 1


def test_from_dlpack_counts_as_leased():
    numpy = pytest.importorskip("numpy")
    io = hearth.IOArena()
    array = numpy.arange(6.0)
    lease = io.from_dlpack(array)
    assert io.leased_count == 1 and io.leased_bytes == 48 and io.footprint == 0
    del lease
    assert all_home(io)


# Figures


def test_accounting_of_random_work():
    io = hearth.IOArena()
    dice = random.Random(7)
    out = []
    for _ in range(2000):
        if out and dice.random() < 0.5:
            out.pop(dice.randrange(len(out)))
        else:
            out.append(io.empty(dice.choice((0, 1, 100, 5000, 100_000))))
        assert io.leased_count == len(out)
        assert io.leased_bytes == sum(lease.nbytes for lease in out)
    assert balanced(io)
    out.clear()
    assert all_home(io)
    now = io.stats()
    assert now.retained_bytes == now.footprint > 0
    assert now.backing_acquires - now.backing_releases == now.retained_count


def test_stats_say_what_the_properties_say():
    io = hearth.IOArena(retention_limit=5 * MIB)
    kept = [io.empty(1000), io.zeros(MIB)]
    io.empty(5000)
    now = io.stats()
    assert isinstance(now, hearth.IOArenaStats) and isinstance(now, tuple)
    for name in FIGURES:
        assert getattr(now, name) == getattr(io, name), name
    assert now.retention_cap == io.retention_limit == 5 * MIB
    assert now.slots == io.capacity
    assert now._fields == fields_of_stub("IOArenaStats")
    assert list(now._asdict()) == list(now._fields)
    assert tuple(now._asdict().values()) == now
    assert pickle.loads(pickle.dumps(now)) == now
    with pytest.raises(AttributeError):
        now.live_count = 3
    del kept


def test_peak():
    io = hearth.IOArena()
    lease = io.empty(3 * MIB)
    del lease
    assert io.peak_bytes == 3 * MIB
    assert io.reset_peak() is None
    assert io.peak_bytes == 0
    kept = io.empty(100)
    assert io.peak_bytes == 100
    del kept


def test_trim():
    io = hearth.IOArena()
    kept = io.empty(MIB)
    io.empty(2 * MIB)
    retained = io.retained_bytes
    assert retained >= 2 * MIB
    assert io.trim() == retained
    assert io.retained_bytes == 0 and io.trim() == 0
    memoryview(kept)[:] = b"x" * MIB
    assert balanced(io)


def test_retention_limit():
    io = hearth.IOArena()
    leases = [io.empty(MIB) for _ in range(4)]
    del leases
    assert io.retained_count == 4
    io.retention_limit = 2 * MIB
    assert io.retention_limit == 2 * MIB
    assert io.retained_bytes <= 2 * MIB and balanced(io)
    io.retention_limit = 0
    assert io.retention_limit == 0 and io.retained_bytes == 0
    io.empty(100)
    assert io.retained_count == 0
    io.retention_limit = None
    assert io.retention_limit is None
    io.empty(100)
    assert io.retained_count == 1


def test_retain_nothing_from_the_start():
    io = hearth.IOArena(retention_limit=0)
    assert io.retention_limit == 0
    io.empty(1)
    assert io.retained_count == 0 and io.footprint == 0
    assert io.stats().retention_cap == 0


@pytest.mark.parametrize("value, kind", [(-1, ValueError), (True, TypeError), ("1", TypeError),
                                         (1.0, TypeError), (1 << 70, OverflowError)])
def test_wrong_retention_limits(value, kind):
    io = hearth.IOArena(retention_limit=MIB)
    with pytest.raises(kind, match="retention_limit"):
        io.retention_limit = value
    assert io.retention_limit == MIB


def test_what_cannot_be_set():
    io = hearth.IOArena()
    with pytest.raises(AttributeError, match="retention_limit cannot be deleted; set it to None"):
        del io.retention_limit
    for name in FIGURES + ("capacity", "closed", "new_attribute"):
        with pytest.raises(AttributeError):
            setattr(io, name, 1)
    with pytest.raises(TypeError):
        hearth.IOArena.empty = None
    with pytest.raises(TypeError):
        type("Sub", (hearth.IOArena,), {})


# Python's own


def test_repr():
    io = hearth.IOArena()
    kept = io.empty(100)
    assert repr(io).startswith("<hearth.IOArena: 1 live of 100 bytes, 1 of them leased; 0 retained")
    io.close()
    assert ", closed" in repr(io)
    del kept


def test_equality_and_hash():
    one, other = hearth.IOArena(), hearth.IOArena()
    assert one == one and one != other and hash(one) == hash(one)
    assert one != 3 and len({one, other, one}) == 2
    with pytest.raises(TypeError):
        one < other


def test_weak_references():
    io = hearth.IOArena()
    gone = []
    reference = weakref.ref(io, gone.append)
    assert reference() is io
    del io
    assert reference() is None and len(gone) == 1


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps,
                                 lambda value: pickle.dumps(value, 0)])
def test_no_copies(how):
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        how(hearth.IOArena())


def test_signatures():
    assert str(inspect.signature(hearth.IOArena.empty)) == \
        "(self, /, shape, dtype='uint8', *, alignment=0, timeout=None)"
    assert list(inspect.signature(hearth.IOArena).parameters) == \
        ["capacity", "retention_limit", "live_limit", "reuse_ratio", "backing"]
    for name in dir(hearth.IOArena):
        if not name.startswith("_"):
            assert getattr(hearth.IOArena, name).__doc__, name


# Closing


def test_close():
    io = hearth.IOArena()
    kept = io.empty(5000)
    io.empty(MIB)
    assert io.close() is None
    assert io.closed
    assert io.close() is None
    for call in (lambda: io.empty(1), lambda: io.zeros(1), lambda: io.from_dlpack(kept),
                 io.__enter__, lambda: setattr(io, "retention_limit", 5)):
        with pytest.raises(hearth.ClosedError, match="IOArena") as caught:
            call()
        assert caught.value.status == "CLOSED"
    assert io.retained_bytes == 0, "close gives back what is retained"
    assert io.leased_count == 1 and io.leased_bytes == 5000, "what is out is still counted"
    memoryview(kept)[:] = b"y" * 5000
    del kept
    assert all_home(io) and io.footprint == 0
    assert io.trim() == 0


def test_context_manager():
    with hearth.IOArena() as io:
        assert not io.closed
        kept = io.empty(10)
    assert io.closed and kept.nbytes == 10
    with pytest.raises(ZeroDivisionError):
        with hearth.IOArena() as other:
            1 / 0
    assert other.closed


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("order", ["arena first", "lease first"])
def test_orders_of_going(close, order):
    io = hearth.IOArena()
    lease = io.empty(MIB)
    view = memoryview(lease)
    if close:
        io.close()
    if order == "arena first":
        del io
        gc.collect()
        del lease
        view[:] = b"z" * MIB
        assert view[MIB - 1] == ord("z")
        del view
    else:
        del lease, view
        assert all_home(io)


def test_many_arenas_leave_nothing():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def one():
        io = hearth.IOArena()
        lease = io.zeros(MIB)
        del io
        assert lease.nbytes == MIB

    for _ in range(20):
        one()
    before = resident()
    for _ in range(200):
        one()
    assert resident() - before < 40 * MIB


# Threads and processes


def test_threads_share_it():
    io = hearth.IOArena(retention_limit=32 * MIB)
    barrier = threading.Barrier(4)
    mailbox = []
    wrong = []

    def work(number):
        dice = random.Random(number)
        barrier.wait()
        mine = []
        for i in range(400):
            lease = io.empty(dice.choice((64, 4000, 70_000, MIB)))
            memoryview(lease)[:8] = number.to_bytes(8, "little")
            mine.append(lease)
            if len(mine) > 8:
                old = mine.pop(dice.randrange(8))
                if int.from_bytes(memoryview(old)[:8], "little") != number:
                    wrong.append(number)
                mailbox.append(old)
            if i % 3 == 0 and mailbox:
                mailbox.pop()
            if i % 97 == 0:
                io.trim()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    mailbox.clear()
    assert all_home(io)
    assert io.retained_bytes <= 32 * MIB
    now = io.stats()
    assert now.backing_acquires - now.backing_releases == now.retained_count
    assert now.misuses == 0
    io.trim()
    assert io.footprint == 0


def test_closing_while_others_lease():
    for _ in range(20):
        io = hearth.IOArena()
        errors = []

        def work():
            try:
                while True:
                    io.zeros(2 * MIB)
            except hearth.ClosedError:
                pass
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        io.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert not errors
        assert all_home(io)


def test_fork():
    io = hearth.IOArena()
    kept = io.empty(4096)
    memoryview(kept)[:] = b"p" * 4096
    io.empty(MIB)

    def child():
        assert bytes(memoryview(kept)[:2]) == b"pp"
        assert io.leased_count == 1
        again = io.empty(MIB)
        memoryview(again)[:] = b"c" * MIB
        del again
        assert balanced(io)
        io.trim()
        io.close()

    for _ in range(3):
        in_child(child)
    assert io.leased_count == 1 and bytes(memoryview(kept)[:2]) == b"pp"
    del kept
    assert all_home(io)


def square(number):
    with hearth.IOArena() as io:
        lease = io.zeros(number)
        return lease.nbytes ** 2


def test_multiprocessing_fork():
    io = hearth.IOArena()
    kept = io.empty(100)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(square, range(1, 6)) == [1, 4, 9, 16, 25]
    del kept
    assert all_home(io)


def test_an_arena_cannot_be_sent_to_a_process():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            pool.apply(id, (hearth.IOArena(),))
