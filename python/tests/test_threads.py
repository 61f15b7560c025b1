# SPDX-License-Identifier: Apache-2.0
"""Many threads lease, export and drop each other's arrays; natives delete without the GIL; trims go on meanwhile."""

import ctypes
import gc
import queue
import random
import threading
import time

import numpy as np
import pytest

import hearth
from support import VERSIONED, Watch, consume, in_thread, misuses, rounds, settled

THREADS = 4


def together(*bodies, timeout=120):
    """Run all bodies at the same time. The first exception of any is raised."""
    failures = []
    gate = threading.Barrier(len(bodies))

    def run(body):
        try:
            gate.wait()
            body()
        except BaseException as error:  # noqa: B902
            failures.append(error)

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if failures:
        raise failures[0]


@pytest.mark.parametrize("where", ["arena", "service", "limited"])
def test_producers_and_consumers(exactly_once, where):
    """Each array carries the number of its making in every element; nobody ever sees another."""
    service = None
    if where == "arena":
        io = hearth.IOArena()
    else:
        service = hearth.Service(ceiling=1 << 20 if where == "limited" else None)
        io = service.io
    waiting = queue.Queue(32)
    count = rounds(1500, 100)
    checked = []

    def produce(number):
        for index in range(count):
            value = number * count + index
            lease = io.empty(random.choice([1, 17, 500, 9000]), "int64")
            out = lease.numpy()
            out[:] = value
            export = random.choice([lambda: out, lambda: out[::-1], lambda: memoryview(lease), lambda: lease,
                                    lambda: np.from_dlpack(lease)])()
            del lease, out
            waiting.put((value, export))
        waiting.put(None)

    def consume_some():
        held = []
        while True:
            item = waiting.get()
            if item is None:
                break
            value, export = item
            assert (np.asarray(export) == value).all()
            held.append(item)
            if len(held) > 16:
                value, export = held.pop(random.randrange(len(held)))
                assert (np.asarray(export) == value).all()
                checked.append(value)
            del item, export
        for value, export in held:
            assert (np.asarray(export) == value).all()
            checked.append(value)

    stop = threading.Event()

    def trim():
        while not stop.wait(0.002):
            (service or io).trim()
            assert io.live_count >= 0 and io.stats().leased_count >= 0

    def ends():
        try:
            together(*[lambda number=number: produce(number) for number in range(THREADS)],
                     *[consume_some for _ in range(THREADS)])
        finally:
            stop.set()

    together(ends, trim)
    assert sorted(checked) == list(range(THREADS * count))
    assert settled(io)


def test_execution_arenas_of_many_threads_with_drops_elsewhere(exactly_once):
    service = hearth.Service()
    waiting = queue.Queue(64)
    count = rounds(1500, 100)

    def work(number):
        for index in range(count):
            out = service.execution.empty(random.choice([1, 17, 500, 9000]), "int64").numpy()
            out[:] = number
            waiting.put((number, out))
            if index % 2:
                value, other = waiting.get()
                assert (other == value).all()
                del other
            if index % 50 == 49:
                service.end_run()
            if index % 400 == 399:
                service.detach()

    def trim():
        for _ in range(rounds(100, 10)):
            service.trim()
            service.tick()
            service.stats()
            time.sleep(0.002)

    def drain():
        for _ in range(THREADS * count // 2):
            value, other = waiting.get(timeout=60)
            assert (other == value).all()
            del other

    together(*[lambda number=number: work(number) for number in range(THREADS)], trim, drain)
    while not waiting.empty():
        waiting.get()
    gc.collect()
    assert service.live_bytes == 0
    service.close()


def test_one_execution_arena_returned_to_from_all_threads(execution):
    waiting = [queue.Queue() for _ in range(THREADS)]
    count = rounds(3000, 200)

    def drop(number):
        while True:
            item = waiting[number].get()
            if item is None:
                return
            value, out = item
            assert (out == value).all()
            del item, out

    threads = [threading.Thread(target=drop, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for index in range(count):
        out = execution.empty(random.choice([1, 17, 500, 9000]), "int64").numpy()
        out[:] = index
        waiting[index % THREADS].put((index, out))
        del out
    for one in waiting:
        one.put(None)
    for thread in threads:
        thread.join(60)
    assert execution.live_count == 0


def test_one_lease_exported_and_dropped_by_all(arena):
    lease = arena.empty(256)
    watch = Watch(lease)
    lease.numpy()[:] = 5
    count = rounds(2000, 100)

    def body():
        for _ in range(count):
            kind = random.randrange(6)
            if kind == 0:
                assert (lease.numpy() == 5).all()
            elif kind == 1:
                assert memoryview(lease)[7] == 5
            elif kind == 2:
                assert (np.from_dlpack(lease) == 5).all()
            elif kind == 3:
                lease.__dlpack__(max_version=(1, 0))
            elif kind == 4:
                lease.view("uint16", offset=2).numpy()
            else:
                lease.exports

    together(*[body] * THREADS)
    assert lease.exports == 0 and watch.held
    del lease, body
    gc.collect()
    assert watch.returned


def test_a_race_of_release_and_export(io):
    """An export either happens and holds, or is refused: nothing between."""
    outcomes = set()
    for _ in range(rounds(300, 30)):
        lease = io.empty(64)
        lease.numpy()[:] = 3
        watch = Watch(lease)
        got = []

        def export():
            try:
                got.append(lease.numpy())
                got.append(lease.view())
                got.append(lease.__dlpack__())
            except hearth.ClosedError:
                outcomes.add("refused")

        together(export, lease.release, export)
        del export
        del lease
        assert watch.held == bool(got)
        for one in got:
            if isinstance(one, np.ndarray):
                assert (one == 3).all()
                outcomes.add("exported")
        got.clear()
        one = None
        assert watch.returned
    assert outcomes


def test_the_last_drop_races(io):
    """All threads let go of the same buffer at the same moment, each of its own export."""
    for _ in range(rounds(200, 20)):
        lease = io.empty(512)
        watch = Watch(lease)
        held = [[lease.numpy()], [lease.view()], [lease.__dlpack__(max_version=(1, 0))], [memoryview(lease)]]
        del lease
        together(*[one.clear for one in held])
        assert watch.returned
    assert io.live_count == 0


def test_natives_delete_while_python_leases(io, native):
    """Deleters on four native threads without the GIL, while Python threads lease and drop from the same arena."""
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            out = io.empty(random.choice([64, 4096, 1 << 17])).numpy()
            out[:] = 1
            part = out[::2]
            del out
            assert (part == 1).all()

    def delete():
        try:
            for _ in range(rounds(30, 3)):
                tensors = [consume(io.empty(random.choice([64, 4096, 1 << 17])).__dlpack__(**VERSIONED))
                           for _ in range(rounds(200, 40))]
                array = (ctypes.c_void_p * len(tensors))(*map(ctypes.addressof, tensors))
                assert native.native_delete_many(array, len(tensors), 1, 4) == 0
        finally:
            stop.set()

    def trim():
        while not stop.is_set():
            io.trim()

    together(delete, churn, churn, trim)
    assert settled(io)


def test_natives_delete_execution_buffers_while_the_owner_works(execution, native):
    done = threading.Event()
    waiting = queue.Queue()

    def delete():
        while True:
            tensors = waiting.get()
            if tensors is None:
                return
            array = (ctypes.c_void_p * len(tensors))(*map(ctypes.addressof, tensors))
            assert native.native_delete_many(array, len(tensors), 1, 4) == 0

    thread = threading.Thread(target=delete)
    thread.start()
    for index in range(rounds(100, 10)):
        tensors = [consume(execution.empty(random.choice([64, 4096, 1 << 17])).__dlpack__(**VERSIONED))
                   for _ in range(50)]
        waiting.put(tensors)
        execution.empty(4096).numpy()[:] = 1
        if index % 10 == 0:
            execution.trim()
    waiting.put(None)
    thread.join(60)
    done.set()
    assert execution.live_count == 0


def test_foreign_memory_deleted_from_everywhere(io, native):
    from support import capsule_new
    before, count = native.native_deletions(), rounds(500, 50)

    def body():
        for index in range(count):
            lease = io.from_dlpack(capsule_new(native.native_tensor(index & 1, 0, 32, 0), bool(index & 1)))
            out = lease.numpy()
            assert out[31] == 31
            if index % 3 == 0:
                tensor = consume(lease.__dlpack__(**VERSIONED))
                del lease, out
                assert native.native_delete_on_thread(ctypes.addressof(tensor), 1) == 0

    together(*[body] * THREADS)
    gc.collect()
    assert native.native_deletions() == before + THREADS * count


def test_arenas_are_made_and_dropped_by_all(exactly_once):
    """Arenas of all kinds come and go while their arrays travel."""
    waiting = queue.Queue()

    def body():
        for index in range(rounds(60, 6)):
            if index % 3 == 0:
                arena = hearth.Service(maintenance_thread=index % 2 == 0).io
            else:
                arena = (hearth.IOArena, hearth.ExecutionArena)[index % 2]()
            out = arena.empty(1000, "float64").numpy()
            out[:] = index
            waiting.put((index, out))
            del arena, out
            value, other = waiting.get()
            assert (other == value).all()

    together(*[body] * THREADS)
    gc.collect()


def test_requests_that_wait_let_others_run(exactly_once):
    """A request that waits for a return gives the GIL up: the return comes from another Python thread."""
    service = hearth.Service(exhaustion="wait", live_limit=1 << 20)
    io = service.io
    held = [io.empty(1 << 19)]
    while True:
        try:
            held.append(io.empty(1 << 19))
        except (hearth.NoMemoryError, hearth.WaitTimeoutError):
            break
    timer = threading.Timer(0.2, held.clear)
    timer.start()
    start = time.monotonic()
    lease = io.empty(1 << 19, timeout=30)
    assert time.monotonic() - start < 20 and lease.nbytes == 1 << 19
    timer.join()
    more = []
    with pytest.raises(hearth.WaitTimeoutError) as caught:
        while len(more) < 8:
            more.append(io.empty(1 << 19, timeout=0.05))
    assert isinstance(caught.value, TimeoutError) and caught.value.status == "TIMEOUT"
    del lease, more
    for wrong in (-1.0, float("nan"), "1"):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            io.empty(8, timeout=wrong)
    assert io.empty(8, timeout=0).nbytes == io.empty(8, timeout=1e300).nbytes == 8
    assert io.empty(8, timeout=float("inf")).nbytes == 8
    assert settled(io)
    service.close()


def test_a_wait_of_one_thread_stops_nobody(exactly_once):
    service = hearth.Service(exhaustion="wait", live_limit=1 << 20)
    io = service.io
    held = [io.empty(1 << 20)]
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.01):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(hearth.WaitTimeoutError):
        io.empty(1 << 20, timeout=0.5)
    stop.set()
    thread.join()
    assert len(ticks) > 10
    held.clear()
    assert in_thread(lambda: io.empty(1 << 20, timeout=5)).nbytes == 1 << 20
    service.close()


def test_signals_are_seen_while_a_request_waits(native_path):
    """Control-C during a wait without an end."""
    from support import run_python
    done = run_python("""
import signal
service = hearth.Service(exhaustion="wait", live_limit=1 << 16)
io = service.io
held = io.empty(1 << 16)
def handler(*unused):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    io.empty(1 << 16, timeout=4)
except KeyboardInterrupt:
    print("interrupted")
except hearth.WaitTimeoutError:
    print("timeout")
held = None
assert io.live_count == 0
""", timeout=60)
    assert done.stdout.strip() in ("interrupted", "timeout")


def test_sizes_of_closing_while_others_take(exactly_once):
    """Close races with requests: each is served or refused, and all comes back."""
    for _ in range(rounds(40, 4)):
        io = hearth.IOArena()
        taken = []

        def take():
            try:
                while True:
                    out = io.empty(4096).numpy()
                    out[:] = 1
                    taken.append(out)
                    if len(taken) > 500:
                        return
            except hearth.ClosedError:
                pass

        def close():
            time.sleep(0.001)
            io.close()

        together(take, take, close)
        assert all((one == 1).all() for one in taken)
        taken.clear()
        assert io.live_count == 0 and io.footprint == io.pending_bytes == 0


def test_misuse_never_happened_here():
    """Nothing that a Python program does reaches the library as a wrong return."""
    before = misuses()
    io = hearth.IOArena()
    lease = io.empty(64)
    for _ in range(3):
        lease.release()
        lease.__exit__(None, None, None)
    lease.__del__() if hasattr(lease, "__del__") else None
    del lease, io
    gc.collect()
    assert misuses() == before
