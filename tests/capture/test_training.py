"""Captured training steps: forward, backward, the optimizer's step, and what changes between steps."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from capture_contract import Run, array, batches, check, network, state, training_step

import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.errors import CaptureError, GradientError
from rulegrad.nn import functional as F
from rulegrad.optim import lr_scheduler
from rulegrad.runtime.memory_table import live
from rulegrad.tensor.core import _leaf_of_buffer, pending_leaves

Make = Callable[[Any], Any]


OPTIMIZERS: dict[str, tuple[Make, int]] = {
    "sgd": (lambda p: optim.SGD(p, lr=0.1), 1),
    "momentum": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01), 2),
    "adam": (lambda p: optim.Adam(p, lr=0.02, amsgrad=True), 2),
    "adamw": (lambda p: optim.AdamW(p, lr=0.02), 2),
    "rmsprop": (lambda p: optim.RMSprop(p, lr=0.02, momentum=0.5), 2),
    "lamb": (lambda p: optim.LAMB(p, lr=0.02), 2),
    "muon": (lambda p: optim.Muon(p, lr=0.02), 2),
    "nadam": (lambda p: optim.NAdam(p, lr=0.02), 2),
    "asgd": (lambda p: optim.ASGD(p, lr=0.02), 2),
    "groups": (
        lambda p: (lambda q: optim.Adam([{"params": q[:2]}, {"params": q[2:], "lr": 0.1}], lr=0.01))(list(p)),
        2,
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    """The first call makes the state of the moments, so the second is the one that is kept."""
    make, traces = OPTIMIZERS[name]

    def program(run: Run) -> None:
        model = network()
        optimizer = make(model.parameters())

        call = run.jit(training_step(model, optimizer))
        for k, (x, y) in enumerate(batches(5)):
            run.see(call(x, y).detach())
            run.see([p.grad for p in model.parameters()])
            if k == 2:
                optimizer.param_groups[0]["lr"] = 0.005
        run.see(state(model), [list(s.values()) for s in optimizer.state.values()])

    check(program, traces, tolerance=1e-5)


def test_on_each_device(device: str) -> None:
    def program(run: Run) -> None:
        model = network(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 3))
        optimizer = optim.Adam(model.parameters(), lr=0.02)

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        call = run.jit(step)
        for x, y in batches(5):
            run.see(call(x, y).detach())
        run.see(state(model))

    check(program, traces=2, tolerance=1e-5)


def test_accumulation() -> None:
    def program(run: Run) -> None:
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def add(x: Tensor, y: Tensor) -> Tensor:
            loss = F.cross_entropy(model(x), y) / 2
            loss.backward()
            return loss

        call = run.jit(add)
        for k, (x, y) in enumerate(batches(6)):
            run.see(call(x, y).detach())
            if k % 2:
                held = [p.grad for p in model.parameters()]
                optimizer.step()
                optimizer.zero_grad()
                run.see(held)
        run.see(state(model))

    check(program, traces=2)


def test_gradients_that_somebody_holds() -> None:
    def program(run: Run) -> None:
        w = Tensor([1.0, 2.0], requires_grad=True)

        def add(x: Tensor) -> None:
            (w * x).sum().backward()

        call, held = run.jit(add), []
        for k in range(4):
            call(Tensor([1.0, float(k)]))
            held.append(w.grad)
            if k == 2:
                w.grad.mul_(2)
        run.see(held)
        w.grad = Tensor([5.0, 5.0])
        call(Tensor([1.0, 1.0]))
        run.see(w.grad, w.detach())

    check(program, traces=2)


def test_accumulation_inside_and_two_steps_in_one_call() -> None:
    def program(run: Run) -> None:
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.05)

        def step(x: Tensor, y: Tensor) -> list[Tensor]:
            losses = []
            for part in range(2):
                optimizer.zero_grad()
                for k in range(2):
                    rows = slice(4 * k, 4 * k + 4)
                    loss = F.cross_entropy(model(x[rows]), y[rows]) * (part + 1)
                    loss.backward()
                    losses.append(loss.detach())
                optimizer.step()
            return losses

        call = run.jit(step)
        for x, y in batches(4):
            run.see(call(x, y))
        run.see(state(model), [p.grad for p in model.parameters()])

    check(program, traces=2, tolerance=1e-5)


def test_dropout_differs_and_follows_the_seed() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda x: (x.dropout(0.5, training=True), Tensor.rand(3), Tensor.randn(2)))
        x = Tensor.ones(40)
        Tensor.manual_seed(5)
        first = f(x), f(x)
        Tensor.manual_seed(5)
        again = f(x), f(x)
        run.see(first, again, Tensor.rand(2))
        assert first[0][0].tolist() == again[0][0].tolist() != first[1][0].tolist()

    check(program, traces=1)


def test_a_generator_of_its_own() -> None:
    def program(run: Run) -> None:
        generator = rg.Generator().manual_seed(7)
        f = run.jit(lambda: Tensor.rand(3, generator=generator))
        run.see(f(), f(), Tensor.rand(2), f())

    check(program, traces=1)


def test_learning_rate_schedules() -> None:
    def program(run: Run) -> None:
        model = network()
        optimizer = optim.AdamW(model.parameters(), lr=0.1)
        schedules = [
            lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20),
        ]

        call = run.jit(training_step(model, optimizer))
        for x, y in batches(6):
            run.see(call(x, y).detach())
            for schedule in schedules:
                schedule.step()
        run.see(state(model))

    check(program, traces=2, tolerance=1e-5)


def test_a_schedule_that_steps_inside_is_not_frozen() -> None:
    def program(run: Run) -> None:
        w = Tensor([1.0, 2.0], requires_grad=True)
        optimizer = optim.SGD([w], lr=0.5)
        schedule = lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

        def step() -> None:
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            schedule.step()

        call = run.jit(step)
        for _ in range(4):
            call()
        run.see(w.detach(), optimizer.lr)

    reasons = check(program, traces=4).reasons()
    assert "last_epoch" in reasons[1]


def test_options_that_decide_how_a_step_is_computed() -> None:
    def program(run: Run) -> None:
        w = Tensor([1.0, 2.0], requires_grad=True)
        optimizer = optim.SGD([w], lr=0.5)

        def step() -> None:
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()

        call = run.jit(step)
        call(), call()
        optimizer.param_groups[0]["weight_decay"] = 0.5
        call()
        optimizer.param_groups[0]["weight_decay"] = 0.25
        call()
        optimizer.param_groups[0]["maximize"] = True
        call()
        run.see(w.detach())

    reasons = check(program, traces=3).reasons()
    assert all("SGD.options" in reason for reason in reasons[1:])


def test_clipping() -> None:
    def program(run: Run) -> None:
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            return norm

        call = run.jit(step)
        for x, y in batches(4):
            run.see(call(x, y))
        run.see(state(model))

    check(program, traces=1)


def test_batch_norm_statistics() -> None:
    def program(run: Run) -> None:
        model = network(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        call = run.jit(training_step(model, optimizer))
        for x, y in batches(4):
            run.see(call(x, y).detach(), state(model))
        model.eval()
        run.see(model(batches(1)[0][0]).detach())

    check(program, traces=1, tolerance=1e-5)


def test_loaded_and_eager_steps_between() -> None:
    def program(run: Run) -> None:
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.05)

        step = training_step(model, optimizer)
        call, data = run.jit(step), batches(9)
        for x, y in data[:3]:
            run.see(call(x, y).detach())
        saved, moments = {k: v.clone() for k, v in model.state_dict().items()}, optimizer.state_dict()
        moments = {**moments, "state": {k: {n: t.clone() for n, t in s.items()} for k, s in moments["state"].items()}}
        step(*data[3])
        run.see(call(*data[4]).detach())
        model.load_state_dict(saved)
        run.see(call(*data[5]).detach())
        optimizer.load_state_dict(moments)  # new tensors: another trace
        run.see(call(*data[6]).detach(), call(*data[7]).detach())
        run.see(state(model))

    check(program, traces=4, tolerance=1e-5)


def test_frozen_parameters() -> None:
    def program(run: Run) -> None:
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Tensor, y: Tensor) -> None:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        call, data = run.jit(step), batches(6)
        call(*data[0])
        model[0].weight.requires_grad = False
        call(*data[1])
        call(*data[2])
        model[0].weight.requires_grad = True
        call(*data[3])
        run.see(state(model))

    check(program, traces=2)


def test_functional_gradients_inside() -> None:
    def program(run: Run) -> None:
        w = Tensor(array(3)).realize()

        def step(x: Tensor) -> Tensor:
            gradient = rg.grad(lambda w: ((w * x) ** 2).sum())(w)
            w.assign(w - gradient * 0.1)
            return rg.vmap(lambda row: (row * w).sum())(x.reshape(1, 3).expand(2, 3))

        call = run.jit(step)
        for seed in range(3):
            run.see(call(Tensor(array(3, seed=seed))))
        run.see(w)

    check(program, traces=1)


def test_captured_functions_inside_transformations() -> None:
    """There they are part of what `grad` and `vmap` build."""
    w = Tensor(array(3)).realize()
    f = rg.jit(lambda x: (x * x * w).sum())
    x, rows = Tensor(array(3, seed=1)), Tensor(array(2, 3))
    np.testing.assert_allclose(rg.grad(f)(x).numpy(), (x * w * 2).numpy(), 1e-6)
    np.testing.assert_allclose(rg.grad(lambda x: rg.grad(f)(x).sum())(x).numpy(), (w * 2).numpy(), 1e-6)
    np.testing.assert_allclose(rg.vmap(f)(rows).numpy(), (rows * rows * w).sum(1).numpy(), 1e-6)
    assert f.reasons() == []


def test_leaves_made_inside() -> None:
    def program(run: Run) -> None:
        def body(x: Tensor) -> Any:
            leaf = (x * 2).detach().requires_grad_()
            (leaf * leaf * x).sum().backward()
            return leaf.grad

        f = run.jit(body)
        for seed in range(3):
            run.see(f(Tensor(array(3, seed=seed))))

    check(program, traces=1)


def test_leaves_as_arguments() -> None:
    def program(run: Run) -> None:
        def step(w: Tensor, x: Tensor) -> Tensor:
            loss = (w * x).square().sum()
            loss.backward()
            with rg.no_grad():
                w -= w.grad * 0.1
            return loss

        f = run.jit(step)
        for seed in range(3):
            w = Tensor(array(3, seed=seed), requires_grad=True)
            for _ in range(2):
                run.see(f(w, Tensor(array(3))).detach(), w.grad)
            run.see(w.detach())

    check(program, traces=2)


def test_backward_that_leaves_the_function_is_an_error() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    f = rg.jit(lambda h: h.sum().backward() and None)
    with pytest.raises(CaptureError, match="reaches a tensor that was computed outside"):
        f(w * 2)
    assert w.grad is None


def test_recurrent_layers_and_attention() -> None:
    def program(run: Run) -> None:
        Tensor.manual_seed(0)
        lstm, attention = nn.LSTM(3, 4), nn.MultiheadAttention(4, 2, batch_first=True)
        parameters = [*lstm.parameters(), *attention.parameters()]
        optimizer = optim.SGD(parameters, lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            h, _ = lstm(x)
            h, _ = attention(h, h, h)
            loss = h.square().mean()
            loss.backward()
            optimizer.step()
            return loss

        call = run.jit(step)
        for seed in range(3):
            run.see(call(Tensor(array(3, 2, 3, seed=seed))).detach())
        run.see([p.detach() for p in parameters])

    check(program, traces=1, tolerance=1e-5)


def test_each_call() -> None:
    def program(run: Run) -> None:
        numbers = iter(range(100))

        def make() -> dict[str, Tensor]:
            k = next(numbers)
            return {"a": Tensor([float(k)]), "b": Tensor([k, k + 1])}

        def body(x: Tensor) -> Tensor:
            made = rg.each_call(make)
            return x * made["a"] + made["b"]

        f = run.jit(body)
        for _ in range(4):
            run.see(f(Tensor([2.0, 3.0])))

    check(program, traces=1)


def test_each_call_has_to_make_the_same_shapes() -> None:
    shapes = iter([(2,), (2,), (3,)])
    f = rg.jit(lambda: rg.each_call(lambda: Tensor.zeros(*next(shapes)).realize()) + 1)
    f(), f()
    with pytest.raises(CaptureError, match=r"each_call: .*\(3,\).*make them alike"):
        f()


def test_memory_is_flat_and_state_stays_in_place() -> None:
    model = network()
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    step = rg.jit(training_step(model, optimizer))
    x, y = batches(1)[0]
    for _ in range(4):
        step(x, y).item()
    gc.collect()
    before = len(live), len(_leaf_of_buffer), len(pending_leaves), rg.memory_report()
    for _ in range(20):
        step(x, y).item()
    assert (len(live), len(_leaf_of_buffer), len(pending_leaves), rg.memory_report()) == before


def test_gradients_flow_through() -> None:
    """Eager work before and after a captured forward pass, with dropout, several results, a frozen parameter."""

    def program(run: Run) -> None:
        model = network(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.4), nn.Linear(6, 3))
        model[3].bias.requires_grad = False
        before = Tensor(array(4, 4), requires_grad=True)
        optimizer = optim.SGD([*(p for p in model.parameters() if p.requires_grad), before], lr=0.1)

        def forward(x: Tensor, scale: Tensor) -> Any:
            y = model(x * scale)
            return {"y": y, "other": (x.square().sum(), y[0], x)}

        call = run.jit(forward)
        for x, labels in batches(4):
            optimizer.zero_grad()
            found = call(x @ before, Tensor(2.0))
            loss = F.cross_entropy(found["y"], labels) + found["other"][0] * 0.01 + found["other"][1].sum()
            loss.backward()
            run.see(loss.detach(), [p.grad for p in optimizer.parameters])
            optimizer.step()
            run.see(before.detach(), state(model))

    check(program, traces=1, tolerance=1e-5)


def test_gradients_flow_through_twice_and_to_one_tensor_in_two_ways() -> None:
    def program(run: Run) -> None:
        w, v = Tensor(array(3), requires_grad=True), Tensor(array(3, seed=1), requires_grad=True)
        f = run.jit(lambda x, y: (x * w).exp() + y)
        for seed in range(3):
            x = Tensor(array(3, seed=seed))
            y = f(f(x, v), w)
            y.sum().backward()
            y.square().sum().backward()
            run.see(y.detach(), w.grad, v.grad)
            with rg.no_grad():
                w -= w.grad * 0.01

    check(program, traces=2, tolerance=1e-5)


@pytest.mark.parametrize("device", ["numpy", "c"])  # `c` puts new values of a state into the memory of the old ones
def test_a_carried_state_with_a_gradient(device: str) -> None:
    def program(run: Run) -> None:
        w, h = Tensor(array(3), requires_grad=True), Tensor(array(3, seed=1)).realize()

        def step(x: Tensor) -> Tensor:
            with rg.no_grad():
                h.assign(h * 0.5 + x)
            return (h * w).sum()

        f = run.jit(step)
        for seed in range(3):
            f(Tensor(array(3, seed=seed))).backward()
            run.see(h.clone(), w.grad)

    with rg.config(device=device):
        check(program, traces=1)


def test_gradients_that_do_not_flow_through() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    def step(x: Tensor) -> Tensor:
        loss = (w * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    f = rg.jit(step)
    for _ in range(2):
        optimizer.zero_grad()
        with pytest.raises(GradientError, match="does not flow back through this captured function"):
            f(Tensor([1.0, 1.0])).backward()


def test_gradients_of_functions_of_captured_results() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    g = rg.jit(lambda x: x.square() * w)
    for _ in range(2):
        h = g(Tensor([1.0, 1.0])) * 2
        gradient = rg.grad(lambda x, h=h: (g(x) * h).sum())(Tensor([1.0, 3.0]))
        assert gradient.tolist() == [4, 48]
        gradient.sum().backward()
    assert len(g.reasons()) == 1
    np.testing.assert_array_equal(w.grad.numpy(), [2 * 8, 2 * 48])
