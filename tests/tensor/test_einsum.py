"""einsum and the products that it contains, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulegrad import Tensor, config
from rulegrad.errors import ShapeError

R = np.random.default_rng(0)
SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}


def arrays(formula):
    return [R.integers(-4, 5, [SIZES[x] for x in term]) for term in formula.split("->")[0].split(",")]


@pytest.mark.parametrize(
    "formula",
    [
        "ab,bc->ac",
        "ab,bc",
        "ab->ba",
        "ba",
        "ab->",
        "a,b->ab",
        "aba->b",
        "aa",
        "aab,b->a",
        "ab,cb,cd->ad",
        "abc,abd->abcd",
        ",a->a",
    ],
)
def test_formulas(any_device, check, formula):
    given = arrays(formula)
    check((Tensor.einsum(formula, *map(Tensor, given)), np.einsum(formula, *given)))


def test_on_devices(device, check):
    x, y = R.normal(size=(2, 3, 4)).astype(np.float32), R.normal(size=(5, 1, 4, 2)).astype(np.float32)
    half = np.full((300,), 0.1, np.float16)
    check(
        (Tensor.einsum("...ij,...jk->...ik", Tensor(x), Tensor(y)), np.einsum("...ij,...jk->...ik", x, y)),
        (Tensor.einsum("...ij->...", Tensor(x)), np.einsum("...ij->...", x)),
        (Tensor.einsum("i...,i...", [Tensor(x), Tensor(x)]), np.einsum("i...,i...", x, x)),
        (Tensor.einsum("i,i->", Tensor(half), Tensor(half)), np.float16((half.astype(np.float32) ** 2).sum())),
        tolerance=1e-2,
    )


def test_products(any_device, check):
    m, n = R.integers(0, 9, (2, 3)), R.integers(0, 9, (4, 3))
    check(
        (Tensor(m).inner(Tensor(n)), np.inner(m, n)),
        (Tensor(m).kron(Tensor(n)), np.kron(m, n)),
        (Tensor(m[0]).kron(Tensor(n)), np.kron(m[0], n)),
        (Tensor(m).tensordot(Tensor(n.T), 1), np.tensordot(m, n.T, 1)),
        (Tensor(m).vecdot(Tensor(n[0])), np.vecdot(m, n[0])),
        (Tensor(m).cross(Tensor(n[:2])), np.cross(m, n[:2])),
    )


@given(st.data())
def test_any_formula(data):
    terms = data.draw(st.lists(st.text("abcd", min_size=1, max_size=3), min_size=1, max_size=3))
    letters = sorted(set("".join(terms)))
    output = data.draw(st.permutations(letters))[: data.draw(st.integers(0, len(letters)))]
    formula = ",".join(terms) + "->" + "".join(output)
    given_arrays = arrays(formula)
    with config(device="numpy"):
        assert np.array_equal(
            Tensor.einsum(formula, *map(Tensor, given_arrays)).numpy(), np.einsum(formula, *given_arrays)
        )


def test_errors(any_device):
    x = Tensor(np.ones((2, 3)))
    for formula, text in {
        "ij,jk": "has 2 operands",
        "ijk": "does not name the axes",
        "ij->ii": "names an axis twice",
        "ij->k": "that no operand has",
        "ii": "two extents",
    }.items():
        with pytest.raises(ShapeError, match=text):
            Tensor.einsum(formula, x)
    with pytest.raises(ShapeError, match="the extents 3 and 2"):
        Tensor.einsum("ij,jk", x, x)
