"""Sizes that follow from others: by formulas, as rounded quotients, and as shapes are made of shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from varied_sizes import Array, floats, tensor

from rulegrad import Tensor
from rulegrad.compile import varying
from rulegrad.compile.varying import explanations
from rulegrad.compile.varying.formulas import GENERIC, Fit, NoFormulaError, grid, monomials_of, value_of
from rulegrad.compile.varying.pairs import DifferentError
from rulegrad.compile.varying.templates import generalised, instance, matched
from rulegrad.nn import functional

pytestmark = pytest.mark.usefixtures("sizes_vary")


kernel = floats(5, 3, 3, 3)
mixing_kernel = floats(6, 5, 1, 1)
sound_kernels = floats(4, 1, 10), floats(4, 4, 3), floats(4, 4, 2)


def same(found: Tensor, wanted: Array) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5, strict=True)


def sound_of(x: Tensor) -> Tensor:
    for weight, step in zip(sound_kernels, (5, 2, 2), strict=True):
        x = x.conv1d(tensor(weight, str(x.device)), stride=step).relu()
    return x


def image_of(x: Tensor) -> Tensor:
    device = str(x.device)
    x = x.conv2d(tensor(kernel, device), stride=2, padding=1).relu().max_pool2d(3, 2, 1)
    return x.conv2d(tensor(mixing_kernel, device), stride=2)


#: computation with steps, and the sizes of its last axes, of any remainders; the first two have a plan made of them
ROUNDED: dict[str, tuple[Callable[[Tensor], Tensor], Sequence[tuple[int, ...]]]] = {
    "sound": (sound_of, ((1, 500), (1, 637), (1, 401), (1, 90), (1, 1203))),
    "image": (image_of, ((3, 37, 52), (3, 50, 61), (3, 33, 80), (3, 64, 64), (3, 19, 97))),
    "windows": (lambda x: x.unfold(-1, 16, 4) * 2, ((3, 100), (3, 133), (3, 58), (3, 87), (3, 200))),
    "every third element": (lambda x: x[:, 1::3] * 2, ((3, 100), (3, 134), (3, 58), (3, 87), (3, 200))),
    "every second one backwards": (lambda x: x[:, -2::-2] * 2, ((3, 100), (3, 133), (3, 58), (3, 87), (3, 200))),
    "windows that are apart": (lambda x: x.unfold(-1, 2, 3).max(-1), ((3, 100), (3, 134), (3, 58), (3, 87), (3, 200))),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_number_of_windows_is_a_rounded_quotient(name: str, built: list[int]) -> None:
    compute, (*first, third, fourth, fifth) = ROUNDED[name]
    for shape in first:
        compute(tensor(floats(2, *shape))).realize()
    for shape in (third, fourth, fifth):
        x = floats(2, *shape)
        expected = compute(tensor(x, "numpy")).numpy()
        built.clear()
        same(compute(tensor(x)), expected)
        assert built == [], varying.reasons()


def in_blocks(x: Tensor, size: int) -> Tensor:
    """The means of blocks of rows, of which the last one is padded."""
    padded = functional.pad(x, (0, 0, 0, -x.shape[1] % size))
    return padded.reshape(x.shape[0], -1, size, x.shape[2]).mean(2)


def of_windows(x: Tensor) -> Tensor:
    """Softmax of windows of 4 x 4 of a padded image, and back."""
    b, h, w = x.shape
    y = functional.pad(x, (0, -w % 4, 0, -h % 4))
    rows, columns = y.shape[1] // 4, y.shape[2] // 4
    y = y.reshape(b, rows, 4, columns, 4).permute(0, 1, 3, 2, 4).reshape(-1, 16).softmax(-1)
    return y.reshape(b, rows, columns, 4, 4).permute(0, 1, 3, 2, 4).reshape(b, 4 * rows, 4 * columns)[:, :h, :w] + x


#: sizes that follow from others, as shapes are made of shapes: by the sizes of the first two nothing is compiled later
IDENTITIES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[tuple[int, ...], ...]]] = {
    "diagonal": (lambda x: x.diagonal() * 2, ((20, 20), (23, 23), (31, 31), (90, 90))),
    "padded to blocks": (lambda x: in_blocks(x, 8), ((2, 20, 3), (2, 35, 3), (2, 9, 3), (2, 101, 3), (2, 63, 3))),
    "padded as if by the number of blocks": (
        lambda x: in_blocks(x, 16),  # the paddings are 12 and 14, the blocks 7 and 9
        ((2, 100, 3), (2, 130, 3), (2, 75, 3), (2, 201, 3), (2, 90, 3)),
    ),
    "windows": (of_windows, ((1, 49, 58), (1, 63, 75), (1, 81, 70), (1, 97, 101), (1, 55, 66))),
    "windows padded to blocks": (
        lambda x: in_blocks(x.unfold(1, 3, 2).sum(2, keepdim=True), 8),
        ((2, 73), (2, 108), (2, 90), (2, 201), (2, 61)),
    ),
    "padded for windows": (
        lambda x: functional.pad(x, (16, -x.shape[1] % 16)).unfold(1, 32, 16).mean(-1),
        ((2, 33), (2, 75), (2, 50), (2, 121), (2, 90)),
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_sizes_that_follow_from_others_are_no_variables(name: str, built: list[int]) -> None:
    compute, (first, second, *others) = IDENTITIES[name]
    for shape in (first, second):
        compute(tensor(floats(*shape))).realize()
    for shape in others:
        x = floats(*shape)
        expected = compute(tensor(x, "numpy")).numpy()
        built.clear()
        same(compute(tensor(x)), expected)
        assert built == [], varying.reasons()


def test_as_many_windows_at_both_sizes_are_no_template(built: list[int]) -> None:
    """Both have 50: a template would have this number at all sizes, and trying that often is of no use."""
    for t in (101, 102, 104, 107, 91, 200):
        x = floats(t, 4)
        same(tensor(x)[:-1:2] * 2, x[:-1:2] * 2)
    assert len(built) <= 4


def test_graphs_that_are_computed_otherwise_do_not_count_as_tries(built: list[int]) -> None:
    """A template is made of graphs that have its ops: others with the same result are another kind."""
    for factor in range(2, 9):
        x = floats(30, 4)
        same(sum((tensor(x) for _ in range(factor)), start=tensor(x)) * 2, (factor + 1) * x * 2)
    for t in (31, 37, 45):
        built.clear()
        x = floats(t, 4)
        same((tensor(x) + 1) * 2, (x + 1) * 2)
    assert built == []


def test_templates() -> None:
    def graph(t: int) -> Any:
        return Tensor.ones(3, t, device="numpy").pad(((0, 0), (0, 2))).reshape(-1).uop

    template = generalised([graph(5)], [graph(7)])
    assert len(template.examples) == 1
    assert instance(template, [11], "numpy") == [graph(11)]
    match = matched(template, [graph(30)])
    assert match is not None and match.sizes == (30,)
    assert matched(template, [Tensor.ones(3, 4, device="numpy").uop]) is None
    with pytest.raises(DifferentError):
        generalised([graph(5)], [Tensor.ones(3, device="numpy").uop])


def test_a_template_is_no_graph_whose_sizes_differ_otherwise() -> None:
    def graph(t: int, padding: int) -> Any:
        return Tensor(np.ones((t, 4), np.float32), device="numpy").pad(((0, padding), (0, 0))).uop

    template = generalised([graph(5, 6)], [graph(7, 8)])  # as much as there is, and one more
    assert matched(template, [graph(9, 10)]) is not None
    assert matched(template, [graph(9, 11)]) is None


def test_sizes_of_axes_that_have_nothing_to_do_with_each_other_are_not_formulas_of_each_other() -> None:
    def graph(b: int, t: int, u: int) -> Any:
        return Tensor(np.ones((b, t, u), np.float32), device="numpy").reshape(b, t // 2, 2, u // 2, 2).sum((2, 4)).uop

    template = generalised([graph(2, 10, 14)], [graph(3, 16, 24)], steps=True)  # 5 and 8 are 3 * b - 1
    assert matched(template, [graph(7, 4, 30)]) is not None
    assert matched(template, [graph(7, 4, 30).src[0]]) is None


def test_a_product_of_sizes_does_not_make_them_formulas_of_each_other() -> None:
    def graph(b: int, t: int) -> Any:
        return Tensor(np.ones((b, t, t), np.float32), device="numpy").reshape(b * t, t).uop

    template = generalised([graph(2, 30)], [graph(3, 35)], steps=True)  # 30 and 35 are 5 * b + 20
    assert matched(template, [graph(7, 4)]) is not None


def test_many_tensors_of_different_extents_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before all sizes are explained by each other: that took 9 s for 80 tensors, in each of the first calls."""
    numbers = np.random.default_rng(0)
    graphs = [
        Tensor.cat([Tensor(np.zeros(n, np.float32), device="c").realize() for n in numbers.integers(10, 6000, 80)]).uop
        for _ in range(2)
    ]
    monkeypatch.setattr(explanations, "explained", lambda *_: pytest.fail("all sizes are explained"))
    with pytest.raises(DifferentError, match="sizes of buffers vary"):
        generalised(graphs[:1], graphs[1:])


def test_formulas() -> None:
    t, u = (((0,), 1),), (((1,), 1),)
    monomials = monomials_of([(t, u), (t, t)], 2)
    fit = Fit(monomials, grid(2, monomials, GENERIC[0]))
    formulas: list[Callable[[int, int], int]] = [
        lambda t, u: 7, lambda t, u: 64 * t + 3, lambda t, u: t * u - u, lambda t, u: t * t * 12, lambda t, u: 0,
    ]  # fmt: skip
    for formula in formulas:
        found = fit([formula(*point) for point in fit.points])
        assert value_of(found, (5, 9)) == formula(5, 9)
    with pytest.raises(NoFormulaError, match="the power 6 of a size"):
        grid(1, [(0,) * 6], GENERIC[0])
    for wrong in (lambda t, u: t // 2, lambda t, u: max(t, 1011), lambda t, u: t * t * t, lambda t, u: t * t * u):
        with pytest.raises(NoFormulaError):
            fit([wrong(*point) for point in fit.points])
