"""Hooks on gradients, beside PyTorch's values."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import GradientError, ShapeError
from rulegrad.tensor import hooks


def leaf(*values: float) -> Tensor:
    return Tensor([float(value) for value in values], requires_grad=True)


def test_hooks_of_results() -> None:
    seen: list[Any] = []
    x = leaf(1, 2)
    y = x * x
    first = y.register_hook(lambda d: seen.append(d.tolist()))  # type: ignore[func-returns-value]
    y.register_hook(lambda d: d * 2)
    z = y + 1
    second = z.register_hook(lambda d: -d)
    (z * y).sum().backward()  # z is read once, y twice
    assert seen == [[2 - 1, 5 - 4]] and x.grad is not None and x.grad.tolist() == [2 * 1 * 2, 2 * 2 * 2]
    first.remove()
    second.remove()
    second.remove()
    x.grad = None
    (z * y).sum().backward()
    assert len(seen) == 1 and x.grad is not None and x.grad.tolist() == [2 * 1 * 2 * 3, 2 * 2 * 2 * 9]


def test_hooks_of_realized_results_and_of_views() -> None:
    x = leaf(1, 2, 3)
    y = x * 2
    y.register_hook(lambda d: d * 10)
    y.realize()
    seen: list[Any] = []
    y.register_hook(lambda d: seen.append(d.tolist()))  # type: ignore[func-returns-value]
    y[1:].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 20, 20] and seen == [[0, 10, 10]]
    part = (x * 3)[:2]
    part.register_hook(lambda d: d + 1)
    x.grad = None
    part.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, 6, 0]


def test_hooks_of_leaves() -> None:
    x, done = leaf(1, 2), list[Any]()
    x.register_hook(lambda d: d.clamp(0, 1))
    x.register_post_accumulate_grad_hook(lambda t: done.append(t.grad.tolist()))
    (x * 3).sum().backward()
    (x * -3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1] and done == [[1, 1], [1, 1]]
    (found,) = rg.autograd.grad((x * 3).sum(), [x])
    assert found.tolist() == [1, 1]
    known = len(hooks._of_leaves)
    del x
    gc.collect()
    assert len(hooks._of_leaves) == known - 1


def test_second_derivatives_go_through_hooks() -> None:
    x = leaf(2)
    y = x * x
    y.register_hook(lambda d: d * x)
    (slope,) = rg.autograd.grad((y * y).sum(), [x], create_graph=True)  # 2 x² * x * 2 x = 4 x⁴
    assert slope.item() == 64
    (second,) = rg.autograd.grad(slope.sum(), [x])
    assert second.item() == 192  # 4 x² y: 8 x y, and by y 4 x², through the hook again, times 2 x


def test_a_step_that_is_captured() -> None:
    layer = nn.Linear(2, 2)
    layer.weight.register_hook(lambda d: d * 0)

    @rg.jit
    def step(x: Tensor) -> Tensor:
        layer.weight.grad = layer.bias.grad = None
        layer(x).sum().backward()
        assert layer.weight.grad is not None
        return layer.weight.grad + 1

    for _ in range(3):
        np.testing.assert_array_equal(step(Tensor.ones(3, 2)).numpy(), np.ones((2, 2)))


def small_model() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
    with rg.no_grad():
        model[0].weight.copy_(Tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]))
        model[2].weight.copy_(Tensor([[1.0, 2.0]]))
        model[0].bias.zero_(), model[2].bias.zero_()
    return model


def test_backward_hooks_of_modules() -> None:
    """The numbers are PyTorch's; the gradients are asked for inside the hooks."""
    model, seen = small_model(), []
    for name, layer in model.named_children():
        layer.register_full_backward_hook(
            lambda module, inputs, outputs, name=name: seen.append(
                (name, [None if d is None else d.tolist() for d in inputs], [d.tolist() for d in outputs])
            )
        )
    model[1].register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 3,))
    halved = model[1].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5,))
    model(Tensor([[0.1, 0.2, 0.3]])).sum().backward()
    assert [name for name, _, _ in seen] == ["2", "1", "0"]
    assert seen[0][1:] == ([[[1.0, 2.0]]], [[[1.0]]]) and seen[1][2] == [[[3.0, 6.0]]]
    np.testing.assert_allclose(seen[1][1][0], [[1.6771656, 0.1309490]], 1e-5)
    assert seen[2][1] == [None]
    np.testing.assert_allclose(seen[2][2][0], [[0.8385828, 0.0654745]], 1e-5)
    grad = model[0].weight.grad
    assert grad is not None
    np.testing.assert_allclose(grad.tolist()[0], [0.08385828, 0.16771656, 0.25157484], 1e-5)
    halved.remove()
    model(Tensor([[0.1, 0.2, 0.3]])).sum().backward()
    np.testing.assert_allclose(model[0].weight.grad.tolist()[0], [0.25157484, 0.5031497, 0.7547245], 1e-5)


def test_backward_hooks_of_modules_with_several_arguments() -> None:
    class Product(nn.Module):
        def forward(self, x: Tensor, y: Tensor, factor: float) -> tuple[Tensor, Tensor]:
            return x * y * factor, x + y

    module, seen = Product(), []
    handle = module.register_full_backward_hook(lambda _, inputs, outputs: seen.append((inputs, outputs)))
    x, y = leaf(1, 2), leaf(3, 4)
    product, total = module(x, y, 2.0)
    (product * total).sum().backward()
    (of_x, of_y, of_factor), outputs = seen.pop()
    assert of_factor is None and len(outputs) == 2 and not seen
    assert of_x.tolist() == [2 * 3 * 4 + 6, 2 * 4 * 6 + 16] and of_y.tolist() == [2 * 1 * 4 + 6, 2 * 2 * 6 + 16]
    handle.remove()
    module.register_full_backward_hook(lambda _, inputs, outputs: inputs)
    with pytest.raises(GradientError, match="gave gradients for 2 arguments; it may replace that of one only"):
        module(x, y, 2.0)[0].sum().backward()


def test_results_of_functions_whose_graph_is_computed_on_the_way() -> None:
    """A value computed below such a result made it another node, at which its gradient was lost."""

    class Double(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 2

    weight = Tensor.ones(3, 2).requires_grad_(True)
    hidden = Tensor.ones(4, 3) @ weight
    doubled = Double.apply(hidden)
    doubled.tanh().numpy()
    (doubled * 5).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [[40.0, 40.0]] * 3


class Spike(rg.autograd.Function):
    """One where its operand is positive, with the slope of a smooth function, as spiking networks have it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient / (1 + 5 * x.abs()) ** 2


def spiking(weight: Tensor, x: Tensor, spike: Callable[[Tensor], Tensor]) -> Tensor:
    """The loss of a loop whose state is read by a function of the user's in each step, and by the next step."""
    charge, spikes = Tensor.zeros(3, 4), []
    for step in x.unbind():
        charge = 0.9 * charge + step @ weight - (spikes[-1] if spikes else 0)
        spikes.append(spike(charge - 0.5))
    return sum((one * (k + 1)).sum() for k, one in enumerate(spikes))  # type: ignore[return-value]


def gradient_of_spiking(x: Tensor, spike: Callable[[Tensor], Tensor]) -> Tensor:
    weight = Tensor(np.random.default_rng(0).standard_normal((2, 4)).astype("float32"), requires_grad=True)
    spiking(weight, x, spike).backward()
    assert weight.grad is not None
    return weight.grad


def test_what_functions_in_a_loop_share_is_differentiated_once() -> None:
    sizes = [len(gradient_of_spiking(Tensor.ones(steps, 3, 2), Spike.apply).uop.toposort()) for steps in (8, 16, 24)]
    assert sizes[2] - sizes[1] <= 1.1 * (sizes[1] - sizes[0])
    x = Tensor(np.random.default_rng(1).standard_normal((9, 3, 2)).astype("float32"))

    # the same function with its slope by rules
    def smooth(x: Tensor) -> Tensor:
        slope = x / (1 + 5 * x.abs())
        return slope + ((x > 0).float() - slope).detach()

    np.testing.assert_allclose(
        gradient_of_spiking(x, Spike.apply).numpy(), gradient_of_spiking(x, smooth).numpy(), rtol=1e-4
    )


@pytest.mark.parametrize("computed", [False, True])
def test_an_operand_that_is_computed_after_its_function(computed: bool) -> None:
    """Its point is later than that of the function, which gives it another gradient once it has been looked at."""
    x = leaf(1, 2, 3)
    y = x * 3
    z = Spike.apply(y - 4)
    if computed:
        y.numpy()
    (z * 2 + y * y).sum().backward()
    slope = 6 / (1 + 5 * np.abs(3 * np.array([1, 2, 3.0]) - 4)) ** 2
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), slope + 18 * np.array([1, 2, 3.0]), rtol=1e-5)


def test_points_between_functions_of_which_some_are_computed() -> None:
    """Leaves that are used before, between and behind functions, some results of which are in buffers."""

    def loss(computed: bool) -> list[Any]:
        leaves = [leaf(1, 2), leaf(3, 1), leaf(2, 2)]
        first = Spike.apply(leaves[0] * leaves[1])
        if computed:
            first.numpy()
        middle = (first + leaves[1]) * leaves[2]
        if computed:
            middle.realize()
        (Spike.apply(middle - leaves[0]) * middle + leaves[2] * first).sum().backward()
        return [one.grad.tolist() for one in leaves if one.grad is not None]

    assert loss(computed=True) == loss(computed=False)
    assert len(loss(computed=True)) == 3


@pytest.mark.parametrize(
    ("hook", "error", "message"),
    [
        (lambda d: 1, GradientError, "a hook returned int; return the gradient, a tensor, or None"),
        (lambda d: d.sum(), ShapeError, r"a hook returned a gradient of shape \(\) for one of shape \(2,\)"),
    ],
)
def test_what_hooks_return_is_checked(hook: Callable[[Tensor], Any], error: type[Exception], message: str) -> None:
    x = leaf(1, 2)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(error, match=message):
        y.sum().backward()


def test_mistakes() -> None:
    with pytest.raises(GradientError, match="register_hook: this tensor has no gradient"):
        Tensor([1.0]).register_hook(print)
    with pytest.raises(GradientError, match="is not a leaf that requires a gradient"):
        (leaf(1) * 2).register_post_accumulate_grad_hook(print)


def times(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda gradient: gradient * factor


@pytest.mark.parametrize("ask", ["register_hook", "retain_grad"])
def test_a_result_that_was_used_before_is_warned_of(ask: str) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    _ = y * y
    with pytest.warns(UserWarning, match=f"^{ask}: this result, or an equal one, has been used before"):
        getattr(y, ask)(*([times(10)] if ask == "register_hook" else []))


@pytest.mark.filterwarnings("error")
def test_one_that_was_not_is_not() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y, z = x * 5, (x * 7).exp()
    y.register_hook(times(10))
    y.register_hook(times(10))
    y.retain_grad()
    z.retain_grad()
    z.register_hook(times(2))
    (y + z).sum().backward()
    assert y.grad.tolist() == [100.0, 100.0] and z.grad.tolist() == [2.0, 2.0]


def test_an_equal_result_has_no_hook() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    a = x * 3
    a.register_hook(times(10))
    b = x * 3
    (a + b).sum().backward()
    assert x.grad.tolist() == [33.0, 33.0]


@pytest.mark.parametrize("steps", ["rh", "hr"])
def test_the_gradient_that_is_kept_is_what_hooks_leave(steps: str) -> None:
    """As in PyTorch, in whatever order: r keeps it, h is a hook."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    for step in steps:
        if step == "r":
            y.retain_grad()
        else:
            y.register_hook(times(10))
    z = y * y
    (z * z).sum().backward()
    assert y.grad.tolist() == [1080.0, 8640.0]
    assert x.grad.tolist() == [3240.0, 25920.0]


def test_a_view_that_changes_nothing_has_hooks_of_its_own() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    w = x * 2
    w.register_hook(times(10))
    y = w.reshape(2)
    y.register_hook(times(0))
    (w * 3 + y * 2).sum().backward()
    assert x.grad.tolist() == [60.0, 60.0]
    v = x * 11
    v.retain_grad()
    u = v.reshape(2)
    u.retain_grad()
    (v * 3 + u * 2).sum().backward()
    assert (v.grad.tolist(), u.grad.tolist()) == ([5.0, 5.0], [2.0, 2.0])
