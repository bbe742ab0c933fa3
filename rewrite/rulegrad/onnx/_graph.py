"""Graphs of a model, made ready once: each node with its function and decoded attributes; and running them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from rulegrad.errors import OnnxError, RulegradError
from rulegrad.ir.dtype import as_dtype
from rulegrad.onnx import _table as table
from rulegrad.onnx._package import package
from rulegrad.onnx._table import Value
from rulegrad.tensor.capturing import Unchanging, suspended
from rulegrad.tensor.tensor import Tensor


class Constants(Unchanging):
    """The arrays of a model's file, and the tensors made of them on each device.

    A capture does not look in here. It reads such a tensor as one from outside, also where it is the first to ask.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._arrays: dict[int, Any] = {}
        self._tensors: dict[tuple[int, str], Tensor] = {}

    def array_of(self, proto: Any) -> Any:
        """A tensor of the file as a NumPy array that is not to be changed."""
        try:
            array = package().numpy_helper.to_array(proto, self.folder)
        except Exception as error:  # of the package, which has several
            raise OnnxError(f"the tensor {proto.name!r} cannot be read: {error}") from error
        array.flags.writeable = False
        self._arrays[id(array)] = array
        return array

    def forget(self, array: Any) -> None:
        """The array is a weight, which is elsewhere."""
        self._arrays.pop(id(array), None)

    def tensor(self, array: Any, device: str) -> Tensor:
        """The array on the device: one of the file is moved there once, one computed on the host each time."""
        if self._arrays.get(id(array)) is not array:
            return Tensor(array, device=device)
        found = self._tensors.get((id(array), device))
        if found is None:
            with suspended():
                found = self._tensors[id(array), device] = Tensor(array, device=device)
        return found


class Session:
    """The device of a call, and the constants of the model."""

    def __init__(self, device: str, constants: Constants) -> None:
        self.device, self._constants = device, constants

    def tensor(self, value: Value) -> Value:
        """The value with arrays moved to the device; single numbers that are not changed are parts of kernels."""
        if not isinstance(value, np.ndarray):
            return value
        if value.size == 1 and not value.flags.writeable:
            return Tensor.full(value.shape, value.item(), dtype=as_dtype(value.dtype), device=self.device)
        return self._constants.tensor(value, self.device)


class Call:
    """One run of one node, as functions of the table see it."""

    __slots__ = ("inputs", "node", "outputs", "scope", "session", "version")

    def __init__(self, node: Node, session: Session, scope: dict[str, Value], inputs: list[Value]) -> None:
        self.node, self.session, self.scope, self.inputs = node, session, scope, inputs
        self.version, self.outputs = node.version, len(node.outputs)

    @property
    def device(self) -> str:
        return self.session.device

    def tensor(self, value: Value) -> Value:
        return self.session.tensor(value)

    def error(self, problem: str) -> OnnxError:
        return OnnxError(f"{self.node}: {problem}")

    def wants(self, place: int) -> bool:
        """Whether the output at this place is used."""
        return place < self.outputs and bool(self.node.outputs[place])

    def run(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Run a graph that is an attribute; it sees the values around this node."""
        return graph.run(self.session, inputs, self.scope)


class Node:
    """A node with its function and attributes."""

    def __init__(self, proto: Any, model: Opsets, place: int) -> None:
        self.proto, self.model = proto, model
        self.op, self.domain = proto.op_type, "" if proto.domain == "ai.onnx" else proto.domain
        self.label = proto.name or f"number {place}"
        self.inputs, self.outputs = list(proto.input), list(proto.output)
        self.last: list[str] = []
        self.version = model.versions.get(self.domain, 0)
        self.function: Callable[..., Any] | None = None
        if (self.domain, self.op) in model.functions:
            self.function = self._function_of(model.functions[self.domain, self.op])
            return
        self.schema = self._schema()
        self.version = self.version if self.schema is None else self.schema.since_version
        self.entry = table.find(self.domain, self.op, self.version)
        self._check_inputs()
        self.given = {one.name: self._decoded(one) for one in proto.attribute}
        if self.entry is None:
            self.function = self._expansion()
            return
        self.attributes = self._attributes(self.entry)
        self.known = table.KNOWN.get(self.op) if self.domain == "" else None
        if self.known is not None and self.known.since > self.version:
            self.known = None
        if self.known is not None:
            self.known_attributes = {k: v for k, v in self.attributes.items() if k in self.known.attributes}

    def __str__(self) -> str:
        name = f"{self.domain}.{self.op}" if self.domain else self.op
        return f"node {self.label!r} ({name}, opset {self.model.versions.get(self.domain, 0)})"

    # ---- making it ready ----

    def _schema(self) -> Any:
        """What the standard says of the op; None for one of another domain that is in the table."""
        onnx = package()
        if self.domain not in self.model.versions:
            raise OnnxError(f"{self}: the model imports no opset of the domain {self.domain!r}")
        try:
            return onnx.defs.get_schema(self.op, self.model.versions[self.domain], self.domain)
        except onnx.defs.SchemaError as error:
            if self.domain and table.find(self.domain, self.op, self.version):
                return None
            raise OnnxError(f"{self}: the standard has no such op there. {_supported(self.domain)}") from error

    def _check_inputs(self) -> None:
        if self.schema is None:
            assert self.entry is not None
            least, most = self.entry.inputs
        else:
            least, most = self.schema.min_input, self.schema.max_input
        if not least <= len(self.inputs) <= most:
            raise OnnxError(f"{self}: {len(self.inputs)} inputs, and the op takes {least} to {most}")

    def _decoded(self, attribute: Any) -> Any:
        kinds = package().AttributeProto
        kind = attribute.type
        if kind == kinds.GRAPH:
            return Graph(attribute.g, self.model)
        if kind == kinds.TENSOR:
            return self.model.constants.array_of(attribute.t)
        if kind == kinds.STRING:
            return attribute.s.decode()
        if kind == kinds.STRINGS:
            return [text.decode() for text in attribute.strings]
        if kind in (kinds.FLOAT, kinds.INT):
            return package().helper.get_attribute_value(attribute)
        if kind in (kinds.FLOATS, kinds.INTS):
            return list(package().helper.get_attribute_value(attribute))
        if kind == kinds.TYPE_PROTO:
            return attribute.tp
        raise OnnxError(f"{self}: the attribute {attribute.name!r} is of a kind that is not supported (type {kind})")

    def _attributes(self, entry: table.Entry) -> dict[str, Any]:
        """The attributes that the function takes: those of the node, and defaults of the standard."""
        standard = {} if self.schema is None else self.schema.attributes
        if self.schema is not None and (unknown := [name for name in self.given if name not in standard]):
            raise OnnxError(f"{self}: no attribute {unknown[0]!r}; there are {sorted(standard)}")
        refused = [name for name in self.given if name not in entry.attributes]
        if refused:
            raise OnnxError(f"{self}: the attribute {refused[0]!r} is not supported; {sorted(entry.attributes)} are")
        required = entry.required if self.schema is None else [name for name, one in standard.items() if one.required]
        missing = [name for name in required if name not in self.given]
        if missing:
            raise OnnxError(f"{self}: the attribute {missing[0]!r} is missing")
        found = dict(self.given)
        for name, one in standard.items():
            if name in entry.attributes and name not in found and one.default_value.name:
                found[name] = self._decoded(one.default_value)
        return found

    def _function_of(self, proto: Any) -> Callable[..., Any]:
        """The function that a model defines, as the function of a node."""
        graph = Graph.of_function(proto, self.model, self.proto.attribute)

        def run(call: Call, *inputs: Value) -> Any:
            filled = [*inputs, *[None] * (len(graph.inputs) - len(inputs))]
            return tuple(graph.run(call.session, filled, {}))

        return run

    def _expansion(self) -> Callable[..., Any]:
        """The op's function in the standard: made of ops that are in the table."""
        schema = self.schema
        if not schema.has_function and not schema.has_context_dependent_function:
            raise OnnxError(f"{self}: this op is not supported. {_supported(self.domain)}")
        graphs: dict[tuple[Any, ...], Graph] = {}

        def run(call: Call, *inputs: Value) -> Any:
            key = tuple(None if one is None else np.dtype(_numpy_dtype(one)).name for one in inputs)
            key += tuple(len(one.shape) for one in inputs if hasattr(one, "shape"))
            if key not in graphs:
                graphs[key] = self._expanded(inputs)
            graph = graphs[key]
            filled = [*inputs, *[None] * (len(graph.inputs) - len(inputs))]
            return tuple(graph.run(call.session, filled[: len(graph.inputs)], {}))

        return run

    def _expanded(self, inputs: Sequence[Value]) -> Graph:
        onnx, schema = package(), self.schema
        proto = onnx.FunctionProto()
        if schema.has_context_dependent_function:
            types = [_type_of(one).SerializeToString() for one in inputs]
            versions = list(schema.context_dependent_function_opset_versions)
            version = max((one for one in versions if one <= self.model.versions[""]), default=versions[0])
            text = schema.get_context_dependent_function_with_opset_version(
                version, self.proto.SerializeToString(), types
            )
        else:
            versions = list(schema.function_opset_versions)
            version = max((one for one in versions if one <= self.model.versions[""]), default=versions[0])
            text = schema.get_function_with_opset_version(version)
        proto.ParseFromString(text)
        given = {one.name for one in self.proto.attribute}
        defaults = [
            one.default_value for name, one in schema.attributes.items() if name not in given and one.default_value.name
        ]
        return Graph.of_function(proto, self.model, [*self.proto.attribute, *defaults])

    # ---- running ----

    def run(self, session: Session, scope: dict[str, Value]) -> Sequence[Value]:
        """The values of the outputs."""
        inputs = [scope[name] if name else None for name in self.inputs]
        call = Call(self, session, scope, inputs)
        try:
            found = self._computed(call, inputs)
        except OnnxError:
            raise
        except (RulegradError, ValueError, TypeError, IndexError, KeyError, ArithmeticError) as error:
            raise OnnxError(f"{self}: {error}") from error
        return found if isinstance(found, tuple) else (found,)

    def _computed(self, call: Call, inputs: list[Value]) -> Any:
        if self.function is not None:
            return self.function(call, *inputs)
        assert self.entry is not None
        entry = self.entry
        if self.known is not None and (
            all(one is None or isinstance(one, np.ndarray) for one in inputs)
            or any(isinstance(one, np.ndarray) and not table.has_tensors(one.dtype) for one in inputs)
        ):
            return self.known.function(call, *map(table.to_host, inputs), **self.known_attributes)
        if not entry.raw:
            inputs = [
                table.to_host(one) if place in entry.host else call.tensor(one) for place, one in enumerate(inputs)
            ]
        return entry.function(call, *inputs, **self.attributes)


def _numpy_dtype(value: Value) -> Any:
    if isinstance(value, list):
        return _numpy_dtype(value[0]) if value else np.dtype("float32")
    return value.dtype.numpy if isinstance(value, Tensor) else value.dtype


def _type_of(value: Value) -> Any:
    """The type of a value as the standard's functions ask for it."""
    helper = package().helper
    if value is None:
        return package().TypeProto()
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(_numpy_dtype(value)))
    if isinstance(value, list):
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(kind, None))
    return helper.make_tensor_type_proto(kind, list(value.shape))


def _supported(domain: str) -> str:
    names = sorted(name for where, name in table.OPS if where == domain)
    if domain:
        return f"Supported of the domain {domain!r} are: {', '.join(names) or 'none'}"
    return f"Supported are the ops that the standard defines by others, and {', '.join(names)}"


class Opsets:
    """Properties of the model that nodes need: versions by domain, its functions, its constants."""

    def __init__(self, imports: Iterable[Any], functions: dict[tuple[str, str], Any], constants: Constants) -> None:
        self.versions = {"" if one.domain == "ai.onnx" else one.domain: one.version for one in imports}
        self.functions, self.constants = functions, constants


class Graph(Unchanging):
    """The main graph of a model, one in an attribute, or the body of a function."""

    def __init__(self, proto: Any, model: Opsets) -> None:
        self._take(proto.node, [one.name for one in proto.input], [one.name for one in proto.output], model)
        self.types = [one.type for one in proto.output]  # as the file declares them
        self.constants.update({one.name: model.constants.array_of(one) for one in proto.initializer})

    @classmethod
    def of_function(cls, proto: Any, model: Opsets, attributes: Iterable[Any]) -> Graph:
        """The body of a function, for one node with these attributes."""
        graph = cls.__new__(cls)
        inside = Opsets(proto.opset_import, model.functions, model.constants)
        for domain, version in model.versions.items():
            inside.versions.setdefault(domain, version)
        given = {one.name: one for one in proto.attribute_proto} | {one.name: one for one in attributes}
        graph._take([_bound(one, given) for one in proto.node], list(proto.input), list(proto.output), inside)
        return graph

    def _take(self, nodes: Iterable[Any], inputs: list[str], outputs: list[str], model: Opsets) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.constants: dict[str, Any] = {}
        self.nodes: list[Node] = []
        for place, proto in enumerate(nodes):
            node = Node(proto, model, place)
            if node.domain == "" and node.op == "Constant" and _is_array(node):
                self.constants[node.outputs[0]] = node.given["value"]
            else:
                self.nodes.append(node)
        self._note_last_uses()

    def _note_last_uses(self) -> None:
        """Each node's `last`: the values that nothing after it reads."""
        needed = set(self.outputs)
        for node in reversed(self.nodes):
            used = {*node.inputs, *node.outputs, *captured(node)}
            node.last = [name for name in used if name and name not in needed]
            needed |= used

    def uses(self) -> Iterable[str]:
        """The names that the nodes read, those of graphs inside too."""
        for node in self.nodes:
            yield from node.inputs
            yield from captured(node)
        yield from self.outputs

    def run(self, session: Session, inputs: Sequence[Value], outer: dict[str, Value]) -> list[Value]:
        """The values of the outputs for these values of the inputs."""
        scope = {**outer, **self.constants, **dict(zip(self.inputs, inputs))}
        for node in self.nodes:
            for name, value in zip(node.outputs, node.run(session, scope)):
                scope[name] = value
            # A tensor that lives would be stored for later use.
            for name in node.last:
                scope.pop(name, None)
        # A function does not compute the optional outputs that nobody asked for.
        return [scope.get(name) for name in self.outputs]


def captured(node: Node) -> Iterable[str]:
    """The names that graphs in the node's attributes read."""
    for value in getattr(node, "given", {}).values():
        if isinstance(value, Graph):
            yield from value.uses()


def _is_array(node: Node) -> bool:
    return isinstance(node.given.get("value"), np.ndarray)


def _bound(proto: Any, given: dict[str, Any]) -> Any:
    """A node of a function with the attributes that refer to the function's own put in."""
    onnx = package()
    bound = onnx.NodeProto()
    bound.CopyFrom(proto)
    del bound.attribute[:]
    for one in proto.attribute:
        if one.ref_attr_name:
            if one.ref_attr_name in given:
                copy = bound.attribute.add()
                copy.CopyFrom(given[one.ref_attr_name])
                copy.name = one.name
            continue
        copy = bound.attribute.add()
        copy.CopyFrom(one)
        if one.type == onnx.AttributeProto.GRAPH:
            nodes = [_bound(inner, given) for inner in one.g.node]
            del copy.g.node[:]
            copy.g.node.extend(nodes)
    return bound
