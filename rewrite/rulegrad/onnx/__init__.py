"""Models of ONNX files: `load` makes a `Module` of one. The package `onnx` reads the file."""

from rulegrad.onnx import (
    _control,
    _convolution,
    _elementwise,
    _indexing,
    _known,
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

# Importing a family puts its ops into the table.
FAMILIES = (
    _control, _convolution, _elementwise, _indexing, _known, _normalization, _pooling, _quantized, _random, _recurrent,
    _reduce, _resize, _shapes, _signal, _text,
)  # fmt: skip

__all__ = ["Model", "export", "is_in_onnx_export", "load"]


def is_in_onnx_export() -> bool:
    """False: `export` runs a model as every call does. Sources written for PyTorch ask.

    >>> is_in_onnx_export()
    False
    """
    return False


def __dir__() -> list[str]:
    return list(__all__)
