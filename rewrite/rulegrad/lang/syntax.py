"""The syntax tree of rule files: plain data, made by the parser, read by the checker and the compiler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Span(NamedTuple):
    """Where a piece of syntax stands: file, 1-based line, 0-based column and its end."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


# ---- expressions: patterns, templates, guards and the op table share them ----


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


# ---- clauses and rules ----


@dataclass(frozen=True, slots=True)
class Generic:
    """`f: CLASS`, `T: {float16, bfloat16}`, bare `T` (classes empty)."""

    name: str
    classes: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause; keyword: if, let, for, least, needs, before, after, unsound, assumes, essential, fallback, decreases,
    grows, ulp.

    `for NAME in SEQUENCE` (names, expression) tries each item (a row, of a table) until the clauses after it hold.
    """

    keyword: str
    span: Span
    expression: Expression | None = None
    names: tuple[str, ...] = ()  # let targets; before/after/assumes names
    text: str = ""  # unsound, grows
    of: Expression | None = None  # ulp: what the error is measured by; least: of how many choices


@dataclass(frozen=True, slots=True)
class RuleTest:
    """`test left -> right`, `test fails left` or `test fires left` (right is None), each for a target or for none."""

    left: Expression
    right: Expression | None
    span: Span
    fires: bool = False
    target: str = ""  # with its features, `NAME+FEATURE`


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    generics: tuple[Generic, ...]
    pattern: Expression
    template: Expression
    clauses: tuple[Clause, ...]
    tests: tuple[RuleTest, ...]
    span: Span
    comment: str = ""  # the comment lines right above it
    of_form: bool = False  # the form of a function stands for it


# ---- declarations ----


@dataclass(frozen=True, slots=True)
class DtypeDeclaration:
    name: str
    properties: dict[str, int | str]
    span: Span


@dataclass(frozen=True, slots=True)
class ClassDeclaration:
    name: str
    members: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Parameter:
    """`a: T`, `xs: index...`, `gate: bool?`; type None is any."""

    name: str
    type: str | None
    variadic: bool
    optional: bool
    span: Span


@dataclass(frozen=True, slots=True)
class AttributeDeclaration:
    name: str
    type: str
    default: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class OpDeclaration:
    name: str
    attributes: tuple[AttributeDeclaration, ...]
    parameters: tuple[Parameter, ...]
    result: str  # dtype, variable, or "explicit"
    where: dict[str, str]  # variable -> class
    classes: tuple[str, ...]
    flags: tuple[str, ...]
    span: Span
    identity: Expression | None = None
    evaluator: Expression | None = None
    interval: tuple[Expression, Expression] | None = None
    shape: Expression | None = None
    checks: tuple[tuple[Expression, str], ...] = ()
    spelling: Text | None = None  # kind "expr"
    stages: tuple[str, ...] = ()
    doc: str = ""
    ulp: int = 0  # units in the last place by which a device's floats may differ
    cost: int = 1  # additions that take as long
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()  # attributes that have one of some texts
    step: str = ""  # how a node is written among the steps of a schedule


@dataclass(frozen=True, slots=True)
class Ruleset:
    name: str
    rules: tuple[Rule, ...]
    union: tuple[str, ...]  # `ruleset a = b + c`
    span: Span


@dataclass(frozen=True, slots=True)
class Priority:
    """`priority LOAD -1`, `priority BUFFER[space="local"] -17` in an order pass."""

    op: str
    attributes: tuple[Attribute, ...]
    value: int
    span: Span


@dataclass(frozen=True, slots=True)
class View:
    """`view NAME(parameters):` and its cases: a pattern or a template, whichever is wanted; the first that fits."""

    name: str
    parameters: tuple[str, ...]
    cases: tuple[ViewCase, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ViewCase:
    """`t * k:const`, or `t with k = 1`: an expression over the parameters, and values for those that it lacks."""

    expression: Expression
    values: tuple[tuple[str, Expression], ...]
    span: Span


Row = tuple["Expression", ...]  # of a table: a value for each column


@dataclass(frozen=True, slots=True)
class Table:
    """`table NAME(column: type, ...):` and its rows, one a line. `NAME[key]` is the row whose first column is key.

    A target may have rows for it too, so a table without any of its own is written without the colon.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Fact:
    """`fact NAME(keys) = value MERGE: pattern`, with clauses, in a collect pass; lines of one name are one fact.

    merge: first, min, max, sum, count, all (the sequence of distinct values) or number (0, 1, 2, … by the keys); the
    value is None for count and number.
    """

    name: str
    keys: tuple[Expression, ...]
    value: Expression | None
    merge: str
    rule: Rule  # its pattern and clauses; the template computes (keys..., value)
    span: Span


@dataclass(frozen=True, slots=True)
class State:
    """`state NAME = initial JOIN` in a flow pass; join: first, min, max, sum, any, every, union.

    A sources_first pass joins nothing: its states have no join (an empty text).
    """

    name: str
    initial: Expression
    join: str
    span: Span


@dataclass(frozen=True, slots=True)
class Send:
    """`send NAME: pattern -> value`, or `send STATE NAME: …` where a flow pass has several states (else state is "").

    consumers_first: the value is a sequence, one for each source; sources_first: it is the node's own state.
    """

    state: str
    rule: Rule


@dataclass(frozen=True, slots=True)
class Pass:
    """kind: rewrite, collect, flow, choose, order, render or reverse.

    direction: children_first, parents_first, walk (rewrite); sources_first, consumers_first (flow);
    first, best (choose).
    """

    name: str
    kind: str
    direction: str
    uses: tuple[str, ...]  # rule sets (reverse: the function; choose: the sets that normalise)
    rules: tuple[Rule, ...]  # its own rules
    span: Span
    priorities: tuple[Priority, ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()  # render: op -> variable name prefix
    facts: tuple[Fact, ...] = ()  # collect
    states: tuple[State, ...] = ()  # flow
    sends: tuple[Send, ...] = ()  # flow
    cost: str = ""  # choose: the function on nodes whose value is to be least
    fuel: int = 0  # choose: candidates examined at most; 0: as many as usual


@dataclass(frozen=True, slots=True)
class Function:
    """A memoised function on nodes; each rule's pattern is that of the first argument."""

    name: str
    parameters: tuple[str, ...]
    rules: tuple[Rule, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Record(Expression):
    """The body of `record NAME(a, b)`, which is a def of its parameters: values that are read as `r.a`, `r.b`."""

    name: str
    fields: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """`def name(a, b) = body`, with `let` lines before the body; or `record name(a, b)`."""

    name: str
    parameters: tuple[str, ...]
    lets: tuple[Clause, ...]
    body: Expression
    span: Span

    @property
    def is_record(self) -> bool:
        """Whether it is a record, whose fields are its parameters."""
        return isinstance(self.body, Record)


@dataclass(frozen=True, slots=True)
class Extern:
    name: str
    parameters: tuple[tuple[str, str], ...]
    result: tuple[str, ...]
    location: str
    tests: tuple[RuleTest, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Target:
    name: str  # with features after `+`: what a device that has them adds to the target
    span: Span
    ops: frozenset[str] = frozenset()
    dtypes: frozenset[str] = frozenset()
    types: dict[str, str] = field(default_factory=dict)
    # `suffix float32 "f"`, `memory bool "uint"`, `inf "INFINITY"`, …
    literals: dict[str, str] = field(default_factory=dict)
    templates: dict[str, str] = field(default_factory=dict)  # kernel, param, separator, value
    limits: dict[str, int] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    render: str = ""
    spans: dict[str, Span] = field(default_factory=dict)  # where each name above, or table below, stands first
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)  # of tables, by their names
    base: str = ""  # the target that this one goes on from

    @property
    def features(self) -> tuple[str, ...]:
        """Of `target NAME + FEATURE + …`: the features that a device of the target NAME needs for what is said here."""
        return tuple(self.name.split("+")[1:])


@dataclass(frozen=True, slots=True)
class Limit:
    """`limit rows: positive = 32`: a number that rules ask for; the default where a target does not say it."""

    name: str
    type: str
    default: int
    span: Span
    unit: str = ""
    tested: int | None = None  # what test lines without a target have, where that is not the default
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Flag:
    """`flag slow_math`: what a target says or does not say."""

    name: str
    span: Span
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    steps: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class PipelineEdit:
    """`insert PASS before STEP in PIPELINE`, `insert PASS after …`, `remove STEP from PIPELINE`: a user's change."""

    edit: str  # before, after, remove
    name: str  # the pass put in, or the step taken out
    step: str  # the step that is there; "" for remove
    pipeline: str
    span: Span


@dataclass(frozen=True, slots=True)
class RulesOff:
    """`off SET.RULE, SET.RULE`: rules of other files that are not to fire."""

    names: tuple[str, ...]
    span: Span


Declaration = (
    DtypeDeclaration
    | ClassDeclaration
    | OpDeclaration
    | Ruleset
    | View
    | Table
    | Pass
    | Function
    | Definition
    | Extern
    | Target
    | Limit
    | Flag
    | Pipeline
    | PipelineEdit
    | RulesOff
)


@dataclass(frozen=True, slots=True)
class Use:
    """`use FILE: NAME, NAME`: names that another file exports."""

    path: str  # as it is written
    names: tuple[tuple[str, Span], ...]
    place: Span  # of the path
    span: Span


@dataclass(frozen=True, slots=True)
class File:
    path: str
    text: str
    declarations: tuple[Declaration, ...]
    uses: tuple[Use, ...] = ()
    exports: frozenset[str] = frozenset()  # names of its functions, definitions, views and externs
