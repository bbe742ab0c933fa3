"""Names of `torch.onnx` by which packages say how an operation of theirs is written; they register nothing.

`rulegrad.onnx.export` writes what a captured function computes, operation by operation, so no operation of a package
is left that somebody would have to write. Packages register theirs when they are imported, as torchvision does.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeVar

from rulegrad.errors import ConfigError, OnnxError

__all__ = [
    "OperatorExportTypes", "TensorProtoDataType", "TrainingMode", "parse_args", "quantized_args",
    "register_custom_op_symbolic", "unregister_custom_op_symbolic",
]  # fmt: skip

_Symbolic = TypeVar("_Symbolic", bound=Callable[..., Any])


class TensorProtoDataType(enum.IntEnum):
    """Numbers of ONNX for dtypes.

    >>> TensorProtoDataType.FLOAT.value
    1
    """

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16


class TrainingMode(enum.Enum):
    """Modes of PyTorch's `export` for a model that trains; `rulegrad.onnx.export` writes it as it is."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """Ways in which PyTorch's `export` writes its own operations; `rulegrad.onnx.export` writes ONNX's."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def parse_args(*kinds: str) -> Callable[[_Symbolic], _Symbolic]:
    """A decorator that gives the function back: nobody calls what says how to write an operation.

    >>> @parse_args("v", "f")
    ... def scaled(graph, input, scale):
    ...     return graph.op("Mul", input, scale)
    """
    return lambda function: function


def quantized_args(*are_quantized: bool, **more: Any) -> Callable[[_Symbolic], _Symbolic]:
    """A decorator that gives the function back, as that of `parse_args` does."""
    return lambda function: function


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Nothing: `export` meets no operation of a package. Raises ConfigError for a name without a namespace.

    >>> register_custom_op_symbolic("documentation::twice", lambda graph, x: graph.op("Add", x, x), 11)
    """
    _check(symbolic_name)


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Nothing, as `register_custom_op_symbolic` does nothing. Raises ConfigError for a name without a namespace."""
    _check(symbolic_name)


def _check(name: str) -> None:
    if name.count("::") != 1:
        raise ConfigError(f"register_custom_op_symbolic: {name!r}; write NAMESPACE::NAME")


def __getattr__(name: str) -> Callable[..., Any]:
    """A function of `torch.onnx`'s that writes an operation: it raises OnnxError when it is called."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def write(*args: Any, **kwargs: Any) -> Any:
        raise OnnxError(
            f"torch.onnx: {name} writes an operation of PyTorch's graphs, which are not there; "
            "rulegrad.onnx.export(function, args, path) writes a function"
        )

    return write
