# SPDX-License-Identifier: Apache-2.0
"""The buffer protocol of leases, request by request; names of arenas; element types.

What keeps what alive is in the test_lifetime files.
"""

import ctypes
import gc
import itertools
import threading
import weakref

import numpy as np
import pytest

import hearth

SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 1, 4, 8, 0x18
C_ORDER, F_ORDER, ANY_ORDER, INDIRECT = 0x38, 0x58, 0x98, 0x118


class PyBuffer(ctypes.Structure):
    """Py_buffer"""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)), ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)), ("internal", ctypes.c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(PyBuffer)]
_release.restype = None


class Request:
    """A view by hand: with Request(lease, flags) as view: ..."""

    def __init__(self, lease, flags):
        self.view = PyBuffer()
        self.view.obj = 0x10  # must be NULL after a failure
        try:
            _get(lease, self.view, flags)
        except BaseException:
            assert self.view.obj is None
            raise

    def __enter__(self):
        return self.view

    def __exit__(self, *_reasons):
        _release(self.view)


@pytest.fixture
def arena():
    made = hearth.IOArena()
    yield made
    gc.collect()  # exceptions and the frames they come from
    assert made.live_count == 0


def fortran(arena):
    """A lease in Fortran's order, of memory that NumPy made."""
    return arena.from_dlpack(np.arange(12, dtype="int32").reshape(3, 4).T)


def scattered(arena):
    return arena.from_dlpack(np.arange(48, dtype="int32").reshape(6, 8)[::2, ::-2])


def test_everything_that_can_be_asked_of_a_contiguous_lease(arena):
    lease = arena.empty((2, 3), "int16")
    for order, writable, form in itertools.product((ND, STRIDES, C_ORDER, ANY_ORDER, INDIRECT), (0, WRITABLE),
                                                   (0, FORMAT)):
        with Request(lease, order | writable | form) as view:
            assert lease.exports == 1
            assert view.buf == lease.address and view.obj == id(lease)
            assert (view.len, view.itemsize, view.ndim, view.readonly) == (12, 2, 2, 0)
            assert view.format == (b"h" if form else None)
            assert view.shape[:2] == [2, 3]
            assert bool(view.strides) == (order != ND)
            assert order == ND or view.strides[:2] == [6, 2]
            assert not view.suboffsets and not view.internal
        assert lease.exports == 0
    for flags in (SIMPLE, WRITABLE):
        with Request(lease, flags) as view:
            assert (view.len, view.ndim, view.format) == (12, 1, None)
            assert not view.shape and not view.strides
    for flags in (FORMAT, FORMAT | WRITABLE, F_ORDER):
        with pytest.raises(BufferError):
            Request(lease, flags)
    assert lease.exports == 0


def test_one_dimension_is_of_both_orders(arena):
    lease = arena.empty(5, "int16")
    for flags in (C_ORDER, F_ORDER, ANY_ORDER):
        with Request(lease, flags) as view:
            assert view.strides[0] == 2


def test_a_lease_in_fortrans_order(arena):
    lease = fortran(arena)
    assert lease.strides == (4, 16)
    for flags in (STRIDES, F_ORDER, ANY_ORDER, INDIRECT | FORMAT):
        with Request(lease, flags) as view:
            assert view.strides[:2] == [4, 16]
    for flags in (SIMPLE, ND, C_ORDER):
        with pytest.raises(BufferError, match="contiguous"):
            Request(lease, flags)
    assert lease.exports == 0
    assert np.asarray(lease).flags.f_contiguous
    assert lease.tobytes() == np.arange(12, dtype="int32").reshape(3, 4).T.tobytes()


def test_a_lease_in_no_order(arena):
    lease = scattered(arena)
    expected = np.arange(48, dtype="int32").reshape(6, 8)[::2, ::-2]
    with Request(lease, STRIDES) as view:
        assert view.buf == lease.address and view.strides[:2] == [64, -8]
    for flags in (SIMPLE, ND, C_ORDER, F_ORDER, ANY_ORDER):
        with pytest.raises(BufferError):
            Request(lease, flags)
    out = lease.numpy()
    assert (out == expected).all() and out.strides == (64, -8)
    assert lease.tobytes() == expected.tobytes() == memoryview(lease).tobytes()
    with pytest.raises(hearth.InvalidError):
        lease.view("uint8")
    assert lease.nbytes == 48 and len(lease) == 3


def test_readonly_leases_refuse_writers(arena):
    lease = arena.empty(8).view(readonly=True)
    assert lease.readonly and "read-only" in repr(lease)
    for flags in (WRITABLE, WRITABLE | STRIDES | FORMAT):
        with pytest.raises(BufferError, match="read-only"):
            Request(lease, flags)
    with Request(lease, STRIDES) as view:
        assert view.readonly == 1
    with pytest.raises(hearth.InvalidError):
        lease.numpy(readonly=False)
    with pytest.raises(hearth.InvalidError):
        lease.view(readonly=False)
    with pytest.raises(TypeError):
        lease.numpy(readonly="no")


@pytest.mark.parametrize("shape", [0, (0,), (3, 0), (0, 3), ()])
def test_zero_bytes_and_scalars(arena, shape):
    lease = arena.zeros(shape, "float32")
    size = 4 if shape == () else 0
    for flags in (SIMPLE, ND, STRIDES, C_ORDER, F_ORDER, ANY_ORDER, FORMAT | STRIDES):
        with Request(lease, flags) as view:
            assert view.buf and view.len == size
            if shape == ():
                assert not view.shape and not view.strides
    out = lease.numpy()
    assert out.shape == lease.shape and out.sum() == 0 and lease.tobytes() == bytes(size)
    assert memoryview(lease).nbytes == size
    if shape == ():
        out[()] = 2
        assert memoryview(lease)[()] == 2
        with pytest.raises(TypeError):
            len(lease)
    else:
        assert len(lease) == lease.shape[0]
    del out


def test_zero_bytes_at_no_address(arena):
    lease = arena.from_dlpack(np.empty((0, 4)))
    assert lease.address in (0, None) or lease.nbytes == 0
    with Request(lease, SIMPLE) as view:
        assert view.buf and view.len == 0
    assert lease.numpy().shape == (0, 4) and lease.tobytes() == b""


def test_types_that_the_protocol_cannot_name(arena):
    lease = arena.empty(8, "bfloat16")
    lease.view("uint16").numpy()[:] = np.arange(8)
    with pytest.raises(BufferError, match="bfloat16"):
        Request(lease, FORMAT | STRIDES)
    for flags in (SIMPLE, ND, STRIDES | WRITABLE):
        with Request(lease, flags) as view:
            assert view.len == 16 and view.format is None
    for make in (lease.numpy, lambda: np.asarray(lease), lambda: np.array(lease)):
        with pytest.raises(TypeError, match="uint16"):
            make()
    assert lease.tobytes() == np.arange(8, dtype="uint16").tobytes()


def test_numpy_does_not_take_a_released_lease_for_an_object(arena):
    lease = arena.empty(8)
    lease.release()
    assert lease.released and "released" in repr(lease)
    for make in (lease.numpy, lease.view, lease.tobytes, lease.__dlpack__, lambda: np.asarray(lease),
                 lambda: memoryview(lease), lambda: Request(lease, SIMPLE), lease.__enter__):
        with pytest.raises(hearth.ClosedError) as caught:
            make()
        assert caught.value.status == "CLOSED"
    lease.release()
    assert lease.shape == (8,) and lease.exports == 0


def test_array_method(arena):
    lease = arena.zeros(4, "float32")
    assert lease.__array__().base is not None
    assert lease.__array__("float64").dtype == "float64"
    copied = lease.__array__(copy=True)
    copied[:] = 1
    assert lease.numpy().sum() == 0


def test_buffer_method(arena):
    lease = arena.empty(4)
    assert lease.__buffer__(INDIRECT | FORMAT).nbytes == 4
    with pytest.raises(BufferError):
        lease.view(readonly=True).__buffer__(WRITABLE)


def test_views(arena):
    lease = arena.zeros((4, 4), "float32")
    lease.numpy()[...] = np.arange(16).reshape(4, 4)
    whole = lease.view()
    assert (whole.shape, whole.dtype, whole.address) == (lease.shape, lease.dtype, lease.address)
    assert lease.view("int32").shape == (4, 4)
    assert lease.view("uint8").shape == (64,)
    assert lease.view(shape=(2, 8)).numpy()[1, 0] == 8
    assert lease.view(shape=()).numpy() == 0
    part = lease.view(shape=(2, 4), offset=16)
    assert part.address == lease.address + 16 and part.numpy()[0, 0] == 4
    again = part.view(shape=4, offset=16)
    assert again.address == lease.address + 32 and again.numpy().tolist() == [8, 9, 10, 11]
    assert part.view(offset=28).numpy().tolist() == [11]
    assert part.view(offset=32).nbytes == 0
    for wrong in (dict(shape=17), dict(offset=65), dict(offset=2, shape=16), dict(dtype="float64", offset=4),
                  dict(offset=63), dict(shape=-1), dict(shape=(1,) * 9)):
        with pytest.raises(hearth.InvalidError):
            lease.view(**wrong)
    for wrong in (dict(offset=-1), dict(offset=1 << 80), dict(offset=1.5), dict(dtype="V7"), dict(shape="4"),
                  dict(shape=(1.5,))):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            lease.view(**wrong)
    assert part.generation == lease.generation and part.arena == lease.arena


def test_views_that_are_not_aligned(arena):
    lease = arena.zeros(16)
    out = lease.view("float64", 1, offset=3).numpy()
    out[0] = 1.5
    assert not out.flags.aligned and lease.tobytes()[3:11] == np.float64(1.5).tobytes()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
                                   "float16", "float32", "float64", "complex64", "complex128"])
def test_element_types_of_numpy(arena, dtype):
    true = np.dtype(dtype)
    for name in (dtype, true, true.type, true.char, true.str):
        lease = arena.empty(3, name)
        assert lease.dtype == dtype and lease.itemsize == true.itemsize
        out = lease.numpy()
        assert out.dtype == true and out.dtype.num == true.num
    if true.itemsize > 1:
        with pytest.raises(TypeError, match="byte order"):
            arena.empty(3, true.newbyteorder())
    back = arena.from_dlpack(np.ones(3, dtype)) if dtype != "bool" else None
    assert back is None or (back.dtype == dtype and (back.numpy() == 1).all())


def test_other_names_of_element_types(arena):
    for name, dtype in [(float, "float64"), (int, "int64"), (bool, "bool"), (complex, "complex128"),
                        ("float", "float64"), ("half", "float16"), (np.longlong, "int64"),
                        (np.ulonglong, "uint64"), (np.intc, "int32"),
                        ("float8e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e5m2"), (None, "uint8")]:
        assert arena.empty(1, name).dtype == dtype

    class Foreign:
        name = "bfloat16"

    assert arena.empty(1, Foreign()).dtype == "bfloat16"
    for wrong in ("S4", "U4", "datetime64[s]", "object", object, "longdouble", "nonsense", 5, [("a", "i4")], "string",
                  "int4", "\ud800"):
        with pytest.raises(TypeError):
            arena.empty(1, wrong)


def test_names_of_arenas(arena):
    first, other = arena.empty(1), hearth.IOArena()
    kind, number = first.arena.split("-")
    assert kind == "io" and int(number) > 0
    assert arena.empty(1).arena == first.arena != other.empty(1).arena
    execution = hearth.ExecutionArena()
    lease = execution.empty(4)
    kind, number = lease.arena.split("-")
    assert kind == "execution" and int(number) > 0
    assert execution.empty(4).arena == lease.arena and lease.view().arena == lease.arena
    assert lease.arena in repr(lease)
    leased = other.empty(1)
    del other, execution
    assert leased.arena.startswith("io") and lease.arena.startswith("execution")


def test_generations(arena):
    first = arena.empty(64)
    generation, address = first.generation, first.address
    del first
    second = arena.empty(64)
    assert second.address != address or second.generation != generation


def test_identity_and_weak_references(arena):
    lease, other = arena.empty(1), arena.empty(1)
    assert lease == lease and lease != other and len({lease, other, lease}) == 2
    gone = []
    reference = weakref.ref(lease, gone.append)
    assert reference() is lease
    del lease
    assert reference() is None and gone == [reference]


def test_exports_from_many_threads(arena):
    lease = arena.zeros(64)

    def use():
        for _ in range(2000):
            memoryview(lease)
            lease.numpy()

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lease.exports == 0 and arena.live_count == 1
