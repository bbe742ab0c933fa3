"""`bench/fusion.py`: what it measures of one graph, its tables, and where it says that a plan is not the best."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fusion
import fusion_tables
from corpus import GRAPHS
from rulegrad import engine, load_rules

OURS = ["rulegrad", "store all", "fuse all"]


def run(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(repository / "bench" / "fusion.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.long_run
def test_one_graph(repository: Path, tmp_path: Path) -> None:
    name, keep = "gelu chain", tmp_path / "kept.json"
    done = run(repository, "--quick", "--json", "--keep", str(keep), name)
    assert done.returncode == 0, done.stderr
    rows = {row["name"].partition(": ")[2]: row for row in json.loads(done.stdout)}
    assert list(rows) == list(fusion_tables.FIGURES)
    for figure, row in rows.items():
        values = [row["rulegrad"], row["peers"]["store all"], row["peers"]["fuse all"]]
        assert all(value is not None and value > 0 for value in values), (figure, done.stderr)
    kernels = [rows["kernels"]["rulegrad"], rows["kernels"]["peers"]["store all"]]
    assert kernels[0] == 1 < kernels[1]
    assert rows["bytes"]["rulegrad"] < rows["bytes"]["peers"]["store all"]
    assert "other results" not in done.stderr
    kept = json.loads(keep.read_text())
    assert list(kept) == [name] and list(kept[name]) == OURS
    again = run(repository, "--quick", "--keep", str(keep), name)
    assert json.loads(keep.read_text()) == kept
    assert again.stdout.startswith("| graph | kernels: chosen | store | fuse |")


def test_a_name_that_no_graph_has(repository: Path) -> None:
    done = run(repository, "no such graph")
    assert done.returncode == 1 and "no graph is called like no such graph; there are: " in done.stderr


def test_quick_graphs_are_in_the_corpus() -> None:
    assert set(fusion.QUICK) <= set(GRAPHS)


@pytest.mark.parametrize("policy", ["store_everything", "fuse_everything", "estimate"])
def test_policies_are_rule_files_without_mistakes(repository: Path, policy: str) -> None:
    with load_rules(repository / "bench" / "policies" / f"{policy}.rules"):
        passes = engine.pipeline("schedule")
    assert (policy in passes) == (policy != "estimate")


def answers(**seconds: float) -> dict[str, dict[str, Any]]:
    found = {
        name: {"kernels": 1, "bytes": 4 + number, "outputs": 4, "in kernels": time}
        for number, (name, time) in enumerate(seconds.items())
    }
    return {name.replace("_", " "): answer for name, answer in found.items()}


def test_the_verdict() -> None:
    best = answers(rulegrad=1e-3, store_all=2e-3, fuse_all=0.95e-3)
    slow = answers(rulegrad=1e-3, store_all=0.5e-3)
    slow["fuse all"] = {"error": "not finished after 30 s"}
    slow["rulegrad"]["kernels"] = 3
    text = fusion_tables.text({"gelu chain": best, "softmax of rows": slow}, OURS)
    assert "| gelu chain | 1 | 1 | 1 |" in text
    assert "| softmax of rows | 3 | 1 | – |" in text
    assert "fuse: not finished after 30 s: softmax of rows." in text
    assert text.endswith(
        "except:\n"
        "- softmax of rows: store all takes 500 µs, the chosen plan 1,000\n"
        "- softmax of rows: 3 kernels; it should be at most 1"
    )
    same = answers(rulegrad=1e-3, store_all=0.5e-3)
    same["store all"]["bytes"] = 4  # the same plan: the times differ by chance
    alone = fusion_tables.text({"gelu chain": same}, OURS)
    assert alone.endswith("1 graphs; the chosen plan is neither clearly slower than another nor in too many kernels.")


def test_other_results_are_found() -> None:
    found = answers(rulegrad=1.0, store_all=1.0, fuse_all=1.0)
    for name, value in zip(found, (1.0, 1.001, 1.1), strict=True):
        found[name]["sums"] = [value]
    assert fusion_tables.with_other_results(found) == ["fuse all"]
