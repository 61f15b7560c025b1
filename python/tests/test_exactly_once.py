# SPDX-License-Identifier: Apache-2.0
"""Every buffer comes back once, whatever was done with it, and no valid array ever sees what was given back."""

import ctypes
import gc
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import hearth
from support import (LEGACY, PACKAGE, POISON_RETURNED, SANITIZED, SMOKE, SOURCES, VERSIONED, Consumer, Watch,
                     address_of, in_thread, misuses, rounds, run_python, settled)

LIFETIME = ["test_lifetime_views.py", "test_lifetime_dlpack.py", "test_lifetime_arena.py"]


def test_a_thousand_random_lives(arena):
    """Random exports and drops; the books agree at every step, the bytes at every look."""
    random.seed(7)
    live = []  # (value, watch, exports)
    for step in range(rounds(4000, 300)):
        if not live or random.random() < 0.4:
            value = step % 251
            lease = arena.empty(random.choice([1, 64, 333, 8192]))
            lease.numpy()[:] = value
            live.append((value, Watch(lease), [lease]))
            del lease
            continue
        value, watch, exports = live[random.randrange(len(live))]
        source = random.choice(exports)
        action = random.randrange(7)
        if action == 0 and isinstance(source, hearth.Lease) and not source.released:
            exports.append(random.choice([source.numpy, source.view, lambda: memoryview(source),
                                          lambda: Consumer(source), lambda: np.from_dlpack(source)])())
        elif action == 1 and isinstance(source, np.ndarray):
            exports.append(source[:])
        elif action == 2 and isinstance(source, hearth.Lease):
            source.release()
        elif action == 3 and isinstance(source, memoryview):
            exports.append(np.asarray(source))
        else:
            del exports[[one is source for one in exports].index(True)]
        for one in exports:
            if isinstance(one, np.ndarray):
                assert (one == value).all()
            elif isinstance(one, Consumer):
                assert one.bytes(1) == bytes([value])
        source = one = None
        assert watch.returned == (not exports)
        live = [entry for entry in live if entry[2]]
        assert arena.live_count == len(live)
    del live, exports


@pytest.mark.parametrize("drop", ["here", "thread", "gc"])
def test_counts_before_and_after(arena, drop):
    before = (arena.live_count, arena.live_bytes, arena.live_capacity)
    held = []
    for size in (0, 1, 100, 4096, 1 << 20):
        lease = arena.empty(size)
        held += [lease, lease.numpy(), lease.numpy()[::2], memoryview(lease), Consumer(lease, **LEGACY),
                 Consumer(lease, **VERSIONED), lease.__dlpack__(), lease.view()]
        del lease
    assert arena.live_count == before[0] + 5
    assert arena.live_bytes == before[1] + 1 + 100 + 4096 + (1 << 20)
    if drop == "gc":
        held.append(held)
        del held
        gc.collect()
    elif drop == "thread":
        in_thread(held.clear)
    else:
        held.clear()
    assert (arena.live_count, arena.live_bytes, arena.live_capacity) == before


def test_no_misuse_of_the_library_so_far():
    gc.collect()
    assert misuses() == 0, "some test of this process made a wrong call of the library"


POISONED = """
import numpy as np
live, gone = [], []
for arena in (hearth.IOArena(), hearth.ExecutionArena(), hearth.Service().io, hearth.Service().execution):
    for index in range(40):
        lease = arena.empty(4096)
        out = lease.numpy()
        if {fresh}:
            assert (out == 0xFA).all(), "never written"
        out[:] = index
        assert not arena.zeros(4096).numpy().any(), "zero is zero"
        if index % 4 == 0:
            live.append((index, out[::2], Watch(lease)))
        elif index % 4 == 1:
            live.append((index, np.from_dlpack(lease), Watch(lease)))
        elif index % 4 == 2:
            live.append((index, np.ndarray(4096, "u1", buffer=lease), Watch(lease)))
            lease.release()
        else:
            gone.append((lease.address, Watch(lease)))
        del lease, out
    if index % 2:
        arena.trim()
    if {close} and not hasattr(arena, "tick"):
        try:
            arena.close()
        except hearth.InvalidError:
            pass
    del arena
    gc.collect()
    for value, out, watch in live:
        assert watch.held and (out == value).all(), "a live view saw poison"
assert all(watch.returned for _, watch in gone)
while live:
    value, out, watch = live.pop()
    assert (out == value).all()
    del out
    assert watch.returned
print("clean")
"""


@pytest.mark.parametrize("conf", ["debug:poison", "debug:poison+quarantine", "debug:guard,io_cap:0,exec_cap:0",
                                  "debug:poison+sites"])
@pytest.mark.parametrize("close", [False, True])
def test_no_live_view_ever_sees_poison(conf, close):
    done = run_python(POISONED.format(fresh="poison" in conf, close=close), HEARTH_CONF=conf)
    assert "clean" in done.stdout and done.stderr == ""


@pytest.mark.skipif(SANITIZED, reason="the sanitizer ends who reads what was returned")
def test_what_was_returned_is_poisoned():
    """The poison works: bytes of a returned buffer, read behind everybody's back, are poison."""
    done = run_python("""
io = hearth.IOArena()
lease = io.empty(4096)
address = lease.address
part = lease.numpy()[1000:]
ctypes.memset(address, 7, 4096)
del lease
assert ctypes.string_at(address, 4096) == bytes([7]) * 4096
assert (part == 7).all()
del part
assert ctypes.string_at(address, 4096) == bytes([POISON_RETURNED]) * 4096
again = io.empty(4096)
assert again.address == address
assert ctypes.string_at(address, 4096) != bytes([POISON_RETURNED]) * 4096
print("poisoned")
""", HEARTH_CONF="debug:poison")
    assert "poisoned" in done.stdout
    assert POISON_RETURNED == 0xDB


def test_writes_through_valid_views_are_no_misuse():
    """Quarantine checks the bytes of what was returned: nobody may have written there."""
    done = run_python("""
for arena in (hearth.IOArena(), hearth.ExecutionArena()):
    for size in (64, 4096, 1 << 20):
        for _ in range(50):
            lease = arena.empty(size)
            out, part = lease.numpy(), lease.view("uint8", size // 2, offset=size // 2).numpy()
            out[:] = 1
            del lease, out
            part[:] = 2
            del part
    arena.trim()
    arena.close()
assert misuses() == 0
print("clean")
""", HEARTH_CONF="debug:quarantine+poison")
    assert "clean" in done.stdout and done.stderr == ""


@pytest.mark.skipif(SMOKE or bool(os.environ.get("HEARTH_CONF")), reason="all lifetime tests once more")
@pytest.mark.parametrize("conf", ["debug:poison+quarantine", "debug:guard,io_cap:0,exec_cap:0"])
def test_all_lifetimes_once_more_on_poisoned_and_guarded_storage(conf):
    """With guard pages and no retention a dangling array is a crash; with poison a wrong value."""
    environment = {**os.environ, "HEARTH_CONF": conf, "HEARTH_TEST_SMOKE": "1",
                   "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
                           "-k", "not warm and not unmapping", *[str(SOURCES / name) for name in LIFETIME]],
                          env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_leases_of_one_buffer_count_once(io):
    lease = io.empty(1000)
    views = [lease.view("uint8", 100, offset=100 * index) for index in range(10)]
    assert io.leased_count == io.live_count == 1 and io.leased_bytes == io.live_bytes == 1000
    watch = Watch(lease)
    del lease
    while views:
        assert watch.held
        views.pop()
    assert watch.returned


def test_the_books_of_a_service(service):
    held = [service.io.empty(1000), service.execution.empty(3000)]
    figures = service.stats()
    assert figures.live_bytes == service.live_bytes == 4000
    assert figures.footprint == service.footprint >= 4000
    held.clear()
    assert service.live_bytes == 0
    report = service.trim()
    assert report.released_bytes == report.released_exec_bytes + report.released_io_bytes > 0
    assert service.retained_bytes == 0 == service.footprint
    assert service.thread_count >= 1


def test_stats_are_one_reading(arena):
    held = [arena.empty(100) for _ in range(5)]
    figures = arena.stats()
    assert figures.consistent is True
    assert isinstance(figures, tuple) and figures.live_count == 5 and figures.live_bytes == 500
    assert figures.footprint == figures.live_capacity + figures.retained_bytes + figures.pending_bytes
    assert figures.live_capacity == arena.live_capacity
    with pytest.raises(AttributeError):
        figures.live_count = 3
    held.clear()
    assert arena.peak_bytes == 500
    arena.reset_peak()
    assert arena.peak_bytes == 0
    assert figures.live_count == 5


def test_pointers_of_dlpack_and_numpy_agree_after_reuse(io):
    """The same storage in many lives: each array sees its own life only."""
    where = set()
    for index in range(50):
        lease = io.empty(1 << 16)
        where.add(lease.address)
        consumer, out = Consumer(lease), lease.numpy()
        assert consumer.address == address_of(out) == lease.address
        out[:] = index
        assert consumer.bytes(8) == bytes([index]) * 8
        del lease, out
        ctypes.memset(consumer.address, index + 1, 8)
        del consumer
    assert len(where) == 1
