"""Tensors as text, with as many digits and elements as a program asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rulegrad.errors import ConfigError

if TYPE_CHECKING:
    from rulegrad.tensor.tensor import Tensor

#: What PyTorch's profiles of options say: digits, elements of which all are shown, and of an end of an axis.
_PROFILES: Final[dict[str, dict[str, Any]]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
#: NumPy's, until a program asks for others by `set_printoptions`.
_asked: dict[str, Any] = {}
#: PyTorch's name of what is asked for.
PRINT_OPTS: Final = SimpleNamespace(**_PROFILES["default"], sci_mode=None)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How many digits and elements a tensor's text has; until it is called they are NumPy's.

    precision: digits behind the point. threshold: from how many elements on only `edgeitems` of each end are shown.
    linewidth: characters of a line. profile: default, short or full. sci_mode: False for no exponents. Raises
    ConfigError for another profile.

    >>> set_printoptions(precision=2); print(repr(Tensor([0.12345], device="numpy")))
    Tensor([0.12], dtype=float32, device=numpy)
    >>> set_printoptions(precision=8)
    """
    if profile is not None and profile not in _PROFILES:
        raise ConfigError(f"set_printoptions: profile={profile!r}; use {', '.join(_PROFILES)}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    found = {**(_PROFILES[profile] if profile else {}), **{key: one for key, one in given.items() if one is not None}}
    vars(PRINT_OPTS).update(found, sci_mode=sci_mode)
    _asked.update(found)
    if "linewidth" in _asked:
        _asked["max_line_width"] = _asked.pop("linewidth")
    if sci_mode is not None:
        _asked["suppress_small"] = not sci_mode


def values_as_text(values: Any, prefix: str = "") -> str:
    """An array with commas between its elements."""
    return np.array2string(values, separator=", ", prefix=prefix, **_asked)


def _tensor_str(self: Tensor, indent: int) -> str:
    """PyTorch's name: the elements as text."""
    return values_as_text(self.detach().numpy(), " " * indent)


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """PyTorch's name: the text of a tensor, with these elements."""
    return repr(inp) if tensor_contents is None else f"Tensor({tensor_contents})"


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """PyTorch's name: the text with what is behind the elements."""
    return ", ".join([tensor_str, *suffixes]) + ")"
