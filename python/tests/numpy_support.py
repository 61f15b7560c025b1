# SPDX-License-Identifier: Apache-2.0
"""What the tests of NumPy's allocator share."""

import ctypes
import gc
import resource

import numpy as np

import hearth

MIB = 1 << 20
THRESHOLD = 256 << 10
LARGE = 1 * MIB  # served by the service


def collect():
    for _ in range(3):
        gc.collect()


def faults():
    """Minor page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def faults_of(call, rounds=5, warm_up=3):
    """Minor page faults per call, once it is warm."""
    for _ in range(warm_up):
        call()
    before = faults()
    for _ in range(rounds):
        call()
    return (faults() - before) / rounds


def address(array):
    return array.__array_interface__["data"][0]


_noise = np.random.default_rng(7).integers(0, 256, 65537, np.uint8)


def pattern(count, seed=0):
    """Bytes that differ, so that a mixed-up block is seen."""
    return np.resize(np.roll(_noise, seed), count)


class Table(ctypes.Structure):
    """PyDataMem_Handler, for calls that NumPy itself makes rarely or never."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("ctx", ctypes.c_void_p),
        ("malloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("calloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)),
        ("realloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("free", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Raw:
    """The functions of an allocator's handler, called directly (and without the GIL)."""

    def __init__(self, allocator):
        self.capsule = allocator if not isinstance(allocator, hearth.NumpyAllocator) else allocator._handler
        self.table = Table.from_address(_pointer(self.capsule, b"mem_handler"))

    def malloc(self, size):
        return self.table.malloc(self.table.ctx, size)

    def calloc(self, count, each):
        return self.table.calloc(self.table.ctx, count, each)

    def realloc(self, at, size):
        return self.table.realloc(self.table.ctx, at, size)

    def free(self, at, size):
        self.table.free(self.table.ctx, at, size)


def read(at, count):
    return ctypes.string_at(at, count)


def fill(at, data):
    ctypes.memmove(at, data, len(data))
