"""PyTorch's names of what tensors do under NumPy's."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from rulegrad import Tensor, no_grad, optim
from rulegrad.errors import DtypeError, RulegradError, ShapeError


def test_sizes(any_device):
    x = Tensor.ones(2, 3, 4, dtype="float64")
    assert x.size == 24 and isinstance(x.size, int) and x.size() == (2, 3, 4) and x.size(-1) == 4
    assert json.dumps(x.size) == "24" and type(pickle.loads(pickle.dumps(x.size))) is int
    assert (x.numel(), x.nelement(), x.dim(), x.element_size()) == (24, 24, 3, 8)
    assert x.is_floating_point() and x.is_contiguous() and not Tensor([1]).is_floating_point()
    with pytest.raises(ShapeError, match="size"):
        x.size(3)


def test_views(any_device):
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert x.view(3, -1).tolist() == x.view((3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert x.view("int32").dtype == "int32" and x.view("int32").tolist()[0][1] == 0x3F800000
    assert x.t().shape == (3, 2) and Tensor([1, 2]).t().tolist() == [1, 2]
    other = Tensor.ones(6)
    assert x.view_as(other).shape == x.reshape_as(other).shape == x.flatten(start_dim=0, end_dim=1).shape == (6,)
    assert Tensor([1.0]).expand_as(other).tolist() == [1.0] * 6
    assert x.type("int32").dtype == "int32" and x.type() == "float32" and Tensor([1]).type_as(x).dtype == "float32"
    with pytest.raises(ShapeError, match=r"t: the shape \(1, 2, 3\)"):
        Tensor.ones(1, 2, 3).t()


def test_strides(any_device):
    numbers = np.arange(24, dtype=np.float32)
    x = Tensor(numbers).requires_grad_(True)
    assert x.reshape(2, 3, 4).stride() == (12, 4, 1) and x.reshape(2, 12).stride(0) == 12 and x.storage_offset() == 0
    for size, stride, first in (
        ((3, 4), (8, 1), 0),
        ((5, 3), (2, 1), 3),
        ((4,), (0,), 2),
        ((), (), 5),
        ((0, 3), (1, 1), 0),
    ):
        wanted = np.lib.stride_tricks.as_strided(numbers[first:], size, [4 * step for step in stride])
        assert x.as_strided(size, stride, first).tolist() == wanted.tolist()
    x.as_strided((5, 6), (3, 1)).sum().backward()
    assert x.grad.tolist() == [1] * 3 + [2] * 12 + [1] * 3 + [0] * 6
    for size, stride in (((5, 8), (5, 1)), ((2,), (-1,)), ((2,), (1, 1))):
        with pytest.raises(ShapeError, match="does not lie within the 24 elements"):
            x.as_strided(size, stride, 5)


@pytest.mark.parametrize("name", ["tensor", "compile"])
def test_a_name_that_is_a_package_is_there_at_once(name):
    """Before anything else has imported the package."""
    run = subprocess.run([sys.executable, "-c", f"import rulegrad as torch; torch.{name}"], capture_output=True)
    assert run.returncode == 0, run.stderr


def test_products(any_device):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    first, second, added = Tensor(a), Tensor(b), Tensor(np.ones((2, 4)))
    assert first.mm(second).tolist() == (a @ b).tolist()
    assert first.mv(Tensor(b[:, 0].copy())).tolist() == (a @ b[:, 0]).tolist()
    assert added.addmm(first, second, beta=2, alpha=3).tolist() == (2 + 3 * (a @ b)).tolist()
    batch = first.unsqueeze(0).bmm(second.unsqueeze(0))
    assert batch.tolist() == [(a @ b).tolist()]
    assert added.unsqueeze(0).baddbmm(first.unsqueeze(0), second.unsqueeze(0)).tolist() == [(1 + a @ b).tolist()]
    for wrong in (lambda: first.bmm(second), lambda: batch.mm(batch), lambda: first.mv(second)):
        with pytest.raises(ShapeError):
            wrong()


def test_a_clone_keeps_its_values_and_its_gradient(any_device):
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x.clone()
    (y * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with no_grad():
        x.zero_()
    assert y.tolist() == [1.0, 2.0]


def test_random_fillings(device):
    Tensor.manual_seed(4)
    x = Tensor.zeros(2000)
    values = x.uniform_(2.0, 3.0).numpy()
    assert x.tolist() == values.tolist() and 2.0 <= values.min() < 2.05 and 2.95 < values.max() <= 3.0
    values = x.normal_(5.0, 0.5).numpy()
    assert abs(values.mean() - 5.0) < 0.05 and abs(values.std() - 0.5) < 0.05
    assert 0.2 < x.bernoulli_(0.25).numpy().mean() < 0.3
    assert 0.7 < Tensor.full((2000,), 0.75).bernoulli().numpy().mean() < 0.8
    assert x.rand_like().shape == x.randn_like("float64").shape == (2000,)
    assert x.randn_like("float64").dtype == "float64"


def test_what_is_not_there_says_what_to_do(any_device):
    weight = Tensor([1.0], requires_grad=True)
    with pytest.raises(RulegradError, match="no_grad"):
        weight.normal_()
    with no_grad():
        assert weight.fill_(3.0).tolist() == [3.0] and weight.requires_grad


def test_draws_in_the_order_of_pytorch(any_device):
    x = Tensor.ones(2, 3)
    draws = (Tensor.randint(4, (50,)), Tensor.randint(2, 4, (50,)), Tensor.randint(50, low=2, high=4))
    draws += (Tensor.randint(2, 4, size=(50,)), Tensor.randint(4, size=[50], dtype="float32"))
    assert all(draw.shape == (50,) for draw in draws) and draws[-1].dtype == "float32"
    assert [set(draw.tolist()) for draw in draws] == [{0, 1, 2, 3}, {2, 3}, {2, 3}, {2, 3}, {0.0, 1.0, 2.0, 3.0}]
    assert x.randint_like(5, 6).tolist() == [[5.0] * 3] * 2 and x.randint_like(1, dtype="int8").dtype == "int8"
    means = Tensor([[1.0], [2.0]], dtype="float64")
    assert Tensor.normal(means, Tensor([0.0, 0.0])).tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert Tensor.normal(means, 0.0).dtype == "float64" and Tensor.normal(2.0, means * 0).tolist() == [[2.0], [2.0]]
    assert Tensor.normal(2.0, 0.0, (1, 2)).tolist() == Tensor.normal(2, 0, size=(1, 2)).tolist() == [[2.0, 2.0]]
    assert Tensor.normal(2, 1).shape == (2, 1)
    for wrong in (lambda: Tensor.randint(3), lambda: Tensor.randint(1, 2, 3, (4,)), lambda: Tensor.normal(0.0, -1.0)):
        with pytest.raises(ShapeError):
            wrong()
    with pytest.raises(DtypeError, match="float16"):
        Tensor.randint(5000, (1,), dtype="float16")


def test_memory_that_is_not_written_yet(any_device):
    x = Tensor([1, 2])
    assert (x.empty_like("float64").dtype, x.empty_like().shape) == ("float64", (2,))
    assert (x.new_empty(2, 0).shape, x.new_empty((3,)).dtype) == ((2, 0), "int64")
    assert Tensor.scalar_tensor(3).shape == () and Tensor.scalar_tensor(3, dtype="int8").dtype == "int8"


def test_older_names():
    x = Tensor([1, 2, 3])
    assert [part.tolist() for part in x.split(split_size=2)] == [[1, 2], [3]]
    assert [part.tolist() for part in x.split(split_size_or_sections=[1, 2], dim=0)] == [[1], [2, 3]]
    assert optim.lr_scheduler._LRScheduler is optim.lr_scheduler.LRScheduler


def test_what_needs_no_other_tensor_is_the_tensor_itself():
    """As in PyTorch, where programs keep a parameter's `contiguous()`, and change it."""
    leaf = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    computed, view = leaf * 2, leaf.detach().T
    for x in (leaf, computed, leaf.detach()):
        assert x.contiguous() is x and x.float() is x and x.type("float32") is x and x.type_as(leaf) is x
    assert computed.contiguous().tolist() == [[2, 4], [6, 8]] and view.contiguous() is not view
    copy = view.contiguous()
    copy += 1
    assert view.tolist() == [[1, 3], [2, 4]] and copy.tolist() == [[2, 4], [3, 5]]
    (computed.contiguous() * 3).sum().backward()
    assert leaf.grad.tolist() == [[6, 6], [6, 6]] and leaf.double() is not leaf
