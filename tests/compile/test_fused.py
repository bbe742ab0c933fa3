"""`DEBUG=2`: what each kernel of a schedule is made of, what it reads and writes, and which rule stored its results."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from rulegrad import Tensor, UOp, config
from rulegrad.compile import compile_graph
from rulegrad.compile.fused import Fused


def printed(capfd: pytest.CaptureFixture[str], make: Callable[[], list[Tensor]]) -> list[str]:
    """The schedule's lines at DEBUG=2, with the places of rules and the numbers of lines left out."""
    with config(debug=2):
        results = make()
        capfd.readouterr()
        Tensor.realize(*results)
    lines = [line for line in capfd.readouterr().err.splitlines() if line[:3] != "***" and " of them new" not in line]
    return [re.sub(r":\d+", "", line.removeprefix("    ")) for line in lines]


def given(*shape: int) -> Tensor:
    return Tensor.ones(*shape, device="numpy").contiguous().realize()


def test_one_kernel_with_two_stores(capfd: pytest.CaptureFixture[str]) -> None:
    a, b, c = given(8, 4), given(8, 4), given(8, 4)

    def make() -> list[Tensor]:
        first = a * b
        return [first + c, first.exp()]

    assert printed(capfd, make) == [
        "rulegrad: 1 kernel for numpy, which read and write 640 bytes",
        "1: reads 384 bytes of 3 buffers, writes 256 bytes by 2 stores, no reductions",
        "   test_fused.py: MUL",
        "   test_fused.py: ADD EXP",
        "   stored by materialize.result (rules/schedule/fusion.rules)",
    ]


def test_why_each_kernel_ends(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = given(64, 1), given(64, 4096)
    kept = x * 2

    def make() -> list[Tensor]:
        return [x.sin() * y, kept.contiguous()]

    lines = printed(capfd, make)
    stored = "; ".join(line for line in lines if line.startswith("   stored by "))
    for reason in (
        "contiguous()",
        "materialize.repeated (rules/schedule/fusion.rules)",
        "materialize.result (rules/schedule/fusion.rules)",
    ):
        assert reason in stored
    assert any(re.search(r": (MUL )?SIN( MUL)?$", line) for line in lines)


def test_reductions_and_kernels_that_read_what_others_stored(capfd: pytest.CaptureFixture[str]) -> None:
    x = given(64, 64)
    text = "\n".join(printed(capfd, lambda: [x.softmax(-1)]))
    assert "1: reads 16.4 kB of 1 buffer, writes 16.4 kB by 1 store, 2 reductions" in text
    assert "REDUCE[MAX]" in text and "REDUCE[ADD]" in text
    assert "made by rules" not in text  # an operation that is a part of the user's has the user's line


def test_nothing_is_printed_below_2(capfd: pytest.CaptureFixture[str]) -> None:
    with config(debug=1):
        compile_graph([(given(3) * 3).uop], "numpy")
    assert "reads" not in capfd.readouterr().err


def test_a_rule_is_known_until_the_value_is_a_buffer() -> None:
    x = UOp("PARAM", (), "float32", slot=0, shape=(4,))
    kept = UOp("MATERIALIZE", (x.replace(),))
    fused = Fused(UOp("SINK", (x,)))
    fused.passed([("set.rule", "file.rules:3", x, kept)], [])
    assert fused.kept == [kept]
    buffer = UOp("BUFFER", (), "float32", id=-1, shape=(4,))
    store = UOp("STORE", (buffer, x))
    fused.passed([], [UOp("AFTER", (buffer, store))])
    assert fused.text([store], {}, "numpy").endswith("stored by set.rule (file.rules:3)")
