# SPDX-License-Identifier: Apache-2.0
"""Runs on executors, runs beside each other, and what an executor may do to its tasks."""

import ctypes
import gc
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import hearth
from kernels import add, address, c_kernel, chain, compile_c, double, one, square, wide

X = np.arange(20_000, dtype=np.float32) % 50


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("kernels"))


def idle(service):
    """Nothing is out, and nothing was returned twice. A thread that was joined may still be giving up its arenas."""
    gc.collect()
    end = time.monotonic() + 10
    while time.monotonic() < end and (service.io.live_count != 0 or service.live_bytes != 0):
        time.sleep(0.01)
    assert service.io.live_count == 0 and service.live_bytes == 0
    assert service.io.stats().misuses == 0


@pytest.fixture
def service():
    made = hearth.Service(age_runs=0, age_seconds=0, maintenance_thread=False)
    yield made
    idle(made)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(3) as made:
        yield made


def test_nodes_run_beside_each_other(service, pool):
    """Each of three kernels waits for the two others."""
    barrier = threading.Barrier(3)
    threads = set()

    def kernel(node):
        barrier.wait(30)
        threads.add(threading.get_ident())
        square(node)

    runtime = hearth.Runtime(wide(3, kernel), service=service)
    for _ in range(5):
        result = runtime.run({"x": X}, executor=pool)["y"]
        assert np.array_equal(result, 3 * X * X)
        assert runtime.last_run.threads == 3
    assert len(threads) >= 3


def test_the_callers_thread_alone_when_there_is_no_executor(service):
    threads = set()

    def kernel(node):
        threads.add(threading.get_ident())
        square(node)

    hearth.Runtime(wide(4, kernel), service=service).run({"x": X})
    assert threads == {threading.get_ident()}


def test_threads_bounds_the_helpers(service, pool):
    active, most, lock = [0], [0], threading.Lock()

    def kernel(node):
        with lock:
            active[0] += 1
            most[0] = max(most[0], active[0])
        time.sleep(0.002)
        square(node)
        with lock:
            active[0] -= 1

    runtime = hearth.Runtime(wide(8, kernel), service=service)
    for _ in range(3):
        runtime.run({"x": X}, executor=pool, threads=2)
    assert most[0] <= 2
    most[0] = 0
    runtime.run({"x": X}, executor=pool, threads=1)
    assert most[0] == 1


def test_c_kernels_beside_each_other(service, pool, library):
    calls = ctypes.c_int(0)
    runtime = hearth.Runtime(wide(8, c_kernel(library, "twice", calls)), service=service)
    for _ in range(20):
        assert np.array_equal(runtime.run({"x": X}, executor=pool)["y"], 16 * X)
    assert calls.value == 160


def test_a_mixed_graph_many_times(service, pool, library):
    """Python and C by turns; every output is right, and nothing is copied."""
    plan = hearth.Plan(["x"], ["y", "z"])
    kinds = [square, c_kernel(library, "twice_in_place", slot_aware=True), double, c_kernel(library, "twice")]
    for i in range(8):
        plan.add(kinds[i % 4], ["x"], [f"a{i}"])
        plan.add(kinds[(i + 1) % 4], [f"a{i}"], [f"b{i}"])
    for i in range(0, 8, 2):
        plan.add(add, [f"b{i}", f"b{i + 1}"], [f"c{i // 2}"])
    plan.add(add, ["c0", "c1"], ["d0"])
    plan.add(add, ["c2", "c3"], ["d1"])
    plan.add(add, ["d0", "d1"], ["y"])
    plan.add(c_kernel(library, "twice"), ["y"], ["z"])
    runtime = hearth.Runtime(plan, service=service)
    x = np.arange(100, dtype=np.float32) % 7
    expected = runtime.run({"x": x})
    kept = []
    for i in range(100):
        result = runtime.run({"x": x}, executor=pool)
        assert np.array_equal(result["y"], expected["y"]) and np.array_equal(result["z"], expected["z"])
        assert runtime.last_run.payload_copies == 0
        kept = (kept + [result])[-3:]


def test_a_second_thread_is_told_to_wait(service):
    inside, go_on = threading.Event(), threading.Event()

    def kernel(node):
        inside.set()
        assert go_on.wait(30)
        double(node)

    runtime = hearth.Runtime(one(kernel), service=service)
    results = []
    thread = threading.Thread(target=lambda: results.append(runtime.run({"x": X})))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(hearth.BusyError, match="Runtime"):
        runtime.run({"x": X})
    with pytest.raises(hearth.BusyError):
        runtime.clear()
    go_on.set()
    thread.join()
    assert np.array_equal(results[0]["y"], 2 * X)
    assert np.array_equal(runtime.run({"x": X})["y"], 2 * X)


def test_many_runtimes_on_one_plan_and_service(service):
    plan, errors = chain(), []

    def work(seed):
        try:
            runtime = hearth.Runtime(plan, service=service)
            x = np.full(5000 + seed, seed, dtype=np.float32)
            kept = []
            for _ in range(100):
                kept = (kept + [runtime.run({"x": x})["y"]])[-4:]
                assert all((y == 2 * seed * seed).all() for y in kept)
        except BaseException as error:  # noqa: B902 - told by the test's thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_runs_that_share_a_pool(service, pool):
    plan = wide(4)

    def work(seed):
        runtime = hearth.Runtime(plan, service=service)
        x = np.full(1000, seed, dtype=np.float32)
        return all((runtime.run({"x": x}, executor=pool)["y"] == 4 * seed * seed).all() for _ in range(50))

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(work, range(8)))


def test_a_run_from_a_thread_of_the_pool_itself(service):
    with ThreadPoolExecutor(1) as pool:
        runtime = hearth.Runtime(wide(4), service=service)
        result = pool.submit(lambda: runtime.run({"x": X}, executor=pool)["y"]).result(60)
        assert np.array_equal(result, 4 * X * X)


def test_the_first_exception_wins_and_the_next_run_works(service, pool):
    bad = [True]

    def kernel(node):
        if bad[0]:
            raise ValueError(node.name)
        square(node)

    runtime = hearth.Runtime(wide(6, kernel), service=service)
    for i in range(40):
        bad[0] = i % 2 == 0
        if bad[0]:
            with pytest.raises(ValueError, match="wide") as caught:
                runtime.run({"x": X}, executor=pool)
            assert len(caught.value.__notes__) == 1 and caught.value.args[0] in caught.value.__notes__[0]
            del caught
        else:
            assert np.array_equal(runtime.run({"x": X}, executor=pool)["y"], 6 * X * X)


def test_arrays_may_die_on_any_thread(service, pool):
    """Inputs, outputs and workspaces are dropped by a thread that no node ran on."""
    dropped = []

    def kernel(node):
        scratch = node.temporary(1000, "f4")
        square(node)
        dropped.append((scratch, node.inputs))

    runtime = hearth.Runtime(wide(4, kernel), service=service)
    for _ in range(20):
        runtime.run({"x": X}, executor=pool)
        thread = threading.Thread(target=dropped.clear)
        thread.start()
        thread.join()


def test_a_node_is_its_threads_alone(service):
    errors = []

    def kernel(node):
        def elsewhere():
            for call in (lambda: node.output(0, 3, "f4"), lambda: node.inputs, lambda: node.temporary(3),
                         lambda: node.put(0, X), lambda: node.role(0), lambda: node.name):
                try:
                    call()
                except hearth.NotOwnerError as error:
                    errors.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        double(node)

    hearth.Runtime(one(kernel), service=service).run({"x": X})
    assert len(errors) == 6 and "thread" in errors[0]


# Executors that behave strangely.


class Inline(Executor):
    """Calls at once, on the thread that asks."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Refusing(Executor):
    def submit(self, fn, /, *args, **kwargs):
        raise RuntimeError("cannot schedule new futures after shutdown")


class Dropping(Executor):
    """Takes everything, calls nothing."""

    def submit(self, fn, /, *args, **kwargs):
        return Future()


class Hoarding(Executor):
    """Keeps everything for later."""

    def __init__(self):
        self.tasks = []

    def submit(self, fn, /, *args, **kwargs):
        self.tasks.append(fn)
        return Future()


class QueuesAndFails(Hoarding):
    def submit(self, fn, /, *args, **kwargs):
        self.tasks.append(fn)
        raise RuntimeError("can't start new thread")


class Twice(Executor):
    """Calls each task on three threads."""

    def submit(self, fn, /, *args, **kwargs):
        for _ in range(3):
            threading.Thread(target=fn).start()
        return Future()


class CallsAndFails(Executor):
    def submit(self, fn, /, *args, **kwargs):
        fn()
        raise RuntimeError("after the call")


@pytest.mark.parametrize("kind", [Inline, Refusing, Dropping, Hoarding, QueuesAndFails, Twice, CallsAndFails])
def test_strange_executors(service, kind):
    runtime = hearth.Runtime(wide(5), service=service)
    for _ in range(10):
        executor = kind()
        for _ in range(3):
            assert np.array_equal(runtime.run({"x": X}, executor=executor, threads=4)["y"], 5 * X * X)
        for task in getattr(executor, "tasks", []):
            assert task() is None and task("ignored") is None


def test_tasks_that_come_late_help_the_next_run(service):
    executor = Hoarding()
    runtime = hearth.Runtime(wide(5), service=service)
    for _ in range(5):
        runtime.run({"x": X}, executor=executor, threads=3)
        tasks, executor.tasks = executor.tasks, []
        threads = [threading.Thread(target=task) for task in tasks]
        for thread in threads:
            thread.start()
        assert np.array_equal(runtime.run({"x": X}, executor=executor, threads=3)["y"], 5 * X * X)
        for thread in threads:
            thread.join()


def test_tasks_that_are_called_or_dropped_when_the_runtime_is_gone(service):
    for keep in True, False:
        executor = Hoarding()
        runtime = hearth.Runtime(wide(5), service=service)
        result = runtime.run({"x": X}, executor=executor, threads=4)["y"]
        del runtime
        gc.collect()
        for task in executor.tasks if keep else []:
            task()
        executor.tasks.clear()
        assert np.array_equal(result, 5 * X * X)


def test_a_pool_that_is_shut_down_in_a_run(service):
    for cancel in False, True:
        pool = ThreadPoolExecutor(2)

        def kernel(node):
            pool.shutdown(wait=False, cancel_futures=cancel)
            square(node)

        runtime = hearth.Runtime(wide(6, kernel), service=service)
        for _ in range(3):
            assert np.array_equal(runtime.run({"x": X}, executor=pool, threads=5)["y"], 6 * X * X)


def test_a_busy_pool(service):
    go_on = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(go_on.wait, 30) for _ in range(2)]
        runtime = hearth.Runtime(wide(6), service=service)
        for _ in range(5):
            assert np.array_equal(runtime.run({"x": X}, executor=pool)["y"], 6 * X * X)
            assert runtime.last_run.threads == 1
        del runtime
        go_on.set()
        assert all(future.result() for future in busy)


def test_processes_are_done_without(service):
    """A task cannot be sent to another process; the run goes on with the caller."""
    with ProcessPoolExecutor(1) as pool:
        runtime = hearth.Runtime(wide(3), service=service)
        assert np.array_equal(runtime.run({"x": X}, executor=pool)["y"], 3 * X * X)


def test_an_interrupt_in_submit_comes_through(service):
    class Interrupted(Executor):
        def submit(self, fn, /, *args, **kwargs):
            raise KeyboardInterrupt

    runtime = hearth.Runtime(wide(3), service=service)
    with pytest.raises(KeyboardInterrupt):
        runtime.run({"x": X}, executor=Interrupted(), threads=3)
    assert np.array_equal(runtime.run({"x": X})["y"], 3 * X * X)


def test_threads_of_an_executor_without_max_workers(service):
    class Bare:
        def __init__(self, pool):
            self.pool = pool

        def submit(self, call):
            return self.pool.submit(call)

    with ThreadPoolExecutor(2) as pool:
        runtime = hearth.Runtime(wide(4), service=service)
        assert np.array_equal(runtime.run({"x": X}, executor=Bare(pool))["y"], 4 * X * X)
        assert runtime.last_run.threads >= 1


def test_the_gil_goes_round(service, pool):
    """A run in C lets other threads work, and kernels in Python are not starved by them."""
    stop, turns = threading.Event(), [0]

    def spin():
        while not stop.is_set():
            turns[0] += 1

    thread = threading.Thread(target=spin)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        runtime = hearth.Runtime(wide(4), service=service)
        for _ in range(20):
            assert np.array_equal(runtime.run({"x": X}, executor=pool)["y"], 4 * X * X)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert turns[0] > 0


def test_churn(service, pool):
    """Runs, leaks, drops and failures on several threads at once; in the end everything is home."""
    plan = hearth.Plan(["x"], ["y", "z"])
    leaked, lock = [], threading.Lock()

    def leaking(node):
        scratch = node.temporary(node.inputs[0].shape, "f4")
        scratch[...] = node.inputs[0]
        out = node.output(0, scratch.shape, "f4")
        np.add(scratch, 1, out=out)
        with lock:
            leaked.append((out.copy(), out, scratch.copy(), scratch))
            if len(leaked) > 40:
                del leaked[:20]
        if scratch[0] % 7 == 6:
            raise ArithmeticError

    plan.add(leaking, ["x"], ["a"])
    plan.add(leaking, ["x"], ["b"])
    plan.add(add, ["a", "b"], ["y"])
    plan.add(leaking, ["y"], ["z"])

    def work(seed):
        random = np.random.default_rng(seed)
        runtime = hearth.Runtime(plan, service=service)
        for _ in range(60):
            value = float(random.integers(0, 20))
            x = np.full(int(random.integers(1, 30_000)), value, dtype=np.float32)
            try:
                result = runtime.run({"x": x}, executor=pool if random.integers(0, 2) else None)
            except ArithmeticError:
                continue
            assert (result["y"] == 2 * (value + 1)).all() and (result["z"] == 2 * (value + 1) + 1).all()
            with lock:
                assert all(np.array_equal(copy, array) for entry in leaked
                           for copy, array in (entry[:2], entry[2:]))
        return address(x)

    with ThreadPoolExecutor(3) as callers:
        assert len(list(callers.map(work, range(6)))) == 6
    leaked.clear()
