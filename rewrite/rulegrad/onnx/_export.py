"""`export`: a function of tensors, or a module, as an ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rulegrad.errors import FileError, OnnxError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.nn._module import Module
from rulegrad.onnx._export_table import ROWS, passes
from rulegrad.onnx._package import package
from rulegrad.runtime import source_lines
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor import capturing
from rulegrad.tensor.gradient_mode import no_grad
from rulegrad.tensor.realize import realize_all
from rulegrad.tensor.tensor import Tensor
from rulegrad.tensor.trees import flatten

_OPSET: Final = 18
_FORMAT: Final = 9  # of the file: what runtimes of opset 18 read


def export(
    function: Callable[..., Any],
    args: Sequence[Tensor],
    path: str | Path | None = None,
    *,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
) -> Any:
    """A function as a `ModelProto` of opset 18, at the sizes of these arguments; written to a file, if one is named.

    function: takes tensors, and returns a tensor or nested lists, tuples and dicts of them. It is called once, without
    gradients, and a module in evaluation mode; nothing is computed. Tensors that it reads without being given them are
    in the file as they are now: parameters by their names. args: the shapes and dtypes of the inputs.
    input_names, output_names: "input0" and so on where not given. Sums of products are `Einsum` nodes. Raises OnnxError
    for an op that ONNX has no ops for (it names your line), random numbers, an argument that no output depends on, and
    where the package `onnx` is missing; CaptureError where the function asks for a value; FileError.

    >>> from rulegrad import nn
    >>> model = rg.onnx.export(nn.Linear(4, 2), [Tensor.ones(3, 4)], input_names=["x"])
    >>> rg.onnx.load(model)(Tensor.ones(3, 4)).shape
    (3, 2)
    """
    onnx = package()
    inputs = [_placeholder(arg) for arg in args]
    parameters: dict[str, Tensor] = {}
    if isinstance(function, Module):  # values that wait, as of a new layer, would be written as what computes them
        parameters = dict(function.named_parameters())
        realize_all([*parameters.values(), *function.buffers()])
    outputs = _outputs(function, inputs)
    names = {tensor._uop.attrs["id"]: name for name, tensor in parameters.items() if tensor._uop.op == "BUFFER"}
    for kind, given, there in (("input", input_names, inputs), ("output", output_names, outputs)):
        if given and len(given) != len(there):
            raise OnnxError(f"export: {len(given)} {kind} names for {len(there)} {kind}s")
    writer = _Writer(onnx, names)
    wanted = list(input_names) or [f"input{k}" for k in range(len(inputs))]
    described = [writer.input(tensor, name) for tensor, name in zip(inputs, wanted, strict=True)]
    results = [
        writer.output(tensor, name)
        for tensor, name in zip(outputs, output_names or [f"output{k}" for k in range(len(outputs))], strict=True)
    ]
    needed = writer.leave_out_unused([result.name for result in results])
    if unused := [name for name in wanted if name not in needed]:
        raise OnnxError(f"export: no output depends on the argument {unused[0]}; leave it out")
    graph = onnx.helper.make_graph(writer.nodes, "rulegrad", described, results, writer.initializers)
    opsets = [onnx.helper.make_opsetid("", _OPSET)]
    model = onnx.helper.make_model(graph, producer_name="rulegrad", opset_imports=opsets, ir_version=_FORMAT)
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        try:
            Path(path).write_bytes(model.SerializeToString())
        except OSError as error:
            raise FileError(f"export: {path} cannot be written: {error.strerror}") from None
    return model


class _Trace:
    """While the function runs, values wait, and what a file cannot have is refused."""

    def each_call(self, make: Callable[[], Any]) -> Any:
        raise OnnxError("export: the function draws random numbers, or makes tensors anew at each call; leave that out")

    def adopt(self, make: Callable[[], Any]) -> Any:
        return make()

    def uploaded(self, number: int) -> None:
        """A constant of the file."""

    def noticed(self, owner: Any, name: str, value: Any) -> None:
        """The file has what the value decides."""

    def is_known(self, uop: UOp) -> bool:
        return False

    def is_inside(self, tensor: Any) -> bool:
        """Whether it was computed; arguments and weights are buffers."""
        return bool(tensor._uop.op != "BUFFER")


def _placeholder(arg: Any) -> Tensor:
    """A tensor like an argument, with a buffer of its own and no values."""
    if not isinstance(arg, Tensor):
        raise OnnxError(
            f"export: an argument is a {type(arg).__name__}; give tensors, and bind others by functools.partial"
        )
    buffer = Buffer(arg.shape, str(arg.dtype), arg.device)
    return Tensor._new(buffer.uop, buffer, buffer.device)


def _outputs(function: Callable[..., Any], inputs: list[Tensor]) -> list[Tensor]:
    was_training = isinstance(function, Module) and function.training
    if was_training:
        function.eval()  # type: ignore[attr-defined]
    before, capturing.current.trace = capturing.current.trace, _Trace()
    try:
        with no_grad():
            found: list[Any] = flatten([function(*inputs)])[0]
    finally:
        capturing.current.trace = before
        if was_training:
            function.train()  # type: ignore[attr-defined]
    if not found:
        raise OnnxError("export: the function returns no tensor")
    return found


class _Writer:
    """The nodes and constants of a file."""

    def __init__(self, onnx: Any, names: dict[int, str]) -> None:
        self._onnx, self._parameters = onnx, names
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._names: dict[UOp, str] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def input(self, tensor: Tensor, name: str) -> Any:
        """An input's description."""
        self._names[tensor._uop] = name
        return self._described(tensor._uop, name)

    def output(self, tensor: Tensor, name: str) -> Any:
        """An output's description, once all that it needs is written."""
        found = self.name(tensor.uop)
        self.nodes.append(self._onnx.helper.make_node("Identity", [found], [name]))
        return self._described(tensor.uop, name)

    def _described(self, node: UOp, name: str) -> Any:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(as_dtype(node.dtype).numpy))
        return self._onnx.helper.make_tensor_value_info(name, kind, list(node.shape))

    def name(self, node: UOp) -> str:
        """The name of a node's value. Raises OnnxError for an op without a row."""
        waiting = [node]
        while waiting:  # no recursion: graphs are deep
            at = waiting[-1]
            missing = [] if at in self._names else [source for source in at.src if source not in self._names]
            if missing:
                waiting.extend(missing)
            else:
                waiting.pop()
                if at not in self._names:
                    self._names[at] = self._written(at)
        return self._names[node]

    def _written(self, node: UOp) -> str:
        if node.op == "BUFFER":
            buffer = Buffer.of(node)
            return self.constant(buffer.numpy(), node.dtype, self._parameters.get(buffer.id, ""))
        if passes(node):
            return self._names[node.src[0]]
        row = ROWS.get(node.op)
        if row is None:
            line = source_lines.line_of(node)
            raise OnnxError(
                f"export: {node.op}{f' ({line})' if line else ''} has no ops of ONNX that it is written with"
            )
        return row(self, node, [self._names[source] for source in node.src])

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node with one output, whose name is returned."""
        if "to" in attributes:
            dtype = np.dtype(as_dtype(attributes["to"]).numpy)
            attributes["to"] = self._onnx.helper.np_dtype_to_tensor_dtype(dtype)
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values: Any, dtype: Any, name: str = "") -> str:
        """The name of a constant; equal ones are one."""
        array = np.asarray(values, as_dtype(str(dtype)).numpy)
        key = str(dtype), array.shape, array.tobytes()
        if key not in self._constants or name:
            self._constants[key] = name = name or f"constant{len(self.initializers)}"
            self.initializers.append(
                self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            )
        return self._constants[key]

    def leave_out_unused(self, outputs: Sequence[str]) -> set[str]:
        """Takes away what no output needs: a sum of products reads its operands as they are before they repeat.

        Returns the names that are needed.
        """
        needed = set(outputs)
        kept = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                kept.append(node)
        self.nodes = kept[::-1]
        self.initializers = [one for one in self.initializers if one.name in needed]
        return needed
