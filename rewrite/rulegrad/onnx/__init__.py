"""Models of ONNX files: `load` makes a `Module` of one. The package `onnx` reads the file."""

import importlib
from typing import Any

from rulegrad.onnx import (
    _control,
    _convolution,
    _elementwise,
    _indexing,
    _known,
    _microsoft,
    _normalization,
    _pooling,
    _quantized,
    _random,
    _recurrent,
    _reduce,
    _resize,
    _shapes,
    _signal,
    _text,
)
from rulegrad.onnx._export import export
from rulegrad.onnx._model import Model, load
from rulegrad.support.torch_modules import modules_below

# Importing a family puts its ops into the table.
FAMILIES = (
    _control, _convolution, _elementwise, _indexing, _known, _microsoft, _normalization, _pooling, _quantized, _random,
    _recurrent, _reduce, _resize, _shapes, _signal, _text,
)  # fmt: skip

_below = modules_below("onnx")

__all__ = ["Model", "export", "is_in_onnx_export", "load"]


def is_in_onnx_export() -> bool:
    """False: `export` runs a model as every call does. Sources written for PyTorch ask.

    >>> is_in_onnx_export()
    False
    """
    return False


def __getattr__(name: str) -> Any:
    symbolics = importlib.import_module("rulegrad.pytorch.symbolics")
    return getattr(symbolics, name) if name in symbolics.__all__ else _below(name)


def __dir__() -> list[str]:
    return list(__all__)
