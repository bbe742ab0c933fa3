"""Running one of the node tests of the package `onnx`, and why some of them are left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import onnx
from rulegrad import Tensor
from rulegrad import onnx as models
from rulegrad.onnx import _table as table

LEFT_OUT_DOMAINS = {
    "ai.onnx.ml": "trees and encoders of the domain ai.onnx.ml",
    "ai.onnx.preview": "preview",
    "ai.onnx.preview.training": "training, in preview",
}
RANDOM = ("bernoulli", "randomuniform", "training_dropout")


def cases() -> Iterator[Any]:
    """All node tests that the package makes."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from collect_testcases(None)


def op_of(case: Any) -> str:
    """The op that a test is about: its name is the longest that the test's name begins with."""
    node = case.model.graph.node
    return str(node[0].op_type) if len(node) == 1 else str(case.name.removeprefix("test_").split("_")[0])


def left_out(case: Any) -> str | None:
    """Why a test is left out."""
    for one in case.model.opset_import:
        if one.domain in LEFT_OUT_DOMAINS:
            return LEFT_OUT_DOMAINS[one.domain]
    if case.model.graph.node[0].op_type == "ImageDecoder":
        return "decoding of image files"
    return None


def run(case: Any, device: str) -> str | None:
    """None for a pass, else the difference or error in one line."""
    model = models.load(case.model, device=device)
    for inputs, expected in case.data_sets:
        found = model(*(_on(one, device) for one in inputs))
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(expected):
            return f"{len(found)} outputs, and {len(expected)} are expected"
        shapes_only = any(part in case.name for part in RANDOM) and "zero_ratio" not in case.name
        for name, one, right in zip(model.output_names, found, expected):
            problem = difference(one, right, case, shapes_only)
            if problem:
                return f"{name}: {problem}"
    return None


def _on(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [_on(one, device) for one in value]
    if value is None:
        return value
    value = _array(value)
    return Tensor(value, device=device) if table.has_tensors(value.dtype) else value


def _array(value: Any) -> Any:
    """Values of dtypes that NumPy lacks are given as the file has them."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def difference(found: Any, right: Any, case: Any, shapes_only: bool) -> str | None:
    """How a value differs from the expected one; None where it does not."""
    if isinstance(right, list):
        if not isinstance(found, list) or len(found) != len(right):
            return f"{found!r} for {right!r}"
        return next(filter(None, (difference(a, b, case, shapes_only) for a, b in zip(found, right))), None)
    if right is None or found is None:
        return None if right is None and found is None else f"{found!r} for {right!r}"
    found = np.asarray(found.numpy() if isinstance(found, Tensor) else found)
    right = _array(right)
    if found.shape != right.shape:
        return f"shape {found.shape} for {right.shape}"
    if right.dtype.kind in "OUS":
        return None if [str(x) for x in found.ravel()] == [str(x) for x in right.ravel()] else "other texts"
    if found.dtype != right.dtype:
        return f"dtype {found.dtype} for {right.dtype}"
    if shapes_only:
        return None
    wide = np.complex128 if right.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), right.astype(wide)
    with np.errstate(all="ignore"):
        if np.allclose(a, b, rtol=case.rtol, atol=max(case.atol, 1e-7), equal_nan=True):
            return None
        return f"differs by up to {np.nanmax(np.abs(a - b)):.3g}"
