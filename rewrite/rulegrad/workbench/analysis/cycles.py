"""Rules of a pass that may make each other fire without end: a graph of rules, and measures that explain its cycles.

An edge leads from a rule to one whose pattern a node may match that the first one's template makes. What functions,
`subst` and comprehensions make is not looked into. On each edge of a cycle that no measure explains, a node is made on
which the first rule fires and the second may follow, and the pass is run on it: what does not end is an error.
Where only some rules are asked about, only edges from and to these are looked at.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from rulegrad.errors import RulegradError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.optable import OpTable
from rulegrad.workbench.analysis.cells import UNKNOWN, Cell, Contradiction, Opaque, below, infer, join, same_value
from rulegrad.workbench.analysis.decided import refuted
from rulegrad.workbench.analysis.findings import Findings
from rulegrad.workbench.analysis.instances import Maker
from rulegrad.workbench.analysis.laboratory import Key, Laboratory, PassRules, Subject
from rulegrad.workbench.analysis.loops import check_loop
from rulegrad.workbench.analysis.measures import Change, change_of, explains
from rulegrad.workbench.analysis.sketches import Choices, Choose, Sketch

_DRAWS = 4  # orders of commutative ops that are tried for an edge, for each node that is made
_MOST_MADE = 6  # nodes of a template that are looked at so often
_RUNS = 2  # nodes that a pass is run on for an edge
_SHOWN = 12  # rules of a cycle that are named

Edges = dict[int, set[int]]
Drawn = tuple[Cell, list[Cell], Sketch]


class Cycles:
    """Looks for cycles in the passes of each target; what was found for the same rules counts for all."""

    def __init__(self) -> None:
        self._edges: dict[Key, dict[Key, bool]] = {}  # whether the second may match what the first makes
        self._nodes: dict[tuple[Key, Key], list[UOp]] = {}
        self._run: set[tuple[str, UOp]] = set()
        self._drawings = _Drawings()

    def check(self, findings: Findings, laboratory: Laboratory) -> None:
        """Reports cycles that do not end, and, as a note, those of which that is not known."""
        for of in laboratory.passes:
            if of.direction != "walk":
                by_name = {subject.name: subject for subject in of.subjects}
                for part, edges in _unexplained(laboratory.table, of.subjects, self._graph(laboratory, of)):
                    confirmed = [self._confirmed(findings, laboratory, of, by_name, a, b) for a, b in edges]
                    if not any(confirmed):
                        _note(findings, of, part)

    def _graph(self, laboratory: Laboratory, of: PassRules) -> Edges:
        graph: Edges = {}
        mine = [subject for subject in of.subjects if subject.rule in laboratory.asked]
        if not mine:
            return graph
        for place, a in enumerate(of.subjects):
            known = self._edges.setdefault(a.key, {})
            near = of.subjects if a.rule in laboratory.asked else mine
            new = {b.key: b for b in near if b.key not in known}
            drawn = _drawn(laboratory, a, random.Random(a.name).randrange) if new else None
            made = drawn[1] if drawn is not None else []
            for key, b in new.items():
                may_follow = any(fits(laboratory.table, cell, b) for cell in made)
                known[key] = may_follow and next(_meetings(laboratory, self._drawings, a, b), None) is not None
            graph[place] = {k for k, b in enumerate(of.subjects) if known.get(b.key)}
        return graph

    def _confirmed(
        self,
        findings: Findings,
        laboratory: Laboratory,
        of: PassRules,
        by_name: dict[str, Subject],
        a: Subject,
        b: Subject,
    ) -> bool:
        """Whether the pass does not end on a node that a fires on, and b where a has fired."""
        key = (a.key, b.key)
        if key not in self._nodes:
            maker = Maker(laboratory.table, laboratory.texts, random.Random(f"{a.name} then {b.name}"), of.tensors)
            made = [
                _instance(maker, cell) for cell in itertools.islice(_meetings(laboratory, self._drawings, a, b), _RUNS)
            ]
            self._nodes[key] = [node for node in made if node is not None and laboratory.fires(a, node)]
        for node in self._nodes[key]:
            if (of.name, node) not in self._run:
                self._run.add((of.name, node))
                if check_loop(findings, laboratory, of, by_name, a, node):
                    return True
        return False


def fits(table: OpTable, made: Cell, b: Subject) -> bool:
    """Whether a node that a template makes may have the form of a pattern, whatever is the same node in it."""
    return not b.contradictory and (b.cell is None or _alike(table, made, b.cell))


def _alike(table: OpTable, a: Cell, b: Cell) -> bool:
    a, b = a.root(), b.root()
    if not a.dtype.root().names & b.dtype.root().names or (b.constant and a.ops is not None):
        return False
    if a.constant and b.constant and UNKNOWN not in (a.value, b.value) and not same_value(a.value, b.value):
        return False
    if a.ops is None or b.ops is None:
        return not (a.constant and b.ops is not None)
    common = a.ops.root().names & b.ops.root().names
    if not common or a.rest is not None or b.rest is not None or len(a.sources) != len(b.sources):
        return bool(common) and (a.rest is not None or b.rest is not None)
    if all(_alike(table, x, y) for x, y in zip(a.sources, b.sources, strict=True)):
        return True
    if b.ordered or len(b.sources) != 2 or not any(table.ops[op].commutative for op in common):
        return False
    return all(_alike(table, x, y) for x, y in zip(a.sources, reversed(b.sources), strict=True))


class _Drawings:
    """The cells drawn of each rule, by the choices that were made: nothing is narrowed in them."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Key, bool], dict[tuple[int, ...], int]] = {}
        self._made: dict[tuple[Key, tuple[int, ...]], list[Cell]] = {}
        self._targets: dict[tuple[Key, tuple[int, ...]], Cell | None] = {}

    def choices(self, of: Subject, numbers: random.Random, with_template: bool) -> Choices:
        """Choices for the pattern of a rule, or for that and its template."""
        return Choices(numbers, self._counts.setdefault((of.key, with_template), {}))

    def made(self, laboratory: Laboratory, a: Subject, choices: Choices) -> list[Cell]:
        """The nodes that a rule's template makes."""
        if (a.key, choices.taken) not in self._made:
            drawn = _drawn(laboratory, a, choices.again())
            self._made[a.key, choices.taken] = [] if drawn is None else drawn[1]
        return self._made[a.key, choices.taken]

    def target(self, laboratory: Laboratory, b: Subject, choices: Choices) -> Cell | None:
        """The form of a rule's pattern, where it has one."""
        if (b.key, choices.taken) not in self._targets:
            try:
                found: Cell | None = _sketch_of(laboratory, b, choices.again()).pattern(b.rule.pattern)
            except (Contradiction, Opaque):
                found = None
            self._targets[b.key, choices.taken] = found
        return self._targets[b.key, choices.taken]


def _meetings(laboratory: Laboratory, drawings: _Drawings, a: Subject, b: Subject) -> Iterator[Cell]:
    """Patterns of a, narrowed so that a node that its template makes has the form of b's pattern."""
    numbers = random.Random(f"{a.name} makes {b.name}")
    mine, theirs = drawings.choices(a, numbers, True), drawings.choices(b, numbers, False)
    failed: set[tuple[tuple[int, ...], int, tuple[int, ...]]] = set()
    place = 0
    for _ in range(_DRAWS * _MOST_MADE):
        mine.draw()
        made = drawings.made(laboratory, a, mine)
        if not made:
            continue
        place = (place + 1) % len(made)
        theirs.draw()
        target = drawings.target(laboratory, b, theirs)
        if target is None or (mine.taken, place, theirs.taken) in failed:
            continue
        drawn = _drawn(laboratory, a, mine.again()) if _alike(laboratory.table, made[place], target) else None
        if drawn is not None and _meet(laboratory, a, b, drawn, place, theirs.again()):
            yield drawn[0]
        else:
            failed.add((mine.taken, place, theirs.taken))


def _sketch_of(laboratory: Laboratory, b: Subject, choose: Choose) -> Sketch:
    return Sketch(laboratory.table, b.generics, laboratory.views, choose)


def _meet(laboratory: Laboratory, a: Subject, b: Subject, drawn: Drawn, place: int, choose: Choose) -> bool:
    """Narrows what was drawn of a, so that one of the nodes that it makes has the form of b's pattern, if it can."""
    pattern, made, sketch = drawn
    other = _sketch_of(laboratory, b, choose)
    try:
        target = other.pattern(b.rule.pattern)
        join(made[place], target)
        infer(laboratory.table, pattern)
        infer(laboratory.table, target)
    except (Contradiction, Opaque):
        return False
    return not refuted(a.rule, sketch) and not refuted(b.rule, other)


def _drawn(laboratory: Laboratory, a: Subject, choose: Choose) -> Drawn | None:
    """The pattern of a rule, the nodes that its template makes, and what its names stand for."""
    if isinstance(a.rule.template, syntax.Text):
        return None
    sketch = _Template(laboratory.table, a.generics, laboratory.views, choose)
    try:
        root = sketch.pattern(a.rule.pattern)
        known = {id(cell) for cell in below(root)}
        sketch.in_template = True
        template = sketch.pattern(a.rule.template)
        template.root().dtype.join(root.root().dtype)
        made = [cell for cell in below(template) if id(cell) not in known and cell.ops is not None]
        return root, [cell for cell in made if cell.ops is not None and "CONST" not in cell.ops.root().names], sketch
    except (Contradiction, Opaque):
        return None


class _Template(Sketch):
    """The cells of a pattern, and then of a template: what cells cannot express there may be anything."""

    in_template = False

    def pattern(self, x: syntax.Expression) -> Cell:
        """The cell that a pattern or a template describes. Raises Contradiction, and Opaque for a pattern."""
        try:
            return super().pattern(x)
        except Opaque:
            if self.in_template:
                return self.any()
            raise

    def _attribute(self, cell: Cell, attribute: syntax.Attribute) -> None:
        try:
            super()._attribute(cell, attribute)
        except Opaque:
            if not self.in_template:
                raise


def _instance(maker: Maker, cell: Cell) -> UOp | None:
    try:
        return maker.make(cell)
    except (Contradiction, Opaque, RulegradError, OverflowError):
        return None


def _unexplained(
    table: OpTable, subjects: list[Subject], graph: Edges
) -> Iterator[tuple[list[Subject], list[tuple[Subject, Subject]]]]:
    """The strongly connected parts that no order of measures explains, each with its edges.

    Where a measure never grows in a part, the rules that make it smaller fire a finite number of times: without them
    the part falls into smaller ones, for which other measures are tried.
    """
    changes: dict[int, Change | None] = {}
    waiting = [(set(graph), {k: set(v) for k, v in graph.items()})]
    while waiting:
        inside, edges = waiting.pop()
        for part in _components(inside, edges):
            local = {k: edges[k] & part for k in part}
            for place in part:
                changes.setdefault(place, change_of(subjects[place], table))
            ending = explains({k: changes[k] for k in part})
            if ending:
                waiting.append((part - ending, {k: v - ending for k, v in local.items() if k not in ending}))
            else:
                ordered = sorted(part)
                pairs = [(subjects[a], subjects[b]) for a in ordered for b in sorted(local[a])]
                yield [subjects[k] for k in ordered], pairs


def _components(places: set[int], edges: Edges) -> list[set[int]]:
    """The strongly connected parts that have an edge inside."""
    order: list[int] = []
    seen: set[int] = set()
    for start in sorted(places):
        _visit(start, edges, seen, order)
    back: Edges = {k: set() for k in places}
    for a in places:
        for b in edges.get(a, ()):
            back[b].add(a)
    found, seen = [], set()
    for start in reversed(order):
        if start not in seen:
            part: list[int] = []
            _visit(start, back, seen, part)
            if len(part) > 1 or start in edges.get(start, ()):
                found.append(set(part))
    return found


def _visit(start: int, edges: Edges, seen: set[int], order: list[int]) -> None:
    """Adds what is reached from a place to `order`, each after what it leads to."""
    waiting = [(start, False)]
    while waiting:
        place, done = waiting.pop()
        if done:
            order.append(place)
        elif place not in seen:
            seen.add(place)
            waiting.append((place, True))
            waiting.extend((k, False) for k in sorted(edges.get(place, ())) if k not in seen)


def _note(findings: Findings, of: PassRules, part: list[Subject]) -> None:
    names = [subject.name for subject in part]
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    message = f"nothing shows that {shown} of pass {of.name} end" + ("s" if len(names) == 1 else "")
    hint = "let each of them leave fewer ops of some kind, or less of what its guard asks for"
    findings.report("possible-loop", message, part[0].rule.name_span, hint)
