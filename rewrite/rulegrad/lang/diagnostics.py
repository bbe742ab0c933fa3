"""Diagnostics: the closed set of codes, and how a problem in rule text is printed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rulegrad.lang.syntax import Span

ERROR = "error"
WARNING = "warning"
NOTE = "note"  # no problem: `check --verbose` prints it, and its exit status stays 0
_SHORT = 5  # names with fewer letters may well be other words: `into` is not int8
_WIDTH = 140  # of the source line that is printed

# code -> (severity, one line of documentation)
CODES: dict[str, tuple[str, str]] = {
    # ---- lexer ----
    "bad-character": (ERROR, "a character that no token starts with"),
    "tab": (ERROR, "a tab: indentation is by spaces"),
    "unterminated-string": (ERROR, "a string that does not end on its line"),
    "bad-escape": (ERROR, "a backslash in a string before a character that it does not escape"),
    "bad-number": (ERROR, "a number that cannot be read, or is too large"),
    "unclosed-bracket": (ERROR, "an opening bracket without its closing one"),
    "unmatched-bracket": (ERROR, "a closing bracket without its opening one"),
    "bad-indentation": (ERROR, "a line whose indentation fits nothing above it"),
    # ---- parser ----
    "expected": (ERROR, "something else was expected here"),
    "unknown-declaration": (ERROR, "a line in column 0 that starts no declaration"),
    "unknown-clause": (ERROR, "an indented line that starts with no clause or property of its declaration"),
    "chained-comparison": (ERROR, "`a < b < c`: comparisons do not chain"),
    "too-deep": (ERROR, "an expression nested too deeply, or too long"),
    "empty-block": (ERROR, "a declaration that needs indented lines and has none"),
    "unexpected-block": (ERROR, "indented lines under a declaration that takes none"),
    "bad-text": (ERROR, "a text template with an empty or unclosed field, or a single `}`"),
    "duplicate-key": (ERROR, "a property that is given twice"),
    # ---- names ----
    "unknown-file": (ERROR, "`use` names no rule file that is in force"),
    "missing-use": (ERROR, "a function, `def`, view or extern of another file that this one does not `use`"),
    "unused-function": (ERROR, "a function that nothing in its file calls, of a name that another file exports"),
    "private-name": (ERROR, "`use` of a name that the file does not export, or does not declare"),
    "cyclic-use": (ERROR, "rule files that use each other"),
    "unused-use": (WARNING, "a name in a `use` that the file does not need"),
    "unused-export": (
        NOTE,
        "a name of ours that is exported and that no rule file uses: it is for users, or for nobody",
    ),
    "unknown-op": (ERROR, "no op or op class has this name"),
    "unknown-attribute": (ERROR, "the op has no attribute of this name"),
    "unknown-class": (ERROR, "no op class or dtype class has this name"),
    "unknown-dtype": (ERROR, "no dtype, dtype class or dtype variable has this name"),
    "unknown-field": (ERROR, "a dtype has no field, or a table no column, of this name"),
    "unknown-type": (ERROR, "no type of an attribute or of an extern's parameter has this name"),
    "unknown-word": (ERROR, "a flag, level or kind out of a closed list has this name nowhere in it"),
    "unknown-ruleset": (ERROR, "no rule set has this name"),
    "unknown-pass": (ERROR, "no pass, or none of the kind needed here, has this name"),
    "unknown-table": (ERROR, "rows for a table that no file declares"),
    "unknown-target": (ERROR, "no target above has this name, or a target without ops has nearly the name of another"),
    "unknown-function": (ERROR, "no built-in function, function on nodes, `def`, extern or op has this name"),
    "unknown-rule": (ERROR, "`before`, `after` or `off` names a rule that is not there"),
    "unknown-pipeline": (ERROR, "no pipeline has this name"),
    "unknown-step": (ERROR, "the pipeline has no step of this name"),
    "unknown-modifier": (ERROR, "a field of a text template has a modifier that does not exist"),
    "unknown-flag": (ERROR, "no flag or limit of this name is declared"),
    "bad-limit": (ERROR, "a limit with a number that is not of its type"),
    "undocumented": (ERROR, "a limit or flag that does not say what it is"),
    "unbound-name": (ERROR, "a name that nothing binds"),
    "rebound-name": (ERROR, "a name that is bound already is bound again"),
    "unused-name": (WARNING, "a capture, generic, parameter or `let` that nothing uses"),
    "duplicate-rule": (ERROR, "two rules of one set have the same name"),
    "duplicate-declaration": (ERROR, "two declarations have the same name"),
    # ---- shapes of expressions ----
    "wrong-arity": (ERROR, "an op with a number of sources that it cannot have"),
    "mixed-arity": (WARNING, "some ops of an op variable's class cannot have this number of sources"),
    "wrong-argument-count": (ERROR, "a function with a number of arguments that it does not take"),
    "too-many-parameters": (ERROR, "a function on nodes with more parameters than the engine passes on"),
    "wrong-attribute-type": (ERROR, "an attribute with a value of another type"),
    "missing-attribute": (ERROR, "a template builds an op without an attribute that has no default"),
    "unnamed-attribute": (ERROR, "an attribute without a name that is not the only one, or has none to stand for"),
    "too-many-members": (ERROR, "a multiset with more members than can be chosen in reasonable time"),
    "two-sequences": (ERROR, "more than one sequence in an argument list of a pattern"),
    "missing-splice": (ERROR, "a sequence stands where a node is wanted"),
    "const-first": (ERROR, "a constant stands first under a commutative op, where no node keeps it"),
    "dtype-mismatch": (ERROR, "dtypes that can never be the same"),
    "misplaced-annotation": (ERROR, "a kind such as `:const` or `:range(4)` where it has no meaning"),
    "misplaced-expression": (ERROR, "an expression that cannot stand in a pattern, or in this place of it"),
    "misplaced-function": (ERROR, "a function that cannot be called here"),
    "misplaced-clause": (ERROR, "a `least` that has no `for` above it to choose from"),
    "misplaced-text": (ERROR, "a text template outside a render pass, or something else in one"),
    "bad-view": (ERROR, "a case of a view that does not give each of its parameters once"),
    "bad-row": (ERROR, "a row of a table that does not have a value of the right type for each column"),
    "bad-step": (ERROR, "a step that is not as the op table says, or a form of steps that cannot be read"),
    "bad-parameter": (ERROR, "an op's sources in an order that cannot be told apart"),
    # ---- whole declarations ----
    "cyclic-union": (ERROR, "a rule set or a class that contains itself"),
    "cyclic-definition": (ERROR, "a `def` that expands to itself"),
    "large-definition": (ERROR, "a `def` that grows beyond measure where it is written out"),
    "missing-cost": (ERROR, "a `choose` pass without a `cost` line"),
    "essential-rule": (ERROR, "a rule is switched off that is marked essential, or is a case of a function"),
    "conflicting-files": (ERROR, "two user files (or two lines of one) change the same thing in different ways"),
    "nested-rewriting": (ERROR, "`rewritten` by a rule set whose rules call `rewritten`"),
    "untested-rule": (WARNING, "a rule without a test"),
    "untested-extern": (ERROR, "an extern without a test"),
    "cannot-compile": (ERROR, "a rule that the compiler has no bytecode for, such as one with too many orders"),
    # ---- `rulegrad check`: what the rules of a pass do ----
    "dtype-changed": (ERROR, "a rule that gives a node of another dtype than the one it matched"),
    "shape-changed": (ERROR, "a rule that gives a node of another shape than the one it matched"),
    "failing-template": (ERROR, "a rule that matches a node for which its template cannot be built"),
    "same-rule": (ERROR, "two rules of one pass that say the same, up to names and the order of operands"),
    "shadowed-rule": (ERROR, "a rule that an earlier one of the same pass leaves nothing to match"),
    "rules-disagree": (WARNING, "two rules of one pass match the same node and lead to different results"),
    "values-differ": (ERROR, "two rules of one pass overlap, and a node has another value by one than by the other"),
    "not-joined": (NOTE, "two rules of one pass overlap, and lead to different nodes of one value"),
    "never-matches": (
        ERROR,
        "a rule that fires on no node: none has the form of its pattern, or it gives what it matched",
    ),
    "child-rewritten": (WARNING, "a pattern of which another rule of the pass always rewrites a part first"),
    "rule-loop": (ERROR, "rules that lead from a node back to it, or on without end"),
    "possible-loop": (NOTE, "rules of one pass that may fire each other, and of which no measure shows an end"),
    "uncovered-op": (WARNING, "a cost function that may have no value for a graph with an op of the table"),
    "costly-pattern": (WARNING, "a pattern that may be tried in very many ways on one node"),
    "failing-test": (
        ERROR,
        "a test line that does not hold when the rule is applied to its left side",
    ),
    "false-fact": (ERROR, "an interval, identity, flag or class of an op that its `eval` line does not bear out"),
    "incomplete-target": (ERROR, "a target that renders kernels and lacks what every kernel needs, such as `param`"),
    "no-lowering": (ERROR, "an op on a dtype of the target that no rule lowers and no spelling prints"),
}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem in rule text.

    `code` is a key of CODES; `source_line` is the line of text where `span` starts. Printed as
    `file:line:column: severity[code]: message`, the source line, carets below it, the hint and notes.
    """

    code: str
    message: str
    span: Span
    hint: str = ""
    notes: tuple[str, ...] = ()
    source_line: str = ""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"unknown code {self.code!r}: add it to rulegrad.lang.diagnostics.CODES")

    @property
    def severity(self) -> str:
        """`error`, `warning` or `note`."""
        return CODES[self.code][0]

    @property
    def is_error(self) -> bool:
        return self.severity == ERROR

    @property
    def plain(self) -> dict[str, Any]:
        """The dict that `--json` prints; lines and columns count from 1."""
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.span.file,
            "line": self.span.line,
            "column": self.span.column + 1,
            "message": self.message,
            "hint": self.hint,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"{location(self.span)}: {self.severity}[{self.code}]: {self.message}"]
        if self.source_line.strip():
            lines.extend(self._underlined())
        if self.hint:
            lines.append(f"    hint: {self.hint}")
        lines.extend(f"    note: {note}" for note in self.notes)
        return "\n".join(lines)

    def _underlined(self) -> tuple[str, str]:
        """The source line, or the part of a long one that matters, and carets below."""
        # control characters would move the carets: print them as spaces
        shown = "".join(c if c.isprintable() else " " for c in self.source_line).rstrip()
        column = min(self.span.column, len(shown))
        end = self.span.end_column if self.span.end_line == self.span.line else len(shown)
        carets = max(1, min(end, len(shown)) - column)
        if len(shown) > _WIDTH:
            start = max(0, min(column - _WIDTH // 2, len(shown) - _WIDTH))
            shown = shown[start : start + _WIDTH]
            column -= start
            carets = min(carets, _WIDTH - column)
        return f"    {shown}", "    " + " " * column + "^" * carets


def location(span: Span) -> str:
    """`file:line:column`, counted from 1 as editors do."""
    return f"{span.file}:{span.line}:{span.column + 1}"


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint with the known name that is closest to `name`, or "" when none is close.

    >>> did_you_mean("rnage", ["range", "const"])
    'did you mean `range`?'
    """
    known = sorted(set(candidates))
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean `{by_lower[close[0]]}`?" if close else ""


def misspelled(name: str, candidates: Iterable[str], numbers: bool = False) -> str:
    """The same hint where `name` is very likely meant to be a known one, so that nothing else has to say that.

    They differ by one letter: one more (not at the end), one less, another, or two changed places. numbers: or by a
    number alone, which otherwise makes another name.

    >>> misspelled("foat32", ["float32", "index"]), misspelled("inner", ["float32", "index"])
    ('did you mean `float32`?', '')
    """
    known = [one for one in set(candidates) if _is_nearly(name.lower(), one.lower(), numbers)]
    return did_you_mean(name, known)


def _is_nearly(a: str, b: str, numbers: bool) -> bool:
    if a == b:
        return True
    if re.sub(r"[0-9]+", "0", a) == re.sub(r"[0-9]+", "0", b):
        return numbers
    if min(len(a), len(b)) < _SHORT or a.startswith(b):
        return False
    start = next((n for n, (one, other) in enumerate(zip(a, b)) if one != other), min(len(a), len(b)))
    a, b = a[start:], b[start:]
    changed_places = a[:2] == b[1::-1] and a[2:] == b[2:]
    return changed_places or a[1:] == b[1:] or a[1:] == b or a == b[1:]


def report(diagnostics: Iterable[Diagnostic]) -> str:
    """All diagnostics as text, in the order of their places."""
    ordered = sorted(diagnostics, key=lambda d: (d.span.file, d.span.line, d.span.column))
    return "\n".join(str(d) for d in ordered)
