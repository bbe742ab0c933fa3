"""A sample of the random programs of bench/fuzz.py; and that it finds what is wrong, and shows little else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from extents import KINDS, program
from fuzz import (
    SIZES,
    Expected,
    NotJudgedError,
    aliasing,
    build_captured,
    gradient_problem,
    judged_at_sizes,
    programs_of,
    report,
    verdict,
    verdicts,
)
from fuzz_programs import Program, Statement


@pytest.mark.parametrize(("device", "seed", "count"), [("numpy", 0, 60), ("c", 1000, 20), ("opencl:0", 2000, 4)])
def test_a_sample(device: str, seed: int, count: int) -> None:
    results = verdicts(programs_of(seed, count, aliasing()), device)
    assert len(results) > count // 2
    assert not [(program.seed, problem) for program, problem in results if problem]


def test_a_sample_of_captured_programs() -> None:
    """Each program is a captured function that ran on other values before."""
    results = verdicts(programs_of(3000, 60, aliasing()), "numpy", build_captured)
    assert len(results) > 30
    assert not [(program.seed, problem) for program, problem in results if problem]


def test_running_reductions_of_rows_whose_number_varies() -> None:
    """A plan for all sizes had one sum for all rows that a work-item goes along together, begun anew for each."""
    programs = programs_of(990019, 1, aliasing(), SIZES)
    assert not [problem for _, problem in judged_at_sizes(programs, "c") if problem]


@pytest.mark.parametrize("device", ["numpy", "c"])
def test_kernels_at_some_extents(device: str) -> None:
    """A sample of bench/extents.py: each kind at one extent, another one on each device."""
    programs = [program(kind, (2, 4, 7, 8, 17)[(k + len(device)) % 5], "float32", k) for k, kind in enumerate(KINDS)]
    assert not [(list(KINDS)[one.seed], problem) for one, problem in verdicts(programs, device) if problem]


def test_programs_follow_from_their_numbers() -> None:
    first, again = (programs_of(7, 3, False) for _ in range(2))
    assert [program.text("c") for program in first] == [program.text("c") for program in again]
    assert first[0].text("c") != first[1].text("c")
    compile(first[0].text("c"), "program", "exec")


def wrong_program() -> Program:
    """Four steps, of which the third is a tenth too large on devices."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    texts = [("v0 + v0", "v0 + v0"), ("np.exp(-v1)", "(-v1).exp()"), ("v2 * 2", "v2 * 2.2"), ("v3 - v0", "v3 - v0")]
    sources = [(0,), (1,), (2,), (3, 0)]
    statements = [
        Statement(number, given, *text, "float32", rounds=True)
        for number, (given, text) in enumerate(zip(sources, texts, strict=True), 1)
    ]
    return Program(0, [(0, x)], statements, [4])


def test_what_differs_is_found_and_made_smaller() -> None:
    program = wrong_program()
    problem = verdict(program, "numpy")
    assert problem.startswith("v4: ") and "differ" in problem
    text = report(program, "numpy", problem)
    assert "v3 = v2 * 2.2" in text and "exp" not in text and "v4" not in text.splitlines()[1:]
    assert verdict(replace(program, outputs=[2]).needed(), "numpy") == ""


def test_integers_must_be_equal() -> None:
    x = np.array([3, 2**62], np.int64)
    expected = Expected(Program(0, [(0, x)], [Statement(1, (0,), "v0 + 1", "v0 + 1", "int64")], [1]))
    assert expected.problem(1, x + 1) == ""
    assert expected.problem(1, x + 2).startswith("2 of 2 differ")
    assert "instead of int64" in expected.problem(1, (x + 1).astype(np.int32))


def test_a_wrong_gradient_is_found() -> None:
    x = np.array([0.5, 1.5])
    program = Program(0, [(0, x)], [Statement(1, (0,), "v0 * v0", "v0 * v0", "float64", True)], [1], with_gradient=True)
    expected = Expected(program)
    assert gradient_problem(program, expected, {0: 2 * x}) == ""
    assert gradient_problem(program, expected, {0: 2.1 * x}).startswith("the gradient along a direction is ")


def test_a_gradient_that_is_too_large_for_its_dtype_is_not_judged() -> None:
    x = np.array([101.8, 0.5], np.float32)
    step = Statement(1, (0,), "np.exp(v0)", "v0.exp()", "float32", True)
    program = Program(0, [(0, x)], [step], [1], with_gradient=True)
    with np.errstate(over="ignore"):
        assert gradient_problem(program, Expected(program), {0: np.exp(x)}) == ""
    smaller = Program(0, [(0, x / 2)], [step], [1], with_gradient=True)
    assert gradient_problem(smaller, Expected(smaller), {0: np.exp(x / 2)}) == ""
    assert gradient_problem(smaller, Expected(smaller), {0: 2 * np.exp(x / 2)}) != ""


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_kernels_of_integers(dtype: str) -> None:
    """The dtypes of NumPy's results: sums of small integers are larger ones, attention and means are floats."""
    programs = [program(kind, (3, 8)[k % 2], dtype, k) for k, kind in enumerate(KINDS)]
    assert not [(list(KINDS)[one.seed], problem) for one, problem in verdicts(programs, "numpy") if problem]


def test_what_numpy_cannot_run_is_not_judged() -> None:
    program = Program(0, [(0, np.ones(2))], [Statement(1, (0,), "v0.nothing()", "v0", "float64")], [1])
    with pytest.raises(NotJudgedError):
        Expected(program)


def test_an_update_through_a_view_is_one_of_its_base() -> None:
    """NumPy's aliasing is what a program with updates is judged by; devices are asked where views alias."""
    x = np.arange(4, dtype=np.float32)
    statements = [
        Statement(1, (0,), "v0 * 1", "v0 * 1", "float32"), Statement(2, (1,), "v1[1:3]", "v1[1:3]", "float32"),
        Statement(2, (2, 0), "v0[:2]", "v0[:2]", "float32", update="+"),
    ]  # fmt: skip
    program = Program(0, [(0, x)], statements, [1])
    np.testing.assert_array_equal(Expected(program).values[1], [0, 1, 3, 3])
    assert not aliasing() or verdict(program, "numpy") == ""
