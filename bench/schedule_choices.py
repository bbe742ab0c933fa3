"""The cost model's choice of schedules: estimates of candidates beside measured times, on a fixed corpus.

    python bench/schedule_choices.py                 the table, by the estimates of today and the times on file
    python bench/schedule_choices.py --record        measures all candidates again, on one thread: half an hour
    python bench/schedule_choices.py --record --kernels PATTERN    only kernels whose names match

Regret is the time of the first choice as a multiple of the least measured; the rank correlation is Spearman's, of the
estimates and times of one kernel's candidates. The times on file (bench/choices.json) are of one processor, in
microseconds, by tactic and the numbers of the candidate's splits: so that a change of an estimate is seen without
measuring anything (tests/bench/test_schedule_choices.py). A tactic with other splits needs new times. Each candidate
took turns with the first choice, launch by launch, and the ratio counts, the median of some: other programs on the
machine slow both down.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from common import note

FILE = Path(__file__).resolve().parent / "choices.json"
ONE_THREAD = Path(__file__).resolve().parent / "policies" / "one_thread.rules"
TARGET = "c_avx512"
ALL = 1000  # choices of a `least` line
SPEND, TURNS = 0.03, 3  # seconds of launches of a candidate in a turn, and turns of those that are near the best
NEAR = 1.2
BEST, OTHERS = 40, 24  # candidates that are measured: those of the least estimates, and some of all others

Made = Callable[..., Any]  # an operand of a shape


def _product(rows: int, depth: int, columns: int) -> Callable[[Made], Any]:
    return lambda make: make(rows, depth) @ make(depth, columns)


def _convolution(channels: int, filters: int, size: int, taps: int, **options: int) -> Callable[[Made], Any]:
    return lambda make: make(1, channels, size, size).conv2d(make(filters, channels, taps, taps), **options)


CORPUS: dict[str, Callable[[Made], Any]] = {
    "product 512": _product(512, 512, 512),
    "product 511": _product(511, 511, 511),
    "product 1024": _product(1024, 1024, 1024),
    "product 64": _product(64, 64, 64),
    "product 128x768x768": _product(128, 768, 768),
    "product 127x768x3072": _product(127, 768, 3072),
    "product 16x128x1024": _product(16, 128, 1024),
    "product 1x768x768": _product(1, 768, 768),
    "product 1000x64x10": _product(1000, 64, 10),
    "product of turned a": lambda make: make(300, 200).T @ make(300, 400),
    "product of turned b": lambda make: make(200, 300) @ make(400, 300).T,
    "scores of 12 heads": lambda make: make(12, 128, 64) @ make(12, 128, 64).transpose(1, 2),
    "values of 12 heads": lambda make: make(12, 128, 128) @ make(12, 128, 64),
    "bias and relu": lambda make: (make(256, 384) @ make(384, 512) + make(512)).relu(),
    "convolution 64x56x56": _convolution(64, 64, 56, 3, padding=1),
    "convolution 128x28x28": _convolution(128, 128, 28, 3, padding=1),
    "convolution 256x14x14": _convolution(256, 256, 14, 3, padding=1),
    "convolution 512x7x7": _convolution(512, 512, 7, 3, padding=1),
    "convolution with stride": _convolution(64, 128, 56, 3, padding=1, stride=2),
    "convolution 1x1": _convolution(256, 64, 28, 1),
    "stem 3x112x112": _convolution(3, 64, 112, 7, padding=3, stride=2),
    "sums of rows": lambda make: make(1024, 1000).sum(1),
    "sums of columns": lambda make: make(1000, 1024).sum(0),
    "softmax": lambda make: make(512, 1000).softmax(1),
    "gelu": lambda make: make(512, 512).gelu(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="measure all candidates, and write the file")
    parser.add_argument("--kernels", default="", metavar="PATTERN", help="a regular expression")
    options = parser.parse_args()
    import rulegrad

    with rulegrad.load_rules(ONE_THREAD), rulegrad.config(threads=1):
        meant = [name for name in CORPUS if re.search(options.kernels, name)]
        if options.record:
            record(meant)
        times = json.loads(FILE.read_text())["kernels"]
        print_table(judged({name: times[name] for name in meant if name in times}))


# ---- judging ----


def judged(times: dict[str, dict[str, float]]) -> dict[str, dict[str, Any]]:
    """For each kernel on file: the first choice by today's estimates, its regret, and the correlation of ranks.

    times: microseconds by kernel and candidate. A first choice that is not on file has no regret (None).
    """
    found: dict[str, dict[str, Any]] = {}
    for name, measured in times.items():
        proposed = [(key(one), one.cost) for one in proposals(name)]
        first, best = proposed[0][0], min(measured.values())
        pairs = [(cost, measured[text]) for text, cost in proposed if text in measured and not text.startswith("none")]
        found[name] = {
            "first": first,
            "regret": measured[first] / best if first in measured else None,
            "microseconds": best,
            "best": min(measured, key=lambda text: measured[text]),
            "candidates": len(pairs),
            "correlation": rank_correlation(pairs) if len(pairs) > 4 else None,
        }
    return found


def summed_up(found: dict[str, dict[str, Any]]) -> tuple[float, float]:
    """The geometric mean of the regrets, and the mean of the correlations."""
    regrets = [one["regret"] for one in found.values() if one["regret"] is not None]
    correlations = [one["correlation"] for one in found.values() if one["correlation"] is not None]
    return math.exp(sum(map(math.log, regrets)) / len(regrets)), sum(correlations) / len(correlations)


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's; equal numbers have the mean of their ranks."""
    from scipy.stats import spearmanr  # type: ignore[import-untyped, unused-ignore]

    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def proposals(name: str) -> list[Any]:
    """All candidates of a kernel of the corpus, the least estimate first. No device is asked."""
    from rulegrad import engine
    from rulegrad.compile import compile_graph
    from rulegrad.engine.schedules import CHOOSES, candidates

    graph = max(compile_graph([CORPUS[name](_maker("numpy")).uop], TARGET), key=lambda kernel: kernel.flops).graph
    passes = engine.pipeline("program")
    return candidates(engine.run_all([graph], passes[: passes.index(CHOOSES)], TARGET)[0], TARGET, ALL)


def key(candidate: Any) -> str:
    """The tactic and the numbers of the splits, by which a candidate's time is on file."""
    return " ".join([candidate.tactic, *re.findall(r" by (\d+)", candidate.text)])


def _maker(device: str) -> Made:
    """Operands that are in memory, and never looked at where no device is."""
    import numpy as np

    from rulegrad import Tensor

    return lambda *shape: Tensor(np.zeros(shape, np.float32), device=device).realize()


def print_table(found: dict[str, dict[str, Any]]) -> None:
    print("| kernel | candidates | best, ms | regret | correlation | first choice; best |\n|---|---|---|---|---|---|")
    for name, one in found.items():
        regret, correlation = ("–" if one[k] is None else f"{one[k]:.2f}" for k in ("regret", "correlation"))
        choice = one["first"] if one["first"] == one["best"] else f"{one['first']}; {one['best']}"
        milliseconds = f"{one['microseconds'] / 1e3:.3f}"
        print(f"| {name} | {one['candidates']} | {milliseconds} | {regret} | {correlation} | {choice} |")
    regret, correlation = summed_up(found)
    print(f"\ngeometric mean of the regrets {regret:.3f}, mean rank correlation {correlation:.2f}")


# ---- measuring ----


def record(names: Sequence[str]) -> None:
    """Measures all candidates of kernels, and writes each kernel's times as soon as they are there."""
    from rulegrad.compile.tuning.trials import Trials
    from rulegrad.compile.tuning.using import described_device

    for name in names:
        with Trials("c", 2) as trials:
            times = dict(measured(name, trials))
        data = json.loads(FILE.read_text()) if FILE.exists() else {"kernels": {}}
        processor = described_device("c").partition(";")[0].removeprefix("c: ")
        data |= {"processor": processor, "date": date.today().isoformat()}
        data["kernels"][name] = times
        data["kernels"] = {one: data["kernels"][one] for one in CORPUS if one in data["kernels"]}
        lines = ",\n".join(f"  {json.dumps(one)}: {json.dumps(found)}" for one, found in data["kernels"].items())
        head = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in data.items() if k != "kernels")
        FILE.write_text(f'{{{head}, "kernels": {{\n{lines}\n}}}}\n')
        note(f"{name}: {len(times)} candidates, the best {min(times.values()):.1f} us")


def measured(name: str, trials: Any) -> Iterator[tuple[str, float]]:
    """Candidates with their least times in microseconds; those that are bad are told, and left out."""
    from rulegrad.compile.scheduling import collecting
    from rulegrad.compile.tuning.search import prepare
    from rulegrad.compile.tuning.trials import BadKernelError
    from rulegrad.engine.schedules import candidates

    with collecting() as found:
        CORPUS[name](_maker("c")).realize()
    subject, target, _ = max(found, key=lambda one: one[0].named.count_nodes())
    proposed = candidates(subject.named, target, ALL)
    prepare(subject, proposed, trials)
    chosen = proposed[:BEST] + spread(proposed[BEST:-1], OTHERS) + proposed[-1:]
    kernels = {key(one): subject.kernel(one.scheduled) for one in chosen}
    problems = dict(zip(kernels, trials.build(list(kernels.values()), math.inf), strict=True))
    first, *_ = kernels
    ratios: dict[str, list[float]] = {text: [] for text in kernels if not problems[text]}
    yardstick: list[float] = []
    for turn in range(TURNS):
        best = min((median(of_one) for of_one in ratios.values() if of_one), default=1.0)
        for text, of_one in ratios.items():
            if problems[text] or (turn and median(of_one) > NEAR * best):
                continue
            try:
                seconds, beside = trials.measure(kernels[text], SPEND, math.inf, kernels[first])
            except BadKernelError as problem:
                problems[text] = str(problem)
                continue
            of_one.append(seconds / beside)
            yardstick.append(beside)
    for text, problem in problems.items():
        if problem:
            note(f"{name}: {text} is bad: {problem}")
    for text, of_one in ratios.items():
        if not problems[text]:
            yield text, round(median(of_one) * median(yardstick) * 1e6, 2)


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """So many of the items, at equal distances."""
    return [items[k * len(items) // count] for k in range(count)] if len(items) > count else list(items)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
