"""Leaves: each has a gradient of its own, whatever else has its values."""

from __future__ import annotations

import gc
from functools import partial

import numpy as np
import pytest

from rulegrad import Tensor, nn, profile
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.memory import peak_memory, reset_peak_memory

VALUES = [1.0, 2.0, 3.0]


def same_values_twice(make, copied):
    a = make(VALUES)
    b = copied(a).requires_grad_()
    return (a * a * b).sum(), [b]


def leaf_of_a_leaf(make, copied):
    a = make(VALUES).requires_grad_()
    b = copied(a).requires_grad_()
    return (a * a * b).sum(), [a, b]


def detached_leaf(make, copied):
    a = make(VALUES).requires_grad_()
    b = a.detach().requires_grad_()
    return (a * b * b).sum(), [a, b]


def graphs_before(make, copied):
    x = make(VALUES)
    y, z = x * 2, x[1:] * 3
    x.requires_grad_()
    return (y * x).sum() + (z * x[1:]).sum(), [x]


def graphs_of_a_frozen_leaf(make, copied):
    x, w = make(VALUES).requires_grad_(), make(VALUES).requires_grad_()
    before = x * 2
    x.requires_grad_(False)
    frozen = x * 3
    x.requires_grad_()
    return (before * frozen * w).sum() + (x * x).sum(), [x, w]


def equal_values_computed_together(make, copied):
    a = make(VALUES)
    x, y = (a * 2).requires_grad_(), a * 2
    for tensor in (y, x):
        getattr(tensor, "realize", lambda: None)()
    return (x * y).sum(), [x]


@pytest.mark.parametrize(
    "program",
    [
        same_values_twice,
        leaf_of_a_leaf,
        detached_leaf,
        graphs_before,
        graphs_of_a_frozen_leaf,
        equal_values_computed_together,
    ],
)
def test_gradients_of_leaves_are_those_of_pytorch(program):
    torch = pytest.importorskip("torch")
    expected, leaves = program(torch.tensor, lambda a: a.detach().clone())
    expected.backward()
    wanted = [leaf.grad.tolist() for leaf in leaves]
    for device in ("numpy", "c"):
        result, leaves = program(partial(Tensor, device=device), Tensor)
        result.backward()
        assert result.item() == expected.item()
        assert [leaf.grad.tolist() for leaf in leaves] == wanted


def test_leaves_need_no_copy():
    x = Tensor(np.zeros(1 << 12, np.float32), device="numpy")
    reset_peak_memory("numpy")
    before = peak_memory("numpy")
    with profile() as found:
        leaves = [Tensor(x, requires_grad=True), nn.Parameter(x), x.detach().requires_grad_(), x.requires_grad_()]
        assert len({leaf.uop for leaf in leaves}) == 4
    assert not found.kernels
    assert peak_memory("numpy") == before


def test_memory_belongs_to_the_last_one_who_has_it():
    x = Tensor(np.zeros(1 << 12, np.float32), device="numpy")
    leaf = Tensor(x, requires_grad=True)
    assert not Buffer.of(leaf.uop).owns_memory
    kept = x + 0
    x += 1
    x.realize()
    assert (leaf[0].item(), kept[0].item()) == (0.0, 0.0)
    del x, kept
    gc.collect()
    assert Buffer.of(leaf.uop).owns_memory
    reset_peak_memory("numpy")
    before = peak_memory("numpy")
    leaf.assign(leaf.detach() + 1)
    assert leaf.realize()[0].item() == 1.0
    assert peak_memory("numpy") == before
