"""The result of trials of mutants, as data and as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulegrad.lang import syntax
from rulegrad.workbench.mutation.changes import Change
from rulegrad.workbench.mutation.verdicts import UNREACHED, Verdict

NOTICED = ("load", "test", "check", "proof")


@dataclass(frozen=True, slots=True)
class Tried:
    """A mutant and its verdict."""

    name: str
    change: Change
    verdict: Verdict

    @property
    def location(self) -> str:
        span = self.change.span
        return f"{span.file}:{span.line}:{span.column + 1}"

    @property
    def plain(self) -> dict[str, Any]:
        """Plain data."""
        change = {"before": self.change.before, "after": self.change.after}
        return {"rule": self.name, "location": self.location, **change, **dataclasses.asdict(self.verdict)}


@dataclass(frozen=True, slots=True)
class Count:
    """How many mutants there are, of some rules, and what came of them."""

    mutants: int
    by: Mapping[str, int]  # noticed by loading, test, check, proof
    same: int
    surviving: int

    @classmethod
    def of(cls, tried: Sequence[Tried]) -> Count:
        kinds: list[str] = [one.verdict.kind for one in tried]
        by = {kind: kinds.count(kind) for kind in NOTICED}
        return cls(len(kinds), by, kinds.count("same"), kinds.count("survives"))

    @property
    def noticed(self) -> int:
        return sum(self.by.values())

    @property
    def share(self) -> float:
        """The share that survives, of those that are not the same on all instances."""
        return self.surviving / max(1, self.mutants - self.same)


def counts(tried: Sequence[Tried]) -> dict[str, Count]:
    """The counts of each file, those with most survivors first."""
    files = dict.fromkeys(one.change.span.file for one in tried)
    found = {file: Count.of([one for one in tried if one.change.span.file == file]) for file in files}
    return dict(sorted(found.items(), key=lambda item: -item[1].surviving))


def as_data(tried: Sequence[Tried], of: int, seconds: float) -> dict[str, Any]:
    """Plain data: what `--json` prints. of: the number of mutants of which these were drawn."""

    def plain(count: Count) -> dict[str, Any]:
        return {**dataclasses.asdict(count), "noticed": count.noticed, "share": round(count.share, 4)}

    return {
        **plain(Count.of(tried)),
        "of": of,
        "seconds": round(seconds, 2),
        "files": {file: plain(count) for file, count in counts(tried).items()},
        "tried": [one.plain for one in tried],
    }


def as_text(tried: Sequence[Tried], of: int, seconds: float, lines: Mapping[str, Sequence[str]]) -> str:
    """The same for people. lines: of the files' text."""
    parts = [text for one in tried if one.verdict.kind == "survives" for text in _survivor(one, lines)]
    parts += [*([""] if parts else []), *_table(tried), ""]
    total = Count.of(tried)
    sampled = f" of {of:,}" if of > total.mutants else ""
    by = ", ".join(f"{total.by[kind]:,} {_BY[kind]}" for kind in NOTICED if total.by[kind])
    parts.append(
        f"{total.mutants:,}{sampled} mutants: {total.noticed:,} noticed{f' ({by})' if by else ''}, {total.same:,} the "
        f"same on all instances, {total.surviving:,} survive ({total.share:.1%} of those that are not the same); "
        f"{seconds:.1f} s, {total.mutants / max(seconds, 1e-9):.0f} a second"
    )
    return "\n".join(parts)


_BY = {"load": "when loaded", "test": "by test lines", "check": "by check", "proof": "by proofs"}


def _survivor(one: Tried, lines: Mapping[str, Sequence[str]]) -> Iterator[str]:
    span, after = one.change.span, one.change.after
    becomes = f"`{one.change.before}` becomes `{after}`" if after else f"`{one.change.before}` is left out"
    yield f"{one.location}: {one.name}: {becomes}"
    text = lines.get(span.file, ())
    if span.line <= len(text):
        end = span.end_column if span.line == span.end_line else len(text[span.line - 1])
        yield f"    {text[span.line - 1]}"
        yield f"    {' ' * span.column}{'^' * max(1, end - span.column)}"
    by = one.verdict.by
    yield f"    {by}" if by == UNREACHED else f"    no test line notices that it differs on {by}"


def _table(tried: Sequence[Tried]) -> Iterator[str]:
    found = counts(tried)
    width = max((len(file) for file in found), default=4) + 2
    yield f"{'file':<{width}}{'mutants':>9}{'noticed':>9}{'same':>7}{'surviving':>11}{'share':>8}"
    for file, count in found.items():
        figures = f"{count.mutants:>9,}{count.noticed:>9,}{count.same:>7,}{count.surviving:>11,}"
        yield f"{file:<{width}}{figures}{count.share:>8.1%}"


def texts(files: Sequence[syntax.File]) -> dict[str, list[str]]:
    """The lines of each file's text."""
    return {file.path: file.text.split("\n") for file in files}
