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

__all__ = ["Model", "export", "load"]


def __dir__() -> list[str]:
    return list(__all__)
