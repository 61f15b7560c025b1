# SPDX-License-Identifier: Apache-2.0
"""Forked children have copies: dropping theirs gives nothing of the parent's back."""

import gc
import multiprocessing
import os
import sys
import threading
import traceback

import numpy as np
import pytest

import hearth
from support import SANITIZED, Consumer, Watch, in_thread, rounds, settled

pytestmark = pytest.mark.skipif(SANITIZED, reason="forks of many threads under a sanitizer")


def in_child(body):
    """Run in a forked child and wait; a failure there is one here. The child leaves without finalization."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            body()
            os._exit(0)
        except BaseException:  # noqa: B902
            os.write(writer, traceback.format_exc().encode())
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"exit status {status}\n{text}"


@pytest.mark.parametrize("kind", ["numpy", "memoryview", "dlpack", "lease"])
def test_a_child_drops_its_copy(arena, kind):
    lease = arena.empty((8, 8), "float64")
    lease.numpy()[...] = 3
    watch = Watch(lease)
    held = [{"numpy": lambda: lease.numpy()[2:], "memoryview": lambda: memoryview(lease),
             "dlpack": lambda: np.from_dlpack(lease), "lease": lambda: lease}[kind]()]
    del lease

    def child():
        assert (np.asarray(held[0]) == 3).all()
        held.clear()
        gc.collect()
        assert watch.returned and arena.live_count == 0
        again = arena.empty((8, 8), "float64").numpy()
        again[...] = 9

    in_child(child)
    assert watch.held and arena.live_count == 1
    assert (np.asarray(held[0]) == 3).all()
    held.clear()
    del child
    assert watch.returned


def test_a_child_uses_every_arena(exactly_once):
    service, io, execution = hearth.Service(), hearth.IOArena(), hearth.ExecutionArena()
    before = [service.io.empty(1 << 16), service.execution.empty(1 << 16), io.empty(1 << 16),
              execution.empty(1 << 16)]

    def child():
        for arena in (service.io, service.execution, io, execution):
            out = arena.empty(1 << 16).numpy()
            out[:] = 1
            held = [out[5:]]
            del out
            in_thread(held.clear)
        service.trim()
        service.tick()
        io.trim()
        execution.trim()
        before.clear()
        gc.collect()
        assert service.live_bytes == 0 and io.live_count == 0 and execution.live_count == 0
        hearth.Service().io.empty(64)
        hearth.IOArena().empty(64)
        service.close()

    for _ in range(3):
        in_child(child)
    assert io.live_count == 1 and execution.live_count == 1 and service.live_bytes == 2 << 16
    before.clear()
    assert settled(io)
    service.close()


def test_a_child_of_a_child(arena):
    lease = arena.empty(64)
    out = lease.numpy()
    out[:] = 1

    def grandchild():
        assert (out == 2).all()
        out[:] = 3

    def child():
        out[:] = 2
        in_child(grandchild)
        assert (out == 2).all()

    in_child(child)
    assert (out == 1).all(), "pages are copied on write"


def test_a_child_ends_in_the_ordinary_way(native_path):
    """sys.exit() in the child: finalization there, and the parent's leases are untouched."""
    from support import run_python
    from test_finalization import observed
    done = run_python("""
import numpy as np
io = hearth.IOArena()
service = hearth.Service()
lease = io.empty(64)
out = lease.numpy()
out[:] = 5
more = service.execution.empty(64).numpy()
capsule = lease.__dlpack__(max_version=(1, 0))
native.native_watch(lease.address)
sys.stdout.flush()
child = os.fork()
if child == 0:
    native.native_quiet()
    out[:] = 6
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert (out == 5).all() and io.live_count == 1
""", native=native_path)
    assert observed(done.stdout)["out"] == 0 and done.stderr == ""


def test_forks_while_threads_lease(exactly_once):
    """Children of a process whose other threads are in the middle of anything."""
    service, io = hearth.Service(), hearth.IOArena()
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for arena in (io, service.io, service.execution):
                out = arena.empty(5000).numpy()
                out[:] = 1
                Consumer(arena.empty(64), max_version=(1, 0))

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()

    def child():
        for arena in (io, service.io, service.execution):
            out = arena.empty(5000).numpy()
            out[:] = 2
            assert (out == 2).all()
            del out
        hearth.IOArena().empty(64)
        io.trim()

    try:
        for _ in range(rounds(30, 3)):
            in_child(child)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert settled(io)
    assert service.live_bytes == 0
    service.close()


def _square(number):
    out = hearth.IOArena().empty(4, "int64").numpy()
    out[:] = number
    return int((out * number).sum())


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing(exactly_once, method):
    sys.path.insert(0, os.path.dirname(__file__))
    try:
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(_square, range(10)) == [4 * n * n for n in range(10)]
    finally:
        sys.path.pop(0)


def test_arrays_are_sent_to_other_processes_by_value(io):
    out = io.empty(1000, "int64").numpy()
    out[:] = 3
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        assert pool.apply(np.sum, (out,)) == 3000
        again = pool.apply(np.multiply, (out, 2))
    assert (again == 6).all()
    with pytest.raises(TypeError):
        multiprocessing.reduction.ForkingPickler.dumps(io.empty(8))
