"""Views: an update of one is an update of its base and of all others, as in NumPy and PyTorch.

Programs are generated and compared with a model in NumPy, in which a tensor is a memory and the places in it: NumPy's
own arrays would not do, as their `reshape` copies where ours is always a view.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulegrad import Tensor, config, nn, no_grad, optim
from rulegrad.errors import AliasError, GradientError


class Model:
    """A tensor in NumPy: places in a memory that others may share."""

    def __init__(self, memory: Any, places: Any, frozen: bool = False) -> None:
        self.memory, self.places, self.frozen = memory, places, frozen

    @classmethod
    def of(cls, values: Any) -> Model:
        return cls(np.array(values).reshape(-1), np.arange(np.size(values)).reshape(np.shape(values)))

    @property
    def values(self) -> Any:
        return self.memory[self.places]

    def write(self, values: Any) -> None:
        self.memory[self.places] = values


#: A view of a tensor, and the same of an array of places.
VIEWS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x[1:] if x.ndim else x[None], lambda p: p[1:] if p.ndim else p[None]),
    (lambda x: x[::-2] if x.ndim else x[...], lambda p: p[::-2] if p.ndim else p[...]),
    (lambda x: x[..., ::2] if x.ndim else x.view(1), lambda p: p[..., ::2] if p.ndim else p.reshape(1)),
    (lambda x: x[-1] if x.ndim and x.shape[0] else x.view_as(x), lambda p: p[-1] if p.ndim and p.shape[0] else p),
    (lambda x: x.T, lambda p: p.T),
    (lambda x: x.reshape(-1), lambda p: p.reshape(-1)),
    (lambda x: x.unsqueeze(0).flip(-1), lambda p: p[None][..., ::-1]),
    (lambda x: x.reshape(2, -1) if x.size % 2 == 0 and x.size else x.real,
     lambda p: p.reshape(2, -1) if p.size % 2 == 0 and p.size else p),
    (lambda x: x.diagonal() if x.ndim == 2 else x.squeeze(), lambda p: p.diagonal() if p.ndim == 2 else p.squeeze()),
    (lambda x: x.split(1)[0] if x.ndim and x.shape[0] else x.expand(x.shape),
     lambda p: p[:1] if p.ndim and p.shape[0] else p),
    (lambda x: x.unfold(0, 2, 2) if x.ndim and x.shape[0] >= 4 else x.flatten(),
     lambda p: np.moveaxis(p[: p.shape[0] // 2 * 2].reshape(-1, 2, *p.shape[1:]), 1, -1)
     if p.ndim and p.shape[0] >= 4 else p.reshape(-1)),
    (lambda x: x.detach(), lambda p: p),
]  # fmt: skip
#: An update in place of a tensor by a number, and of an array.
UPDATES: list[tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]] = [
    (lambda x, k: x.__iadd__(k), lambda v, k: v + k),
    (lambda x, k: x.mul_(k - 1), lambda v, k: v * (k - 1)),
    (lambda x, k: x.__setitem__(..., k), lambda v, k: np.full_like(v, k)),
    (lambda x, k: x.copy_(x.reshape(-1).flip(0).reshape(x.shape)), lambda v, k: v.reshape(-1)[::-1].reshape(v.shape)),
    (lambda x, k: np.add(x, k, out=x), lambda v, k: v + k),
]
#: Those that have another gradient than the model, or one with steps.
OTHERS: list[tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]] = [
    (lambda x, k: x.assign(x * 2 - x.sum().cast(x.dtype)), lambda v, k: v * 2 - v.sum(dtype=v.dtype)),
    (lambda x, k: x.neg_().detach().sub_(k), lambda v, k: -v - k),
    (lambda x, k: x.masked_fill_(x > k, 0), lambda v, k: np.where(v > k, 0, v)),
    (lambda x, k: x.__setitem__(x > k, k), lambda v, k: np.where(v > k, k, v)),
    (lambda x, k: x.clamp_(-k, k), lambda v, k: np.clip(v, -k, k)),
    (lambda x, k: x.index_add_(0, [0, 0], Tensor.ones(2, *x.shape[1:], dtype=x.dtype)) if x.ndim and x.size else x,
     lambda v, k: np.concatenate([v[:1] + 2, v[1:]]).astype(v.dtype) if v.ndim and v.size else v),
]  # fmt: skip
KINDS = ("new", "view", "view", "view", "update", "update", "update", "item", "copy", "put", "realize", "drop", "read")
Step = tuple[str, int, int, int]


class Machine:
    """Tensors, and models that should have the same values."""

    def __init__(self, values: Any, updates: list[Any]) -> None:
        self.updates = updates
        self.tensors: list[Any] = []
        self.models: list[Model] = []
        self.keep(Tensor(values), Model.of(values))

    def keep(self, tensor: Any, model: Model) -> None:
        self.tensors.append(tensor)
        self.models.append(model)

    def run(self, kind: str, a: int, b: int, k: int) -> None:
        a, b = a % len(self.tensors), b % len(self.tensors)
        x, model = self.tensors[a], self.models[a]
        if kind == "new":
            values = np.arange(8, dtype=model.memory.dtype).reshape(2, 4) + k
            self.keep(Tensor(values), Model.of(values))
        elif kind == "view":
            view, same = VIEWS[k % len(VIEWS)]
            self.keep(view(x), Model(model.memory, same(model.places), model.frozen))
        elif kind == "update":
            update, same = self.updates[k % len(self.updates)]
            update(x, k % 4)
            model.write(same(model.values, k % 4))
        elif kind == "item" and x.ndim and x.shape[0]:
            x[k % x.shape[0]] += 3
            model.memory[model.places[k % x.shape[0]]] += 3
        elif kind == "copy":
            clone = [lambda: x.clone(), lambda: +x, lambda: x + 0, lambda: x.cast(x.dtype)][k % 4]
            self.keep(clone(), Model.of(model.values))
        elif kind == "put" and self.tensors[b].shape == x.shape:
            x[...] = self.tensors[b]
            model.write(self.models[b].values)
        elif kind == "realize":
            Tensor.realize(x, *self.tensors[: k % 3])
        elif kind == "drop" and len(self.tensors) > 1:
            del self.tensors[a], self.models[a]
        elif kind == "read":
            np.testing.assert_array_equal(x.numpy(), model.values)

    def check(self) -> None:
        Tensor.realize(*self.tensors)
        for tensor, model in zip(self.tensors, self.models, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), model.values)


def steps(kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Step]:
    number = st.integers(0, 20)
    return st.tuples(st.sampled_from(kinds), number, number, number)


def run(program: list[Step], device: str) -> None:
    with config(device=device):
        machine = Machine(np.arange(24, dtype=np.int32).reshape(4, 6), UPDATES + OTHERS)
        for step in program:
            machine.run(*step)
        machine.check()


@given(st.lists(steps(), min_size=3, max_size=16))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_programs(program: list[Step]) -> None:
    run(program, "numpy")


@given(st.lists(steps(), min_size=4, max_size=8))
@settings(max_examples=6, deadline=None, derandomize=True)
def test_programs_on_c(program: list[Step]) -> None:
    run(program, "c")


# ---- gradients ----


def _loss(program: list[Step], values: Any) -> tuple[Any, Any]:
    """The loss of a program whose first tensor is computed from `values`: in tensors, with the leaf, and in NumPy."""
    leaf = Tensor(values, requires_grad=True)
    machine = Machine(values * 2, UPDATES)
    machine.tensors[0] = leaf * 2
    for step in program:
        machine.run(*step)
    loss: Any = sum(((x * x).sum() * (k + 1) for k, x in enumerate(machine.tensors)), start=leaf.sum() * 0)
    same = sum((model.values**2).sum() * (k + 1) for k, model in enumerate(machine.models))
    np.testing.assert_allclose(loss.item(), same, rtol=1e-9, atol=1e-9)
    loss.backward()
    return leaf.grad.numpy(), same


DIFFERENTIABLE = tuple(kind for kind in KINDS if kind not in ("new", "drop"))


@given(st.lists(steps(DIFFERENTIABLE), min_size=3, max_size=8))
@settings(derandomize=True)
def test_gradients_of_programs(program: list[Step]) -> None:
    program = [(kind, a, b, k % (len(VIEWS) - 1) if kind == "view" else k) for kind, a, b, k in program]
    values = np.linspace(-0.5, 0.7, 12).reshape(3, 4)
    with config(device="numpy"):
        found, _ = _loss(program, values)
        for place in ((0, 0), (1, 2), (2, 3)):
            step = np.zeros_like(values)
            step[place] = 1e-4
            slope = (_loss(program, values + step)[1] - _loss(program, values - step)[1]) / 2e-4
            np.testing.assert_allclose(found[place], slope, rtol=1e-5, atol=1e-5)


# ---- one by one ----


@pytest.fixture
def base() -> Any:
    return Tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device="numpy")


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.__iadd__(1), lambda v: v.__isub__(1), lambda v: v.__imul__(3), lambda v: v.__itruediv__(2),
        lambda v: v.__ipow__(2), lambda v: v.__imod__(2), lambda v: v.__ifloordiv__(2), lambda v: v.fill_(7),
        lambda v: v.zero_(), lambda v: v.copy_(Tensor([9.0, 8.0], device="numpy")), lambda v: v.assign([9.0, 8.0]),
        lambda v: v.exp_(), lambda v: v.clamp_(5, 6), lambda v: v.masked_fill_(v > 5, 0), lambda v: v.lerp_(v + 1, 0.5),
        lambda v: v.scatter_(0, Tensor([1], device="numpy"), Tensor([4.0], device="numpy")), lambda v: v.normal_(),
        lambda v: v.index_copy_(0, [1], [7.0]), lambda v: v.cumsum_(0), lambda v: v.__setitem__(1, 5),
        lambda v: v.__setitem__([0], 5), lambda v: v.__setitem__(v > 5, 0), lambda v: np.exp(v, out=v),
        lambda v: v.data.add_(1), lambda v: v[:1].mul_(5), lambda v: v.random_(9), lambda v: v.sub_(1, alpha=2),
    ],
)  # fmt: skip
def test_every_update_of_a_view_is_one_of_its_base(base: Any, change: Callable[[Any], Any]) -> None:
    before = base.numpy()
    column = base[1:, 2]
    row = base[1]
    change(column)
    assert column.tolist() == base[1:, 2].tolist() != before[1:, 2].tolist()
    assert row[2].item() == column[0].item()
    others = np.ones((3, 4), bool)
    others[1:, 2] = False
    np.testing.assert_array_equal(base.numpy()[others], before[others])


def test_complex_parts_bits_and_rows_are_views(any_device: str) -> None:
    z = Tensor([1 + 2j, 3 + 4j])
    z.real += 10
    imaginary = z.imag
    imaginary[0] = 7
    assert z.tolist() == [11 + 7j, 13 + 4j]
    x = Tensor([1.0, -2.0])
    bits = x.view("int32")
    bits &= 0x7FFFFFFF
    assert x.tolist() == [1.0, 2.0]
    matrix = Tensor([[1, 2], [3, 4]])
    for row in matrix:
        row *= row[0].item()
    first, second = matrix.unbind(1)
    first += second
    assert matrix.tolist() == [[3, 2], [21, 12]]


def test_what_repeats_elements_cannot_be_changed_but_follows(any_device: str) -> None:
    x = Tensor([[1.0, 2.0, 3.0]])
    wide, windows = x.expand(2, 3), x.unfold(1, 2, 1)
    grids = Tensor([1.0]).broadcast_to(3)
    for view in (wide, wide[0], wide.T, windows, windows.reshape(-1), grids, grids.realize(), wide.detach()):
        with pytest.raises(AliasError, match=r"one place.*\.clone\(\)"):
            view += 1
        with pytest.raises(ValueError, match=r"one place.*\.clone\(\)"):
            view[...] = 1
    x += 1
    assert wide.tolist() == [[2.0, 3.0, 4.0]] * 2 and windows.tolist() == [[[2.0, 3.0], [3.0, 4.0]]]
    copied = wide.clone()
    copied += 1
    assert x.tolist() == [[2.0, 3.0, 4.0]]
    empty = x.expand(0, 3)
    empty += 1


def test_a_part_that_is_put_where_it_is_changes_nothing(base: Any) -> None:
    before = base.uop
    base[1:3, ::2] = base[1:3, ::2]
    assert base.uop == before
    base[1:3] += 1
    grown = base.uop
    base[1:3] = base[1:3]
    assert base.uop == grown
    base[:2] = base[1:]
    assert base.tolist() == [[5, 6, 7, 8], [9, 10, 11, 12], [9, 10, 11, 12]]


def test_graphs_keep_what_they_were_built_of(base: Any) -> None:
    view = base[0]
    double, total = view * 2, base.sum()
    view += 100
    assert double.tolist() == [0, 2, 4, 6] and total.item() == 66 and base.sum().item() == 466


def test_a_computed_base_is_what_its_views_read(base: Any) -> None:
    computed = base.exp()
    view = computed[1]
    computed.realize()
    assert [node.op for node in view.uop.toposort()] == ["BUFFER", "SHRINK", "RESHAPE"]
    flat = (base * 2).reshape(-1)
    twin = flat.reshape(3, 4)
    del flat
    twin.realize()
    assert twin.uop.op == "BUFFER"


def test_a_view_of_what_is_gone_is_a_tensor_like_any_other(base: Any) -> None:
    view = (base * 2)[1]
    view.realize()
    assert view._view is None
    view += 1
    assert view.tolist() == [9, 11, 13, 15]


# ---- gradients, one by one ----


def test_updates_of_leaves_and_of_views_of_them(any_device: str) -> None:
    leaf = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    view = leaf[1:]
    with pytest.raises(GradientError, match="view of a leaf"):
        view += 1
    with pytest.raises(GradientError, match="view of a leaf"):
        leaf.reshape(3, 1)[0] = 1
    with no_grad():
        view += 1
    assert leaf.tolist() == [1.0, 3.0, 4.0] and leaf.requires_grad and leaf.is_leaf
    assert view.requires_grad and not view.is_leaf
    (view * view).sum().backward()
    assert leaf.grad.tolist() == [0.0, 6.0, 8.0]
    leaf.data[0] = 5
    leaf.detach().reshape(3)[1:].mul_(2)
    assert leaf.tolist() == [5.0, 6.0, 8.0] and leaf.requires_grad


def test_an_update_behind_the_gradient_leaves_it(any_device: str) -> None:
    """As in PyTorch: the values are new, and the gradient is that of what was there."""
    leaf = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    double = leaf * 2
    double.detach()[0] = 50
    with no_grad():
        double[1:] *= 10
        double += 1
    assert double.tolist() == [51.0, 41.0, 61.0] and double.requires_grad
    (double * Tensor([1.0, 2.0, 3.0])).sum().backward()
    assert leaf.grad.tolist() == [2.0, 4.0, 6.0]


def test_gradients_of_values_that_were_put(any_device: str) -> None:
    """The values of torch 2.13 for the same lines."""
    leaf, other = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True), Tensor([5.0, 6.0], requires_grad=True)
    x = leaf * leaf
    x[1:3] = other
    part = x.reshape(2, 2)[:, 1]
    part *= leaf[:2]
    x.detach().zero_()
    y = Tensor.zeros(4)
    y[::2] += leaf[2:] * other
    (x * Tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert (leaf.grad.tolist(), other.grad.tolist()) == ([12.0, 64.0, 0.0, 64.0], [2.0, 3.0])
    (y * y).sum().backward()
    assert leaf.grad.tolist() == [12.0, 64.0, 150.0, 352.0] and other.grad.tolist() == [92.0, 195.0]


def test_leaves_that_share(any_device: str) -> None:
    start = Tensor([1.0, 2.0])
    before = start[:1]
    leaf = start.detach().requires_grad_()
    (leaf * 2 + start * 3).sum().backward()
    assert leaf.grad.tolist() == [2.0, 2.0] and not start.requires_grad
    start += 1
    assert leaf.tolist() == [2.0, 3.0] and leaf.is_leaf and leaf.requires_grad
    with no_grad():
        leaf *= 10
    assert start.tolist() == [20.0, 30.0] and before.tolist() == [20.0]
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [42.0, 62.0]


# ---- models, copies, transforms ----


def test_state_dicts_and_parameters_are_views(any_device: str) -> None:
    layer = nn.Linear(2, 1, bias=False)
    state, kept = layer.state_dict(), copy.deepcopy(layer.state_dict())
    sgd = optim.SGD(layer.parameters(), lr=0.5)
    layer(Tensor.ones(1, 2)).sum().backward()
    sgd.step()
    assert state["weight"].tolist() == layer.weight.tolist() != kept["weight"].tolist()
    state["weight"].copy_(kept["weight"])
    assert layer.weight.tolist() == kept["weight"].tolist() and layer.weight.requires_grad
    values = Tensor([1.0, 2.0])
    weight = nn.Parameter(values)
    sgd = optim.SGD([weight], lr=0.5)
    (weight * weight).sum().backward()
    sgd.step()
    assert values.tolist() == weight.tolist() == [0.0, 0.0] and not values.requires_grad


def test_copies_and_pickles_are_apart(base: Any) -> None:
    view = base[0]
    for other in (copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view)), Tensor(view)):
        other += 1
    assert base[0].tolist() == [0, 1, 2, 3]
    array = np.asarray(view)
    view += 1
    assert array.tolist() == [0, 1, 2, 3]


def test_updates_inside_functions_that_are_transformed(any_device: str) -> None:
    from rulegrad import grad, vmap

    def scaled(x: Any) -> Any:
        y = x * 1
        y[1:] *= x[:-1]
        y.reshape(-1)[0] += 5
        return y.sum()

    x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert grad(scaled)(x[0]).tolist() == [3.0, 4.0, 2.0]
    assert vmap(scaled)(x).tolist() == [14.0, 59.0]
    assert vmap(grad(scaled))(x).tolist() == [[3.0, 4.0, 2.0], [6.0, 10.0, 5.0]]
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


# ---- clients that are written for NumPy ----


def test_overlapping_blocks_are_added_up(any_device: str) -> None:
    """As scipy.signal.oaconvolve adds blocks up: the tail of each to the head of the next, in views of views."""

    def joined(blocks: Any, overlap: int) -> Any:
        whole, tail = blocks[:, :-overlap], blocks[:, -overlap:]
        part = whole[1:, :overlap]
        part += tail[:-1]
        return whole.reshape(-1)

    blocks = np.arange(15.0).reshape(3, 5)
    assert joined(Tensor(blocks), 2).tolist() == joined(blocks, 2).tolist()


def test_state_that_is_kept_in_views(any_device: str) -> None:
    """As scipy.integrate.tanhsinh and sklearn's GaussianMixture do: active rows, running sums, a diagonal."""

    def updated(xp: Any, x: Any) -> Any:
        flat = x.reshape(-1)
        flat[:: x.shape[1] + 1] += 1e-6
        best, last = x[0], x[-1, :]
        best -= last
        x[:, 1] = best[:3]
        rows = xp.sum(x * x, 0)
        last[...] = rows[:4]
        return x

    values = np.arange(12.0).reshape(3, 4)
    found = updated(Tensor, Tensor(values))
    np.testing.assert_allclose(found.numpy(), updated(np, values.copy()), rtol=1e-15)
