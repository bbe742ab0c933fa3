"""Whether a pass keeps what a graph means, on contents of several kinds, some of which unsound rules may change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rulegrad import engine
from rulegrad.errors import DeviceError, GraphError, RulegradError
from rulegrad.interpreter.numerics import Array
from rulegrad.ir import UOp
from rulegrad.workbench.diagnosis.meaning import Meaning, NotComparableError, agree, runner, slots_stored
from rulegrad.workbench.diagnosis.samples import KINDS, Samples, adds_up, all_samples

if TYPE_CHECKING:
    from rulegrad._core import Information

#: What a graph computes from samples of each kind; None where it cannot be run on them.
Meanings = list[Meaning | None]


class Comparison:
    """Compares graphs that have the slots of one graph.

    >>> x = UOp("PARAM", (), "float32", slot=0, shape=(9,))
    >>> comparison = Comparison(UOp("ABS", (x,)))
    >>> comparison.different(comparison.meanings(UOp("ABS", (x,))), x)
    'fractions'
    """

    def __init__(self, graph: UOp) -> None:
        self.samples = all_samples(graph)
        self.adds = adds_up(graph)

    def meanings(self, graph: UOp) -> Meanings:
        """The results of a graph for each kind of input. Raises NotComparableError where it cannot be run."""
        run, kinds = _running(graph), _kinds(graph)
        try:
            first = run(self.samples[0])
        except (DeviceError, GraphError) as error:
            raise NotComparableError(error.problem) from None
        others = self.samples[1:]
        return [first, *(_tried(run, samples) if samples.kind in kinds else None for samples in others)]

    def different(self, wanted: Meanings, graph: UOp, kinds: Sequence[str] = KINDS) -> str:
        """The first kind of contents from which a graph computes something else; "" where there is none.

        Raises NotComparableError where it cannot be run.
        """
        run, tried = _running(graph), set(kinds).intersection(_kinds(graph))
        for samples, expected in zip(self.samples, wanted, strict=True):
            if expected is None or samples.kind not in tried:
                continue
            found = _tried(run, samples)
            if found is None or not agree(expected, found, samples.kind, self.adds):
                return samples.kind
        return ""

    def excused(self, wanted: Meanings, before: UOp, name: str, target: str | None, kind: str) -> bool:
        """Whether a pass on a graph differs on that kind by rules that say they are unsound, and not without them."""
        program, off = engine.fresh_program(target), unsound()
        if kind == KINDS[0] or not _fired(program.rewrite(name, before, trace=True)[1]) & set(off):
            return False
        for rule in {rule for rule, _ in program.rules}.intersection(off):
            program.disable(rule)
        try:
            return not self.different(wanted, program.rewrite(name, before)[0])
        except RulegradError:  # it does not end well without them, or what it leaves cannot be run
            return True

    def right(self, wanted: Meanings, kind: str) -> Callable[[UOp], bool | None]:
        """Whether a graph computes the same from contents of a kind; None where it cannot be run."""

        def same(graph: UOp) -> bool | None:
            try:
                return not self.different(wanted, graph, (kind,))
            except NotComparableError:
                return None

        return same


def _running(graph: UOp) -> Callable[[Sequence[Array]], Meaning]:
    """The graph, ready to be run: its results, and which of the slots it stores to. Raises NotComparableError."""
    run, slots = runner(graph), slots_stored(graph)
    return lambda arrays: [*run(arrays), slots[slots < len(arrays)]]  # others are flags, which a pass has added


def _kinds(graph: UOp) -> Sequence[str]:
    """The kinds of contents that a graph is run on: a program with registers, which takes long, on two."""
    nodes = graph.toposort()
    has_registers = any(n.op == "BUFFER" and n.attrs.get("space") == "register" for n in nodes)
    return ("whole", "special") if has_registers else KINDS


def _tried(run: Callable[[Sequence[Array]], Meaning], samples: Samples) -> Meaning | None:
    try:
        return run(samples)
    except (DeviceError, GraphError):
        return None


def unsound() -> tuple[str, ...]:
    """The rules that say that they are wrong for some values."""
    return tuple(name for name, facts in engine.rules().items() if facts.unsound)


def _fired(info: Information) -> set[str]:
    return {rule for rule, *_ in info["firings"]}
