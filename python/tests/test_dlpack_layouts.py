# SPDX-License-Identifier: Apache-2.0
"""DLPack tensors by hand: shapes, strides and extents that producers really make, and such as must be refused.

Lifetimes through DLPack are in test_lifetime_dlpack.py.
"""

import ctypes
import gc
import threading

import numpy as np
import pytest

import hearth

Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


_api = ctypes.pythonapi
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAMES = {Legacy: (b"dltensor", b"used_dltensor"), Versioned: (b"dltensor_versioned", b"used_dltensor_versioned")}


class Product:
    """A tensor over a bytearray that counts its deletions."""

    def __init__(self, kind=Legacy, memory=64, shape=(8,), strides=None, *, offset=0, base=0, code=1, bits=8, lanes=1,
                 device=1, ndim=None, deleter=True, flags=0, major=1, data=True):
        self.kind, self.deletions = kind, 0
        self.memory = (ctypes.c_uint8 * memory)(*range(memory))
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        self.deleter = Deleter(self.delete)
        self.struct = kind()
        self.struct.deleter = ctypes.cast(self.deleter, ctypes.c_void_p).value if deleter else None
        self.struct.tensor = Tensor(
            ctypes.addressof(self.memory) + base if data else None, device, 0, len(shape) if ndim is None else ndim,
            code, bits, lanes, self.shape, self.strides, offset)
        if kind is Versioned:
            self.struct.major, self.struct.minor, self.struct.flags = major, 9, flags

    def delete(self, address):
        assert address == ctypes.addressof(self.struct)
        self.deletions += 1

    def capsule(self):
        return _api.PyCapsule_New(ctypes.addressof(self.struct), NAMES[self.kind][0], None)


@pytest.fixture
def io():
    made = hearth.IOArena()
    yield made
    gc.collect()  # exceptions and the frames they come from
    assert made.live_count == 0


KINDS = pytest.mark.parametrize("kind", [Legacy, Versioned])


@KINDS
@pytest.mark.parametrize("shape, strides, base, first, bytes_", [
    ((8,), None, 0, [0, 1, 2, 3, 4, 5, 6, 7], 8),
    ((2, 3), None, 4, [[4, 5, 6], [7, 8, 9]], 6),
    ((2, 3), (1, 2), 0, [[0, 2, 4], [1, 3, 5]], 6),
    ((4,), (-1,), 9, [9, 8, 7, 6], 4),
    ((2, 2), (-8, -1), 20, [[20, 19], [12, 11]], 10),
    ((2, 2), (8, -2), 20, [[20, 18], [28, 26]], 11),
    ((3,), (0,), 5, [5, 5, 5], 1),
    ((), (), 7, 7, 1),
    ((), None, 7, 7, 1),
    ((1, 3), (1 << 62, 1), 0, [[0, 1, 2]], 3),
    ((3, 1), (1, -(1 << 62)), 0, [[0], [1], [2]], 3),
    ((0, 3), (5, 5), 0, [], 0),
    ((3, 0), None, 0, [[], [], []], 0),
])
def test_layouts(io, kind, shape, strides, base, first, bytes_):
    product = Product(kind, shape=shape, strides=strides, base=base)
    capsule = product.capsule()
    lease = io.from_dlpack(capsule)
    assert _api.PyCapsule_GetName(capsule) == NAMES[kind][1]
    assert lease.shape == shape and lease.numpy().tolist() == first
    assert lease.tobytes() == np.array(first, "uint8").tobytes()
    assert io.live_bytes == bytes_, "the extent, not the product of the shape"
    copied = np.from_dlpack(Wrapper(lease.__dlpack__(copy=True)))
    assert copied.tolist() == first and (copied.size == 0 or copied.flags.c_contiguous)
    shared = np.from_dlpack(Wrapper(lease.__dlpack__()))
    assert shared.tolist() == first
    del lease
    assert product.deletions == 0 or bytes_ == 0
    del shared
    assert product.deletions == 1 and io.live_count == 0


class Wrapper:
    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


@KINDS
def test_byte_offsets(io, kind):
    product = Product(kind, shape=(3,), strides=(-1,), base=4, offset=6)
    lease = io.from_dlpack(product.capsule())
    assert lease.tobytes() == bytes([10, 9, 8]) and lease.address == ctypes.addressof(product.memory) + 10
    del lease
    assert product.deletions == 1


@KINDS
@pytest.mark.parametrize("wrong", [
    dict(shape=(-1,)), dict(shape=(1 << 62, 4)), dict(shape=(1 << 62, 2, 2), strides=(0, 0, 0)),
    dict(shape=(4,), strides=(1 << 62,)), dict(shape=(4,), strides=(-(1 << 63),)), dict(bits=64, shape=(1 << 61,)),
    dict(shape=(3, 3), strides=(1 << 61, 1 << 61)), dict(shape=(4,), strides=(-(1 << 56),)),
    dict(ndim=9), dict(ndim=-1), dict(ndim=1 << 30), dict(lanes=2), dict(lanes=0), dict(code=3), dict(bits=7),
    dict(code=2, bits=8), dict(code=17, bits=4), dict(device=2), dict(device=0), dict(data=False),
    dict(offset=(1 << 64) - 8),
])
def test_what_is_refused_stays_with_its_capsule(io, kind, wrong):
    product = Product(kind, **wrong)
    capsule = product.capsule()
    with pytest.raises((BufferError, hearth.Error)) as caught:
        io.from_dlpack(capsule)
    assert ":" in str(caught.value), "says what to do"
    assert _api.PyCapsule_GetName(capsule) == NAMES[kind][0] and product.deletions == 0


def test_a_shape_of_nothing(io):
    product = Product(shape=(8,))
    product.struct.tensor.shape = None
    with pytest.raises(BufferError):
        io.from_dlpack(product.capsule())
    product.struct.tensor.ndim = 0
    assert io.from_dlpack(product.capsule()).shape == ()


def test_versions(io):
    for major in (0, 2, 1 << 31):
        product = Product(Versioned, major=major)
        with pytest.raises(BufferError, match="1.x"):
            io.from_dlpack(product.capsule())
        assert product.deletions == 0


def test_flags(io):
    lease = io.from_dlpack(Product(Versioned, flags=1 | 2 | 1 << 40).capsule())
    assert lease.readonly and not lease.numpy().flags.writeable
    assert not io.from_dlpack(Product(Versioned, flags=2).capsule()).readonly


@KINDS
def test_no_deleter(io, kind):
    product = Product(kind, deleter=False)
    lease = io.from_dlpack(product.capsule())
    del lease
    assert product.deletions == 0 and io.live_count == 0


@KINDS
def test_consumed_capsules(io, kind):
    product = Product(kind)
    capsule = product.capsule()
    lease = io.from_dlpack(capsule)
    for again in (capsule, Wrapper(capsule)):
        with pytest.raises(hearth.InvalidError, match="consumed"):
            io.from_dlpack(again)
    del lease
    assert product.deletions == 1


@KINDS
def test_an_arena_that_refuses_gives_the_capsule_back(kind):
    full = hearth.IOArena(1)
    held, product = full.empty(1), Product(kind)
    capsule = product.capsule()
    with pytest.raises(hearth.NoMemoryError):
        full.from_dlpack(capsule)
    assert _api.PyCapsule_GetName(capsule) == NAMES[kind][0] and product.deletions == 0
    del held
    del capsule
    lease = full.from_dlpack(product.capsule())
    del lease
    assert product.deletions == 1


def test_devices_are_asked_first(io):
    class Elsewhere:
        def __dlpack__(self, **_keywords):
            raise AssertionError("asked for a capsule of another device")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match="CPU"):
        io.from_dlpack(Elsewhere())
    for device in (None, 1, (), ("cpu", 0)):
        with pytest.raises((TypeError, IndexError)):
            io.from_dlpack(Wrapper(None, device))
    product = Product()

    class Silent:
        def __dlpack__(self):
            return product.capsule()

    lease = io.from_dlpack(Silent())
    del lease
    assert product.deletions == 1


def test_version_is_asked_for_and_old_producers_are_asked_again(io):
    seen, product, old = [], Product(Versioned), Product(Legacy)

    class New:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, *, max_version=None):
            seen.append(max_version)
            return product.capsule()

    lease = io.from_dlpack(New())
    assert seen == [(1, 0)]
    lease = io.from_dlpack(Wrapper(old.capsule()))
    del lease
    assert product.deletions == 1 and old.deletions == 1


def test_deleters_on_threads_and_with_an_exception_on_its_way(io):
    product = Product()
    lease = [io.from_dlpack(product.capsule())]
    thread = threading.Thread(target=lease.clear)
    thread.start()
    thread.join()
    assert product.deletions == 1
    other = Product()

    def fail():
        _lease = io.from_dlpack(other.capsule())
        raise KeyError("kept")

    with pytest.raises(KeyError, match="kept"):
        fail()
    assert other.deletions == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
                                   "float8_e8m0fnu", "bool", "complex64"])
def test_types_that_only_dlpack_names(io, dtype):
    lease = io.zeros((2, 3), dtype)
    back = io.from_dlpack(lease)
    assert (back.dtype, back.shape, back.address) == (dtype, (2, 3), lease.address)
    old = io.from_dlpack(lease.__dlpack__())
    assert old.dtype == dtype and not old.readonly
    assert io.from_dlpack(lease.view(readonly=True)).readonly


def test_large_copies(io):
    lease = io.empty((3 << 20,))
    lease.numpy()[:] = 5
    copied = io.from_dlpack(lease.__dlpack__(copy=True, max_version=(1, 0)))
    assert copied.address != lease.address and copied.address % 256 == 0
    assert (copied.numpy() == 5).all() and not copied.readonly
    sealed = lease.view(readonly=True)
    assert not io.from_dlpack(sealed.__dlpack__(copy=True)).readonly
