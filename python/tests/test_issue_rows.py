# SPDX-License-Identifier: Apache-2.0
"""What went wrong elsewhere, as public issues tell it, and does not here. One test for each."""

import ctypes
import gc
import resource
import sys
import threading

import numpy as np
import pytest

import hearth
from support import (LEGACY, SANITIZED, USED, VERSIONED, Capsule, Consumer, Watch, address_of, capsule_name,
                     capsule_new, consume, discard, in_thread, misuses, run_python, settled)


def graph(*nodes, inputs=("x",), outputs=("y",)):
    plan = hearth.Plan(inputs=list(inputs), outputs=list(outputs))
    for kernel, takes, makes in nodes:
        plan.add(kernel, list(takes), list(makes))
    return plan


def double(node):
    node.output(0, node.inputs[0].shape, "float32")[...] = node.inputs[0] * 2


def pass_on(node):
    node.put(0, node.inputs[0])


def ones(count=1024, value=1):
    return np.full(count, value, "float32")


@pytest.fixture
def runtime(service):
    return hearth.Runtime(graph((double, ["x"], ["t"]), (double, ["t"], ["y"])), service=service)


# Runtimes and sessions


@pytest.mark.parametrize("leases", [False, True])
def test_outputs_over_tensors_that_own_nothing(service, leases):
    """onnxruntime issue 28088: outputs built over tensors that do not own memory read garbage later. Passed-on inputs,
    constants of a kernel and inputs declared as outputs are copied, or leased, never borrowed."""
    constant = ones(value=5)

    def give_constant(node):
        node.put(0, constant)

    plan = graph((pass_on, ["x"], ["y"]), (give_constant, ["x"], ["c"]), (double, ["x"], ["t"]),
                 (pass_on, ["t"], ["z"]), outputs=["y", "c", "z", "x"])
    runtime = hearth.Runtime(plan, service=service)
    feed = ones(value=3)
    results = runtime.run({"x": feed}, leases=leases)
    arrays = {name: np.asarray(value) for name, value in results.items()}
    for name in arrays:
        assert address_of(arrays[name]) not in (address_of(feed), address_of(constant))
    feed[:] = -1
    constant[:] = -1
    for _ in range(3):
        runtime.run({"x": ones(value=9)})
    runtime.clear()
    del runtime, results, feed
    gc.collect()
    for name, value in [("y", 3), ("c", 5), ("z", 6), ("x", 3)]:
        assert (arrays[name] == value).all(), name
        assert len({address_of(one) for one in arrays.values()}) == len(arrays)


def test_outputs_are_not_copied_and_the_session_may_die(runtime):
    """onnxruntime issues 11099, 11157 and 20539: every output copied for years, as the session owned its allocator."""
    made = []

    def remember(node):
        out = node.output(0, (1024,), "float32")
        made.append(address_of(out))
        out[...] = node.inputs[0]

    runtime = hearth.Runtime(graph((remember, ["x"], ["y"])), service=runtime.service)
    out = runtime.run({"x": ones()})["y"]
    assert address_of(out) == made[0]
    assert out.flags.writeable
    del runtime
    gc.collect()
    assert (out == 1).all()


@pytest.mark.skipif(SANITIZED, reason="the sanitizer ends who reads what was returned")
def test_an_address_that_was_bound_while_its_owner_was_dropped():
    """onnxruntime issue 21888: a raw pointer was bound, its owner dropped, the arena used the address again. Whoever
    keeps an address of ours after the lease sees poison in debug mode at once, not another's values by chance."""
    done = run_python("""
io = hearth.IOArena()
lease = io.empty(4096)
lease.numpy()[:] = 1
address = lease.address
del lease
assert ctypes.string_at(address, 4096) == bytes([POISON_RETURNED]) * 4096
print("seen")
""", HEARTH_CONF="debug:poison")
    assert done.stdout.strip().endswith("seen")


def test_a_lease_that_is_let_go_tells_no_address(io):
    """onnxruntime issue 21888, too: what was released makes nothing that could be bound."""
    lease = io.empty(64)
    lease.release()
    for attempt in (lease.__dlpack__, lease.numpy, lease.view):
        with pytest.raises(hearth.ClosedError):
            attempt()


@pytest.mark.parametrize("first", ["runtime", "plan", "service", "arena"])
def test_the_model_is_freed_before_its_values(exactly_once, first):
    """onnxruntime-genai issue 101, ort issue 50: values outlive model and session, in any order."""
    service = hearth.Service()
    runtime = hearth.Runtime(graph((double, ["x"], ["y"])), service=service)
    held = {"runtime": runtime, "plan": runtime.plan, "service": service, "arena": service.io}
    del runtime
    values = held["runtime"].run({"x": ones()}, leases=True)
    watch = Watch(values["y"])
    out = values["y"].numpy()
    del values
    if first == "service":
        service.close()
    del service
    del held[first]
    gc.collect()
    assert (out == 2).all()
    held.clear()
    gc.collect()
    assert (out == 2).all() and watch.held
    del out
    assert watch.returned


def test_dealloc_does_not_unmap(arena):
    """pytorch issue 77139: the unmapping of a large tensor held the GIL for 200 ms. A return is a push to a list."""
    for size in (1 << 20, 64 << 20):
        out = arena.empty(size).numpy()
        out[::4096] = 1
        releases, footprint = arena.stats().backing_releases, arena.footprint
        del out
        assert arena.stats().backing_releases == releases and arena.footprint == footprint
        assert arena.live_count == 0 and arena.retained_bytes >= size


def test_a_deleter_asks_for_no_lock_of_python(native_path):
    """pytorch issues 29065 and 83101: a tensor freed on another thread waited for the GIL, whose holder waited for the
    thread. Here main holds the GIL while a native thread deletes."""
    done = run_python("""
for arena in (hearth.IOArena(), hearth.ExecutionArena()):
    held = []
    for _ in range(100):
        lease = arena.empty(4096)
        held.append(consume(lease.__dlpack__(max_version=(1, 0))))
        del lease
    array = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
    assert native.held.native_delete_many(array, len(held), 1, 4) == 0
    assert arena.live_count == 0
print("no deadlock")
""", native=native_path, timeout=60)
    assert "no deadlock" in done.stdout


def test_boxes_of_tensors_are_no_memory_of_python(native_path):
    """numpy issue 22507, pytorch issue 88082: the deleter used Python's allocator without the GIL, which aborts under
    its debug hooks."""
    done = run_python("""
for arena in (hearth.IOArena(), hearth.ExecutionArena(), hearth.Service().io):
    for keywords in (LEGACY, VERSIONED, dict(copy=True), dict(copy=True, max_version=(1, 0))):
        lease = arena.empty((3, 4, 5), "float32")
        other = hearth.IOArena().from_dlpack(lease)
        for one in (lease, other):
            tensor = consume(one.__dlpack__(**keywords))
            versioned = "max_version" in keywords
            assert native.native_delete_on_thread(ctypes.addressof(tensor), versioned) == 0
        del lease, other, one
    assert arena.live_count == 0
print("clean")
""", native=native_path, PYTHONMALLOC="debug", PYTHONDEVMODE="1")
    assert "clean" in done.stdout and done.stderr == ""


# DLPack


def test_deleters_assume_nothing_about_thread_or_interpreter(native_path):
    """dlpack issues 103 and 129, pull request 140: who holds the GIL, is there an interpreter? Any thread, any time:
    half of the tensors go on a native thread, half after the interpreter's end."""
    from test_finalization import observed
    done = run_python("""
io = hearth.IOArena()
for index in range(16):
    lease = io.empty(256)
    ctypes.memset(lease.address, index, 256)
    native.native_watch(lease.address)
    tensor = consume(lease.__dlpack__(**(VERSIONED if index & 1 else LEGACY)))
    del lease
    if index & 2:
        native.native_hold(ctypes.addressof(tensor), index & 1, index)
    else:
        native.native_delete_on_thread(ctypes.addressof(tensor), index & 1)
""", native=native_path)
    figures = observed(done.stdout)
    assert figures == {**figures, "watched": 16, "out": 0, "late": 8, "spoilt": 0, "misuses": 0}
    assert done.stderr == ""


@pytest.mark.parametrize("keywords", [LEGACY, VERSIONED], ids=["legacy", "versioned"])
def test_the_destructor_of_a_renamed_capsule_frees_nothing(arena, keywords):
    """dlpack issue 51: the consumer renamed the capsule, its destructor freed all the same."""
    before = misuses()
    lease = arena.empty(64)
    watch = Watch(lease)
    capsule = lease.__dlpack__(**keywords)
    tensor = consume(capsule)
    del lease
    discard(tensor)
    assert watch.returned
    fresh = arena.empty(64)
    del capsule
    gc.collect()
    assert Watch(fresh).held and arena.live_count == 1 and misuses() == before


@pytest.mark.parametrize("keywords", [LEGACY, VERSIONED], ids=["legacy", "versioned"])
def test_unconsumed_capsules_do_not_leak(arena, keywords):
    """pytorch issues 9297 and 9260, cudf issue 2400, cupy issue 1445: nobody consumed the capsule, or a careless
    consumer did. A capsule alone gives back."""
    for _ in range(50):
        arena.empty(1 << 16).__dlpack__(**keywords)
    assert arena.live_count == 0 and arena.retained_count <= 2


def test_our_importer_calls_deleters_once(io, native):
    """cudf pull request 5212: the importer forgot the deleter, or called it twice."""
    before = native.native_deletions()
    for versioned in (0, 1):
        for fate in ("dropped", "released", "view", "array", "exported"):
            lease = io.from_dlpack(capsule_new(native.native_tensor(versioned, 0, 16, 0), bool(versioned)))
            kept = {"dropped": lambda: None, "released": lease.release, "view": lease.view, "array": lease.numpy,
                    "exported": lambda: Consumer(lease, max_version=(1, 0))}[fate]()
            del lease
            del kept
            gc.collect()
    assert native.native_deletions() == before + 10


def test_versioned_capsules_have_a_destructor_that_works(arena):
    """quadrants issue 598: the versioned capsule's destructor was empty. Both are the same logic here."""
    lease = arena.empty(64)
    watch = Watch(lease)
    capsules = [lease.__dlpack__(max_version=(1, minor)) for minor in range(4)]
    del lease
    for _ in range(4):
        assert watch.held
        capsules.pop()
    assert watch.returned


def test_arrays_are_writable_on_every_numpy(arena):
    """numpy issues 28599, 28632 and 20337, nanobind issue 1122: from_dlpack gives read-only arrays. numpy() does not
    go that way."""
    lease = arena.empty(64)
    out = lease.numpy()
    assert out.flags.writeable
    out[0] = 1
    assert lease.view().numpy().flags.writeable
    assert np.asarray(lease).flags.writeable
    view = np.from_dlpack(lease)
    if np.lib.NumpyVersion(np.__version__) >= "2.3.0":
        assert view.flags.writeable


def test_exports_do_not_consume_the_lease(arena):
    """jax issues 4636 and 19183: a second export used the buffer up. Any number are allowed, and all are one memory;
    who wants none of that asks for a read-only one."""
    lease = arena.empty(64)
    held = [Consumer(lease) for _ in range(5)] + [Consumer(lease, max_version=(1, 0)) for _ in range(5)]
    lease.numpy()[:] = 7
    assert all(one.bytes(64) == b"\7" * 64 for one in held)
    assert Consumer(lease.view(readonly=True), max_version=(1, 0)).flags == 1
    assert lease.numpy().sum() == 7 * 64
    del held
    assert lease.numpy().sum() == 7 * 64


@pytest.mark.parametrize("regime", [{}, {"PYTHONMALLOC": "debug"}])
def test_consumers_in_native_code_release_after_the_end(native_path, regime):
    """arrow issues 49942, 38637 and 36389; arro3 issue 230, pyo3 issue 5242: native consumers released Python buffers
    after finalization. Through DLPack they may."""
    from test_finalization import observed
    done = run_python("""
runtime = hearth.Runtime(hearth.Plan(inputs=["x"], outputs=["x"]))
import numpy as np
lease = runtime.run({"x": np.full(64, 5, "uint8")}, leases=True)["x"]
native.native_watch(lease.address)
tensor = consume(lease.__dlpack__(max_version=(1, 0)))
native.native_hold(ctypes.addressof(tensor), 1, 5)
import builtins
builtins.lease, builtins.tensor = lease, tensor
""", native=native_path, **regime)
    figures = observed(done.stdout)
    assert figures == {**figures, "watched": 1, "out": 0, "late": 1, "spoilt": 0, "misuses": 0}
    assert done.stderr == ""


def test_arrays_freed_while_memory_is_traced_at_the_end(native_path):
    """cpython issue 142135: an array freed in finalization inside NumPy's tracing call crashed."""
    from test_finalization import observed
    done = run_python("""
import tracemalloc, builtins
import numpy as np
tracemalloc.start(10)
service = hearth.Service()
held = []
for arena in (service.io, service.execution, hearth.IOArena(), hearth.ExecutionArena()):
    for _ in range(20):
        lease = arena.empty(5000)
        held.append(lease.numpy()[5:])
    native.native_watch(lease.address)
def double(node):
    node.output(0, node.inputs[0].shape, "float32")[...] = node.inputs[0] * 2
plan = hearth.Plan(inputs=["x"], outputs=["y"])
plan.add(double, ["x"], ["y"])
runtime = hearth.Runtime(plan, service=service)
held.append(runtime.run({"x": np.ones(100, "float32")})["y"])
try:
    with hearth.numpy_allocator(service):
        held.append(np.ones(1 << 20))
except ImportError:
    pass  # built without NumPy's headers
held.append(held)
builtins.held = held
gc.disable()
""", native=native_path)
    assert observed(done.stdout)["misuses"] == 0 and done.stderr == ""


# Exports without a count


def test_ndarray_over_a_buffer_keeps_its_object(arena):
    """numpy issues 23305, 18294 and 22190, cpython issue 102349: ndarray(buffer=) takes no export, so shared memory was
    unmapped below it. The lease itself keeps the memory, released or not."""
    lease = arena.empty((4, 4), "float32")
    watch = Watch(lease)
    out = np.ndarray((4, 4), "float32", buffer=lease)
    out[...] = 1
    assert lease.exports == 0
    with lease:
        pass
    assert lease.released
    if isinstance(arena, hearth.IOArena):
        arena.close()
    else:
        arena.trim()
    del lease
    gc.collect()
    assert watch.held and (out == 1).all()
    del out
    assert watch.returned


def test_close_and_release_below_an_array(arena):
    """numpy issues 9537 and 9562: the mapping was closed below the array."""
    lease = arena.empty(4096)
    watch = Watch(lease)
    out, view = lease.numpy(), memoryview(lease)
    out[:] = 1
    assert lease.exports == 2
    lease.release()
    arena.trim()
    arena.close()
    assert (out == 1).all() and view[4095] == 1 and watch.held
    del lease, view
    assert watch.held
    del out
    assert watch.returned


def test_exports_are_counted_by_us(arena):
    """cpython issues 127716, 130977, 157114 and 157759: counters of memoryviews race. Exactly-once does not rest on
    them: many threads take and drop exports of one lease."""
    lease = arena.empty(64)
    watch = Watch(lease)

    def body():
        for _ in range(300):
            with memoryview(lease) as one, memoryview(one) as two, memoryview(lease):
                assert two.nbytes == 64

    threads = [threading.Thread(target=body) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lease.exports == 0 and watch.held
    del lease, body, threads, thread
    gc.collect()
    assert watch.returned


def test_no_export_is_a_silent_copy(arena):
    """pybind11 issues 323, 1042 and 4946: an array without a base is a copy, and nobody notices."""
    lease = arena.zeros((3, 4), "int32")
    exports = [lease.numpy(), lease.numpy(readonly=True), np.asarray(lease), np.from_dlpack(lease),
               np.array(lease, copy=False),
               np.frombuffer(lease, "int32"), np.ndarray((3, 4), "int32", lease), lease.view().numpy(),
               np.asarray(memoryview(lease)), np.asanyarray(lease), np.ascontiguousarray(lease)]
    lease.numpy()[0, 0] = 77
    for out in exports:
        assert address_of(out) == lease.address and out.base is not None and not out.flags.owndata
        assert out.flat[0] == 77


@pytest.mark.parametrize("shape", [0, (0, 4), (4, 0, 2)])
def test_exports_of_nothing(arena, shape):
    """pybind11 issue 1647: a NULL payload makes no capsule. Leases of no bytes are exported and counted as others."""
    lease = arena.empty(shape, "float32")
    held = [lease.numpy(), np.from_dlpack(lease), lease.__dlpack__(), lease.__dlpack__(max_version=(1, 0)),
            memoryview(lease), lease.view()]
    del lease
    assert arena.live_count == 1
    while held:
        assert arena.live_count == 1
        held.pop()
    assert arena.live_count == 0


def test_runs_without_the_gil_touch_no_object(service):
    """nanobind issues 656 and 377: capsules and arrays made while the GIL was dropped crash. Runs drop it; arrays are
    made with it, while other Python threads run."""
    stop = threading.Event()

    def noise():
        while not stop.is_set():
            np.from_dlpack(service.io.empty(64)).sum()

    thread = threading.Thread(target=noise)
    thread.start()
    try:
        runtime = hearth.Runtime(graph((double, ["x"], ["t"]), (double, ["t"], ["y"])), service=service)
        for index in range(50):
            out = runtime.run({"x": ones(value=index)})["y"]
            assert (out == 4 * index).all()
            del out
    finally:
        stop.set()
        thread.join()


def test_sizes_at_the_return_do_not_matter(arena):
    """numpy issues 17582 and 19663: NumPy frees with another size than it asked, for shapes with a 0. Ours are known by
    their address; the books are right."""
    for shape in ((0,), (0, 5), (5, 0), (1 << 20, 0), (3, 0, 7)):
        out = arena.empty(shape, "float64").numpy().reshape(-1)
        assert arena.live_bytes == 0 and arena.live_count == 1
        out.shape = (0, 9)
        del out
        assert arena.live_count == 0


def test_sizes_that_numpy_frees_do_not_matter():
    """numpy issues 17582 and 19663, with NumPy's own arrays in our memory."""
    pytest.importorskip("hearth._numpy_memory")
    with hearth.numpy_allocator(hearth.Service()):
        for shape in ((0, 1 << 20), (1 << 20, 0)):
            out = np.zeros(shape).copy()
            out.resize((10, 10), refcheck=False)
            assert not out.any()


# Memory that stays


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's shadow faults as well")
def test_large_temporaries_do_not_fault_again(arena):
    """numpy issues 8783, 11957 and 11919: each large temporary faults its pages in again. The second one does not."""
    def fill():
        out = arena.empty(64 << 20).numpy()
        out[::4096] = 1
        return out

    del_me = fill()
    del del_me
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(3):
        fill()
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before < 50


def test_what_is_kept_is_seen_bounded_and_given_back(exactly_once):
    """dask issue 3530: memory kept in thread pools looks like a leak. It is counted, limited and trimmed here."""
    service = hearth.Service(execution_limit=1 << 20, io_limit=1 << 20)

    def work():
        for _ in range(4):
            held = [service.execution.empty(1 << 19).numpy() for _ in range(6)]
            held += [service.io.empty(1 << 19).numpy() for _ in range(6)]
            for one in held:
                one[::4096] = 1
        return service.execution.retained_bytes

    assert in_thread(work) <= 1 << 20
    assert service.io.retained_bytes <= 1 << 20
    gc.collect()
    assert service.live_bytes == 0
    assert service.retained_bytes == service.footprint > 0
    assert service.trim().released_bytes > 0
    assert service.footprint == 0
    service.close()


def test_a_table_over_arrays_that_died(arena):
    """TileDB-VCF issue 288: a table over arrays that were gone crashed. Each exporter keeps its own buffer."""
    columns = []
    for index in range(8):
        lease = arena.empty(100, "int64")
        lease.numpy()[:] = index
        columns.append(memoryview(lease.numpy()[10:20]) if index % 2 else Consumer(lease))
        del lease
    noise = [arena.empty(100, "int64") for _ in range(8)]
    for one in noise:
        one.numpy()[:] = -1
    for index, column in enumerate(columns):
        if index % 2:
            assert column.tolist() == [index] * 10
        else:
            assert np.frombuffer(column.bytes(800), "int64").tolist() == [index] * 100
    assert arena.live_count == 16
    del columns, column, noise, one
    assert arena.live_count == 0


# Weak points of the ancestor


def test_returns_are_synchronised(io, native):
    """Weak point 1: the return of a lease was safe only while every call held the GIL."""
    tensors = [consume(io.empty(64 * (1 + index % 50)).__dlpack__(**VERSIONED)) for index in range(800)]
    array = (ctypes.c_void_p * 800)(*map(ctypes.addressof, tensors))
    assert native.native_delete_many(array, 800, 1, 8) == 0
    assert settled(io)


def test_borrowed_outputs_have_no_context_as_their_base(service):
    """Weak point 2: outputs that borrow got the context as their base, and the next run cleared it below them."""
    runtime = hearth.Runtime(graph((pass_on, ["x"], ["y"])), service=service)
    outs = [runtime.run({"x": ones(value=index)})["y"] for index in range(5)]
    runtime.clear()
    for index, out in enumerate(outs):
        assert (out == index).all() and out.flags.writeable
        base = out
        while isinstance(getattr(base, "base", None), (np.ndarray, memoryview)):
            base = base.base
        assert not isinstance(base, hearth.Runtime)


def test_an_array_that_cannot_be_made_gives_its_buffer_back(service, monkeypatch):
    """Weak point 3: when the array could not be made its owner was dropped without a return."""
    runtime = hearth.Runtime(graph((double, ["x"], ["y"])), service=service)
    feed = ones()
    runtime.run({"x": feed})
    lease = service.io.empty(64)

    def refuse(*_arguments, **_keywords):
        raise MemoryError("planned")

    for name in ("asarray", "array", "frombuffer", "ndarray", "from_dlpack"):
        monkeypatch.setattr(np, name, refuse)
    for attempt in (lambda: runtime.run({"x": feed}), lease.numpy):
        try:
            attempt()
        except MemoryError:
            pass
    monkeypatch.undo()
    runtime.clear()
    gc.collect()
    assert service.io.live_count == 1 and service.execution.live_count == 0
    del lease, attempt
    assert service.io.live_count == 0


def test_outputs_are_writable(runtime):
    """Weak point 4: outputs ended up read-only, as a flag was forgotten. Inputs of kernels are read-only on purpose."""
    seen = []

    def look(node):
        seen.append(node.inputs[0].flags.writeable)
        node.output(0, (4,), "float32")[...] = 1
        seen.append(node.temporary(16).flags.writeable)

    out = runtime.run({"x": ones()})["y"]
    assert out.flags.writeable
    out[:] = 3
    out = hearth.Runtime(graph((look, ["x"], ["y"])), service=runtime.service).run({"x": ones()})["y"]
    out += 1
    assert seen == [False, True] and (out == 2).all()


def test_an_output_pins_nothing_but_itself(exactly_once):
    """Weak point 5: an output of the execution arena pinned the whole context."""
    service = hearth.Service(maintenance_thread=False)
    runtime = hearth.Runtime(graph((double, ["x"], ["t"]), (double, ["t"], ["y"]), (double, ["t"], ["z"]),
                                   outputs=["y", "z"]), service=service)
    out = runtime.run({"x": ones()})["y"]
    references = sys.getrefcount(service)
    del runtime
    gc.collect()
    assert sys.getrefcount(service) < references
    assert service.io.live_count == 1 and service.execution.live_count == 0
    service.trim()
    assert service.io.footprint == service.footprint == service.io.live_capacity
    watch = Watch(address_of(out))
    del service
    gc.collect()
    assert (out == 4).all() and watch.held
    del out
    assert watch.returned


def test_who_holds_what_can_be_seen(arena):
    """Weak point 6: no way to see who holds what. A lease names its arena, size, generation, exports; arenas count."""
    lease = arena.empty((3, 5), "float32")
    views = [memoryview(lease), lease.numpy()]
    assert lease.arena in repr(lease) and "60" in repr(lease)
    assert lease.exports == 2 and arena.live_bytes == 60 and arena.live_count == 1
    assert "1 live" in repr(arena)
    assert views[0].obj is lease
    base = views[1]
    while not isinstance(base, (memoryview, hearth.Lease)):
        base = base.base
    assert (base.obj if isinstance(base, memoryview) else base) is lease
    if isinstance(arena, hearth.IOArena):
        assert arena.leased_bytes == 60
    del base, views
    assert lease.exports == 0


def test_capsules_say_used(arena):
    """The name of a consumed capsule is what the convention says."""
    capsule = arena.empty(8).__dlpack__(max_version=(1, 0))
    other = hearth.IOArena()
    lease = other.from_dlpack(Capsule(capsule))
    assert capsule_name(capsule) == USED[True]
    del lease
