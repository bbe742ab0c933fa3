"""Expressions, which patterns, templates, guards and the op table share, and where a piece of syntax stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """Where a piece of syntax stands: file, 1-based line, 0-based column and its end."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Expression:
    span: Span


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """`0`, `1.5`, `true`, `"text"`, `none`, `inf`, `nan`."""

    value: int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """`x`, `_`, `x:T`, `c:const`, `c:const:T`, `i:range(4)`, `x:float32[4, 8]`, `one s`."""

    name: str
    is_const: bool = False
    dtype: str | None = None  # dtype, dtype class or dtype variable
    bounds: tuple[int, int] | None = None  # tests: i:range(4) is (0, 4)
    shape: tuple[int, ...] | None = None  # tests: x:float32[4, 8]
    one: bool = False


@dataclass(frozen=True, slots=True)
class Capture(Expression):
    """`n@pattern`."""

    name: str
    pattern: Expression


@dataclass(frozen=True, slots=True)
class Splice(Expression):
    """`xs...`, `_...`, `(pattern)...`."""

    inner: Expression


@dataclass(frozen=True, slots=True)
class Attribute(Expression):
    """One entry in brackets: `k=v`, `v` (no name) or `..n` (name "..")."""

    name: str | None
    value: Expression


@dataclass(frozen=True, slots=True)
class OpCall(Expression):
    """`OP[attributes](arguments)` or `f[..n](xs...)`: a name followed by brackets, or all in capitals."""

    op: str
    attributes: tuple[Attribute, ...]
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """`name(arguments)`: an op variable, an op by its lower-case name, a function, a def, a record or a built-in.

    Those of a def or a record may have names: `Attribute`s, also `..r` for the other fields of a record.
    """

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Infix(Expression):
    """`a + b`; operators `+ - * / // % ** & | ^ << >> < <= > >= == != and or in not-in`."""

    operator: str
    left: Expression
    right: Expression
    ordered: bool = False  # `ordered a + b`


@dataclass(frozen=True, slots=True)
class Prefix(Expression):
    """`-x`, `~x`, `not x`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Compute(Expression):
    """`{e}`."""

    inner: Expression


@dataclass(frozen=True, slots=True)
class Multiset(Expression):
    """`sum{a, b, rest...}`, `prod{...}`, `all{...}`: the members of a chain of ADD, MUL or (bool) AND, in any order.

    In a pattern at most one item is a Splice, the rest; in a template items are as in a Sequence.
    """

    kind: str
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Negation(Expression):
    """`not PATTERN`, in a pattern: a node that does not match; binds nothing."""

    pattern: Expression


@dataclass(frozen=True, slots=True)
class Substitution(Expression):
    """`subst(e, a -> b, c -> d)`: e with nodes (or sequences of nodes) replaced, all at once."""

    inner: Expression
    pairs: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class Fold(Expression):
    """`fold[f](xs)`: the chain of a sequence by an op; of no nodes, the identity of f."""

    op: Expression
    sequence: Expression


@dataclass(frozen=True, slots=True)
class SetLiteral(Expression):
    """`{ADD, MUL}` after `in` / `not in`: names of ops or dtypes, or literals."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Sequence(Expression):
    """`[a, b]` or `(a, b)`; items may be Splice or Comprehension."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Comprehension(Expression):
    """`body for a, b in iterable if condition`; one loop."""

    body: Expression
    variables: tuple[str, ...]
    iterable: Expression
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class Subscript(Expression):
    """`xs[i]`."""

    sequence: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Slice(Expression):
    """`xs[i:j]`, either end may be missing."""

    sequence: Expression
    start: Expression | None
    stop: Expression | None


@dataclass(frozen=True, slots=True)
class Member(Expression):
    """`T.bits`, `n.shape`."""

    owner: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Conditional(Expression):
    """`a if c else b`."""

    condition: Expression
    then: Expression
    otherwise: Expression


# A field of a text: its expression, a modifier or "", and what stands between the items of a sequence (else None).
Field = tuple[Expression, str, str | None]


@dataclass(frozen=True, slots=True)
class Text(Expression):
    """A render template: literal strings and fields, in order."""

    kind: str  # inline, expr, stmt, block
    precedence: int
    parts: tuple[str | Field, ...]
    close: tuple[str | Field, ...] = ()
