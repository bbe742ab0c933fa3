"""Every in-place form that is made from a row of the table of methods, against the function that it is made from."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import GradientError

MATRIX = [[0.25, 0.5], [0.75, 0.375]]
BATCH = np.arange(8, dtype=np.float32).reshape(2, 2, 2) / 8
LARGER = [[1.5, 2.5], [3.5, 4.5]]
WHOLE = [[6, 5], [12, 9]]

#: The values that functions not of floats, or not of those of MATRIX, are given.
VALUES: dict[str, Any] = {
    **dict.fromkeys(("acosh", "arccosh", "mvlgamma", "polygamma"), LARGER),
    **dict.fromkeys(("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "gcd", "lcm"), WHOLE),
    **dict.fromkeys(("__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"), WHOLE),
    "baddbmm": BATCH + 1,
    "nan_to_num": [[1.0, float("nan")], [float("inf"), 2.0]],
}
OTHER = Tensor([[0.5, 0.375], [0.5, 2.0]], device="numpy")
INDEX = Tensor([[1, 0], [0, 0]], device="numpy")
MASK = Tensor([[True, False], [True, True]], device="numpy")
ROW = Tensor([0.5, 2.0], device="numpy")

#: The arguments of functions that have any.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("addcdiv", "addcmul", "addmm", "lerp"), (OTHER, OTHER)),
    **dict.fromkeys(("addbmm", "baddbmm"), (BATCH, BATCH)),
    **dict.fromkeys(("addmv",), (OTHER, ROW)),
    **dict.fromkeys(("addr",), (ROW, ROW)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"), (4,)),
    **dict.fromkeys(("__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"), (2,)),
    **dict.fromkeys(("clamp", "clip"), (0.3, 0.6)),
    **dict.fromkeys(("cumprod", "cumsum"), (0,)),
    **dict.fromkeys(("index_add", "index_copy"), (0, [1, 0], OTHER)),
    **dict.fromkeys(("scatter", "scatter_add"), (0, INDEX, OTHER)),
    "index_fill": (0, [1], 7.0),
    "index_put": (([1, 0],), ROW),
    "index_reduce": (0, [1, 0], OTHER, "prod"),
    "ldexp": (3,),
    "masked_fill": (MASK, 7.0),
    "masked_scatter": (MASK, OTHER),
    "mvlgamma": (2,),
    "polygamma": (1,),
    "put": ([3, 0], ROW),
    "renorm": (2, 0, 0.5),
    "scatter_reduce": (0, INDEX, OTHER, "amax"),
}

FORMS = {
    name: function
    for cls in Tensor.__mro__[:-1]
    for name, function in vars(cls).items()
    if hasattr(function, "__wrapped__") and (function.__doc__ or "").startswith("`") and "in place" in function.__doc__
}
NAMES = sorted(FORMS)


def case(name: str) -> tuple[Any, Tensor, tuple[Any, ...]]:
    """The function that is not in place, a tensor, and the other arguments."""
    plain = FORMS[name].__wrapped__
    key = name if name.startswith("__") else name.removesuffix("_")
    values = Tensor(VALUES.get(key, MATRIX), device="numpy")
    needed = [p for p in inspect.signature(plain).parameters.values() if p.default is p.empty]
    return plain, values, ARGUMENTS.get(key, (OTHER,) * (len(needed) - 1))


def as_numpy(x: Tensor) -> Any:
    return x.detach().numpy()


def test_every_name_ends_as_pytorchs_do() -> None:
    assert len(NAMES) > 120
    assert all(name.endswith("_") or name.startswith("__i") for name in NAMES)
    assert set(ARGUMENTS) | set(VALUES) <= {n if n.startswith("__") else n.removesuffix("_") for n in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_values_and_dtype(name: str) -> None:
    plain, x, others = case(name)
    expected = plain(x.clone(), *others).cast(x.dtype)
    before = x._changes
    assert FORMS[name](x, *others) is x
    assert x.dtype == expected.dtype and x._changes > before
    np.testing.assert_array_equal(as_numpy(x), as_numpy(expected))


@pytest.mark.parametrize("name", NAMES)
def test_a_view_changes_its_base(name: str) -> None:
    plain, x, others = case(name)
    base = x.stack(x)
    expected = plain(x.clone(), *others).cast(x.dtype)
    FORMS[name](base[1], *others)
    np.testing.assert_array_equal(as_numpy(base), np.stack([as_numpy(x), as_numpy(expected)]))


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    """A leaf refuses, by the name that was called; what was computed from it has the gradient of the other form."""
    plain, x, others = case(name)
    if not x.dtype.is_inexact:
        pytest.skip("integers have no gradient")
    found = []
    for function in (plain, FORMS[name]):
        leaf = x.clone().requires_grad_()
        result = function(leaf * 1, *others).cast(x.dtype)
        if not result.requires_grad:
            break
        (result * Tensor([[1.0, 2.0], [3.0, 4.0]], device="numpy")).sum().backward()
        found.append(0 if leaf.grad is None else as_numpy(leaf.grad))  # rounding has none
    np.testing.assert_array_equal(*found or (0, 0))
    with pytest.raises(
        GradientError, match=r"^\S+: .* cannot be changed in place" if name.startswith("__") else f"^{name}: "
    ):
        FORMS[name](leaf, *others)


def test_errors_name_the_method() -> None:
    leaf = Tensor([1.0], requires_grad=True)
    with pytest.raises(GradientError, match=r"^exp_: "):
        leaf.exp_()
    with pytest.raises(GradientError, match=r"^\+=: "):
        leaf += 1
