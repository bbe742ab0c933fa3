"""Rules of a pass, of any of its sets, that overlap: at the root, or one below the root of the other's pattern.

Which of the two fires is decided by the order of the sets and the direction of the pass. So both ways must mean the
same; where they are simplified to different nodes of one value, that is a note.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from rulegrad.errors import RulegradError
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.interpreter.numerics import Array
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.lang.diagnostics import location
from rulegrad.workbench.analysis.cells import Cell, Contradiction, Opaque, below, join
from rulegrad.workbench.analysis.cycles import fits
from rulegrad.workbench.analysis.findings import Findings, one_line
from rulegrad.workbench.analysis.instances import Maker
from rulegrad.workbench.analysis.laboratory import Key, Laboratory, PassRules, Subject

_DRAWS = 2  # unifications tried for each pair and place
_TOLERANCE = 1e-3
_SAMPLES = 7  # values of each leaf


class CriticalPairs:
    """Looks at each pair of rules once, in the first pass that has both."""

    def __init__(self) -> None:
        self._done: dict[Key, set[Key]] = {}

    def check(self, findings: Findings, laboratory: Laboratory) -> None:
        """Reports pairs that mean different things; as notes, those that end in different nodes."""
        for of in laboratory.passes:
            if of.direction == "walk":
                continue
            subjects = [subject for subject in of.subjects if not _wrong_on_purpose(subject)]
            mine = [subject for subject in subjects if subject.rule in laboratory.asked]
            for outer in subjects:
                done = self._done.setdefault(outer.key, set())
                others = subjects if outer.rule in laboratory.asked else mine
                new = [inner for inner in others if inner.key not in done]
                done.update(inner.key for inner in new)
                parts = [] if outer.cell is None else [c for c in below(outer.cell) if c.ops is not None]
                for inner in new:
                    places = [k for k, part in enumerate(parts) if fits(laboratory.table, part, inner)]
                    if outer is inner or outer.number > inner.number:
                        places = [k for k in places if k]  # at the root a pair is looked at once
                    if places:
                        _check(findings, laboratory, of, outer, inner, places)


def _wrong_on_purpose(subject: Subject) -> bool:
    return any(clause.keyword == "unsound" for clause in subject.rule.clauses)


def _check(
    findings: Findings, laboratory: Laboratory, of: PassRules, outer: Subject, inner: Subject, places: list[int]
) -> None:
    for node, part in _peaks(laboratory, of, outer, inner, places):
        try:
            one = laboratory.apply(outer, node)
            reduced = laboratory.apply(inner, part)
            if one is None or reduced is None:
                continue
            other = _replaced(node, part, reduced)
            ends = laboratory.normal(of, one), laboratory.normal(of, other)
        except RulegradError:
            continue
        if ends[0] != ends[1] and _report(findings, laboratory, of, outer, inner, node, ends):
            return


def _peaks(
    laboratory: Laboratory, of: PassRules, outer: Subject, inner: Subject, places: list[int]
) -> Iterator[tuple[UOp, UOp]]:
    """Nodes of the form of the outer pattern, and the node in each that has the form of the inner one."""
    numbers = random.Random(f"{outer.name} over {inner.name}")
    maker = Maker(laboratory.table, laboratory.texts, numbers, of.tensors)
    for number in places:
        for _ in range(_DRAWS):
            try:
                root = laboratory.drawn(outer, numbers)
                parts: list[Cell] = [cell for cell in below(root) if cell.ops is not None]
                if number >= len(parts):
                    break
                join(parts[number], laboratory.drawn(inner, numbers))
                node = maker.make(root)
            except (Contradiction, Opaque, RulegradError, OverflowError):
                continue
            part = maker.made.get(id(parts[number].root()))
            if part is not None:
                yield node, part


def _replaced(node: UOp, part: UOp, reduced: UOp) -> UOp:
    made: dict[UOp, UOp] = {}
    for item in node.toposort():
        sources = [made[source] for source in item.src]
        made[item] = reduced if item == part else item if sources == list(item.src) else item.replace(src=sources)
    return made[node]


def _report(
    findings: Findings,
    laboratory: Laboratory,
    of: PassRules,
    outer: Subject,
    inner: Subject,
    node: UOp,
    ends: tuple[UOp, UOp],
) -> bool:
    same = _same_meaning(node, *ends)
    pair = laboratory.pair(*((inner, outer) if outer.number > inner.number else (outer, inner)))
    if same is None or pair is None:
        return False
    earlier, later = pair
    notes = (
        f"on {one_line(node)}",
        f"{outer.name} ({location(outer.rule.span)}) leads to {one_line(ends[0])}",
        f"{inner.name} ({location(inner.rule.span)}) leads to {one_line(ends[1])}",
    )
    if same:
        message = (
            f"`{later.rule.name}` and {earlier.name} overlap in {of.name}, and end in different nodes of one value"
        )
        findings.report("not-joined", message, later.rule.name_span, "", notes, earlier.name)
        return True
    message = f"`{later.rule.name}` and {earlier.name} overlap in {of.name}, and lead to different values"
    # a wrong rule of a user's differs from many of ours: the first says enough
    is_ours = earlier.rule not in laboratory.asked
    hint = f"`{later.rule.name}` is wrong there" if is_ours else "one of them is wrong there"
    findings.report("values-differ", message, later.rule.name_span, hint, notes, "" if is_ours else earlier.name)
    return True


def _same_meaning(node: UOp, one: UOp, other: UOp) -> bool | None:
    """Whether two nodes have the same values for samples of the leaves; None where the interpreter cannot tell."""
    nodes = node.toposort()
    if any(item.op in ("INVALID", "LOAD", "STORE") for root in (node, one, other) for item in root.toposort()):
        return None
    loops = [item for item in nodes if item.op == "RANGE"]
    try:
        for seed in range(_SAMPLES):
            arrays = {item: _sample(item, seed) for item in nodes if item.op in ("PARAM", "BUFFER")}
            found = [evaluate(root, arrays, loops) for root in (node, one, other)]
            if not np.all(np.isfinite(found[0].astype("float64"))):
                continue  # what is not finite may be another such value
            if not all(np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE) for pair in _pairs(found)):
                return False
    except (RulegradError, ValueError, OverflowError):
        return None
    return True


def _pairs(found: list[Array]) -> Iterator[tuple[Array, Array]]:
    first = found[0].astype("float64")
    for other in found[1:]:
        yield first, other.astype("float64")


def _sample(leaf: UOp, seed: int) -> Array:
    numbers = np.random.default_rng([seed, leaf.attrs.get("slot", 0)])
    dtype = as_dtype(leaf.dtype)
    low = 0 if dtype.kind in ("uint", "bool") else -4
    found: Array = numbers.integers(low, 5, leaf.shape).astype(dtype.numpy)
    return found
