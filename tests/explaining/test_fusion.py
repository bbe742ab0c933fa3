"""`why --fusion`: which rule stores a value, what the others compared, and the values of both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad import UOp, engine, load_rules
from rulegrad.__main__ import main
from rulegrad.errors import RewriteError, RuleError
from rulegrad.workbench.explaining.conditions import Condition
from rulegrad.workbench.explaining.fusion import explain_fusion


def parameter(slot: int, *shape: int) -> UOp:
    return UOp("PARAM", (), "float32", slot=slot, shape=shape)


def repeated_sine(columns: int) -> UOp:
    """%1 is the sine, which %2 repeats."""
    expanded = UOp("EXPAND", (UOp("SIN", (parameter(0, 4096, 1),)),), shape=(4096, columns))
    return UOp("SINK", (expanded * parameter(1, 4096, columns),))


def compared(conditions: tuple[Condition, ...]) -> Condition:
    found = next(condition for condition in conditions if condition.left)
    assert found.left is not None and found.right is not None
    assert (
        found.holds
        == {">": found.left.value > found.right.value, "<": found.left.value < found.right.value}[found.operator]
    )
    return found


@pytest.mark.parametrize(("columns", "stored"), [(4096, True), (2, False)])
def test_a_value_that_is_repeated(columns: int, stored: bool) -> None:
    graph = repeated_sine(columns)
    found = explain_fusion(graph, "%1", "opencl")
    assert (found.stored, found.gone) == (stored, "")
    decision = found.decisions[0]
    assert (decision.rule, decision.pass_name, decision.stores) == ("materialize.repeated", "materialize", stored)
    assert decision.at.startswith("%2 = EXPAND")
    condition = compared(decision.conditions)
    assert condition.text.startswith("cheaper_materialized(to_materialize(x)") and condition.holds == stored
    # what the rule file's own functions say of the node
    rules, node = engine.program("opencl"), graph.toposort()[1]
    work = rules.call("operation_cost", node)
    limits = engine.target_declaration("opencl").limits
    hidden = 4096 * columns * 32 * 125 // limits["bandwidth"]
    reads = 4096 * columns * 1000 // limits["rate"]
    assert condition.left is not None
    assert condition.left.value == max(work * max(0, columns // 8 - 1), work * (columns - 1) - hidden) - reads


def test_the_launch_of_the_target_is_in_the_costs(tmp_path: Path) -> None:
    cheap = tmp_path / "cheap.rules"
    cheap.write_text("target opencl:\n    limit launch 1\n", encoding="utf-8")
    before = compared(explain_fusion(repeated_sine(4), 1, "opencl").decisions[0].conditions).right
    launch = engine.target_declaration("opencl").limits["launch"]
    with load_rules(cheap):
        after = compared(explain_fusion(repeated_sine(4), 1, "opencl").decisions[0].conditions).right
    assert before is not None and after is not None and before.value - after.value == launch - 1


def test_a_result_and_a_view() -> None:
    graph = repeated_sine(2)
    result = explain_fusion(graph, 4, "opencl")
    assert result.stored and [decision.rule for decision in result.decisions if decision.stores] == [
        "materialize.result"
    ]
    view = explain_fusion(graph, 2, "opencl")
    assert not view.stored and not view.decisions
    assert "no rule that stores values compared costs of it" in str(view)


def test_a_sum_that_is_split() -> None:
    found = explain_fusion(UOp("REDUCE", (parameter(0, 4_000_000),), op="ADD", axes=(0,)), 1, "opencl")
    decision = next(decision for decision in found.decisions if decision.rule == "materialize.split")
    assert decision.part and compared(decision.conditions[2:]).holds
    assert "parts of it are stored by materialize.split" in str(found)


def test_a_value_that_two_loops_compute() -> None:
    x = UOp("SIN", (UOp("EXP", (parameter(0, 64, 32),)),))
    sums = [UOp("REDUCE", (x,), op="ADD", axes=(axis,)) for axis in (0, 1)]
    found = explain_fusion(UOp("SINK", tuple(sums)), x, "opencl")
    decision = next(
        decision for decision in found.decisions if decision.rule == "materialize_shared.materialize_repeated"
    )
    assert decision.stores == found.stored
    assert any("len(computed_in(n))" in str(condition) for condition in decision.conditions)


def test_questions_that_cannot_be_answered() -> None:
    with pytest.raises(RewriteError, match="no node is called %99; .* from %0 to %5"):
        explain_fusion(repeated_sine(4), "%99", "opencl")
    with pytest.raises(RewriteError, match="the node that is asked about is not in the graph"):
        explain_fusion(repeated_sine(4), parameter(7, 3), "opencl")
    with pytest.raises(RuleError, match="no target is called `vulkan`"):
        explain_fusion(repeated_sine(4), 1, "vulkan")


def test_the_tool_on_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.txt"
    path.write_text(str(repeated_sine(4096)), encoding="utf-8")
    assert main(["why", "--fusion", "%1", "--graph", str(path), "--target", "opencl"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "%1 = SIN(%0) is kept in memory, for target opencl\n  stored by materialize.repeated (rules/"
    )
    assert '> limit("launch") + 2 * transfer_cost(n) = ' in printed
    assert printed.endswith("  costs are in nanoseconds, by the target's numbers\n")
    assert main(["why", "--fusion", "%2", "--graph", str(path), "--target", "opencl", "--json"]) == 1
    assert [one["stored"] for one in json.loads(capsys.readouterr().out)] == [False]
    assert main(["why", "--fusion", "%77", "--graph", str(path), "--target", "opencl"]) == 2
    assert "no node is called %77" in capsys.readouterr().err


def test_the_tool_on_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom rulegrad import Tensor\nx = Tensor([1.0, 2.0], device='numpy')\n"
        "(x.exp() * float(sys.argv[1])).realize()\n",
        encoding="utf-8",
    )
    assert main(["why", "--fusion=1", "--show", str(script), "3"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("%1 = EXP(%0) is computed where it is used, for target numpy\n")
    assert "%1 = EXP:float32(%0)\n" in printed
    script.write_text("print('nothing')\n", encoding="utf-8")
    assert main(["why", "--fusion", "1", str(script)]) == 2
    assert "the script computes no tensor" in capsys.readouterr().err


def test_a_rule_or_a_node_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["why", "--show"])
    assert "the following arguments are required: RULE" in capsys.readouterr().err
