"""CHECK=1 and CHECK=2: a pass that leaves a wrong graph is reported, with the rule that made it so."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulegrad import Tensor, config
from rulegrad.errors import RewriteError

WRONG = """ruleset algebra:
    harmless: x:float32 * 7 -> x * 6 + x
        test x:float32 * 7 -> x * 6 + x
    # wrong on purpose
    planted: x:float32 * 3 -> x * 4
        test x:float32 * 3 -> x * 4
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.rules"
    path.write_text(WRONG, encoding="utf-8")
    return path


def tripled() -> list[float]:
    found: list[float] = (Tensor([1.0, 2.0], device="numpy") * 7 + Tensor([3.0, 5.0], device="numpy") * 3).tolist()
    return found


@pytest.mark.parametrize("level", [0, 1, 2])
def test_right_rules_pass(level: int) -> None:
    with config(check=level):
        assert tripled() == [16.0, 29.0]


def test_a_wrong_rule_is_named(wrong: Path) -> None:
    with config(rules=[wrong]):
        assert tripled() == [19.0, 34.0]
    with config(rules=[wrong], check=2), pytest.raises(RewriteError) as caught:
        tripled()
    message = str(caught.value)
    assert "pass symbolic changes what the kernel computes" in message
    assert f"rule algebra.planted ({wrong}:5) is wrong on" in message and "harmless" not in message
    assert "CONST[value=3.0]" in message and "CONST[value=4.0]" in message


def test_a_wrong_shape_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shape.rules"
    path.write_text(
        "pass flattened rewrite walk:\n"
        "    flat: NEG(x:float32) -> RESHAPE[shape=(product_of(shape(x)),)](x)\n"
        "        test fails x:float32[2, 2]\n"
        "def product_of(s) = prod(s)\n"
        "insert flattened before indexing in kernel\n",
        encoding="utf-8",
    )
    x = Tensor([[1.0, 2.0]], device="numpy")
    with (
        config(rules=[path], check=1),
        pytest.raises(RewriteError, match=r"flattened\.flat \(.*shape\.rules:2\).*shape"),
    ):
        (-x).tolist()


def test_passes_of_the_schedule_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "early.rules"
    path.write_text(
        "pass early rewrite walk:\n"
        "    read: NEG(x:float32) -> MULACC(x, x, x)\n"
        "        test fails x:float32\n"
        "insert early before stage in schedule\n",
        encoding="utf-8",
    )
    with config(rules=[path], check=1), pytest.raises(RewriteError, match=r"pass early leaves a graph .*early\.read"):
        (-Tensor([1.0, 2.0], device="numpy")).tolist()


def test_a_graph_that_does_not_fit_its_stage_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "stage.rules"
    path.write_text(
        "pass staged rewrite walk:\n"
        "    kept: NEG(x:float32) -> DETACH(x)\n"
        "        test fails x:float32\n"
        "insert staged after loads in kernel\n",
        encoding="utf-8",
    )
    with config(rules=[path], check=1), pytest.raises(RewriteError, match=r"pass staged leaves a graph .*staged\.kept"):
        (-Tensor([1.0, 2.0], device="numpy")).tolist()
