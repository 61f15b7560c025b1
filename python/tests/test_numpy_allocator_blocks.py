# SPDX-License-Identifier: Apache-2.0
"""NumPy's allocator: whose block it is, sizes, zeros, resizing, requests that cannot be."""

import os

import numpy as np
import pytest

import hearth
from numpy_support import LARGE, MIB, THRESHOLD, Raw, address, collect, fill, pattern, read


@pytest.fixture
def service():
    made = hearth.Service()
    yield made
    collect()
    assert made.live_bytes == 0
    made.close()


@pytest.fixture
def allocator(service):
    made = hearth.numpy_allocator(service)
    yield made
    collect()
    figures = made.stats()
    assert figures.live_count == figures.live_bytes == 0
    assert figures.allocations == figures.frees
    assert figures.refused == 0


@pytest.fixture
def raw(allocator):
    return Raw(allocator)


# Small and large


def test_large_arrays_are_the_services_and_small_ones_numpys(service, allocator):
    with allocator:
        small = np.empty(THRESHOLD - 1, np.uint8)
        assert allocator.stats().allocations == 0
        large = np.empty(THRESHOLD, np.uint8)
    assert allocator.stats().allocations == 1
    assert service.live_bytes == THRESHOLD
    # Both were born with the handler, which leaves the small one to NumPy's own functions.
    assert hearth.numpy_handler(small) == hearth.numpy_handler(large) == "hearth"


def test_the_threshold_is_an_option(service):
    one = hearth.numpy_allocator(service, threshold=1)
    many = hearth.numpy_allocator(service, threshold=8 * MIB)
    with one:
        tiny = np.ones(3)
        assert one.stats().live_bytes == 24
        with many:
            large = np.ones(MIB // 2)
    assert many.stats().allocations == 0
    assert one.stats().live_count == 1
    assert tiny.sum() == 3 and large.sum() == MIB // 2


def test_data_is_aligned_to_64_bytes(allocator):
    with allocator:
        arrays = [np.empty(THRESHOLD + i, np.uint8) for i in range(20)]
    assert all(address(array) % 64 == 0 for array in arrays)


def test_storage_is_used_again(service, allocator):
    with allocator:
        array = np.ones(LARGE, np.uint8)
        at = address(array)
        del array
        footprint = service.footprint
        for _ in range(50):
            array = np.empty(LARGE, np.uint8)
            assert address(array) == at
            del array
    assert service.footprint == footprint


def test_views_own_nothing(allocator):
    with allocator:
        array = np.ones((1024, 1024), np.uint8)
        views = [array[1:], array.T, array.reshape(-1), array[::2, ::3]]
        assert [hearth.numpy_handler(view) for view in views] == [None] * 4
        assert address(views[1]) == address(array)
        del array
        collect()
        assert allocator.stats().live_count == 1
        assert all((view == 1).all() for view in views)
        del views
    assert allocator.stats().live_count == 0


def test_numpy_handler_says_whose(allocator):
    before = np.empty(LARGE, np.uint8)
    assert hearth.numpy_handler() == "default_allocator"
    with allocator:
        assert hearth.numpy_handler() == "hearth"
        inside = np.empty(LARGE, np.uint8)
    assert hearth.numpy_handler(before) == "default_allocator"
    assert hearth.numpy_handler(inside) == "hearth"
    with pytest.raises(TypeError, match="not a NumPy array"):
        hearth.numpy_handler([1, 2])


def test_content_of_mixed_expressions(allocator):
    default = pattern(2 * MIB)
    with allocator:
        ours = pattern(2 * MIB)
        both = default + ours
    assert (both == (pattern(2 * MIB) * 2)).all()
    default[:] = ours
    ours[:] = both
    assert (ours == both).all()


# Zeros


@pytest.mark.parametrize("zeros", ["lazy", "warm"])
@pytest.mark.parametrize("size", [100, THRESHOLD, LARGE, 3 * MIB + 8, 32 * MIB, 33 * MIB])
def test_zeros_are_zero_on_storage_that_was_written_to(service, zeros, size):
    allocator = hearth.numpy_allocator(service, zeros=zeros)
    with allocator:
        for _ in range(3):
            array = np.empty(size, np.uint8)
            array.fill(0xA5)
            del array
            array = np.zeros(size, np.uint8)
            assert not array.any()
            array.fill(0x5A)
            del array
    figures = allocator.stats()
    if size < THRESHOLD:
        assert figures.zeroed == figures.zeroed_lazily == 0
    elif zeros == "lazy" and size >= 32 * MIB:
        assert (figures.zeroed, figures.zeroed_lazily) == (0, 3)
    else:
        assert (figures.zeroed, figures.zeroed_lazily) == (3, 0)


def test_lazy_zeros_leave_the_warm_pages_of_empty(service):
    allocator = hearth.numpy_allocator(service, lazy_threshold=LARGE)
    with allocator:
        array = np.empty(4 * MIB, np.uint8)
        array.fill(1)
        at = address(array)
        del array
        zeros = np.zeros(4 * MIB, np.uint8)
        assert address(zeros) != at
        assert address(zeros) % 4096 == 0
        array = np.empty(4 * MIB, np.uint8)
        assert address(array) == at


def test_zeros_policy_is_checked(service):
    with pytest.raises(ValueError, match="'lazy' or 'warm'"):
        hearth.numpy_allocator(service, zeros="often")
    with pytest.raises(ValueError, match="threshold"):
        hearth.numpy_allocator(service, threshold=-1)
    with pytest.raises(ValueError, match="threshold"):
        hearth.numpy_allocator(service, lazy_threshold=-1)


def test_calloc_by_count_and_size(raw):
    at = raw.calloc(1024, 1024)
    assert read(at, MIB) == bytes(MIB)
    raw.free(at, MIB)


@pytest.mark.parametrize("count, each", [(1 << 33, 1 << 33), (2**64 - 1, 2), ((1 << 63) + 1, 2), (3, 2**64 // 3 + 1)])
def test_calloc_that_overflows(raw, allocator, count, each):
    assert raw.calloc(count, each) is None
    assert allocator.stats().failures == 1


# Resizing


SIZES = [1000, THRESHOLD - 8, THRESHOLD, 300_000, MIB, 5 * MIB + 3, 33 * MIB]


@pytest.mark.parametrize("before", SIZES)
@pytest.mark.parametrize("after", SIZES)
def test_resize_keeps_the_content(allocator, before, after):
    with allocator:
        array = np.empty(before, np.uint8)
        array[:] = pattern(before)
        array.resize(after, refcheck=False)
        kept = min(before, after)
        assert (array[:kept] == pattern(kept)).all()
        array[kept:] = 7
        assert (allocator.stats().live_count == 1) == (after >= THRESHOLD)
        array.resize(before, refcheck=False)
        assert (array[:kept] == pattern(kept)).all()
    assert hearth.numpy_handler(array) == "hearth"


def test_resize_within_the_capacity_stays(raw, allocator):
    at = raw.malloc(900_000)
    assert raw.realloc(at, 910_000) == at
    assert raw.realloc(at, 600_000) == at
    assert allocator.stats().live_bytes == 600_000
    assert raw.realloc(at, 900_000) == at
    figures = allocator.stats()
    assert (figures.resized, figures.moved) == (3, 0)
    raw.free(at, 900_000)


def test_a_large_block_made_small_moves(raw, allocator, service):
    at = raw.malloc(64 * MIB)
    fill(at, pattern(MIB).tobytes())
    there = raw.realloc(at, MIB)
    assert read(there, MIB) == pattern(MIB).tobytes()
    assert service.live_capacity <= 2 * MIB
    raw.free(there, MIB)


def test_realloc_of_nothing_is_malloc(raw, allocator):
    at = raw.realloc(None, MIB)
    small = raw.realloc(None, 100)
    assert allocator.stats().live_count == 1
    raw.free(at, MIB)
    raw.free(small, 100)


def test_arrays_that_grow_while_they_are_made(allocator):
    with allocator:
        array = np.fromiter(range(300_000), np.int64)
        assert (array == np.arange(300_000)).all()
        joined = np.concatenate([array] * 4)
        assert (joined.reshape(4, -1) == array).all()


# Frees


def test_sizes_of_frees_are_a_hint(raw, allocator):
    for told in (0, 1, 8, THRESHOLD - 1, 64 * MIB, 2**64 - 1):
        raw.free(raw.malloc(MIB), told)
    assert allocator.stats().wrong_sizes == 6
    # From 1024 bytes on, below which NumPy's own functions sort by what they are told.
    small = raw.malloc(5000)
    raw.free(small, 64 * MIB)
    assert allocator.stats().frees == 6


def test_free_of_nothing(raw, allocator):
    raw.free(None, 0)
    raw.free(None, 64 * MIB)
    assert allocator.stats().frees == 0


def test_arrays_without_elements(allocator, service):
    allocator = hearth.numpy_allocator(service, threshold=1)
    with allocator:
        for shape in [(0,), (0, 8), (8, 0, 3), (2, 0)]:
            array = np.empty(shape)
            assert array.size == 0
            assert np.zeros(shape).shape == shape
            array.resize((4, 4), refcheck=False)
            assert array.shape == (4, 4)
            array.resize((0, 5), refcheck=False)
            del array
    assert allocator.stats().live_count == 0


def test_frees_by_the_handler_of_another_service(service):
    raw = Raw(hearth.numpy_allocator(service))
    other = hearth.numpy_allocator(hearth.Service())
    at = raw.malloc(MIB)
    fill(at, b"ours")
    there = Raw(other).realloc(at, 8 * MIB)
    assert read(there, 4) == b"ours"
    Raw(other).free(there, 8 * MIB)
    assert other.stats().foreign == 2
    assert service.live_bytes == 0
    # Both go on working.
    raw.free(raw.malloc(MIB), MIB)
    Raw(other).free(Raw(other).malloc(MIB), MIB)
    assert service.live_bytes == other.service.live_bytes == 0


def test_frees_by_another_handler_of_the_same_service(service):
    one, two = hearth.numpy_allocator(service), hearth.numpy_allocator(service)
    for _ in range(5):
        Raw(two).free(Raw(one).malloc(MIB), MIB)
    Raw(two).free(Raw(two).malloc(MIB), MIB)
    del one
    collect()
    Raw(two).free(Raw(two).malloc(MIB), MIB)
    assert service.live_bytes == 0


def test_a_second_free_changes_nothing(service):
    allocator = hearth.numpy_allocator(service)
    raw = Raw(allocator)
    at = raw.malloc(MIB)
    raw.free(at, MIB)
    raw.free(at, MIB)
    assert raw.realloc(at, 2 * MIB) is None
    figures = allocator.stats()
    assert (figures.frees, figures.refused, figures.live_count) == (1, 2, 0)


# What cannot be


@pytest.mark.parametrize("bytes_", [1 << 48, 1 << 60, (1 << 63) - 1])
def test_absurd_requests_raise_and_cost_nothing(service, allocator, bytes_):
    with allocator:
        warm = np.ones(8 * MIB, np.uint8)
        del warm
        retained, footprint = service.retained_bytes, service.footprint
        mapped = mapped_bytes()
        for make in (np.empty, np.zeros):
            for _ in range(20):
                with pytest.raises(MemoryError):
                    make(bytes_, np.uint8)
        assert (service.retained_bytes, service.footprint) == (retained, footprint)
        assert mapped_bytes() - mapped < 64 * MIB


def mapped_bytes():
    """Address space of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("size", [(1 << 63) - 1, 1 << 63, 2**64 - 64, 2**64 - 1])
def test_sizes_at_the_end_of_the_range(raw, allocator, size):
    assert raw.malloc(size) is None
    assert raw.calloc(size, 1) is None
    at = raw.malloc(MIB)
    fill(at, b"still")
    assert raw.realloc(at, size) is None
    assert read(at, 5) == b"still"
    small = raw.malloc(100)
    fill(small, b"small")
    assert raw.realloc(small, size) is None
    assert read(small, 5) == b"small"
    assert allocator.stats().failures == 4
    raw.free(at, MIB)
    raw.free(small, 100)


def test_a_limit_on_live_bytes_is_a_memory_error():
    service = hearth.Service(live_limit=16 * MIB)
    allocator = hearth.numpy_allocator(service)
    with allocator:
        held = np.ones(12 * MIB, np.uint8)
        with pytest.raises(MemoryError):
            np.empty(8 * MIB, np.uint8)
        with pytest.raises(MemoryError):
            np.zeros(8 * MIB, np.uint8)
        small = np.ones(1000)
        with pytest.raises(MemoryError):
            held.resize(20 * MIB, refcheck=False)
        assert held.all() and small.all()
        del held
        again = np.empty(8 * MIB, np.uint8)
    figures = allocator.stats()
    assert (figures.failures, figures.fallbacks, figures.live_count) == (3, 0, 1)
    del again
    service.close()
