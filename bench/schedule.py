"""Kernels on this machine beside its limits: rulegrad by each C compiler and by OpenCL, and PyTorch, in one run.

    python bench/schedule.py [--quick] [--rows PATTERN] [--models] [--plan] [--devices clang,gcc,opencl]
                             [--compile] [--recipes FOLDER] [--json FILE] [--seconds S] [--threads N]
                             [--search TIME]

Each library runs in a process of its own; they take turns row by row, so that a slow spell of the machine meets all.
A cell has the least time and the lower quartile of all turns in milliseconds, and the share of the machine's limit that
the least time reaches: the limits of arithmetic and of memory are measured by bench/limits.c in the same run, before
the rows and after them. A turn is a call that is timed and one before it that is not. Of rulegrad the times of the
kernels count, of PyTorch and of kernels written by hand whole calls. With --threads 1 the processor's time of a call
counts where that is less: it is right too on a machine that others use, where longer calls of several threads are not.

Results are compared with PyTorch's before anything is timed (without PyTorch with those of the first column): a row
that is wrong has no time. --rows: a regular expression that a row's name has. --models: whole models too. --plan: the
number of kernels, the cost model's estimate of the whole plan, and the rank correlation of estimates and times.
--recipes: a folder of kernels written by hand with a runner (see Recipes in bench/schedule_libraries.py). --devices: a
C compiler for the device c, or the name of a device. --search: columns more, where each kernel's schedules are searched
for so long; bench/schedule_choices.py says how good the choice without a search is.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from common import note, shown
from limits import QUICK_SECONDS, SECONDS, Limits, measure_limits
from schedule_cases import Case, cases
from schedule_columns import Column, ColumnError, columns_of, serve

PAUSE = 0.05  # seconds between turns: threads of the library before go to sleep (PyTorch's spin for a while)
LEAST_TURNS, FEW_TURNS = 5, 2  # few: of slow calls, and with --quick
SLOW = 0.1  # seconds of a call that is not warmed up
ONCE = 5.0  # seconds of a call whose first run is enough


@dataclass
class Cell:
    """The times of a row in one column, in seconds; or why there are none."""

    times: list[float] = field(default_factory=list)
    kernels: int | None = None
    estimate: float | None = None  # seconds
    problem: str = ""

    @property
    def least(self) -> float | None:
        return min(self.times) if self.times else None

    @property
    def quartile(self) -> float | None:
        return sorted(self.times)[len(self.times) // 4] if self.times else None


Table = dict[str, dict[str, Cell]]  # by row and column


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        serve(json.loads(sys.argv[2]))
        return
    options = parsed()
    rows = wanted_rows(options)
    columns = columns_of(options.devices.split(","), options.recipes, options.compile, options.threads, options.search)
    try:
        seconds = QUICK_SECONDS if options.quick else SECONDS
        limits = measure_limits(options.threads, seconds)
        table = measured(rows, columns, options)
        rows = [case for case in rows if case.name in table]
        limits = limits.better(measure_limits(options.threads, seconds))
    finally:
        for column in columns:
            column.end()
    for line in (f"{column.name}: {column.description}" for column in columns):
        print(line)
    print(f"{limits}\n")
    print_table(rows, columns, table, limits, options.plan)
    if options.json:
        options.json.write_text(json.dumps(as_object(rows, columns, table, limits), indent=1), encoding="utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and few turns: under two minutes")
    parser.add_argument("--rows", metavar="PATTERN", help="the rows whose name has it; all of them, also with --quick")
    parser.add_argument("--models", action="store_true", help="whole models too: minutes each")
    parser.add_argument("--plan", action="store_true", help="numbers of kernels, and estimates of whole plans")
    parser.add_argument("--devices", default="clang,gcc,opencl", help="compilers of the device c, and other devices")
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    parser.add_argument("--search", default="", metavar="TIME", help="search the schedules of each kernel: 10s")
    parser.add_argument("--recipes", type=Path, metavar="FOLDER", help="kernels written by hand")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--seconds", type=float, default=4.0, help="of the turns of a row")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def wanted_rows(options: argparse.Namespace) -> list[Case]:
    found = cases()
    if options.rows:
        found = [case for case in found if re.search(options.rows, case.name)]
    elif options.quick:
        found = [case for case in found if case.quick]
    else:
        found = [case for case in found if options.models or not case.is_model]
    if not found:
        raise SystemExit(f"no row's name has {options.rows!r}")
    return found


def measured(rows: Sequence[Case], columns: Sequence[Column], options: argparse.Namespace) -> Table:
    """The rows that are done, in the order given: all of them, or those before an interrupt."""
    table: Table = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(rows):
            cells = {column.name: Cell() for column in columns}
            results = Path(folder) / f"{number}.npz"
            try:
                ready = [c for c in columns if prepare(c, case, cells[c.name], results, options)]
                take_turns(ready, cells, options)
            except KeyboardInterrupt:
                note(f"interrupted at {case.name}: the rows before it follow")
                break
            results.unlink(missing_ok=True)
            table[case.name] = cells
            note(f"{case.name}: " + ", ".join(f"{name} {in_cell(cell)}" for name, cell in cells.items()))
    return table


def prepare(column: Column, case: Case, cell: Cell, results: Path, options: argparse.Namespace) -> bool:
    """Whether a column computes a row, and rightly."""
    try:
        answer = column.ask(do="prepare", row=case.name, results=str(results), plan=options.plan and column.is_ours)
    except ColumnError as failure:
        cell.problem = str(failure)
        return False
    cell.kernels, cell.estimate = answer["kernels"], answer["estimate"]
    if answer["seconds"] > ONCE and options.threads > 1:
        cell.times.append(answer["seconds"])
    return True


def take_turns(columns: Sequence[Column], cells: dict[str, Cell], options: argparse.Namespace) -> None:
    """Each column in its turn, until all have had their share of the time and the least number of turns."""
    least = FEW_TURNS if options.quick else LEAST_TURNS
    share = (options.seconds / 20 if options.quick else options.seconds) / max(1, len(columns))
    spent = dict.fromkeys(cells, 0.0)
    left = [column for column in columns if not cells[column.name].times]
    while left:
        for column in list(left):
            cell = cells[column.name]
            time.sleep(PAUSE)
            start = time.perf_counter()
            try:
                cell.times.append(column.ask(do="turn", warm=not cell.times or cell.times[-1] < SLOW)["seconds"])
            except ColumnError as failure:
                cell.times, cell.problem = [], str(failure)
            spent[column.name] += time.perf_counter() - start
            turns = len(cell.times)
            enough = turns >= least or (turns >= FEW_TURNS and spent[column.name] > 2 * share)
            if cell.problem or (enough and spent[column.name] > share):
                left.remove(column)


def print_table(rows: Sequence[Case], columns: Sequence[Column], table: Table, limits: Limits, with_plan: bool) -> None:
    """A row for each case; rates and the plan are those of the first column of rulegrad."""
    first = next((column.name for column in columns if column.is_ours), "")
    plan = ["kernels", "estimate"] if with_plan else []
    lines = [["ms", *(column.name for column in columns), "GFLOP/s", "GB/s", *plan]]
    for case in rows:
        cells, limit = table[case.name], limits.seconds(case.operations, case.dtype, case.reads, case.writes)
        own = cells.get(first, Cell())
        rates = [figure(case.operations, own.least, 1e-9), figure(case.reads + case.writes, own.least, 1e-9)]
        planned = [shown(own.kernels), figure(own.estimate, 1.0, 1e3)] if with_plan else []
        lines.append([case.name, *(in_cell(cell, limit) for cell in cells.values()), *rates, *planned])
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells_of_line = [c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))]
        print("| " + " | ".join(cells_of_line) + " |")
        if number == 0:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")
    if with_plan:
        for column in columns:
            pairs = estimates(column.name, table)
            if len(pairs) > 2:
                print(f"\n{column.name}: rank correlation of estimates and times {rank_correlation(pairs):.2f}")


def in_cell(cell: Cell, limit: float | None = None) -> str:
    """`1.25 / 1.31 (72 %)`: least and lower quartile in milliseconds, share of the limit."""
    if cell.least is None or cell.quartile is None:
        return cell.problem.split(":")[0] or "–"
    share = "" if limit is None else f" ({shown(round(100 * limit / cell.least, 1))} %)"
    return f"{shown(1e3 * cell.least)} / {shown(1e3 * cell.quartile)}{share}"


def figure(amount: float | None, seconds: float | None, factor: float) -> str:
    return "–" if not amount or not seconds else shown(amount / seconds * factor)


def estimates(column: str, table: Table) -> list[tuple[float, float]]:
    """The estimate and the least time of each row that has both."""
    cells = (cells[column] for cells in table.values())
    return [(cell.estimate, cell.least) for cell in cells if cell.estimate is not None and cell.least is not None]


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's: 1 where the greater of two estimates always is that of the greater time."""
    ranks = [np.argsort(np.argsort([pair[k] for pair in pairs])).astype(np.float64) for k in (0, 1)]
    return float(np.asarray(np.corrcoef(ranks))[0, 1])


def as_object(rows: Sequence[Case], columns: Sequence[Column], table: Table, limits: Limits) -> dict[str, Any]:
    """All figures: times in milliseconds, rates in GFLOP/s and GB/s."""
    return {
        "date": date.today().isoformat(),
        "columns": {column.name: column.description for column in columns},
        "limits": limits.as_object(),
        "rows": [row_object(case, table[case.name], limits) for case in rows],
        "rank correlation": {
            column.name: rank_correlation(pairs)
            for column in columns
            if len(pairs := estimates(column.name, table)) > 2
        },
    }


def row_object(case: Case, cells: dict[str, Cell], limits: Limits) -> dict[str, Any]:
    limit = limits.seconds(case.operations, case.dtype, case.reads, case.writes)

    def cell_object(cell: Cell) -> dict[str, Any]:
        if cell.least is None or cell.quartile is None:
            return {"problem": cell.problem}
        return {
            "least": 1e3 * cell.least,
            "quartile": 1e3 * cell.quartile,
            "turns": len(cell.times),
            "gflops": case.operations / cell.least * 1e-9,
            "gigabytes": (case.reads + case.writes) / cell.least * 1e-9,
            "share": None if limit is None else limit / cell.least,
            "kernels": cell.kernels,
            "estimate": None if cell.estimate is None else 1e3 * cell.estimate,
        }

    found = {name: cell_object(cell) for name, cell in cells.items()}
    return {"name": case.name, "operations": case.operations, "bytes": case.reads + case.writes,
            "limit": None if limit is None else 1e3 * limit, "columns": found}  # fmt: skip


if __name__ == "__main__":
    main()
