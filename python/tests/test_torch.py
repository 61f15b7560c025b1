# SPDX-License-Identifier: Apache-2.0
"""Hand-over to torch, where it is installed."""

import gc

import numpy as np
import pytest

import hearth
from support import Watch, in_thread

torch = pytest.importorskip("torch")


def test_round_trip_through_dlpack(arena):
    lease = arena.empty((4, 4), "float32")
    watch = Watch(lease)
    tensor = torch.from_dlpack(lease)
    assert tensor.data_ptr() == lease.address and tuple(tensor.shape) == (4, 4)
    tensor.fill_(3)
    assert (lease.numpy() == 3).all()
    del lease
    back = tensor.numpy()
    part = tensor.t()[1:]
    del tensor
    assert watch.held and (back == 3).all() and bool((part == 3).all())
    del back
    assert watch.held
    del part
    gc.collect()
    assert watch.returned


def test_torch_memory_leased(io):
    source = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    lease = io.from_dlpack(source)
    assert lease.address == source.data_ptr() and lease.shape == (4, 6)
    out = lease.numpy()
    del source, lease
    assert out.sum() == 276
    out = None
    assert io.live_count == 0
    strided = io.from_dlpack(torch.arange(24).reshape(4, 6).t())
    assert strided.shape == (6, 4) and strided.numpy()[1, 1] == 7


def test_frombuffer_and_from_numpy(arena):
    lease = arena.zeros(16, "float32")
    watch = Watch(lease)
    tensors = [torch.frombuffer(lease, dtype=torch.float32), torch.from_numpy(lease.numpy())]
    tensors[0][3] = 5
    assert lease.numpy()[3] == 5 and float(tensors[1][3]) == 5
    del lease
    while tensors:
        assert watch.held
        tensors.pop()
        gc.collect()
    assert watch.returned


def test_drop_in_another_thread(arena):
    lease = arena.zeros(16, "float32")
    watch = Watch(lease)
    held = [torch.from_dlpack(lease)]
    del lease
    in_thread(held.clear)
    assert watch.returned_to(arena)


def test_autograd_holds_it(arena):
    lease = arena.zeros(16, "float32")
    watch = Watch(lease)
    weight = torch.ones(16, requires_grad=True)
    loss = (torch.from_dlpack(lease) * weight).sum()
    del lease
    assert watch.held
    loss.backward()
    del loss
    gc.collect()
    assert watch.returned and bool((weight.grad == 0).all())


def test_types_numpy_does_not_know(arena):
    lease = arena.zeros(16, "bfloat16")
    watch = Watch(lease)
    tensor = torch.from_dlpack(lease)
    assert tensor.dtype == torch.bfloat16
    del lease, tensor
    assert watch.returned


def test_used_capsules_are_refused(arena):
    capsule = arena.zeros(16).__dlpack__()
    tensor = torch.utils.dlpack.from_dlpack(capsule)
    with pytest.raises(RuntimeError):
        torch.utils.dlpack.from_dlpack(capsule)
    with pytest.raises((ValueError, BufferError, hearth.Error)):
        hearth.IOArena().from_dlpack(capsule)
    assert np.asarray(tensor).size == 16
