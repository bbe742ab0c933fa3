"""A trace as data: it says the same as the trace, and holds together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import rulegrad as rg
from rulegrad.workbench.tracing import FORMAT, VERSION, Selection, Trace


@pytest.fixture(scope="module")
def data(kernels: Trace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(kernels.data("a title")))
    return found


def test_what_it_is(data: dict[str, Any]) -> None:
    assert (data["format"], data["version"], data["title"]) == (FORMAT, VERSION, "a title")
    assert data["rulegrad"] == rg.__version__


def test_nodes(data: dict[str, Any], kernels: Trace) -> None:
    assert len(data["nodes"]) == len(kernels.table.nodes)
    for number, (label, sources, shape, line) in enumerate(data["nodes"]):
        assert all(source < number for source in sources)
        said, node = data["labels"][label], kernels.table.nodes[number]
        inside = f"[{said['attributes']}]" if said["attributes"] else ""
        assert f"{said['op']}{inside}:{said['dtype']}" == node.describe()
        assert data["shapes"][shape] == list(node.shape)
        assert line is None or data["lines"][line]["file"].endswith("traces.py")
    classes = {label["op"]: label["class"] for label in data["labels"]}
    assert classes["ADD"] == "Elementwise" and classes["RESHAPE"] == "Movement"


def test_firings(data: dict[str, Any]) -> None:
    firings = [firing for one in data["passes"] for firing in one["firings"]]
    assert [firing["step"] for firing in firings] == list(range(1, len(firings) + 1))
    most = len(data["nodes"])
    for firing in firings:
        numbers = [firing["found"], *firing["before"], *firing["after"], *firing["removed"], *firing["added"]]
        assert all(0 <= number < most for number in numbers)
        assert not set(firing["removed"]) & set(firing["added"])
        rule = data["rules"][firing["rule"]]
        assert re.fullmatch(r"\w+\.\w+", rule["name"]) and re.fullmatch(r"[\w/]+\.rules:\d+", rule["location"])
        assert rule["name"].partition(".")[2] in rule["text"]
    assert all(one["fired"] == len(one["firings"]) for one in data["passes"])
    assert {one["kind"] for one in data["passes"]} >= {"children_first", "walk"}


def test_kernels(data: dict[str, Any], kernels: Trace) -> None:
    assert [kernel["name"] for kernel in data["kernels"]] == [one.kernel.name for one in kernels.kernels]
    for kernel in data["kernels"]:
        assert kernel["source"].startswith("__kernel void " + kernel["name"]) and kernel["launches"] == 0
        assert "traces.py" in data["lines"][kernel["line"]]["file"]


def test_lines_have_their_text(data: dict[str, Any]) -> None:
    assert any(line["text"] == "hidden = (x @ x).relu().contiguous()" for line in data["lines"])


@pytest.mark.parametrize(
    ("selection", "rules"),
    [
        (Selection(rule="zero"), ["algebra.zero"]),
        (Selection(rule="algebra.*"), ["algebra.zero", "algebra.one"]),
        (Selection(rule="algebra.*", limit=1), ["algebra.zero"]),
        (Selection(limit=1), ["algebra.zero"]),
        (Selection(pass_name="sym*"), ["algebra.zero", "algebra.one"]),
        (Selection(pass_name="index"), []),
        (Selection(rule="nothing"), []),
    ],
)
def test_selections(small: Trace, selection: Selection, rules: list[str]) -> None:
    data = small.data(selection=selection)
    found = [data["rules"][firing["rule"]]["name"] for one in data["passes"] for firing in one["firings"]]
    assert found == rules


def test_steps_are_those_of_the_whole_trace(small: Trace) -> None:
    data = small.data(selection=Selection(rule="one"))
    assert [firing["step"] for one in data["passes"] for firing in one["firings"]] == [2]
    assert data["passes"][0]["fired"] == 2


def test_a_saved_trace(small: Trace, tmp_path: Path) -> None:
    small.save(tmp_path / "trace.json", "title")
    assert json.loads((tmp_path / "trace.json").read_text(encoding="utf-8")) == small.data("title")
