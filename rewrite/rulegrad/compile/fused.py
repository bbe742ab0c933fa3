"""The fused kernels of a schedule, for `DEBUG=2`: their operations, reads and writes, and why each ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rulegrad import engine
from rulegrad.compile.estimate import nbytes
from rulegrad.ir import UOp
from rulegrad.runtime.kernel import stores_of

_NOT_COMPUTED: Final = frozenset(("Movement", "Identity"))
_MOST: Final = 12  # operations of a line that are named


class Fused:
    """Which rule stored each value: kept up to date while the passes of a schedule run."""

    def __init__(self, graph: UOp) -> None:
        # by the node that keeps the value in memory; those that are there already were asked for
        self._rules = {node: "contiguous()" for node in graph.toposort() if node.op == "MATERIALIZE"}

    @property
    def kept(self) -> list[UOp]:
        """The nodes whose results after the next pass are asked for."""
        return list(self._rules)

    def passed(self, firings: Sequence[tuple[str, str, UOp, UOp]], results: Sequence[UOp | None]) -> None:
        """A pass has run. firings: those that it made; results: what became of `kept`."""
        before = self._rules
        self._rules = {new: before[old] for old, new in zip(before, results, strict=True) if new is not None}
        for rule, location, old, new in firings:
            materialized = {node for node in new.toposort() if node.op == "MATERIALIZE"} - set(old.toposort())
            for node in materialized - set(self._rules):
                self._rules[node] = f"{rule} ({location})"

    def text(self, kernels: Sequence[UOp], lines: Mapping[UOp, str], target: str) -> str:
        """All kernels of a schedule: the stores or groups of stores that they are, in order."""
        buffers = {node.src[0]: rule for node, rule in self._rules.items() if node.op == "AFTER"}
        told = [_Kernel(kernel) for kernel in kernels]
        stored = {node.src[0]: line for node, line in lines.items() if node.op == "AFTER"}
        values = [(store.src[1], stored.get(_buffer(store.src[0]))) for store in stores_of(kernels)]
        lines = {**{value: line for value, line in values if line}, **lines}
        moved = _size(sum(nbytes(b.shape, b.dtype) for one in told for b in (*one.reads, *one.writes)))
        plural = "s" if len(told) != 1 else ""
        parts = [f"rulegrad: {len(told)} kernel{plural} for {target}, which read and write {moved}"]
        for number, one in enumerate(told, 1):
            parts.extend(f"    {line}" for line in one.told(number, lines, buffers))
        return "\n".join(parts)


class _Kernel:
    """One kernel of a schedule: what it reads, computes and writes."""

    def __init__(self, kernel: UOp) -> None:
        self.writes = [_buffer(store.src[0]) for store in stores_of([kernel])]
        self.segments = len(kernel.src) if kernel.op == "SEGMENTS" else 1
        self.nodes = _computed([store.src[1] for store in stores_of([kernel])])
        read = [_buffer(node) for node in self.nodes if node.op in ("PARAM", "BUFFER", "AFTER")]
        self.reads = [node for node in dict.fromkeys(read) if node not in self.writes]

    def told(self, number: int, lines: Mapping[UOp, str], rules: Mapping[UOp, str]) -> list[str]:
        reductions = sum(node.op in ("REDUCE", "SCAN") for node in self.nodes)
        read, written = (_size(sum(nbytes(b.shape, b.dtype) for b in some)) for some in (self.reads, self.writes))
        counted = [
            f"reads {read} of {_counted(len(self.reads), 'buffer')}",
            f"writes {written} by {_counted(len(self.writes), 'store')}",
            _counted(reductions, "reduction"),
            *([f"{self.segments} segments"] if self.segments > 1 else []),
        ]
        found = [f"{number}: {', '.join(counted)}"]
        by_line: dict[str, list[str]] = {}
        for node in self.nodes:
            if node.src and node.op != "AFTER" and _NOT_COMPUTED.isdisjoint(engine.summary()["ops"][node.op][0]):
                by_line.setdefault(lines.get(node, ""), []).append(_name(node))
        # what rules made of the user's operations has no line
        for line, names in sorted(by_line.items(), key=lambda item: item[0] == ""):
            more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
            found.append(f"   {line or 'made by rules'}: {' '.join(names[:_MOST])}{more}")
        why = dict.fromkeys(rules[buffer] for buffer in self.writes if buffer in rules)
        return [*found, f"   stored by {', '.join(why)}"] if why else found


def _computed(values: Sequence[UOp]) -> list[UOp]:
    """The nodes that a kernel computes and reads, the sources of each node before it."""
    found: dict[UOp, None] = {}
    stack = [(value, False) for value in reversed(values)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            found.setdefault(node)
        elif node not in found:
            stack.append((node, True))
            if node.op != "AFTER":  # another kernel computes what is stored there
                stack.extend((source, False) for source in reversed(node.src))
    return list(found)


def _buffer(node: UOp) -> UOp:
    return _buffer(node.src[0]) if node.src else node


def _name(node: UOp) -> str:
    return f"{node.op}[{node.attrs['op']}]" if "op" in node.attrs else node.op


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' * (number != 1)}"


def _size(number: int) -> str:
    """`12.6 MB`: three digits and a unit."""
    for factor, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} bytes"
