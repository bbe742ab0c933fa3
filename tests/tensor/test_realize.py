"""Computing tensors, values on the host, and how long memory is held."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DeviceError, DtypeError, ShapeError
from rulegrad.lang import engine
from rulegrad.runtime.buffer import Buffer


def test_values_on_the_host(device):
    x = Tensor([[1.5, 2.0], [3.0, 4.0]])
    assert x.tolist() == [[1.5, 2.0], [3.0, 4.0]]
    assert x[0, 0].item() == 1.5
    assert x[:1, :1].item() == 1.5
    assert float(x[0, 0]) == 1.5
    assert int(x[1, 1]) == 4
    assert bool(x[0, 0] > 1)
    assert np.asarray(x + 1).tolist() == [[2.5, 3.0], [4.0, 5.0]]
    assert Tensor([1, 0], dtype="bfloat16").tolist() == [1.0, 0.0]
    assert Tensor(True).item() is True
    assert Tensor(3).tolist() == 3


def test_realize_points_at_buffers(device):
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    total, difference = a + b, a - b
    assert Tensor.realize(total, difference) is total
    for result in (total, difference):
        assert result.uop.op == "BUFFER"
        assert result.device.startswith(device)
    before = total.uop
    assert total.realize().uop == before
    assert total.tolist() == [4.0, 6.0]
    assert (total * difference).tolist() == [-8.0, -12.0]


def test_repr_shows_values_dtype_and_device(device):
    name = Tensor([1.0]).device
    assert repr(Tensor([[1, 2], [3, 4]])) == (f"Tensor([[1, 2],\n        [3, 4]], dtype=int64, device={name})")
    assert repr(Tensor(2.5) + 1) == f"Tensor(3.5, dtype=float32, device={name})"
    assert repr(Tensor([1.0], requires_grad=True)).endswith("requires_grad=True)")


def test_memory_is_given_back(any_device):
    source = Tensor([1.0, 2.0])
    held = weakref.ref(Buffer.of(source.uop))
    doubled = source * 2
    del source
    gc.collect()
    assert held() is not None, "a graph that was not computed needs its buffers"
    assert doubled.tolist() == [2.0, 4.0]
    gc.collect()
    assert held() is None


def test_a_training_loop_holds_no_old_buffers(any_device):
    weight = Tensor([1.0, 2.0], requires_grad=True)
    seen = []
    for _ in range(3):
        loss = (weight * weight).sum()
        loss.backward()
        seen.append(weakref.ref(Buffer.of(weight.uop)))
        weight.assign(weight.detach() - weight.grad * 0.1)
        Tensor.realize(weight, loss)
        weight.grad = None
    del loss
    gc.collect()
    assert [reference() is None for reference in seen] == [True, True, True]


def test_tensors_of_nodes_made_by_hand(any_device):
    x = Tensor([1.0, 2.0])
    node = (x + 1).uop
    held = Tensor(node)
    del x
    gc.collect()
    assert held.tolist() == [2.0, 3.0]
    assert held.device == "numpy"


def test_devices(device):
    x = Tensor([1.0, 2.0], device="numpy")
    assert x.device == "numpy"
    assert (x * 2).device == "numpy"
    there = x.to(device)
    assert there.device == Tensor([0.0]).device
    assert there.tolist() == [1.0, 2.0]
    assert there.to(device) is there
    ones = Tensor.ones(2, device="numpy").realize()
    assert ones.device == "numpy"
    assert Buffer.of(ones.uop).device == "numpy"
    with pytest.raises(DeviceError, match="nowhere"):
        x.to("nowhere")


def test_assign(any_device):
    x = Tensor([1.0, 2.0])
    assert x.assign(x + 1) is x
    assert x.tolist() == [2.0, 3.0]
    with pytest.raises(ShapeError, match=r"\(2,\) and \(3,\)"):
        x.assign(Tensor.ones(3))
    with pytest.raises(DtypeError, match="float64 tensor into a float32"):
        x.assign(Tensor.ones(2, dtype="float64"))


def test_errors(any_device):
    pair = Tensor([1, 2])
    with pytest.raises(ShapeError, match=r"item: the shape \(2,\) has 2 elements"):
        pair.item()
    with pytest.raises(ShapeError, match=r"use .any\(\) or .all\(\)"):
        bool(pair)
    with pytest.raises(TypeError, match="not an integer"):
        [1, 2][Tensor(1.0)]


def test_a_plan_is_found_again_without_a_pass(monkeypatch):
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    graphs = [lambda: a * 2 + b, lambda: a + b * 2]
    answers = [graph().tolist() for graph in graphs]
    monkeypatch.setattr(engine, "run", None)
    assert [graph().tolist() for graph in graphs] == answers == [[5.0, 8.0], [7.0, 10.0]]
    a, b = Tensor([10.0, 20.0]), Tensor([0.5, 0.0])
    assert [graph().tolist() for graph in graphs] == [[20.5, 40.0], [11.0, 20.0]]
    b = a
    with pytest.raises(TypeError):
        graphs[0]().tolist()  # the two are one buffer now
