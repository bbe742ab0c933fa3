"""CHECK=1 and CHECK=2: a pass that leaves a wrong graph is reported, with the rule that made it so."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulegrad import Tensor, config
from rulegrad.compile import compile_graph, forget_kernels
from rulegrad.errors import RewriteError
from rulegrad.interpreter import statements
from rulegrad.ir import UOp
from rulegrad.workbench.diagnosis import checking, meaning

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


def test_complex_numbers_are_pairs_in_memory() -> None:
    """Of a parameter that a pass gives twice as many floats, and of what is stored."""
    with config(check=2):
        x = Tensor([[1 + 2j, 3j], [0.5, -1j]], device="numpy")
        assert (x * x + 1).tolist() == [[-2 + 4j, -8], [1.25, 0]]
        assert (x @ x[:, 1:]).tolist() == [[-3 + 3j], [-1 + 1.5j]]


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
        "insert early before materialize in schedule\n",
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
        "insert staged after insert_loads in kernel\n",
        encoding="utf-8",
    )
    with config(rules=[path], check=1), pytest.raises(RewriteError, match=r"pass staged leaves a graph .*staged\.kept"):
        (-Tensor([1.0, 2.0], device="numpy")).tolist()


def products() -> UOp:
    """A graph of two kernels: a product of matrices, and what is made of its rows."""
    a, b = (Tensor([[float(i * k % 5) for i in range(6)] for k in range(8)], device="numpy") + n for n in range(2))
    return ((a @ b.T).relu().contiguous().sum(1) * 3).uop


# A pass of one wrong rule, and where it goes in; what is said of it.
WRONG_PASSES = {
    "the graph of everything": (
        "    bad: n@EXPAND(x:float32) -> EXPAND[..n](x * 2)\ninsert wrong before materialize in schedule",
        r"pass wrong changes what the graph computes, at its firing 1: rule wrong\.bad",
    ),
    "stores to buffers": (
        "    bad: STORE(b@BUFFER(), v) -> STORE(b, v + v)\ninsert wrong after form_kernels in schedule",
        r"pass wrong changes what the graph computes, at its firing 1: rule wrong\.bad",
    ),
    "loops and flat addresses": (
        "    bad: INDEX(p@PARAM(), i) -> INDEX(p, i ^ 1)\ninsert wrong after launch in program",
        r"pass wrong changes what the kernel computes, at its firing 1: rule wrong\.bad",
    ),
    "registers": (
        "    bad: STORE(AFTER(r@BUFFER(), xs...), c:const) -> STORE(AFTER(r, xs...), {c + 1})\n"
        "insert wrong after accumulate in program",
        r"pass wrong changes what the kernel computes, at its firing 1: rule wrong\.bad",
    ),
    "machine types": (
        "    bad: SPECIAL[axis=a](n) -> CONST[int32](0)\ninsert wrong after spelling in program",
        r"pass wrong changes what the kernel computes, at its firing 1: rule wrong\.bad",
    ),
}


@pytest.mark.parametrize(("rule", "said"), WRONG_PASSES.values(), ids=WRONG_PASSES.keys())
def test_every_stage_is_compared(rule: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.rules"
    path.write_text(f"pass wrong rewrite walk:\n{rule}\n", encoding="utf-8")
    forget_kernels()
    with config(check=2):
        compile_graph([products()])
        with config(rules=[path]), pytest.raises(RewriteError, match=said):
            compile_graph([products()])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            "pass number_buffers collect:\n    of_buffer: b@BUFFER() -> PARAM[slot=0, shape=shape(b), dtype=dtype(b)]()",
            "number_buffers",
        ),
        ("pass isolate_kernels rewrite parents_first:\n    after: AFTER(b, _...) -> -b", "isolate_kernels"),
    ],
)
def test_what_makes_kernels_of_a_graph_is_compared(rule: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.rules"
    path.write_text(rule + "\n", encoding="utf-8")
    with config(rules=[path], check=2), pytest.raises(RewriteError, match=f"pass {said}|passes? .*{said}"):
        compile_graph([products()])


def test_a_case_of_a_function_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.rules"
    path.write_text(
        "use schedule/materialized: materialized\nfunction materialized(x):\n    value: materialized(n@_) -> MATERIALIZE(-n)\n        fallback\n",
        encoding="utf-8",
    )
    x = Tensor([float(k % 5) for k in range(4000)], device="numpy")
    with config(rules=[path], check=2), pytest.raises(RewriteError) as caught:
        compile_graph([(x * x.sum()).uop])
    message = str(caught.value)
    assert "pass materialize changes what the graph computes" in message and "rule materialize." in message
    assert f"materialized.value ({path}:3)" in message


def test_what_is_not_compared_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(statements, "MOST_STEPS", 3)
    monkeypatch.setattr(checking, "_told", set())
    with config(check=2):
        compile_graph([products()])
        forget_kernels()
        compile_graph([products()])
    told = [line for line in capsys.readouterr().err.splitlines() if "does not compare pass accumulate: " in line]
    assert len(told) == 1 and "too many to run one by one" in told[0]


def test_meanings_of_graphs_that_cannot_be_run() -> None:
    x = UOp("PARAM", (), "float32", slot=0, shape=())
    with pytest.raises(meaning.NotComparableError, match="must be an INDEX"):
        meaning.meaning(UOp("LOAD", (x,)), [])
    with pytest.raises(meaning.NotComparableError, match="nothing is stored"):
        meaning.meaning(UOp("SINK", (UOp("BARRIER"),)), [])
