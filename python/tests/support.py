# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: watching buffers from below, DLPack by hand, other interpreters.

Nothing here asks the package whether a buffer was returned: `Watch` asks the C library, which knows each use of a
buffer by its generation, and counts every return that was one too many as a misuse.
"""

import ctypes
import gc
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import hearth

PACKAGE = pathlib.Path(hearth.__file__).resolve().parent
SOURCES = pathlib.Path(__file__).resolve().parent

SANITIZED = "san" in os.environ.get("LD_PRELOAD", "")
SMOKE = bool(os.environ.get("HEARTH_TEST_SMOKE")) or SANITIZED

POISON_RETURNED = 0xDB


def rounds(full, smoke):
    """How often a loop runs: under sanitizers, and where only smoke is looked for, less often."""
    return smoke if SMOKE else full


# The C library, from below


class LeaseValue(ctypes.Structure):
    """struct hearth_lease"""

    _fields_ = [("buf", ctypes.c_void_p), ("generation", ctypes.c_uint64)]


def _library():
    found = sorted(PACKAGE.glob("libhearth.so*"))
    library = ctypes.CDLL(str(found[0]))
    library.hearth_buf_of.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
    library.hearth_buf_generation.argtypes = [ctypes.c_void_p]
    library.hearth_buf_generation.restype = ctypes.c_uint64
    library.hearth_misuse_count.restype = ctypes.c_uint64
    return library


LIBRARY = _library()


def misuses():
    """Wrong calls of this process so far: a return too many is one."""
    return LIBRARY.hearth_misuse_count()


class Watch:
    """Watches the use of a buffer that a lease (or an address of its first byte) stands for now."""

    def __init__(self, lease):
        address = lease if isinstance(lease, int) else lease.address
        buf = ctypes.c_void_p()
        assert LIBRARY.hearth_buf_of(address, ctypes.byref(buf)) == 0, "no buffer of hearth starts there"
        self.buf = buf.value
        self.generation = LIBRARY.hearth_buf_generation(buf)

    @property
    def returned(self):
        return LIBRARY.hearth_buf_generation(self.buf) != self.generation

    def returned_to(self, arena):
        """Whether it is back. What another thread returns to an execution arena waits for its owner's next call."""
        if isinstance(arena, hearth.ExecutionArena) and not self.returned:
            pending = arena.pending_count
            try:
                arena.empty(0)
            except hearth.Error:
                return False
            return pending > 0 and self.returned
        return self.returned

    @property
    def held(self):
        return not self.returned


def collect():
    gc.collect()


def settled(arena, live=0):
    """Whether exactly `live` buffers of an arena are out, and its books agree."""
    collect()
    if isinstance(arena, hearth.ExecutionArena) and arena.closed:
        return True  # its figures are gone with it
    assert arena.live_count == live
    if isinstance(arena, hearth.IOArena):
        assert arena.leased_count == live
        assert arena.owned_count == 0
    if live == 0:
        assert arena.live_bytes == 0
        assert arena.live_capacity == 0
    assert arena.footprint == arena.live_capacity + arena.retained_bytes + arena.pending_bytes
    return True


def address_of(array):
    """Where an array's first element is."""
    return array.__array_interface__["data"][0]


def in_thread(function, *arguments):
    """Call in a new thread and wait. Exceptions come back."""
    result, failure = [], []

    def body():
        try:
            result.append(function(*arguments))
        except BaseException as error:  # noqa: B902 - handed to the caller
            failure.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the thread hangs"
    if failure:
        raise failure[0]
    return result[0]


# DLPack by hand


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


FLAG_READ_ONLY = 1
FLAG_IS_COPIED = 2

LEGACY = {}
VERSIONED = {"max_version": (1, 0)}

_api = ctypes.pythonapi
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_New.restype = ctypes.py_object

# Names are kept by pointer, so these live as long as the process.
NAME = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


def capsule_name(capsule):
    return _api.PyCapsule_GetName(capsule)


def capsule_new(pointer, versioned):
    """A capsule without a destructor."""
    return _api.PyCapsule_New(pointer, NAME[versioned], None)


def capsule_tensor(capsule):
    """The struct in an unused capsule."""
    versioned = capsule_name(capsule) == NAME[True]
    pointer = _api.PyCapsule_GetPointer(capsule, NAME[versioned])
    struct = DLManagedTensorVersioned if versioned else DLManagedTensor
    return struct.from_address(pointer)


def consume(capsule):
    """Take over what a capsule holds, as consumers do; returns the struct. Call discard() on it once."""
    tensor = capsule_tensor(capsule)
    versioned = isinstance(tensor, DLManagedTensorVersioned)
    assert _api.PyCapsule_SetName(capsule, USED[versioned]) == 0
    return tensor


def discard(tensor):
    """Call a consumed tensor's deleter, without the GIL as ctypes does."""
    if tensor.deleter:
        Deleter(tensor.deleter)(ctypes.addressof(tensor))


class Consumer:
    """Holds a consumed tensor until it is dropped: the least that a framework does."""

    def __init__(self, source, **keywords):
        self.tensor = consume(source.__dlpack__(**keywords))

    @property
    def address(self):
        return (self.tensor.dl_tensor.data or 0) + self.tensor.dl_tensor.byte_offset

    @property
    def flags(self):
        return self.tensor.flags

    def bytes(self, count):
        return ctypes.string_at(self.address, count)

    def __del__(self):
        if getattr(self, "tensor", None) is not None:
            discard(self.tensor)
            self.tensor = None


class Capsule:
    """A producer that gives out one ready capsule."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule = capsule
        self.device = device

    def __dlpack__(self, **_keywords):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


# The native helper, see native.c


def compile_native(folder):
    """Build native.c against the package's own library; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = next(iter(sorted(PACKAGE.glob("libhearth.so*"))))
    target = pathlib.Path(folder) / "hearth_test_native.so"
    subprocess.run(
        [compiler, "-std=gnu11", "-O1", "-g", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread", "-o", str(target),
         str(SOURCES / "native.c"), str(library), "-Wl,-rpath," + str(PACKAGE)],
        check=True, capture_output=True, text=True)
    return target


def load_native(path):
    """The helper, called without the GIL; `.held` is the same library called with the GIL held."""
    native = ctypes.CDLL(str(path))
    native.held = ctypes.PyDLL(str(path))
    for library in (native, native.held):
        library.native_watch.argtypes = [ctypes.c_void_p]
        library.native_tensor.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_int64, ctypes.c_uint64]
        library.native_tensor.restype = ctypes.c_void_p
        library.native_hold.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        library.native_delete_on_thread.argtypes = [ctypes.c_void_p, ctypes.c_int]
        library.native_delete_many.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
        library.native_deletions.restype = ctypes.c_int
    return native


# Other interpreters

PRELUDE = """
import ctypes, gc, os, sys, threading
sys.path.insert(0, {tests!r})
import hearth
from support import *
native = load_native({native!r}) if {native!r} else None
"""


def run_python(code, native="", arguments=(), timeout=120, check=True, **environment):
    """Run code in an interpreter of its own, after PRELUDE. Returns what subprocess.run() does."""
    environ = dict(os.environ)
    environ["PYTHONPATH"] = os.pathsep.join([str(PACKAGE.parent), environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    for name, value in environment.items():
        environ[name] = value
    text = PRELUDE.format(tests=str(SOURCES), native=str(native or "")) + code
    done = subprocess.run([sys.executable, "-X", "faulthandler", *arguments, "-c", text], env=environ, timeout=timeout,
                          capture_output=True, text=True)
    if check:
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
