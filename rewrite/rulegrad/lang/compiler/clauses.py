"""The clauses of a rule that compute: guards, `let`, and choices by `for` and `least`."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.compiler.expressions import compile_expression, compile_for, compile_let
from rulegrad.lang.compiler.scope import Emitter
from rulegrad.lang.walk import most_kept


def compile_clauses(e: Emitter, clauses: Sequence[syntax.Clause]) -> None:
    """Emits code for the clauses in their order; the names that they bind are in scope after them."""
    choices: _Choices | None = None
    for place, clause in enumerate(clauses):
        if clause.expression is not None:
            e.begin(clause.expression)
        if clause.keyword == "let":
            compile_let(e, clause)
        elif clause.keyword == "for":
            if choices is None and any(later.keyword == "least" for later in clauses[place:]):
                choices = _Choices(e, clause.span)
            compile_for(e, clause)
        elif clause.keyword == "if":
            assert clause.expression is not None
            mark = e.next_register
            e.emit("GUARD", compile_expression(e, clause.expression, False))
            e.next_register = mark
        elif clause.keyword == "least" and choices is not None:
            choices.end(clause)
            choices = None


class _Choices:
    """The choices of the `for` lines above a `least`: each is tried up to it, then those that it keeps go on."""

    def __init__(self, e: Emitter, span: syntax.Span) -> None:
        self.e = e
        self.bound = frozenset(e.names)
        self.kept = e.constant((), span)
        self.all_tried = e.emit("TRY", 0)

    def end(self, least: syntax.Clause) -> None:
        e = self.e
        assert least.expression is not None
        bound = dict.fromkeys(binding.register for name, binding in e.names.items() if name not in self.bound)
        mark = e.next_register
        value = compile_expression(e, least.expression, False)
        e.emit("LEAST", self.kept, value, most_kept(least), len(bound), *bound)
        e.emit("FAIL")
        e.patch(self.all_tried)
        e.next_register = mark
        counter, item, number = e.constant(0, least.span), e.register(least.span), e.register(least.span)
        e.emit("PICK", counter, item, self.kept, -1, 0)
        e.emit("UNPACK", item, 1 + len(bound), number, *bound)
