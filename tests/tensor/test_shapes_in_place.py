"""`unsqueeze_` and `squeeze_`: a tensor gets another shape, and views of it and what it is a view of keep theirs."""

from __future__ import annotations

from typing import Any

import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import CaptureError, GradientError


def changed(torch: Any) -> list[Any]:
    """What a tensor and its views are after each of some changes, in either library."""
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
