"""The results of bench/fusion.py, as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from common import Row, shown
from corpus import GRAPHS

Answers = dict[str, dict[str, Any]]  # of one graph, by participant

#: figure: (its key in an answer, unit, factor)
FIGURES = {
    "kernels": ("kernels", "kernels", 1.0),
    "bytes": ("bytes", "MB", 1e-6),
    "over bound": ("over bound", "×", 1.0),
    "operations": ("operations", "million", 1e-6),
    "estimated": ("estimated", "µs", 1e6),
    "measured": ("seconds", "µs", 1e6),
    "peak memory": ("peak", "MB", 1e-6),
}
#: The figures of each table for people.
TABLES = (("kernels", "bytes", "over bound"), ("operations", "estimated", "measured", "peak memory"))
SHORT = {"rulegrad": "chosen", "store all": "store", "fuse all": "fuse", "torch.compile": "torch"}
#: A plan is faster than another when it takes less than this share of its time, and at least so many seconds less.
CLEARLY, SECONDS = 0.9, 20e-6


def completed(name: str, answers: Answers) -> Answers:
    """The answers with what follows from several of them."""
    bound = sum(array.nbytes for array in GRAPHS[name].arrays())
    outputs = next((answer["outputs"] for answer in answers.values() if "outputs" in answer), None)
    result = {}
    for participant, answer in answers.items():
        result[participant] = {**answer, "seconds": answer.get("in kernels", answer.get("time"))}
        if "bytes" in answer and outputs is not None:
            result[participant]["over bound"] = answer["bytes"] / (bound + outputs)
    return result


def with_other_results(answers: Answers) -> list[str]:
    """The participants whose results are not rulegrad's, but for the rounding of float32."""
    ours = answers.get("rulegrad", {}).get("sums")
    return [name for name, answer in answers.items() if ours and "sums" in answer and not _agree(answer["sums"], ours)]


def _agree(first: Sequence[float], second: Sequence[float]) -> bool:
    return len(first) == len(second) and all(math.isclose(a, b, rel_tol=2e-3) for a, b in zip(first, second))


def rows(found: dict[str, Answers], participants: Sequence[str]) -> list[Row]:
    """One row a graph and figure."""
    whole = {name: completed(name, answers) for name, answers in found.items()}
    result = []
    for figure, (key, unit, factor) in FIGURES.items():
        for name, answers in whole.items():
            row = Row(f"{name}: {figure}", unit)
            for participant in participants:
                value = answers.get(participant, {}).get(key)
                row.put(participant, None if value is None else value * factor)
            result.append(row)
    return result


def text(found: dict[str, Answers], participants: Sequence[str]) -> str:
    """Tables with one line a graph, then what failed and where the chosen plan is not the best."""
    whole = {name: completed(name, answers) for name, answers in found.items()}
    parts = [_table(figures, whole, participants) for figures in TABLES]
    return "\n\n".join([*parts, *_failures(whole), verdict(whole)])


def _table(figures: Sequence[str], whole: dict[str, Answers], participants: Sequence[str]) -> str:
    columns = [
        (figure, participant)
        for figure in figures
        for participant in participants
        if any(answers.get(participant, {}).get(FIGURES[figure][0]) is not None for answers in whole.values())
    ]
    seen: set[str] = set()
    head = ["graph"]
    for figure, participant in columns:
        unit = FIGURES[figure][1]
        what = figure if figure in ("kernels", unit) else f"{figure} ({unit})"
        head.append(("" if figure in seen else f"{what}: ") + SHORT.get(participant, participant))
        seen.add(figure)
    lines = [head]
    for name, answers in whole.items():
        line = [name]
        for figure, participant in columns:
            key, _, factor = FIGURES[figure]
            value = answers.get(participant, {}).get(key)
            line.append(shown(None if value is None else _rounded(value * factor)))
        lines.append(line)
    ruler = "|".join(["", "---", *["--:"] * len(columns), ""])
    printed = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([printed[0], ruler, *printed[1:]])


def _rounded(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}") if abs(value) < 1000 else round(value)


def _failures(whole: dict[str, Answers]) -> list[str]:
    """Which plan of a graph has no figures, or no time, and why: one paragraph for each participant."""
    why: dict[tuple[str, str], list[str]] = {}
    for name, answers in whole.items():
        for participant, answer in answers.items():
            reason = answer.get("error", answer.get("not run", ""))
            if reason:
                why.setdefault((SHORT.get(participant, participant), reason), []).append(name)
    return [f"{participant}: {reason}: {', '.join(names)}." for (participant, reason), names in why.items()]


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two plans have the same kernels, as far as is known: then their times differ by chance."""
    return all(one.get(key) == other.get(key) for key in ("kernels", "bytes", "operations"))


def verdict(whole: dict[str, Answers]) -> str:
    """Where the chosen plan is not the fastest of ours, or takes more kernels than the graph should."""
    lines = []
    for name, answers in whole.items():
        own = answers.get("rulegrad", {})
        seconds = own.get("seconds")
        for other in ("store all", "fuse all"):
            less = answers.get(other, {}).get("seconds")
            if _is_same(own, answers.get(other, {})):
                continue
            if less and seconds and less < min(CLEARLY * seconds, seconds - SECONDS):
                lines.append(f"- {name}: {other} takes {less * 1e6:,.0f} µs, the chosen plan {seconds * 1e6:,.0f}")
        most = GRAPHS[name].kernels
        if most is not None and own.get("kernels", 0) > most:
            lines.append(f"- {name}: {own['kernels']} kernels; it should be at most {most}")
    head = f"{len(whole)} graphs; the chosen plan is neither clearly slower than another nor in too many kernels"
    return "\n".join([head + (", except:" if lines else "."), *lines])
