"""`why` in searches and in the rewriting of parts of templates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rulegrad import engine
from rulegrad.ir import UOp
from rulegrad.workbench.explaining import Answer, Explanation, explain
from rulegrad.workbench.tools import why


@pytest.fixture(scope="module", autouse=True)
def inside(demo: None) -> Iterator[None]:
    with engine.load_rules(Path(__file__).with_name("inside.rules")):
        yield


def var(number: int, dtype: str = "int32") -> UOp:
    return UOp("BUFFER", (), dtype, id=number, shape=())


def about(rule: str, graph: UOp, at: UOp | None = None, name: str = "why_pull") -> tuple[Explanation, Answer]:
    found = explain(rule, graph, at=at, pass_name=name)
    return found, found.answers[0]


# ---- parts of templates ----


def test_a_rule_of_rewritten() -> None:
    absolute = UOp("ABS", (-var(0),))
    found, answer = about("why_signs.twice", absolute + 5)
    assert found.fires and answer.message == "it fires at step 1 and gives %0"
    place = f"inside.rules:{line('    pull:')}"
    assert answer.inside.startswith("rewritten(…, why_signs) of why_pull.pull (")
    assert place in answer.inside and answer.inside.endswith(" at %2 = ABS(%1)")
    assert "at NEG(%1), in rewritten(…, why_signs) of why_pull.pull" in str(found)


def line(start: str) -> int:
    text = Path(__file__).with_name("inside.rules").read_text(encoding="utf-8").split("\n")
    return next(k for k, one in enumerate(text, 1) if one.startswith(start))


def test_the_first_false_clause_there() -> None:
    found, answer = about("why_signs.third", UOp("ABS", (var(0) + 5,)))
    assert not found.fires and answer.message == "`c == 3` is false: c = 5"
    assert answer.names["x"] == "%0" and answer.inside.startswith("rewritten(…, why_signs) of why_pull.pull")
    assert answer.spot is not None and answer.spot.source.strip() == "if c == 3"


def test_by_a_function() -> None:
    _, answer = about("why_signs.twice", ~(-var(0)))
    assert answer.fires and "of why_pull.called (" in answer.inside


def test_given_runs_the_pass_itself() -> None:
    i = UOp("RANGE", (UOp.const(8, "index"),), id=0, kind="output")
    gated = UOp("WHERE", (i < 4, i % 4, UOp("INVALID", (), "index")))
    found, answer = about("why_pull.whole", gated)
    assert found.fires and answer.fires and answer.inside.startswith("given(…) of why_pull.gated (")
    assert answer.made == "BOUNDED(%1, 0, 3)"
    outside = next(one for one in found.answers if not one.inside)
    assert not outside.fires and "is false" in outside.message


def test_at_a_node_takes_in_what_was_rewritten_for_it() -> None:
    one, two = UOp("ABS", (-var(0),)), UOp("ABS", (var(1),))
    root = one - two
    assert about("why_signs.twice", root, one)[0].fires
    assert not about("why_signs.twice", root, two)[0].fires
    assert explain("why_signs.twice", root, at=var(0), pass_name="why_pull").status == "not tried"


def test_nothing_asked_for_it() -> None:
    found = explain("why_signs.twice", var(0) + 5, pass_name="why_pull")
    assert found.status == "not tried"
    assert "it is tried inside only, in `rewritten(…, why_signs)`, and nothing asked for that" in found.summary


def test_an_error_inside() -> None:
    found, answer = about("why_signs.grow", UOp("EXP2", (var(0, "float32"),)))
    assert any("did not end" in note for note in found.notes)
    assert answer.fires and answer.inside.startswith("rewritten(…, why_signs) of why_pull.long (")


# ---- searches ----


def test_the_candidate_that_was_taken() -> None:
    found, answer = about("why_choose.other", -var(9) * var(9), name="why_choose")
    assert found.fires and answer.step == 1
    costs = "its candidate costs 10, the graph 20; 1 other costs no less"
    assert answer.message == f"it fires at step 1 and gives NEG(NEG(BUFFER[id=4, shape=()])): {costs}"


def test_a_candidate_beside_the_taken_one() -> None:
    found, answer = about("why_choose.less", -var(9) * var(9), name="why_choose")
    assert not found.fires and not answer.fires
    assert (
        "but its candidate costs 18, the graph 20, and the one that was taken, by why_choose.other (" in answer.message
    )
    assert answer.message.endswith("at %0 = BUFFER[id=9, shape=()], 10")


def test_candidates_that_cost_more_or_nothing() -> None:
    _, answer = about("why_choose.more", -var(4), name="why_choose")
    assert answer.message.endswith("but its candidate costs 6, the graph 5")
    _, answer = about("why_choose.lost", -var(4), name="why_choose")
    assert answer.message.endswith("but its candidate has no cost, so it was dropped")


def test_the_first_false_clause_of_an_action() -> None:
    _, answer = about("why_choose.guarded", var(6) + var(7), name="why_choose")
    assert answer.message.startswith("`k == 2` is false") and answer.names["k"] == "6"
    found, _ = about("why_choose.guarded", var(6) + var(2), name="why_choose")
    assert found.fires


def test_what_normalises_candidates() -> None:
    found, answer = about("why_signs.twice", -var(9), name="why_choose")
    assert found.fires and answer.inside.startswith("the candidate of why_choose.other (")
    assert answer.message == "it fires at step 1 and gives BUFFER[id=4, shape=()]"


def test_the_tool_tells_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.txt"
    path.write_text(str(UOp("ABS", (-var(0),))), encoding="utf-8")
    assert why.main(["why_signs.twice", "--pass", "why_pull", "--graph", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answers"][0]["inside"].startswith("rewritten(…, why_signs) of why_pull.pull (")
