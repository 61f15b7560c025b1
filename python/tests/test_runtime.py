# SPDX-License-Identifier: Apache-2.0
"""Runs: where values live, what is fed, what comes back, what fails and how, kernels in C, figures."""

import array
import ctypes
import gc
import threading

import numpy as np
import pytest

import hearth
from kernels import add, address, c_kernel, chain, compile_c, double, identity, one, settle, square


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def service():
    made = hearth.Service(age_runs=0, age_seconds=0, maintenance_thread=False)
    yield made
    assert settle(made.io) == 0 and made.execution.live_count == 0
    assert made.io.stats().misuses == 0 and made.execution.stats().misuses == 0


X = np.arange(50_000, dtype=np.float32)


def test_a_run(service):
    runtime = hearth.Runtime(chain(), service=service)
    result = runtime.run({"x": X})
    assert list(result) == ["y"]
    assert np.array_equal(result["y"], 2 * X * X)
    assert result["y"].dtype == np.float32 and result["y"].flags.writeable
    assert runtime.service is service and runtime.plan.outputs == ("y",)


def test_outputs_are_of_the_io_arena_and_intermediates_never(service):
    seen = []

    def first(node):
        assert (node.name, node.output_count, node.role(0)) == ("first", 1, "execution")
        before = service.execution.live_count, service.io.live_count
        square(node)
        assert (service.execution.live_count, service.io.live_count) == (before[0] + 1, before[1])

    def second(node):
        assert node.role(0) == "io"
        before = service.execution.live_count, service.io.leased_count
        out = node.output(0, X.shape, X.dtype)
        np.add(node.inputs[0], node.inputs[0], out=out)
        assert (service.execution.live_count, service.io.leased_count) == (before[0], before[1] + 1)
        seen.append(address(out))

    runtime = hearth.Runtime(chain(first, second), service=service)
    result = runtime.run({"x": X})["y"]
    assert seen == [address(result)]
    assert service.io.leased_count == 1 and service.execution.live_count == 0
    lease = runtime.run({"x": X}, leases=True)["y"]
    assert isinstance(lease, hearth.Lease) and lease.arena.startswith("io")
    assert lease.shape == X.shape and lease.dtype == "float32" and not lease.readonly


def test_steady_state(service):
    def kernel(node):
        scratch = node.temporary(X.shape, X.dtype)
        np.multiply(node.inputs[0], 3, out=scratch)
        np.add(scratch, 1, out=node.output(0, X.shape, X.dtype))

    plan = hearth.Plan(["x"], ["y", "z"])
    plan.add(kernel, ["x"], ["t"])
    plan.add(kernel, ["t"], ["y"])
    plan.add(add, ["t", "y"], ["z"])
    runtime = hearth.Runtime(plan, service=service)
    for _ in range(3):
        runtime.run({"x": X})
    io, execution = service.io.stats(), service.execution.stats()
    for _ in range(20):
        runtime.run({"x": X})
        last = runtime.last_run
        assert (last.nodes, last.payload_copies, last.backing_acquires, last.temporaries) == (3, 0, 0, 2)
    assert service.io.stats().misses == io.misses
    assert service.execution.stats().misses == execution.misses
    assert service.io.stats().exports > io.exports


def test_last_run(service):
    runtime = hearth.Runtime(chain(), service=service)
    assert runtime.last_run is None
    runtime.run({"x": X})
    last = runtime.last_run
    assert (last.runs, last.nodes, last.threads, last.tensors, last.released) == (1, 2, 1, 2, 1)
    assert last.execution_peak_bytes == last.io_peak_bytes == X.nbytes
    assert type(last) is hearth.RunStats
    runtime.clear()
    assert runtime.last_run is None


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_types_and_shapes(service, dtype, shape):
    x = np.ones(shape, dtype=dtype)

    def kernel(node):
        (given,) = node.inputs
        assert given.dtype == x.dtype and given.shape == shape
        node.output(0, given.shape, given.dtype)[...] = given

    result = hearth.Runtime(chain(kernel, kernel), service=service).run({"x": x})["y"]
    assert result.dtype == x.dtype and result.shape == shape and np.array_equal(result, x)


class Sub(np.ndarray):
    pass


class Duck:
    """DLPack alone."""

    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __dlpack__(self, **options):
        return self.wrapped.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.wrapped.__dlpack_device__()


def feeds_of(service):
    """Ways to hand over X, and whether they can do without a copy."""
    lease = service.io.empty(X.shape, X.dtype)
    lease.numpy()[...] = X
    twice = np.repeat(X, 2)
    memmap = np.array(X)
    memmap.flags.writeable = False
    yield "array", X, True
    yield "read-only", memmap, True
    yield "subclass", X.view(Sub), True
    yield "memoryview", memoryview(X), True
    yield "array.array", array.array("f", X.tolist()), True
    yield "lease", lease, True
    yield "lease's array", lease.numpy(), True
    yield "DLPack", Duck(X), True
    yield "strided", twice[::2], False
    yield "reversed", X[::-1].copy()[::-1], False
    yield "column", np.stack([X, X], axis=1)[:, 0], False
    yield "strided DLPack", Duck(twice[::2]), False


def test_feeds(service):
    plan = chain()
    runtime = hearth.Runtime(plan, service=service)
    for what, feed, borrowed in feeds_of(service):
        result = runtime.run({"x": feed})["y"]
        assert np.array_equal(result, 2 * X * X), what
        last = runtime.last_run
        assert (last.payload_copies, last.staged_copies) == ((0, 0) if borrowed else (1, 1)), what
        assert last.copied_bytes == (0 if borrowed else X.nbytes), what
    del feed, result
    runtime.clear()


def test_bfloat16_and_what_else_numpy_does_not_know(service):
    """It goes through as leases."""
    x = service.io.empty((4,), "uint16")
    x.numpy()[...] = [1, 2, 3, 4]

    def kernel(node):
        (given,) = node.inputs
        assert isinstance(given, hearth.Lease) and given.dtype == "bfloat16" and given.readonly
        out = node.output(0, given.shape, "bfloat16")
        assert isinstance(out, hearth.Lease) and not out.readonly
        out.view("uint16").numpy()[...] = given.view("uint16").numpy()

    runtime = hearth.Runtime(chain(kernel, kernel), service=service)
    result = runtime.run({"x": x.view("bfloat16")})["y"]
    assert result.dtype == "bfloat16" and result.view("uint16").numpy().tolist() == [1, 2, 3, 4]


def test_feeds_are_borrowed_as_read_only_views(service):
    def kernel(node):
        (x,) = node.inputs
        assert address(x) == address(X) and not x.flags.writeable
        with pytest.raises(ValueError):
            x[0] = 1
        double(node)

    hearth.Runtime(one(kernel), service=service).run({"x": X})


def test_feeds_are_given_back(service):
    runtime = hearth.Runtime(one(double), service=service)
    failing = hearth.Runtime(one(lambda node: 1 / 0), service=service)
    grows = bytearray(X.tobytes())
    feed = memoryview(grows).cast("f")
    runtime.run({"x": feed})
    with pytest.raises(ZeroDivisionError):
        failing.run({"x": feed})
    with pytest.raises(hearth.InvalidError):
        runtime.run({"x": feed, "z": feed})
    feed.release()
    grows += b"more"


def fails(runtime, feeds, *words, error=hearth.InvalidError):
    with pytest.raises(error) as caught:
        runtime.run(feeds)
    for word in words:
        assert word in str(caught.value) + str(getattr(caught.value, "__notes__", "")), caught.value


def test_wrong_feeds_are_named(service):
    runtime = hearth.Runtime(one(add, ["a", "b"]), service=service)
    fails(runtime, {"a": X}, "'b'")
    fails(runtime, {}, "'a'", "'b'")
    fails(runtime, {"a": X, "b": X, "c": X}, "'c'")
    fails(runtime, {"a": X, "b": X, 5: X}, "5")
    fails(runtime, {"a": X, "b": [1, 2]}, '"b"', "asarray")
    fails(runtime, {"a": X, "b": 3.5}, '"b"')
    fails(runtime, {"a": X, "b": X.astype(">f4")}, '"b"', "astype")
    fails(runtime, {"a": X, "b": np.zeros(3, "f4,i4")}, '"b"')
    fails(runtime, {"a": X, "b": np.array(["x"])}, '"b"')
    fails(runtime, {"a": X, "b": np.zeros([1] * 9, "f4")}, '"b"', "dimensions")
    fails(runtime, {"a": X, "b": np.zeros(3, "M8[s]")}, '"b"', error=Exception)
    fails(runtime, [("a", X)], "mapping", error=TypeError)
    fails(runtime, None, "mapping", error=TypeError)
    released = service.io.empty(3)
    released.release()
    fails(runtime, {"a": X, "b": released}, '"b"', error=hearth.ClosedError)
    assert np.array_equal(runtime.run({"a": X, "b": X})["y"], 2 * X)


class Mapping:
    def __init__(self, items):
        self.pairs = items

    def __getitem__(self, key):
        raise KeyError(key)

    def items(self):
        return self.pairs


def test_mappings_that_lie(service):
    runtime = hearth.Runtime(one(double), service=service)
    assert runtime.run(Mapping([("x", X)]))["y"][1] == 2
    fails(runtime, Mapping([("x", X), ("x", X)]), "twice")
    fails(runtime, Mapping([("x",)]), "mapping", error=TypeError)
    fails(runtime, Mapping(5), error=TypeError)


def test_outputs_that_are_inputs_are_copies(service):
    plan = hearth.Plan(["x", "z"], ["x", "y"])
    plan.add(add, ["x", "z"], ["y"])
    runtime = hearth.Runtime(plan, service=service)
    x = X.copy()
    result = runtime.run({"x": x, "z": X})
    assert address(result["x"]) != address(x) and np.array_equal(result["x"], x)
    x[:] = 0
    assert result["x"][1] == 1 and np.array_equal(result["y"], 2 * X)
    strided = np.repeat(X, 2)[::2]
    assert np.array_equal(runtime.run({"x": strided, "z": X})["x"], X)
    lease = service.io.empty(X.shape, X.dtype)
    lease.numpy()[...] = X
    for feed in lease, lease.numpy(), Duck(x):
        result = runtime.run({"x": feed, "z": X})["x"]
        assert address(result) != address(np.from_dlpack(feed) if isinstance(feed, Duck) else np.asarray(feed))


def test_passing_on_an_input_is_a_copy_where_it_leaves(service):
    for feed in X, service.io.empty(X.shape, X.dtype):
        np.asarray(feed)[...] = X
        result = hearth.Runtime(one(identity), service=service).run({"x": feed})["y"]
        assert address(result) != address(np.asarray(feed)) and np.array_equal(result, X)
        assert result.flags.writeable
    del feed, result


def test_passing_on_an_intermediate(service):
    """From node to node it is the same memory; where it leaves it is a copy."""
    seen = []

    def passing(node):
        seen.append(address(node.inputs[0]))
        node.put(0, node.inputs[0].reshape(2, -1))

    plan = hearth.Plan(["x"], ["y"])
    plan.add(square, ["x"], ["a"])
    plan.add(passing, ["a"], ["b"])
    plan.add(passing, ["b"], ["y"])
    runtime = hearth.Runtime(plan, service=service)
    result = runtime.run({"x": X})["y"]
    assert seen[0] == seen[1] != address(result)
    assert result.shape == (2, len(X) // 2) and np.array_equal(result.ravel(), X * X)
    assert runtime.last_run.payload_copies == 1
    assert service.execution.live_count == 0


def test_put_of_a_lease_of_the_right_arena_is_no_copy(service):
    def kernel(node):
        lease = node_io.empty(X.shape, X.dtype)
        lease.numpy()[...] = X
        seen.append(lease.address)
        node.put(0, lease if len(seen) % 2 else lease.numpy())

    seen, node_io = [], service.io
    runtime = hearth.Runtime(one(kernel), service=service)
    for _ in range(4):
        result = runtime.run({"x": X})["y"]
        assert address(result) == seen[-1] and runtime.last_run.payload_copies == 0
    other = node_io = hearth.IOArena()
    result = runtime.run({"x": X})["y"]
    assert address(result) != seen[-1] and np.array_equal(result, X)
    assert runtime.last_run.copied_bytes == X.nbytes
    assert settle(other) == 0


def test_put_of_what_is_read_only_is_a_copy(service):
    """An output is writable, so it cannot be memory that nobody may write to."""
    text = bytes(range(16))

    def kernel(node):
        own = service.io.empty(16)
        own.numpy()[...] = 7
        node.put(0, own.view(readonly=True))
        frozen = own.numpy()
        frozen.flags.writeable = False
        node.put(1, frozen)
        node.put(2, service.io.from_dlpack(np.frombuffer(text, "u1").copy()))

    result = hearth.Runtime(one(kernel, ["x"], ["a", "b", "c"]), service=service).run({"x": X})
    result["a"][...] = 1
    result["b"][...] = 2
    assert result["c"].tobytes() == text
    assert set(result["a"]) == {1} and set(result["b"]) == {2}


def test_an_execution_arena_of_another_thread():
    made = []
    thread = threading.Thread(target=lambda: made.append(hearth.ExecutionArena()))
    thread.start()
    thread.join()
    runtime = hearth.Runtime(chain(), execution_arena=made[0], io_arena=hearth.IOArena())
    with pytest.raises(hearth.NotOwnerError):
        runtime.run({"x": X})
    mine = hearth.ExecutionArena()
    mine.release_owner()
    runtime = hearth.Runtime(chain(), execution_arena=mine, io_arena=hearth.IOArena())
    results = []
    thread = threading.Thread(target=lambda: results.append(runtime.run({"x": X})["y"]))
    thread.start()
    thread.join()
    assert np.array_equal(results[0], 2 * X * X)


def test_put_of_what_is_not_all_of_a_lease(service):
    def kernel(node):
        lease = service.io.empty((8,), "f4")
        lease.numpy()[...] = range(8)
        node.put(0, lease.numpy()[2:])
        node.put(1, lease.numpy()[::-1])
        node.put(2, lease.view("i4"))
        lease.release()

    runtime = hearth.Runtime(one(kernel, ["x"], ["a", "b", "c"]), service=service)
    result = runtime.run({"x": X})
    assert result["a"].tolist() == [2, 3, 4, 5, 6, 7]
    assert result["b"].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert result["c"].dtype == np.int32 and result["c"].view("f4").tolist() == list(range(8))


def test_outputs_of_one_node_never_share(service):
    def kernel(node):
        first = node.output(0, (4,), "f4")
        first[...] = 1
        node.put(1, first)
        node.put(0, first)

    result = hearth.Runtime(one(kernel, ["x"], ["a", "b"]), service=service).run({"x": X})
    result["a"][...] = 2
    assert result["b"].tolist() == [1, 1, 1, 1]


def test_put_of_others(service):
    def kernel(node):
        node.put(0, np.arange(6.0).reshape(2, 3).T)
        node.put(1, b"abc")
        node.put(2, Duck(np.arange(3)))
        with pytest.raises(hearth.InvalidError, match="asarray"):
            node.put(2, [1, 2])
        with pytest.raises(hearth.InvalidError, match="no output slot 3"):
            node.put(3, b"")

    result = hearth.Runtime(one(kernel, ["x"], ["a", "b", "c"]), service=service).run({"x": X})
    assert result["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert result["b"].tobytes() == b"abc" and result["c"].tolist() == [0, 1, 2]


def test_an_output_may_be_made_again(service):
    def kernel(node):
        kept.append(node.output(0, (8,), "f4"))
        kept[-1][...] = 7
        node.output(0, (3,), "i8")[...] = 5

    kept = []
    result = hearth.Runtime(chain(kernel, kernel), service=service).run({"x": X})["y"]
    assert result.tolist() == [5, 5, 5] and kept[0].tolist() == kept[1].tolist() == [7] * 8
    assert address(kept[1]) != address(result)


def test_optional_slots(service):
    def kernel(node):
        assert node.inputs[1] is None and node.output_count == 2
        assert node.role(0) == "none" and node.role(1) == "io"
        with pytest.raises(hearth.InvalidError, match="does not use"):
            node.output(0, 3, "f4")
        node.put(1, node.inputs[0])

    plan = hearth.Plan(["x"], ["y"])
    plan.add(kernel, ["x", None], ["", "y"])
    assert np.array_equal(hearth.Runtime(plan, service=service).run({"x": X})["y"], X)


def test_a_kernel_that_leaves_nothing(service):
    runtime = hearth.Runtime(one(lambda node: None, name="lazy"), service=service)
    fails(runtime, {"x": X}, "lazy", "y")
    assert runtime.last_run.nodes == 1


def test_wrong_requests(service):
    def kernel(node):
        for slot, error in ((1, hearth.InvalidError), (-1, hearth.InvalidError), ("0", TypeError)):
            with pytest.raises(error):
                node.output(slot, 3, "f4")
            with pytest.raises(error):
                node.role(slot)
        for shape in (-1, [2, -1], [1] * 9, "3", 1.5, 2**62, [2**40, 2**40]):
            with pytest.raises((hearth.Error, TypeError, OverflowError)):
                node.output(0, shape, "f4")
            with pytest.raises((hearth.Error, TypeError, OverflowError)):
                node.temporary(shape)
        for dtype in ("object", "nothing", 7):
            with pytest.raises((TypeError, hearth.Error)):
                node.output(0, 3, dtype)
        double(node)

    assert hearth.Runtime(one(kernel), service=service).run({"x": X})["y"][1] == 2


def test_exceptions_come_through(service):
    class Own(Exception):
        pass

    error = Own("mine")

    def kernel(node):
        raise error

    runtime = hearth.Runtime(chain(square, kernel), service=service)
    for count in 1, 2:
        with pytest.raises(Own) as caught:
            runtime.run({"x": X})
        assert caught.value is error
        assert len(error.__notes__) == count and "'second'" in error.__notes__[0]
        assert "kernel" in [entry.name for entry in caught.traceback]
        del caught
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        runtime.run({"x": X})
    error = SystemExit(3)
    with pytest.raises(SystemExit):
        runtime.run({"x": X})
    error = Own()
    error.__traceback__ = None
    assert service.execution.live_count == 0 or settle(service.execution) == 0


def test_a_run_after_one_that_failed(service):
    def kernel(node):
        if bad:
            node.output(0, X.shape, X.dtype)
            raise ValueError("no")
        double(node)

    runtime = hearth.Runtime(chain(square, kernel), service=service)
    for bad in (False, True, False, True, False):
        if bad:
            with pytest.raises(ValueError):
                runtime.run({"x": X})
            gc.collect()
            assert service.io.leased_count == 0 and service.execution.live_count == 0
        else:
            assert np.array_equal(runtime.run({"x": X})["y"], 2 * X * X)


def test_a_kernel_may_catch_what_a_request_raises(service):
    def kernel(node):
        try:
            node.output(0, 2**50, "f8")
        except hearth.NoMemoryError:
            node.output(0, 1, "f8")[...] = 3

    assert hearth.Runtime(one(kernel), service=service).run({"x": X})["y"].tolist() == [3]


def test_memory_runs_out():
    service = hearth.Service(live_limit=1 << 20)
    runtime = hearth.Runtime(one(double), service=service)
    fails(runtime, {"x": np.zeros(1 << 20, "f4")}, "only", error=hearth.NoMemoryError)
    assert runtime.run({"x": X})["y"][1] == 2


def test_a_run_inside_of_a_run(service):
    inner = hearth.Runtime(one(double), service=service)

    def kernel(node):
        with pytest.raises(hearth.BusyError, match="run"):
            runtime.run({"x": X})
        with pytest.raises(hearth.BusyError):
            runtime.clear()
        with pytest.raises(hearth.BusyError):
            service.detach()
        node.put(0, inner.run({"x": node.inputs[0]})["y"])

    runtime = hearth.Runtime(one(kernel), service=service)
    assert np.array_equal(runtime.run({"x": X})["y"], 2 * X)
    assert inner.last_run.nodes == 1 and runtime.last_run.copied_bytes == 0


def test_arenas_of_ones_own():
    execution, io = hearth.ExecutionArena(), hearth.IOArena()
    runtime = hearth.Runtime(chain(), execution_arena=execution, io_arena=io)
    assert runtime.service is None and runtime.execution_arena is execution and runtime.io_arena is io
    result = runtime.run({"x": X})["y"]
    assert io.leased_count == 1 and execution.stats().allocs == 1 and np.array_equal(result, 2 * X * X)
    with pytest.raises(hearth.InvalidError, match="service"):
        runtime.run({"x": X}, executor=Inline())
    io.close()
    with pytest.raises(hearth.ClosedError):
        runtime.run({"x": X})
    execution.close()
    with pytest.raises(hearth.ClosedError):
        runtime.run({"x": X})
    assert np.array_equal(result, 2 * X * X)


class Inline:
    """An executor that calls at once."""

    def submit(self, call):
        call()


@pytest.mark.parametrize("which", ["execution_arena", "io_arena"])
def test_one_arena_of_ones_own(service, which):
    arena = hearth.ExecutionArena() if which == "execution_arena" else hearth.IOArena()
    for given in (service, None):
        runtime = hearth.Runtime(chain(), service=given, **{which: arena})
        assert runtime.service is service if given else isinstance(runtime.service, hearth.Service)
        before = arena.peak_bytes
        result = runtime.run({"x": X})["y"]
        assert arena.peak_bytes >= X.nbytes > before or given is None
        assert np.array_equal(result, 2 * X * X)
    del result
    assert settle(arena) == 0


def test_a_service_is_made():
    runtime = hearth.Runtime(chain())
    assert isinstance(runtime.service, hearth.Service)
    result = runtime.run({"x": X})["y"]
    assert runtime.io_arena.leased_count == 1 and runtime.execution_arena.stats().allocs == 1
    del result


def test_a_closed_service(service):
    own = hearth.Service()
    runtime = hearth.Runtime(chain(), service=own)
    kept = runtime.run({"x": X})["y"]
    own.close()
    with pytest.raises(hearth.ClosedError):
        runtime.run({"x": X})
    assert np.array_equal(kept, 2 * X * X)
    with pytest.raises(hearth.ClosedError):
        hearth.Runtime(chain(), service=own)


def test_the_services_execution_arena_after_a_detach(service):
    runtime = hearth.Runtime(chain(), execution_arena=service.execution, service=service)
    runtime.run({"x": X})
    service.detach()
    assert np.array_equal(runtime.run({"x": X})["y"], 2 * X * X)
    assert service.execution.stats().allocs >= 1


def test_closing_an_arena_inside_of_a_kernel():
    execution, io = hearth.ExecutionArena(), hearth.IOArena()

    def kernel(node):
        execution.close()
        scratch = node.temporary(X.shape, X.dtype)
        np.add(node.inputs[0], node.inputs[0], out=scratch)
        node.put(0, scratch)

    runtime = hearth.Runtime(one(kernel), execution_arena=execution, io_arena=io)
    assert np.array_equal(runtime.run({"x": X})["y"], 2 * X)
    assert execution.closed
    with pytest.raises(hearth.ClosedError):
        runtime.run({"x": X})


def test_wrong_arguments(service):
    with pytest.raises(TypeError):
        hearth.Runtime(None)
    for name in "service", "execution_arena", "io_arena":
        with pytest.raises(TypeError):
            hearth.Runtime(chain(), **{name: 5})
    runtime = hearth.Runtime(chain(), service=service)
    with pytest.raises(TypeError, match="executor"):
        runtime.run({"x": X}, executor=5)
    with pytest.raises(hearth.InvalidError, match="threads"):
        runtime.run({"x": X}, executor=Inline(), threads=-1)


# Kernels in C.


def test_c_kernels(service, library):
    calls = ctypes.c_int(0)
    runtime = hearth.Runtime(chain(c_kernel(library, "twice", calls, slot_aware=True),
                                   c_kernel(library, "twice", calls)), service=service)
    for count in range(1, 4):
        assert np.array_equal(runtime.run({"x": X})["y"], 4 * X)
        assert calls.value == 2 * count and runtime.last_run.payload_copies == 0


@pytest.mark.parametrize("name", ["twice", "twice_in_place", "twice_misplaced", "twice_inline"])
@pytest.mark.parametrize("aware", [False, True])
def test_c_and_python_side_by_side(service, library, name, aware):
    """Whatever a C kernel makes, a Python kernel may keep."""
    if aware and name == "twice_misplaced":
        pytest.skip("such a kernel is not slot-aware")
    kernel = c_kernel(library, name, slot_aware=aware)
    kept = []

    def looking(node):
        kept.append((node.inputs[0], node.inputs[0].copy()))
        double(node)

    plan = hearth.Plan(["x"], ["y", "z"])
    plan.add(kernel, ["x"], ["a"])
    plan.add(kernel, ["a"], ["b"])
    plan.add(looking, ["b"], ["c"])
    plan.add(kernel, ["c"], ["y"])
    plan.add(looking, ["y"], ["z"])
    runtime = hearth.Runtime(plan, service=service)
    for _ in range(4):
        result = runtime.run({"x": X})
        assert np.array_equal(result["y"], 16 * X) and np.array_equal(result["z"], 32 * X)
        assert result["y"].flags.writeable and address(kept[-1][0]) == address(result["y"])
    runtime.clear()
    del runtime, result
    gc.collect()
    for array, copy in kept:
        assert np.array_equal(array, copy)
    if name in ("twice", "twice_in_place"):
        assert service.execution.live_count == 4 and service.io.leased_count == 4
    kept.clear()


def test_what_a_c_kernel_misplaces_is_brought_to_its_place(service, library):
    runtime = hearth.Runtime(chain(square, c_kernel(library, "twice_misplaced")), service=service)
    for _ in range(3):
        lease = runtime.run({"x": X}, leases=True)["y"]
        assert lease.arena.startswith("io") and np.array_equal(lease.numpy(), 2 * X * X)
        last = runtime.last_run
        assert last.taken + last.migration_copies == 1
    del lease


def test_reuse_in_place(service, library):
    """Between C kernels a value is no lease, and its storage is taken over."""
    plan = hearth.Plan(["x"], ["y"])
    names = ["x", "a", "b", "c", "y"]
    for old, new in zip(names, names[1:]):
        plan.add(c_kernel(library, "twice_in_place", slot_aware=True), [old], [new])
    runtime = hearth.Runtime(plan, service=service)
    assert np.array_equal(runtime.run({"x": X})["y"], 16 * X)
    assert runtime.last_run.reused_in_place == 2


def test_a_c_kernel_that_fails(service, library):
    plan = hearth.Plan(["x"], ["y"])
    plan.add(c_kernel(library, "refuse"), ["x"], ["y"], name="stubborn")
    fails(hearth.Runtime(plan, service=service), {"x": X}, "stubborn", error=hearth.WaitTimeoutError)


def test_an_output_of_a_type_that_is_not_offered(service, library):
    runtime = hearth.Runtime(one(c_kernel(library, "odd")), service=service)
    for _ in range(2):
        with pytest.raises((hearth.Error, TypeError)):
            runtime.run({"x": X})
    assert service.io.live_count == 0
