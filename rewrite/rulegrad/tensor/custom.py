"""Functions whose gradient is a rule of the user's."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.tensor.core import TensorCore

_folder: tempfile.TemporaryDirectory[str] | None = None
_numbers = itertools.count()


def custom_gradient(name: str, rule: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the gradient of the function, from tensors to one tensor, is the rule for `CUSTOM[name="NAME"]`.

    The node `CUSTOM[name="NAME"](value, x1, …)` has the function's result and its arguments as sources. Its rule is a
    line of the function `gradient` in a rule file that is loaded with `load_rules`:

        function gradient(n, d):
            clipped: gradient(CUSTOM[name="clipped"](_, _), d) -> (none, min(max(d, -1), 1))

    or given here, as what stands between `CUSTOM[…]` and the end: `rule="(_, _) -> (none, min(max(d, -1), 1))"`. It
    gives one gradient for each source, `none` for one that has none; `d` is the gradient of the result.
    Raises RuleError where the rule is wrong, with its place, and RulegradError for a result that is no tensor.

    >>> from rulegrad import Tensor, custom_gradient, grad
    >>> @custom_gradient("straight_through", "(_, _) -> (none, d)")
    ... def rounded(x):
    ...     return x.round()
    >>> grad(lambda x: rounded(x * 3))(Tensor(0.5)).item()
    3.0
    """
    if not name.isidentifier():
        raise RulegradError(f"custom_gradient: {name!r} cannot be the name of a rule; use letters, digits and _")
    if rule is not None:
        _load(name, rule)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_rule(*tensors: Any) -> Any:
            for x in tensors:
                if not isinstance(x, TensorCore):
                    raise RulegradError(f"custom_gradient: {name} takes tensors only, not a {type(x).__name__}")
            value = function(*tensors)
            if not isinstance(value, TensorCore):
                raise RulegradError(f"custom_gradient: {name} must give a tensor, not a {type(value).__name__}")
            return value._result(UOp("CUSTOM", (value.uop, *(x.uop for x in tensors)), name=name), *tensors)

        return with_rule

    return decorate


def _load(name: str, rule: str) -> None:
    """Load a rule file with this one line."""
    global _folder
    from rulegrad.lang.engine import load_rules

    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="rulegrad-rules-")
    sources, arrow, gradients = rule.partition("->")
    if not arrow:
        raise RulegradError(f"custom_gradient: the rule must be `(value, x) -> (none, gradient)`, not `{rule}`")
    path = Path(_folder.name) / f"{name}_{next(_numbers)}.rules"
    pattern = f'gradient(CUSTOM[name="{name}"]{sources.strip()}, d)'
    path.write_text(f"function gradient(n, d):\n    {name}: {pattern} -> {gradients.strip()}\n", encoding="utf-8")
    load_rules(path)
