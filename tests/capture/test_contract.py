"""Captured functions with the rest of the library: index checks, profiles, traces of the compiler, devices, threads."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from capture_contract import Run, array, check

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import CaptureError, IndexRangeError
from rulegrad.runtime.memory_table import live


def test_indices_out_of_range_are_errors_of_their_call(device: str) -> None:
    table = Tensor(array(4, 2)).realize()
    f = rg.jit(lambda index: table[index] * 2)
    good, bad = Tensor([0, 3]), Tensor([1, 7])
    assert f(good).shape == (2, 2)
    for _ in range(2):
        wrong = f(bad)
        with pytest.raises(IndexRangeError, match=r"7 is out of range for axis 0 of size 4"):
            wrong.tolist()
    np.testing.assert_array_equal(f(good).numpy(), array(4, 2)[[0, 3]] * 2)
    assert len(f.reasons()) == 1


def test_state_that_depends_on_a_wrong_index() -> None:
    table, total = Tensor(array(4, 2)).realize(), Tensor(np.zeros(2, "float32")).realize()

    def add(index: Tensor) -> None:
        total.assign(total + table[index].sum(0))

    f = rg.jit(add)
    f(Tensor([0]))
    f(Tensor([9]))
    f(Tensor([1]))
    with pytest.raises(IndexRangeError, match="9 is out of range"):
        total.tolist()


def test_launches_one_by_one_give_the_same(device: str) -> None:
    f = rg.jit(lambda x: (x @ x).softmax(-1).cumsum(0))
    x = Tensor(array(8, 8))
    fast = f(x).numpy()
    with rg.profile() as found:
        slow = f(x).numpy()
    assert np.array_equal(fast, slow) and found.kernels and len(f.reasons()) == 1


def test_a_trace_of_the_compiler_sees_the_passes() -> None:
    f = rg.jit(lambda x: x * 3 + 1)
    f(Tensor([1.0]))
    with rg.trace() as found:
        assert f(Tensor([2.0])).tolist() == [7]
    assert found is not None and len(f.reasons()) == 1


def test_results_on_two_devices() -> None:
    def program(run: Run) -> None:
        def body(a: Tensor, b: Tensor) -> Any:
            a.add_(1)
            return a * 2, b * 3

        f = run.jit(body)
        for seed in range(2):
            a, b = Tensor(array(3, seed=seed), device="numpy"), Tensor(array(3, seed=seed), device="c")
            run.see(f(a, b), a)

    check(program, traces=1)


def test_reasons_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    f = rg.jit(lambda x: x + 1)
    with rg.config(debug=1):
        f(Tensor([1.0])), f(Tensor([1.0, 2.0])), f(Tensor([3.0]))
    lines = [line for line in capsys.readouterr().err.splitlines() if "jit traces" in line]
    assert len(lines) == 2 and "test_contract.py:" in lines[0] and lines[0].endswith(": the first call")


def test_reasons_say_which_argument_is_different() -> None:
    f = rg.jit(lambda *arguments, **named: 1)
    x, y = Tensor([1.0]), Tensor([2.0])
    calls: list[Any] = [
        (x,),
        (Tensor([1, 2]),),
        (x, 2),
        (x, 3),
        (x, "a"),
        ([x, x],),
        ([x, y],),
        (np.ones(1),),
        (np.zeros(1),),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            f(*call)
        with rg.no_grad():
            f(*calls[-1])
    assert f.reasons()[1:] == [
        "an argument is a tensor of int64 (2,) on numpy, and was a tensor of float32 (1,) on numpy",
        "the arguments have another structure",
        "an argument is 3, and was 2",
        "an argument is 'a', and was 3",
        "the arguments have another structure",
        "other arguments are the same tensor",
        "the arguments have another structure",
        "an argument is another object, or an array with other values",
        "it is called in another mode (no_grad, Tensor.train, the settings device and check_indices)",
    ]


def test_the_eighth_trace_warns_at_the_users_line() -> None:
    f = rg.jit(lambda x, n: x + n)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for n in range(9):
            f(Tensor([1.0]), n)
    (one,) = found
    assert one.filename == __file__ and "was traced 8 times" in str(one.message)


def test_a_function_that_is_replaced_or_wrapped() -> None:
    def program(run: Run) -> None:
        parts = {"f": lambda x: x * 2}
        activation = rg.Tensor.tanh
        f, x = run.jit(lambda x: activation(parts["f"](x))), Tensor([1.0, 2.0])
        run.see(f(x), f(x))
        parts["f"] = lambda x: x * 3
        run.see(f(x), f(x))
        activation = rg.Tensor.sigmoid
        run.see(f(x), f(x))

    check(program, traces=3)


def test_layers_without_tensors_are_replaced() -> None:
    def program(run: Run) -> None:
        net = nn.Sequential(nn.ReLU(), nn.Flatten())
        f, x = run.jit(lambda x: net(x)), Tensor(array(2, 3))
        run.see(f(x), f(x))
        net[0] = nn.Tanh()
        run.see(f(x), f(x))

    check(program, traces=2)


def test_weak_state_that_is_gone() -> None:
    class Hidden:
        __slots__ = ()
        held: list[Any] = []  # noqa: RUF012

    def body(x: Tensor) -> Tensor:
        return x + Hidden.held[0]

    f = rg.jit(body)
    for value in (1.0, 2.0):
        Hidden.held[:] = [Tensor([value]).realize()]
        gc.collect()
        assert f(Tensor([1.0])).item() == 1.0 + value
    assert f.reasons()[1] == "a tensor that it reads is gone"


def test_a_graph_from_outside_whose_values_are_gone() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    x = Tensor([3.0, 4.0]).realize()
    loss = (w * x).sum()
    loss.realize()
    del x

    def body() -> Any:
        loss.backward()
        return None

    with pytest.raises(CaptureError):
        rg.jit(body)()


def test_values_of_constants_may_be_asked_for() -> None:
    def program(run: Run) -> None:
        def body(x: Tensor) -> Tensor:
            count = int(Tensor([2, 3]).sum().item())
            return x.repeat(count) if Tensor(1.0) > 0 else x

        f = run.jit(body)
        for seed in range(2):
            run.see(f(Tensor(array(2, seed=seed))))

    check(program, traces=1)


def test_copies_of_objects_with_captured_methods() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(Tensor([1.0, 2.0]))

        @rg.jit
        def forward(self, x: Tensor) -> Tensor:
            return (x * self.w).detach()

    model = Model()
    x = Tensor([1.0, 1.0])
    assert model(x).tolist() == [1, 2]
    other = copy.deepcopy(model)
    with rg.no_grad():
        other.w.mul_(10)
    assert other(x).tolist() == [10, 20] and model(x).tolist() == [1, 2]


def test_captured_functions_are_not_pickled_by_accident() -> None:
    f = rg.jit(np.sin)
    assert repr(f).startswith("jit(")
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError)):
        pickle.dumps(rg.jit(lambda x: x))


def test_complex_and_small_dtypes() -> None:
    def program(run: Run) -> None:
        kept = Tensor(np.array([1 + 2j, 3j], "complex64"))

        def body(z: Tensor, h: Tensor, b: Tensor) -> Any:
            kept.mul_(z)
            return kept.abs(), h * 2, b & (h > 0)

        f = run.jit(body)
        for seed in range(3):
            z = Tensor(array(2, seed=seed) + 1j * array(2, seed=seed + 1))
            h = Tensor(array(2, seed=seed)).cast("bfloat16")
            run.see(f(z.cast("complex64"), h, Tensor([True, False]))[0], kept.clone())

    check(program, traces=1)


def test_many_calls_in_flat_memory() -> None:
    w = Tensor([0.0]).realize()

    def body(x: Tensor) -> Tensor:
        w.add_(x)
        return w * 2

    f = rg.jit(body)
    x = Tensor([1.0]).realize()
    for _ in range(5):
        f(x)
    gc.collect()
    before = rg.memory_report()
    for _ in range(500):
        f(x)
    gc.collect()
    assert rg.memory_report() == before and w.item() == 505


def test_old_results_stay_while_state_changes() -> None:
    def program(run: Run) -> None:
        w = Tensor([1.0, 2.0]).realize()

        def body(x: Tensor) -> Any:
            w.mul_(2)
            return w.clone(), w + x, w[0]

        f = run.jit(body)
        kept = [f(Tensor([float(k), 1.0])) for k in range(4)]
        run.see([found[:2] for found in kept], w)

    check(program, traces=1)


def test_requires_grad_that_is_set_inside() -> None:
    def program(run: Run) -> None:
        w = Tensor([1.0, 2.0], requires_grad=True)

        def freeze(x: Tensor) -> Tensor:
            y = x * w
            w.requires_grad = False
            return y.detach()

        f = run.jit(freeze)
        for _ in range(3):
            run.see(f(Tensor([1.0, 1.0])), w.requires_grad)
        w.requires_grad = True
        run.see(f(Tensor([1.0, 1.0])), w.requires_grad)

    check(program, traces=3)


def test_parameters_that_are_frozen_for_a_while_inside() -> None:
    def program(run: Run) -> None:
        w, v = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)

        def step(x: Tensor) -> None:
            w.grad = v.grad = None
            w.requires_grad = False
            (w * v * x).sum().backward()
            w.requires_grad = True
            (w * x).sum().backward()
            with rg.no_grad():
                v.sub_(v.grad * 0.1)

        f = run.jit(step)
        for seed in range(3):
            f(Tensor(array(2, seed=seed)))
            run.see(w.grad, v.grad, w.detach(), v.detach())

    check(program, traces=1)


def test_exchanged_state_makes_no_chain_of_buffers() -> None:
    a, b = Tensor([1.0]).realize(), Tensor([2.0]).realize()

    def exchange() -> None:
        old = a.clone()
        a.assign(b)
        b.assign(old)

    f = rg.jit(exchange)
    for _ in range(4):
        f()
    gc.collect()
    before = len(live)
    for _ in range(20):
        f()
    gc.collect()
    assert len(live) == before and (a.item(), b.item()) == (1.0, 2.0)


class Squared(rg.autograd.Function):
    """With a gradient of its own, for which it keeps a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x * 20


def test_functions_with_a_gradient_of_their_own_are_kept_where_backward_is_inside() -> None:
    weight = Tensor([1.0, 2.0], requires_grad=True)

    @rg.jit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        weight.grad = None
        result = Squared.apply(weight * x)
        loss = result.sum()
        loss.backward()
        with rg.no_grad():
            weight.sub_(weight.grad * 0.001)
        return loss, result

    for k in range(3):
        before, x = weight.numpy(), np.asarray([1.0, k + 1.0], np.float32)
        loss, result = step(Tensor(x))
        np.testing.assert_allclose(result.numpy(), (before * x) ** 2, rtol=1e-5)
        np.testing.assert_allclose(loss.item(), ((before * x) ** 2).sum(), rtol=1e-5)
        np.testing.assert_allclose(weight.numpy(), before - 0.02 * before * x * x, rtol=1e-5)
    assert step.reasons() == ["the first call"]


@pytest.mark.parametrize("first", [lambda a: a.detach(), lambda a: a.reshape((2,)), lambda a: a.flatten()])
@pytest.mark.parametrize("view", [lambda x: x[0:1], lambda x: x.unsqueeze(0), lambda x: x.expand(2, 2)])
def test_views_of_an_argument_that_is_a_leaf_and_a_view_itself(first: Any, view: Any) -> None:
    function, outside = rg.jit(view), Tensor([1.0, 2.0])
    held = function(first(outside).requires_grad_())
    given = Tensor([5.0, 6.0], requires_grad=True)
    assert function(given).tolist() == view(given).tolist() and held.tolist() == view(outside).tolist()


def test_a_function_whose_results_are_all_empty() -> None:
    function = rg.jit(lambda x: x + 1)
    assert [function(Tensor.zeros(2, 0)).shape for _ in range(3)] == [(2, 0)] * 3
