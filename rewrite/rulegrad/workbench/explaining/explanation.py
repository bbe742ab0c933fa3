"""An explanation of a rule: data for `--json`, and text for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from rulegrad.lang.syntax import Span

FIRES = "fires"  # on at least one of the nodes asked about
DOES_NOT_FIRE = "does not fire"
NOT_TRIED = "not tried"  # no node that its pattern could start at
LEFT_OUT = "left out"  # the target lacks what it needs, or it is unsound in strict mode
SWITCHED_OFF = "switched off"
NOT_IN_PASS = "not in the pass"


@dataclass(frozen=True, slots=True)
class Spot:
    """A location in a rule file, with its line."""

    file: str
    line: int  # from 1
    column: int  # from 1
    end_line: int
    end_column: int
    source: str  # the line

    @classmethod
    def of(cls, span: Span, text: str) -> Spot:
        lines = text.split("\n")
        source = lines[span.line - 1] if span.line <= len(lines) else ""
        return cls(span.file, span.line, span.column + 1, span.end_line, span.end_column + 1, source)

    def __str__(self) -> str:
        end = self.end_column - 1 if self.end_line == self.line else len(self.source)
        margin = len(self.source) - len(self.source.lstrip())
        carets = " " * (self.column - 1 - margin) + "^" * max(1, end - self.column + 1)
        return f"{self.file}:{self.line}:{self.column}\n    {self.source.strip()}\n    {carets}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The rule at one node.

    at: the node of the given graph (`%37`), or ""; node: how the rule saw it. passes: those in which it is so.
    graph: its number, when several were given, in `Explanation.subjects`. step: the number of its firing in the pass.
    matched, total: of the ops in the rule's pattern.
    """

    at: str
    node: str
    passes: tuple[str, ...]
    target: str | None
    graph: int
    fires: bool
    message: str
    made: str = ""
    step: int = 0
    part: str = ""  # pattern, clause or template: where the first false test stands
    spot: Spot | None = None
    names: dict[str, str] = field(default_factory=dict)
    matched: int = 0
    total: int = 0
    notes: tuple[str, ...] = ()
    inside: str = ""  # what was rewritten inside the pass, and for which rule and node, if the rule was tried there

    def __str__(self) -> str:
        target = f" for target {self.target}" if self.target else ""
        graph = f", graph {self.graph}" if self.graph else ""
        word = "passes" if len(self.passes) > 1 else "pass"
        inside = f", in {self.inside}," if self.inside else ""
        lines = [f"at {self.node}{inside} in {word} {', '.join(self.passes)}{target}{graph}:", f"  {self.message}"]
        if self.spot is not None:
            lines.extend(f"    {line}" for line in str(self.spot).split("\n"))
        if self.names:
            lines.append("  with " + ", ".join(f"{name} = {value}" for name, value in self.names.items()))
        if not self.fires and self.part == "pattern":
            lines.append(f"  {self.matched} of {self.total} ops of the pattern matched")
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is said about a rule; `answers` are those of the best matches, the best first.

    status is one of the words above. tried: the nodes that the pattern could start at. graphs: the texts of the
    graphs that were looked at, by their numbers from 1.
    """

    rule: str
    location: str
    status: str
    summary: str
    answers: tuple[Answer, ...] = ()
    notes: tuple[str, ...] = ()
    spot: Spot | None = None
    tried: int = 0
    fired: int = 0
    graphs: dict[int, str] = field(default_factory=dict)

    @property
    def fires(self) -> bool:
        return self.status == FIRES

    def __str__(self) -> str:
        lines = [f"{self.rule} ({self.location}) {self.summary}"]
        if self.spot is not None:
            lines.extend(f"  {line}" for line in str(self.spot).split("\n"))
        lines.extend(f"note: {note}" for note in self.notes)
        lines.extend(f"\n{answer}" for answer in self.answers)
        return "\n".join(lines)
