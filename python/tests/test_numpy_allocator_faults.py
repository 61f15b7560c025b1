# SPDX-License-Identifier: Apache-2.0
"""NumPy's allocator: page faults per iteration, with it and without. Times are printed, never tested."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import hearth
from numpy_support import MIB, collect, faults_of

# A fault or two of the interpreter's own may fall into a round.
FEW = 2
SIZE = 64 * MIB


@pytest.fixture
def service():
    made = hearth.Service()
    yield made
    collect()
    assert made.live_bytes == 0
    made.close()


@pytest.fixture
def operands():
    return np.ones(SIZE // 8), np.ones(SIZE // 8)


def huge_pages():
    """Whether NumPy's own large blocks and ours get huge pages here."""
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as mode:
            return "[never]" not in mode.read()
    except OSError:
        return False


def timed(call):
    began = time.perf_counter()
    count = faults_of(call)
    return count, (time.perf_counter() - began) / 8 * 1e3


def compare(name, call, *allocators):
    """Faults per iteration by default and with each allocator."""
    figures = [timed(call)]
    for allocator in allocators:
        with allocator:
            figures.append(timed(call))
    print(name, " ".join(f"{count:.1f} faults, {ms:.2f} ms;" for count, ms in figures))
    return [count for count, _ in figures]


def test_a_sum(service, operands):
    b, c = operands

    def add():
        a = b + c
        return a.size

    default, ours = compare("a = b + c", add, hearth.numpy_allocator(service))
    # Of 2 MiB where the kernel happens to place the default's block at a multiple of that.
    assert default >= SIZE // (2 * MIB)
    assert ours <= FEW


def test_a_sum_without_huge_pages():
    text = """
import numpy as np, hearth
from numpy_support import faults_of
b, c = np.ones(1 << 23), np.ones(1 << 23)
print(faults_of(lambda: (b + c).size))
with hearth.numpy_allocator():
    print(faults_of(lambda: (b + c).size))
    print(faults_of(lambda: np.zeros(1 << 23).size))
"""
    default, ours, zeros = script(text, NUMPY_MADVISE_HUGEPAGE="0")
    assert default >= 500
    assert ours <= FEW and zeros <= FEW


def script(text, **environment):
    """Numbers that an interpreter of its own prints: the C heap keeps more of its top once it has freed large
    blocks."""
    done = subprocess.run([sys.executable, "-c", text], cwd=os.path.dirname(os.path.abspath(__file__)),
                          env=dict(os.environ, **environment), capture_output=True, text=True, timeout=240, check=True)
    return [float(number) for number in done.stdout.split()]


def six():
    return [np.ones(MIB // 8) for _ in range(6)][0].size


def mixed():
    live = []
    for i in range(24):
        live.append(np.empty((i * 37 % 24 + 1) * MIB // 2, np.uint8))
        live[-1].fill(1)
        if len(live) > 8:
            live.pop(0)
    return len(live)


@pytest.mark.parametrize("loop", [six, mixed])
def test_temporaries_that_live_together(service, loop):
    (default,) = script(f"import numpy_support, {__name__} as t; print(numpy_support.faults_of(t.{loop.__name__}))")
    with hearth.numpy_allocator(service):
        ours = faults_of(loop)
    print(loop.__name__, default, ours)
    assert default >= 500
    assert ours <= FEW


def test_zeros_that_are_used(service):
    def used():
        a = np.zeros(SIZE // 8)
        a += 1
        return a.size

    default, warm, lazy = compare("zeros += 1", used, hearth.numpy_allocator(service, zeros="warm"),
                                  hearth.numpy_allocator(service))
    assert default >= 33
    assert warm <= FEW
    assert lazy <= (SIZE // (2 * MIB) + FEW if huge_pages() else SIZE // 4096 + FEW)


def test_zeros_that_are_not_touched_cost_no_pages(service):
    with hearth.numpy_allocator(service):
        dirty = [np.zeros(SIZE, np.uint8) for _ in range(4)]
        for array in dirty:
            array.fill(1)
        resident = resident_bytes()
        del dirty, array
        zeros = [np.zeros(SIZE, np.uint8) for _ in range(4)]
        assert faults_of(lambda: np.zeros(SIZE, np.uint8)) <= FEW
        assert resident - resident_bytes() > 3 * SIZE
        assert not zeros[3][::4096].any()


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_threads(service, operands):
    b, c = operands
    counts = {}

    def body(name):
        counts[name] = faults_of(lambda: (b + c).size)

    def run(name, **keywords):
        threads = [hearth.NumpyThread(target=body, args=(name,), **keywords) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    run("default")
    run("ours", allocator=hearth.numpy_allocator(service))
    print(counts)
    # Both threads' faults are counted, and the other one may still be in its first rounds. The kernel aligns some of
    # the default's mappings to huge pages: 33 faults each.
    assert counts["default"] >= 33
    assert counts["ours"] < 33


def test_loops_below_the_threshold_of_the_heap_do_not_get_worse(service):
    def loop():
        for _ in range(10):
            np.ones(16 * MIB // 8)

    default, ours = compare("16 MiB", loop, hearth.numpy_allocator(service))
    assert ours <= FEW
