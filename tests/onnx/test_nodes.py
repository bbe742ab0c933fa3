"""A sample of the node tests that come with the package `onnx`; bench/onnx_suite.py runs all of them."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="pip install 'rulegrad[onnx]'")

#: Modules of the package with the tests of one op each.
SAMPLE = (
    "add", "cast", "clip", "concat", "conv", "cumsum", "dequantizelinear", "dynamicquantizelinear", "gather", "gemm",
    "gru", "if_", "loop", "lstm", "matmulinteger", "maxpool", "nonmaxsuppression", "pad", "qlinearconv",
    "quantizelinear", "reshape", "resize", "scan", "scatternd", "sequenceinsert", "slice", "split", "topk", "where",
)  # fmt: skip
MOST = 6


def onnx_cases() -> Any:
    folder = str(Path(__file__).resolve().parents[2] / "bench")
    sys.path.append(folder)
    try:
        return importlib.import_module("onnx_cases")
    finally:
        sys.path.remove(folder)


def made(name: str) -> list[Any]:
    """The cases of one module of the package: importing it makes them, and making all takes a while."""
    node = importlib.import_module("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    return [case for case in node._NodeTestCases if not case.name.endswith("_expanded")]


@pytest.mark.parametrize("name", SAMPLE)
def test_nodes(name: str) -> None:
    operator = name.removesuffix("_").replace("_", "")
    cases = [case for case in made(name) if case.model.graph.node[-1].op_type.lower() == operator]
    assert cases
    for case in cases[:MOST]:
        assert onnx_cases().run(case, "numpy") is None, case.name
