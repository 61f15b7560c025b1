# SPDX-License-Identifier: Apache-2.0
"""Arrays outlive their arena, its service and the thread they came from, in whatever order all these go."""

import gc
import itertools
import threading
import weakref

import numpy as np
import pytest

import hearth
from support import Consumer, Watch, address_of, in_thread, settled

MAKERS = {
    "io": lambda: (hearth.IOArena(),) * 2,
    "execution": lambda: (hearth.ExecutionArena(),) * 2,
    "service.io": lambda: (lambda s: (s, s.io))(hearth.Service()),
    "service.execution": lambda: (lambda s: (s, s.execution))(hearth.Service()),
    "service without thread": lambda: (lambda s: (s, s.io))(hearth.Service(maintenance_thread=False)),
    "spans": lambda: (hearth.ExecutionArena(store="spans"),) * 2,
    "plans": lambda: (hearth.ExecutionArena(store="plans"),) * 2,
}


@pytest.fixture(params=sorted(MAKERS))
def owned(request, exactly_once):
    """What owns an arena, and the arena, in a list that the test empties."""
    return list(MAKERS[request.param]())


EXPORTS = {
    "numpy": lambda lease: lease.numpy(),
    "slice": lambda lease: lease.numpy()[2:, ::3].T,
    "memoryview": lambda lease: memoryview(lease).cast("B"),
    "dlpack": lambda lease: Consumer(lease, max_version=(1, 0)),
    "legacy dlpack": lambda lease: np.from_dlpack(lease),
    "unconsumed": lambda lease: lease.__dlpack__(max_version=(1, 0)),
    "lease": lambda lease: lease,
    "view": lambda lease: lease.view("uint16"),
}


def content(export):
    """One number that all bytes of an export have in common."""
    if isinstance(export, Consumer):
        data = export.bytes(8 * 64)
    elif isinstance(export, (np.ndarray, memoryview, hearth.Lease)):
        data = export.tobytes()
    else:
        return None
    assert len(set(data)) == 1
    return data[0]


@pytest.mark.parametrize("kind", sorted(EXPORTS))
@pytest.mark.parametrize("how", ["closed", "dropped", "closed and dropped", "closed twice", "trimmed", "with"])
def test_exports_outlive_the_arena(owned, kind, how):
    arena = owned[1]
    lease = arena.empty((8, 8), "float64")
    watch = Watch(lease)
    lease.numpy().view("uint8")[...] = 0x3C
    others = [arena.empty((8, 8), "float64") for _ in range(3)]
    export = EXPORTS[kind](lease)
    del lease
    if how == "trimmed":
        arena.trim()
    if how.startswith("closed"):
        owned[0].close()
        assert owned[0].closed
    if how == "closed twice":
        owned[0].close()
    if how == "with":
        with owned[0]:
            pass
        assert owned[0].closed
    if how not in ("closed", "trimmed"):
        del arena
        owned.clear()
    del others
    gc.collect()
    fresh = hearth.IOArena()
    noise = [fresh.empty((8, 8), "float64") for _ in range(4)]
    for one in noise:
        one.numpy()[...] = -1
    assert watch.held
    assert content(export) in (0x3C, None)
    if kind in ("numpy", "memoryview"):
        export[:] = b"\x11" * export.nbytes if kind == "memoryview" else 0
        assert watch.held
    del export
    gc.collect()
    assert watch.returned


@pytest.mark.parametrize("kind", sorted(EXPORTS))
def test_drop_in_another_thread(owned, kind):
    arena = owned[1]
    before = arena.live_count
    lease = arena.empty((8, 8), "float64")
    watch = Watch(lease)
    lease.numpy().view("uint8")[...] = 0x3C
    held = [EXPORTS[kind](lease)]
    del lease

    def drop():
        value = content(held[0])
        held.clear()
        gc.collect()
        return value

    assert in_thread(drop) in (0x3C, None)
    assert arena.live_count == before and watch.returned_to(arena)


@pytest.mark.parametrize("kind", sorted(EXPORTS))
def test_drop_in_another_thread_after_the_arena_is_gone(owned, kind):
    lease = owned[1].empty((8, 8), "float64")
    watch = Watch(lease)
    lease.numpy().view("uint8")[...] = 0x3C
    held = [EXPORTS[kind](lease)]
    del lease
    owned[0].close()
    owned.clear()
    gc.collect()
    assert content(held[0]) in (0x3C, None)
    in_thread(held.clear)
    assert watch.returned


@pytest.mark.parametrize("order", list(itertools.permutations(["service", "arena", "lease", "array", "view"])),
                         ids="-".join)
def test_destruction_order_is_free(exactly_once, order):
    service = hearth.Service()
    held = {"service": service, "arena": service.io}
    held["lease"] = held["arena"].empty(4096)
    watch = Watch(held["lease"])
    held["array"] = held["lease"].numpy()
    held["array"][:] = 8
    held["view"] = held["array"][5:][::-1]
    del service
    for step, name in enumerate(order):
        assert watch.held == bool({"lease", "array", "view"} & set(held))
        for one in ("array", "view"):
            if one in held:
                assert (held[one] == 8).all()
        del held[name]
    assert watch.returned


def test_what_a_thread_made_outlives_the_thread(exactly_once):
    """Execution buffers of a service's thread, used after that thread ended."""
    service = hearth.Service()

    def make():
        arena = service.execution
        lease = arena.empty((16, 16), "float32")
        lease.numpy()[...] = 3
        return lease.numpy(), Watch(lease), arena

    out, watch, arena = in_thread(make)
    assert (out == 3).all() and watch.held
    with pytest.raises(hearth.Error):
        arena.empty(16)
    del arena
    part = out.T[3:]
    del out
    service.close()
    del service
    gc.collect()
    assert watch.held and (part == 3).all()
    del part
    assert watch.returned


def test_an_arena_of_an_ended_thread_is_refused_cleanly(exactly_once):
    service = hearth.Service()
    arena = in_thread(lambda: service.execution)
    for _ in range(3):
        try:
            arena.live_bytes
            arena.stats()
            repr(arena)
        except hearth.Error:
            pass
        for call in (lambda: arena.empty(8), arena.trim, arena.reset_peak, arena.run_begin):
            with pytest.raises(hearth.Error):
                call()
        in_thread(lambda: service.execution.empty(64))
    service.close()
    try:
        arena.live_bytes
    except hearth.Error:
        pass


def test_execution_arenas_are_for_their_thread(execution, exactly_once):
    exactly_once.allowed = 5
    lease = execution.empty(64)
    watch = Watch(lease)

    def other():
        for call in (lambda: execution.empty(8), lambda: execution.zeros(8), execution.trim, execution.reset_peak,
                     lambda: setattr(execution, "retention_limit", 0)):
            with pytest.raises(hearth.NotOwnerError) as caught:
                call()
            assert caught.value.status == "NOT_OWNER"
        assert execution.live_count == 1 and execution.live_bytes == 64
        assert execution.stats().live_count == 1
        assert execution.retained_bytes == 0 and execution.footprint > 0
        assert execution.retention_limit is None or execution.retention_limit >= 0
        assert lease.view("uint32").numpy().size == 16, "views and exports are no matter of the arena"

    in_thread(other)
    del lease
    assert watch.returned


def test_release_owner_hands_an_execution_arena_over(exactly_once):
    exactly_once.allowed = 1
    arena = hearth.ExecutionArena()
    mine = arena.empty(64)
    arena.release_owner()

    def other():
        lease = arena.empty(128)
        arena.trim()
        arena.release_owner()
        return lease

    theirs = in_thread(other)
    assert arena.empty(32).nbytes == 32
    with pytest.raises(hearth.NotOwnerError):
        in_thread(arena.trim)
    del mine, theirs
    assert settled(arena)


def test_pages_are_warm_for_the_next_request(arena):
    lease = arena.empty((1 << 20,), "uint8")
    where = lease.address
    out = lease.numpy()
    del lease, out
    assert arena.retained_bytes >= 1 << 20
    assert arena.empty((1 << 20,), "uint8").address == where


def test_pages_from_another_thread_are_warm_for_the_owner(execution):
    lease = execution.empty(1 << 20)
    where = lease.address
    held = [lease.numpy()]
    del lease
    in_thread(held.clear)
    assert execution.empty(1 << 20).address == where


def test_trim_and_limits_of_warm_pages_do_not_touch_what_is_out(arena):
    leases = [arena.empty(1 << 16) for _ in range(8)]
    arrays = [lease.numpy() for lease in leases]
    for index, one in enumerate(arrays):
        one[:] = index
    del leases[::2], arrays[::2]
    released = arena.trim()
    assert released >= 4 << 16 and arena.retained_bytes == 0
    arena.retention_limit = 0
    assert arena.retention_limit == 0
    for index, one in zip(range(1, 8, 2), arrays):
        assert (one == index).all()
    assert arena.live_count == 4
    del leases, arrays, one
    assert arena.retained_bytes == 0, "the limit holds for what comes back"
    arena.retention_limit = None
    assert arena.retention_limit is None


def test_closed_arenas_refuse_and_still_take_back(arena):
    lease = arena.empty(64)
    watch = Watch(lease)
    arena.close()
    arena.close()
    assert arena.closed
    for call in (lambda: arena.empty(8), lambda: arena.zeros(8)):
        with pytest.raises(hearth.ClosedError):
            call()
    with pytest.raises(hearth.ClosedError):
        with arena:
            pass
    assert lease.view("uint32").numpy().size == 16
    assert np.from_dlpack(lease).size == 64
    assert "closed" in repr(arena)
    del lease
    assert watch.returned


def test_figures_are_readable_after_close(io):
    lease = io.empty(64)
    io.close()
    assert io.live_count == 1
    del lease
    assert io.live_count == 0 and io.retained_bytes == 0


def test_figures_of_closed_execution_arenas_are_refused_cleanly(execution):
    lease = execution.empty(64)
    execution.close()
    for name in ("live_count", "live_bytes", "footprint", "retention_limit", "capacity"):
        try:
            assert getattr(execution, name) is not None
        except hearth.ClosedError:
            pass
    for call in (execution.stats, execution.trim, execution.reset_peak, execution.run_begin, execution.run_end,
                 execution.release_owner):
        try:
            call()
        except hearth.ClosedError:
            pass
    assert "closed" in repr(execution)
    assert lease.numpy().size == 64


def test_the_io_arena_of_a_service_is_not_closed_alone(service):
    with pytest.raises(hearth.InvalidError):
        service.io.close()
    assert not service.io.closed
    assert service.io.empty(8).nbytes == 8


def test_a_service_keeps_nothing_that_python_dropped(exactly_once):
    """Arena objects keep their service, and no longer."""
    service = hearth.Service()
    arena = service.io
    execution = service.execution
    del service
    gc.collect()
    assert arena.empty(64).nbytes == execution.empty(64).nbytes == 64
    lease = arena.empty(64)
    watch = Watch(lease)
    del arena, execution
    gc.collect()
    assert lease.numpy().size == 64
    del lease
    assert watch.returned


def test_two_arena_objects_of_one_service(service):
    assert service.io.empty(8).arena == service.io.empty(8).arena
    lease = service.io.empty(64)
    assert service.io.live_count == 1 and service.live_bytes == 64
    del lease
    assert service.io.live_count == 0


def test_closed_services(exactly_once):
    service = hearth.Service()
    held = [service.io.empty(64).numpy(), service.execution.empty(64).numpy()]
    io, execution = service.io, service.execution
    service.close()
    service.close()
    assert service.closed
    for call in (lambda: io.empty(8), lambda: execution.empty(8), lambda: service.io.empty(8),
                 lambda: service.execution.empty(8)):
        with pytest.raises(hearth.ClosedError):
            call()
    for out in held:
        out[:] = 1
    for call in (service.tick, service.end_run, service.detach, service.stats, service.trim):
        try:
            call()
        except hearth.Error:
            pass
    held.clear()


def test_detach_leaves_what_is_out(service):
    lease = service.execution.empty((8, 8), "float64")
    watch = Watch(lease)
    out = lease.numpy()
    out[...] = 5
    arena = service.execution
    del lease
    service.detach()
    gc.collect()
    assert watch.held and (out == 5).all()
    try:
        arena.empty(8)
    except hearth.Error:
        pass
    del arena
    assert service.execution.empty((8, 8), "float64").numpy().shape == (8, 8)
    assert (out == 5).all()
    del out
    assert watch.returned


def test_detach_by_one_thread_while_its_arena_object_lives_elsewhere(service):
    ready, go = threading.Event(), threading.Event()
    shared = {}

    def body():
        shared["arena"] = service.execution
        shared["array"] = shared["arena"].empty(4096).numpy()
        shared["array"][:] = 1
        service.detach()
        ready.set()
        go.wait(30)

    thread = threading.Thread(target=body)
    thread.start()
    assert ready.wait(30)
    for _ in range(10):
        try:
            shared["arena"].stats()
            shared["arena"].live_count
        except hearth.Error:
            pass
        with pytest.raises(hearth.Error):
            shared["arena"].empty(16)
    assert (shared["array"] == 1).all()
    go.set()
    thread.join()
    with pytest.raises(hearth.Error):
        shared["arena"].empty(16)
    assert (shared["array"] == 1).all()
    shared.clear()


def test_leases_keep_no_python_object_of_the_arena(io):
    """A lease holds the arena's core, not its object: nothing of it can be part of a cycle."""
    lease = io.empty(64)
    assert not gc.is_tracked(lease)
    assert not gc.get_referents(lease) or set(map(type, gc.get_referents(lease))) <= {type}
    before = __import__("sys").getrefcount(io)
    more = io.empty(64)
    assert __import__("sys").getrefcount(io) == before
    del more, lease


def test_weak_references_where_they_exist(arena):
    lease = arena.empty(64)
    out = lease.numpy()
    reference = weakref.ref(out)
    try:
        weakref.ref(lease)
    except TypeError:
        pass
    del out
    assert reference() is None
    watch = Watch(lease)
    del lease
    assert watch.returned


def test_big_buffers_come_back_without_unmapping(arena):
    """The return of a large buffer is a push to a list; pages go back in trim only."""
    before = arena.stats().backing_releases
    for _ in range(5):
        out = arena.empty(64 << 20).numpy()
        out[::4096] = 1
        del out
    assert arena.stats().backing_releases == before
    assert arena.retained_bytes >= 64 << 20
    assert arena.trim() >= 64 << 20
    assert arena.stats().backing_releases > before


def test_a_cycle_through_an_array_is_collected(io):
    class Node:
        pass

    node = Node()
    lease = io.empty(64)
    watch = Watch(lease)
    node.array = lease.numpy()
    node.self = node
    del lease, node
    assert watch.held
    gc.collect()
    assert watch.returned


def test_resurrection(io):
    kept = []

    class Phoenix:
        def __init__(self, out):
            self.out = out

        def __del__(self):
            kept.append(self.out)

    lease = io.empty(64)
    watch = Watch(lease)
    bird = Phoenix(lease.numpy())
    del lease, bird
    assert watch.held and kept[0].size == 64
    kept.clear()
    assert watch.returned


def test_addresses_of_live_leases_never_overlap(arena):
    arrays = []
    for size in (1, 63, 64, 65, 1000, 4096, 100_000, 3 << 20):
        for _ in range(4):
            lease = arena.empty(size)
            arrays.append(lease.numpy())
    spans = sorted((address_of(one), one.nbytes) for one in arrays)
    for (start, size), (following, _) in zip(spans, spans[1:]):
        assert start + size <= following
    del arrays, lease
