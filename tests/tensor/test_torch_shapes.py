"""PyTorch's functions of shapes and samples: its results, written here, and gradients as finite differences.

Where torch is installed, the results and the gradients are also compared with its own.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor, broadcast_shapes
from rulegrad.errors import ConfigError, DtypeError, RulegradError, ShapeError

X = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, 6.0]])
Y = np.array([[2.0, 1.0, 0.5], [-1.0, 3.0, 2.0]])
V = np.array([1.0, 2.0, 4.0, 8.0])

#: Calls with `t`, the class of tensors or torch, and its tensors; then PyTorch's results, one after the other.
CASES: dict[str, tuple[Callable[..., Any], list[float]]] = {
    "add": (lambda t, x, y, v: t.add(x, y, alpha=2), [5, 0, 4, 2, 6.5, 10]),
    "sub": (lambda t, x, y, v: t.sub(x, y, alpha=-3), [7, 1, 4.5, 1, 9.5, 12]),
    "rsub": (lambda t, x, y, v: t.rsub(x, y, alpha=2), [0, 5, -5.5, -9, 2, -10]),
    "addr": (lambda t, x, y, v: t.addr(x.detach() * float("nan"), v[:2], v[:3], beta=0, alpha=2), [2, 4, 8, 4, 8, 16]),
    "addbmm": (lambda t, x, y, v: t.addbmm(x[:, :2], y.reshape(3, 2, 1), x.reshape(3, 1, 2), beta=2), [7, 12, 7, 7]),
    "clamp": (lambda t, x, y, v: t.clamp(x, y, None), [2, 1, 3, 4, 3, 6]),
    "ldexp": (lambda t, x, y, v: t.ldexp(x, y), [4, -4, 4.24264069, 2, 4, 24]),
    "cat": (lambda t, x, y, v: t.cat([v[:0], x, y], dim=1), [1, -2, 3, 2, 1, 0.5, 4, 0.5, 6, -1, 3, 2]),
    "diff": (lambda t, x, y, v: t.diff(x, 0, 1, y), [1, -2, 3, 4, 0.5, 6]),
    "flip": (lambda t, x, y, v: t.flip(x, dims=(1,)), [3, -2, 1, 6, 0.5, 4]),
    "squeeze": (lambda t, x, y, v: t.squeeze(x.reshape(2, 1, 3), 0), [1, -2, 3, 4, 0.5, 6]),
    "gather_empty": (lambda t, x, y, v: x.sum() + t.gather(x, 1, x[:0].long()).sum(), [12.5]),
    "take_along_dim": (lambda t, x, y, v: t.take_along_dim(x, x.argsort(1)), [-2, 1, 3, -2, 1, 3]),
    "index_select": (lambda t, x, y, v: t.index_select(x.sum(), 0, x.argmin().reshape(1) * 0), [12.5]),
    "index_fill": (lambda t, x, y, v: t.index_fill(x, 1, v[:2].long(), y[0, 1]), [1, 1, 1, 4, 1, 1]),
    "index_reduce": (lambda t, x, y, v: t.index_reduce(x, 1, v.long()[:2], y[:, :2], "prod"), [1, -4, 3, 4, -0.5, 18]),
    "index_reduce_mean": (lambda t, x, y, v: t.index_reduce(x, 0, v.long()[:1].expand(2), y, "mean", include_self=False), [1, -2, 3, 0.5, 2, 1.25]),
    "put": (lambda t, x, y, v: t.put(x, v.long()[:2], y[0, :2], accumulate=True), [1, 0, 4, 4, 0.5, 6]),
    "kthvalue": (lambda t, x, y, v: t.kthvalue(x.sum(), 1)[0], [12.5]),
    "masked_scatter": (lambda t, x, y, v: t.masked_scatter(x[0], x > 2, y), [1, -2, 2, 1, -2, 0.5]),
    "nanquantile": (lambda t, x, y, v: t.nanquantile(x, t.ones_like(v[:1]) / 4, dim=1, interpolation="linear"), [-0.5, 2.25]),
    "diag_embed": (lambda t, x, y, v: t.diag_embed(x, 1, 0, 2), [0, 1, 0, 0, 0, 4, 0, 0, 0, 0, -2, 0, 0, 0, 0.5, 0, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0]),
    "diagonal_scatter": (lambda t, x, y, v: t.diagonal_scatter(x, y[0, :2], 1), [1, 2, 3, 4, 0.5, 1]),
    "diagonal_scatter_below": (lambda t, x, y, v: t.diagonal_scatter(x.reshape(3, 2), y[0, :2], -1), [1, -2, 2, 4, 0.5, 1]),
    "tensor_split": (lambda t, x, y, v: t.tensor_split(v, x[0, 2:].long())[1], [8]),
    "unfold": (lambda t, x, y, v: x.sum().unfold(0, 1, 1), [12.5]),
    "transpose": (lambda t, x, y, v: t.transpose(x.sum(), 0, 0), [12.5]),
    "atleast_3d": (lambda t, x, y, v: t.atleast_3d(x)[0] * t.atleast_1d(v[0]) + t.atleast_2d(y[0])[0, 0], [3, 0, 5]),
    "hsplit": (lambda t, x, y, v: t.hsplit(x, 3)[1] + t.vsplit(y, [1])[1], [-3, 1, 0, -0.5, 3.5, 2.5]),
    "dsplit": (lambda t, x, y, v: t.dsplit(x.reshape(1, 2, 3), [1, 2])[2], [3, 6]),
    "block_diag": (lambda t, x, y, v: t.block_diag(x, v, y[0, 0]), [1, -2, 3, 0, 0, 0, 0, 0, 4, 0.5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 2]),
    "cartesian_prod": (lambda t, x, y, v: t.cartesian_prod(x[0], v[:2]), [1, 1, 1, 2, -2, 1, -2, 2, 3, 1, 3, 2]),
    "combinations": (lambda t, x, y, v: t.combinations(v, 2, True), [1, 1, 1, 2, 1, 4, 1, 8, 2, 2, 2, 4, 2, 8, 4, 4, 4, 8, 8, 8]),
    "fill": (lambda t, x, y, v: t.fill(x, y[0, 0]), [2, 2, 2, 2, 2, 2]),
    "constant_pad_nd": (lambda t, x, y, v: t.constant_pad_nd(x, (1, -1), 5.0), [5, 1, -2, 5, 4, 0.5]),
    "renorm": (lambda t, x, y, v: t.renorm(x, 2, 0, 4.0), [1, -2, 3, 2.21348625, 0.276685782, 3.32022938]),
    "trapezoid": (lambda t, x, y, v: t.trapezoid(x, y, dim=0), [-7.5, -1.5, 6.75]),
    "trapz": (lambda t, x, y, v: t.trapz(x, dx=0.5), [0, 2.75]),
    "cumulative_trapezoid": (lambda t, x, y, v: t.cumulative_trapezoid(x, v[:3]), [-0.5, 0.5, 2.25, 8.75]),
    "gradient": (lambda t, x, y, v: t.gradient(v, spacing=0.5)[0], [2, 3, 6, 8]),
    "gradient_of_second_order": (lambda t, x, y, v: t.gradient(v, edge_order=2)[0], [0.5, 1.5, 3, 5]),
    "gradient_at_places": (lambda t, x, y, v: t.gradient(x, dim=1, spacing=[v[:3]], edge_order=2)[0], [-4.83333333, -1.16666667, 6.16666667, -5.58333333, -1.41666667, 6.91666667]),
    "polar": (lambda t, x, y, v: t.polar(v[:3], y).real, [-0.416146837, 1.08060461, 3.51033025, 0.540302306, -1.97998499, -1.66458735]),
    "view_as_complex": (lambda t, x, y, v: t.view_as_complex(x.reshape(3, 2)).imag, [-2, 4, 6]),
}  # fmt: skip


def _result(name: str, arrays: tuple[np.ndarray, ...]) -> tuple[Tensor, list[Tensor]]:
    inputs = [Tensor(array, requires_grad=True) for array in arrays]
    return CASES[name][0](Tensor, *inputs), inputs


def _weighted(result: Any, weights: Any) -> Any:
    return (result.flatten() * weights).sum()


@pytest.mark.filterwarnings("ignore:index_reduce")  # PyTorch's, which calls it beta
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(any_device, name):
    result, inputs = _result(name, (X, Y, V))
    np.testing.assert_allclose(result.numpy().ravel(), CASES[name][1], 1e-8, 1e-8)
    weights = Tensor(np.linspace(1, 2, result.size))
    _weighted(result, weights).backward()
    found = [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in inputs]
    directions = [np.cos(np.arange(x.size)).reshape(x.shape) for x in inputs]
    ends = [
        _weighted(_result(name, tuple(a + step * d for a, d in zip((X, Y, V), directions)))[0], weights).item()
        for step in (1e-6, -1e-6)
    ]
    slope = sum(float((gradient * direction).sum()) for gradient, direction in zip(found, directions))
    if name not in ("index_fill", "index_reduce", "index_reduce_mean", "put", "tensor_split"):  # v is places there
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-5)
    _compare_with_torch(name, result, found)


def _compare_with_torch(name: str, result: Tensor, found: list[np.ndarray]) -> None:
    try:
        import torch
    except ImportError:
        return
    inputs = [torch.tensor(array, requires_grad=True) for array in (X, Y, V)]
    expected = CASES[name][0](torch, *inputs)
    assert result.shape == tuple(expected.shape)
    np.testing.assert_allclose(result.numpy(), expected.detach().numpy(), 1e-8, 1e-8)
    _weighted(expected, torch.linspace(1, 2, result.size, dtype=torch.float64)).backward()
    for gradient, tensor in zip(found, inputs, strict=True):
        wanted = np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy()
        np.testing.assert_allclose(gradient, wanted, 1e-8, 1e-8)


def test_without_gradients(any_device):
    assert broadcast_shapes((5, 1), (3,), 1) == (5, 3) and broadcast_shapes() == ()
    assert Tensor.arange(1, end=3).tolist() == [1, 2] and Tensor.linspace(0, end=1, steps=2).tolist() == [0.0, 1.0]
    assert Tensor.logspace(0, end=2, steps=3, dtype="float64").tolist() == [1.0, 10.0, 100.0]
    assert Tensor.scalar_tensor(2).dtype == "float32" and Tensor([1], dtype="int8").new_empty(2, 1).dtype == "int8"
    assert Tensor([1.0]).empty_like("int32").dtype == "int32"
    same = Tensor([1.0])
    assert same.to("float32") is same and same.to("float32", copy=True) is not same
    assert same.to("numpy", "float64", True, True).dtype == same.to("float64", True).dtype == "float64"
    assert [len(part) for part in (same.atleast_2d(same), Tensor.atleast_1d([same, same]))] == [2, 2]
    assert Tensor([1, 2]).combinations(3).shape == (0, 3) and Tensor([1, 2]).combinations(0).shape == (0,)
    x = Tensor([[1, 1, 2, 2], [3, 3, 4, 4]])
    values, inverse, counts = x.unique_consecutive(True, True, dim=1)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([[1, 2], [3, 4]], [0, 0, 1, 1], [2, 2])
    assert Tensor(3).unique_consecutive(dim=0).tolist() == [3]
    assert x.repeat_interleave(Tensor([1, 0, 2, 0]), dim=1, output_size=3).tolist() == [[1, 2, 2], [3, 4, 4]]


@pytest.mark.parametrize("device_of_x", ["numpy", "c"])
def test_operands_on_another_device_than_the_default_one(device_of_x):
    """A graph that reads no buffer is computed on its tensor's device, whatever the default is."""
    x = Tensor(np.float32(3.0), device=device_of_x)
    for result in (x.unique(), x.unique_consecutive(), x.atleast_1d().unique_counts().counts):
        assert result.device == device_of_x
        assert (result + x).item() > 3


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (lambda x: x.vsplit(3), ShapeError, "3 equal parts of axis 0"),
        (lambda x: x.dsplit(1), ShapeError, "it needs 3 axes"),
        (lambda x: x.block_diag(x.reshape(1, 2, 3)), ShapeError, "block_diag: the shapes"),
        (lambda x: x.cartesian_prod(), ShapeError, "give vectors"),
        (lambda x: x.combinations(), ShapeError, "of a vector"),
        (lambda x: x.diagonal_scatter([1.0]), ShapeError, "values of shape"),
        (lambda x: x.diag_embed(0, 1, 1), ShapeError, "axis 1 twice"),
        (lambda x: x.fill([1.0]), ShapeError, "give one number"),
        (lambda x: x.view_as_complex(), ShapeError, "of shape"),
        (lambda x: x.long().polar(x.long()), DtypeError, "give floats"),
        (lambda x: x.gradient(edge_order=3), ConfigError, "edge_order=3"),
        (lambda x: x.gradient(edge_order=2), ShapeError, "it needs 3 at least"),
        (lambda x: x.gradient(spacing=[1.0]), ShapeError, "1 spacings for 2 axes"),
        (lambda x: x.gradient(dim=0, spacing=[x[0]]), ShapeError, "coordinates of shape"),
        (lambda x: x.repeat_interleave(2, 0, output_size=3), ShapeError, "output_size=3"),
        (lambda x: x.index_reduce(0, [0], x[:1], "max"), ConfigError, "index_reduce: reduce='max'"),
        (lambda x: x.arange(1, 2, end=3), ConfigError, "two names of one argument"),
        (lambda x: x.linspace(1, 2), ConfigError, "it needs a start"),
        (lambda x: broadcast_shapes((2,), (3,)), ShapeError, "broadcast_shapes: the shapes"),
        (lambda x: x.put([9], [1.0]), IndexError, "9 is out of range"),
    ],
)
def test_errors(any_device, wrong, error, text):
    with pytest.raises(error, match=text) as found:
        wrong(Tensor(X))
    assert isinstance(found.value, RulegradError)


#: Calls with PyTorch's names of arguments: of a matrix x, which is [[1, 2], [3, 4]], and equal ones without names.
NAMED = [
    (lambda x: x.unsqueeze(dim=-1), lambda x: x.unsqueeze(-1)),
    (lambda x: x.squeeze(dim=0), lambda x: x),
    (lambda x: x.permute(dims=(1, 0)), lambda x: x.permute(1, 0)),
    (lambda x: x.chunk(chunks=2, dim=-1)[1], lambda x: x.chunk(2, -1)[1]),
    (lambda x: x.tensor_split(indices_or_sections=2, dim=1)[0], lambda x: x.tensor_split(2, 1)[0]),
    (lambda x: x.tile(dims=(2, 1)), lambda x: x.tile(2, 1)),
    (lambda x: x.rot90(k=1, dims=(1, 0)), lambda x: x.rot90(-1)),
    (lambda x: x.unfold(dimension=1, size=2, step=1), lambda x: x.unfold(1, 2)),
    (lambda x: x.take_along_dim(indices=x.long() % 2, dim=1), lambda x: x.take_along_axis(x.long() % 2, 1)),
    (lambda x: x.scatter(1, x.long() % 2, value=7), lambda x: x.scatter(1, x.long() % 2, 7)),
    (lambda x: x.clone().scatter_(1, x.long() % 2, value=7), lambda x: x.scatter(1, x.long() % 2, 7)),
    (lambda x: x.full((2,), fill_value=3) + x.full_like(fill_value=1), lambda x: x.full((2,), 3) + x.ones_like()),
    (lambda x: x.zeros(size=(2, 2)) + x.ones(size=[2]) + x.empty(size=(1,)), lambda x: x.ones(2, 2)),
    (lambda x: x.eye(n=2, m=3), lambda x: x.eye(2, 3)),
    (lambda x: x.tril_indices(row=2, col=3, offset=1), lambda x: x.tril_indices(2, 3, 1)),
    (lambda x: x.long().one_hot(num_classes=5), lambda x: x.long().one_hot(5)),
    (lambda x: x.long().mean(dtype="float32"), lambda x: x.mean()),
    (lambda x: x.nanmean(dim=1, dtype="float64"), lambda x: x.mean(1).double()),
    (lambda x: x.clone().copy_(src=x, non_blocking=True), lambda x: x),
    (lambda x: x.clone().subtract_(x, alpha=2), lambda x: -x),
    (lambda x: x.complex(real=x, imag=x).imag, lambda x: x),
    (lambda x: x.heaviside(values=x), lambda x: x.ones_like()),
    (lambda x: Tensor.max(x, x - 1) - Tensor.min(x, Tensor(2.5)), lambda x: (x - 2.5).relu()),
    (lambda x: x.ldexp(other=x.int()), lambda x: x * 2**x),
]


def test_names_of_arguments(any_device):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    for number, (named, plain) in enumerate(NAMED):
        found, wanted = named(x), plain(x)
        assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist()), number


def test_a_shape_is_a_tuple_that_counts_its_elements():
    shape = Tensor.ones(2, 3, 4).shape
    assert shape == (2, 3, 4) and hash(shape) == hash((2, 3, 4)) and str(shape) == "(2, 3, 4)"
    assert type(shape) is rulegrad.Size and isinstance(shape, tuple)
    assert (shape.numel(), shape[1:].numel(), (shape + (5,)).numel(), Tensor(1.0).shape.numel()) == (24, 12, 120, 1)
    assert rulegrad.Size([2, 0]).numel() == 0 and rulegrad.Size() == ()
    assert copy.deepcopy(shape) is shape and pickle.loads(pickle.dumps(shape)) == shape
    first, *rest = shape
    assert first == 2 and rest == [3, 4]


def test_sums_and_multiples_of_sizes_are_sizes():
    size = Tensor.ones(2, 3).shape
    for found in (
        (4,) + size,
        size + (4,),
        size * 2,
        2 * size,
        rulegrad.broadcast_shapes((2, 1), (3,)),
        size[:1] + size,
    ):
        assert type(found) is rulegrad.Size and found.numel() > 0
    assert (4,) + size == (4, 2, 3) and size * 2 == (2, 3, 2, 3)
    with pytest.raises(TypeError):
        size + [4]
