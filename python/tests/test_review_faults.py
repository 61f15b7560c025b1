# SPDX-License-Identifier: Apache-2.0
"""Faults that a review found (docs/reviews/2026-11-python.md), each by what showed it."""

import contextlib
import ctypes
import os
import signal
import threading
import time

import hearth
import hearth.numpy_memory
import pytest

from support import in_thread

numpy = pytest.importorskip("numpy")


def one_node(kernel):
    plan = hearth.Plan(inputs=["x"], outputs=["y"])
    plan.add(kernel, ["x"], ["y"])
    return hearth.Runtime(plan)


def pass_on(node):
    node.put(0, node.inputs[0])


# Sources


@pytest.mark.parametrize("kind", [ctypes.c_float, ctypes.c_double, ctypes.c_int8, ctypes.c_uint16, ctypes.c_int32,
                                  ctypes.c_int64, ctypes.c_bool])
def test_arrays_of_ctypes_have_no_strides(kind):
    value = (kind * 3 * 2)((0, 1, 0), (1, 0, 1))
    result = one_node(pass_on).run({"x": value})["y"]
    assert result.tolist() == [[0, 1, 0], [1, 0, 1]]
    assert result.dtype == numpy.asarray(value).dtype


def test_scalars_and_empty_arrays_of_ctypes():
    assert one_node(pass_on).run({"x": ctypes.c_double(2.5)})["y"] == 2.5
    assert one_node(pass_on).run({"x": (ctypes.c_float * 0)()})["y"].shape == (0,)


def test_put_takes_arrays_of_ctypes():
    result = one_node(lambda node: node.put(0, (ctypes.c_float * 4)(1, 2, 3, 4))).run({"x": b"x"})["y"]
    assert result.tolist() == [1, 2, 3, 4]


def test_what_a_refused_buffer_says_is_told():
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError, match="released memoryview") as caught:
        one_node(pass_on).run({"x": view})
    assert "x" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="released memoryview"):
        one_node(lambda node: node.put(0, view)).run({"x": b"x"})


# DLPack


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Producer:
    """Bytes whose deleter is Python code."""

    def __init__(self):
        self.deleted = 0
        self._bytes = (ctypes.c_uint8 * 4)(1, 2, 3, 4)
        self._shape = (ctypes.c_int64 * 1)(4)
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._delete)
        self._tensor = _Tensor(data=ctypes.addressof(self._bytes), device_type=1, ndim=1, code=1, bits=8, lanes=1,
                               shape=ctypes.addressof(self._shape),
                               deleter=ctypes.cast(self._deleter, ctypes.c_void_p).value)

    def _delete(self, _):
        self.deleted += len(bytes(3)) - 2

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self._tensor), b"dltensor", None)


@pytest.mark.parametrize("export", [lambda lease: lease, memoryview, lambda lease: lease.numpy(),
                                    lambda lease: lease.__dlpack__(),
                                    lambda lease: lease.__dlpack__(max_version=(1, 0))])
def test_an_exception_survives_the_end_of_an_export(export):
    producer, io = Producer(), hearth.IOArena()
    with pytest.raises(ZeroDivisionError):
        print([export(io.from_dlpack(producer)), 1 / 0])  # ends the first item while the exception is on its way
    assert producer.deleted == 1


# Outputs


def test_outputs_of_two_nodes_never_share_memory():
    kept = []

    def first(node):
        kept.append(node.output(0, (4,), "float32"))
        kept[0][:] = 1

    plan = hearth.Plan(inputs=["x"], outputs=["y", "z"])
    plan.add(first, ["x"], ["y"])
    plan.add(lambda node: node.put(0, kept[0]), ["y"], ["z"])
    outputs = hearth.Runtime(plan).run({"x": b"x"})
    assert outputs["z"].tolist() == [1] * 4 and not numpy.shares_memory(outputs["y"], outputs["z"])


@pytest.mark.parametrize("show", [lambda lease: lease, lambda lease: lease.numpy(), lambda lease: lease.view()])
def test_a_lease_is_an_output_once(show):
    io = hearth.IOArena()
    lease = io.empty((4,), "float32")
    lease.numpy()[:] = 3
    plan = hearth.Plan(inputs=["x"], outputs=["y"])
    plan.add(lambda node: node.put(0, lease if not results else show(lease)), ["x"], ["y"])
    results = []
    runtime = hearth.Runtime(plan, service=hearth.Service(), io_arena=io)
    results.append(runtime.run({"x": b"x"})["y"])
    assert results[0].ctypes.data == lease.address
    results.append(runtime.run({"x": b"x"})["y"])
    results.append(runtime.run({"x": b"x"})["y"])
    for i in (1, 2):
        assert results[i].tolist() == [3] * 4 and not numpy.shares_memory(results[i], results[i - 1])


def test_a_result_is_passed_on_once():
    results = [one_node(pass_on).run({"x": numpy.ones(3)})["y"]]

    def kernel(node):
        node.put(0, results[0])

    inner = one_node(pass_on)
    outer = hearth.Plan(["x"], ["y", "z"])
    outer.add(lambda node: node.put(0, inner.run({"x": node.inputs[0]})["y"]), ["x"], ["y"])
    outer.add(kernel, ["x"], ["z"])
    runtime = hearth.Runtime(outer, service=inner.service)
    first, second = (runtime.run({"x": numpy.ones(3)}) for _ in range(2))
    assert runtime.last_run.payload_copies == 1  # results[0] is of another arena
    assert len({array.ctypes.data for pair in (first, second) for array in pair.values()}) == 4


def test_the_slot_of_a_put_may_have_the_value_already():
    def kernel(node):
        array = node.output(0, (3,), "float32")
        array[:] = 2
        node.put(0, array)
        node.put(0, array)

    runtime = one_node(kernel)
    assert runtime.run({"x": b"x"})["y"].tolist() == [2] * 3
    assert runtime.last_run.payload_copies == 0


# Names of arenas


@pytest.mark.parametrize("make", [hearth.IOArena, hearth.ExecutionArena])
def test_an_arena_and_its_leases_tell_the_same_name(make):
    seen = set()
    for _ in range(5):  # at the same address, most of the time
        arena = make()
        lease = arena.empty(4)
        assert lease.arena in repr(arena) and "-" in lease.arena
        seen.add(lease.arena)
    assert len(seen) == 5


def test_the_arena_of_a_service_has_a_name():
    seen = {hearth.Service(maintenance_thread=False).io.empty(4).arena for _ in range(5)}
    assert len(seen) == 5
    service = hearth.Service()
    assert service.io.empty(4).arena in repr(service.io)


# Arguments


def test_an_array_of_numpy_is_a_shape():
    io = hearth.IOArena()
    assert io.empty(numpy.array([2, 3])).shape == (2, 3)
    assert io.empty(numpy.array([4])).shape == (4,)
    assert io.empty(numpy.array(5)).shape == io.empty(numpy.int64(5)).shape == (5,)
    with pytest.raises(TypeError):
        io.empty(numpy.array([2.5]))


def test_none_is_the_default_of_flags():
    service = hearth.Service(maintenance_thread=None, scrub=None, age_seconds=0.05)
    service.io.empty(32 << 20)
    end = time.monotonic() + 30
    while service.retained_bytes and time.monotonic() < end:
        time.sleep(0.01)
    assert service.retained_bytes == 0  # the thread is there


@pytest.mark.parametrize("use", [hearth.install_numpy, hearth.numpy_allocator])
def test_an_allocator_says_what_it_needs(use):
    with pytest.raises(TypeError, match="hearth.Service"):
        use(hearth.IOArena())


def test_what_a_kernel_is_refused_names_the_remedy():
    def all_of(node):
        node.output(0, (1 << 21,), "uint8")

    def close(node):
        io.close()
        node.put(0, b"x")

    plan = hearth.Plan(["x"], ["y"])
    plan.add(all_of, ["x"], ["y"])
    with pytest.raises(hearth.NoMemoryError, match="'y' of 2097152 bytes.*raise the limit"):
        hearth.Runtime(plan, service=hearth.Service(live_limit=1 << 20)).run({"x": b"x"})
    io = hearth.IOArena()
    plan = hearth.Plan(["x"], ["y"])
    plan.add(close, ["x"], ["y"])
    with pytest.raises(hearth.ClosedError, match="make a new one"):
        hearth.Runtime(plan, execution_arena=hearth.ExecutionArena(), io_arena=io).run({"x": b"x"})


# The process's allocator


def test_a_fork_while_another_thread_makes_the_service():
    going = True

    def make():
        while going:
            hearth.numpy_memory._service = None
            hearth.default_service()

    thread = threading.Thread(target=make)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    signal.alarm(20)
                    hearth.default_service()
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        going = False
        thread.join()


def test_the_lock_of_the_process_is_free_after_a_fork():
    child = os.fork()
    if child == 0:
        os._exit(0 if in_thread(lambda: hearth.default_service().closed) is False else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert in_thread(lambda: hearth.default_service().closed) is False
