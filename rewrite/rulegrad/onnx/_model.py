"""`load` and the module that it gives."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rulegrad.errors import FileMissingError, OnnxError
from rulegrad.nn import Module, Parameter
from rulegrad.onnx import _table as table
from rulegrad.onnx._graph import Constants, Graph, Opsets, Session
from rulegrad.onnx._package import package
from rulegrad.onnx._table import Value
from rulegrad.tensor.tensor import Tensor

OLDEST, NEWEST = 1, 28
"""The versions of the standard that are read."""


class Model(Module):
    """A model of an ONNX file, as `load` gives it.

    A call takes the inputs in the order of `input_names`, or by their names, as tensors, arrays or numbers. It returns
    the outputs: one, or a tuple in the order of `output_names`. Integers that are given as NumPy arrays or Python
    numbers are known on the host, so shapes and branches may depend on them without reading a tensor.

    Floating-point weights are parameters, larger integer ones buffers; their names are those of the file.
    """

    def __init__(self, proto: Any, folder: str, device: str | None) -> None:
        super().__init__()
        functions = {("" if f.domain == "ai.onnx" else f.domain, f.name): f for f in proto.functions}
        self._constants = Constants(folder)
        opsets = Opsets(proto.opset_import, functions, self._constants)
        _check_version(opsets)
        self._graph = Graph(proto.graph, opsets)
        self._device = device
        initializers = {one.name for one in proto.graph.initializer}
        self.input_names = tuple(name for name in self._graph.inputs if name not in initializers)
        self.output_names = tuple(self._graph.outputs)
        self._defaults = {name for name in self._graph.inputs if name in initializers}
        self._weights: dict[str, str] = {}
        self._take_weights(device)

    def _take_weights(self, device: str | None) -> None:
        shapes = set(_host_uses(self._graph))
        for name, array in list(self._graph.constants.items()):
            if not _is_weight(array) or name in shapes:
                continue
            attribute = name if not hasattr(self, name) and not name.startswith("_") else f"weight_{name}"
            tensor = Tensor(array, device=device)
            if tensor.is_floating_point():
                self.register_parameter(attribute, Parameter(tensor))
            else:
                self.register_buffer(attribute, tensor)
            self._weights[name] = attribute
            self._constants.forget(self._graph.constants.pop(name))

    def forward(self, *arguments: Any, **named: Any) -> Any:
        inputs = self._given(arguments, named)
        weights = {name: getattr(self, attribute) for name, attribute in self._weights.items()}
        device = self._place(inputs.values(), weights.values())
        session = Session(device, self._constants)
        scope = weights | {name: _input(value, device) for name, value in inputs.items()}
        graph = self._graph
        found = graph.run(session, [], scope)
        outputs = tuple(session.tensor(one) if _fits(one) else one for one in found)
        return outputs[0] if len(outputs) == 1 else outputs

    def _given(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if len(arguments) > len(self.input_names):
            raise OnnxError(f"{len(arguments)} inputs are given, and the model has {self._listed()}")
        inputs = dict(zip(self.input_names, arguments))
        for name, value in named.items():
            if name not in self.input_names and name not in self._defaults:
                raise OnnxError(f"the model has no input {name!r}; it has {self._listed()}")
            if name in inputs:
                raise OnnxError(f"the input {name!r} is given twice")
            inputs[name] = value
        missing = [name for name in self.input_names if name not in inputs]
        if missing:
            raise OnnxError(f"the input {missing[0]!r} is missing; the model has {self._listed()}")
        return inputs

    def _listed(self) -> str:
        return ", ".join(map(repr, self.input_names)) or "none"

    def _place(self, inputs: Iterable[Any], weights: Iterable[Tensor]) -> str:
        for one in (*weights, *inputs):
            if isinstance(one, Tensor):
                return str(one.device)
        return str(Tensor(0.0, device=self._device).device)

    def extra_repr(self) -> str:
        return f"inputs={list(self.input_names)}, outputs={list(self.output_names)}"


def _is_weight(array: Any) -> bool:
    """Whether a constant is a weight, on the device; small integers and single numbers are shape arithmetic."""
    if not table.has_tensors(array.dtype) or array.ndim == 0:
        return False
    return bool(array.size > 1 if array.dtype.kind not in "iub" else array.size > 64)


def _host_uses(graph: Graph) -> Iterable[str]:
    """The names of values that ops take on the host."""
    for node in graph.nodes:
        if node.function is None and node.entry is not None:
            yield from (node.inputs[place] for place in node.entry.host if place < len(node.inputs))
        for value in getattr(node, "given", {}).values():
            if isinstance(value, Graph):
                yield from _host_uses(value)


def _fits(value: Value) -> bool:
    return isinstance(value, np.ndarray) and table.has_tensors(value.dtype)


def _input(value: Any, device: str) -> Value:
    """An input as the graph takes it: integers on the host stay there."""
    if value is None or isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(one, (Tensor, np.ndarray, list)) for one in value):
        return [_input(one, device) for one in value]
    array = np.asarray(value)
    if array.dtype == np.float64 and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype(np.float32)
    if array.dtype.kind in "iub" or not table.has_tensors(array.dtype):
        return array
    return Tensor(array, device=device)


def _check_version(opsets: Opsets) -> None:
    version = opsets.versions.get("", NEWEST)
    if not OLDEST <= version <= NEWEST:
        raise OnnxError(f"the model is of opset {version}; {OLDEST} to {NEWEST} are supported, and tested from 11 on")


def load(model: Any, device: str | None = None) -> Model:
    """A model of an ONNX file: the path, the file's bytes, or a `ModelProto` of the package `onnx`.

    It is a `Module`: `state_dict`, `to` and training work as on any other. The weights are on `device`. Data in other
    files is read from the model's folder. Raises OnnxError for a file that is not a model, for an op or attribute that
    is not supported (the message names the node), and where the package `onnx` is missing.

    >>> rg.onnx.load("missing.onnx")
    Traceback (most recent call last):
        ...
    rulegrad.errors.FileMissingError: missing.onnx cannot be read: there is no such file
    """
    folder = ""
    if isinstance(model, (bytes, bytearray, memoryview)):
        proto = _parsed(bytes(model), "the bytes")
    elif isinstance(model, (str, os.PathLike)):
        path = Path(model)
        if not path.is_file():
            raise FileMissingError(f"{path} cannot be read: there is no such file")
        proto, folder = _parsed(path.read_bytes(), str(path)), str(path.parent)
    elif isinstance(model, package().ModelProto):
        proto = model
    else:
        raise OnnxError(f"load takes a path, bytes or a ModelProto, and this is {type(model).__name__}")
    if not proto.HasField("graph"):
        raise OnnxError(f"{model if isinstance(model, (str, Path)) else 'the model'} has no graph: is it an ONNX file?")
    return Model(proto, folder, device)


def _parsed(text: bytes, where: str) -> Any:
    onnx = package()
    try:
        return onnx.load_model_from_string(text)
    except Exception as error:  # of protobuf, whose kind depends on its implementation
        raise OnnxError(f"{where}: no ONNX model ({error})") from error
