# SPDX-License-Identifier: Apache-2.0
"""An array keeps its buffer, however many views later, and whichever of them goes last."""

import array as pyarray
import gc
import itertools
import struct

import numpy as np
import pytest

import hearth
from support import Consumer, Watch, address_of, rounds

ROUTES = {
    "numpy()": lambda lease: lease.numpy(),
    "asarray": np.asarray,
    "array without a copy": lambda lease: np.array(lease, copy=False),
    "frombuffer": lambda lease: np.frombuffer(lease, dtype=lease.dtype).reshape(lease.shape),
    "ndarray(buffer=)": lambda lease: np.ndarray(lease.shape, dtype=lease.dtype, buffer=lease),
    "memoryview": lambda lease: np.asarray(memoryview(lease)),
    "from_dlpack": np.from_dlpack,
    "view": lambda lease: lease.view().numpy(),
    "view of a view": lambda lease: lease.view("uint8").view(lease.dtype, lease.shape).numpy(),
}


@pytest.fixture(params=sorted(ROUTES))
def route(request):
    return ROUTES[request.param]


def test_every_route_looks_at_the_same_bytes_and_keeps_them(arena, route):
    lease = arena.empty((3, 5), "float32")
    watch = Watch(lease)
    there = lease.address
    out = route(lease)
    assert address_of(out) == there
    assert out.shape == (3, 5) and out.dtype == np.float32
    assert out.base is not None
    assert not out.flags.owndata
    assert out.flags.c_contiguous
    lease.numpy()[...] = 7
    del lease
    gc.collect()
    assert watch.held and arena.live_count == 1
    assert (out == 7).all()
    del out
    assert watch.returned and arena.live_count == 0


def test_arrays_are_writable_unless_asked_otherwise(arena):
    lease = arena.empty(16, "int32")
    assert not lease.readonly
    lease.numpy()[:] = 3
    assert np.asarray(lease).flags.writeable
    assert not memoryview(lease).readonly
    still = lease.numpy(readonly=True)
    assert not still.flags.writeable and (still == 3).all()
    with pytest.raises(ValueError):
        still.flags.writeable = True
    assert lease.numpy().flags.writeable, "a read-only array says nothing about the next one"
    assert lease.numpy(readonly=False).flags.writeable


def test_nothing_of_a_readonly_lease_is_writable(arena):
    lease = arena.empty(16, "int32")
    lease.numpy()[:] = 5
    sealed = lease.view(readonly=True)
    del lease
    assert sealed.readonly
    for out in (sealed.numpy(), np.asarray(sealed), np.asarray(memoryview(sealed)), sealed.view().numpy()):
        assert not out.flags.writeable and (out == 5).all()
        with pytest.raises(ValueError):
            out.flags.writeable = True
    assert memoryview(sealed).readonly
    with pytest.raises((ValueError, BufferError)):
        np.ndarray(16, "int32", buffer=sealed)[0] = 1
    assert sealed.view().readonly, "a view inherits"
    with pytest.raises((hearth.InvalidError, BufferError, ValueError)):
        sealed.view(readonly=False)
    with pytest.raises((hearth.InvalidError, BufferError, ValueError)):
        sealed.numpy(readonly=False)
    with pytest.raises((BufferError, TypeError)):
        struct.pack_into("i", sealed, 0, 1)
    with pytest.raises((BufferError, TypeError)):
        open("/dev/zero", "rb").readinto(sealed)
    assert (np.asarray(sealed) == 5).all()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=lambda order: "".join(map(str, order)))
def test_the_last_of_a_chain_of_views_returns_the_buffer(io, order):
    lease = io.empty((4, 6), "int64")
    watch = Watch(lease)
    whole = lease.numpy()
    whole[...] = np.arange(24).reshape(4, 6)
    chain = [lease, whole, whole[1:, ::2], whole[1:, ::2].T.reshape(-1)[::-1]]
    chain[3] = chain[2].T[::-1, :]
    expected = chain[3].copy()
    del lease, whole
    for step, index in enumerate(order):
        assert watch.held
        if chain[3] is not None:
            assert (chain[3] == expected).all()
        chain[index] = None
        assert watch.returned == (step == 3)
    assert io.live_count == 0


VIEWS = {
    "slice": lambda a: a[1:3],
    "step": lambda a: a[::2, ::-1],
    "negative steps": lambda a: a[::-1, ::-1],
    "transpose": lambda a: a.T,
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "reshape": lambda a: a.reshape(-1),
    "reshape after transpose in place": lambda a: a.reshape(8, 3).T,
    "ravel": np.ravel,
    "newaxis": lambda a: a[None, :, None],
    "squeeze": lambda a: a[None].squeeze(),
    "0-d view": lambda a: a[2, 3, ...],
    "dtype view": lambda a: a.view(np.uint8),
    "flat base of an iterator": lambda a: a.flat,
    "broadcast": lambda a: np.broadcast_to(a, (3,) + a.shape),
    "diagonal": np.diagonal,
    "real": lambda a: a.view(np.complex64).imag if a.shape[1] % 2 == 0 else a.real,
    "as_strided": lambda a: np.lib.stride_tricks.as_strided(a, (2, 2), a.strides),
    "sliding windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=0),
    "split": lambda a: np.split(a, 2)[1],
    "nditer": lambda a: np.nditer(a),
    "subclass": lambda a: a.view(np.matrix),
    "masked": lambda a: np.ma.masked_array(a, mask=False),
    "memoryview": memoryview,
    "memoryview slice": lambda a: memoryview(a)[1:],
    "record view": lambda a: a.view([("x", "f4"), ("y", "f4")]),
    "iterator over rows": iter,
    "asarray of a view": lambda a: np.asarray(memoryview(a[1:])),
    "bound method": lambda a: a.sum,
    "ctypes": lambda a: a.ctypes,
    "ctypes array": lambda a: np.ctypeslib.as_ctypes(a),
    "array interface": lambda a: np.asarray(type("Wrap", (), {"__array_interface__": a.__array_interface__, "a": a})()),
    "dlpack": lambda a: np.from_dlpack(a),
    "unconsumed capsule": lambda a: a.__dlpack__(),
    "generator": lambda a: (row for row in a),
}


@pytest.mark.parametrize("make", sorted(VIEWS))
def test_a_view_of_any_kind_alone_keeps_the_buffer(arena, make):
    lease = arena.empty((4, 6), "float32")
    watch = Watch(lease)
    whole = lease.numpy()
    whole[...] = 1.5
    view = VIEWS[make](whole)
    del lease, whole
    gc.collect()
    assert watch.held and arena.live_count == 1
    again = arena.empty((4, 6), "float32")
    again.numpy()[...] = -1
    assert again.address != watch and watch.held
    if isinstance(view, np.ndarray) and view.dtype == np.float32:
        assert (view == 1.5).all()
    del view, again
    gc.collect()
    assert watch.returned and arena.live_count == 0


@pytest.mark.parametrize("code", ["B", "b", "c", "h", "i", "q", "f", "d", "?"])
def test_memoryview_cast(io, code):
    lease = io.empty(64, "uint8")
    watch = Watch(lease)
    lease.numpy()[:] = 1
    cast = memoryview(lease).cast("B").cast(code)
    assert cast.nbytes == 64 and cast.obj is lease
    inner = cast[1:]
    del lease, cast
    assert watch.held
    assert bytes(inner.cast("B")) == b"\1" * inner.nbytes
    inner.release()
    del inner
    assert watch.returned


def test_memoryview_of_shaped_leases(arena):
    lease = arena.empty((2, 3), "int16")
    lease.numpy()[...] = [[1, 2, 3], [4, 5, -6]]
    view = memoryview(lease)
    assert (view.shape, view.strides, view.itemsize, view.format) == ((2, 3), (6, 2), 2, "h")
    assert view.tolist() == [[1, 2, 3], [4, 5, -6]]
    assert view.nbytes == lease.nbytes == 12 and view.c_contiguous
    assert view.tobytes() == lease.tobytes() == bytes(lease)
    assert view.cast("B").cast("h", (3, 2)).tolist() == [[1, 2], [3, 4], [5, -6]]
    view[1, 2] = 6
    assert lease.numpy()[1, 2] == 6
    with pytest.raises(NotImplementedError):
        view[0]
    with pytest.raises(ValueError):
        hash(view)


def test_exports_are_counted(arena):
    lease = arena.empty(16)
    assert lease.exports == 0
    views = [memoryview(lease) for _ in range(5)]
    assert lease.exports == 5
    views.append(lease.numpy())
    assert lease.exports == 6
    views.append(views[-1][3:])
    views.append(views[0][3:])
    assert lease.exports == 6, "views of views are the consumer's affair"
    capsule = lease.__dlpack__()
    assert lease.exports == 6, "and DLPack is not seen"
    views.clear()
    assert lease.exports == 0
    del capsule
    assert lease.exports == 0


def test_memoryview_released_early_and_twice(arena):
    lease = arena.empty(16)
    watch = Watch(lease)
    with memoryview(lease) as view:
        view[0] = 9
        assert lease.exports == 1
    assert lease.exports == 0
    view.release()
    with pytest.raises(ValueError):
        view[0]
    del lease
    assert watch.returned, "what is left of the memoryview keeps nothing"


def test_ndarray_with_buffer_takes_no_export_and_still_keeps_it(arena):
    """numpy.ndarray(buffer=) stores the object as its base and holds no export of it: an early release must not
    take the memory from under it."""
    lease = arena.empty((8, 8), "float64")
    watch = Watch(lease)
    out = np.ndarray((8, 8), buffer=lease)
    out[...] = 2.5
    lease.release()
    assert lease.released
    del lease
    other = [arena.empty((8, 8), "float64") for _ in range(4)]
    for one in other:
        one.numpy()[...] = -1
    assert watch.held and (out == 2.5).all()
    part = np.ndarray(3, buffer=out, offset=16)
    del out
    assert watch.held and (part == 2.5).all()
    del part, other, one
    assert watch.returned


@pytest.mark.parametrize("route_name", sorted(ROUTES))
def test_release_leaves_what_was_exported(arena, route_name):
    lease = arena.empty((8, 8), "float64")
    watch = Watch(lease)
    out = ROUTES[route_name](lease)
    lease.numpy()[...] = 4
    lease.release()
    lease.release()
    assert lease.released
    others = [arena.empty((8, 8), "float64") for _ in range(4)]
    for other in others:
        np.asarray(other)[...] = -1
    assert watch.held and (out == 4).all()
    del lease
    assert watch.held and (out == 4).all()
    out = out[2:, ::2]
    assert watch.held and (out == 4).all()
    del out
    assert watch.returned


def test_a_released_lease_makes_nothing_new(arena):
    lease = arena.empty(16)
    kept = memoryview(lease)
    lease.release()
    for attempt in (lambda: memoryview(lease), lambda: np.asarray(memoryview(lease)), lease.numpy, lease.view,
                    lease.__dlpack__, lambda: lease.__dlpack__(max_version=(1, 0)), lambda: np.from_dlpack(lease),
                    lease.tobytes, lambda: bytes(memoryview(lease)),
                    lambda: hearth.IOArena().from_dlpack(lease), lambda: np.frombuffer(lease)):
        with pytest.raises(hearth.ClosedError) as caught:
            attempt()
        assert caught.value.status == "CLOSED"
    assert "released" in repr(lease)
    del kept


def test_with_statement_releases(arena):
    with arena.empty(64) as lease:
        watch = Watch(lease)
        out = lease.numpy()
        assert not lease.released
    assert lease.released and watch.held
    del out, lease
    assert watch.returned
    with pytest.raises(KeyError):
        with arena.empty(64) as lease:
            watch = Watch(lease)
            raise KeyError
    assert lease.released
    with pytest.raises(hearth.ClosedError):
        with lease:
            pass
    del lease
    assert watch.returned


def test_release_while_something_exports_again(arena):
    """A lease that is released inside the export of another view of it."""
    lease = arena.empty(64)
    watch = Watch(lease)

    class Evil:
        def __index__(self):
            lease.release()
            return 64

    try:
        view = lease.view("uint8", (Evil(),))
    except hearth.ClosedError:
        view = None
    assert lease.released
    del lease
    if view is not None:
        assert watch.held and view.numpy().size == 64, "made before the release, or not at all"
        del view
    assert watch.returned


def test_shape_and_type_that_change_their_mind(arena):
    """Arguments whose conversion runs Python code that drops things."""
    dropped = [arena.empty(64)]

    class Evil:
        def __index__(self):
            dropped.clear()
            arena.trim()
            return 8

    class EvilType:
        @property
        def name(self):
            dropped.clear()
            arena.trim()
            return "float64"

    lease = dropped[0]
    assert lease.view("uint8", [Evil(), 8]).shape == (8, 8)
    assert arena.empty((Evil(), Evil()), "int8").shape == (8, 8)
    try:
        assert arena.empty(8, EvilType()).dtype == "float64"
    except TypeError:
        pass

    shape = [1, 1, 1]

    class Shrinking:
        def __index__(self):
            shape.clear()
            return 2

    shape[0] = Shrinking()
    try:
        made = arena.empty(shape)
        assert made.ndim in (1, 3)
    except (TypeError, ValueError, IndexError, RuntimeError):
        pass


@pytest.mark.parametrize("shape", [0, (0,), (0, 3), (3, 0), (2, 0, 5), (0, 0)])
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_zero_size(arena, shape, dtype):
    lease = arena.empty(shape, dtype)
    expected = shape if isinstance(shape, tuple) else (shape,)
    assert lease.shape == expected and lease.nbytes == 0 and lease.ndim == len(expected)
    assert arena.live_count == 1
    assert lease.tobytes() == b"" and len(lease) == expected[0]
    for route in ROUTES.values():
        if route is ROUTES["frombuffer"]:
            continue  # NumPy refuses buffers without bytes here
        out = route(lease)
        assert out.shape == expected and out.dtype == dtype and out.size == 0
        assert out.sum() == 0
    held = lease.numpy()
    del lease, out
    assert arena.live_count == 1, "an empty array holds its lease, too"
    assert held.T.base is not None
    del held
    assert arena.live_count == 0


def test_zero_size_leases_are_distinct(io):
    leases = [io.empty(0) for _ in range(10)]
    assert len({(lease.address, lease.generation) for lease in leases}) == 10 or io.live_count == 10
    assert io.live_count == 10
    for lease in leases:
        lease.view("float64", (0, 4))
        with pytest.raises(hearth.InvalidError):
            lease.view("uint8", 1)
    del leases, lease
    assert io.live_count == 0


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float64", "complex128"])
def test_scalar(arena, dtype):
    lease = arena.zeros((), dtype)
    watch = Watch(lease)
    assert lease.shape == () and lease.strides == () and lease.ndim == 0
    assert lease.nbytes == np.dtype(dtype).itemsize
    with pytest.raises(TypeError):
        len(lease)
    for name, route in ROUTES.items():
        if name == "from_dlpack" and dtype == "bool":
            continue  # NumPy 1.24 has no booleans there
        out = route(lease)
        assert out.shape == () and out.dtype == dtype and out[()] == 0, name
        assert address_of(out) == lease.address, name
    lease.numpy()[()] = 1
    view = memoryview(lease)
    assert view.ndim == 0 and view.shape == () and view.nbytes == lease.nbytes
    if dtype in ("bool", "int8", "float64"):
        assert view[()] == 1
    assert lease.tobytes() == np.ones((), dtype).tobytes()
    taken = lease.numpy()[()]
    kept = lease.numpy()[...]
    del lease, out, view
    assert watch.held and kept == taken == 1
    del kept
    assert watch.returned
    assert taken == 1


def test_views_of_part_with_other_types(arena):
    lease = arena.empty(64, "uint8")
    watch = Watch(lease)
    lease.numpy()[:] = np.arange(64)
    part = lease.view("uint32", (2, 3), offset=8)
    assert part.address == lease.address + 8 and part.shape == (2, 3) and part.strides == (12, 4)
    assert part.numpy().tobytes() == bytes(range(8, 32)) == part.tobytes()
    assert np.from_dlpack(part).tobytes() == bytes(range(8, 32))
    assert Consumer(part).bytes(24) == bytes(range(8, 32))
    inner = part.view("uint8", offset=4)
    assert inner.address == lease.address + 12
    assert inner.nbytes == 20, "a view ends where what it was made of ends"
    assert part.generation == lease.generation == inner.generation
    for bad in (dict(dtype="uint8", shape=65), dict(dtype="uint8", shape=64, offset=1), dict(offset=65),
                dict(offset=-1), dict(dtype="uint16", shape=(1 << 62, 4)), dict(shape=-1), dict(shape=(1, -1))):
        with pytest.raises((ValueError, hearth.Error, OverflowError)):
            lease.view(**bad)
    with pytest.raises((ValueError, hearth.Error)):
        part.view("uint8", 25), "not beyond the view, though the buffer goes on"
    assert lease.view(offset=64).shape == (0,)
    del lease, part
    assert watch.held and inner.tobytes() == bytes(range(12, 32))
    del inner
    assert watch.returned


def test_views_at_addresses_that_do_not_fit_their_type(arena):
    lease = arena.zeros(64, "uint8")
    try:
        odd = lease.view("float64", 4, offset=1)
    except (ValueError, hearth.Error):
        return
    out = odd.numpy()
    assert address_of(out) == lease.address + 1 and out.sum() == 0


def test_views_of_view_types_numpy_does_not_know(arena):
    lease = arena.empty(32, "bfloat16")
    assert lease.itemsize == 2 and lease.nbytes == 64
    with pytest.raises(TypeError):
        lease.numpy()
    bits = lease.view("uint16").numpy()
    bits[:] = 0x3F80
    tensor = Consumer(lease, max_version=(1, 0))
    view = tensor.tensor.dl_tensor
    assert (view.dtype.code, view.dtype.bits, view.dtype.lanes) == (4, 16, 1)
    assert tensor.address == lease.address
    watch = Watch(lease)
    del lease, bits, view
    assert watch.held and tensor.bytes(4) == b"\x80\x3f\x80\x3f"
    del tensor
    assert watch.returned


def test_many_dimensions(arena):
    lease = arena.zeros((1, 2, 1, 3, 1, 2, 1, 2), "int8")
    assert np.asarray(lease).shape == lease.shape == np.from_dlpack(lease).shape
    assert memoryview(lease).ndim == 8
    with pytest.raises((ValueError, hearth.Error)):
        arena.empty((1,) * 9)
    with pytest.raises((ValueError, hearth.Error)):
        lease.view("int8", (1,) * 9)


def test_zeros_are_zero_when_the_pages_are_warm(arena):
    for size in (1, 100, 4096, 1 << 20):
        for _ in range(3):
            lease = arena.empty(size)
            lease.numpy()[:] = 0xA5
            del lease
            assert not arena.zeros(size).numpy().any()


def test_alignment(arena):
    for alignment in (0, 64, 128, 4096, 1 << 21):
        lease = arena.empty(100, alignment=alignment)
        assert lease.address % max(alignment, 64) == 0
    for alignment in (3, -64, 1 << 40):
        with pytest.raises((ValueError, hearth.Error, OverflowError)):
            arena.empty(100, alignment=alignment)


def test_the_same_warm_buffer_is_another_use(io):
    lease = io.empty(1 << 20)
    first, where = lease.generation, lease.address
    del lease
    lease = io.empty(1 << 20)
    assert lease.address == where, "warm pages"
    assert lease.generation != first


def test_repr_tells_what_it_is(arena):
    lease = arena.empty((3, 4), "float32")
    text = repr(lease)
    for part in ("(3, 4)", "float32", lease.arena, str(lease.generation)):
        assert part in text, text
    assert lease.arena.split("-")[0] in ("io", "execution", "exec")
    name = lease.arena
    view = lease.view("uint8")
    assert view.arena == name
    lease.release()
    assert "released" in repr(lease)


def test_buffer_requests_of_consumers_in_c(io, tmp_path):
    """readinto, struct, array, hashing, writing: each asks for the buffer in its own way."""
    import hashlib
    import io as files
    import zlib

    lease = io.empty(256)
    data = bytes(range(256))
    assert files.BytesIO(data).readinto(lease) == 256
    assert lease.tobytes() == data
    assert hashlib.sha256(lease).digest() == hashlib.sha256(data).digest()
    assert zlib.crc32(lease) == zlib.crc32(data)
    assert b"".join([lease]) == data
    assert bytearray(lease) == data
    copy = pyarray.array("B")
    copy.frombytes(lease)
    assert copy.tobytes() == data
    struct.pack_into("<I", lease, 4, 0x01020304)
    assert struct.unpack_from("<I", lease, 4) == (0x01020304,)
    (tmp_path / "f").write_bytes(lease)
    assert (tmp_path / "f").read_bytes() == lease.tobytes()
    assert lease.exports == 0


def test_shaped_leases_for_consumers_of_plain_bytes(io):
    """A request without ND gets flat bytes; that must not be a lie about shape."""
    lease = io.empty((4, 4), "float32")
    lease.numpy()[...] = 1
    assert bytes(lease) == np.ones(16, "float32").tobytes()
    assert len(bytes(lease)) == 64
    sink = bytearray(64)
    sink[:] = lease
    assert sink == np.ones(16, "float32").tobytes()


def test_export_and_drop_does_not_grow(io):
    """Boxes of exports come from the C heap: nobody counts them but the process."""
    import resource

    lease = io.empty((16, 16), "float32")
    for route in ROUTES.values():
        for _ in range(100):
            route(lease)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for route in ROUTES.values():
        for _ in range(rounds(4000, 200)):
            route(lease)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8192
