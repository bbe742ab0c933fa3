"""What programs written for PyTorch do that had other values here, or stopped: found beside PyTorch, values are its."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad as torch
import rulegrad.nn.functional as F
from rulegrad import Tensor, nn
from rulegrad.errors import ConfigError, DtypeError, GradientError, IndexRangeError, ShapeError
from rulegrad.ir import UOp
from rulegrad.runtime.memory_table import live_buffers
from rulegrad.tensor.history import gradient_points


@pytest.mark.parametrize(
    "overwrite",
    [
        lambda c: c.zero_(),
        lambda c: c.fill_(2.0),
        lambda c: c.copy_(torch.ones(3)),
        lambda c: c.__setitem__(slice(None), 2.0),
        lambda c: c.__setitem__(slice(0, 3), torch.ones(3)),
        lambda c: c[0:3].fill_(1.0),
        lambda c: c.view(3, 1).zero_(),
    ],
)
def test_what_is_overwritten_as_a_whole_has_zeros_as_gradient(overwrite: Callable[[Any], Any]) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    c = x * 2
    before = c * c
    overwrite(c)
    assert c.requires_grad
    c.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0, 0.0]
    before.sum().backward()
    assert x.grad.tolist() == [8.0, 16.0, 24.0]


def test_empty_views_of_results_with_a_gradient() -> None:
    b = torch.ones(1, 3, requires_grad=True) * 1
    part = b[0:0]
    part.mul_(torch.tensor([]).reshape(0, 3))
    part.copy_(torch.zeros(0, 3))
    assert part.sum().item() == 0.0 and b.tolist() == [[1.0, 1.0, 1.0]]


def test_an_integer_in_a_tensor_gives_a_view() -> None:
    x = torch.zeros(3, 2)
    x[torch.tensor([2, 1, 0]).argmax()][0] = 5
    x[torch.tensor(1)].add_(1)
    x[:, torch.tensor(1)].fill_(7)
    x[torch.tensor(-1), torch.tensor(0)].fill_(9)
    assert x.tolist() == [[5.0, 7.0], [1.0, 7.0], [9.0, 7.0]]
    for place in torch.tensor([0, 2]):
        x[place] += 1
    assert x.tolist() == [[6.0, 8.0], [1.0, 7.0], [10.0, 8.0]]
    with pytest.raises(IndexRangeError, match="5 is out of range"):
        x[torch.tensor(5)]
    part = torch.jit(lambda x, place: x[place] * 2)
    assert [part(x, torch.tensor(k)).tolist() for k in (0, 1, 2)] == [[12.0, 16.0], [2.0, 14.0], [20.0, 16.0]]


def test_places_that_a_captured_function_does_not_read() -> None:
    counts, w = torch.zeros(4), torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    @torch.jit
    def counted(label: Tensor) -> Tensor:
        counts[label] += 1
        counts[label].add_(10)
        return counts[label]

    for label, wanted in ((1, 11.0), (2, 11.0), (1, 22.0)):
        assert counted(torch.tensor(label)).item() == wanted
    assert counts.tolist() == [0.0, 22.0, 11.0, 0.0] and counted.reasons() == ["the first call"]

    @torch.jit
    def squared(place: Tensor) -> Tensor:
        w.grad = None
        row = w[place]
        (row * row).sum().backward()
        return row

    assert squared(torch.tensor(1)).tolist() == [3.0, 4.0]
    assert w.grad is not None and w.grad.tolist() == [[0.0, 0.0], [6.0, 8.0]]


def test_gradients_that_depend_on_an_input() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert torch.autograd.grad(x**2, x, x.clone())[0].tolist() == [2.0, 8.0]
    (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert torch.autograd.grad(slope, x, slope)[0].tolist() == [18.0, 144.0]
    weight = torch.ones(2, requires_grad=True)
    (product,) = torch.autograd.grad(x * x, x, weight, create_graph=True)
    assert torch.autograd.grad(product.sum(), weight)[0].tolist() == [2.0, 4.0]
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    assert torch.autograd.grad(z * (2 + 1j), z, torch.tensor([1 + 0j, 2 - 1j]))[0].tolist() == [2 - 1j, 3 - 4j]


def test_parts_of_complex_numbers_are_not_all_of_them() -> None:
    z = torch.tensor([1 + 2j, 3 + 4j], requires_grad=True)
    changed = z * 1
    changed.real.fill_(0.0)
    changed.imag.sum().backward()
    assert z.grad is not None and z.grad.tolist() == [1j, 1j]


def test_overwriting_in_a_loop_keeps_nothing_and_in_a_mapped_function_works() -> None:
    state, w = torch.zeros(3) * 1, torch.ones(3, requires_grad=True)
    for _ in range(300):
        state.copy_(torch.ones(3))
        state += w
    points = gradient_points(state._past())
    assert len(points) < 20
    state.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [1.0, 1.0, 1.0]

    def overwritten(x: Tensor) -> Tensor:
        h = x * 1
        h.zero_()
        return h + x

    x = torch.ones(2, 2, requires_grad=True)
    torch.vmap(overwritten)(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_gradients_by_an_empty_batch(any_device: str) -> None:
    layer, out = nn.Linear(2, 3), torch.zeros(0, 3)
    out += layer(torch.zeros(0, 2))
    out.sum().backward()
    assert [one.grad.tolist() for one in layer.parameters()] == [[[0.0, 0.0]] * 3, [0.0] * 3]


def test_gradients_in_batches() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    (rows,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, only_inputs=True)
    assert rows.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]
    with pytest.raises(ShapeError, match=r"grad_outputs of shape \(3, 3\)"):
        torch.autograd.grad(y, x, torch.eye(3))
    with pytest.raises(ShapeError, match="first axis"):
        torch.autograd.grad(y, x, is_grads_batched=True)
    with pytest.raises(ShapeError, match="first axis"):
        torch.autograd.grad(y.sum(), x, torch.tensor(1.0), is_grads_batched=True)


class Doubled(torch.autograd.Function):
    """In place, with a gradient that tells whether it was used."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.mark_dirty(a)
        return a.mul_(2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 7


def test_a_function_that_changes_its_argument_is_on_the_way_of_its_gradient() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    z = Doubled.apply(y)
    (z * y).sum().backward()
    assert z is y and y.tolist() == [2.0, 4.0, 6.0]
    assert x.grad is not None and x.grad.tolist() == [28.0, 56.0, 84.0]


class Pair(torch.autograd.Function):
    """Two results, of which one has no gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        return a * 1, a * 2

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Any) -> Tensor:
        return first + (1000 if second is None else second)


def test_gradients_that_are_not_made_zeros() -> None:
    x = torch.ones(3, requires_grad=True)
    Pair.apply(x)[0].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1001.0] * 3


def test_backward_for_some_leaves_and_for_second_derivatives() -> None:
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    (a * b * a).sum().backward(inputs=[a])
    torch.autograd.backward([a * 1.0, a * 0.0], [torch.zeros(2)] * 2, inputs=(one for one in [a]))
    assert a.grad is not None and a.grad.tolist() == [2.0, 2.0] and b.grad is None
    a.grad = None
    torch.autograd.backward((a**3).sum(), create_graph=True)
    assert torch.autograd.grad(a.grad.sum(), a)[0].tolist() == [6.0, 6.0]  # type: ignore[attr-defined]
    with pytest.raises(GradientError, match="inputs are leaves"):
        (a * b).sum().backward(inputs=[a * 1])


def test_parts_of_a_buffer_for_many_gradients_are_added_to() -> None:
    p, flat = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.zeros(5)
    p.grad = flat[1:4]
    for _ in range(2):
        (p * p).sum().backward()
    assert flat.tolist() == [0.0, 4.0, 8.0, 12.0, 0.0]


def test_schedules_with_rates_of_their_own() -> None:
    class Warm(torch.optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list[float]:
            return [base * min(1.0, (self.last_epoch + 1) / 4) for base in self.base_lrs]

    class Fixed(torch.optim.lr_scheduler.CosineAnnealingLR):
        def get_lr(self) -> list[float]:
            return [7.0 for _ in self.optimizer.param_groups]

    def rates(make: Callable[[Any], Any], steps: int) -> list[float]:
        optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        schedule, found = make(optimizer), []
        for _ in range(steps):
            found.append(optimizer.param_groups[0]["lr"])
            schedule.step()
        assert schedule._last_lr == [optimizer.param_groups[0]["lr"]] and schedule._step_count == steps + 1
        return found

    exponential = torch.optim.lr_scheduler.ExponentialLR
    np.testing.assert_allclose(rates(Warm, 5), [0.025, 0.05, 0.075, 0.1, 0.1])
    assert rates(lambda optimizer: Fixed(optimizer, 10), 2) == [7.0, 7.0]
    both = rates(lambda o: torch.optim.lr_scheduler.SequentialLR(o, [Warm(o), exponential(o, 0.5)], [3]), 6)
    np.testing.assert_allclose(both, [0.025, 0.05, 0.075, 0.1, 0.05, 0.025])
    chained = rates(lambda o: torch.optim.lr_scheduler.ChainedScheduler([Warm(o), exponential(o, 0.5)]), 3)
    np.testing.assert_allclose(chained, [0.025, 0.025, 0.0375])

    class Halved(torch.optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list[float]:
            rates = [group["lr"] for group in self.optimizer.param_groups]
            return [rate * 0.5 for rate in rates] if self.last_epoch else rates

    together = rates(lambda o: torch.optim.lr_scheduler.ChainedScheduler([Halved(o), exponential(o, 0.5)]), 3)
    np.testing.assert_allclose(together, [0.1, 0.025, 0.00625])
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    schedule = Halved(optimizer)
    schedule.step()
    schedule.load_state_dict(schedule.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.05
    with pytest.raises(NotImplementedError, match="get_lr"):
        torch.optim.lr_scheduler.LRScheduler(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1))


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_along_an_axis_of_one_element(any_device: str, dtype: str, axis: int) -> None:
    shape = (8, 1) if axis else (1, 8)
    index = torch.tensor(np.zeros(shape, np.int64))
    found = torch.zeros(shape, dtype=dtype).scatter_(axis, index, torch.ones(shape, dtype=dtype))
    assert found.tolist() == np.ones(shape, dtype).tolist()


def test_parts_of_an_empty_axis() -> None:
    x = torch.zeros(0, 4)
    assert [part.shape for part in x.split(2)] == [(0, 4)]
    assert [part.shape for part in x.chunk(2)] == [(0, 4), (0, 4)]


def test_complex_numbers_do_not_become_real_by_themselves() -> None:
    with pytest.raises(DtypeError, match=r"take \.real"):
        torch.tensor([1 + 2j]).to(torch.int32)


def test_one_hot_reads_no_values() -> None:
    hot = torch.jit(lambda labels: F.one_hot(labels, 3).float())
    assert hot(torch.tensor([1, 2])).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert hot(torch.tensor([0, 1])).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    with pytest.raises(ShapeError, match="one_hot: 7 is out of range"):
        F.one_hot(torch.tensor([1, 7]), 5).tolist()


def test_names_of_dtypes_axes_and_axes_of_vmap() -> None:
    assert torch.tensor([1.5]).type(torch.LongTensor).tolist() == [1]
    assert torch.tensor([1]).type("torch.cuda.FloatTensor").dtype == torch.float32
    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(3, 2)
    assert torch.einsum(x, [0, 1], y, [1, 2], [0, 2]).tolist() == [[3.0, 3.0], [12.0, 12.0]]
    assert torch.einsum(x, [1, 0]).shape == (3, 2)
    with pytest.raises(ShapeError, match="the list of its axes"):
        torch.einsum(x)
    scaled = torch.vmap(lambda a, b: a * b, in_dims=(1, None), out_dims=1, chunk_size=2)
    assert scaled(x, torch.tensor([1.0, 2.0])).tolist() == [[0.0, 1.0, 2.0], [6.0, 8.0, 10.0]]


def test_parameters_of_distributions_are_compared_where_that_is_asked_for() -> None:
    distributions = torch.distributions
    for made in (
        lambda: distributions.Normal(0.0, -1.0, validate_args=True),
        lambda: distributions.Normal(torch.zeros(2), torch.tensor([1.0, -1.0]), True),
    ):
        with pytest.raises(ConfigError, match="Normal: scale is not"):
            made()

    class Checked(distributions.Normal):  # type: ignore[misc,name-defined]
        def __init__(self, *parameters: Any) -> None:
            super().__init__(*parameters, validate_args=True)

    with pytest.raises(ConfigError, match="Checked: scale is not"):
        Checked(0.0, -1.0)
    assert distributions.Normal(0.0, 1.0, validate_args=True).mean.item() == 0.0
    assert distributions.Beta(1.0, 2.0, validate_args=True).mean.item() == pytest.approx(1 / 3)


def test_a_loop_around_a_cell_does_not_grow() -> None:
    cell = nn.RNNCell(4, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    state, x = torch.zeros(2, 4), torch.randn(2, 4)
    sizes = []
    for _ in range(8):
        state = cell(x, state.detach())
        optimizer.zero_grad()
        state.sum().backward()
        optimizer.step()
        sizes.append(len(UOp("SINK", (state._uop,)).toposort()))
    assert sizes[-1] <= sizes[2]


def test_a_gradient_without_create_graph_is_a_constant() -> None:
    w = torch.tensor([0.5, -1.0], requires_grad=True)
    seen: list[Any] = []
    y = w * 1.0
    y.register_hook(seen.append)
    (y**3).sum().backward()
    slope, kept = w.grad.clone(), w.grad.detach()
    (again,) = torch.autograd.grad((w**3).sum(), w)
    for constant in (slope, kept, again, seen[0], again / again.norm()):
        assert not constant.requires_grad
        found = torch.autograd.grad((w * constant).sum(), w)[0]
        assert found.tolist() == pytest.approx(constant.tolist())
    (tracked,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    assert torch.autograd.grad(tracked.sum(), w)[0].tolist() == pytest.approx([3.0, -6.0])


def test_first_order_steps_inside_of_a_loss() -> None:
    """As in first-order MAML: the second loss has no gradient by the step that led to it."""
    w = torch.tensor([0.5], requires_grad=True)
    (slope,) = torch.autograd.grad((w**2).sum(), w)
    ((w - 0.1 * slope) ** 2).sum().backward()
    assert w.grad is not None and w.grad.tolist() == pytest.approx([0.8])


def test_requires_grad_may_be_off_for_a_part_of_a_captured_call() -> None:
    p, q = (nn.Parameter(torch.ones(2)) for _ in range(2))
    made = []

    @torch.jit
    def step() -> None:
        p.requires_grad = False
        (p * q).sum().backward()
        made.append(torch.zeros(2))
        p.requires_grad = True

    step()
    (p * 3).sum().backward()
    assert p.grad is not None and p.grad.tolist() == [3.0, 3.0]


def test_a_parameter_that_shares_the_values_of_another() -> None:
    w = nn.Parameter(torch.ones(2) * 2)
    v = nn.Parameter(w.data)
    u = nn.Parameter(v.detach())
    with torch.no_grad():
        v.sub_(1.0)
    assert u.tolist() == v.tolist() == w.tolist() == [1.0, 1.0]
    (u * v * v).sum().backward()
    assert u.grad.tolist() == [1.0, 1.0] and v.grad.tolist() == [2.0, 2.0] and w.grad is None


@pytest.mark.parametrize(
    "part",
    [lambda _, loss: loss, lambda _, loss: loss.detach(), lambda y, _: y.detach(), lambda y, _: y.detach()[0, 0]],
)
def test_results_that_are_kept_keep_no_parameters(part: Callable[[Any, Any], Any]) -> None:
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, kept, held = torch.randn(2, 64), [], []
    for _ in range(12):
        y = model(x)
        loss = y.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(part(y, loss))
        held.append(sum(buffer.nbytes for buffer in live_buffers(model.weight.device)))
    assert held[-1] - held[3] < model.weight.nbytes


def test_a_second_backward_after_a_step() -> None:
    w = torch.ones(3).requires_grad_()
    optimizer = torch.optim.SGD([w], lr=0.5)
    loss = (w * w).sum()
    loss.backward()
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [4.0] * 3
    optimizer.step()
    with pytest.raises(GradientError, match="retain_graph=True"):
        loss.backward()
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    loss.backward()


@pytest.mark.parametrize("kind", ["before", "after", "outputs"])
def test_a_sum_that_nobody_reads_keeps_no_parameters(kind: str) -> None:
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, total, held = torch.randn(4, 64), torch.zeros(()), []
    for _ in range(12):
        y = model(x)
        loss = y.square().mean()
        optimizer.zero_grad()
        if kind == "before":
            total += loss.detach()
        loss.backward()
        optimizer.step()
        if kind == "after":
            total = total + loss.detach()
        if kind == "outputs":
            total = total * 0.9 + y.detach().mean()
        held.append(sum(buffer.nbytes for buffer in live_buffers(model.weight.device)))
    assert held[-1] <= held[3]


@pytest.mark.parametrize(
    "write",
    [
        lambda y, i, v: y.index_add(0, i, v),
        lambda y, i, v: y.index_copy_(0, i, v),
        lambda y, i, v: y.__setitem__(i, v) or y,
        lambda y, i, v: y.__setitem__(slice(0, 0), v) or y,
        lambda y, i, v: y.scatter_add(0, i.unsqueeze(1).expand(-1, 2), v),
        lambda y, i, v: torch.cat([y, v]),
    ],
)
def test_what_is_made_of_no_elements_has_a_zero_gradient(write: Callable[..., Any]) -> None:
    layer, x = nn.Linear(3, 2), torch.ones(4, 3)
    (nothing,) = torch.where(x[:, 0] > 5)
    y = write(torch.zeros(4, 2), nothing, layer(x[nothing]))
    assert y.tolist() == [[0.0, 0.0]] * 4
    y.sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[0.0] * 3] * 2


def test_a_view_of_all_of_a_tensor_at_chosen_places() -> None:
    for shape in ((1, 1), (1, 1, 1), (1, 5, 1)):
        v = torch.ones(*shape)
        v.diagonal().fill_(3.0)
        assert v.flatten()[0].item() == 3.0 and v.sum().item() == v.numel() + 2
