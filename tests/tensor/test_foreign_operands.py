"""Operators beside objects of other libraries: theirs get their turn; names that libraries look for mean nothing here."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DtypeError

_REFLECTED = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
]  # fmt: skip
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def answering(*names: str, **others: Any) -> Any:
    """An object whose operators of these names say which one was asked."""
    methods = {f"__{name}__": (lambda self, tensor, name=name: name) for name in names}
    return type("Foreign", (), {**methods, **others, "__hash__": None})()


def test_the_reflected_operator_of_a_foreign_operand_is_asked() -> None:
    foreign = answering(*(f"r{name}" for name in _REFLECTED), *_MIRRORED)
    x = Tensor([1, 2], device="numpy")
    for name in _REFLECTED:
        function = getattr(operator, {"and": "and_", "or": "or_"}.get(name, name))
        assert function(x, foreign) == f"r{name}"
    for name, mirrored in _MIRRORED.items():
        assert getattr(operator, name)(x, foreign) == mirrored


def test_a_class_with_operators_for_arrays_is_asked_too() -> None:
    like_a_series = answering("radd", "eq", __array__=lambda self: np.ones(2), __array_ufunc__=lambda self: None)
    x = Tensor([1.0, 2.0], device="numpy")
    assert x + like_a_series == "radd"
    assert (x == like_a_series) == "eq"
    no_operators = answering("radd", __array__=lambda self, dtype=None, copy=None: np.ones(2))
    assert (x + no_operators).tolist() == [2.0, 3.0]


def test_what_no_operator_takes_is_an_error() -> None:
    x = Tensor([1.0, 2.0], device="numpy")
    for function in (operator.add, operator.matmul, operator.lt):
        with pytest.raises(DtypeError, match="an operand is a object; use a tensor"):
            function(x, object())
    assert (x == object()) is False and (x != object()) is True and (x == None) is False  # noqa: E711


def test_pandas_and_xarray_keep_their_labels() -> None:
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    x = Tensor([1.0, 2.0], device="numpy")
    series = x + pandas.Series([1.0, 2.0], index=["a", "b"])
    assert isinstance(series, pandas.Series) and series["b"] == 4.0
    array = x * xarray.DataArray([1.0, 2.0], dims="k")
    assert isinstance(array, xarray.DataArray) and array.dims == ("k",)


def test_names_that_numpy_looks_for() -> None:
    x = Tensor([1.0, 2.0], device="numpy")
    for name in ("_mask", "_fill_value", "_data", "_baseclass", "_optinfo", "mask", "filled"):
        assert not hasattr(x, name), name
    assert np.ma.getmask(x) is np.ma.nomask
    assert np.ma.masked_greater(x, 1.5).tolist() == [1.0, None]
