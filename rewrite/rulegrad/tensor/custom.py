"""Functions whose gradient is a rule of the user's; ops that a user declares."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulegrad import _core, engine
from rulegrad.engine import load_rules
from rulegrad.errors import GraphError, RulegradError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.operands import as_operand, as_tensor, broadcast_shapes, expand_to, result_dtype, unified

if TYPE_CHECKING:
    import tempfile

_folder: tempfile.TemporaryDirectory[str] | None = None
_numbers = itertools.count()


def custom_gradient(name: str, rule: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the gradient of the function, from tensors to one tensor, is the rule for `CUSTOM[name="NAME"]`.

    The node `CUSTOM[name="NAME"](value, x1, …)` has the function's result and its arguments as sources. Its rule is a
    line of the function `gradient` in a rule file that is loaded with `load_rules`::

        use tensor/gradient: gradient
        function gradient(n, d):
            clipped: gradient(CUSTOM[name="clipped"](_, _), d) -> (none, min(max(d, -1), 1))

    or given here, as what stands between `CUSTOM[…]` and the end: `rule="(_, _) -> (none, min(max(d, -1), 1))"`. It
    gives one gradient for each source, `none` for one that has none; `d` is the gradient of the result.
    Raises RuleError where the rule is wrong, with its place, and RulegradError for a result that is not a tensor.

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


def apply_op(op: str, /, *sources: Any, dtype: Any = None, **attributes: Any) -> Any:
    """The tensor that an op makes of tensors: an op of the op table, or one that a rule file of yours declares.

    sources: tensors, in the order in which the op has them; for an elementwise op also numbers and arrays, which with
    the tensors are brought to one shape, and where there are numbers to one dtype, but for truth values. dtype: that of
    the result, of ops that are told it. attributes: those of the op. The result has the gradient that the function
    `gradient` of a rule file says, and is mapped by `vmap` as the rules of `batching` say (elementwise ops need none).
    Raises RulegradError for an op that is not declared, GraphError for sources, a dtype or attributes that it does not
    take and for an op of kernels, ShapeError for shapes that do not broadcast.

    >>> from rulegrad import Tensor, apply_op
    >>> apply_op("WHERE", Tensor([True, False]), Tensor([1.0]), 3.0).tolist()
    [1.0, 3.0]
    """
    declared = engine.summary()["ops"]
    if op not in declared:
        from rulegrad.lang.diagnostics import did_you_mean  # late: only a message needs it

        close = did_you_mean(op, declared)
        hint = f"{close}; " if close else ""
        hint += "a file that declares ops is named by RULEGRAD_RULES, or by an entry point"
        raise RulegradError(f"apply_op: no rule file declares an op {op}; {hint}")
    like = next((x for x in sources if isinstance(x, TensorCore)), None)
    if like is None:
        raise RulegradError(f"apply_op: {op} needs a tensor among its sources")
    name = f"apply_op({op})"
    given = [as_operand(like, x, name) for x in sources]
    tensors = [x for x in given if isinstance(x, TensorCore)]
    if "Elementwise" in declared[op][0]:
        nodes = _of_one_shape(name, given)
    else:
        nodes = [as_tensor(like, x, name).uop for x in given]
    made = UOp(op, tuple(nodes), None if dtype is None else as_dtype(dtype), **attributes)
    leaves = [UOp("PARAM", (), node.dtype, slot=k, shape=node.shape) for k, node in enumerate(made.src)]
    if _core.verify(made.replace(leaves), "tensor"):
        raise GraphError(f"apply_op: {op} may not stand among tensors: it is an op of kernels, which rules make")
    return like._result(made, *(x for x in tensors if x is not like))


def _of_one_shape(name: str, given: list[Any]) -> list[UOp]:
    """The nodes of operands that are broadcast; with numbers among them of one dtype, but for truth values."""
    tensors = [x for x in given if isinstance(x, TensorCore)]
    if len(tensors) == len(given):
        shape = broadcast_shapes(name, *(x.shape for x in tensors))
        return [expand_to(x.uop, shape) for x in tensors]
    truths = [k for k, x in enumerate(given) if isinstance(x, TensorCore) and x.dtype == "bool"]
    if len(truths) == len(tensors):
        return unified(name, *given)
    dtype = result_dtype(*(x for k, x in enumerate(given) if k not in truths))
    return unified(name, *given, dtype=dtype, kept=truths)


def _load(name: str, rule: str) -> None:
    """Load a rule file with this one line."""
    global _folder
    if _folder is None:
        import tempfile  # late: with what it imports it takes 3 ms

        _folder = tempfile.TemporaryDirectory(prefix="rulegrad-rules-")
    sources, arrow, gradients = rule.partition("->")
    if not arrow:
        raise RulegradError(f"custom_gradient: the rule must be `(value, x) -> (none, gradient)`, not `{rule}`")
    path = Path(_folder.name) / f"{name}_{next(_numbers)}.rules"
    pattern = f'gradient(CUSTOM[name="{name}"]{sources.strip()}, d)'
    line = f"{name}: {pattern} -> {gradients.strip()}"
    path.write_text(f"use tensor/gradient: gradient\nfunction gradient(n, d):\n    {line}\n", encoding="utf-8")
    load_rules(path)
