"""Nodes that rules and mutants are tried on: their test lines, these varied, and nodes made out of a pattern."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rulegrad.errors import GraphError
from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.compiler.scope import Generics
from rulegrad.lang.walk import expressions_in, transformed
from rulegrad.workbench.analysis.cells import Contradiction, Opaque
from rulegrad.workbench.analysis.instances import Maker, retyped
from rulegrad.workbench.analysis.sketches import Sketch
from rulegrad.workbench.mutation.changes import Changer, Written
from rulegrad.workbench.mutation.vocabulary import Vocabulary
from rulegrad.workbench.rule_tests import Case

_SKETCHES = 64  # nodes that are made out of a pattern
_VARIED = 160  # lines that are made out of a rule's lines at most
_FIRST = 1 << 20  # the number of the first of them: no line of a file has one like it


@dataclass(frozen=True, slots=True)
class Instances:
    """Makes instances. texts: those that attributes may have."""

    words: Vocabulary
    written: Written
    views: dict[str, syntax.View]
    texts: tuple[str, ...]

    def varied(self, cases: Sequence[Case]) -> list[tuple[Case, Case]]:
        """Lines with one token of the left side changed, each with the line that it was made of."""
        rounds = itertools.zip_longest(*(self._varied(case) for case in cases))
        both = (pair for one in rounds for pair in one if pair is not None)
        return [
            (replace(case, test=replace(case.test, left=left, right=None, fires=False), number=_FIRST + k), case)
            for k, (case, left) in enumerate(itertools.islice(both, _VARIED))
        ]

    def _varied(self, case: Case) -> Iterator[tuple[Case, syntax.Expression]]:
        left = case.test.left
        changer = Changer(self.words, self.written, {})
        for _, new in changer.changes(left):
            yield case, new
        for new in (*_with_other_sizes(left), *_with_other_numbers(left)):
            yield case, new

    def retyped(self, nodes: Sequence[UOp]) -> list[UOp]:
        """The graphs with one dtype put in the place of another of its kind."""
        found = []
        for node in nodes:
            used = dict.fromkeys(str(item.dtype) for item in node.toposort())
            for before in used:
                if before not in ("void", "bool"):
                    others = self.words.dtypes_beside(before)
                    found += [new for after in others if (new := retyped(node, before, after)) is not None]
        return found

    def made(self, rule: syntax.Rule, generics: Generics, seed: str) -> list[UOp]:
        """Nodes of the form of a rule's pattern."""
        numbers = random.Random(seed)
        found = [self._made(rule, generics, numbers, tensors=bool(k % 2)) for k in range(_SKETCHES)]
        return [node for node in dict.fromkeys(found) if node is not None]

    def _made(self, rule: syntax.Rule, generics: Generics, numbers: random.Random, tensors: bool) -> UOp | None:
        try:
            cell = Sketch(self.words.table, generics, self.views, numbers.randrange).pattern(rule.pattern)
            return Maker(self.words.table, self.texts, numbers, tensors).make(cell)
        except (Contradiction, Opaque, GraphError, OverflowError):
            return None


def _with_other_sizes(x: syntax.Expression) -> Iterator[syntax.Expression]:
    """A variable with an axis or an interval that is one longer, or shorter."""
    for name in {y.name: y for y in expressions_in(x) if isinstance(y, syntax.Name) and (y.shape or y.bounds)}.values():
        for step in (1, -1):
            if name.bounds is not None:
                yield _renamed(x, name, replace(name, bounds=(name.bounds[0], name.bounds[1] + step)))
            for k, size in enumerate(name.shape or ()):
                shape = (*(name.shape or ())[:k], size + step, *(name.shape or ())[k + 1 :])
                yield _renamed(x, name, replace(name, shape=shape))


def _with_other_numbers(x: syntax.Expression) -> Iterator[syntax.Expression]:
    """Integers that are not neighbours: 0, 1, half and double."""
    numbers = [y for y in expressions_in(x) if isinstance(y, syntax.Literal) and type(y.value) is int]
    for number in numbers:
        assert isinstance(number.value, int)
        for other in dict.fromkeys((0, 1, number.value // 2, number.value * 2)):
            if abs(other - number.value) > 1:
                new = replace(number, value=other)
                yield transformed(x, lambda y, old=number, new=new: new if y is old else y)  # type: ignore[misc]


def _renamed(x: syntax.Expression, old: syntax.Name, new: syntax.Name) -> syntax.Expression:
    return transformed(x, lambda y: replace(new, span=y.span) if y == replace(old, span=y.span) else y)
