"""A trace as text."""

from __future__ import annotations

import re

from rulegrad.workbench.tracing import Selection, Trace


def test_a_small_trace(small: Trace) -> None:
    text = re.sub(r"\d+\.\d+ ms", "TIME", re.sub(r"\.rules:\d+", ".rules:LINE", small.text("a title")))
    assert text == (
        "1 pass, 2 firings, 0 kernels: a title\n"
        "\n"
        "passes\n"
        "  symbolic       2 firings, 6 -> 2 nodes, TIME\n"
        "    #1 algebra.zero  rules/kernel/algebra.rules:LINE\n"
        "        # x + 0 == x; x | 0 == x; x ^ 0 == x\n"
        "        zero[f: {ADD, XOR, OR}, T: IntBool]: f(x:T, 0) -> x\n"
        '        %1 = RANGE[id=0, kind="output", path=()]:index(4)\n'
        "      - %2 = CONST[value=0]:index()\n"
        "      - %3 = ADD:index(%1, 0)\n"
        "      %3 -> %1\n"
        "    #2 algebra.one  rules/kernel/algebra.rules:LINE\n"
        "        # x * 1 == x; x / 1 == x; x ** 1 == x\n"
        "        one[f: {MUL, DIV, FLOORDIV, TRUNCDIV, POW}]: f(x, 1) -> x\n"
        '        %1 = RANGE[id=0, kind="output", path=()]:index(4)\n'
        "      - %4 = CONST[value=1]:index()\n"
        "      - %6 = MUL:index(%1, 1)\n"
        "      %6 -> %1"
    )


def test_kernels_have_their_line_and_source(kernels: Trace) -> None:
    text = kernels.text()
    for one in kernels.kernels:
        assert one.line is not None
        assert f"kernel {one.kernel.name}  " in text and f"source of {one.kernel.name}" in text
        assert f"traces.py:{one.line[1]}  " in text
    assert "get_global_id(0)" in text and "hidden = (x @ x).relu().contiguous()" in text


def test_a_selection_has_no_sources(kernels: Trace) -> None:
    text = kernels.text(selection=Selection(pass_name="indexing", limit=3))
    assert "source of" not in text and len(re.findall(r"^    #\d", text, re.MULTILINE)) == 3


def test_colors(small: Trace) -> None:
    colored = small.text(colored=True)
    assert "\x1b[31m      - %2 = CONST" in colored and "\x1b[1malgebra.zero\x1b[0m" in colored
    assert re.sub(r"\x1b\[\d*m", "", colored) == small.text()


def test_long_differences_are_cut(kernels: Trace) -> None:
    for line in kernels.text().split("\n"):
        assert line.count("%") < 200
    assert "or more below these" in kernels.text()
