"""Answers depend neither on the order of rules that declare none, nor on rules that are not essential."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import config
from rulegrad.interpreter.numerics import Array
from rulegrad.workbench.diagnosis.corpus import PROGRAMS, answers

ON_EVERY_DEVICE = ("booleans", "training")


def results(device: str) -> dict[str, list[Array]]:
    chosen = [p for p in PROGRAMS if device == "numpy" or p.__name__ in ON_EVERY_DEVICE]
    return {program.__name__: list(answers(program, device)) for program in chosen}


@pytest.fixture(scope="module")
def usual() -> dict[str, list[Array]]:
    return results("numpy")


def same(found: dict[str, list[Array]], usual: dict[str, list[Array]]) -> None:
    for program, arrays in found.items():
        for number, (array, wanted) in enumerate(zip(arrays, usual[program], strict=True)):
            assert array.dtype == wanted.dtype
            a, b = array.astype("float64"), wanted.astype("float64")
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4, err_msg=f"result {number} of {program}")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_order(usual: dict[str, list[Array]], seed: int) -> None:
    with config(rules_order=seed):
        same(results("numpy"), usual)


@pytest.mark.parametrize("choice", ["random:1", "random:2", "random:3:0.5", "random:4:1"])
def test_random_rules_off(usual: dict[str, list[Array]], choice: str) -> None:
    with config(rules_off=[choice]):
        same(results("numpy"), usual)


def test_on_devices_that_compile(usual: dict[str, list[Array]], device: str) -> None:
    with config(rules_order=5, rules_off=["random:5:0.3"]):
        same(results(device), usual)


def test_strict(usual: dict[str, list[Array]]) -> None:
    with config(rules_strict=1):
        same(results("numpy"), usual)
