# SPDX-License-Identifier: Apache-2.0
"""DLPack both ways: what capsules hold, who frees it, and that it happens once."""

import ctypes
import gc
import itertools
import sys

import numpy as np
import pytest

import hearth
from support import (FLAG_IS_COPIED, FLAG_READ_ONLY, LEGACY, NAME, USED, VERSIONED, Capsule, Consumer, Watch,
                     address_of, capsule_name, capsule_new, capsule_tensor, consume, discard, in_thread)

KINDS = pytest.mark.parametrize("keywords", [LEGACY, VERSIONED], ids=["legacy", "versioned"])
CODES = {"int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8), "uint16": (1, 16),
         "uint32": (1, 32), "uint64": (1, 64), "float16": (2, 16), "float32": (2, 32), "float64": (2, 64),
         "bfloat16": (4, 16), "complex64": (5, 64), "complex128": (5, 128), "bool": (6, 8)}


# Export


@KINDS
@pytest.mark.parametrize("dtype", sorted(CODES))
def test_what_a_capsule_says(arena, keywords, dtype):
    lease = arena.empty((2, 3, 4), dtype)
    capsule = lease.__dlpack__(**keywords)
    versioned = keywords is VERSIONED
    assert capsule_name(capsule) == NAME[versioned]
    tensor = capsule_tensor(capsule)
    view = tensor.dl_tensor
    assert view.data == lease.address and view.byte_offset == 0
    assert (view.device.device_type, view.device.device_id) == (1, 0) == lease.__dlpack_device__()
    assert (view.dtype.code, view.dtype.bits, view.dtype.lanes) == CODES[dtype] + (1,)
    assert view.ndim == 3 and view.shape[:3] == [2, 3, 4]
    assert view.strides[:3] == [12, 4, 1], "always there, in elements"
    assert tensor.deleter
    if versioned:
        assert tensor.major == 1 and tensor.flags == 0


@KINDS
def test_zero_size_and_scalars_as_capsules(arena, keywords):
    empty = consume(arena.empty((0, 3), "float32").__dlpack__(**keywords))
    assert empty.dl_tensor.data is None and empty.dl_tensor.shape[:2] == [0, 3]
    scalar = consume(arena.zeros((), "float32").__dlpack__(**keywords))
    assert scalar.dl_tensor.ndim == 0 and scalar.dl_tensor.data
    assert arena.live_count == 2
    discard(empty)
    discard(scalar)
    assert arena.live_count == 0


@KINDS
def test_a_capsule_nobody_consumes(arena, keywords):
    lease = arena.empty(64)
    watch = Watch(lease)
    capsule = lease.__dlpack__(**keywords)
    del lease
    gc.collect()
    assert watch.held and arena.live_count == 1
    del capsule
    assert watch.returned


@KINDS
def test_a_consumed_capsule_leaves_the_buffer_to_its_consumer(arena, keywords):
    """The destructor of the capsule does nothing once the name says used."""
    lease = arena.empty(64)
    watch = Watch(lease)
    capsule = lease.__dlpack__(**keywords)
    tensor = consume(capsule)
    assert capsule_name(capsule) == USED[keywords is VERSIONED]
    del lease, capsule
    gc.collect()
    assert watch.held
    ctypes.memset(tensor.dl_tensor.data, 7, 64)
    discard(tensor)
    assert watch.returned


@KINDS
def test_the_consumer_first_the_capsule_later(arena, keywords):
    lease = arena.empty(64)
    watch = Watch(lease)
    capsule = lease.__dlpack__(**keywords)
    discard(consume(capsule))
    assert watch.held, "the lease is still there"
    del lease
    assert watch.returned
    del capsule


def test_a_capsule_consumed_twice(arena):
    lease = arena.empty(64)
    capsule = lease.__dlpack__()
    first = np.from_dlpack(Capsule(capsule))
    assert capsule_name(capsule) == USED[False]
    with pytest.raises(ValueError):
        np.from_dlpack(Capsule(capsule))
    other = hearth.IOArena()
    with pytest.raises((ValueError, BufferError, hearth.Error)):
        other.from_dlpack(capsule)
    with pytest.raises((ValueError, BufferError, hearth.Error)):
        other.from_dlpack(Capsule(capsule))
    assert other.live_count == 0
    assert address_of(first) == lease.address


@KINDS
def test_every_export_is_one_of_its_own(arena, keywords):
    lease = arena.empty(64)
    watch = Watch(lease)
    tensors = [consume(lease.__dlpack__(**keywords)) for _ in range(8)]
    assert len({ctypes.addressof(tensor) for tensor in tensors}) == 8
    assert {tensor.dl_tensor.data for tensor in tensors} == {lease.address}
    del lease
    for tensor in tensors[::2] + tensors[1::2]:
        assert watch.held
        discard(tensor)
    assert watch.returned


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=lambda order: "".join(map(str, order)))
def test_consumers_of_every_kind_in_every_order(io, order):
    lease = io.empty(64)
    watch = Watch(lease)
    lease.numpy()[:] = 6
    held = [Consumer(lease), Consumer(lease, max_version=(1, 0)), np.from_dlpack(lease), lease.numpy()[3:]]
    del lease
    for index in order:
        assert watch.held
        for one in held:
            if isinstance(one, Consumer):
                assert one.bytes(64) == b"\6" * 64
            elif one is not None:
                assert (one == 6).all()
        held[index] = one = None
    assert watch.returned


def test_readonly_and_the_flag(arena):
    lease = arena.empty(64).view(readonly=True)
    with pytest.raises(BufferError):
        lease.__dlpack__()
    with pytest.raises(BufferError):
        lease.__dlpack__(max_version=(0, 8))
    tensor = consume(lease.__dlpack__(max_version=(1, 0)))
    assert tensor.flags & FLAG_READ_ONLY
    discard(tensor)
    fresh = consume(lease.__dlpack__(max_version=(1, 0), copy=True))
    assert fresh.flags & FLAG_IS_COPIED
    assert not fresh.flags & FLAG_READ_ONLY or True
    discard(fresh)


@pytest.mark.parametrize("version, versioned", [(None, False), ((0, 8), False), ((0, 0), False), ((1, 0), True),
                                                ((1, 1), True), ((1, 99), True), ((2, 0), True), ((99, 99), True)])
def test_version_negotiation(arena, version, versioned):
    capsule = arena.empty(4).__dlpack__(max_version=version)
    assert capsule_name(capsule) == NAME[versioned]
    if versioned:
        assert capsule_tensor(capsule).major == 1


@KINDS
def test_copies(arena, keywords):
    lease = arena.empty(64)
    watch = Watch(lease)
    lease.numpy()[:] = 9
    tensor = consume(lease.__dlpack__(copy=True, **keywords))
    assert tensor.dl_tensor.data != lease.address
    lease.numpy()[:] = 1
    del lease
    assert ctypes.string_at(tensor.dl_tensor.data, 64) == b"\x09" * 64
    if keywords is VERSIONED:
        assert tensor.flags & FLAG_IS_COPIED
    discard(tensor)
    assert watch.returned
    lease = arena.empty(64)
    for copy in (None, False):
        assert Consumer(lease, copy=copy, **keywords).address == lease.address


def test_devices_and_streams(arena):
    lease = arena.empty(64)
    assert Consumer(lease, dl_device=(1, 0), stream=None).address == lease.address
    for bad in ((2, 0), (1, 1), (10, 0)):
        with pytest.raises(BufferError):
            lease.__dlpack__(dl_device=bad)
    with pytest.raises((BufferError, ValueError, TypeError)):
        lease.__dlpack__(stream=1)
    for bad in (dict(max_version=1), dict(max_version=(1,)), dict(max_version=("1", "0")), dict(dl_device="cpu"),
                dict(dl_device=(1,)), dict(unknown=1), dict(max_version=(1 << 80, 0))):
        with pytest.raises((TypeError, ValueError, BufferError, OverflowError)):
            lease.__dlpack__(**bad)
    with pytest.raises(TypeError):
        lease.__dlpack__(None)
    assert arena.live_count == 1


def test_deleters_run_where_python_is_not(arena, native):
    leases = [arena.empty(64) for _ in range(32)]
    for versioned in (False, True):
        watches = [Watch(lease) for lease in leases]
        tensors = [consume(lease.__dlpack__(**(VERSIONED if versioned else LEGACY))) for lease in leases]
        if versioned:
            leases.clear()
        array = (ctypes.c_void_p * 32)(*map(ctypes.addressof, tensors))
        assert native.native_delete_many(array, 32, versioned, 4) == 0
        assert arena.live_count == (0 if versioned else 32)
        assert all(watch.returned_to(arena) == versioned for watch in watches)


def test_deleter_with_the_gil_held_by_somebody_who_waits(native_path):
    """The thread that holds the GIL waits for a thread that deletes: a deleter that asks for the GIL hangs."""
    from support import run_python
    out = run_python("""
for arena in (hearth.IOArena(), hearth.ExecutionArena(), hearth.Service().io, hearth.Service().execution):
    for keywords in (LEGACY, VERSIONED):
        lease = arena.empty(1 << 16)
        watch = Watch(lease)
        tensor = consume(lease.__dlpack__(**keywords))
        del lease
        assert watch.held
        assert native.held.native_delete_on_thread(ctypes.addressof(tensor), keywords is VERSIONED) == 0
        assert arena.live_count == 0
        assert watch.returned_to(arena)
print("done")
""", native=native_path, timeout=60).stdout
    assert "done" in out


# Import


@pytest.mark.parametrize("versioned", [False, True], ids=["legacy", "versioned"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["capsule", "object"])
def test_foreign_memory_is_leased_and_its_deleter_called_once(io, native, versioned, wrapped):
    before = native.native_deletions()
    pointer = native.native_tensor(versioned, 0, 100, 0)
    capsule = capsule_new(pointer, versioned)
    lease = io.from_dlpack(Capsule(capsule) if wrapped else capsule)
    assert capsule_name(capsule) == USED[versioned]
    del capsule
    assert lease.shape == (100,) and lease.dtype == "uint8" and not lease.readonly
    assert io.live_count == io.leased_count == 1 and io.live_bytes == 100 and io.live_capacity == 0
    out = lease.numpy()
    assert out.tolist() == list(range(100)) and address_of(out) == lease.address
    part = out[50:]
    more = Consumer(lease, max_version=(1, 0))
    del lease, out
    assert native.native_deletions() == before
    del part
    assert native.native_deletions() == before and more.bytes(3) == b"\0\1\2"
    del more
    assert native.native_deletions() == before + 1
    gc.collect()
    assert native.native_deletions() == before + 1 and io.live_count == 0


def test_foreign_byte_offsets_and_missing_strides(io, native):
    before = native.native_deletions()
    for kind in (0, 1, 16, 17):
        lease = io.from_dlpack(capsule_new(native.native_tensor(kind, 0, 10, 24), bool(kind & 1)))
        assert lease.strides == (1,)
        assert lease.numpy().tolist() == list(range(10))
        assert lease.tobytes() == bytes(range(10))
        assert Consumer(lease).bytes(10) == bytes(range(10))
        del lease
    assert native.native_deletions() == before + 4


def test_foreign_readonly_stays_readonly(io, native):
    lease = io.from_dlpack(capsule_new(native.native_tensor(1, FLAG_READ_ONLY, 10, 0), True))
    assert lease.readonly and not lease.numpy().flags.writeable
    with pytest.raises(BufferError):
        lease.__dlpack__()
    tensor = consume(lease.__dlpack__(max_version=(1, 0)))
    assert tensor.flags & FLAG_READ_ONLY
    discard(tensor)
    with pytest.raises((hearth.InvalidError, ValueError, BufferError)):
        lease.view(readonly=False)


def test_foreign_without_a_deleter(io, native):
    for versioned in (0, 1):
        lease = io.from_dlpack(capsule_new(native.native_tensor(2 | versioned, 0, 10, 0), bool(versioned)))
        assert lease.numpy().tolist() == list(range(10))


def test_foreign_empty(io, native):
    before = native.native_deletions()
    lease = io.from_dlpack(capsule_new(native.native_tensor(1, 0, 0, 0), True))
    assert lease.shape == (0,) and lease.numpy().size == 0
    del lease
    assert native.native_deletions() == before + 1


@pytest.mark.parametrize("kind, what", [(4, "lanes"), (8, "device"), (33, "version")])
@pytest.mark.parametrize("versioned", [0, 1])
def test_foreign_tensors_that_are_refused(io, native, kind, what, versioned):
    """Refused: the producer's deleter is left to the capsule, or called once; never twice."""
    before = native.native_deletions()
    kind |= versioned
    versioned = bool(kind & 1)
    pointer = native.native_tensor(kind, 0, 64, 0)
    capsule = capsule_new(pointer, versioned)
    with pytest.raises((BufferError, TypeError, ValueError, hearth.Error)) as caught:
        io.from_dlpack(Capsule(capsule, device=(2, 0) if kind & 8 else (1, 0)))
    assert str(caught.value)
    taken = capsule_name(capsule) == USED[versioned]
    assert native.native_deletions() - before == taken
    assert io.live_count == 0
    if not taken:
        discard(consume(capsule))
    assert native.native_deletions() - before == 1


def test_foreign_by_arenas_that_cannot(native):
    before = native.native_deletions()

    def attempt(arena, error):
        capsule = capsule_new(native.native_tensor(1, 0, 64, 0), True)
        with pytest.raises(error):
            arena.from_dlpack(capsule)
        if capsule_name(capsule) == NAME[True]:
            discard(consume(capsule))

    closed = hearth.IOArena()
    closed.close()
    attempt(closed, hearth.ClosedError)
    assert native.native_deletions() == before + 1
    full = hearth.IOArena(1)
    held = full.empty(1)
    attempt(full, hearth.NoMemoryError)
    assert native.native_deletions() == before + 2
    del held
    lease = full.from_dlpack(capsule_new(native.native_tensor(1, 0, 64, 0), True))
    attempt(full, hearth.NoMemoryError)
    del lease
    assert native.native_deletions() == before + 4


def test_foreign_things_that_are_no_tensors(io):
    for wrong in (None, 1, "x", object(), io, hearth.Lease, b"abc", np.float64(1).__class__):
        with pytest.raises((TypeError, AttributeError, ValueError, BufferError)):
            io.from_dlpack(wrong)
    other = capsule_new(8, False)
    ctypes.pythonapi.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = b"something else"
    ctypes.pythonapi.PyCapsule_SetName(other, name)
    with pytest.raises((TypeError, ValueError, BufferError)):
        io.from_dlpack(other)
    with pytest.raises((TypeError, ValueError, BufferError)):
        io.from_dlpack(Capsule(other))
    for answer in (None, 1, []):
        with pytest.raises((TypeError, ValueError, BufferError)):
            io.from_dlpack(Capsule(answer))

    class Raises:
        def __dlpack__(self, **_keywords):
            raise KeyError("mine")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(KeyError, match="mine"):
        io.from_dlpack(Raises())
    assert io.live_count == 0


def test_producers_of_the_old_protocol(io, native):
    """Those whose __dlpack__ knows no max_version."""
    before = native.native_deletions()

    class Old:
        def __dlpack__(self, stream=None):
            return capsule_new(native.native_tensor(0, 0, 8, 0), False)

        def __dlpack_device__(self):
            return (1, 0)

    lease = io.from_dlpack(Old())
    assert lease.numpy().tolist() == list(range(8))
    del lease
    assert native.native_deletions() == before + 1

    class Broken(Old):
        def __dlpack__(self, **_keywords):
            raise TypeError("a mistake of its own")

    with pytest.raises(TypeError, match="of its own"):
        io.from_dlpack(Broken())


def test_a_numpy_array_is_leased_and_let_go_once(io):
    source = np.arange(24, dtype="float32").reshape(4, 6)
    references = sys.getrefcount(source)
    lease = io.from_dlpack(source)
    assert lease.address == address_of(source) and lease.shape == (4, 6) and lease.dtype == "float32"
    assert sys.getrefcount(source) > references
    out = lease.numpy()
    out[0, 0] = 99
    assert source[0, 0] == 99
    del lease, out
    assert sys.getrefcount(source) == references


def test_a_numpy_array_let_go_on_a_thread_without_python(io, native):
    """NumPy's deleter takes the GIL; ours calls it wherever the last share goes."""
    source = np.arange(24, dtype="float32")
    references = sys.getrefcount(source)
    lease = io.from_dlpack(source)
    tensor = consume(lease.__dlpack__(max_version=(1, 0)))
    del lease
    assert native.native_delete_on_thread(ctypes.addressof(tensor), 1) == 0
    assert sys.getrefcount(source) == references
    lease = io.from_dlpack(source)
    held = [lease.numpy()]
    del lease
    in_thread(held.clear)
    assert sys.getrefcount(source) == references


STRIDED = {"transpose": lambda a: a.T, "step": lambda a: a[::2, 1::3], "negative": lambda a: a[::-1],
           "broadcast": lambda a: np.broadcast_to(a[:1], a.shape).copy()[:1], "one row": lambda a: a[2:3],
           "column": lambda a: a[:, 2]}


@pytest.mark.parametrize("how", sorted(STRIDED))
def test_foreign_layouts(io, how):
    source = STRIDED[how](np.arange(24, dtype="int32").reshape(4, 6))
    try:
        lease = io.from_dlpack(source)
    except (BufferError, ValueError, hearth.Error):
        assert how == "negative", "only this may be refused"
        return
    assert lease.shape == source.shape
    out = lease.numpy()
    assert (out == source).all() and address_of(out) == address_of(source)
    assert lease.strides == source.strides
    assert lease.tobytes() == source.tobytes()
    again = np.from_dlpack(lease)
    assert (again == source).all()
    if not source.flags.c_contiguous:
        with pytest.raises((ValueError, BufferError, hearth.Error)):
            lease.view("uint8")
        with pytest.raises(BufferError):
            hash(lease) and __import__("hashlib").sha256(lease)
        fresh = consume(lease.__dlpack__(copy=True))
        view = fresh.dl_tensor
        copied = np.ctypeslib.as_array(ctypes.cast(view.data, ctypes.POINTER(ctypes.c_int32)), (source.size,))
        strides = view.strides[:view.ndim]
        assert (np.lib.stride_tricks.as_strided(copied, source.shape, [s * 4 for s in strides]) == source).all()
        del copied, view
        discard(fresh)


def test_a_lease_of_a_lease(arena, exactly_once):
    """from_dlpack of our own lease, through several arenas."""
    lease = arena.empty(64)
    lease.numpy()[:] = 3
    watch = Watch(lease)
    others = [hearth.IOArena() for _ in range(4)]
    for other in others:
        lease = other.from_dlpack(lease)
    assert lease.address and lease.numpy().sum() == 192
    assert [other.live_count for other in others] == [1] * 4 and watch.held
    out = lease.numpy()
    del lease
    del others, other
    gc.collect()
    assert watch.held and out.sum() == 192
    del out
    assert watch.returned


def test_round_trip_through_numpy(io):
    lease = io.empty((4, 4), "float64")
    watch = Watch(lease)
    back = io.from_dlpack(lease.numpy())
    assert back.address == lease.address
    del lease
    assert watch.held and io.live_count == 2
    del back
    gc.collect()
    assert watch.returned and io.live_count == 0


def test_a_producer_that_drops_the_arena_meanwhile(native):
    """__dlpack__ of the source runs Python code: the arena is closed and dropped in it."""
    before = native.native_deletions()
    arenas = [hearth.IOArena()]

    class Evil:
        def __dlpack__(self, **_keywords):
            arenas.pop().close()
            gc.collect()
            return capsule_new(native.native_tensor(1, 0, 8, 0), True)

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(hearth.ClosedError):
        arenas[0].from_dlpack(Evil())
    assert native.native_deletions() - before in (0, 1)


def test_a_deleter_that_is_python_and_drops_other_leases(io):
    """Foreign deleters may be Python code that comes back to us."""
    from support import Deleter, DLManagedTensor
    held = [io.empty(64), io.empty(128).numpy()]
    shape = (ctypes.c_int64 * 1)(8)
    memory = (ctypes.c_ubyte * 8)(*range(8))
    tensor = DLManagedTensor()
    calls = []

    @Deleter
    def deleter(_pointer):
        calls.append(1)
        held.clear()
        io.empty(32).numpy()[:] = 1
        io.trim()

    tensor.dl_tensor.data = ctypes.addressof(memory)
    tensor.dl_tensor.device.device_type = 1
    tensor.dl_tensor.ndim = 1
    tensor.dl_tensor.dtype.code, tensor.dl_tensor.dtype.bits, tensor.dl_tensor.dtype.lanes = 1, 8, 1
    tensor.dl_tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.deleter = ctypes.cast(deleter, ctypes.c_void_p).value
    lease = io.from_dlpack(capsule_new(ctypes.addressof(tensor), False))
    assert lease.numpy().tolist() == list(range(8))
    del lease
    assert calls == [1] and io.live_count == 0
