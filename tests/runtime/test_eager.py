"""Small computations by the engine alone: the same results and the same nodes as by Python, and who turns it off."""

from __future__ import annotations

import itertools
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import forget_kernels
from rulegrad.config import config
from rulegrad.errors import DeviceError, IndexRangeError, ShapeError
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.runtime.eager import eager
from rulegrad.runtime.memory_table import live
from rulegrad.tensor import elementwise
from rulegrad.tensor.history import _items

OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv)


def vector(seed: int = 0, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.random.default_rng(seed).uniform(1, 2, 100).astype(dtype), device="c")


def by_python(make: Callable[[], Any]) -> Any:
    """The result of `make` where a profile looks on."""
    with rg.profile():
        return make()


@pytest.fixture(autouse=True)
def _is_on() -> Iterator[None]:
    """The engine takes small computations once Python has met one, by plans of one size."""
    with config(general_plans=0):
        x = vector()
        (x + 1).realize()
        assert eager.realize(x + 1)
        yield


def _of_many_kinds() -> dict[str, Tensor]:
    """Tensors that differ in shape, in whether they are views of others, and in their gradients."""
    made = {name: Tensor(np.ones(shape, np.float32), device="c") for name, shape in _SHAPES.items()}
    leaf, pending = made["row"].clone().requires_grad_(), (made["row"] * 3).requires_grad_()
    changed = made["matrix"].clone()
    part = changed[:, 0]
    changed += 1  # so the view's node is another now
    return made | {
        "leaf": leaf, "pending": pending, "tracked": leaf * 2, "part of a leaf": leaf[1:], "part": made["matrix"][1],
        "part of a part": made["cube"][0][1], "of what changed": part, "rows": made["matrix"].T, "one": made["matrix"][0, 0],
        "part of a sum": (made["matrix"] + 1)[0], "repeated": made["column"].expand(4, 3),
    }  # fmt: skip


_SHAPES = {
    "matrix": (4, 3),
    "row": (3,),
    "column": (4, 1),
    "cube": (2, 4, 3),
    "number": (),
    "nothing": (0, 3),
    "four": (4,),
}


@pytest.mark.parametrize("gradients", [True, False])
def test_shapes_that_broadcast_views_and_gradients(gradients: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = _of_many_kinds()
    python, binary = [], elementwise.binary
    monkeypatch.setattr(elementwise, "binary", lambda *given: python.append(given) or binary(*given))
    native: set[str] = set()
    for (a, first), (b, second) in itertools.product(tensors.items(), repeat=2):
        with rg.set_grad_enabled(gradients):
            try:
                expected = by_python(lambda x=first, y=second: x * y)
            except ShapeError as error:
                with pytest.raises(ShapeError, match=str(error).partition(":")[0]):
                    first * second
                continue
            python.clear()
            found = first * second
            native |= {a} if not python else set()
        assert found.uop is expected.uop or found.uop == expected.uop, (a, b)
        assert found.requires_grad == expected.requires_grad, (a, b)
        assert found.device == expected.device and set(_items(found._past())) == set(_items(expected._past())), (a, b)
    by_python_always = set() if gradients else {"leaf", "part of a leaf", "pending", "tracked"}
    assert set(tensors) - native == by_python_always


def test_each_thread_has_gradients_of_its_own() -> None:
    seen: list[bool] = []
    with rg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(rg.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not rg.is_grad_enabled()
    assert seen == [True] and rg.is_grad_enabled()


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, bool])
def test_operators_give_the_nodes_that_python_gives(op: Any, dtype: Any) -> None:
    x, y = vector(0, dtype), vector(1, dtype)
    others: tuple[Any, ...] = (y, 2, 0.5, -1.5, 3.0, float("inf"), float("nan"), -float("nan"), True, x)
    for other in others:
        for first, second in ((x, other), (other, x)):
            try:
                expected = by_python(lambda a=first, b=second: op(a, b))
            except rg.errors.DtypeError as error:
                with pytest.raises(rg.errors.DtypeError, match=str(error)[:10]):
                    op(first, second)
                continue
            found = op(first, second)
            assert found.uop is expected.uop or found.uop == expected.uop
            assert (found.device, found.requires_grad, found.grad) == (expected.device, False, None)


def test_operands_that_python_has_to_look_at() -> None:
    x = vector()
    with pytest.raises(ShapeError, match="do not broadcast"):
        x + Tensor(np.ones(7, np.float32), device="c")
    with pytest.raises(DeviceError, match="the operands are on c and numpy"):
        x + Tensor(np.ones(100, np.float32), device="numpy")
    with pytest.raises(rg.errors.DtypeError, match="does not fit"):
        x + 10**400
    assert (x + Tensor(np.ones((3, 1), np.float32), device="c")).shape == (3, 100)
    assert (x + np.ones(100)).dtype == "float64"
    with pytest.raises(TypeError):
        x + object()
    w = vector().requires_grad_()
    (w * x).sum().backward()
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.numpy(), x.numpy())


def test_operators_look_like_methods() -> None:
    x = vector()
    assert Tensor.__add__.__name__ == "operator"
    np.testing.assert_array_equal(x.__add__(1).numpy(), (x + 1).numpy())
    np.testing.assert_array_equal(Tensor.__rsub__(x, 3.0).numpy(), 3 - x.numpy())


def test_a_known_graph_needs_no_python() -> None:
    x, y = vector(0), vector(1)
    wanted = (x.numpy() + y.numpy()) * 0.5
    ((x + y) * 0.5).realize()
    for first, second in ((x, y), (y, x)):
        made = (first + second) * 0.5
        assert eager.realize(made)
        assert made.uop.op == "BUFFER" and eager.realize(made)
        np.testing.assert_array_equal(made.numpy(), wanted)
        buffer = Buffer.of(made.uop)
        assert (buffer.shape, buffer.dtype, buffer.device, buffer.nbytes) == ((100,), "float32", "c", 400)


def test_plans_of_all_sizes_are_the_engines_for_a_while() -> None:
    """A loop's number is another one each time; now and then Python sees which are used often."""

    def is_known(x: Tensor) -> bool:
        if eager.realize(x):
            return True
        x.realize()
        return False

    values = np.arange(28, dtype=np.float32).reshape(7, 4)
    with config(general_plans=1):
        x = Tensor(values, device="c")
        found = [is_known((x * k).sum()) for _ in range(20) for k in range(2, 8)]
        assert found.count(True) > 90
        assert not all(found[60:])
        for k in range(2, 8):
            total = (x * k).sum()
            is_known(total)
            assert total.item() == values.sum() * k


def test_what_others_want_to_see_or_to_keep_goes_through_python() -> None:
    x = vector()
    with rg.profile() as profile:
        assert not eager.realize(x + 1)
        (x + 1).realize()
    assert len(profile.kernels) == 1
    with config(debug=2):
        assert eager.is_off and not eager.realize(x + 1)
    assert not eager.is_off
    ((x + 1) * 2).realize()
    known = (x + 1) * 2  # pytest would hold the parts of an expression in an assertion
    assert eager.realize(known)
    del known
    made = x + 1
    assert not eager.realize(made * 2)  # `made` may be worth keeping: Python decides once
    same, again = x + 1, x + 1
    assert eager.realize(same)
    np.testing.assert_array_equal(again.numpy(), x.numpy() + 1)
    assert not eager.realize(x[2:] + 1)


def test_gradients_go_on_from_what_the_engine_computes() -> None:
    w, x = vector().requires_grad_(), vector(1)
    (w * x).realize()
    y = w * x
    assert eager.realize(y) and y.requires_grad
    (y * y).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.numpy() * x.numpy() ** 2, rtol=1e-6)


def test_what_is_made_of_nothing_is_of_its_device() -> None:
    Tensor.arange(7, device="c").realize()
    made = Tensor.arange(7, device="c")
    assert eager.realize(made) and made.device == "c" and made.tolist() == list(range(7))
    assert not eager.realize(Tensor.arange(7, device="numpy"))
    with config(device="c"):
        Tensor.zeros(5).realize()
        default = Tensor.zeros(5)
        assert eager.realize(default) and default.device == "c"
    with config(device="numpy"):
        other = Tensor.zeros(5)
        assert other.realize().device == "numpy"


def test_wrong_indices_are_told_of_what_the_engine_computes() -> None:
    table = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device="c")
    places = [Tensor(np.array(values, np.int64), device="c") for values in ([0, 3], [1, 2], [0, 4], [3, 0])]
    table[places[0]].realize()
    for place, expected in ((places[1], [1, 2]), (places[3], [3, 0])):
        found = table[place]
        assert eager.realize(found)
        np.testing.assert_array_equal(found.numpy(), table.numpy()[expected])
    wrong = table[places[2]]
    assert eager.realize(wrong)
    with pytest.raises(IndexRangeError, match="4 is out of range for axis 0 of size 4"):
        wrong.tolist()
    with pytest.raises(IndexRangeError, match="4 is out of range"):
        (wrong + 1).tolist()
    assert table[places[1]].tolist() == [[3, 4, 5], [6, 7, 8]]


def test_memory_that_nobody_needs_is_taken() -> None:
    def changed(x: Tensor) -> tuple[bool, bool]:
        before = devices.get("c").memory_of(x._history.handle, 1).ctypes.data
        x += 1
        natively = eager.realize(x)
        x.realize()
        return natively, devices.get("c").memory_of(x._history.handle, 1).ctypes.data == before

    x = Tensor(np.zeros(4000, np.float32), device="c")
    (x + 0).realize()
    assert changed(x)[1]
    assert changed(x) == (True, True)
    held = [x._history]
    changed(x)  # Python meets it first
    held = [x._history]
    assert changed(x) == (True, False) and held
    np.testing.assert_array_equal(x.numpy(), np.full(4000, 4, np.float32))


def test_large_results_know_their_line() -> None:
    x = Tensor(np.zeros(50_000, np.float32), device="c")
    (x + 1).realize()
    y = x + 1
    assert eager.realize(y)
    assert y._history.made_at is not None and y._history.made_at[0] == __file__


def _held(*, matrix: Tensor, row: Tensor, steps: Callable[..., list[Tensor]]) -> list[Any]:
    """The states of the tensors on the way once the last of the steps is computed, and the values of all."""
    made = steps(matrix, row)
    asked, others = made[-1], made[:-1]
    asked.realize()
    known = {tensor._uop: number for number, tensor in enumerate((matrix, row, *made))}
    states = [
        (tensor._uop.op, sorted(known.get(node, -1) for node in tensor._uop.toposort("BUFFER")), tensor._device)
        for tensor in others
    ]
    return [states, *[tensor.numpy().tolist() for tensor in made], *[(tensor * 2).sum().item() for tensor in others]]


@pytest.mark.parametrize(
    "steps",
    [
        lambda m, r: [m @ m.T, (m @ m.T).sum(0), (m @ m.T).sum(0) * 2 + 1],
        lambda m, r: [total := (m * r).exp().sum(1), total + 1, (total + 1).sum()],
        lambda m, r: [y := m.softmax(1), y.T, y.argmax(1)],
        lambda m, r: [y := m * 3, y.reshape(3, 4), z := y - r, (z * z).mean()],
        lambda m, r: [y := (m @ m.T).tanh(), y + 0, (y @ m).max()],
        lambda m, r: [y := m + 1, m + 1, y * 1],
        lambda m, r: [y := m + 1, y.detach()],
        lambda m, r: [y := m + 1, y.reshape(3, 4), y.reshape(12)],
        lambda m, r: [y := m.exp().sum(0), y[1:], y.detach()[1:]],
        lambda m, r: [Tensor.zeros(3, device="c"), zeros := Tensor.zeros(4, 3), (m + zeros).sum(0)],
        lambda m, r: [m[1] * 2, (m[1] * 2)[0], (m[1] * 2).sum() - r[0]],
        lambda m, r: [large := (m.reshape(12, 1) @ m.reshape(1, 12)).repeat(20, 20).exp(), large.sum(0), large.sum()],
    ],
)
def test_values_on_the_way_are_those_that_python_keeps(steps: Callable[..., list[Tensor]]) -> None:
    matrix = Tensor(np.random.default_rng(0).uniform(1, 2, (4, 3)).astype(np.float32), device="c")
    row = Tensor(np.arange(3, dtype=np.float32), device="c")
    expected = by_python(lambda: _held(matrix=matrix, row=row, steps=steps))
    for _ in range(4):
        assert _held(matrix=matrix, row=row, steps=steps) == expected


def test_a_tensor_of_no_device_is_that_of_the_default_one() -> None:
    x = vector()
    for default in ("c", "numpy", "c"):
        with config(device=default):
            for _ in range(3):
                made = Tensor.ones(100).exp() + x.shape[0]
                total = (made * x).sum()
                total.realize()
                assert made.device == default and total.device == "c"
                np.testing.assert_allclose(made.numpy(), np.e + 100, rtol=1e-5)


def test_a_loop_that_holds_its_last_values_needs_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    a = Tensor([2.0, 3.0, 5.0], device="c")

    def roots() -> tuple[list[float], int]:
        x, steps = a, 0
        while True:
            before, x = x, 0.5 * (x + a / x)
            steps += 1
            if (x - before).abs().max() < 1e-6:
                return x.tolist(), steps

    expected = roots()
    assert roots() == expected
    python: list[Any] = []
    monkeypatch.setattr(rg.tensor.realize, "_realize_group", lambda *given: python.append(given))
    assert roots() == expected and not python
    np.testing.assert_allclose(expected[0], np.sqrt([2, 3, 5]), rtol=1e-6)


def test_a_graph_that_others_hold_finds_the_result() -> None:
    x = vector()
    made = x + 1
    node = made.uop
    assert eager.realize(made)
    later = Tensor(node)
    later.realize()
    assert later.uop == made.uop


def test_memory_is_given_back() -> None:
    x = vector()
    allocator = devices.allocator("c")
    ((x + 1) * 3).realize()
    before = allocator.in_use
    kept = [((x + 1) * 3).realize() for _ in range(10)]
    assert allocator.in_use == before + 10 * 512 and allocator.most_in_use >= allocator.in_use
    del kept
    assert allocator.in_use == before
    buffers = len(live)
    for _ in range(1000):
        x = x + 1
        x.realize()
    assert allocator.in_use <= before + 512 and len(live) <= buffers + 1
    np.testing.assert_allclose(x.numpy(), vector().numpy() + 1000, rtol=1e-5)


def test_forgotten_kernels_are_compiled_again() -> None:
    x = vector()
    forget_kernels()
    assert not eager.realize(x + 1)
    np.testing.assert_array_equal((x + 1).numpy(), x.numpy() + 1)


def test_threads() -> None:
    x, found = vector(), []

    def work() -> None:
        for _ in range(300):
            found.append(float((x * 2 - x).realize().numpy()[0]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(found, [float(x.numpy()[0])] * 1200, rtol=1e-6)


def test_nothing_leaks() -> None:
    x, y = vector(0), vector(1)
    (x + y).realize()
    before = [sys.getrefcount(one) for one in (None, False, (), Tensor, Buffer, x, y)]
    for _ in range(10_000):
        (x + y).realize()
    after = [sys.getrefcount(one) for one in (None, False, (), Tensor, Buffer, x, y)]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) < 1000


def test_views_that_the_engine_computes_stay_views() -> None:
    """A view that is read has a buffer with its values, and follows its base and is followed by it as before."""
    movements: list[Callable[[Tensor], Tensor]] = [
        lambda x: x.flip(0), lambda x: x.T, lambda x: x[1:3, ::2], lambda x: x[2], lambda x: x.reshape(3, 4), lambda x: x.expand(2, 4, 3),
    ]  # fmt: skip
    for movement in movements:
        base = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device="c")
        movement(base).realize()  # in Python, which tells the engine
        view = movement(base)
        assert eager.realize(view)
        before = view.numpy().copy()
        base += 100
        np.testing.assert_array_equal(view.numpy(), before + 100)
        np.testing.assert_array_equal(movement(base).numpy(), before + 100)
        if view.ndim < 3:  # elements of an expanded one are one place
            view *= 2
            np.testing.assert_array_equal(movement(base).numpy(), 2 * (before + 100))


def test_a_view_of_what_nobody_holds_is_a_tensor_of_its_own() -> None:
    def part() -> Tensor:
        return Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device="c").T

    part().realize()
    view = part()
    assert eager.realize(view) and view._view is None
    view += 1
    np.testing.assert_array_equal(view.numpy(), np.arange(12).reshape(4, 3).T + 1)


INDICES: list[Any] = [
    1, -1, slice(None), slice(1, 3), slice(-2, None), slice(3, 1), (1, 2), (slice(None), -1), (..., 0), (None, 1, ...),
    (slice(1, None), None, slice(0, 2)), (0, ..., None), ..., None, (), (1, ..., slice(None, -1)), slice(None, None, 2), (slice(3, None, -2), slice(1, None, 2)), (0, slice(None, None, -1)), (slice(-1, 0, -3), None),
    (slice(1, 1, 2), 0), (slice(None), slice(None, None, 5)), (slice(None, None, 2), slice(0, 2)),
    True, np.int64(1), slice(None, None, -1),
]  # fmt: skip


def _view_of(x: Tensor) -> tuple[Any, ...]:
    link = x._view
    assert link is not None
    return x.uop, x.shape, x.requires_grad, link.path(), link.shape, link.detached, link.obstacle, link.of_leaf


@pytest.mark.parametrize("name", ["matrix", "cube", "leaf", "tracked", "part", "of what changed", "rows", "repeated"])
def test_views_are_those_that_python_makes(name: str) -> None:
    tensors = _of_many_kinds()
    for index in INDICES:
        try:
            expected = by_python(lambda index=index: tensors[name][index])
        except ShapeError as error:
            with pytest.raises(type(error)):
                tensors[name][index]
            continue
        found = tensors[name][index]
        if expected._view is not None and index is not True:
            assert _view_of(found) == _view_of(expected)
            assert found._view.base is expected._view.base and found._view.root is expected._view.root
        assert found.tolist() == expected.tolist()


def test_views_that_lead_on_and_steps_by_movements() -> None:
    x = _of_many_kinds()["cube"]
    moves: list[Callable[[], Tensor]] = [
        lambda: x[1].T, lambda: x.reshape(4, 6)[1:, 2], lambda: x.permute(2, 0, 1)[0], lambda: x.flip(0)[1],
        lambda: x.shrink((0, 1), (1, 3), None), lambda: x.split([1, 3], 1)[1], lambda: x.unbind(2)[0], lambda: x.expand(2, 4, 3)[0],
        lambda: x[0].detach()[1], lambda: x.reshape(-1), lambda: x.reshape([3, -1]), lambda: x.reshape(2, 4, 3),
        lambda: x.reshape((4, -1, 2)).permute(-1, 0, 1), lambda: x.permute((0, 1, 2)), lambda: x.unsqueeze(1).squeeze(1),
        lambda: x.view(6, 4).T, lambda: x.flatten(1), lambda: x[1:1].reshape(0, 3),
    ]  # fmt: skip
    for shape in ((5, -1), (-1, -1), (0,), (25,), (-2, 12), ()):
        with pytest.raises(ShapeError):
            x.reshape(shape)
    for order in ((0, 1), (0, 1, 1), (0, 1, 3)):
        with pytest.raises(ShapeError):
            x.permute(order)
    for move in moves:
        found, expected = move(), by_python(move)
        assert _view_of(found) == _view_of(expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "bool"])
def test_what_is_put_at_an_index_is_what_python_puts(dtype: str) -> None:
    values: list[Any] = [
        2, -1, 0.5, 1000, float("nan"), True, Tensor([1, 2, 3], device="c").cast(dtype),
        Tensor(7.0, device="c").cast(dtype), Tensor([[4.0, 5.0, 6.0]], device="c"),
    ]  # fmt: skip

    numbers = Tensor(np.arange(18).reshape(6, 3), device="c").cast(dtype)

    def put(index: Any, value: Any) -> Any:
        x = numbers.logical_xor(True) if dtype == "bool" else numbers * 1
        shown, before = x[:, 1], x * 1
        try:
            x[index] = value
        except (rg.errors.RulegradError, ValueError) as error:
            return type(error)
        return x, x.uop, shown.uop, before.uop, x._changes

    for number, index in enumerate(INDICES):
        for value in values:
            found, expected = put(index, value), by_python(lambda i=index, v=value: put(i, v))
            if isinstance(found, type):
                assert found == expected
                continue
            # an array of indices is in a buffer of its own each time
            assert index is True or found[1:] == expected[1:], (index, value)
        if number < 5:
            assert found[0].tolist() == expected[0].tolist()


def test_gradients_through_what_is_put_at_an_index() -> None:
    def gradients() -> list[Any]:
        w = Tensor([1.0, 2.0, 3.0], device="c", requires_grad=True)
        x = Tensor(np.zeros((4, 3), np.float32), device="c")
        for k in range(3):
            x[k] = w * (k + 1)
            x[3, k] = x[k, k] * w[k]
        x[0] = x[3] + 1
        x[1] += 2
        with rg.no_grad():
            x[2, 0] = 100
        x.square().sum().backward()
        with pytest.raises(rg.errors.GradientError):
            w[0] = 1
        return [w.grad.tolist(), x.tolist(), x.requires_grad]

    assert gradients() == by_python(gradients)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint32", "int64", "uint64", "float32", "float64"])
def test_one_value_is_read_where_it_lies(dtype: str) -> None:
    values = np.array([[0, 1, 7], [100, 2, 0]]).astype(dtype)
    x = Tensor(values, device="c")
    _ = [(vector() + 0.5).realize() for _ in range(2)]  # the device is known to the engine
    views = {
        "an element": (x[1, 0], values[1, 0]),
        "of a row": (x[1][0:1], values[1, 0]),
        "of a column": (x[:, 2:][0], values[0, 2]),
        "of a shape": (x.reshape(3, 2)[1], values.reshape(3, 2)[1]),
    }
    for name, (view, expected) in views.items():
        if view.size == 1:
            found = eager.number(view)
            assert found == view.numpy().item() == expected.item(), name
            assert type(found) is type(view.numpy().item()) and view.item() == found
        else:
            assert eager.number(view) is None


def test_values_that_python_has_to_read() -> None:
    x = vector()
    total = (x * 3).sum()
    total.realize()
    again = (x * 3).sum()
    assert eager.number(again) == pytest.approx(float(total.numpy()))
    assert again.uop.op == "BUFFER"
    assert eager.number(x.flip(0)[0]) is None  # not of what RESHAPE and SHRINK reach
    assert eager.number(Tensor([1.5], dtype="bfloat16", device="c").realize()) is None
    assert eager.number(Tensor([1.5], device="numpy")) is None
    assert x.flip(0)[0].item() == pytest.approx(float(x.numpy()[-1]))
    leaf = Tensor([2.5], device="c", requires_grad=True)
    assert leaf.item() == 2.5
    with rg.profile():
        assert eager.number(again) is None
        assert again.item() == pytest.approx(float(total.numpy()))
    one = Tensor([3.0], device="c").realize()
    one.add_(1.0)
    assert one.item() == 4.0 and bool(one)
    with pytest.raises(ShapeError, match="2 elements"):
        bool(Tensor([1.0, 2.0]))
