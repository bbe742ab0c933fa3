"""Rules with their clauses, the declarations that have them, and files of declarations."""

from __future__ import annotations

from dataclasses import dataclass, field

from rulegrad.lang.syntax.expressions import Attribute, Expression, Span, Text

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

    @property
    def name_span(self) -> Span:
        """Where its name stands."""
        start = self.span
        return Span(start.file, start.line, start.column, start.line, start.column + len(self.name))


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
    levels: tuple[str, ...] = ()  # the IR levels at which it may occur; all, where none is said
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
    qualified_name: str
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
    path_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class File:
    path: str
    text: str
    declarations: tuple[Declaration, ...]
    uses: tuple[Use, ...] = ()
    exports: frozenset[str] = frozenset()  # names of its functions, definitions, views and externs
