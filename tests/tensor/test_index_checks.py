"""Indices in tensors that are out of range: an IndexError with the user's line, when a result is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad.nn.functional as F
from rulegrad import Tensor, config, no_grad, vmap
from rulegrad.compile import compile_graph, forget_kernels
from rulegrad.compile.kernels import compile_kernels
from rulegrad.errors import IndexRangeError, RewriteError, RulegradError
from rulegrad.ir import UOp
from rulegrad.runtime.profile import profile

X = np.arange(12, dtype=np.float32).reshape(4, 3)
#: What reads or writes at the places that it is given along the first axis, of 4, and the name that the error has.
OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index": lambda x, i: x[i],
    "index ": lambda x, i: x[:, i[:1] * 0][i[:, None], i * 0],
    "take": lambda x, i: x.take(i, axis=0),
    "take_along_axis": lambda x, i: x.take_along_axis(i[:, None], 0),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "index_select": lambda x, i: x.index_select(0, i),
    "embedding": lambda x, i: x.embedding(i),
    "embedding ": lambda x, i: F.embedding(i, x, padding_idx=1),
    "scatter": lambda x, i: x.scatter(0, i[:, None], x[:3]),
    "scatter ": lambda x, i: x.scatter(0, i[:1, None], 2.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x[:3]),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[:, None], x[:3], "amax", include_self=False),
    "put_along_axis": lambda x, i: x.put_along_axis(i[:, None], 5.0, axis=0),
    "index_add": lambda x, i: x.index_add(0, i, x[:3]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:3]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_put": lambda x, i: x.index_put((i,), x[:3], accumulate=True),
    "setitem": lambda x, i: _assigned(x, i),
    "cross_entropy": lambda x, i: x.T.cross_entropy(i, reduction="none"),
    "nll_loss": lambda x, i: x.T.nll_loss(i),
    "multi_margin_loss": lambda x, i: x.T.multi_margin_loss(i),
}
#: Those in which negative places count from the end.
FROM_THE_END = {"index", "take", "take_along_axis", "put_along_axis", "index_fill", "index_put", "setitem"}
SAID = {"index_put": "index", "setitem": "index"}


def _assigned(x: Tensor, i: Tensor) -> Tensor:
    y = x + 0
    y[i] = 7.0
    return y


def problem(result: Tensor) -> str:
    """The message of reading, the same each time; "" where nothing is wrong."""
    said = []
    for read in (result.tolist, result.numpy):
        try:
            read()
            said.append("")
        except IndexError as error:
            assert isinstance(error, RulegradError)
            said.append(str(error))
    assert said[0] == said[1]
    return said[0]


def test_every_operation(device: str) -> None:
    found: dict[str, Tensor] = {}
    for name, run in OPERATIONS.items():
        for what, places in (
            ("good", [0, 3, 1]),
            ("large", [4, 0, 1]),
            ("negative", [-1, 0, 1]),
            ("small", [-5, 0, 1]),
        ):
            found[f"{name}/{what}"] = run(Tensor(X), Tensor(places))
    Tensor.realize(*found.values())  # no error yet, and of one compilation
    for key, result in found.items():
        name, what = (part.strip() for part in key.split("/"))
        said = problem(result)
        if what == "good" or (what == "negative" and name in FROM_THE_END):
            assert said == "", key
            continue
        bad, least = {"large": 4, "negative": -1, "small": -5}[what], -4 if name in FROM_THE_END else 0
        axis = 1 if "entropy" in name or "loss" in name else 0
        assert said.startswith(f"{SAID.get(name, name)}: {bad} is out of range for axis {axis} of size 4; "), key
        assert f"use {least} to 3 (test_index_checks.py:" in said, key


#: What reads or writes one place that is out of range, where the values do not depend on it: an axis of size 1, equal elements, one update.
WITHOUT_NEED: dict[str, Callable[[Tensor], Tensor]] = {
    "of 1": lambda i: Tensor([2.0])[i],
    "of 1 in a view": lambda i: Tensor([2.0, 3.0]).reshape(2, 1)[:, i] * 2,
    "of a sum": lambda i: Tensor(X).sum(0, keepdim=True)[i],
    "two": lambda i: Tensor(X[:1, :1])[i, i],
    "gathered": lambda i: Tensor(X[:1]).gather(0, i[:, None]),
    "product": lambda i: Tensor(X[:1, :1])[:, i] @ Tensor(X[:1]),
    "equal": lambda i: Tensor([2.0]).expand(7)[i],
    "equal sums": lambda i: (Tensor([2.0]).expand(7) + 1).gather(0, i),
    "zeros": lambda i: Tensor.zeros(7)[i],
    "ones": lambda i: Tensor.ones(7).take(i),
    "scatter": lambda i: Tensor([2.0]).scatter(0, i, 1.0),
    "scatter_add": lambda i: Tensor([2.0]).scatter_add(0, i, Tensor([1.0])),
    "scatter_reduce": lambda i: Tensor([2.0]).scatter_reduce(0, i, Tensor([1.0]), "amax"),
    "index_put": lambda i: Tensor([2.0]).index_put((i,), Tensor([1.0])),
    "index_fill": lambda i: Tensor([2.0]).index_fill(0, i, 1.0),
    "rows": lambda i: Tensor(X[:1]).index_add(0, i, Tensor(X[1:2])),
    "cross_entropy": lambda i: Tensor(X[:1, :1]).cross_entropy(i),
    "gradient": lambda i: _gradient(lambda x: x[i].sum()),
    "gradient of ones": lambda i: _gradient(lambda x: Tensor([2.0]).scatter_add(0, i, x).sum()),
}


def _gradient(loss: Callable[[Tensor], Tensor]) -> Tensor:
    x = Tensor([1.0], requires_grad=True)
    loss(x).backward()
    assert x.grad is not None
    return x.grad


def test_an_index_that_decides_nothing_is_checked_too(device: str) -> None:
    good, bad = ({name: run(Tensor([n])) for name, run in WITHOUT_NEED.items()} for n in (0, 9))
    Tensor.realize(*good.values(), *bad.values())
    assert {name: problem(result) for name, result in good.items()} == dict.fromkeys(WITHOUT_NEED, "")
    assert [name for name, result in bad.items() if "9 is out of range for axis" not in problem(result)] == []
    with config(check_indices=False):
        assert [name for name, run in WITHOUT_NEED.items() if problem(run(Tensor([9])))] == []


def test_the_place_in_the_program(any_device: str) -> None:
    x, i = Tensor(X), Tensor([[1, 0], [2, 9]])
    chosen = x[1:, i]
    frame = inspect.currentframe()
    assert frame is not None
    line = frame.f_lineno - 3
    result = (chosen * 2).sum()
    with pytest.raises(IndexRangeError, match=rf"^index: 9 is .* axis 1 of size 3; .*\(test_index_checks.py:{line}\)$"):
        result.item()
    # the plan of an equal program is found again: the place is this program's
    later = (x[1:, Tensor([[1, 0], [2, 9]])] * 2).sum()
    assert f"(test_index_checks.py:{line + 8})" in problem(later)


def test_nothing_is_clamped_in_silence(any_device: str) -> None:
    """Bad indices of all integer dtypes, constants among them, beyond 32 bits, and where only some elements are used."""
    x = Tensor(X)
    for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        assert "127 is out of range" in problem(x[Tensor([1, 127], dtype=dtype)]), dtype
        assert problem(x[Tensor([1, 3], dtype=dtype)]) == ""
    assert "4 is out of range" in problem(x[Tensor.full((2,), 4)])
    with pytest.raises(IndexRangeError, match="4 is out of range"):
        x[Tensor(4)]
    assert "is out of range for axis 0" in problem(x[Tensor([0, 1 << 40])])
    assert "is out of range for axis 0" in problem(x[Tensor([0, -(1 << 40)])])
    padded = x[Tensor.arange(4) + Tensor([0])].pad(((2, 2), (0, 0)))
    assert padded.shape == (8, 3) and problem(padded) == ""
    wide = Tensor(np.arange(300, dtype=np.float32))
    assert wide[Tensor([-1, 5], dtype="int8")].tolist() == [299.0, 5.0]
    assert problem(Tensor(X).cross_entropy(Tensor([0, -100, 2, 1]))) == ""
    assert problem(Tensor(X).cross_entropy(Tensor([0, 7, 2, 1]), ignore_index=7)) == ""
    assert "cross_entropy: -100 is" in problem(Tensor(X).cross_entropy(Tensor([0, -100, 2, 1]), ignore_index=7))


def test_a_check_without_flags_is_an_error() -> None:
    """A wrong rule of the pass that numbers: what should be checked would only be clamped."""
    checked = UOp("INSIDE", (UOp("PARAM", (), "int64", slot=1, shape=(3,)), UOp.const(4, "int64")), operation="gather")
    for place in (-1, 2):
        kernel = UOp("STORE", (UOp("PARAM", (), "int64", slot=0, shape=(3,)), checked.replace(place=place, words=16)))
        with pytest.raises(RewriteError, match="indices of `gather` along axis 0 has no slot for its flags"):
            compile_kernels([UOp("SINK", (kernel,))], "c", True)


def test_what_depends_on_it_is_wrong_too(device: str) -> None:
    x, bad, good = Tensor(X), Tensor([9, 1]), Tensor([3, 1])
    wrong, right = x[bad], x[good]
    both = wrong.sum() + right.sum()
    Tensor.realize(wrong, right, both)
    later, other = wrong * 2 + right, right * 2
    Tensor.realize(later, other)
    assert other.tolist() == (X[[3, 1]] * 2).tolist() and right.tolist() == X[[3, 1]].tolist()
    for result in (later, both, wrong, later + 1, wrong.to("numpy") if device == "numpy" else wrong):
        assert "index: 9 is out of range" in problem(result)
    # the same kernels on good indices, and what nobody reads
    x[Tensor([8, 1])].realize()
    again = x[Tensor([2, 1])]
    assert again.tolist() == X[[2, 1]].tolist()


def test_updates_in_place(any_device: str) -> None:
    state, i = Tensor(X).realize(), Tensor([0, 5])
    for _ in range(3):  # memory is taken over from step to step
        state.index_add_(0, i, Tensor(X[:2]))
        state.realize()
    assert "index_add: 5 is out of range for axis 0 of size 4" in problem(state)
    state = Tensor(X).realize()
    state[Tensor([1, -1])] += 1.0
    assert state.tolist() == (X + np.array([[0], [1], [0], [1]], np.float32)).tolist()


def test_gradients(any_device: str) -> None:
    table = Tensor(X, requires_grad=True)
    table.embedding(Tensor([1, 4])).square().sum().backward()
    assert "embedding: 4 is out of range" in problem(table.grad)
    table.grad = None
    loss = table.embedding(Tensor([1, 1])).sum()
    loss.backward()
    with no_grad():
        table -= table.grad * 0.5
    assert loss.item() == 24.0 and table.tolist() == (X - np.array([[0], [1], [0], [0]], np.float32)).tolist()


def test_mapped(any_device: str) -> None:
    def row(i: Tensor) -> Tensor:
        return Tensor(X)[i]

    assert vmap(row)(Tensor([3, -4])).tolist() == X[[3, 0]].tolist()
    assert "index: 6 is out of range for axis 0 of size 4" in problem(vmap(row)(Tensor([3, 6])))


def test_reductions_products_and_attention(device: str) -> None:
    """Indices inside of the loops of other kernels, which go on to compute the same."""
    rng = np.random.default_rng(1)
    table, weight = rng.normal(size=(40, 64)).astype(np.float32), rng.normal(size=(64, 24)).astype(np.float32)
    good = rng.integers(0, 40, (32,))
    rows, line = table[good], rng.normal(size=1000).astype(np.float32)
    many = rng.integers(0, 1000, 5000)
    scores = rows @ rows.T
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = [rows @ weight, line[many].sum(), rows.sum(0), powers / powers.sum(-1, keepdims=True) @ rows]

    def computed(places: np.ndarray, others: np.ndarray) -> list[Tensor]:
        chosen = Tensor(table)[Tensor(places)]
        attended = (chosen @ chosen.T).softmax(-1) @ chosen
        return [chosen @ Tensor(weight), Tensor(line)[Tensor(others)].sum(), chosen.sum(0), attended]

    found = computed(good, many)
    Tensor.realize(*found)
    for result, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=1e-3)
    good[-1], many[-1] = 40, 1000
    wrong = computed(good, many)
    Tensor.realize(*wrong)
    assert [problem(result).split(" is")[0] for result in wrong] == ["index: 40", "index: 1000", *["index: 40"] * 2]


def test_checks_off(device: str) -> None:
    x, i, scores = Tensor(X), Tensor([9, 1]), Tensor(X)
    with config(check_indices=False):
        read, written = x.take(i, axis=0), x.index_fill(0, i, 0.0)
        loss = scores.cross_entropy(Tensor([0, 5, 1, 2]), reduction="none")
    Tensor.realize(read, written, loss)
    assert read.tolist() == X[[3, 1]].tolist()
    assert written.tolist() == (X * [[1], [0], [1], [1]]).tolist()
    assert np.isnan(loss.numpy()).tolist() == [False, True, False, False]
    with pytest.raises(IndexRangeError, match="9 is out of range"):
        x.take([9, 1], axis=0)  # on the host


def test_what_is_known_has_no_check(any_device: str) -> None:
    x, i = Tensor(X), Tensor([1, 0])

    def checked(tensor: Tensor) -> list[bool]:
        return [kernel.checks_indices for kernel in compile_graph([tensor.uop], "c")]

    assert checked(x[i]) == [True]
    assert (
        checked(x[Tensor.arange(4)]) == checked(x[Tensor.full((2,), 3)]) == checked(x[i.cast("int32") % 3]) == [False]
    )
    assert checked(x[[1, -1]]) == checked(x.sort(0)[0])[-1:] == [False]
    with config(check_indices=False):
        assert checked(x[i]) == [False]


def test_no_more_launches(any_device: str) -> None:
    def launches(check_indices: int) -> int:
        table, weight = (Tensor(values, requires_grad=True) for values in (X, X.T))
        with config(check_indices=check_indices), profile() as measured:
            loss = (table.embedding(Tensor([1, 0, 3])) @ weight).cross_entropy(Tensor([0, 1, 3]))
            loss.backward()
            Tensor.realize(loss, table.grad, weight.grad)
        assert problem(loss) == ""
        return len(measured.kernels)

    assert launches(1) == launches(0)


def test_checked_passes() -> None:
    """CHECK=2 compares graphs with checks, at every stage."""
    forget_kernels()
    with config(check=2, device="c"):
        x, i = Tensor(X), Tensor([3, -1])
        assert x[i].tolist() == X[[3, -1]].tolist()
        assert x.index_add(0, Tensor([1, 0, 1]), Tensor(X[:3])).tolist()[0] == [3.0, 5.0, 7.0]
        assert x[Tensor([0, 2])].sum().item() == 24.0
        # a right kernel is not blamed for what it does with the sample contents 0 to 4, of which 4 is not a row
        many = Tensor([[0, 1, 1, 3, 2, 0, 3, 3]]).T.expand(8, 3)
        assert x.scatter_add(0, many, Tensor.ones(8, 3)).sum().item() == X.sum() + 24
    forget_kernels()


def test_flags_are_used_again(any_device: str) -> None:
    from rulegrad.runtime import index_checks

    x = Tensor(X)
    assert x[Tensor([1, 0])].tolist() == X[[1, 0]].tolist()
    known = {key: list(some) for key, some in index_checks._clean.items()}
    assert known
    for _ in range(3):
        assert x[Tensor([1, 0])].tolist() == X[[1, 0]].tolist()
    assert {key: list(some) for key, some in index_checks._clean.items()} == known


@pytest.mark.parametrize("device", ["numpy", "c"])
def test_attention_over_taken_values_in_any_nest_of_loops(device: str) -> None:
    """The gradient adds up over loops around those of the scores, which is not seen in what the loops are needed by."""
    generator = np.random.default_rng(0)
    places = generator.integers(0, 3, 9)

    def gradients(index: np.ndarray[Any, Any]) -> list[Any]:
        v, k, w = (
            Tensor(np.arange(a * b).reshape(a, b) % 7 / 7 - 0.4, device=device, requires_grad=True)
            for a, b in ((4, 3), (16, 9), (16, 5))
        )
        ((v[:, Tensor(index, device=device)] @ k.T).softmax(-1) @ w).sum().backward()
        return [t.grad.numpy() for t in (v, k, w) if t.grad is not None]

    with config(check_indices=False):
        expected = gradients(places)
    for found, wanted in zip(gradients(places), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    places[4] = 3
    with pytest.raises(IndexError):
        gradients(places)


def test_an_index_whose_memory_the_result_takes(any_device: str) -> None:
    """Indices that nobody holds: what is computed from them is written over them, and they are still those that are checked."""
    places = np.arange(289).reshape(17, 17)
    x = Tensor(np.arange(45, dtype=np.float32).reshape(5, 9))
    found = x[Tensor(places % 5), Tensor(places % 9)]
    part = found[8:9, 1:3:2]
    part *= part
    wanted = np.arange(45, dtype=np.float32).reshape(5, 9)[places % 5, places % 9]
    wanted[8, 1] **= 2
    assert (found * 1).tolist() == wanted.tolist()


#: Kernels that gather by many indices, which are lanes of vectors where that pays.
IN_VECTORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "elements": lambda x, i: x[i],
    "of a copy": lambda x, i: (x + 1)[i],
    "columns": lambda x, i: x.reshape(1, -1).expand(3, len(x)).gather(1, i.expand(3, len(i))),
    "rows": lambda x, i: x[:, None].expand(len(x), len(i)).gather(0, i.expand(2, len(i))),
    "own rows": lambda x, i: (x[:, None] * x).gather(0, i.expand(len(x), len(i))[:, : len(x)])[:, : len(i)].sum(),
    "sum": lambda x, i: x[i].sum(),
    "sums of columns": lambda x, i: x[i.reshape(-1, 1).expand(len(i), 20)].sum(0),
}


@pytest.mark.parametrize("size", [8, 17, 1000, *(pytest.param(size, marks=pytest.mark.long_run) for size in (16, 39))])
def test_lanes_are_checked(device: str, size: int) -> None:
    """At every place among the lanes, with places left over, in integers of the width of the lanes and of others."""
    random, found = np.random.default_rng(0), {}
    x = Tensor(np.arange(size, dtype=np.float32))
    for dtype in (np.int32, np.int64, np.uint8) if size < 256 else (np.int32, np.int64):
        for bad in (-1, 0, size // 2, size - 1):
            places = random.integers(0, size, size).astype(dtype)
            if bad >= 0:
                places[bad] = size
            for name, run in IN_VECTORS.items():
                found[name, size, np.dtype(dtype).name, bad] = run(x, Tensor(places))
    Tensor.realize(*found.values())
    said = {key: problem(result) for key, result in found.items()}
    assert {key for key, text in said.items() if bool(text) != (key[3] >= 0)} == set()
    assert all(f": {key[1]} is out of range for axis" in text for key, text in said.items() if text)


def test_gathered_lanes(device: str) -> None:
    """Places of 32 and 64 bits that a counter is added to, without checks and with them."""
    random = np.random.default_rng(0)
    x, places = random.standard_normal((40, 40), np.float32), random.integers(0, 40, (40, 40))
    results = []
    for checks in (0, 1):
        with config(check_indices=checks):
            for dtype in (np.int16, np.int32, np.uint32, np.int64):
                i = Tensor(places.astype(dtype))
                results += [(Tensor(x).gather(axis, i), np.take_along_axis(x, places, axis)) for axis in (0, 1)]
    Tensor.realize(*(result for result, _ in results))
    for result, expected in results:
        np.testing.assert_array_equal(result.numpy(), expected)


def test_an_axis_without_elements() -> None:
    """No place is in it, also where the result has no elements; and no places are."""
    x, wide = Tensor.zeros(0, 0), Tensor.zeros(2, 0)
    for places in ([0, 0, 0], [-1], Tensor([0, 0, 0]), np.array([0])):
        for read in (
            lambda i: x[i],
            lambda i: wide[:, i],
            lambda i: wide[0, i],
            lambda i: x.take(i, axis=0),
            lambda i: x.index_select(0, i),
            lambda i: x.index_add(0, i, Tensor.zeros(len(i), 0)),
            lambda i: x.index_put((i,), 1.0),
        ):
            with pytest.raises(IndexRangeError, match="axis [01]"):
                read(places)
    for read in (lambda i: x.gather(0, i), lambda i: x.take_along_axis(i, 0)):
        with pytest.raises(IndexRangeError, match="axis 0"):
            read(Tensor.zeros(3, 1, dtype="int64"))
    none = Tensor([], dtype="int64")
    assert x[[]].shape == x[none].shape == x.index_select(0, none).shape == (0, 0)
    assert x[Tensor([0]), none].shape == x[[0], none].shape == (0,)
    assert x.gather(0, none.reshape(0, 0)).shape == (0, 0) and wide.gather(0, none.reshape(5, 0)).shape == (5, 0)
    assert wide[Tensor([1, 1, 0])].shape == (3, 0)
