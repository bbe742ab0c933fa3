"""`unsqueeze_` and `squeeze_`: a tensor gets another shape, and views of it and what it is a view of keep theirs."""

from __future__ import annotations

from typing import Any

import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import CaptureError, GradientError


def changed(torch: Any) -> list[Any]:
    """The shapes and values of a tensor and its views after each of some changes, in either library."""
    found: list[Any] = []
    x = torch.arange(6).float()
    part = x[2:5]
    x.unsqueeze_(0)
    found += [tuple(x.shape), part.tolist()]
    x += 10
    part *= 2
    later = x[0, 1:]
    later += 1
    found += [x.tolist(), part.tolist(), later.tolist()]
    x.squeeze_()
    later -= 1
    found += [x.tolist(), part.tolist(), later.tolist()]
    part.unsqueeze_(1).fill_(7.0)
    first = part[0]
    first += 1
    found += [tuple(part.shape), x.tolist(), part.tolist()]
    part.squeeze_(1).sub_(1)
    found += [x.tolist(), first.tolist()]
    detached = torch.tensor([1.0, 2.0], requires_grad=True).detach()
    found.append(detached.unsqueeze_(-1).add_(1).tolist())
    return found


def test_they_do_what_they_do_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    assert changed(rg) == changed(torch)


def test_gradients_flow_through_them() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.unsqueeze_(0)
    (y * Tensor([[3.0, 4.0]])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, 8.0]


def test_where_the_shape_cannot_be_changed() -> None:
    with pytest.raises(GradientError, match="unsqueeze_: this tensor is a leaf"):
        Tensor([1.0], requires_grad=True).unsqueeze_(0)

    @rg.jit
    def outside(x: Tensor) -> Tensor:
        return x.unsqueeze_(0) + 1

    @rg.jit
    def inside(x: Tensor) -> Tensor:
        return (x + 1).unsqueeze_(0) * 2

    with pytest.raises(CaptureError, match="use unsqueeze"):
        outside(Tensor([1.0, 2.0]))
    assert [inside(Tensor([1.0, 2.0])).tolist() for _ in range(3)] == [[[4.0, 6.0]]] * 3


def test_results_of_captured_functions_that_are_views() -> None:
    @rg.jit
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        whole = x + 1
        part = whole[1:]
        return whole.unsqueeze_(0), part

    for _ in range(3):
        whole, part = both(Tensor([1.0, 2.0, 3.0]))
        part += 10
        assert whole.tolist() == [[2.0, 13.0, 14.0]]


def test_equal_steps_of_other_shapes_are_other_views() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    row = x[0:1]
    x.unsqueeze_(0)
    plane = x[0:1]
    plane[:] = row  # all of x is its first row now
    assert x.tolist() == [[[1.0, 2.0], [1.0, 2.0]]] and row.tolist() == [[1.0, 2.0]]


def turned(torch: Any) -> list[Any]:
    """The same for axes that are exchanged, also where the shape stays."""
    found: list[Any] = []
    x = torch.arange(9).float().reshape(3, 3).clone()
    row, copy = x[0], x.detach()
    x.t_()
    found += [x.tolist(), row.tolist(), copy.tolist()]
    row += 10
    column = x[:, 1]
    column *= 2
    found += [x.tolist(), row.tolist(), column.tolist(), copy.tolist()]
    x.transpose_(0, 1).unsqueeze_(0)
    x[0, 0] = 7.0
    row -= 1
    found += [tuple(x.shape), x.tolist(), row.tolist(), column.tolist(), copy.tolist()]
    x.swapaxes_(0, -1)
    found += [tuple(x.shape), x.tolist(), row.tolist()]
    part = row[1:]
    row.unsqueeze_(0).t_()
    row[1] = -1.0
    found += [row.tolist(), part.tolist(), x.tolist(), copy.tolist()]
    wide = torch.ones(2, 1).expand(2, 3)
    shown = wide[0]
    found += [wide.t_().tolist(), shown.tolist(), torch.tensor(3).t_().tolist()]
    copy.t_().add_(1)
    found += [copy.tolist(), row.tolist(), x.tolist(), column.tolist()]
    return found


def resized(torch: Any) -> list[Any]:
    """The same for numbers of elements that become others."""
    x = torch.arange(6).float()
    part = x[1:3]
    x.resize_(2, 3)
    part += 1
    found = [x.tolist(), part.tolist()]
    x.resize_([2])
    found += [x.tolist(), part.tolist(), torch.ones(2, 2).resize_as_(torch.ones(3)).tolist()]
    y = torch.ones(2)
    return [*found, tuple(y.resize_(3, 2).shape), y.fill_(2).tolist()]


def test_axes_exchanged_and_sizes_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    assert turned(rg) == turned(torch)
    assert resized(rg) == resized(torch)


def test_views_of_before_keep_the_elements_of_before() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    part = x[1:]
    x.resize_(4)
    x += 1
    part *= 2
    assert x.tolist() == [2.0, 3.0, 4.0, 1.0] and part.tolist() == [4.0, 6.0]


def test_gradients_of_axes_exchanged() -> None:
    w = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = w * 2
    row = y[0]
    y.t_()
    y[0] = 5.0  # the first column of before
    (y * Tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [[0.0, 6.0], [0.0, 8.0]] and row.tolist() == [5.0, 4.0]
    with pytest.raises(GradientError, match="t_: this tensor is a leaf"):
        w.t_()
    with rg.no_grad(), pytest.raises(GradientError, match=r"write x.data = x.data.t\(\)"):
        w.t_()
    with pytest.raises(GradientError, match="resize_"):
        y.resize_(1)


def test_axes_exchanged_in_captured_functions() -> None:
    @rg.jit
    def both(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        whole = x + 1
        part = whole[0]
        whole.t_()
        whole[0] = 9.0
        return whole, part, x.clone().resize_(3) * 2

    for _ in range(3):
        whole, part, short = both(Tensor([[1.0, 2.0], [3.0, 4.0]]))
        part[1] = 0.0
        assert whole.tolist() == [[9.0, 9.0], [0.0, 5.0]] and part.tolist() == [9.0, 0.0]
        assert short.tolist() == [2.0, 4.0, 6.0]

    with pytest.raises(CaptureError, match=r"use t\(\)"):
        rg.jit(lambda x: x.t_())(Tensor([[1.0]]))
