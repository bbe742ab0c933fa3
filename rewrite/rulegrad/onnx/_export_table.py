"""The table of exports: how each op of our tensor graphs is written with ops of ONNX.

A row is a function of the writer, the node and the names of its sources; it gives the name of the result.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from rulegrad.interpreter.nodes import is_identity
from rulegrad.ir import UOp


class Writer(Protocol):
    """The interface by which rows write nodes and constants."""

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node with one output, whose name is returned."""
        ...

    def constant(self, values: Any, dtype: Any) -> str:
        """The name of a constant."""
        ...

    def name(self, node: UOp) -> str:
        """The name of the value of a node of ours, which is written if it was not."""
        ...


Row: TypeAlias = Callable[[Writer, UOp, list[str]], str]

#: Ops that are one of ONNX on values of all dtypes, and those that have another name for truth values.
_SAME: Final = {
    "ABS": "Abs", "ACOS": "Acos", "ACOSH": "Acosh", "ADD": "Add", "ASIN": "Asin", "ASINH": "Asinh", "ATAN": "Atan",
    "ATANH": "Atanh", "CEIL": "Ceil", "CMPEQ": "Equal", "CMPLE": "LessOrEqual", "CMPLT": "Less", "COS": "Cos",
    "COSH": "Cosh", "DIV": "Div", "ERF": "Erf", "EXP": "Exp", "FLOOR": "Floor", "LOG": "Log", "MAX": "Max",
    "MIN": "Min", "MUL": "Mul", "NEG": "Neg", "POW": "Pow", "RECIPROCAL": "Reciprocal", "ROUND": "Round", "SIN": "Sin",
    "SINH": "Sinh", "SQRT": "Sqrt", "SUB": "Sub", "TAN": "Tan", "TANH": "Tanh", "WHERE": "Where",
}  # fmt: skip
_OF_BOOLS: Final = {
    "ADD": "Or", "MAX": "Or", "OR": "Or", "MUL": "And", "MIN": "And", "AND": "And", "XOR": "Xor", "NOT": "Not",
}  # fmt: skip
_OF_INTEGERS: Final = {"AND": "BitwiseAnd", "OR": "BitwiseOr", "XOR": "BitwiseXor", "NOT": "BitwiseNot"}
_REDUCED: Final = {"ADD": "ReduceSum", "MAX": "ReduceMax", "MIN": "ReduceMin", "MUL": "ReduceProd"}


def _elementwise(op: str) -> Row:
    def row(to: Writer, node: UOp, sources: list[str]) -> str:
        return to.node(_kinds_of(op, node)[op], sources)

    return row


def _kinds_of(op: str, node: UOp) -> dict[str, str]:
    if node.dtype == "bool" and op in _OF_BOOLS:
        return _OF_BOOLS
    return _OF_INTEGERS if op in _OF_INTEGERS else _SAME


def _integers(to: Writer, values: Sequence[int]) -> str:
    return to.constant(np.array(values, np.int64), "int64")


def _scalar(to: Writer, node: UOp, value: float) -> str:
    return to.constant(value, node.dtype)


def _slice(to: Writer, node: UOp, sources: list[str]) -> str:
    begin, end = node.attrs["begin"], node.attrs["end"]
    return to.node("Slice", [*sources, _integers(to, begin), _integers(to, end)])


def _flip(to: Writer, node: UOp, sources: list[str]) -> str:
    axes = list(node.attrs["axes"])
    starts, ends, steps = [-1] * len(axes), [np.iinfo(np.int64).min] * len(axes), [-1] * len(axes)
    return to.node("Slice", [*sources, *(_integers(to, part) for part in (starts, ends, axes, steps))])


def _pad(to: Writer, node: UOp, sources: list[str]) -> str:
    pads = _integers(to, [*node.attrs["before"], *node.attrs["after"]])
    return to.node("Pad", [*sources, pads, _scalar(to, node, 0)], mode="constant")


def _roll(to: Writer, node: UOp, sources: list[str]) -> str:
    axis = node.attrs["axis"]
    extent = node.shape[axis]
    cut = -node.attrs["by"] % extent
    ends = ((cut, extent), (0, cut))
    parts = [to.node("Slice", [*sources, *(_integers(to, [n]) for n in (*end, axis))]) for end in ends]
    return to.node("Concat", parts, axis=axis)


def _places_of_windows(axis: int, windows: tuple[int, ...], attributes: Mapping[str, Any]) -> Any:
    """The place in the axis of each element of its windows: (places, size)."""
    places, size = windows[axis : axis + 2]
    return np.add.outer(np.arange(places) * attributes["step"], np.arange(size) * attributes["dilation"])


def _unfold(to: Writer, node: UOp, sources: list[str]) -> str:
    axis = node.attrs["axis"]
    places = _places_of_windows(axis, node.shape, node.attrs)
    return to.node("Gather", [*sources, to.constant(places, "int64")], axis=axis)


def _fold(to: Writer, node: UOp, sources: list[str]) -> str:
    """The windows times a matrix that has a one where an element of a window is an element of the result."""
    axis, shape = node.attrs["axis"], node.src[0].shape
    places = _places_of_windows(axis, shape, node.attrs).reshape(-1, 1)
    matrix = to.constant(places == np.arange(node.attrs["extent"]), node.dtype)
    lead, rest = shape[:axis], shape[axis + 2 :]
    lines = to.node("Reshape", [*sources, _integers(to, (math.prod(lead), len(places), math.prod(rest)))])
    sums = to.node("MatMul", [to.node("Transpose", [lines], perm=[0, 2, 1]), matrix])
    lines = to.node("Transpose", [sums], perm=[0, 2, 1])
    return to.node("Reshape", [lines, _integers(to, node.shape)])


def _reduce(to: Writer, node: UOp, sources: list[str]) -> str:
    op = node.attrs["op"]
    if op == "ADD" and (found := _product(to, node)):
        return found
    axes = _integers(to, node.attrs["axes"])
    if node.dtype != "bool":
        return to.node(_REDUCED[op], [*sources, axes], keepdims=1)
    wide = to.node("Cast", sources, to="int32")
    narrow = to.node("ReduceMin" if op in ("AND", "MIN", "MUL") else "ReduceMax", [wide, axes], keepdims=1)
    return to.node("Cast", [narrow], to="bool")


def _product(to: Writer, node: UOp) -> str:
    """A sum of products of two tensors, each repeated along axes of the other, as `Einsum`; "" for another sum."""
    product = behind(node.src[0])
    if product.op != "MUL" or product.dtype == "bool":
        return ""
    operands, terms = [behind(source) for source in product.src], []
    letters = string.ascii_letters[: len(product.shape)]
    for place, operand in enumerate(operands):
        if operand.op == "EXPAND":
            operands[place] = operand = behind(operand.src[0])
        if len(operand.shape) != len(product.shape):
            return ""
        terms.append("".join(letter for letter, size in zip(letters, operand.shape) if size != 1))
    axes, used = set(node.attrs["axes"]), set("".join(terms))
    wanted = [k for k, size in enumerate(product.shape) if size != 1]
    if not all(letters[k] in used for k in wanted):
        return ""
    result = "".join(letters[k] for k in wanted if k not in axes)
    inputs = [
        to.node("Reshape", [to.name(operand), _integers(to, [size for size in operand.shape if size != 1])])
        for operand in operands
    ]
    found = to.node("Einsum", inputs, equation=f"{','.join(terms)}->{result}")
    return to.node("Reshape", [found, _integers(to, node.shape)])


def passes(node: UOp) -> bool:
    """Whether a node stands for its first source."""
    return node.op == "COPY" or is_identity(node)


def behind(node: UOp) -> UOp:
    """The node that has the value of a node which stands for it."""
    while passes(node):
        node = node.src[0]
    return node


ROWS: Final[dict[str, Row]] = {
    **{op: _elementwise(op) for op in (*_SAME, *_OF_INTEGERS)},
    "CAST": lambda to, node, sources: to.node("Cast", sources, to=str(node.dtype)),
    "CMPNE": lambda to, node, sources: to.node("Not", [to.node("Equal", sources)]),
    "CONST": lambda to, node, sources: _scalar(to, node, node.attrs["value"]),
    "ERFC": lambda to, node, sources: to.node("Sub", [_scalar(to, node, 1), to.node("Erf", sources)]),
    "EXP2": lambda to, node, sources: to.node("Pow", [_scalar(to, node, 2), *sources]),
    "EXPAND": lambda to, node, sources: to.node("Expand", [*sources, _integers(to, node.shape)]),
    "FLIP": _flip,
    "LOG2": lambda to, node, sources: to.node("Div", [to.node("Log", sources), _scalar(to, node, math.log(2))]),
    "PAD": _pad,
    "PERMUTE": lambda to, node, sources: to.node("Transpose", sources, perm=list(node.attrs["order"])),
    "REDUCE": _reduce,
    "RESHAPE": lambda to, node, sources: to.node("Reshape", [*sources, _integers(to, node.shape)]),
    "ROLL": _roll,
    "UNFOLD": _unfold,
    "FOLD": _fold,
    "SHRINK": _slice,
}
