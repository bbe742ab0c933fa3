"""The toy accelerator climbs the whole ladder; and what `check-backend` says of copies of it in which something is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulegrad.workbench.tools.check_backend import main

TOY = Path(__file__).parents[2] / "examples" / "toy_accelerator"
Climb = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def climb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Climb:
    """`climb(to, (file, old, new), …)`: the rungs of a copy of the toy in which texts are replaced."""

    def run(to: str, *changes: tuple[str, str, str]) -> dict[str, dict[str, Any]]:
        folder = tmp_path / TOY.name
        shutil.copytree(TOY, folder, dirs_exist_ok=True)
        for name, old, new in changes:
            text = (folder / name).read_text(encoding="utf-8")
            assert old in text
            (folder / name).write_text(text.replace(old, new), encoding="utf-8")
        main([str(folder), "--json", "--to", to])
        return {rung["rung"]: rung for rung in json.loads(capsys.readouterr().out)["rungs"]}

    return run


RULES, DEVICE, MACHINE = "toy_accelerator.rules", "device.py", "machine.py"


def problems(rung: dict[str, Any]) -> dict[str, str]:
    """Problems and remedies, by subject."""
    return {f["about"]: f"{f['problem']} -> {f['hint']}" for f in rung["findings"]}


def test_the_toy_climbs_the_whole_ladder(climb: Climb) -> None:
    rungs = climb("suite")
    assert {name: problems(rung) for name, rung in rungs.items()} == {name: {} for name in rungs}
    assert [rung["status"] for rung in rungs.values()] == ["passed"] * 7
    assert rungs["ops"]["tried"] > 800 and rungs["suite"]["tried"] >= 20


def test_lines_of_rules_and_runtime() -> None:
    """A new device is about 150 lines; the machine stands for hardware and is not counted."""
    assert sum(len((TOY / name).read_text(encoding="utf-8").splitlines()) for name in (RULES, DEVICE)) <= 160


def test_what_a_target_must_declare(climb: Climb) -> None:
    rungs = climb(
        "copy",
        (RULES, 'float64 "f64"', 'index "s64"'),
        (RULES, '    param    "{type} {name}"\n', ""),
        (RULES, "    limit    bandwidth 500, rate 2, launch 50000\n", ""),
    )
    found = [f["problem"] for f in rungs["load"]["findings"]]
    assert found == ["it has no template `param`", "float64 has no `type`"]
    assert any("bandwidth" in note for note in rungs["load"]["notes"])
    assert rungs["copy"]["status"] == "skipped"


@pytest.mark.long_run
def test_what_a_device_must_have(climb: Climb) -> None:
    rungs = climb("load", (DEVICE, "    def synchronize(", "    def wait("), (DEVICE, "    memory = 1 << 30\n", ""))
    assert [f["problem"] for f in rungs["load"]["findings"]] == [
        "it has no `memory` of type int",
        "it has no method `synchronize`",
    ]


def test_a_module_and_rules_that_cannot_be_read(climb: Climb) -> None:
    rungs = climb("load", (DEVICE, "import time\n", "import tyme\n"))
    assert "ModuleNotFoundError: No module named 'tyme'" in problems(rungs["load"])["device.py"]
    rungs = climb("load", (RULES, "    has      NEG", "    has      NEGG"))
    assert "NEGG" in problems(rungs["load"])["rules"]


@pytest.mark.long_run
def test_memory_that_is_not_kept(climb: Climb) -> None:
    rungs = climb("add", (DEVICE, "handle[: array.nbytes] = array.reshape(-1).view(np.uint8)", "pass"))
    assert "came back changed" in problems(rungs["copy"])["copies of int8"]
    assert rungs["add"]["skipped"] == "copy did not pass"


@pytest.mark.long_run
def test_a_render_rule_that_is_missing(climb: Climb) -> None:
    rungs = climb("add", (RULES, '    store: STORE(p, v) -> stmt "store {p}, {v}"\n        essential\n', ""))
    found = problems(rungs["add"])
    assert "pass render_toy has no rule for STORE" in found["add float32 (3,)"]


def test_ops_are_named_with_what_gives_them_their_text(climb: Climb) -> None:
    rungs = climb(
        "ops",
        (RULES, "NEG NOT SQRT", "NEG NOT"),
        (MACHINE, '"FMOD": np.fmod, ', ""),
        (MACHINE, '"NEG": np.negative', '"NEG": np.abs'),
    )
    found = problems(rungs["ops"])
    assert "`has SQRT`" in found["SQRT on float32"]
    assert "KeyError: 'FMOD'" in found["FMOD on float64"] and "of its source: FMOD.f64" in found["FMOD on float64"]
    assert "render_toy.binary" in found["FMOD on float64"]
    assert (
        found["NEG on float32"].startswith("NEG(0.0) is 0.0, not -0.0")
        and "render_toy.unary" in found["NEG on float32"]
    )
    assert not {about.split()[0] for about in found} & {"ADD", "MUL", "WHERE", "CAST"}


def test_a_device_that_ends_the_process(climb: Climb) -> None:
    rungs = climb("reduce", (DEVICE, "        start = time.perf_counter()\n", "        import os; os.abort()\n"))
    assert "the process ended with SIGABRT" in problems(rungs["add"])["add"]
    assert rungs["reduce"]["skipped"] == "add ended the process"


#: Wrong machines and rules, in one copy of the toy, and what is said of each.
_WRONG = {
    "a matrix instruction that leaves a step of the depth out": (
        (MACHINE, 'np.einsum("ikw,kjw->ijw", a, b)', 'np.einsum("ikw,kjw->ijw", a[:, :3], b[:3])'),
    ),
    "halves that are rounded towards zero": (
        (RULES, "uint64 float32 float64\n    type     bool", "uint64 float16 float32 float64\n    type     bool"),
        (RULES, 'float16 "u16", bfloat16', 'float16 "f16", bfloat16'),
        (MACHINE, '"f32": "float32"', '"f16": "float16", "f32": "float32"'),
        (
            MACHINE,
            "def divide(",
            "def towards_zero(x):\n    y = x.astype('float16')\n"
            "    return np.where(abs(y.astype(float)) > abs(x), np.nextafter(y, np.float16(0)), y)\n\n\ndef divide(",
        ),
        (MACHINE, "lambda x: x.astype(dtype)", "lambda x: towards_zero(x) if dtype == 'float16' else x.astype(dtype)"),
    ),
    "a division that rounds down": ((MACHINE, "return quotient + (", "return quotient + 0 * ("),),
    "running reductions that begin with 0": (
        (
            RULES,
            "pass toy_instructions rewrite walk:",
            """ruleset updates:
    running[f: Reduction]: n@SCAN[op=f](x, r, _...) -> LOAD(AFTER(acc, STORE(acc, f(LOAD(AFTER(acc, start, r)), x))))
        let acc = BUFFER[id={slot(n, "accumulator")}, shape=(), dtype=dtype(n), space="register"]()
        let start = STORE(AFTER(acc, (q for q in ranges(n) if q != r)...), CONST[dtype(n)](0))
        essential
pass toy_instructions rewrite walk:""",
        ),
    ),
    "indices that are clamped in silence": (
        (
            RULES,
            "ruleset updates:",
            """ruleset inside:
    clamped: INSIDE(i, n) -> min(max(i, 0), n - 1)
        needs has(MULTIPLY_TILES)
ruleset updates:""",
        ),
    ),
}


@pytest.mark.long_run
def test_wrong_machines_are_named(climb: Climb) -> None:
    """Each is wrong in a way that sums and maps do not show."""
    rungs = climb("suite", *(change for changes in _WRONG.values() for change in changes))
    assert [name for name in ("load", "copy", "add", "reduce") if rungs[name]["status"] != "passed"] == []
    products, ops, suite = (problems(rungs[name]) for name in ("matmul", "ops", "suite"))
    assert "matmul float32 4x4x4" in products and "left transposed float32 13x7x13" in products
    assert {"CAST on float32 to float16", "TRUNCDIV on int32"} <= ops.keys()
    assert not {about for about in ops if about.startswith(("ADD", "MUL on", "WHERE"))}
    assert {"running extremes", "running products", "an index out of range is told of"} <= suite.keys()


def test_products_are_made_by_the_matrix_instruction_and_sums_by_multiply_add() -> None:
    code = (
        "import rulegrad as rg; from rulegrad.compile import compile_graph; from rulegrad.runtime import devices\n"
        "devices.get('toy_accelerator'); x = rg.Tensor.ones(7, 9, device='toy_accelerator').contiguous().realize()\n"
        "print(*(k.source for k in compile_graph([(x @ x.T).uop], 'toy_accelerator')))\n"
        "print(*(k.source for k in compile_graph([(x * 3 + x).uop], 'toy_accelerator')))\n"
        "print((x @ x.T)[6].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "RULEGRAD_BACKENDS": str(TOY), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "mma.f32 acc0" in done.stdout and "MULACC.f32" in done.stdout
    assert done.stdout.strip().endswith(str([9.0] * 7))


def test_a_backend_with_ops_is_named_before_the_program_starts() -> None:
    code = (
        "import rulegrad as rg; rg.load_backend("
        + repr(str(TOY))
        + "); rg.Tensor([1.0], device='toy_accelerator').numpy()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "declares ops" in done.stderr and f"RULEGRAD_BACKENDS={TOY}" in done.stderr


def test_a_folder_whose_ops_are_in_force_already(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its files are not declared a second time, however they are called."""
    monkeypatch.setenv("RULEGRAD_BACKENDS", str(TOY.parent))
    assert main([str(TOY), "--to", "load"]) == 0, capfd.readouterr().out
