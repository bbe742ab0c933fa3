"""Built-in functions on symbols: exactly where all is known; else by what is documented of them (docs/proving.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import z3

from rulegrad import _core
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang import syntax
from rulegrad.workbench.proof import arithmetic
from rulegrad.workbench.proof.arithmetic import truth
from rulegrad.workbench.proof.known import KNOWN
from rulegrad.workbench.proof.values import (
    DtypeName,
    Exact,
    Node,
    OpName,
    UndefinedError,
    UntranslatableError,
    Value,
    is_known,
    limits,
)

if TYPE_CHECKING:
    from rulegrad.workbench.proof.evaluation import Evaluation

#: A constant has 64 bits, and a sum of one and a number a few more.
POWERS_OF_TWO, _MORE_POWERS = tuple(2**k for k in range(64)), tuple(2**k for k in range(80))


def call_builtin(e: Evaluation, name: str, arguments: Sequence[Value], x: syntax.Call) -> Value:
    """The value of a built-in function. Raises UntranslatableError for one that says nothing that logic can use."""
    if name in KNOWN and is_known(*arguments):
        try:
            return KNOWN[name](*arguments)
        except (ValueError, TypeError, ZeroDivisionError, OverflowError, IndexError):
            raise UndefinedError from None
    if name in _ON_SYMBOLS:
        return _ON_SYMBOLS[name](e, *arguments)
    raise UntranslatableError(f"{name}(…)")


# ---- on symbols ----


def bounds(e: Evaluation, x: Value) -> tuple[Value, Value]:
    """The interval of a node: bounds of which nothing is known but that the value lies between them."""
    if not isinstance(x, Node):
        return x, x
    if x.value is not None and not isinstance(x.value, float):
        return x.value, x.value
    if as_dtype(x.dtype).kind in ("float", "void"):
        raise UndefinedError
    if id(x) not in e.bounds:
        (low, facts), (high, more) = (e.meaning.encoding.symbol(f"v{end}.{id(x)}", x.dtype) for end in ("min", "max"))
        e.meaning.facts.extend((*facts, *more))
        inside = [e.meaning.encoding.apply("<=", x.dtype, pair) for pair in ((low, x.term), (x.term, high))]
        e.meaning.facts.extend(inside)
        exact = e.meaning.encoding.exact
        e.bounds[id(x)] = (x, exact(low, x.dtype), exact(high, x.dtype))
    return e.bounds[id(x)][1:]


def exact_value(e: Evaluation, x: Node) -> Value:
    """The value of a node as a number."""
    return x.value if x.value is not None else e.meaning.encoding.exact(x.term, x.dtype)


def _fits(e: Evaluation, x: Node, dtype: str) -> Any:
    low, high = bounds(e, x)
    if as_dtype(str(dtype)).kind == "index":
        return True
    least, greatest = limits(str(dtype))
    return z3.And(*(truth(e.operator("<=", a, b, False)) for a, b in ((least, low), (high, greatest))))


def _power(e: Evaluation, n: Value) -> Any:
    if not isinstance(n, Exact) or not n.name:
        raise UntranslatableError("whether a computed number is a power of two")
    if abs(n.offset) > 1 << 64:
        raise UntranslatableError("whether a constant and a large number are a power of two")
    return n.is_one_of(_MORE_POWERS if n.offset else POWERS_OF_TWO)


def _log2_of(e: Evaluation, n: Value) -> Any:
    _power(e, n)
    raise UndefinedError


def _least(operator: str) -> Callable[..., Value]:
    def call(e: Evaluation, *arguments: Value) -> Value:
        items = [i for a in arguments for i in (a if isinstance(a, tuple) else (a,))]
        result = items[0]
        for item in items[1:]:
            if is_known(result, item):
                result = min(result, item) if operator == "<" else max(result, item)
            else:
                result = arithmetic.chosen(truth(e.operator(operator, result, item, False)), result, item)
        return result

    return call


def _absolute(e: Evaluation, a: Value) -> Value:
    return arithmetic.chosen(truth(e.operator("<", a, 0, False)), arithmetic.negated(a), a)


def _rounded_up(e: Evaluation, a: Value, b: Value) -> Value:
    return e.operator("-", 0, e.operator("//", e.operator("-", 0, a, False), b, False), False)


def _evaluate(e: Evaluation, f: Value, dtype: Value, xs: Sequence[Value]) -> Value:
    nodes = [e.lift(x, str(dtype)) for x in xs]
    if all(is_known(n.value) and n.value is not None for n in nodes):
        found = _core.evaluate(str(f), str(dtype), *(n.value for n in nodes))
        if found is None:
            raise UndefinedError
        return found
    node = e.meaning.node(str(f), nodes, str(dtype))
    return node if as_dtype(str(dtype)).is_float else exact_value(e, node)


def _converted(e: Evaluation, value: Value, dtype: Value) -> Value:
    if isinstance(value, Node):
        value = exact_value(e, value)
    node = e.meaning.constant(value, str(dtype))
    return exact_value(e, node)


def _bits(e: Evaluation, value: Value, source: Value, target: Value) -> Value:
    node = e.meaning.constant(value, str(source))
    term = e.meaning.encoding.bitcast(node.term, str(source), str(target))
    return e.meaning.encoding.exact(term, str(target))


def _same_value(e: Evaluation, x: Value) -> Node:
    """Another node of the same value, such as a sum in another order."""
    if not isinstance(x, Node):
        raise UntranslatableError("a sum that is computed")
    return Node(x.term, x.dtype, x.valid)


def _divisor(e: Evaluation, c: Exact) -> tuple[Exact, Exact]:
    """A divisor d > 1 of c > 1, and c / d."""
    d, k = e.meaning.fresh_integer("d", c), e.meaning.fresh_integer("k", c)
    e.require(z3.And(d.term > 1, k.term > 0, k.term * d.term == _term(c), _term(c) / d.term == k.term))
    return d, k


def _term(c: Value) -> Any:
    return c.term if isinstance(c, Exact) else z3.IntVal(c)


def _index_parts(x: Value, c: Value) -> tuple[Any, Value]:
    whole = isinstance(x, Node) and x.dtype == "index" and z3.is_int(x.term)
    if not whole or not isinstance(c, int | Exact):
        raise UntranslatableError("a division of anything but an index")
    return x, c


def _quotient_sum(e: Evaluation, x: Value, c: Value) -> tuple[Value, ...]:
    """(d, x // d) for a divisor d > 1 of c."""
    x, c = _index_parts(x, c)
    d, _ = _divisor(e, c)
    return d, Node(arithmetic.floor_divide(x.term, d.term, False), "index", x.valid)


def _split_sum(e: Evaluation, x: Value, c: Value) -> tuple[Value, ...]:
    """(d, x // d, x % d) for a divisor d > 1 of c."""
    d, q = _quotient_sum(e, x, c)
    return d, q, Node(arithmetic.floor_modulo(x.term, d.term, False), "index", x.valid)


def _parts(e: Evaluation, x: Node, d: Any) -> tuple[Node, Node]:
    q, r = e.meaning.symbol("q", "index"), e.meaning.symbol("r", "index")
    q.valid = r.valid = x.valid
    e.require(x.term == d * q.term + r.term)
    return q, r


def _split_sum_below(e: Evaluation, x: Value, c: Value) -> tuple[Value, ...]:
    """(d, q, r) with x == d * q + r and d > 1."""
    x, _ = _index_parts(x, c)
    d = e.meaning.fresh_integer("d", None)
    e.require(d.term > 1)
    return d, *_parts(e, x, d.term)


def _residue(e: Evaluation, x: Value, c: Value) -> Node:
    """A sum that is congruent to x modulo c."""
    x, c = _index_parts(x, c)
    result = e.meaning.symbol("residue", "index")
    result.valid = x.valid
    multiple = e.meaning.fresh_integer("m", None)
    e.require(result.term == x.term + _term(c) * multiple.term)
    e.require(z3.Implies(_term(c) > 0, result.term / _term(c) == x.term / _term(c) + multiple.term))
    return result


def _op(e: Evaluation, x: Value) -> Value:
    if not isinstance(x, Node) or not x.op:
        raise UntranslatableError("the op of a node that is not known")
    return OpName(x.op)


def _sources(e: Evaluation, x: Value) -> tuple[Node, ...]:
    if not isinstance(x, Node) or not x.op:
        raise UntranslatableError("the sources of a node that is not known")
    return x.sources


def _is_const(e: Evaluation, x: Value) -> bool:
    if isinstance(x, Node) and x.op == "CONST":
        return True
    raise UntranslatableError("whether a node is a constant")


def _value(e: Evaluation, x: Value) -> Value:
    if isinstance(x, Node) and x.op == "CONST" and x.value is not None:
        return x.value
    raise UntranslatableError("the value of a node that is not known")


def _dtype(e: Evaluation, x: Value) -> DtypeName:
    if not isinstance(x, Node):
        raise UntranslatableError("the dtype of anything but a node")
    return DtypeName(x.dtype)


def _limit(e: Evaluation, name: str) -> Value:
    """Any number: what is proved holds for every target."""
    limit = z3.Int(f"limit {name}")
    e.require(limit >= 0)
    return limit


def _chain(kind: str) -> Callable[..., Value]:
    return lambda e, xs: e.chain(kind, xs)


def _all(e: Evaluation, xs: Sequence[Value]) -> Any:
    return z3.And(*map(truth, xs))


def _any(e: Evaluation, xs: Sequence[Value]) -> Any:
    return z3.Or(*map(truth, xs))


_ON_SYMBOLS: dict[str, Callable[..., Value]] = {
    "vmin": lambda e, x: bounds(e, x)[0],
    "vmax": lambda e, x: bounds(e, x)[1],
    "fits": _fits,
    "is_pow2": _power,
    "log2": _log2_of,
    "min": _least("<"),
    "max": _least(">"),
    "abs": _absolute,
    "ceildiv": _rounded_up,
    "is_int": lambda e, a: True,
    "eval": _evaluate,
    "convert": _converted,
    "bitcast": _bits,
    "ordered_sum": _same_value,
    "joined_sum": _same_value,
    "quotient_sum": _quotient_sum,
    "split_sum": _split_sum,
    "split_sum_below": _split_sum_below,
    "residue": _residue,
    "op": _op,
    "srcs": _sources,
    "src": lambda e, x, k: _sources(e, x)[k],
    "is_const": _is_const,
    "value": _value,
    "dtype": _dtype,
    "limit": _limit,
    "sum": _chain("sum"),
    "prod": _chain("prod"),
    "all_of": _chain("all"),
    "all": _all,
    "any": _any,
    "len": lambda e, xs: len(xs),
    "zip": lambda e, *xs: KNOWN["zip"](*xs),
    "reversed": lambda e, xs: tuple(reversed(xs)),
}
