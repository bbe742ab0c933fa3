"""Rewriting inside rules, the candidates of a search, and what a pass did before it failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from traces import inside_trace, var

import rulegrad as rg
from rulegrad import UOp, engine
from rulegrad.errors import RewriteError
from rulegrad.workbench.diagnosis.checking import Checker
from rulegrad.workbench.tracing import Selection, Trace


@pytest.fixture(scope="module", autouse=True)
def rules() -> Iterator[None]:
    with engine.load_rules(Path(__file__).with_name("inside.rules")):
        yield


@pytest.fixture(scope="module")
def trace(rules: None) -> Trace:
    return inside_trace()


@pytest.fixture(scope="module")
def data(trace: Trace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(trace.data()))
    return found


def rule(data: dict[str, Any], one: dict[str, Any]) -> str:
    name: str = data["rules"][one["rule"]]["name"]
    return name


def test_parts_of_templates(trace: Trace, data: dict[str, Any]) -> None:
    pull, zero = data["passes"][0]["firings"]
    assert zero["inside"] == []
    (part,) = pull["inside"]
    assert (part["kind"], part["runs"], part["verdict"]) == ("rewritten", "inside_signs", "done")
    assert trace.table.nodes[part["before"]] == -(-var(0)) and trace.table.nodes[part["after"]] == var(0)
    (inner,) = part["firings"]
    assert rule(data, inner) == "inside_signs.twice" and inner["step"] is None
    assert inner["before"] == [part["before"]] and inner["after"] == [part["after"]]


def test_candidates(data: dict[str, Any]) -> None:
    one = data["passes"][1]
    first = one["firings"][0]
    assert first["examined"] == 2
    shown = [(part["kind"], part["verdict"], part["cost"]) for part in first["inside"]]
    assert shown == [("graph", "given", 20), ("candidate", "taken", 10), ("candidate", "not taken", 18)]
    assert [rule(data, part) for part in first["inside"][1:]] == ["inside_choose.other", "inside_choose.less"]
    # the last round: nothing costs less
    assert [(part["kind"], part["cost"]) for part in one["inside"]] == [("graph", 10), ("candidate", 12)]


def test_of_many_candidates_the_cheapest_are_kept(tmp_path: Path) -> None:
    actions = "\n".join(f"    b{k}: b@BUFFER[id=9]() -> BUFFER[..b, id={1000 - k}]()" for k in range(200))
    weight = "function own_weight(n):\n    leaf: own_weight(BUFFER[id=k]()) -> {k}\n"
    path = tmp_path / "many.rules"
    path.write_text(f"{weight}pass many choose best:\n    cost own_weight\n{actions}\n", encoding="utf-8")
    with engine.load_rules(path), rg.trace() as trace:
        rg.rewrite(var(9), "many")
    (one,) = trace.passes
    assert one.remaining.examined == 200
    assert [part.cost for part in one.remaining.parts[1:]] == list(range(864, 800, -1))
    assert "… 188 that cost no less" in trace.text()


def test_an_error_in_the_middle(trace: Trace, data: dict[str, Any]) -> None:
    circle, fuel = data["passes"][2:4]
    assert [rule(data, firing) for firing in circle["firings"]] == [
        "inside_pull.zero",
        "inside_pull.turned",
        "inside_pull.turned",
    ]
    assert "does not end: the rules lead from SUB" in circle["error"] and "look further" not in circle["error"]
    assert circle["before"] == circle["after"] and circle["fired"] == 3
    (part,) = fuel["inside"]
    assert (part["kind"], part["verdict"], part["after"]) == ("rewritten", "failed", None)
    assert {rule(data, firing) for firing in part["firings"]} == {"inside_signs.grow"}
    assert len(part["firings"]) == 200 and part["omitted"][0] == 100 and part["omitted"][1] > 9000
    assert [rule(data, firing) for firing in fuel["firings"]] == ["inside_pull.zero"]
    steps = [firing["step"] for one in data["passes"] for firing in one["firings"]]
    assert steps == list(range(1, len(steps) + 1))


def test_a_failure_under_check() -> None:
    graph = UOp("MAX", (var(1, shape=(4,)) + 0, var(2, shape=(4,))))
    with rg.config(check=1), rg.trace() as trace, pytest.raises(RewriteError, match="changes the shape"):
        rg.rewrite(graph, "inside_pull")
    (one,) = trace.passes
    assert [firing.rule for firing in one.firings] == ["inside_pull.zero"]
    assert "inside_pull.shaped" in one.error and "it changes the shape" in one.error


def test_a_graph_that_is_not_valid_under_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rulegrad.workbench.diagnosis.checking._core.verify", lambda root, level: "it is wrong")
    with rg.config(check=1), rg.trace() as trace, pytest.raises(RewriteError, match="not valid"):
        Checker(var(1) + 0, None).run(var(1) + 0, "inside_pull", "kernel")
    (one,) = trace.passes
    assert [firing.rule for firing in one.firings] == ["inside_pull.zero"]
    assert (
        one.error
        == "pass inside_pull leaves a graph that is not valid: it is wrong; rules that fired: inside_pull.zero"
    )
    assert trace.table.nodes[one.after] == var(1)


def test_text(trace: Trace) -> None:
    lines = [line.strip() for line in trace.text().split("\n")]
    at = lines.index("rewritten(…, inside_signs): %5 -> %0")
    assert lines[at + 1].startswith("inside_signs.twice ") and lines[at + 2] == "- %5 = NEG:int32(%1)"
    at = lines.index("the graph costs 20; 2 candidates examined")
    assert lines[at + 1].startswith("10, taken: inside_choose.other ")
    assert lines[at + 2].startswith("18: inside_choose.less ")
    assert any(line.startswith("error: pass inside_pull does not end: the rules lead") for line in lines)
    assert sum(line.endswith(", failed") and line.startswith("inside_pull") for line in lines) == 2
    assert any("firings more" in line for line in lines) and len(lines) < 200


def test_the_error_is_shown_with_any_selection(trace: Trace) -> None:
    text = trace.text(selection=Selection(rule="turned"))
    assert "error: pass inside_pull does not end" in text and "inside_signs" not in text.split("error:")[0]


def test_of_very_many_firings_the_first_and_the_last(tmp_path: Path) -> None:
    path = tmp_path / "many.rules"
    path.write_text("pass many rewrite children_first:\n    grow: SQRT(x) -> SQRT(x + 1.0)\n", encoding="utf-8")
    graph = UOp("SQRT", (var(0, "float32"),))
    with engine.load_rules(path):
        failed: dict[str, Any] = {}
        with pytest.raises(RewriteError, match="did not end"):
            engine.program().rewrite("many", graph, trace=True, fuel=5000, failed=failed)
    after, left_out = failed["omitted"]
    assert len(failed["firings"]) == 4000 and after == 2000 and left_out == failed["fired"] - 4000 > 0
    # the first of those that are left out is followed by the last ones
    assert failed["firings"][after][2].count_nodes() > failed["firings"][after - 1][2].count_nodes() + left_out
