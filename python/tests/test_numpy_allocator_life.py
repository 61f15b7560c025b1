# SPDX-License-Identifier: Apache-2.0
"""NumPy's allocator: arrays outlive the block, the allocator, the service; every block comes home once."""

import gc
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import hearth
from numpy_support import LARGE, MIB, Raw, collect, fill, pattern, read


@pytest.fixture
def service():
    made = hearth.Service()
    yield made
    collect()
    assert made.live_bytes == 0
    made.close()


def made_in(allocator, size=LARGE):
    data = pattern(size)
    with allocator:
        return data.copy()


def intact(array):
    return bool((array == pattern(array.size)).all())


# What arrays outlive


def test_arrays_outlive_the_block_and_the_allocator(service):
    allocator = hearth.numpy_allocator(service)
    gone = weakref.ref(allocator)
    array = made_in(allocator)
    del allocator
    collect()
    assert gone() is None
    assert service.live_bytes == LARGE
    assert intact(array)
    array.resize(8 * MIB, refcheck=False)
    assert intact(array[:LARGE])
    del array
    assert service.live_bytes == 0


def test_arrays_outlive_an_uninstall(service):
    allocator = hearth.numpy_allocator(service)
    state = hearth.install_numpy(allocator)
    array = np.empty(LARGE, np.uint8)
    array[:] = pattern(LARGE)
    hearth.uninstall_numpy(state)
    other = np.ones(LARGE, np.uint8)
    assert intact(array) and other.all()
    assert allocator.stats().live_count == 1
    del array
    assert allocator.stats().live_count == 0


def test_arrays_outlive_the_service_object():
    service = hearth.Service()
    gone = weakref.ref(service)
    allocator = hearth.numpy_allocator(service)
    arrays = [made_in(allocator, LARGE + i) for i in range(4)]
    del service, allocator
    collect()
    assert gone() is None
    assert all(intact(array) for array in arrays)
    while arrays:
        arrays.pop()
        collect()
        assert all(intact(array) for array in arrays)


def test_arrays_outlive_a_closed_service():
    service = hearth.Service()
    allocator = hearth.numpy_allocator(service)
    data = pattern(LARGE)
    with allocator:
        before = data.copy()
        service.close()
        assert (before == data).all()
        after = np.zeros(LARGE, np.uint8)
        assert not after.any()
        after[:] = data
        grown = data.copy()
        grown.resize(4 * MIB, refcheck=False)
        before.resize(4 * MIB, refcheck=False)
        assert (before[:LARGE] == data).all() and (grown[:LARGE] == data).all()
        small = np.ones(100, np.uint8)
        small.resize(LARGE, refcheck=False)
        assert small[:100].all()
        figures = allocator.stats()
    assert (figures.allocations, figures.live_count, figures.failures) == (1, 0, 0)
    assert figures.fallbacks >= 3
    assert service.live_bytes == 0
    assert (after == data).all()


def test_a_block_shrinks_and_grows_in_a_closed_service():
    service = hearth.Service()
    allocator = hearth.numpy_allocator(service)
    array = made_in(allocator, 4 * MIB)
    service.close()
    array.resize(3 * MIB, refcheck=False)
    assert intact(array)
    array.resize(4 * MIB, refcheck=False)
    assert intact(array[: 3 * MIB])
    assert allocator.stats().live_count == 1
    array.resize(1000, refcheck=False)
    assert intact(array)
    assert (allocator.stats().live_count, service.live_bytes) == (0, 0)


def test_the_default_service_is_kept_and_made_anew_when_closed():
    first = hearth.default_service()
    assert hearth.default_service() is first
    state = hearth.install_numpy()
    array = np.ones(LARGE, np.uint8)
    first.close()
    hearth.install_numpy()
    second = hearth.default_service()
    assert second is not first and not second.closed
    assert np.ones(LARGE, np.uint8).all() and array.all()
    hearth.uninstall_numpy(state)


# Every block comes home once


def test_counters_after_random_work(service):
    allocator = hearth.numpy_allocator(service)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    live = []
    with allocator:
        for _ in range(2000):
            what = chance.random()
            size = chance.choice([100, 200_000, 262_144, 300_000, MIB, 3 * MIB])
            if what < 0.4:
                live.append(np.empty(size, np.uint8))
                live[-1][:8] = size % 251
            elif what < 0.5:
                live.append(np.zeros(size, np.uint8))
                assert not live[-1].any()
                live[-1][:8] = size % 251
            elif what < 0.6 and live:
                index = chance.randrange(len(live))
                first = live[index][0]
                live[index].resize(size, refcheck=False)
                assert (live[index][:8] == first).all()
            elif live:
                live.pop(chance.randrange(len(live)))
            if len(live) > 40:
                del live[::2]
    del live
    collect()
    figures = allocator.stats()
    assert figures.allocations == figures.frees > 500
    assert (figures.live_count, figures.live_bytes, figures.refused, figures.foreign) == (0, 0, 0, 0)
    assert service.live_bytes == 0


def test_arrays_in_cycles(service):
    allocator = hearth.numpy_allocator(service)
    with allocator:
        for _ in range(10):
            node = {"array": np.ones(LARGE, np.uint8)}
            node["self"] = node
        del node
        collect()
    assert allocator.stats().live_count == 0


def test_arrays_of_objects(service):
    allocator = hearth.numpy_allocator(service)
    with allocator:
        array = np.empty(100_000, object)
        array[:] = [object()] * 100_000
        assert allocator.stats().live_count >= 1
        del array
    assert allocator.stats().live_count == 0


def test_pickles_of_arrays(service):
    allocator = hearth.numpy_allocator(service)
    array = made_in(allocator)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert intact(pickle.loads(pickle.dumps(array, protocol)))
    with allocator:
        copy = pickle.loads(pickle.dumps(array))
        assert intact(copy)
    del array, copy
    assert allocator.stats().live_count == 0


def test_threads_that_free_each_others_arrays(service):
    allocator = hearth.numpy_allocator(service)
    shelf = [None] * 64
    failures = []

    def body(seed):
        chance = random.Random(seed)
        hearth.install_numpy(allocator)
        for step in range(400):
            at = chance.randrange(len(shelf))
            size = chance.choice([300_000, MIB, 100])
            mark = (seed * 31 + step) % 251
            array = np.empty(size, np.uint8) if step % 3 else np.zeros(size, np.uint8)
            if step % 3 == 0 and array[:: 4096].any():
                failures.append("not zero")
            array[:16] = mark
            array[-16:] = mark
            shelf[at] = (mark, array)  # drops another thread's
            taken = shelf[chance.randrange(len(shelf))]
            if taken is not None:
                mark, array = taken
                if (array[:16] != mark).any() or (array[-16:] != mark).any():
                    failures.append("overwritten")
            del taken, array

    threads = [threading.Thread(target=body, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    shelf.clear()
    collect()
    figures = allocator.stats()
    assert figures.allocations == figures.frees
    assert (figures.live_bytes, figures.refused, figures.foreign) == (0, 0, 0)


def test_calls_without_the_gil(service):
    """ctypes gives the GIL up, so these calls overlap as on an interpreter without one. Of large blocks alone:
    NumPy's own calloc() for small ones gives up the GIL, which must be held then."""
    allocator = hearth.numpy_allocator(service)
    failures = []

    def body(seed):
        raw = Raw(allocator)
        chance = random.Random(seed)
        mark = pattern(4096, seed).tobytes()
        for _ in range(300):
            size = chance.choice([400_000, MIB, 2 * MIB])
            at = raw.malloc(size) if chance.random() < 0.7 else raw.calloc(size, 1)
            fill(at, mark)
            other = chance.choice([400_000, MIB, 5_000_000])
            at = raw.realloc(at, other)
            if read(at, 4096) != mark:
                failures.append(seed)
            raw.free(at, other)

    threads = [threading.Thread(target=body, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    figures = allocator.stats()
    assert figures.allocations == figures.frees
    assert (figures.live_bytes, figures.refused) == (0, 0)


def test_trims_while_arrays_come_and_go(service):
    allocator = hearth.numpy_allocator(service)
    held = made_in(allocator)
    stop = threading.Event()

    def trim():
        while not stop.is_set():
            service.trim()

    thread = threading.Thread(target=trim)
    thread.start()
    with allocator:
        for _ in range(100):
            array = np.zeros(LARGE, np.uint8)
            assert not array.any()
            array.fill(9)
            del array
    stop.set()
    thread.join()
    assert intact(held)
    service.trim()
    assert service.retained_bytes == 0
    del held


def test_tracemalloc_sees_a_block_once(service):
    with hearth.numpy_allocator(service):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            array = np.empty(8 * MIB, np.uint8)
            grown = tracemalloc.get_traced_memory()[0] - before
            assert 8 * MIB <= grown < 9 * MIB
            del array
            assert tracemalloc.get_traced_memory()[0] - before < MIB
        finally:
            tracemalloc.stop()


# Processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_goes_on(service):
    allocator = hearth.numpy_allocator(service)
    with allocator:
        array = made_in(allocator)
        warm = np.ones(4 * MIB, np.uint8)
        del warm
        child = os.fork()
        if child == 0:
            status = 1
            try:
                good = intact(array) and hearth.numpy_handler() == "hearth"
                for _ in range(20):
                    fresh = np.ones(4 * MIB, np.uint8)
                    zeros = np.zeros(LARGE, np.uint8)
                    good = good and fresh.all() and not zeros.any()
                    zeros.fill(3)
                    del fresh, zeros
                array.resize(3 * MIB, refcheck=False)
                good = good and intact(array[:LARGE])
                del array
                gc.collect()
                good = good and allocator.stats().live_count == 0
                good = good and in_a_thread(allocator)
                status = 0 if good else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert intact(array)
    del array


def in_a_thread(allocator):
    seen = []
    thread = hearth.NumpyThread(target=lambda: seen.append(np.ones(LARGE, np.uint8).all()), allocator=allocator)
    thread.start()
    thread.join()
    return seen == [True]


def script(text, *options):
    return subprocess.run([sys.executable, *options, "-c", textwrap.dedent(text)], capture_output=True, text=True,
                          timeout=120)


@pytest.mark.parametrize("holder", [
    "keep = array",
    "cycle = [array]; cycle.append(cycle)",
    "cycle = [array]; cycle.append(cycle); import gc; gc.disable()",
    "import builtins; builtins.kept = array",
    "import sys; sys.kept = array",
    "import threading; local = threading.local(); local.array = array",
    "import atexit; atexit.register(lambda array=array: array.sum())",
    "type('Holder', (), {'array': array})",
    "allocator.__enter__()",
    "hearth.default_service().close()",
    "import weakref; weakref.finalize(array.view(type('Sub', (np.ndarray,), {})), print, end='')",
])
def test_interpreters_end_with_live_arrays(holder):
    done = script(f"""
        import numpy as np, hearth
        allocator = hearth.numpy_allocator()
        hearth.install_numpy(allocator)
        array = np.ones(1 << 20)
        zeros = np.zeros(1 << 23)
        {holder}
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interpreter_ends_while_daemons_allocate():
    done = script("""
        import threading, time
        import numpy as np, hearth

        def body():
            held = []
            while True:
                held.append(np.ones(1 << 17))
                if len(held) > 10:
                    held.clear()

        with hearth.numpy_allocator():
            for _ in range(3):
                hearth.NumpyThread(target=body, daemon=True).start()
        time.sleep(0.3)
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_handler_ends_with_its_last_block():
    """By the library's books: the service ends when neither a handler nor a block holds it."""
    service = hearth.Service()
    allocator = hearth.numpy_allocator(service)
    raw = Raw(allocator)
    free, context = raw.table.free, raw.table.ctx
    at = raw.malloc(MIB)
    del service, allocator, raw
    collect()
    # The capsule is gone, the table is not.
    free(context, at, MIB)
