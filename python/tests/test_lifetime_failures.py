# SPDX-License-Identifier: Apache-2.0
"""Whatever fails between a request and the array, the buffer goes back."""

import copy
import gc
import io as files
import pickle
import sys

import numpy as np
import pytest

import hearth
from support import LEGACY, VERSIONED, Watch, capsule_name, capsule_new, consume, discard, in_thread, settled

try:
    import _testcapi
except ImportError:
    _testcapi = None


def test_wrong_shapes_and_types_take_nothing(arena):
    footprint = arena.footprint
    for shape, dtype, error in [
        (-1, "uint8", ValueError), ((2, -3), "uint8", ValueError), ((1,) * 9, "uint8", ValueError),
        ("abc", "uint8", (TypeError, ValueError)), (1.5, "uint8", TypeError), ((1.5,), "uint8", TypeError),
        (None, "uint8", TypeError), ({1: 2}, "uint8", TypeError), ((1, "2"), "uint8", TypeError),
        (4, "float31", (TypeError, ValueError)), (4, "", (TypeError, ValueError)),
        (4, object, (TypeError, ValueError)), (4, "object", (TypeError, ValueError)),
        (4, np.dtype("O"), (TypeError, ValueError)), (4, np.dtype("U3"), (TypeError, ValueError)),
        (4, np.dtype("S3"), (TypeError, ValueError)), (4, np.dtype("M8[s]"), (TypeError, ValueError)),
        (4, np.dtype("V5"), (TypeError, ValueError)), (4, np.dtype([("a", "f4")]), (TypeError, ValueError)),
        (4, np.dtype(("f4", (2,))), (TypeError, ValueError)), (4, "float128", (TypeError, ValueError)),
        (4, np.longdouble, (TypeError, ValueError)),
        (4, "float32\0", (TypeError, ValueError)), (4, 7, (TypeError, ValueError)),
    ]:
        with pytest.raises(error) as caught:
            arena.empty(shape, dtype)
        assert str(caught.value), (shape, dtype)
    assert arena.live_count == 0 and arena.footprint == footprint


@pytest.mark.skipif(sys.byteorder != "little", reason="written for little-endian machines")
def test_types_of_the_other_byte_order_are_refused(arena):
    """The name of numpy.dtype(">f4") is "float32": the bytes would be misread."""
    for code in (">f4", ">i8", ">c16", ">u2"):
        with pytest.raises((TypeError, ValueError)):
            arena.empty(4, np.dtype(code))
    assert arena.empty(4, np.dtype("<f4")).dtype == "float32"
    assert arena.empty(4, np.dtype("=i8")).dtype == "int64"
    assert arena.empty(4, np.dtype("|i1")).dtype == "int8"


def test_types_by_every_name(arena):
    for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                  "float32", "float64", "complex64", "complex128"):
        for given in (dtype, np.dtype(dtype), np.dtype(dtype).type):
            lease = arena.empty(3, given)
            assert lease.dtype == dtype and lease.itemsize == np.dtype(dtype).itemsize
            assert lease.numpy().dtype == np.asarray(lease).dtype == np.dtype(dtype)
            if dtype != "bool":  # NumPy 1.24 has no booleans there
                assert np.from_dlpack(lease).dtype == np.dtype(dtype)


@pytest.mark.parametrize("shape, dtype", [
    (1 << 62, "uint8"), ((1 << 40, 1 << 40), "uint8"), ((1 << 31, 1 << 31, 1 << 31), "float64"), (1 << 61, "float64"),
    (sys.maxsize, "uint8"), ((sys.maxsize, 2), "uint8"), ((1 << 70,), "uint8"), (1 << 70, "uint8"),
])
def test_requests_that_no_memory_holds(arena, shape, dtype):
    for make in (arena.empty, arena.zeros):
        with pytest.raises((hearth.NoMemoryError, OverflowError, ValueError)) as caught:
            make(shape, dtype)
        assert str(caught.value)
    assert isinstance(hearth.NoMemoryError(), MemoryError)
    assert arena.live_count == 0


def test_huge_times_zero_is_zero(arena):
    """Or refused, as NumPy does, which counts the other dimensions."""
    try:
        lease = arena.empty((1 << 40, 0, 1 << 40), "float64")
    except hearth.NoMemoryError:
        return
    assert lease.nbytes == 0 and lease.numpy().size == 0


def test_limits_are_answered_and_nothing_is_lost():
    io = hearth.IOArena(live_limit=1 << 20)
    held = [io.empty(1 << 19)]
    with pytest.raises(hearth.NoMemoryError) as caught:
        while True:
            held.append(io.empty(1 << 19))
    assert caught.value.status == "NO_MEMORY" and isinstance(caught.value, MemoryError)
    assert 1 <= len(held) <= 2
    held.clear()
    assert io.empty(1 << 19).nbytes == 1 << 19
    assert settled(io)
    io = hearth.IOArena(2)
    held = [io.empty(1), io.empty(0)]
    with pytest.raises(hearth.NoMemoryError) as caught:
        io.empty(1)
    assert caught.value.status == "NO_SLOT"
    held.clear()
    assert settled(io)


def test_exceptions_are_what_their_names_say():
    for error, base, in [(hearth.InvalidError, ValueError), (hearth.NoMemoryError, MemoryError),
                         (hearth.WaitTimeoutError, TimeoutError)]:
        assert issubclass(error, base) and issubclass(error, hearth.Error)
    for error in (hearth.ClosedError, hearth.NotOwnerError, hearth.BusyError):
        assert issubclass(error, hearth.Error) and error is not hearth.Error
    assert hearth.Error.__module__.startswith("hearth")


# NumPy refuses


def test_numpy_raises_while_the_array_is_made(arena, monkeypatch):
    lease = arena.empty(64)
    watch = Watch(lease)

    class Planned(Exception):
        pass

    def refuse(*_arguments, **_keywords):
        raise Planned

    for name in ("asarray", "frombuffer", "from_dlpack", "array", "ndarray"):
        monkeypatch.setattr(np, name, refuse)
    try:
        lease.numpy()
    except Planned:
        pass
    try:
        lease.numpy(readonly=True)
    except Planned:
        pass
    monkeypatch.undo()
    gc.collect()
    assert lease.exports == 0 and watch.held
    assert lease.numpy().size == 64
    del lease
    assert watch.returned


def test_numpy_is_missing(native_path):
    from support import run_python
    out = run_python("""
sys.modules["numpy"] = None
io = hearth.IOArena()
lease = io.empty(64)
watch = Watch(lease)
try:
    lease.numpy()
except ImportError as error:
    print("ImportError", error)
assert memoryview(lease).nbytes == 64 and lease.exports == 0
capsule = lease.__dlpack__()
del lease
assert watch.held
del capsule
assert watch.returned and io.live_count == 0
print("done")
""").stdout
    assert "done" in out and "ImportError" in out


def test_types_numpy_refuses_leave_the_lease(arena):
    for dtype in ("bfloat16", "float8e4m3fn", "float8e5m2"):
        lease = arena.empty(64, dtype)
        watch = Watch(lease)
        with pytest.raises(TypeError) as caught:
            lease.numpy()
        assert lease.dtype in str(caught.value) and "uint" in str(caught.value), "the message names the remedy"
        with pytest.raises((BufferError, TypeError, ValueError)):
            memoryview(lease)
            raise TypeError("offered as plain bytes")
        assert lease.exports == 0 and watch.held
        assert lease.tobytes() is not None
        del lease, caught
        gc.collect()
        assert watch.returned


def test_refused_buffer_requests_count_nothing(arena):
    import ctypes
    sealed = arena.empty(64).view(readonly=True)
    for _ in range(10):
        with pytest.raises((BufferError, TypeError)):
            (ctypes.c_char * 64).from_buffer(sealed)
        with pytest.raises((BufferError, TypeError)):
            files.BytesIO(b"x" * 64).readinto(sealed)
    gc.collect()
    assert sealed.exports == 0


# Memory fails


@pytest.mark.skipif(_testcapi is None, reason="needs _testcapi")
@pytest.mark.parametrize("what", ["empty", "zeros", "numpy", "memoryview", "view", "legacy", "versioned", "copy",
                                  "tobytes", "repr", "stats", "from_dlpack", "thread", "arena", "execution", "service"])
def test_each_allocation_of_python_fails_in_turn(exactly_once, native, what):
    arenas = [hearth.IOArena(), hearth.ExecutionArena()]
    if what in ("arena", "execution", "service", "from_dlpack"):
        arenas = arenas[:1]
    for arena in arenas:
        lease = arena.empty((2, 4), "float32")
        before = native.native_deletions()
        pool = [capsule_new(native.native_tensor(1, 0, 8, 0), True) for _ in range(60 if what == "from_dlpack" else 0)]
        made = len(pool)
        calls = {
            "empty": lambda: arena.empty((3, 5), "float64"),
            "zeros": lambda: arena.zeros((3, 5), "float64"),
            "numpy": lambda: lease.numpy(),
            "memoryview": lambda: memoryview(lease),
            "view": lambda: lease.view("uint8", (4, 8)),
            "legacy": lambda: lease.__dlpack__(),
            "versioned": lambda: lease.__dlpack__(max_version=(1, 0)),
            "copy": lambda: lease.__dlpack__(copy=True),
            "tobytes": lease.tobytes,
            "repr": lambda: repr(lease),
            "stats": arena.stats,
            "from_dlpack": lambda: arena.from_dlpack(pool[-1]),
            "thread": lambda: arena.trim(),
            "arena": hearth.IOArena,
            "execution": hearth.ExecutionArena,
            "service": lambda: hearth.Service(maintenance_thread=False).io,
        }
        call = calls[what]
        call() if what != "from_dlpack" else None
        failures = 0
        for start in range(1, 50):
            result = None
            _testcapi.set_nomemory(start, start + 1)
            try:
                result = call()
            except MemoryError:
                failures += 1
            finally:
                _testcapi.remove_mem_hooks()
            if pool and capsule_name(pool[-1]) != b"dltensor_versioned":
                pool.pop()
            del result
            gc.collect()
            assert arena.live_count == 1 and lease.exports == 0
        for capsule in pool:
            discard(consume(capsule))
        pool.clear()
        assert native.native_deletions() - before == made
        del lease, calls, call
        assert settled(arena)


@pytest.mark.skipif(_testcapi is None, reason="needs _testcapi")
def test_memory_runs_out_for_good(io):
    """All allocations from the n-th on fail."""
    lease = io.empty((2, 4), "float32")
    for call in (lambda: io.empty((3, 5)), lease.numpy, lease.view, lease.__dlpack__,
                 lambda: memoryview(lease)):
        for start in range(0, 30):
            result = None
            _testcapi.set_nomemory(start)
            try:
                result = call()
            except MemoryError:
                pass
            finally:
                _testcapi.remove_mem_hooks()
            del result
            assert io.live_count == 1 and lease.exports == 0


# Copying objects


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_is_refused_and_says_why(arena, protocol):
    service = hearth.Service()
    for thing in (arena.empty(8), hearth.IOArena(), hearth.ExecutionArena(), service, service.io, service.execution,
                  hearth.Plan(inputs=["x"], outputs=["x"])):
        with pytest.raises(TypeError) as caught:
            pickle.dumps(thing, protocol)
        assert type(thing).__name__ in str(caught.value)
        del caught


def test_copying_is_refused(arena):
    lease = arena.empty(8)
    for copier in (copy.copy, copy.deepcopy):
        for thing in (lease, arena, hearth.Service()):
            with pytest.raises(TypeError):
                copier(thing)
    with pytest.raises(TypeError):
        pickle.dumps({"deep": [lease]})
    assert arena.live_count == 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_are_pickled_by_value(arena, protocol):
    lease = arena.empty((4, 4), "float32")
    watch = Watch(lease)
    lease.numpy()[...] = 2
    text = pickle.dumps(lease.numpy()[1:], protocol)
    deep = copy.deepcopy(lease.numpy())
    shallow = copy.copy(lease.numpy())
    del lease
    assert watch.returned, "copies give the lease back"
    again = pickle.loads(text)
    assert again.shape == (3, 4) and (again == 2).all() and (deep == 2).all() and (shallow == 2).all()
    assert deep.flags.owndata


def test_pickle_buffers_out_of_band(io):
    lease = io.empty(1 << 16)
    watch = Watch(lease)
    out = lease.numpy()
    out[:] = 7
    buffers = []
    text = pickle.dumps(out, 5, buffer_callback=buffers.append)
    del lease, out
    assert watch.held
    again = pickle.loads(text, buffers=buffers)
    buffers.clear()
    assert watch.held and (again == 7).all()
    del again
    gc.collect()
    assert watch.returned
    lease = io.empty(16)
    pickle.PickleBuffer(lease).release()
    assert lease.exports == 0


# Types


def test_types_are_final_and_made_by_arenas():
    with pytest.raises(TypeError):
        hearth.Lease()
    with pytest.raises(TypeError):
        hearth.Lease.__new__(hearth.Lease)
    with pytest.raises(TypeError):
        object.__new__(hearth.Lease)
    with pytest.raises(TypeError):
        hearth.Node()
    for kind in (hearth.Lease, hearth.IOArena, hearth.ExecutionArena, hearth.Service, hearth.Plan, hearth.Runtime,
                 hearth.Node, hearth.CKernel):
        with pytest.raises(TypeError):
            type("Sub", (kind,), {})
        with pytest.raises(TypeError):
            kind.invented = 1


def test_objects_that_were_never_initialised():
    """__new__ without __init__ must not crash in any method."""
    for kind in (hearth.IOArena, hearth.ExecutionArena, hearth.Service, hearth.Plan, hearth.Runtime, hearth.CKernel):
        try:
            thing = kind.__new__(kind)
        except TypeError:
            continue
        for name in dir(kind):
            if name.startswith("__") and name not in ("__enter__", "__repr__", "__exit__"):
                continue
            for arguments in ((), (1,), ("x",), (None, None, None)):
                try:
                    value = getattr(thing, name)
                    value(*arguments)
                except Exception:
                    pass
        repr(thing)
        del thing
        gc.collect()


def test_init_twice(exactly_once):
    """A second __init__ is refused or starts anew; leases of the first arena stay good."""
    for kind in (hearth.IOArena, hearth.ExecutionArena):
        arena = kind()
        lease = arena.empty(64)
        watch = Watch(lease)
        out = lease.numpy()
        out[:] = 4
        try:
            arena.__init__()
        except (TypeError, hearth.Error):
            pass
        assert (out == 4).all() and watch.held
        del lease
        assert (out == 4).all() and watch.held
        del out
        assert watch.returned
    service = hearth.Service()
    out = service.io.empty(64).numpy()
    out[:] = 4
    try:
        service.__init__()
    except (TypeError, hearth.Error):
        pass
    assert (out == 4).all()
    service.close()
    assert (out == 4).all()


def test_foreign_objects_in_the_place_of_self(arena):
    lease = arena.empty(8)
    for function, wrong in [(hearth.Lease.numpy, arena), (hearth.IOArena.empty, lease),
                            (hearth.Lease.release, object()), (hearth.ExecutionArena.empty, hearth.IOArena()),
                            (hearth.Lease.__dlpack__, arena)]:
        with pytest.raises(TypeError):
            function(wrong)
    with pytest.raises(TypeError):
        hearth.Lease.shape.__get__(arena)


def test_arguments_of_constructors():
    for kind, names in [(hearth.IOArena, ("capacity", "retention_limit", "live_limit", "reuse_ratio")),
                        (hearth.ExecutionArena, ("capacity", "retention_limit", "reuse_ratio")),
                        (hearth.Service, ("execution_limit", "io_limit", "ceiling", "live_limit", "reuse_ratio"))]:
        for name in names:
            kind(**{name: None})
            kind(**{name: 1000})
            for wrong in (-1, "1", 1.5, 1 << 70, object()):
                with pytest.raises((TypeError, ValueError, OverflowError, MemoryError)):
                    kind(**{name: wrong})
        with pytest.raises((ValueError, TypeError)):
            kind(backing="paper")
        with pytest.raises((ValueError, TypeError)):
            kind(backing=1)
        with pytest.raises(TypeError):
            kind(unknown=1)
    for name, wrong in [("exhaustion", "explode"), ("store", "heap"), ("age_seconds", -1.0), ("age_seconds", "1"),
                        ("age_seconds", float("nan")), ("age_runs", -1)]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            hearth.Service(**{name: wrong})
    with pytest.raises((TypeError, ValueError)):
        hearth.ExecutionArena(store="heap")
    for name in hearth.backings():
        assert hearth.Service(backing=name).backing == name
        assert hearth.IOArena(backing=name).empty(16).nbytes == 16
        assert hearth.ExecutionArena(backing=name).empty(16).nbytes == 16
    assert hearth.backing() in hearth.backings()


def test_retention_limits_take_integers_and_none(arena):
    for wrong in (-1, "1", 1.5, 1 << 70, object()):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            arena.retention_limit = wrong
    with pytest.raises((TypeError, AttributeError)):
        del arena.retention_limit
    for name in ("live_count", "capacity", "closed", "peak_bytes"):
        with pytest.raises(AttributeError):
            setattr(arena, name, 1)


def test_readers_in_other_threads_while_the_arena_is_dropped(exactly_once):
    arena = hearth.IOArena()
    lease = arena.empty(64)
    reader = lambda a=[arena]: a[0].stats()  # noqa: B006,E731
    assert in_thread(reader).live_count == 1
    del lease, reader, arena


@pytest.mark.parametrize("keywords", [LEGACY, VERSIONED])
def test_a_capsule_in_the_middle_of_an_exception(arena, keywords):
    watch = None
    try:
        lease = arena.empty(64)
        watch = Watch(lease)
        capsule = lease.__dlpack__(**keywords)
        assert capsule
        raise RuntimeError("lost in a traceback")
    except RuntimeError:
        pass
    del lease, capsule
    gc.collect()
    assert watch.returned
