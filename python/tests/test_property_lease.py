# SPDX-License-Identifier: Apache-2.0
"""Random sequences of everything that can be done with leases, against a model of who holds what.

The model: each buffer has a set of holders. A buffer is out as long as there is one. That is all.
"""

import ctypes
import gc

import numpy as np
import pytest

import hearth
from support import LEGACY, SMOKE, VERSIONED, Watch, consume, discard, in_thread, misuses

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, settings, strategies as st  # noqa: E402
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule  # noqa: E402

SIZES = st.sampled_from([0, 1, 64, 65, 1000, 4096, 70_000])


class Buffer:
    def __init__(self, arena, watch, value, size):
        self.arena, self.watch, self.value, self.size = arena, watch, value, size
        self.holders = 0


class Holder:
    """Something that keeps a buffer, and how to look at it."""

    def __init__(self, buffer, kind, thing, whole=True):
        self.buffer, self.kind, self.thing, self.whole = buffer, kind, thing, whole
        buffer.holders += 1

    def data(self):
        if self.kind == "tensor":
            return ctypes.string_at(self.thing.dl_tensor.data, self.buffer.size) if self.whole else b""
        if self.kind in ("array", "memoryview"):
            return self.thing.tobytes()
        if self.kind == "lease" and not self.thing.released:
            return self.thing.tobytes()
        return b""

    def drop(self):
        if self.kind == "tensor":
            discard(self.thing)
        self.thing = None
        self.buffer.holders -= 1


class Lives(RuleBasedStateMachine):
    """The state machine. Holders that were dropped stay in their bundles and are passed over."""

    holders = Bundle("holders")

    def __init__(self):
        super().__init__()
        self.misuses = misuses()
        self.service = hearth.Service(maintenance_thread=False)
        self.arenas = {"io": hearth.IOArena(), "execution": hearth.ExecutionArena(), "service.io": self.service.io,
                       "service.execution": self.service.execution}
        self.buffers, self.all = [], []
        self.value = 0

    def hold(self, *arguments, **keywords):
        holder = Holder(*arguments, **keywords)
        self.all.append(holder)
        return holder

    @rule(target=holders, name=st.sampled_from(["io", "execution", "service.io", "service.execution"]), size=SIZES,
          zero=st.booleans())
    def take(self, name, size, zero):
        if name not in self.arenas:
            name = "service.io"
        arena = self.arenas[name]
        if zero:
            assert not arena.zeros(size).numpy().any()
        lease = arena.empty(size)
        self.value = self.value % 250 + 1
        lease.numpy()[:] = self.value
        buffer = Buffer(name, Watch(lease), self.value, size)
        self.buffers.append(buffer)
        return self.hold(buffer, "lease", lease)

    @rule(target=holders, holder=holders, how=st.sampled_from(["numpy", "asarray", "memoryview", "dlpack", "legacy",
                                                               "versioned", "tensor", "view", "ndarray", "thread",
                                                               "readonly"]))
    def export(self, holder, how):
        if holder.thing is None or holder.kind != "lease":
            return holder
        lease, buffer = holder.thing, holder.buffer
        try:
            if how in ("numpy"):
                return self.hold(buffer, "array", lease.numpy())
            if how == "readonly":
                return self.hold(buffer, "array", lease.numpy(readonly=True))
            if how == "asarray":
                return self.hold(buffer, "array", np.asarray(memoryview(lease)))
            if how == "ndarray":
                return self.hold(buffer, "array", np.ndarray(lease.shape, "u1", buffer=lease))
            if how == "memoryview":
                return self.hold(buffer, "memoryview", memoryview(lease))
            if how == "dlpack":
                return self.hold(buffer, "array", np.from_dlpack(lease))
            if how == "thread":
                return self.hold(buffer, "array", in_thread(lease.numpy))
            if how == "view":
                part = lease.view("uint8", lease.nbytes // 2, offset=lease.nbytes // 2)
                return self.hold(buffer, "lease", part, whole=False)
            keywords = LEGACY if how == "legacy" else VERSIONED
            capsule = lease.__dlpack__(**keywords)
            if how == "tensor":
                whole = lease.nbytes == buffer.size
                return self.hold(buffer, "tensor", consume(capsule), whole=whole and buffer.size > 0)
            return self.hold(buffer, "capsule", capsule)
        except hearth.ClosedError:
            assert lease.released
            return holder

    @rule(target=holders, holder=holders, how=st.sampled_from(["half", "reverse", "step", "bytes", "cast"]))
    def derive(self, holder, how):
        if holder.thing is None:
            return holder
        thing, buffer = holder.thing, holder.buffer
        if holder.kind == "array":
            made = {"half": thing[thing.size // 2:], "reverse": thing[::-1], "step": thing[::3],
                    "bytes": thing.reshape(-1, 1).T, "cast": np.asarray(thing)[:]}[how]
            return self.hold(buffer, "array", made, whole=False)
        if holder.kind == "memoryview":
            made = {"half": thing[len(thing) // 2:], "reverse": thing[::-1], "step": thing[::3], "bytes": thing[:],
                    "cast": thing.cast("B") if thing.c_contiguous else thing[:]}[how]
            return self.hold(buffer, "memoryview", made, whole=False)
        return holder

    @rule(holder=holders, where=st.sampled_from(["here", "thread", "cycle"]))
    def drop(self, holder, where):
        if holder.thing is None:
            return
        if where == "thread":
            in_thread(holder.drop)
        elif where == "cycle":
            cycle = [holder.thing if holder.kind != "tensor" else None]
            cycle.append(cycle)
            holder.drop()
            del cycle
            gc.collect()
        else:
            holder.drop()

    @rule(holder=holders)
    def release(self, holder):
        if holder.thing is not None and holder.kind == "lease":
            holder.thing.release()

    @rule(holder=holders, value=st.integers(1, 250))
    def write(self, holder, value):
        if holder.thing is None or holder.kind != "lease" or holder.thing.released or not holder.whole:
            return
        if holder.thing.nbytes == holder.buffer.size:
            holder.thing.numpy()[:] = value
            holder.buffer.value = value

    @rule(name=st.sampled_from(["io", "execution", "service.io", "service.execution", "service"]))
    def trim(self, name):
        if name == "service":
            self.service.trim()
        elif name in self.arenas:
            self.arenas[name].trim()
            assert self.arenas[name].retained_bytes == 0

    @rule()
    def tick(self):
        if not self.service.closed:
            self.service.tick()
            self.service.end_run()

    @precondition(lambda self: "io" in self.arenas)
    @rule(close=st.booleans())
    def lose_io(self, close):
        if close:
            self.arenas["io"].close()
        del self.arenas["io"]

    @precondition(lambda self: "execution" in self.arenas)
    @rule(close=st.booleans())
    def lose_execution(self, close):
        if close:
            self.arenas["execution"].close()
        del self.arenas["execution"]

    @invariant()
    def books_agree(self):
        counts, sizes = dict.fromkeys(self.arenas, 0), dict.fromkeys(self.arenas, 0)
        for buffer in self.buffers:
            if buffer.holders:
                assert buffer.watch.held
            else:
                assert buffer.watch.returned_to(self.arenas.get(buffer.arena))
            if buffer.holders and buffer.arena in counts:
                counts[buffer.arena] += 1
                sizes[buffer.arena] += buffer.size
        for name, arena in self.arenas.items():
            assert arena.live_count == counts[name]
            assert arena.live_bytes == sizes[name]
        self.buffers = [buffer for buffer in self.buffers if buffer.holders]

    @invariant()
    def bytes_are_their_own(self):
        self.all = [holder for holder in self.all if holder.thing is not None]
        for holder in self.all:
            assert set(holder.data()) <= {holder.buffer.value}

    def teardown(self):
        for holder in self.all:
            if holder.thing is not None:
                holder.drop()
        gc.collect()
        for buffer in self.buffers:
            assert buffer.watch.returned_to(self.arenas.get(buffer.arena))
        for arena in self.arenas.values():
            assert arena.live_count == 0
        assert misuses() == self.misuses


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=10 if SMOKE else 60, stateful_step_count=15 if SMOKE else 40,
                              deadline=None, database=None, suppress_health_check=list(HealthCheck))
