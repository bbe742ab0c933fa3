"""The package `onnx`, which reads the files: loaded late, for few programs need it."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import OnnxError


def package() -> Any:
    """The module `onnx`. Raises OnnxError with the install command where it is missing."""
    try:
        # late: an optional library
        import onnx
    except ImportError as error:
        raise OnnxError("files are read by the package onnx, which is missing: pip install 'rulegrad[onnx]'") from error
    return onnx
