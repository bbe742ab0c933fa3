"""Arguments and results of captured functions: what is an input, what is part of the key, what is given back."""

from __future__ import annotations

import enum
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from capture_contract import Run, array, check

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import CaptureError


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Batch:
    x: Tensor
    names: tuple[str, ...]
    more: dict[str, Any]


@dataclass(frozen=True)
class Frozen:
    x: Tensor
    scale: float = 2.0


def test_trees_of_arguments_and_results_whose_values_are_kept() -> None:
    def program(run: Run) -> None:
        f = run.jit(
            lambda d, p, *, k: {"s": d["a"] @ p[0], "t": (p[0] * 2, [d["a"], None]), "k": Pair(k.second, k.first)}
        )
        for seed in range(4):
            a, b, c, d = (Tensor(array(3, 3, seed=10 * seed + j)) for j in range(4))
            out = f({"a": a}, [b], k=Pair(c, d))
            assert type(out["k"]) is Pair and out["k"].first is d and out["t"][1][0] is a
            run.see(out)

    check(program, traces=1)


def test_dataclasses() -> None:
    def program(run: Run) -> None:
        f = run.jit(
            lambda batch, frozen: (
                Batch(batch.x * frozen.scale, batch.names, {"n": batch.more["n"] + 1}),
                Frozen(frozen.x - 1),
            )
        )
        for seed in range(3):
            batch = Batch(Tensor(array(2, seed=seed)), ("a", "b"), {"n": Tensor([seed])})
            out, frozen = f(batch, Frozen(Tensor(array(4, seed=seed))))
            assert isinstance(out, Batch) and out.names == ("a", "b") and frozen.scale == 2.0
            run.see(out.x, out.more, frozen.x)

    check(program, traces=1)


def test_dicts_keep_their_kind() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda x: (OrderedDict(b=x + 1, a=x), defaultdict(list, c=x * 2)))
        for seed in range(2):
            first, second = f(Tensor(array(2, seed=seed)))
            assert type(first) is OrderedDict and list(first) == ["b", "a"] and second["none"] == []
            run.see(dict(first), second["c"])

    check(program, traces=1)


class Mode(enum.Enum):
    UP = 1
    DOWN = 2


@pytest.mark.filterwarnings("ignore:jit")
def test_static_values_are_part_of_the_key() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda x, n: x * (n.value if isinstance(n, Mode) else 10 if n is None else n))
        x = Tensor([1.0, 2.0])
        for n in (1, 2, 1, True, 1.0, 0.0, -0.0, None, Mode.UP, Mode.DOWN, Mode.UP, np.float32(2), 2):
            run.see(f(x, n))

    check(program, traces=10)


def test_slices_arrays_and_texts_are_static() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda x, s, a, t: x[s] + Tensor(a) if t == "add" else x[s])
        x = Tensor(array(4))
        for s, a, t in [
            (slice(0, 2), [1, 2], "add"),
            (slice(0, 2), [1, 2], "no"),
            (slice(0, 2), [1, 3], "add"),
            (slice(2), [1, 3], "no"),
        ]:
            for _ in range(2):
                run.see(f(x, s, np.array(a, "float32"), t))

    check(program, traces=4)


def test_what_cannot_be_static() -> None:
    f = rg.jit(lambda x, a: x)
    with pytest.raises(CaptureError, match="array of float64 with 80000 bytes.*pass a tensor"):
        f(Tensor([1.0]), np.zeros(10_000))
    with pytest.raises(CaptureError, match="argument of type set is neither a tensor nor hashable"):
        f(Tensor([1.0]), {1})


def test_shapes_dtypes_and_devices_are_part_of_the_key() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda x: x.sum(0))
        for x in (array(3), array(4), array(3, dtype="float64"), array(3, 2), array(3)):
            run.see(f(Tensor(x)))
        run.see(f(Tensor(array(3), device="c")))

    check(program, traces=5)


def test_an_argument_on_another_device_than_the_state_is_an_error() -> None:
    weight = Tensor([1.0, 2.0], device="numpy")
    f = rg.jit(lambda x: x * weight)
    assert f(Tensor([1.0, 1.0])).tolist() == [1, 2]
    with pytest.raises(rg.errors.DeviceError, match="c and numpy"):
        f(Tensor([1.0, 1.0], device="c"))
    assert f(Tensor([2.0, 1.0])).tolist() == [2, 2]


def test_the_pattern_of_equal_arguments_is_part_of_the_key() -> None:
    def program(run: Run) -> None:
        def body(a: Tensor, b: Tensor) -> Any:
            a += 1
            return a * b

        f = run.jit(body)
        for same in (False, True, False, True):
            a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
            run.see(f(a, a) if same else f(a, b), a, b)

    check(program, traces=2)


def test_two_tensors_on_one_buffer() -> None:
    def program(run: Run) -> None:
        def body(a: Tensor, b: Tensor) -> Any:
            a.assign(a * 2)
            return a + b

        f = run.jit(body)
        for seed in range(3):
            a = Tensor(array(3, seed=seed)).realize()
            b = a.view(3).clone() if seed == 1 else Tensor(a)
            run.see(f(a, b), a, b)

    check(program, traces=1)


def test_lazy_constant_and_viewed_arguments() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda a, b: a * b + 1)
        base = Tensor(array(4, 3))
        lazy = base[1] * 2
        for a, b in [
            (base[0], lazy),
            (Tensor.ones(3), base[2]),
            (Tensor.zeros(3), Tensor.ones(3)),
            (base.T[:, 0], base[3]),
        ]:
            run.see(f(a, b))
        run.see(base, lazy)

    check(program, traces=1)


def test_a_view_of_what_the_function_changes_is_an_error() -> None:
    cache = Tensor(array(3, 2)).realize()

    def body(row: Tensor) -> Tensor:
        cache.assign(cache * 2)
        return row + 1

    f = rg.jit(body)
    with pytest.raises(
        CaptureError, match=r"changes a tensor \(test_arguments.py:\d+\) of which an argument is a view"
    ):
        f(cache[0])
    np.testing.assert_array_equal(cache.numpy(), array(3, 2))
    f(Tensor([1.0, 2.0]))
    with pytest.raises(CaptureError, match="pass a clone"):
        f(cache[0])
    f(cache[0].clone())
    np.testing.assert_array_equal(cache.numpy(), array(3, 2) * 4)


def test_an_argument_that_is_a_view_cannot_be_changed() -> None:
    f = rg.jit(lambda row: row.add_(1))
    base = Tensor(array(3, 2)).realize()
    with pytest.raises(rg.errors.AliasError, match="argument of a captured function and a part of another tensor"):
        f(base[0])
    np.testing.assert_array_equal(base.numpy(), array(3, 2))
    row = base[1]
    row += 1  # it is a view still
    assert base[1].tolist() == row.tolist() != array(3, 2)[1].tolist()
    alone = Tensor(array(3, 2)).realize()[0]
    assert f(alone).tolist() == (array(3, 2)[0] + 1).tolist() == alone.tolist()


def test_a_view_and_its_base_as_arguments() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda a, row: a + row)
        for seed in range(3):
            base = Tensor(array(3, 2, seed=seed))
            run.see(f(base, base[1]))

    check(program, traces=1)


def test_results_that_are_arguments_and_state() -> None:
    weight = Tensor([5.0])

    def program(run: Run) -> None:
        f = run.jit(lambda x, y: (y, x, weight, x))
        for _ in range(3):
            x, y = Tensor([1.0]), Tensor([2.0])
            found = f(x, y)
            assert found[0] is y and found[1] is x and found[2] is weight and found[3] is x

    check(program, traces=1)


def test_results_fed_back() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda x, y: (y, x + y))
        x, y = Tensor([1.0, 0.0]), Tensor([1.0, 1.0])
        for _ in range(6):
            x, y = f(x, y)
            run.see(x, y)

    check(program, traces=1)


def test_results_that_are_views() -> None:
    """Of arguments, of state, of each other: an update of one is one of all, as in an eager call."""

    def program(run: Run) -> None:
        state = Tensor(array(2, 3)).realize()

        def body(x: Tensor) -> Any:
            y = x * 2
            return x.T, state[0], y, y[0], y.reshape(-1), *((x + 1).split(1))

        f = run.jit(body)
        for seed in range(3):
            x = Tensor(array(2, 3, seed=seed))
            found = f(x)
            run.see([t.clone() for t in found])
            found[0][0] = 7.0
            found[1][1] = 8.0
            found[3][2] = 9.0
            found[5][0] = 10.0
            run.see(x, state, *found)

    check(program, traces=1)


def test_one_tensor_at_two_places_of_the_result() -> None:
    f = rg.jit(lambda x: [x + 1] * 2)
    for _ in range(2):
        first, second = f(Tensor([1.0]))
        assert first is second


def test_results_without_elements_and_constants() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda x: (x[:0], Tensor.zeros(2), Tensor(3), Tensor([1.0]), 5, "text", None))
        for _ in range(2):
            run.see(f(Tensor([1.0, 2.0])))

    check(program, traces=1)


def test_no_arguments_and_no_results() -> None:
    def program(run: Run) -> None:
        weight = Tensor([1.0])

        def body() -> None:
            weight.mul_(2)

        f = run.jit(body)
        for _ in range(3):
            assert f() is None
        run.see(weight)

    check(program, traces=1)


def test_modules_are_told_apart_by_identity() -> None:
    def program(run: Run) -> None:
        Tensor.manual_seed(0)
        first, second = nn.Linear(3, 2), nn.Linear(3, 2)
        f = run.jit(lambda model, x: model(x))
        for model in (first, second, first, second):
            run.see(f(model, Tensor(array(4, 3))).detach())

    check(program, traces=2)


def test_keywords_in_any_order() -> None:
    def program(run: Run) -> None:
        f = run.jit(lambda *, a, b: a - b)
        run.see(f(a=Tensor([3.0]), b=Tensor([1.0])), f(b=Tensor([1.0]), a=Tensor([5.0])))

    check(program, traces=1)


def test_each_device(device: str) -> None:
    def program(run: Run) -> None:
        w = Tensor(array(4, 4)).realize()

        def body(x: Tensor) -> Any:
            y = (x @ w).softmax(-1)
            w.assign(w * 0.5)
            return y, y.cumsum(0)

        f = run.jit(body)
        for seed in range(3):
            run.see(f(Tensor(array(4, 4, seed=seed))))
        run.see(w)

    check(program, traces=1)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(CaptureError, match="3 is not a function"):
        rg.jit(3)  # type: ignore[call-overload]

    def numbers(x: Tensor) -> Iterator[Tensor]:
        yield x

    async def later(x: Tensor) -> Tensor:
        return x

    with pytest.raises(CaptureError, match="`.*numbers` gives a generator and computes nothing yet"):
        rg.jit(numbers)
    with pytest.raises(CaptureError, match="`.*later` gives a coroutine"):
        rg.jit(later)


def test_callables_of_other_kinds() -> None:
    """A module, a partial function, a bound method, a class whose call makes a tensor."""
    x = Tensor([1.0, 2.0])
    model = nn.Linear(2, 3)
    expected = model(x).tolist()
    for callable_ in (model, functools.partial(model), model.forward):
        captured = rg.jit(callable_)
        assert captured(x).tolist() == captured(x).tolist() == expected and len(captured.reasons()) == 1
