# SPDX-License-Identifier: Apache-2.0
"""NumPy's allocator: which code uses it. It is a matter of the context, not of the thread or the process."""

import asyncio
import concurrent.futures
import contextvars
import copy
import pickle
import sys
import threading

import numpy as np
import pytest

import hearth
from numpy_support import LARGE, collect

DEFAULT = "default_allocator"


@pytest.fixture
def allocator():
    made = hearth.numpy_allocator(hearth.Service())
    yield made
    collect()
    figures = made.stats()
    assert figures.live_count == 0
    assert figures.allocations == figures.frees
    assert hearth.numpy_handler() == DEFAULT


def born_with():
    """The handler of an array that is made here and now."""
    return hearth.numpy_handler(np.empty(LARGE, np.uint8))


def in_thread(call, **keywords):
    """What a call returns on a new thread."""
    results = []
    thread = keywords.pop("kind", threading.Thread)(target=lambda: results.append(call()), **keywords)
    thread.start()
    thread.join()
    return results[0]


# Blocks


def test_a_block_ends(allocator):
    assert born_with() == DEFAULT
    with allocator as entered:
        assert entered is allocator
        assert born_with() == "hearth"
    assert born_with() == DEFAULT


def test_a_block_ends_with_an_exception(allocator):
    with pytest.raises(ZeroDivisionError):
        with allocator:
            1 / 0
    assert born_with() == DEFAULT


def test_blocks_nest(allocator):
    other = hearth.numpy_allocator(hearth.Service())
    with allocator:
        with other:
            inner = np.empty(LARGE, np.uint8)
            with allocator:
                innermost = np.empty(LARGE, np.uint8)
            again = np.empty(LARGE, np.uint8)
        outer = np.empty(LARGE, np.uint8)
    assert born_with() == DEFAULT
    assert (allocator.stats().live_count, other.stats().live_count) == (2, 2)
    del inner, innermost, again, outer
    assert (allocator.stats().live_count, other.stats().live_count) == (0, 0)


def test_an_allocator_is_entered_again_while_it_is(allocator):
    with allocator, allocator, allocator:
        assert born_with() == "hearth"
    assert born_with() == DEFAULT
    with allocator:
        assert born_with() == "hearth"
    assert born_with() == DEFAULT


def test_a_block_inside_an_install(allocator):
    other = hearth.numpy_allocator(hearth.Service())
    before = hearth.install_numpy(other)
    with allocator:
        born_with()
    assert allocator.stats().allocations == 1
    born_with()
    assert other.stats().allocations == 1
    hearth.uninstall_numpy(before)
    assert born_with() == DEFAULT


def test_an_exit_without_an_entry(allocator):
    with pytest.raises(RuntimeError, match="not entered in this context"):
        allocator.__exit__(None, None, None)
    allocator.__enter__()
    with pytest.raises(RuntimeError, match="not entered in this context"):
        contextvars.Context().run(allocator.__exit__, None, None, None)
    assert born_with() == "hearth"
    allocator.__exit__(None, None, None)


def test_blocks_that_generators_interleave(allocator):
    """A generator shares its caller's context, so a block in it may end after one that began later."""
    others = [hearth.numpy_allocator(hearth.Service()) for _ in range(2)]

    def generate(which):
        with which:
            yield

    first, second, third = (generate(which) for which in (allocator, *others))
    next(first)
    next(second)
    next(third)
    second.close()
    born_with()
    assert others[1].stats().allocations == 1
    first.close()
    born_with()
    assert others[1].stats().allocations == 2
    third.close()
    assert born_with() == DEFAULT


# Install and uninstall


def test_install_and_uninstall(allocator):
    state = hearth.install_numpy(allocator)
    array = np.ones(LARGE, np.uint8)
    assert hearth.numpy_handler(array) == "hearth"
    inner = hearth.uninstall_numpy()
    assert born_with() == DEFAULT
    hearth.uninstall_numpy(inner)
    assert born_with() == "hearth"
    hearth.uninstall_numpy(state)
    assert born_with() == DEFAULT
    assert array.all()


def test_install_makes_an_allocator_for_a_service():
    service = hearth.Service()
    state = hearth.install_numpy(service, threshold=1, zeros="warm")
    array = np.empty(10, np.uint8)
    hearth.uninstall_numpy(state)
    assert service.live_bytes == 10
    del array
    assert service.live_bytes == 0
    service.close()


def test_install_without_a_service_uses_the_processes(allocator):
    state = hearth.install_numpy()
    before = hearth.default_service().live_bytes
    array = np.empty(LARGE, np.uint8)
    assert hearth.default_service().live_bytes == before + LARGE
    del array
    hearth.uninstall_numpy(state)


def test_install_refuses_what_makes_no_sense(allocator):
    with pytest.raises(TypeError, match="numpy_allocator"):
        hearth.install_numpy(allocator, zeros="warm")
    for wrong in (1, "hearth", allocator, object()):
        with pytest.raises(TypeError, match="install_numpy"):
            hearth.uninstall_numpy(wrong)
    assert hearth.numpy_handler() == DEFAULT


def test_an_allocator_is_not_pickled(allocator):
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="in each process"):
            attempt(allocator)
    assert "zeros='lazy'" in repr(allocator)


# Threads


def test_a_new_thread_starts_with_numpys_own(allocator):
    inherits = getattr(sys.flags, "thread_inherit_context", 0)
    with allocator:
        assert in_thread(born_with) == ("hearth" if inherits else DEFAULT)
        assert born_with() == "hearth"


def test_numpy_thread_starts_with_its_makers(allocator):
    with allocator:
        assert in_thread(born_with, kind=hearth.NumpyThread) == "hearth"
    assert in_thread(born_with, kind=hearth.NumpyThread) == DEFAULT
    assert in_thread(born_with, kind=hearth.NumpyThread, allocator=allocator) == "hearth"
    assert allocator.stats().allocations == 2


def test_what_a_thread_enters_stays_in_it(allocator):
    entered, leave = threading.Event(), threading.Event()

    def body():
        with allocator:
            entered.set()
            leave.wait()
            return born_with()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(body)
        entered.wait()
        assert born_with() == DEFAULT
        leave.set()
        assert future.result() == "hearth"
        assert pool.submit(born_with).result() == DEFAULT


def test_one_allocator_in_many_threads_at_once(allocator):
    barrier = threading.Barrier(6)

    def body():
        for _ in range(20):
            with allocator:
                barrier.wait()
                with allocator:
                    assert born_with() == "hearth"
                barrier.wait()
            assert born_with() == DEFAULT
        return True

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(lambda _: body(), range(6)))


def test_a_pools_workers_by_its_initializer(allocator):
    with concurrent.futures.ThreadPoolExecutor(3, initializer=hearth.install_numpy, initargs=(allocator,)) as pool:
        assert set(pool.map(lambda _: born_with(), range(30))) == {"hearth"}
    with concurrent.futures.ThreadPoolExecutor(2, initializer=hearth.install_numpy) as pool:
        assert set(pool.map(lambda _: born_with(), range(10))) == {"hearth"}
    assert allocator.stats().allocations == 30
    assert born_with() == DEFAULT


def test_a_copied_context_takes_it_along(allocator):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with allocator:
            context = contextvars.copy_context()
            assert pool.submit(born_with).result() == DEFAULT
        assert pool.submit(context.run, born_with).result() == "hearth"


def test_a_change_in_a_context_stays_in_it(allocator):
    def body():
        hearth.install_numpy(allocator)
        return born_with()

    assert contextvars.copy_context().run(body) == "hearth"
    assert born_with() == DEFAULT


# asyncio


def test_tasks_inherit_and_do_not_leak(allocator):
    async def child(install):
        if install:
            hearth.install_numpy(allocator)
            await asyncio.sleep(0)
        return born_with()

    async def parent():
        outside = await asyncio.gather(child(False), child(True), child(False))
        with allocator:
            inside = await asyncio.gather(*[child(False) for _ in range(4)])
            in_a_thread = await asyncio.to_thread(born_with)
        return outside, inside, in_a_thread, born_with()

    outside, inside, in_a_thread, after = asyncio.run(parent())
    assert outside == [DEFAULT, "hearth", DEFAULT]
    assert inside == ["hearth"] * 4
    assert in_a_thread == "hearth"
    assert after == DEFAULT


def test_tasks_that_enter_at_the_same_time(allocator):
    async def body(steps):
        for _ in range(steps):
            with allocator:
                await asyncio.sleep(0)
                assert born_with() == "hearth"
            assert born_with() == DEFAULT
            await asyncio.sleep(0)

    async def all_of_them():
        await asyncio.gather(*[body(steps) for steps in (3, 5, 8)])

    asyncio.run(all_of_them())
    assert allocator.stats().allocations == 16
