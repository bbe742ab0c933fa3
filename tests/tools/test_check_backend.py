"""`check-backend`: what it says of backends that keep the contract, and of those where one thing is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad import engine
from rulegrad.runtime import devices
from rulegrad.workbench.conformance import programs
from rulegrad.workbench.conformance.ladder import Ladder
from rulegrad.workbench.conformance.programs import LAYOUTS
from rulegrad.workbench.conformance.spelling import Spellings, quoted_line
from rulegrad.workbench.conformance.values import differs, operands
from rulegrad.workbench.tools.check_backend import main


def climbed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, dict]]:
    """The exit status, and the rungs by name."""
    status = main([*arguments, "--json"])
    return status, {rung["rung"]: rung for rung in json.loads(capsys.readouterr().out)["rungs"]}


def test_the_interpreter_climbs_the_whole_ladder(capsys: pytest.CaptureFixture[str]) -> None:
    status, rungs = climbed(capsys, "numpy")
    assert status == 0
    assert [rung["status"] for rung in rungs.values()] == ["passed"] * 7
    assert list(rungs) == ["load", "copy", "add", "reduce", "matmul", "ops", "suite"]
    assert rungs["ops"]["tried"] > 800


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([str(tmp_path / "nothing")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_folder_without_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, rungs = climbed(capsys, str(tmp_path))
    assert status == 1
    assert [f["problem"] for f in rungs["load"]["findings"]] == [
        "it has no device.py",
        f"it has no {tmp_path.name}.rules",
    ]
    assert rungs["copy"]["skipped"] == "load did not pass"


# A function of 4x4 matrices that stands for an instruction; bfloat16 are held as bits. `{step}` adds a product to a sum.
_INSTRUCTION = """target c:
    has MATRIX_MULACC
    row matrix_instructions "multiply_4x4x4" 4 4 4 {dtype} {sums} 1 (1, 2, 4, 8) (1, 2, 4, 8) (1, 2, 4, 8) (2, 2) (1, 1) 0
        "static float widened(unsigned short a) {{ unsigned u = (unsigned)a << 16; float f; __builtin_memcpy(&f, &u, 4); return f; }}\\nstatic void multiply_4x4x4({c_sums}* c, const {c_dtype}* left, const {c_dtype}* right) {{\\n  for (int i = 0; i < 16; i++)\\n    for (int k = 0; k < 4; k++) {{\\n      {c_dtype} a = left[i / 4 * 4 + k], b = right[i % 4 + 4 * k];\\n      {step};\\n    }}\\n}}"
"""
_DTYPES = {"bfloat16": ("float32", "float", "unsigned short"), "int8": ("int32", "int", "signed char")}
# The step of an instruction, and the program that shows that it is wrong.
_STEPS = {
    "right": ("bfloat16", "c[i] += widened(a) * widened(b)", ""),
    "a step less": ("bfloat16", "c[i] += k < 3 ? widened(a) * widened(b) : 0", "matmul"),
    "products in bfloat16": (
        "bfloat16",
        "float p = widened(a) * widened(b); unsigned short q[2]; __builtin_memcpy(q, &p, 4); c[i] += widened(q[1])",
        "digits of bfloat16 products",
    ),
    "a digit less": ("bfloat16", "c[i] += widened(a & 0xfffe) * widened(b)", "digits of bfloat16 products"),
    "nan is 0": (
        "bfloat16",
        "float p = widened(a) * widened(b); c[i] += p == p ? p : 0",
        "nan and infinity of bfloat16",
    ),
    "right for int8": ("int8", "c[i] += a * b", ""),
    "seven bits": ("int8", "c[i] += (a < -64 ? -64 : a) * b", "digits of int8 products"),
    "sums of 16 bits": ("int8", "c[i] = (short)(c[i] + a * b)", "digits of int8 products"),
}
_STEPS_OF_THE_SHORT_RUN = ("right", "a step less", "right for int8", "seven bits")


@pytest.mark.parametrize(
    ("dtype", "step", "shown"),
    [
        pytest.param(*values, id=name, marks=[] if name in _STEPS_OF_THE_SHORT_RUN else pytest.mark.long_run)
        for name, values in _STEPS.items()
    ],
)
def test_products_of_each_dtype_that_has_an_instruction(
    dtype: str,
    step: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a processor with AMX has instructions of its own
    monkeypatch.setitem(devices._open, "c", type(devices.get("c"))(0, target="c"))
    for others in ("reducing", "multiplying"):  # which all dtypes have
        monkeypatch.setattr(programs, others, lambda _: ())
    if shown.startswith(("digits", "nan")):
        monkeypatch.setattr(programs, "LAYOUTS", {})
    path = tmp_path / "instruction.rules"
    sums, c_sums, c_dtype = _DTYPES[dtype]
    path.write_text(
        _INSTRUCTION.format(step=step, dtype=dtype, sums=sums, c_sums=c_sums, c_dtype=c_dtype), encoding="utf-8"
    )
    with engine.load_rules(path):
        rung = Ladder("c").climb("matmul")[-1]
    found = {finding.about for finding in rung.findings}
    if shown == "matmul":
        assert found >= {f"{name} {dtype} 8x4x8" for name in LAYOUTS}
    else:
        assert found == ({shown} if shown else set())
    assert rung.tried == 2 * len(programs.LAYOUTS) + (3 if dtype == "bfloat16" else 2)


def test_operands_have_every_pair_of_special_values() -> None:
    a, b = operands(["int8", "int8"], 2048)
    assert {(-128, -128), (-128, 0), (127, -1), (0, 127)} <= set(zip(a.tolist(), b.tolist(), strict=True))
    assert len(a) == len(b) == 2048


def test_differences() -> None:
    import numpy as np

    zeros = np.array([0.0, -0.0], np.float32)
    assert differs(zeros, zeros[::-1], "float32", 0).all()
    assert not differs(zeros, zeros[::-1], "float32", 0, either_zero=True).any()
    nan, one = np.array([np.nan], np.float32), np.array([1.0], np.float32)
    assert not differs(nan, nan, "float32", 0).any()
    assert differs(nan, one, "float32", 4).all() and differs(one, nan, "float32", 4).all()
    assert differs(np.array([3]), np.array([4]), "int64", 4).all()


def test_the_line_that_a_compiler_complains_about() -> None:
    source = "kernel {\n  float x = a + b;\n  y = exq(x);\n}\n"
    assert quoted_line("k.c(3): error: exq is unknown", source) == (3, "  y = exq(x);")
    assert quoted_line("error in `float x = a + b;`", source) == (2, "  float x = a + b;")
    assert quoted_line("something is wrong", source) == (0, "")


def test_what_gives_an_op_its_text() -> None:
    spellings = Spellings(engine.loaded().sources.files, engine.target_declaration("opencl"))
    assert spellings.of("BITCAST").startswith("rendered by render_opencl.bits (backends/opencl/render.rules:")
    assert spellings.of("ADD").startswith("spelled by the op table (rules/ops/ops.rules:")
    assert "does not have MAX" in spellings.of("MAX")
    assert "c_style.write_if" in spellings.of_line("  if (alu0 < 3) data0[alu0] = value0;", "STORE")
    assert "`has EXP`" in spellings.hint_for("it is left in the program, and the target does not have it", "EXP")
