"""Calls of packages that are written for PyTorch, which were missing here: numbers first, old orders, subclasses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.errors import ConfigError, DtypeError, GradientError, IndexRangeError, ShapeError
from rulegrad.utils import _foreach_utils  # type: ignore[attr-defined]

pytestmark = pytest.mark.usefixtures("on_the_interpreter")


def test_numbers_in_front_of_a_tensor() -> None:
    """kornia's `torch.div(256, residual, rounding_mode="floor")`."""
    whole, real = Tensor([1, 2, 3]), Tensor([1.5, 2.0, -4.0])
    found = rg.div(7, whole, rounding_mode="floor")
    assert found.tolist() == [7, 3, 2] and str(found.dtype) == "int64"
    assert rg.sub(1, real).tolist() == [-0.5, -1.0, 5.0] and rg.remainder(7, whole).tolist() == [0, 1, 1]
    assert str(rg.mul(2.5, whole).dtype) == "float32" and rg.pow(2, whole).tolist() == [2, 4, 8]
    assert rg.bitwise_left_shift(1, whole).tolist() == [2, 4, 8] and rg.true_divide(1, Tensor([4])).tolist() == [0.25]
    with pytest.raises(DtypeError, match="the first argument is a int"):
        rg.div(7, 2)
    with pytest.raises(DtypeError, match="the first argument is a int"):
        rg.relu(7)


def test_the_factor_in_front_of_tensors() -> None:
    """`add_(alpha, other)` and `addcmul_(value, first, second)`, as of PyTorch before 1.5: optimizers of that time."""
    x, a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), Tensor([5.0, 8.0])
    assert x.add(2.0, a).tolist() == [7.0, 10.0] and x.sub(2, a).tolist() == [-5.0, -6.0]
    assert x.addcmul(0.5, a, b).tolist() == x.addcmul(a, b, value=0.5).tolist() == [8.5, 18.0]
    assert x.addcdiv(2, a, b).tolist() == x.addcdiv(a, b, value=2).tolist()
    assert x.add_(2.0, a) is x and x.tolist() == [7.0, 10.0]
    assert x.addcmul_(1.0, a, b).tolist() == [22.0, 42.0]
    with pytest.raises(TypeError, match="positional"):
        x.add(a, b)  # type: ignore[call-arg]


def test_results_that_are_put_somewhere() -> None:
    a, b, out = Tensor([1.0, 5.0]), Tensor([3.0, 2.0]), rg.zeros(2)
    assert rg.max(a, b, out=out) is out and out.tolist() == [3.0, 5.0]
    assert rg.min(a, b, out=out).tolist() == [1.0, 2.0]
    values, places = rg.zeros(1), rg.zeros(1, dtype=rg.int64)
    rg.max(a.reshape(1, 2), 1, out=(values, places))
    assert values.tolist() == [5.0] and places.tolist() == [1]


def test_a_dict_of_modules_with_an_update_of_its_own() -> None:
    """torchmetrics' MetricCollection: `update` is of metrics, and needs what comes after `super().__init__()`."""

    class Collection(nn.ModuleDict):
        def __init__(self) -> None:
            super().__init__()
            self.ready = True

        def update(self, *values: Any) -> None:
            assert self.ready

    assert len(Collection()) == 0 and len(nn.ModuleDict()) == 0 and len(nn.ModuleDict(None)) == 0
    assert list(nn.ModuleDict({"a": nn.ReLU()})) == ["a"]


def test_optimizers_of_other_packages_without_a_rate() -> None:
    class Adafactor(optim.Optimizer):
        def _change(self, number: int, value: Any, gradient: Any, group: Any, numbers: Any) -> Any:
            return value - gradient

    assert Adafactor([Tensor([1.0], requires_grad=True)], {"lr": None}).param_groups[0]["lr"] is None
    with pytest.raises(ConfigError, match="lr=-1"):
        Adafactor([Tensor([1.0], requires_grad=True)], {"lr": -1.0})


def test_tensors_in_groups() -> None:
    x, y, n = Tensor([1.0]), Tensor([2.0]), Tensor([3])
    grouped = _foreach_utils._group_tensors_by_device_and_dtype([[x, n, y], [None, x, None]], with_indices=True)
    assert [(str(dtype), places) for (_, dtype), (_, places) in grouped.items()] == [
        ("float32", [0, 2]),
        ("int64", [1]),
    ]
    (first, second), _ = grouped[x.device, x.dtype]
    assert first[0] is x and first[1] is y and second == [None, None]
    for lists in ([[x], [x, y]], [[None]]):
        with pytest.raises(ConfigError):
            _foreach_utils._group_tensors_by_device_and_dtype(lists)


def test_weights_on_the_network_are_not_fetched() -> None:
    with pytest.raises(ConfigError, match="downloads nothing"):
        rg.utils.model_zoo.load_url("somewhere")
    assert rg._C._are_functorch_transforms_active() is False
    assert rg.finfo().bits == 32 and rg.finfo().eps == rg.finfo("float32").eps


def test_sparse_tensors_are_dense() -> None:
    """torchmetrics' contingency matrices: ones that are added up."""
    places, ones = Tensor([[0, 2, 2, 1], [1, 0, 0, 1]]), Tensor([1, 1, 1, 1])
    matrix = rg.sparse_coo_tensor(places, ones)
    assert matrix.to_dense().tolist() == [[0, 1], [0, 1], [2, 0]] and matrix.dtype == ones.dtype
    rows = rg.sparse_coo_tensor([[1]], Tensor([[2.0, 3.0]]), (3, 2), requires_grad=True)
    assert rows.tolist() == [[0, 0], [2, 3], [0, 0]] and rows.requires_grad
    assert rg.sparse.mm(rows, Tensor([[1.0], [1.0]])).tolist() == [[0], [5], [0]]
    assert rg.sparse_coo_tensor(rg.zeros(2, 0, dtype=rg.int64), rg.zeros(0), (2, 2)).tolist() == [[0, 0], [0, 0]]
    weights = Tensor([1.0, 2.0]).requires_grad_()
    (rg.sparse_coo_tensor([[0, 0]], weights, (2,)) * Tensor([3.0, 1.0])).sum().backward()
    assert weights.grad is not None and weights.grad.tolist() == [3.0, 3.0]
    with pytest.raises(IndexRangeError, match="axis 1"):
        rg.sparse_coo_tensor([[0], [2]], [1.0], (3, 2))
    with pytest.raises(ShapeError, match="count"):
        rg.sparse_coo_tensor([[0, 1]], [1.0])
    with pytest.raises(DtypeError, match="float32"):
        rg.sparse_coo_tensor([[0.0]], [1.0])
    with pytest.raises(ShapeError, match="reduce"):
        rg.sparse.mm(rows, rows, "amax")


def test_there_are_no_dual_tensors() -> None:
    x = Tensor([1.0, 2.0])
    assert rg.autograd.forward_ad.unpack_dual(x).tangent is None and rg.autograd.forward_ad.unpack_dual(x)[0] is x
    with pytest.raises(GradientError, match=r"func\.jvp"):
        rg.autograd.forward_ad.dual_level()
    assert callable(rg.func.jvp)


def test_sizes_that_images_are_resized_to() -> None:
    """Tables of places and weights are kept by their names: a second size, dtype or mode has its own."""
    image = np.random.default_rng(0).uniform(size=(1, 2, 5, 6)).astype(np.float32)
    for _ in range(3):
        for dtype in ("float32", "float64"):
            x = Tensor(image.astype(dtype))
            for size in ((7, 4), (3, 9), (10, 12)):
                rows = [np.clip((np.arange(n) + 0.5) * m / n - 0.5, 0, None) for n, m in zip(size, (5, 6))]
                expected = image.astype(np.float64)
                for axis, at in zip((2, 3), rows):
                    low = np.floor(at).astype(int)
                    high, share = np.minimum(low + 1, image.shape[axis] - 1), at - low
                    shape = [-1 if k == axis else 1 for k in range(4)]
                    near, far = expected.take(low, axis), expected.take(high, axis)
                    expected = near * (1 - share).reshape(shape) + far * share.reshape(shape)
                found = x.interpolate(size, mode="bilinear")
                assert str(found.dtype) == dtype
                np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
            nearest = x.interpolate((7, 4), mode="nearest").numpy()
            rows, columns = (np.arange(7) * 5) // 7, (np.arange(4) * 6) // 4
            np.testing.assert_array_equal(nearest, x.numpy()[:, :, rows][:, :, :, columns])
