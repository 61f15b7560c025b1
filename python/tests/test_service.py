# SPDX-License-Identifier: Apache-2.0
"""Service: its options, limits and verbs, its arenas on all threads, waiting, closing in any order, fork."""

import ast
import copy
import gc
import inspect
import multiprocessing
import os
import pathlib
import pickle
import random
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

import hearth

MIB = 1 << 20

FIGURES = ("live_bytes", "live_capacity", "retained_bytes", "footprint", "thread_count")


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


def threads_are(service, count):
    """A thread's arena is given up a moment after join(), by what runs at its very end."""
    deadline = time.monotonic() + 20
    while service.thread_count != count and time.monotonic() < deadline:
        time.sleep(0.001)
    return service.thread_count == count


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


def all_home(service):
    gc.collect()
    assert (service.live_bytes, service.live_capacity, service.io.leased_count) == (0, 0, 0)
    return True


def fields_of_stub(name):
    text = pathlib.Path(hearth.__file__).with_name("_core.pyi").read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return tuple(line.target.id for line in node.body if isinstance(line, ast.AnnAssign))
    raise AssertionError(name)


# Construction


def test_defaults():
    service = hearth.Service()
    assert service.ceiling is None and not service.closed
    assert service.backing == hearth.backing()
    for name in FIGURES:
        assert getattr(service, name) == 0, name
    assert service.io.retention_limit is None
    assert service.execution.retention_limit is None


def test_options_hold():
    service = hearth.Service(execution_limit=3 * MIB, io_limit=2 * MIB, ceiling=8 * MIB,
                             live_limit=32 * MIB, exhaustion="fail", reuse_ratio=2, age_runs=5,
                             age_seconds=0.5, store="spans", scrub=True, maintenance_thread=False,
                             huge_pages=False, backing="mmap")
    assert service.execution.retention_limit == 3 * MIB
    assert service.io.retention_limit == 2 * MIB
    assert service.ceiling == 8 * MIB
    assert service.backing == "mmap"
    with pytest.raises(hearth.NoMemoryError):
        service.io.empty(100)


@pytest.mark.parametrize("options", [
    {}, {"execution_limit": 0}, {"io_limit": 0}, {"ceiling": 0}, {"ceiling": 4096}, {"live_limit": MIB},
    {"exhaustion": "grow"}, {"exhaustion": "wait"}, {"reuse_ratio": 1}, {"age_runs": 0}, {"age_runs": 1},
    {"age_seconds": 0}, {"age_seconds": 1e-9}, {"age_seconds": float("inf")}, {"store": "lists"},
    {"store": "plans"}, {"scrub": True}, {"maintenance_thread": False}, {"huge_pages": True},
    {"huge_pages": None}, {"backing": "mmap", "huge_pages": True}, {"backing": None}])
def test_each_option_serves(options):
    service = hearth.Service(**options)
    for arena in (service.io, service.execution):
        for size in (0, 100, 5000, MIB // 4):
            lease = arena.zeros(size)
            assert not any(lease.tobytes())
            memoryview(lease)[:] = b"x" * size
            del lease
    service.end_run()
    service.tick()
    assert all_home(service)
    service.trim()
    assert service.retained_bytes == 0 == service.footprint


@pytest.mark.parametrize("options, kind, words", [
    ({"execution_limit": -1}, ValueError, "execution_limit must not be negative"),
    ({"io_limit": True}, TypeError, "io_limit must be an integer or None, not a bool"),
    ({"ceiling": "1G"}, TypeError, "ceiling must be an integer or None"),
    ({"live_limit": 0}, hearth.InvalidError, "live_limit must be at least 1"),
    ({"exhaustion": "block"}, hearth.InvalidError, 'exhaustion must be one of "grow", "fail", "wait"'),
    ({"reuse_ratio": 0}, hearth.InvalidError, "reuse_ratio must be from 1 to 1024"),
    ({"age_runs": -1}, ValueError, "age_runs must not be negative"),
    ({"age_runs": 1 << 32}, hearth.InvalidError, "age_runs"),
    ({"age_seconds": -0.5}, hearth.InvalidError, "age_seconds must be a number of seconds"),
    ({"age_seconds": "1"}, TypeError, "age_seconds must be a number of seconds"),
    ({"store": "trees"}, hearth.InvalidError, 'store must be one of "lists", "spans", "plans"'),
    ({"huge_pages": "always"}, TypeError, "huge_pages must be True, False or None"),
    ({"backing": "sbrk"}, hearth.InvalidError, 'backing must be one of "jemalloc", "mmap"'),
    ({"capacity": 1}, TypeError, "capacity"),
])
def test_wrong_options(options, kind, words):
    with pytest.raises(kind) as caught:
        hearth.Service(**options)
    assert words in str(caught.value)


def test_options_go_by_name():
    with pytest.raises(TypeError):
        hearth.Service(MIB)
    assert list(inspect.signature(hearth.Service).parameters) == [
        "execution_limit", "io_limit", "ceiling", "live_limit", "exhaustion", "reuse_ratio",
        "age_runs", "age_seconds", "store", "scrub", "maintenance_thread", "huge_pages", "backing"]


# Arenas


def test_the_io_arena_is_one_object():
    service = hearth.Service()
    io = service.io
    assert io is service.io and isinstance(io, hearth.IOArena)
    assert io != hearth.Service().io and io != hearth.IOArena()
    assert repr(io).startswith("<hearth.IOArena of a service: 0 live")
    reference = weakref.ref(service)
    del service
    assert reference() is None, "nothing goes round"
    assert io.empty(8).nbytes == 8


def test_arenas_of_a_service_do_not_close():
    service = hearth.Service()
    for arena, remedy in ((service.io, "Service.close()"), (service.execution, "Service.detach()")):
        for call in (arena.close, arena.__enter__, lambda: arena.__exit__(None, None, None)):
            with pytest.raises(hearth.InvalidError) as caught:
                call()
            assert remedy in str(caught.value)
        assert not arena.closed
    with pytest.raises(hearth.InvalidError, match="its service's"):
        service.execution.release_owner()
    assert service.execution.stats().misuses == 0


def test_the_execution_arena_is_the_threads():
    service = hearth.Service()
    mine = service.execution
    assert mine == service.execution and hash(mine) == hash(service.execution)
    assert isinstance(mine, hearth.ExecutionArena)
    assert repr(mine) == "<hearth.ExecutionArena of a service, for this thread>"
    assert in_thread(lambda: service.execution) != mine
    assert mine != hearth.Service().execution
    lease = mine.empty(100)
    assert service.execution.live_count == 1
    assert in_thread(lambda: service.execution.live_count) == 0
    del lease
    mine.retention_limit = 0
    assert service.execution.retention_limit == 0


def test_an_execution_arena_on_another_thread():
    service = hearth.Service()
    mine = service.execution
    uses = (lambda: mine.empty(1), lambda: mine.zeros(1), lambda: mine.live_count, mine.stats,
            mine.trim, mine.reset_peak, mine.run_begin, mine.run_end, lambda: mine.capacity,
            lambda: mine.retention_limit, lambda: setattr(mine, "retention_limit", 3))
    for use in uses:
        with pytest.raises(hearth.NotOwnerError, match="ask Service.execution on this thread") as caught:
            in_thread(use)
        assert caught.value.status == "NOT_OWNER"
    assert service.thread_count == 1, "to be refused attaches nobody"
    assert in_thread(lambda: repr(mine)).endswith("for another thread>")
    assert in_thread(lambda: mine.closed) is False
    assert mine.stats().misuses == 0


def test_an_execution_arena_whose_thread_is_gone():
    service = hearth.Service()
    for _ in range(20):
        gone = in_thread(lambda: service.execution)
        in_thread(lambda: service.execution.empty(64))
        with pytest.raises(hearth.NotOwnerError):
            gone.live_count
        with pytest.raises(hearth.NotOwnerError):
            gone.empty(8)
        # A new thread may get the ended one's identifier, but never its name.
        with pytest.raises(hearth.NotOwnerError):
            in_thread(lambda: gone.stats())
    held = [gone]
    del service, gone
    in_thread(held.clear)


def test_buffers_outlive_their_thread():
    service = hearth.Service()
    lease = in_thread(lambda: service.execution.empty(MIB))
    memoryview(lease)[:] = b"t" * MIB
    assert service.live_bytes == MIB
    del lease
    assert all_home(service)
    assert service.execution.empty(MIB).nbytes == MIB


def test_the_next_thread_gets_the_warm_storage():
    service = hearth.Service()
    address = in_thread(lambda: service.execution.empty(MIB).address)
    assert threads_are(service, 0)
    assert service.retained_bytes >= MIB
    assert in_thread(lambda: service.execution.empty(MIB).address) == address


def test_detach():
    service = hearth.Service()
    mine = service.execution
    kept = mine.empty(MIB)
    assert service.thread_count == 1
    assert service.detach() is None
    assert service.thread_count == 0
    assert service.detach() is None
    other = in_thread(lambda: service.execution.empty(4096))
    memoryview(kept)[:] = b"d" * MIB
    assert mine.empty(10).nbytes == 10, "it attaches anew"
    assert threads_are(service, 1)
    del kept, other
    assert all_home(service)


def test_thread_count():
    service = hearth.Service()
    gate, out = threading.Barrier(4), threading.Event()

    def work():
        service.execution
        gate.wait()
        out.wait()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    gate.wait()
    assert service.thread_count == 3
    out.set()
    for thread in threads:
        thread.join()
    assert threads_are(service, 0)


# Limits and figures


def test_ceiling():
    service = hearth.Service(ceiling=64 * MIB)
    service.io.empty(4 * MIB)
    service.execution.empty(4 * MIB)
    assert service.retained_bytes >= 8 * MIB
    service.ceiling = 5 * MIB
    assert service.ceiling == 5 * MIB
    assert service.retained_bytes <= 5 * MIB
    service.ceiling = 0
    assert service.ceiling == 0 and service.retained_bytes == 0
    service.io.empty(100)
    assert service.retained_bytes == 0
    service.ceiling = None
    assert service.ceiling is None
    service.io.empty(100)
    assert service.retained_bytes > 0
    assert hearth.Service(ceiling=0).ceiling == 0
    for value, kind in ((-1, ValueError), (True, TypeError), ("1", TypeError)):
        with pytest.raises(kind, match="ceiling"):
            service.ceiling = value
    with pytest.raises(AttributeError, match="ceiling cannot be deleted; set it to None"):
        del service.ceiling


def test_live_limit_counts_both_domains():
    service = hearth.Service(live_limit=4 * MIB)
    kept = [service.io.empty(2 * MIB), service.execution.empty(MIB)]
    for arena in (service.io, service.execution):
        with pytest.raises(hearth.NoMemoryError) as caught:
            arena.empty(2 * MIB)
        assert caught.value.status == "NO_MEMORY"
    assert service.live_capacity <= 4 * MIB
    kept.pop()
    kept.append(service.io.empty(MIB))
    del kept
    assert all_home(service)


def test_stats():
    service = hearth.Service(ceiling=32 * MIB)
    kept = [service.io.empty(2 * MIB), service.execution.empty(MIB)]
    service.io.empty(MIB)
    now = service.stats()
    assert isinstance(now, hearth.ServiceStats)
    for name in FIGURES + ("ceiling",):
        assert getattr(now, name) == getattr(service, name), name
    assert now.footprint == now.execution_footprint + now.io_footprint
    assert now.io_footprint == service.io.footprint
    assert now.execution_footprint == service.execution.footprint
    assert now.footprint == now.live_capacity + now.retained_bytes
    assert now.live_bytes == 3 * MIB and now.waiter_count == 0
    assert now._fields == fields_of_stub("ServiceStats")
    assert pickle.loads(pickle.dumps(now)) == now
    del kept


def test_trim():
    service = hearth.Service()
    kept = service.io.empty(MIB)
    service.io.empty(2 * MIB)
    service.execution.empty(4 * MIB)
    in_thread(lambda: service.execution.empty(3 * MIB))
    assert threads_are(service, 1)
    footprint = service.footprint
    report = service.trim()
    assert isinstance(report, hearth.TrimReport)
    assert report._fields == fields_of_stub("TrimReport")
    assert report.released_bytes == report.released_exec_bytes + report.released_io_bytes
    assert report.released_io_bytes >= 2 * MIB and report.released_exec_bytes >= 7 * MIB
    assert report.kept_leased == service.io.live_capacity
    assert report.more is False
    assert footprint - report.released_bytes == service.footprint
    assert service.retained_bytes == 0
    del kept


def test_trim_with_a_goal_and_a_budget():
    service = hearth.Service()
    leases = [service.io.empty(MIB) for _ in range(8)]
    del leases
    before = service.retained_bytes
    report = service.trim(0)
    assert report.released_bytes == 0 and service.retained_bytes == before
    report = service.trim(2 * MIB)
    assert 2 * MIB <= report.released_bytes <= 3 * MIB + 4096
    report = service.trim(goal=MIB, budget=5)
    assert report.elapsed_ns < 5e9
    begin = time.monotonic()
    service.trim(budget=0)
    assert time.monotonic() - begin < 5
    service.trim(budget=float("inf"))
    assert service.retained_bytes == 0
    for wrong in ({"goal": -1}, {"goal": True}, {"goal": "1"}, {"budget": -1}, {"budget": "1"},
                  {"budget": float("nan")}):
        with pytest.raises((ValueError, TypeError)) as caught:
            service.trim(**wrong)
        assert list(wrong)[0] in str(caught.value)


def test_ageing_by_ticks():
    service = hearth.Service(maintenance_thread=False, age_seconds=0.05)
    service.io.empty(2 * MIB)
    service.execution.empty(2 * MIB)
    deadline = time.monotonic() + 20
    while service.retained_bytes and time.monotonic() < deadline:
        time.sleep(0.01)
        assert service.tick() is None
    assert service.retained_bytes == 0


def test_ageing_by_runs():
    service = hearth.Service(maintenance_thread=False, age_runs=4, age_seconds=0)
    service.execution.empty(2 * MIB)
    for _ in range(40):
        service.execution.empty(100)
        assert service.end_run() is None
    assert service.execution.retained_bytes < 2 * MIB


def test_ageing_by_the_maintenance_thread():
    service = hearth.Service(age_seconds=0.05)
    service.io.empty(32 * MIB)
    deadline = time.monotonic() + 20
    while service.retained_bytes and time.monotonic() < deadline:
        time.sleep(0.02)
    assert service.retained_bytes == 0


# Waiting


def test_a_request_that_waits():
    service = hearth.Service(live_limit=2 * MIB, exhaustion="wait")
    held = [service.io.empty(2 * MIB)]
    with pytest.raises(hearth.NoMemoryError):
        service.io.empty(MIB)
    begin = time.monotonic()
    with pytest.raises(hearth.WaitTimeoutError, match="IOArena.empty of 1048576 bytes") as caught:
        service.io.empty(MIB, timeout=0.1)
    assert 0.09 < time.monotonic() - begin < 10
    assert isinstance(caught.value, TimeoutError) and caught.value.status == "TIMEOUT"
    with pytest.raises(hearth.WaitTimeoutError):
        service.io.empty(MIB, timeout=0)

    def give_back():
        while service.stats().waiter_count == 0:
            time.sleep(0.001)
        held.clear()

    thread = threading.Thread(target=give_back)
    thread.start()
    lease = service.io.zeros(MIB, timeout=30)
    assert not any(lease.tobytes())
    thread.join()
    del lease
    assert all_home(service)


def test_a_wait_longer_than_a_slice():
    """Longer than requests wait without looking for signals."""
    service = hearth.Service(live_limit=MIB, exhaustion="wait")
    held = [service.io.empty(MIB)]
    begin = time.monotonic()
    with pytest.raises(hearth.WaitTimeoutError):
        service.io.empty(MIB, timeout=1.3)
    assert 1.25 < time.monotonic() - begin < 20
    timer = threading.Timer(1.2, held.clear)
    timer.start()
    assert service.io.empty(MIB, timeout=float("inf")).nbytes == MIB
    timer.join()


def test_a_signal_ends_a_wait():
    service = hearth.Service(live_limit=MIB, exhaustion="wait")
    held = service.io.empty(MIB)

    def interrupt(number, frame):
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        begin = time.monotonic()
        with pytest.raises(InterruptedError):
            service.io.empty(MIB, timeout=60)
        assert time.monotonic() - begin < 20
    finally:
        signal.signal(signal.SIGALRM, before)
    assert service.stats().waiter_count == 0
    del held
    assert all_home(service)


def test_close_wakes_those_that_wait():
    service = hearth.Service(live_limit=MIB, exhaustion="wait")
    held = service.io.empty(MIB)
    with ThreadPoolExecutor(3) as pool:
        waits = [pool.submit(service.io.empty, MIB, timeout=60) for _ in range(3)]
        while service.stats().waiter_count < 3:
            time.sleep(0.001)
        service.close()
        for wait in waits:
            assert isinstance(wait.exception(30), hearth.ClosedError)
    del held
    assert all_home(service)


def test_many_that_wait_get_their_turn():
    service = hearth.Service(live_limit=4 * MIB, exhaustion="wait")

    def work(number):
        for _ in range(60):
            lease = service.io.empty(MIB, timeout=60)
            memoryview(lease)[:8] = number.to_bytes(8, "little")
            time.sleep(0)
            assert int.from_bytes(memoryview(lease)[:8], "little") == number
            del lease
        return number

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(work, range(8))) == list(range(8))
    assert all_home(service)


# Closing


def test_close():
    service = hearth.Service()
    io, execution = service.io, service.execution
    kept = [io.empty(5000), execution.empty(5000)]
    io.empty(MIB)
    execution.empty(MIB)
    assert service.close() is None
    assert service.closed and io.closed and execution.closed
    assert service.close() is None
    for call in (lambda: io.empty(1), lambda: execution.empty(1), lambda: service.execution,
                 service.end_run, service.__enter__, lambda: setattr(service, "ceiling", 5),
                 execution.trim, lambda: execution.live_count,
                 lambda: setattr(io, "retention_limit", 5)):
        with pytest.raises(hearth.ClosedError) as caught:
            call()
        assert caught.value.status == "CLOSED"
    assert service.retained_bytes == 0, "close gives back what is retained"
    assert service.live_bytes == 10_000 and service.io.leased_count >= 1
    assert service.tick() is None and service.detach() is None
    assert service.trim().released_bytes == 0
    assert ", closed" in repr(service) and ", closed" in repr(io) and ", closed" in repr(execution)
    for lease in kept:
        memoryview(lease)[:] = b"y" * 5000
    del kept, lease
    assert all_home(service)
    service.trim()  # what came back to an arena that this thread gave up is pending
    assert service.footprint == 0


def test_context_manager():
    with hearth.Service() as service:
        kept = service.io.empty(10)
    assert service.closed and kept.nbytes == 10


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_orders_of_going(seed, close):
    service = hearth.Service()
    things = [service, service.io, service.execution, service.io.empty(MIB),
              service.execution.empty(MIB)]
    views = [memoryview(things[3]), memoryview(things[4])]
    if close:
        service.close()
    del service
    dice = random.Random(seed)
    dice.shuffle(things)
    while things:
        if dice.random() < 0.5:
            things.pop()
        else:
            in_thread(things.pop)
        gc.collect()
        for view in views:
            view[:] = b"v" * MIB
    in_thread(views.clear)


def test_many_services_leave_nothing():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def one():
        service = hearth.Service()
        io, execution = service.io, service.execution
        lease = io.zeros(MIB)
        del service
        execution.zeros(MIB)
        del io, execution
        assert lease.nbytes == MIB

    for _ in range(20):
        one()
    before = resident()
    for _ in range(150):
        one()
    assert resident() - before < 40 * MIB


# Python's own


def test_repr_and_attributes():
    service = hearth.Service()
    assert repr(service) == "<hearth.Service: 0 bytes live, 0 retained; 0 threads>"
    for name in FIGURES + ("io", "execution", "backing", "closed", "new_attribute"):
        with pytest.raises(AttributeError):
            setattr(service, name, 1)
    with pytest.raises(TypeError):
        type("Sub", (hearth.Service,), {})
    for name in dir(hearth.Service):
        if not name.startswith("_"):
            assert getattr(hearth.Service, name).__doc__, name


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copies(how):
    service = hearth.Service()
    for thing in (service, service.io, service.execution):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            how(thing)


# Threads and processes


def test_threads():
    service = hearth.Service(ceiling=24 * MIB, live_limit=256 * MIB)
    mailbox, wrong = [], []

    def work(number):
        dice = random.Random(number)
        mine = []
        for i in range(300):
            arena = service.io if dice.random() < 0.5 else service.execution
            lease = arena.empty(dice.choice((64, 4000, 70_000, MIB)))
            memoryview(lease)[:8] = number.to_bytes(8, "little")
            mine.append(lease)
            if len(mine) > 8:
                old = mine.pop(dice.randrange(8))
                if int.from_bytes(memoryview(old)[:8], "little") != number:
                    wrong.append(number)
                mailbox.append(old)
            try:
                while len(mailbox) > 30:
                    mailbox.pop()
            except IndexError:
                pass
            if i % 50 == 0:
                service.trim(budget=0.001)
            service.end_run()
            assert service.retained_bytes <= 24 * MIB

    with ThreadPoolExecutor(4) as pool:
        for result in [pool.submit(work, n) for n in range(8)]:
            result.result(120)
    assert not wrong
    mailbox.clear()
    assert all_home(service)
    service.trim()
    now = service.stats()
    assert now.footprint == now.live_capacity + now.retained_bytes


def test_closing_while_threads_work():
    for _ in range(10):
        service = hearth.Service()
        errors = []

        def work():
            try:
                while True:
                    service.io.zeros(2 * MIB)
                    service.execution.zeros(2 * MIB)
                    service.trim(budget=0.0001)
            except hearth.ClosedError:
                pass
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        service.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert not errors, errors
        assert all_home(service)


def test_fork():
    service = hearth.Service()
    io, execution = service.io, service.execution
    kept = [io.empty(4096), execution.empty(4096)]
    for lease in kept:
        memoryview(lease)[:] = b"p" * 4096
    del lease
    io.empty(MIB)
    in_thread(lambda: service.execution.empty(MIB))

    def child():
        assert bytes(memoryview(kept[0])[:2]) == bytes(memoryview(kept[1])[:2]) == b"pp"
        assert execution == service.execution and execution.live_count == 1
        for arena in (io, execution):
            again = arena.zeros(MIB)
            assert not any(again.tobytes())
            del again
        in_thread(lambda: service.execution.empty(100))
        kept.clear()
        assert all_home(service)
        service.trim()
        service.tick()
        service.close()

    for _ in range(3):
        in_child(child)
    assert service.live_bytes == 8192
    kept.clear()
    assert all_home(service)


def test_fork_while_threads_work():
    service = hearth.Service()
    stop = threading.Event()

    def work():
        while not stop.is_set():
            service.execution.zeros(2 * MIB)
            service.io.zeros(2 * MIB)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()

    def child():
        service.execution.zeros(MIB)
        service.io.zeros(MIB)
        service.trim()
        service.stats()
        service.close()

    for _ in range(10):
        in_child(child)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert all_home(service)


def total(size):
    with hearth.Service() as service:
        lease = service.io.zeros(size)
        scratch = service.execution.zeros(size)
        return lease.nbytes + scratch.nbytes


def test_multiprocessing_fork():
    service = hearth.Service()
    kept = service.io.empty(100)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(total, (1, 10, MIB)) == [2, 20, 2 * MIB]
    del kept
    assert all_home(service)
