"""A trace as text: each firing with its rule, the user's line, and the nodes that went and came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rulegrad.tracing.document import Selection, label, line_data
from rulegrad.tracing.provenance import Place
from rulegrad.tracing.recorder import Trace, TracedFiring, TracedPass

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
        total = sum(len(one.firings) for one in self._trace.passes)
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
                yield from self._firing(step, firing)
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
        return f"  {one.name:<14} {_count(len(one.firings), 'firing')}, {size}, {one.seconds * 1e3:.2f} ms{runs}"

    def _firing(self, step: int, firing: TracedFiring) -> Iterator[str]:
        place = self._style("faint", firing.place)
        yield f"    #{step} {self._style('strong', firing.rule)}  {place}{self._user(firing.line)}"
        for text in self._trace.rules[firing.rule, firing.place].split("\n"):
            yield self._style("faint", f"        {text}".rstrip())
        for number in self._around(firing):
            yield f"        {self._node(number)}"
        yield from self._changed("removed", "-", firing.difference.removed)
        yield from self._changed("added", "+", firing.difference.added)
        before, after = (", ".join(map(self._name, numbers)) for numbers in (firing.before, firing.after))
        yield f"      {before} -> {after or 'nothing'}"

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

    def _user(self, place: Place | None) -> str:
        if place is None:
            return ""
        line = line_data(place)
        return "  " + self._style("user", f"{line['file']}:{line['line']}") + f"  {line['text']}".rstrip()

    def _sources(self) -> Iterator[str]:
        for one in self._trace.kernels:
            if one.kernel.source:
                yield from ("", self._style("strong", f"source of {one.kernel.name}") + self._user(one.line))
                yield from _indented(one.kernel.source.rstrip("\n").split("\n"))

    def _style(self, name: str, text: str) -> str:
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self._colored and text else text


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _count(number: int, thing: str) -> str:
    """`1 pass`, `2 passes`."""
    plural = thing + ("es" if thing.endswith("s") else "s")
    return f"{number} {thing if number == 1 else plural}"
