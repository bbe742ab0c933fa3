"""Names that sources written for PyTorch import or set, and what they mean by a clone."""

from __future__ import annotations

import rulegrad as rg
from rulegrad import Tensor


def test_a_gradient_by_a_clone_is_not_one_by_what_it_is_a_copy_of(any_device):
    """They were one node, so what is computed from the other was in it."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    copy = x.clone().requires_grad_()
    y = (x * 3 + copy * copy).sum()
    (slope,) = rg.autograd.grad(y, copy, create_graph=True)
    second = rg.autograd.grad(slope.sum(), copy)[0]
    assert slope.tolist() == [2.0, 4.0] and second.tolist() == [2.0, 2.0]
    assert [part.tolist() for part in rg.autograd.grad(y, [x, copy])] == [[5.0, 7.0], [2.0, 4.0]]
    y.backward()
    assert x.grad.tolist() == [5.0, 7.0]
    with rg.no_grad():
        assert not x.clone().requires_grad
    traced: dict[str, int] = {}
    for name, given in (("product", lambda: x * 2), ("clone", x.clone)):
        calls: list[Tensor] = []
        step = rg.jit(lambda t, calls=calls: calls.append(t) or t * 2)
        for _ in range(3):
            step(given()).tolist()
        traced[name] = len(calls)
    assert traced["clone"] == traced["product"]
