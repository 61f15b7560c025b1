# SPDX-License-Identifier: Apache-2.0
"""What a run handed out outlives everything: the next run, clear(), the runtime, the plan, the service, the
interpreter. And it goes home exactly once."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest

import hearth
from kernels import add, address, chain, compile_c, c_kernel, double, one, square, wide

X = np.arange(30_000, dtype=np.float32) % 100
Y = 2 * X * X


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("kernels"))


class Arenas:
    """Arenas of their own, whose figures can be read when the runtime is gone."""

    def __init__(self):
        self.execution, self.io = hearth.ExecutionArena(), hearth.IOArena()

    def runtime(self, plan):
        return hearth.Runtime(plan, execution_arena=self.execution, io_arena=self.io)

    def out(self):
        gc.collect()
        return self.execution.live_count, self.io.live_count


@pytest.fixture
def arenas():
    made = Arenas()
    yield made
    assert made.out() == (0, 0)
    assert made.io.stats().misuses == 0 and made.execution.stats().misuses == 0
    assert made.execution.stats().allocs == made.execution.stats().frees


def test_outputs_outlive_the_runs_after_them(arenas):
    runtime = arenas.runtime(chain())
    kept = [runtime.run({"x": X + i})["y"] for i in range(10)]
    assert len({address(y) for y in kept}) == 10
    for i, y in enumerate(kept):
        assert np.array_equal(y, 2 * (X + i) * (X + i))
    assert arenas.out() == (0, 10)
    del kept, y
    assert arenas.out() == (0, 0)
    for _ in range(5):
        runtime.run({"x": X})
    assert arenas.io.stats().misses == 10


def test_outputs_outlive_everything():
    service = hearth.Service()
    plan = chain()
    runtime = hearth.Runtime(plan, service=service)
    array, lease = runtime.run({"x": X})["y"], runtime.run({"x": X}, leases=True)["y"]
    view = array[5:].reshape(5, -1).T
    runtime.clear()
    runtime.run({"x": X * 0})
    del runtime, plan
    gc.collect()
    for _ in range(3):  # somebody else uses what there is
        hearth.Runtime(chain(), service=service).run({"x": X * 0})
    assert service.io.leased_count == 2
    service.close()
    del service
    gc.collect()
    assert np.array_equal(array, Y) and np.array_equal(lease.numpy(), Y)
    del array
    assert np.array_equal(view, Y[5:].reshape(5, -1).T)


def test_everything_that_a_kernel_can_keep(arenas):
    kept = []

    def keeping(node):
        (x,) = node.inputs
        scratch = node.temporary(x.shape, x.dtype)
        scratch[...] = x
        out = node.output(0, x.shape, x.dtype)
        np.add(x, scratch, out=out)
        kept.append((x, scratch, out, x.copy(), scratch.copy(), out.copy(), node))

    runtime = arenas.runtime(chain(keeping, keeping))
    x = X.copy()
    for _ in range(3):
        runtime.run({"x": x})
    # A feed is the caller's; twice three workspaces and three intermediates; three outputs.
    assert arenas.out() == (9, 3)
    runtime.clear()
    del runtime
    arenas.io.trim()
    arenas.execution.trim()
    for given, scratch, out, *copies, node in kept:
        for array, copy in zip((given, scratch, out), copies):
            assert np.array_equal(array, copy)
    assert address(kept[0][0]) == address(x)
    del given, scratch, out, copies, node, array, copy
    kept.clear()


def test_a_kept_input_keeps_the_feed(arenas):
    kept = []

    class Sub(np.ndarray):
        pass

    def keeping(node):
        kept.append(node.inputs[0])
        double(node)

    runtime = arenas.runtime(one(keeping))
    feed = X.view(Sub)
    alive = weakref.ref(feed)
    runtime.run({"x": feed})
    grows = bytearray(X.tobytes())
    runtime.run({"x": memoryview(grows).cast("f")})
    del feed
    gc.collect()
    assert alive() is not None and np.array_equal(kept[0], X)
    with pytest.raises(BufferError):
        grows.extend(b"more")
    kept.clear()
    gc.collect()
    assert alive() is None
    grows.extend(b"more")


def test_a_kept_staged_input(arenas):
    kept = []

    def keeping(node):
        kept.append(node.inputs[0])
        double(node)

    runtime = arenas.runtime(one(keeping))
    feed = np.repeat(X, 2)
    for _ in range(3):
        runtime.run({"x": feed[::2]})
    feed[:] = 0
    assert arenas.out() == (0, 3)
    assert all(np.array_equal(x, X) and not x.flags.writeable for x in kept)


def test_a_kept_input_that_was_fed_as_a_lease(arenas):
    kept = []

    def keeping(node):
        kept.append(node.inputs[0])
        double(node)

    lease = arenas.io.empty(X.shape, X.dtype)
    lease.numpy()[...] = X
    arenas.runtime(one(keeping)).run({"x": lease})
    lease.release()
    del lease
    assert arenas.out() == (0, 1) and np.array_equal(kept[0], X)


def test_a_node_is_over_when_its_kernel_is(arenas):
    kept = []

    def keeping(node):
        kept.append(node)
        double(node)

    arenas.runtime(one(keeping)).run({"x": X})
    (node,) = kept
    for call in (lambda: node.inputs, lambda: node.name, lambda: node.output_count, lambda: node.role(0),
                 lambda: node.output(0, 3, "f4"), lambda: node.put(0, X), lambda: node.temporary(3)):
        with pytest.raises(hearth.ClosedError, match="returned"):
            call()
    assert "returned" in repr(node)
    assert arenas.out() == (0, 0)


def test_a_node_is_over_when_its_kernel_failed(arenas):
    kept = []

    def keeping(node):
        node.inputs
        node.output(0, 3, "f4")
        kept.append(node)
        raise ValueError

    with pytest.raises(ValueError):
        arenas.runtime(one(keeping)).run({"x": X})
    with pytest.raises(hearth.ClosedError):
        kept[0].inputs


class Sly:
    """A shape that uses up the node while it is read."""

    def __init__(self, action):
        self.action = action

    def __len__(self):
        return 1

    def __getitem__(self, index):
        if index != 0:
            raise IndexError
        self.action()
        return 8


def test_arguments_that_do_things(arenas):
    def kernel(node):
        node.output(0, Sly(lambda: node.output(0, 3, "f4")), "f4")[...] = 1
        node.temporary(Sly(lambda: node.put(0, X)))
        node.put(0, node.output(0, Sly(lambda: node.inputs), "f4"))
        node.output(0, 8, "f4")[...] = 2

    assert arenas.runtime(one(kernel)).run({"x": X})["y"].tolist() == [2] * 8


def test_intermediates_that_c_kernels_made(arenas, library):
    kept = []

    def keeping(node):
        kept.append((node.inputs[0], node.inputs[0].copy()))
        double(node)

    plan = hearth.Plan(["x"], ["y"])
    plan.add(c_kernel(library, "twice_in_place", slot_aware=True), ["x"], ["a"])
    plan.add(keeping, ["a"], ["b"])
    plan.add(c_kernel(library, "twice_in_place", slot_aware=True), ["b"], ["c"])
    plan.add(c_kernel(library, "twice_in_place", slot_aware=True), ["c"], ["d"])
    plan.add(keeping, ["d"], ["y"])
    runtime = arenas.runtime(plan)
    for _ in range(5):
        assert np.array_equal(runtime.run({"x": X})["y"], 32 * X)
    del runtime
    assert arenas.out() == (10, 0)
    assert all(np.array_equal(array, copy) for array, copy in kept)


def test_what_failed_leaves_nothing(arenas):
    def late(node):
        node.temporary(100)
        node.output(0, 100, "f4")
        raise ValueError

    plan = hearth.Plan(["x"], ["a", "y"])
    plan.add(square, ["x"], ["a"])
    plan.add(double, ["a"], ["b"])
    plan.add(late, ["b"], ["y"])
    runtime = arenas.runtime(plan)
    for _ in range(5):
        with pytest.raises(ValueError):
            runtime.run({"x": np.repeat(X, 2)[::2]})
        assert arenas.out() == (0, 0)


def test_cycles_through_outputs(arenas):
    """An output in a cycle with its runtime goes home when the collector comes."""

    class Holder:
        pass

    holder = Holder()
    holder.runtime = arenas.runtime(one(lambda node: (holder, double(node))))
    holder.result = holder.runtime.run({"x": X})["y"]
    alive = weakref.ref(holder)
    del holder
    assert arenas.out() == (0, 0) and alive() is None


def test_exactly_once_in_many_runs(arenas):
    random = np.random.default_rng(5)
    kept = []

    def keeping(node):
        x = node.inputs[0]
        kept.append(node.temporary(int(random.integers(0, 5000)), "f8"))
        kept.append(x)
        kept.append(node.output(0, x.shape, x.dtype))
        kept[-1][...] = x
        if random.integers(0, 10) == 0:
            raise ValueError

    plan = hearth.Plan(["x"], ["y", "z"])
    plan.add(keeping, ["x"], ["a"])
    plan.add(keeping, ["a"], ["b"])
    plan.add(keeping, ["b"], ["y"])
    plan.add(keeping, ["y"], ["z"])
    runtime = arenas.runtime(plan)
    for _ in range(300):
        x = np.full(int(random.integers(0, 20_000)), random.integers(0, 100), dtype=np.float32)
        try:
            kept.extend(runtime.run({"x": x}).values())
        except ValueError:
            pass
        while len(kept) > 50:
            del kept[int(random.integers(0, len(kept)))]
    kept.clear()
    del x


def test_a_kernel_that_drops_the_runtime(arenas):
    held = []

    def kernel(node):
        held.clear()
        gc.collect()
        double(node)

    held.append(arenas.runtime(one(kernel)))
    assert np.array_equal(held[0].run({"x": X})["y"], 2 * X)


def test_a_feed_that_is_changed_by_a_kernel(arenas):
    """A dictionary that is emptied in the run: the feeds are kept by it."""
    feeds = {"x": X.copy()}

    def kernel(node):
        feeds.clear()
        gc.collect()
        double(node)

    assert np.array_equal(arenas.runtime(one(kernel)).run(feeds)["y"], 2 * X)


HEAD = """import gc, sys, threading
import hearth
"""
NUMPY_HEAD = HEAD + """import numpy as np
from kernels import *
X = np.ones(30000, "f4")
"""
BARE_HEAD = """import sys
sys.modules["numpy"] = None
""" + HEAD


def run_script(body, *, numpy=True, timeout=120):
    """What the script prints, in an interpreter of its own."""
    head = NUMPY_HEAD if numpy else BARE_HEAD
    path = os.pathsep.join([os.path.dirname(__file__), os.path.dirname(os.path.dirname(hearth.__file__))])
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", head + textwrap.dedent(body)],
                          env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_numpy():
    """Values are leases then, and a feed is a memoryview."""
    assert run_script("""
        plan = hearth.Plan(["x"], ["y"])
        def first(node):
            (x,) = node.inputs
            assert type(x) is memoryview and x.readonly and x.tolist() == [1, 2, 3]
            t = node.temporary(3)
            assert type(t) is hearth.Lease
            out = node.output(0, 3, "uint8")
            memoryview(out)[:] = bytes(x)
        def second(node):
            (x,) = node.inputs
            assert type(x) is hearth.Lease and x.readonly
            node.put(0, x)
        plan.add(first, ["x"], ["t"])
        plan.add(second, ["t"], ["y"])
        runtime = hearth.Runtime(plan)
        for _ in range(3):
            y = runtime.run({"x": bytes([1, 2, 3])})["y"]
            assert type(y) is hearth.Lease and bytes(y) == bytes([1, 2, 3])
        print("ok")
    """, numpy=False) == "ok\n"


def test_arrays_that_cannot_be_made():
    """numpy.asarray fails now and then: the exception comes out, and nothing is lost."""
    assert run_script("""
        real, count, fail_at = np.asarray, [0], [0]
        def asarray(*arguments, **options):
            count[0] += 1
            if count[0] == fail_at[0]:
                raise MemoryError("injected")
            return real(*arguments, **options)
        np.asarray = asarray
        def scratch(node):
            node.temporary(10, "f4")
            square(node)
        execution, io = hearth.ExecutionArena(), hearth.IOArena()
        runtime = hearth.Runtime(chain(scratch, double), execution_arena=execution, io_arena=io)
        for fail_at[0] in range(1, 20):
            count[0] = 0
            try:
                runtime.run({"x": X})
            except MemoryError as error:
                assert str(error) == "injected"
            else:
                break
            gc.collect()
            assert execution.live_count == io.live_count == 0
        assert fail_at[0] > 5
        print("ok")
    """) == "ok\n"


@pytest.mark.parametrize("where", ["sys.kept", "globals()['kept']", "cycle", "threading.current_thread().kept"])
def test_the_end_of_the_interpreter(where):
    hold = "c = []; c += [c, things]" if where == "cycle" else f"{where} = things"
    assert run_script(f"""
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2)
        leaked = []
        def leak(node):
            leaked.append((node, node.inputs, node.temporary(1000)))
            square(node)
        runtime = hearth.Runtime(wide(4, leak))
        results = [runtime.run({{"x": X}}, executor=pool) for _ in range(5)]
        things = [runtime, results, leaked, pool]
        {hold}
        print("ok")
    """) == "ok\n"


def test_the_end_while_a_daemon_is_in_a_run():
    """A thread that asks for the GIL when the interpreter is gone is Python's to stop; nothing crashes."""
    assert run_script("""
        started = threading.Event()
        runtime = hearth.Runtime(chain())
        def work():
            while True:
                runtime.run({"x": X})
                started.set()
        threading.Thread(target=work, daemon=True).start()
        started.wait()
        print("ok")
    """) == "ok\n"


def test_the_end_with_tasks_that_were_never_called():
    assert run_script("""
        tasks = []
        class Hoarding:
            def submit(self, call):
                tasks.append(call)
        runtime = hearth.Runtime(wide(4))
        y = runtime.run({"x": X}, executor=Hoarding(), threads=4)["y"]
        del runtime
        assert tasks
        print("ok")
    """) == "ok\n"


def test_a_forked_child_runs():
    assert run_script("""
        import os
        runtime = hearth.Runtime(chain())
        kept = runtime.run({"x": X})["y"]
        child = os.fork()
        result = runtime.run({"x": X})["y"]
        assert (result == 2).all() and (kept == 2).all()
        del result, kept
        gc.collect()
        assert runtime.io_arena.live_count == 0
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("ok")
    """) == "ok\n"


def test_a_subinterpreter_or_its_refusal():
    """Kernels run in the interpreter that made them. NumPy may not load there, and leases do."""
    assert run_script("""
        import _xxsubinterpreters as interpreters
        one = interpreters.create()
        try:
            interpreters.run_string(one, '''if True:
                import sys
                sys.modules["numpy"] = None
                import hearth
                plan = hearth.Plan(["x"], ["y"])
                def kernel(node):
                    out = node.output(0, 4, "uint8")
                    memoryview(out)[:] = bytes(v + 1 for v in node.inputs[0])
                plan.add(kernel, ["x"], ["y"])
                runtime = hearth.Runtime(plan)
                for _ in range(3):
                    y = runtime.run({"x": bytes([1, 2, 3, 4])})["y"]
                    assert bytes(y) == bytes([2, 3, 4, 5]), bytes(y)
                    assert type(y) is hearth.Lease
            ''')
        finally:
            interpreters.destroy(one)
        print("ok")
    """) == "ok\n"


def test_drops_on_another_thread_after_everything(arenas):
    runtime = arenas.runtime(chain())
    results = [runtime.run({"x": X})["y"] for _ in range(20)]
    del runtime
    threads = [threading.Thread(target=results.pop) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert arenas.out() == (0, 0)


def test_outputs_with_shared_parts(arenas):
    """Two outputs from one sum, of which one is used by the other."""
    plan = hearth.Plan(["x"], ["y", "z"])
    plan.add(square, ["x"], ["y"])
    plan.add(add, ["x", "y"], ["z"])
    runtime = arenas.runtime(plan)
    result = runtime.run({"x": X})
    result["y"][...] = -1
    assert np.array_equal(result["z"], X * X + X)
    y = result.pop("y")
    del result
    gc.collect()
    assert (y == -1).all() and arenas.io.live_count == 1
