"""Computed once: values that live tensors stand for, gradients of one call, graphs that were built before."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import rulegrad as rg
import rulegrad.nn.functional as F
from rulegrad import Tensor, engine, nn, no_grad, optim
from rulegrad.compile.realize import _plans
from rulegrad.errors import GradientError
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.memory import peak_memory, reset_peak_memory
from rulegrad.runtime.memory_table import live_buffers

SIZE = 64


pytestmark = pytest.mark.usefixtures("on_the_interpreter")


def values(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def launches(function: Callable[[], object]) -> int:
    with rg.profile() as found:
        function()
    return len(found.kernels)


def operations(function: Callable[[], object]) -> int:
    with rg.profile() as found:
        function()
    return sum(kernel.flops for kernel in found.kernels)


def network(layers: int = 4) -> nn.Sequential:
    Tensor.manual_seed(0)
    model = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(SIZE, SIZE), nn.Tanh())))
    Tensor.realize(*model.parameters())
    return model


# ---- values on the way ----


def test_a_loop_that_reads_what_it_carries():
    weight, h, expected = values(SIZE, SIZE), values(SIZE, SIZE, seed=1), values(SIZE, SIZE, seed=1).numpy()
    counts = []
    for _ in range(6):
        h = (h @ weight) * 0.01
        expected = (expected @ weight.numpy()) * 0.01
        counts.append(launches(lambda: h.sum().item()))  # noqa: B023
    assert len(set(counts)) == 1 and counts[0] <= 2
    np.testing.assert_allclose(h.numpy(), expected, 1e-4, 1e-6)


def test_the_turns_of_a_loop_have_one_plan(monkeypatch):
    weight, h = values(SIZE, SIZE), values(SIZE, SIZE, seed=1)
    for turn in range(5):
        h = (h @ weight) * 0.01
        h.sum().item()
        if turn == 1:
            monkeypatch.setattr(engine, "run", None)


@pytest.mark.parametrize("size", [4, 100_000])
def test_cheap_values_that_a_loop_carries_need_few_plans(size):
    """A cheap value is computed again some times, until that costs more than to keep it; then it begins anew."""
    x = values(size)
    expected, known = x.numpy(), []
    for _ in range(60):
        x = x * 0.5 + 1.0
        expected = expected * np.float32(0.5) + np.float32(1.0)
        assert launches(lambda: x.max().item()) <= 3  # noqa: B023
        known.append(len(_plans))
    assert known[40] == known[-1]
    np.testing.assert_allclose(x.numpy(), expected, 1e-5)


def test_a_loop_on_numbers_that_are_made_once_has_one_plan():
    """The first turn read what makes them, and the second one memory: two plans of all that follows."""
    model, x, found = network(), Tensor.randn(9, SIZE), []
    with no_grad():
        for _ in range(4):
            found.append((model(x).sum().item(), len(_plans)))
    assert found == found[:1] * 4


def test_decoding_with_a_growing_past():
    weight = values(SIZE, SIZE)
    past = out = values(1, SIZE, seed=1)
    counts, work = [], []
    for _ in range(8):
        key = (out @ weight).tanh()
        past = Tensor.cat(past, key)
        out = (key @ past.T).softmax(-1) @ past
        with rg.profile() as found:
            out.numpy()
        counts.append(len(found.kernels))
        work.append(sum(kernel.flops for kernel in found.kernels))
    assert max(counts[1:]) <= counts[0] + 1
    # Each token adds a row to what is read, and nothing else.
    steps = [after - before for before, after in pairwise(work[2:])]
    assert max(steps) <= 2 * max(1, min(steps)) and work[-1] < 2 * work[1]


def test_activations_that_are_read_one_after_another():
    model, x = network(), values(8, SIZE)
    with no_grad():
        activations = [x]
        for part in model.children():
            activations.append(part(activations[-1]))

        def read() -> None:
            for activation in reversed(activations):
                activation.mean().item()

        assert operations(read) < 1.5 * operations(lambda: model(x).numpy())


def test_a_view_of_what_nobody_holds_is_kept():
    h = values(SIZE, SIZE)
    weight = values(SIZE, SIZE, seed=1)
    counts = []
    for _ in range(4):
        h = (h @ weight).T.detach()
        counts.append(launches(lambda: h.sum().item()))  # noqa: B023
    assert max(counts) <= 2


def test_what_costs_little_is_computed_again():
    x = values(300_000)
    y = x + 1.0
    assert launches(lambda: y.sum().item()) == launches(lambda: (x + 1.0).sum().item())
    assert y.uop.op == "ADD"
    view = x[1:].reshape(-1, 1)
    view.sum().item()
    assert view.uop.op == "RESHAPE"


def test_what_is_not_needed_is_not_computed():
    x = values(SIZE, SIZE)
    y, other = x @ x, (x.T @ x).exp()
    y.sum().item()
    assert y.uop.op == "BUFFER" and other.uop.op == "EXP"


# ---- graphs that were built before ----


def test_graphs_see_what_was_realized():
    a = values(SIZE, SIZE)
    b = a @ a
    c = b * 2
    first, second = operations(b.realize), operations(c.realize)
    assert second < first
    np.testing.assert_allclose(c.numpy(), (a.numpy() @ a.numpy()) * 2, 1e-4, 1e-4)


def test_what_was_realized_is_found_only_while_it_is_held():
    a = values(SIZE, SIZE)
    b = (a @ a).exp()
    c, d = b * 2, b * 3
    b.realize()
    reference = b.numpy()
    assert launches(c.realize) == 1
    before = len(live_buffers("numpy"))
    del b
    assert len(live_buffers("numpy")) == before - 1
    np.testing.assert_allclose(d.numpy(), reference * 3, 1e-5)


def test_an_update_is_another_value():
    a = values(1000)
    b = a.sin()
    c = b * 2
    expected = np.sin(a.numpy())
    b.realize()
    b += 1
    b.realize()
    np.testing.assert_allclose(c.numpy(), expected * 2, 1e-5)
    np.testing.assert_allclose(b.numpy(), expected + 1, 1e-5)
    d = (b @ b) + b
    b.assign(np.zeros(1000, np.float32))
    b.realize()
    np.testing.assert_allclose(d.numpy(), (expected + 1) @ (expected + 1) + expected + 1, 1e-4)


def test_memory_that_others_see_is_not_read_for_a_graph():
    a = values(SIZE)
    b = a.sin()
    c = b * 2
    lent = np.from_dlpack(b.realize())
    assert Buffer.of(b.uop).is_lent and lent.shape == (SIZE,)
    assert launches(c.realize) == 1
    np.testing.assert_allclose(c.numpy(), np.sin(a.numpy()) * 2, 1e-5)


def test_constants_have_memory_of_their_own():
    first, second = Tensor.ones(4).realize(), Tensor.ones(4).realize()
    assert first.uop != second.uop


def test_the_same_numbers_from_random_graphs():
    Tensor.manual_seed(3)
    mask = Tensor.rand(SIZE, SIZE) > 0.5
    x = values(SIZE, SIZE)
    kept = mask.where(x, 0.0)
    total = kept.sum().item()
    first = mask.numpy()
    assert abs(np.where(first, x.numpy(), 0.0).sum() - total) < 1e-2
    np.testing.assert_array_equal(kept.numpy(), np.where(first, x.numpy(), 0.0))


# ---- gradients ----


def test_norms_of_gradients_one_after_another():
    model = network()
    parameters = list(model.parameters())

    def backward() -> list[Tensor]:
        for parameter in parameters:
            parameter.grad = None
        model(values(8, SIZE)).square().mean().backward()
        return [parameter.grad for parameter in parameters if parameter.grad is not None]

    def each() -> None:
        found.extend(gradient.norm().item() for gradient in gradients)

    found: list[float] = []
    gradients = backward()
    together = launches(lambda: Tensor.realize(*gradients))
    expected = [np.linalg.norm(gradient.numpy()) for gradient in gradients]
    gradients = backward()
    assert launches(each) <= together + len(gradients)
    np.testing.assert_allclose(found, expected, 1e-4)


def test_a_loss_that_is_read_before_the_step():
    model, x = network(), values(8, SIZE)
    sgd = optim.SGD(model.parameters(), lr=0.1)
    work = []
    for reads in (False, True):
        sgd.zero_grad()
        loss = model(x).square().mean()
        loss.backward()

        def step() -> None:
            if reads:  # noqa: B023
                loss.item()  # noqa: B023
            sgd.step()

        work.append(operations(step))
    assert work[1] < 1.05 * work[0]


def test_a_loss_that_is_read_before_backward():
    model, x = network(), values(8, SIZE)
    hidden = model[:6](x)
    loss = model[6:](hidden).square().mean()
    whole = operations(loss.item)
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    again = operations(lambda: Tensor.realize(*(g for g in gradients if g is not None)))
    fresh = model(values(8, SIZE, seed=1)).square().mean()
    model.zero_grad()
    fresh.backward()
    alone = operations(lambda: Tensor.realize(*(p.grad for p in model.parameters() if p.grad is not None)))
    assert again < alone and hidden.uop.op == "BUFFER" and whole < alone


def test_metrics_after_a_step():
    model, x, labels = network(), values(8, SIZE), Tensor(np.arange(8))
    sgd = optim.SGD(model.parameters(), lr=0.1)
    work = []
    for _ in range(3):
        sgd.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        sgd.step()
        work.append(operations(lambda: (logits.argmax(1) == labels).mean().item()))  # noqa: B023
        assert launches(loss.item) == 0
    assert max(work) < 8 * SIZE * SIZE


def test_two_optimizers_share_the_gradients_of_one_call():
    model, x = network(), values(8, SIZE)
    parameters = list(model.parameters())
    first, second = optim.SGD(parameters[:4], lr=0.1), optim.SGD(parameters[4:], lr=0.1)
    model(x).square().mean().backward()
    whole, rest = operations(first.step), operations(second.step)
    assert rest < 0.2 * whole


def test_a_training_loop_has_no_higher_peak_and_finds_its_plan(monkeypatch):
    model, x, labels = network(), values(64, SIZE), Tensor(np.arange(64))
    sgd = optim.SGD(model.parameters(), lr=0.1)
    parameters = sum(parameter.nbytes for parameter in model.parameters())

    def step() -> None:
        sgd.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        sgd.step()

    step()
    step()
    gc.collect()
    in_use = devices.allocator("numpy").in_use
    monkeypatch.setattr(engine, "run", None)
    reset_peak_memory("numpy")
    step()
    # New parameters beside the old ones, and activations that come and go; no gradients in memory.
    assert peak_memory("numpy") - in_use < parameters + 8 * x.nbytes
    assert all(parameter.grad.uop.op != "BUFFER" for parameter in model.parameters())


def test_tensors_of_one_value_share_memory_and_have_their_own_gradients():
    a = Tensor([3.0], requires_grad=True)
    x, y = a * 2, a * 2
    Tensor.realize(x, y)
    (x * y).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [24.0]
    b = Tensor([3.0], requires_grad=True)
    constant = b.detach().realize()
    (b * constant).sum().backward()
    assert b.grad is not None and b.grad.tolist() == [3.0]
    plain, leaf = Tensor([3.0]) * 2, (Tensor([3.0]) * 2).requires_grad_()
    Tensor.realize(plain, leaf)
    (plain * leaf).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [6.0]


def test_gradients_through_values_that_were_kept():
    a = values(SIZE, SIZE).requires_grad_()
    h = (a @ a).tanh()
    total = (h @ h).sum()
    total.item()
    assert h.uop.op == "BUFFER"
    (total + h.sum()).backward()
    assert a.grad is not None
    found = a.grad.numpy()
    b = Tensor(a.numpy(), requires_grad=True)
    g = (b @ b).tanh()
    ((g @ g).sum() + g.sum()).backward()
    assert b.grad is not None
    np.testing.assert_allclose(found, b.grad.numpy(), 1e-3, 1e-3)


# ---- memory ----


def test_memory_goes_with_the_tensor():
    x = values(256, 256)
    h = x @ x
    total = h.sum()
    total.item()
    assert h.uop.op == "BUFFER"
    in_use = devices.allocator("numpy").in_use
    del h
    assert devices.allocator("numpy").in_use == in_use - x.nbytes


def test_what_nobody_holds_is_not_kept():
    model, x = network(), values(64, SIZE)
    with no_grad():
        y = model(x)
    gc.collect()
    before = len(live_buffers("numpy"))
    y.sum().item()
    assert len(live_buffers("numpy")) == before + 1  # y


class Square(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0]


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (lambda: nn.Conv1d(1, 4, 3), (2, 1, 9)),
        (lambda: nn.BatchNorm1d(4), (2, 4, 9)),
        (lambda: Square.apply, (2, 4, 9)),
    ],
    ids=["convolution", "batch_norm", "function"],
)
def test_an_average_over_steps_is_computed_after_each(model, shape):
    """Also of functions that have a gradient of their own: it would keep the outputs of all steps."""
    layer, scale = model(), nn.Parameter(Tensor([0.5]))
    sgd = optim.SGD([scale, *getattr(layer, "parameters", list)()], lr=0.01)
    average, expected = Tensor.zeros(4), np.zeros(4, np.float32)
    for step in range(4):
        found = layer(values(*shape, seed=step) * scale)
        with no_grad():
            average.mul_(0.5).add_(found.detach().mean((0, 2)))
        (found**2).mean().backward()
        sgd.step()
        sgd.zero_grad()
        expected = expected * 0.5 + found.numpy().mean((0, 2))
    assert launches(lambda: average.realize()) == 0
    np.testing.assert_allclose(average.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("kept", ["loss", "detached"])
@pytest.mark.parametrize("way", ["scaled", "sum"])
def test_losses_that_backward_went_through_keep_no_parameters(kept, way):
    model = network(1)
    sgd, seen, held = optim.SGD(model.parameters(), lr=0.01), [], []
    scaler = rg.amp.GradScaler()
    for step in range(5):
        loss, other = model(values(4, SIZE)).square().mean(), model(values(4, SIZE, seed=step)).abs().mean()
        if way == "scaled":
            scaler.scale(loss).backward()
            scaler.step(sgd)
            scaler.update()
        else:
            (loss + other).backward()
            sgd.step()
        sgd.zero_grad()
        seen.append(loss if kept == "loss" else loss.detach())
        gc.collect()
        held.append(sum(buffer.nbytes for buffer in live_buffers("numpy")))
    assert held[-1] - held[1] < 4 * SIZE * SIZE  # not one matrix more
    assert len({loss.item() for loss in seen}) == 5
    with pytest.raises(GradientError, match="retain_graph"):
        loss.backward()


def test_results_do_not_depend_on_the_garbage_collector():
    answers = []
    for collect in (False, True):
        weight, h = values(SIZE, SIZE), values(SIZE, SIZE, seed=1)
        for _ in range(4):
            h = (h @ weight) * 0.01
            cycle = [h]
            cycle.append(cycle)  # type: ignore[arg-type]
            if collect:
                gc.collect()
            answers.append(h.sum().item())
    assert answers[:4] == answers[4:]


def test_a_value_of_no_device_that_a_program_looks_at_is_kept_on_the_default_one():
    table, compiled = Tensor.zeros(10, 2), []
    for step in range(12):
        row = step % 9 + 1
        table[row - 1, step % 2] += 0.5 * (1.0 + 0.9 * table[row].max() - table[row - 1, 0])
        assert table[row - 1].argmax().item() in (0, 1)
        compiled.append(len(table.uop.toposort()))
    assert max(compiled) <= 3  # a buffer: the next look begins at it
    wanted = np.zeros((10, 2), np.float32)
    for step in range(12):
        row = step % 9 + 1
        wanted[row - 1, step % 2] += np.float32(0.5) * (1 + np.float32(0.9) * wanted[row].max() - wanted[row - 1, 0])
    np.testing.assert_allclose(table.numpy(), wanted, rtol=1e-6)
    assert table.device == Tensor.zeros(1).device


def test_graphs_do_not_grow_with_what_a_program_chooses():
    rows = Tensor(np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32))
    weights, longest = rows[0], 0
    for row in range(30):
        if (weights @ rows[row]).item() <= 0.5:
            weights = weights + rows[row]
        longest = max(longest, len(weights.uop.toposort()))
    assert longest <= 6  # the last sum, of two buffers
