"""A trace as text: each firing with its rule, the user's line, and the nodes that went and came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rulegrad.workbench.tracing.document import Selection, label, line_data
from rulegrad.workbench.tracing.provenance import Location

if TYPE_CHECKING:
    from rulegrad.workbench.tracing.recorder import Trace, Traced, TracedFiring, TracedInside, TracedPass

#: Nodes that a firing is shown to remove, and to add: those nearest to the node that changed.
MOST_SHOWN = 12

_STYLES = {"strong": "1", "faint": "2", "removed": "31", "added": "32", "user": "36"}


def as_text(trace: Trace, title: str = "", selection: Selection | None = None, colored: bool = False) -> str:
    """The trace for people; `colored`: with the escape codes of a terminal."""
    return "\n".join(_Text(trace, colored).lines(title, selection or Selection()))


class _Text:
    def __init__(self, trace: Trace, colored: bool) -> None:
        self._trace = trace
        self._table = trace.table
        self._colored = colored

    def lines(self, title: str, selection: Selection) -> Iterator[str]:
        total = sum(one.fired for one in self._trace.passes)
        counts = (
            _count(len(self._trace.passes), "pass"),
            _count(total, "firing"),
            _count(len(self._trace.kernels), "kernel"),
        )
        yield self._style("strong", ", ".join(counts) + (f": {title}" if title else ""))
        heading = ""
        for one, firings in selection.passes(self._trace):
            if heading != (heading := self._heading(one)):
                yield from ("", heading)
            yield self._pass(one)
            for step, firing in firings:
                yield from self._firing(f"#{step} ", firing)
                if firing is one.firings[one.omitted[0] - 1] and one.omitted[1]:
                    yield self._style("faint", f"    … {_count(one.omitted[1], 'firing')} more")
            if not selection.rule and (one.error or one.remaining.parts):
                yield from self._inside(one.remaining, "      ")
            if one.error:
                yield from self._error(one.error, "    ")
        if selection == Selection():
            yield from self._sources()

    def _heading(self, one: TracedPass) -> str:
        number = self._trace.kernel_of(one)
        if number is None:
            return self._style("strong", one.part.pipeline or "passes")
        kernel = self._trace.kernels[number]
        return self._style("strong", f"kernel {kernel.kernel.name}") + self._user(kernel.line)

    def _pass(self, one: TracedPass) -> str:
        before, after = (len(self._table.below([root])) for root in (one.before, one.after))
        size = _count(before, "node") if before == after else f"{before} -> {_count(after, 'node')}"
        runs = f", ran {one.runs} times" if one.runs > 1 else ""
        failed = self._style("removed", ", failed") if one.error else ""
        return f"  {one.name:<14} {_count(one.fired, 'firing')}, {size}, {one.seconds * 1e3:.2f} ms{runs}{failed}"

    def _error(self, problem: str, margin: str) -> Iterator[str]:
        first, *more = problem.split("\n")
        yield margin + self._style("removed", f"error: {first}")
        yield from (f"{margin}  {line}" for line in more)

    def _inside(self, inside: Traced, margin: str) -> Iterator[str]:
        """Parts of templates that were rewritten; and the candidates of a round, the taken one first, then by cost."""
        judged = [one for one in inside.parts if one.kind == "candidate"]
        for one in inside.parts:
            if one.kind == "graph":
                cost = self._style("strong", f"the graph costs {one.cost:g}") if one.cost is not None else "the graph"
                yield f"{margin}{cost}; {_count(inside.examined, 'candidate')} examined"
            elif one.kind != "candidate":
                yield from self._rewritten(one, margin)
        judged.sort(key=lambda one: (one.verdict not in ("taken", "failed"), one.cost is None, one.cost or 0))
        for one in judged[:MOST_SHOWN]:
            cost = "no cost" if one.cost is None else f"{one.cost:g}"
            verdict = "failed" if one.verdict == "failed" else f"{cost}, taken" if one.verdict == "taken" else cost
            style = {"taken": "added", "failed": "removed"}.get(one.verdict, "")
            location = self._style("faint", one.location)
            yield f"{margin}  {self._style(style, verdict)}: {one.rule}  {location}  {self._became(one)}"
            if one.verdict == "failed":
                yield from self._below(one, margin + "    ")
        if inside.examined > len(judged[:MOST_SHOWN]):
            yield self._style("faint", f"{margin}  … {inside.examined - len(judged[:MOST_SHOWN])} that cost no less")

    def _rewritten(self, one: TracedInside, margin: str) -> Iterator[str]:
        what = f"{one.kind}(…, {one.runs})" if one.kind == "rewritten" else f"{one.kind}(…) by {one.runs or 'no pass'}"
        became = self._style("removed", f"{self._name(one.before)}, failed") if one.after is None else self._became(one)
        yield f"{margin}{self._style('strong', what)}: {became}"
        yield from self._below(one, margin + "  ")

    def _below(self, one: TracedInside, margin: str) -> Iterator[str]:
        """The firings of a part, each in a line or two; of many the first and the last."""
        most = MOST_SHOWN // 2
        for k, firing in enumerate(one.firings):
            if most <= k < len(one.firings) - most:
                if k == most:
                    left_out = len(one.firings) - 2 * most + one.omitted[1]
                    yield self._style("faint", f"{margin}… {_count(left_out, 'firing')} more")
                continue
            before, after = (", ".join(map(self._name, numbers)) for numbers in (firing.before, firing.after))
            yield f"{margin}{firing.rule}  {self._style('faint', firing.location)}  {before} -> {after}"
            yield from (
                f"{margin}  - {self._node(number)}" for number in firing.before if not self._is_constant(number)
            )
            yield from (f"{margin}  + {self._node(number)}" for number in firing.after if not self._is_constant(number))
            yield from self._inside(firing.inside, margin + "  ")
        yield from self._inside(one.remaining, margin)

    def _became(self, one: TracedInside) -> str:
        return f"{self._name(one.before)} -> {'nothing' if one.after is None else self._name(one.after)}"

    def _firing(self, step: str, firing: TracedFiring) -> Iterator[str]:
        location = self._style("faint", firing.location)
        yield f"    {step}{self._style('strong', firing.rule)}  {location}{self._user(firing.line)}"
        for text in self._trace.rules[firing.rule, firing.location].split("\n"):
            yield self._style("faint", f"        {text}".rstrip())
        for number in self._around(firing):
            yield f"        {self._node(number)}"
        yield from self._changed("removed", "-", firing.difference.removed)
        yield from self._changed("added", "+", firing.difference.added)
        before, after = (", ".join(map(self._name, numbers)) for numbers in (firing.before, firing.after))
        yield f"      {before} -> {after or 'nothing'}"
        yield from self._inside(firing.inside, "        ")

    def _changed(self, style: str, sign: str, numbers: tuple[int, ...]) -> Iterator[str]:
        """The nodes that went or came, sources first."""
        if len(numbers) > MOST_SHOWN:
            yield self._style(style, f"      {sign} … {len(numbers) - MOST_SHOWN} or more below these")
        for number in reversed(numbers[:MOST_SHOWN]):
            yield self._style(style, f"      {sign} {self._node(number)}")

    def _around(self, firing: TracedFiring) -> list[int]:
        """The sources of the nodes that are shown, where they did not change themselves."""
        removed, added, _ = firing.difference
        shown = (*removed[:MOST_SHOWN], *added[:MOST_SHOWN], *firing.before[1:])
        sources = {source for number in shown for source in self._table.sources[number]}
        around = (sources | {*firing.before[1:], *firing.after}) - {*removed, *added}
        return sorted(number for number in around if not self._is_constant(number))

    def _is_constant(self, number: int) -> bool:
        return self._table.nodes[number].op == "CONST"

    def _name(self, number: int) -> str:
        """`%12`; the value of a constant."""
        if self._is_constant(number):
            return label(self._table.nodes[number])[1].removeprefix("value=")
        return f"%{number}"

    def _node(self, number: int) -> str:
        """A line of the text form, with constants in place."""
        sources = ", ".join(map(self._name, self._table.sources[number]))
        return f"%{number} = {self._table.nodes[number].describe()}({sources})"

    def _user(self, location: Location | None) -> str:
        if location is None:
            return ""
        line = line_data(location)
        return "  " + self._style("user", f"{line['file']}:{line['line']}") + f"  {line['text']}".rstrip()

    def _sources(self) -> Iterator[str]:
        for one in self._trace.kernels:
            if one.kernel.source:
                yield from ("", self._style("strong", f"source of {one.kernel.name}") + self._user(one.line))
                yield from _indented(one.kernel.source.rstrip("\n").split("\n"))

    def _style(self, name: str, text: str) -> str:
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self._colored and text and name else text


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _count(number: int, thing: str) -> str:
    """`1 pass`, `2 passes`."""
    plural = thing + ("es" if thing.endswith("s") else "s")
    return f"{number} {thing if number == 1 else plural}"
