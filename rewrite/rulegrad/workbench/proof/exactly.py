"""`eval` lines of several steps, on exact integers: the value is wrapped around once, whatever the steps are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import z3

from rulegrad.lang import syntax
from rulegrad.workbench.proof import arithmetic
from rulegrad.workbench.proof.arithmetic import truth
from rulegrad.workbench.proof.encoding import Encoding
from rulegrad.workbench.proof.known import known_operator
from rulegrad.workbench.proof.values import Node, UntranslatableError, Value, is_known, limits


def exactly(encoding: Encoding, x: syntax.Expression, given: Mapping[str, Node], source: str) -> Value:
    """The value of an `eval` line, as an integer or a truth value, on sources that are machine integers.

    Raises UntranslatableError for what depends on how many bits there are, and for divisions that may be by 0.
    """

    def of(part: syntax.Expression) -> Value:
        match part:
            case syntax.Name(name=name):
                return encoding.exact(given[name].term, given[name].dtype)
            case syntax.Literal(value=bool() | int() as value):
                return value
            case syntax.Call(function="dtype_min" | "dtype_max" as end):
                return limits(source)[end == "dtype_max"]
            case syntax.Conditional(condition=condition, then=then, otherwise=otherwise):
                return _chosen(of(condition), of(then), of(otherwise))
            case syntax.Prefix(operator=operator, operand=operand):
                return _prefixed(operator, of(operand))
            case syntax.Infix(operator=operator, left=left, right=right):
                return _binary(operator, of(left), of(right))
            case syntax.Call(function=function, arguments=arguments) if function in _FUNCTIONS:
                return _FUNCTIONS[function](*map(of, arguments))
        raise UntranslatableError("this part of an `eval` line")

    return of(x)


def _binary(operator: str, a: Value, b: Value) -> Value:
    if operator in ("and", "or"):
        return (z3.And if operator == "and" else z3.Or)(truth(a), truth(b))
    if operator in ("//", "%") and (not isinstance(b, int) or b == 0):
        raise UntranslatableError("a division of an `eval` line")
    if is_known(a, b):
        return known_operator(operator, a, b) if operator not in ("==", "!=") else (a == b) is (operator == "==")
    if z3.is_bool(a) and z3.is_bool(b) and operator in ("==", "!="):
        return a == b if operator == "==" else a != b
    value, _ = arithmetic.binary(operator, a, b)
    return value


def _prefixed(operator: str, a: Value) -> Value:
    if operator == "not":
        return z3.Not(truth(a))
    if operator != "-":
        raise UntranslatableError("this part of an `eval` line")
    return -a if is_known(a) else arithmetic.negated(a)


def _chosen(condition: Value, a: Value, b: Value) -> Value:
    if isinstance(condition, bool):
        return a if condition else b
    if all(isinstance(v, bool) or z3.is_bool(v) for v in (a, b)):
        return z3.If(truth(condition), truth(a), truth(b))
    if is_known(a, b):
        a = arithmetic.exact_of(a)
    return arithmetic.chosen(truth(condition), a, b)


def _extreme(operator: str) -> Callable[..., Value]:
    return lambda *items: reduce(lambda a, b: _chosen(_binary(operator, a, b), a, b), items)


def _bitwise(operator: str) -> Callable[[Value, Value], Value]:
    return lambda a, b: _binary(operator, a, b)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": _extreme(">"),
    "min": _extreme("<"),
    "abs": lambda a: _chosen(_binary("<", a, 0), _prefixed("-", a), a),
    "bit_and": _bitwise("&"),
    "bit_or": _bitwise("|"),
    "bit_xor": _bitwise("^"),
}
