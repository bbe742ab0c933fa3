"""`torch.testing`: a comparison of tensors that says where they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from rulegrad.errors import ConfigError
from rulegrad.tensor.tensor import Tensor

__all__ = ["assert_close"]

#: The relative and absolute differences that are allowed by default, by dtype; others have to be equal.
_ALLOWED: Final = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises AssertionError unless tensors, numbers, or sequences and mappings of them, are close.

    By default differences may be as large as PyTorch allows for the dtype. Raises ConfigError for one of rtol and
    atol without the other.

    >>> assert_close(Tensor([1.0, 2.0]), Tensor([1.0, 2.5]))
    Traceback (most recent call last):
    AssertionError: 1 of 2 elements differ, most at (1,): 2.0 and 2.5, where rtol=1.3e-06 and atol=1e-05 are allowed
    """
    if (rtol is None) != (atol is None):
        raise ConfigError(f"assert_close: rtol={rtol}, atol={atol}; give both or none")
    checks = {"device": check_device, "dtype": check_dtype}
    problem = _problem(actual, expected, checks, None if rtol is None else (rtol, atol), equal_nan)
    if problem:
        raise AssertionError(msg(problem) if callable(msg) else problem if msg is None else msg)


def _problem(actual: Any, expected: Any, checks: Mapping[str, bool], allowed: Any, equal_nan: bool) -> str:
    """The first difference; "" where there is none."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return f"the keys are {[*actual]} and {[*expected]}"
        pairs: list[Any] = [(key, actual[key], expected[key]) for key in actual]
    elif _is_list(actual) and _is_list(expected):
        if len(actual) != len(expected):
            return f"there are {len(actual)} and {len(expected)} items"
        pairs = [(place, *both) for place, both in enumerate(zip(actual, expected, strict=True))]
    else:
        return _of_values(actual, expected, checks, allowed, equal_nan)
    for name, one, other in pairs:
        problem = _problem(one, other, checks, allowed, equal_nan)
        if problem:
            return f"item {name!r}: {problem}"
    return ""


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _of_values(actual: Any, expected: Any, checks: Mapping[str, bool], allowed: Any, equal_nan: bool) -> str:
    if actual is None or expected is None:
        return "" if actual is expected else f"{actual!r} and {expected!r}"
    both = isinstance(actual, Tensor), isinstance(expected, Tensor)
    if both[0] != both[1]:
        return f"a {type(actual).__name__} and a {type(expected).__name__}"
    if not all(both):
        actual, expected = (
            Tensor(value, "float64" if isinstance(value, float) else None) for value in (actual, expected)
        )
        checks = {}
    if actual.shape != expected.shape:
        return f"the shapes are {actual.shape} and {expected.shape}"
    for name, wanted in checks.items():
        if wanted and getattr(actual, name) != getattr(expected, name):
            return f"the {name}s are {getattr(actual, name)} and {getattr(expected, name)}"
    if allowed is None:
        bounds = [_ALLOWED.get(str(tensor.dtype), (0.0, 0.0)) for tensor in (actual, expected)]
        allowed = max(bound[0] for bound in bounds), max(bound[1] for bound in bounds)
    return _of_arrays(_array(actual), _array(expected), allowed, equal_nan)


def _array(tensor: Tensor) -> Any:
    """The elements in a dtype in which differences can be taken."""
    kind = str(tensor.dtype)
    wide = "complex128" if tensor.is_complex() else "float64" if tensor.is_floating_point() else None
    values = tensor.detach().to("numpy")
    return values.numpy() if wide is None else (values.float() if kind == "bfloat16" else values).numpy().astype(wide)


def _of_arrays(one: Any, other: Any, allowed: tuple[float, float], equal_nan: bool) -> str:
    rtol, atol = allowed
    close = np.isclose(one, other, rtol, atol, equal_nan) if rtol or atol else np.equal(one, other)
    if equal_nan and one.dtype.kind in "fc":
        close = close | (np.isnan(one) & np.isnan(other))
    if close.all():
        return ""
    with np.errstate(all="ignore"):
        far = np.abs(np.subtract(one, other, dtype=np.result_type(one.dtype, np.float64)))
    place = np.unravel_index(int(np.argmax(np.where(close, -1.0, np.nan_to_num(far, nan=np.inf)))), one.shape)
    where = tuple(int(k) for k in place)
    return (
        f"{int((~close).sum())} of {close.size} elements differ, most at {where}: {one[place]} and {other[place]}, "
        f"where rtol={rtol} and atol={atol} are allowed"
    )
