"""The op table as bytes, with the code of shapes, checks, evaluators, intervals and identities."""

from __future__ import annotations

from collections.abc import Callable

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.builtins import OP_TABLE
from rulegrad.lang.compiler.assembler import Assembler, Writer
from rulegrad.lang.compiler.expressions import compile_expression
from rulegrad.lang.compiler.scope import Binding, Emitter, Library, problem
from rulegrad.lang.optable import Op

KINDS = {"void": 0, "bool": 1, "int": 2, "uint": 3, "float": 4, "index": 5, "complex": 6}
ATTRIBUTE_TYPES = {"int": 0, "float": 1, "bool": 2, "str": 3, "dtype": 4, "op": 5, "ints": 6, "scalar": 7, "tuple": 8}
LEVELS = {"tensor": 1, "kernel": 2, "program": 4}
SHAPE_CODE = 2
SHAPES = {"scalar": 0, "elementwise": 1, "indices": 3}  # a word for each of the engine's other ShapeRules


class OpTableCompiler:
    """Compiles the `op` and `dtype` declarations of a library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.assembler = Assembler()

    def compile(self) -> bytes:
        w = Writer()
        table = self.library.table
        w.number(len(table.dtypes))
        for dtype in table.dtypes.values():
            w.text(dtype.name)
            kind = str(dtype.properties.get("kind", "void"))
            if kind not in KINDS:
                raise problem(f"`{kind}` is not a kind of dtype", dtype.span, "one of " + ", ".join(KINDS))
            w.number(KINDS[kind])
            w.numbers(int(dtype.properties.get(key, 0)) for key in ("bits", "exponent", "mantissa"))
        w.number(len(table.ops))
        for op in table.ops.values():
            self._op(w, op)
        return self.assembler.serialize(w.bytes())

    def _op(self, w: Writer, op: Op) -> None:
        d = op.declaration
        variables = self._variables(op)
        w.text(op.name)
        w.number(len(d.parameters))
        for p in d.parameters:
            w.text(p.name)
            is_variable = p.type in variables
            w.number(variables.index(p.type) if is_variable and p.type is not None else -1)
            w.number(0xFFFFFFFF if is_variable or p.type is None else self._mask(p.type, p.span))
        w.numbers((op.minimum, op.maximum if op.maximum is not None else 0x7FFFFFFF, int(op.maximum is None)))
        explicit = d.result == "explicit"
        w.number(variables.index(d.result) if d.result in variables else -1)
        names = list(self.library.table.dtypes)
        if not explicit and d.result not in variables and d.result not in names:
            raise problem(f"`{d.result}` is not a dtype or a variable of {op.name}", d.span)
        w.number(names.index(d.result) if d.result in names else -1)
        for k in range(4):
            w.number(
                self._mask(d.where[variables[k]], d.span)
                if k < len(variables) and variables[k] in d.where
                else 0xFFFFFFFF
            )
        w.numbers((int(op.commutative), int(op.closes)))
        shape_rule, shape_code = self._shape(op)
        w.numbers((shape_rule, shape_code))
        w.number(self._values(op, d.evaluator))
        low, high = d.interval if d.interval is not None else (None, None)
        w.number(self._interval(op, low))
        w.number(self._interval(op, high))
        w.number(self._code(op, d.identity, lambda e: None))
        w.number(len(d.checks))
        for expression, message in d.checks:
            w.number(self._on_node(op, expression))
            w.text(message)
        w.numbers((sum(LEVELS[s] for s in d.levels) if d.levels else 7, d.cost))
        self._attributes(w, op)

    def _attributes(self, w: Writer, op: Op) -> None:
        w.number(len(op.attributes))
        for a in op.attributes.values():
            if a.type not in ATTRIBUTE_TYPES:
                raise problem(f"`{a.type}` is not a type of attribute", a.span, "one of " + ", ".join(ATTRIBUTE_TYPES))
            w.text(a.name)
            w.number(ATTRIBUTE_TYPES[a.type])
            w.number(int(a.default is not None))
            if a.default is None:
                continue
            if a.type not in ("op", "dtype"):
                w.value(_constant(a.default))
            elif isinstance(a.default, syntax.Name):
                w.text(a.default.name)  # not a value: the engine has no numbers for ops yet
            else:
                raise problem(f"the default of `{a.name}` must be the name of {a.type} of the table", a.span)

    def _variables(self, op: Op) -> list[str]:
        known = self.library.table.resolve_dtypes
        types = [p.type for p in op.parameters if p.type is not None and known(p.type) is None]
        return list(dict.fromkeys(types))

    def _mask(self, name: str, span: syntax.Span) -> int:
        names = self.library.table.resolve_dtypes(name)
        if names is None:
            raise problem(f"no dtype or dtype class is called `{name}`", span)
        return Emitter(self.library, self.assembler).dtype_mask(names)

    def _shape(self, op: Op) -> tuple[int, int]:
        x = op.declaration.shape
        if x is None:
            return SHAPES["elementwise" if op.elementwise else "scalar"], -1
        if isinstance(x, syntax.Name) and x.name in SHAPES and x.name not in op.attributes:
            return SHAPES[x.name], -1
        return SHAPE_CODE, self._on_node(op, x)

    def _code(self, op: Op, x: syntax.Expression | None, prepare: Callable[[Emitter], None]) -> int:
        if x is None:
            return -1
        e = Emitter(self.library, self.assembler, scopes=(OP_TABLE,))
        prepare(e)
        e.emit("RETURN", compile_expression(e, x, False))
        return self.assembler.code(e.words)

    def _values(self, op: Op, x: syntax.Expression | None) -> int:
        """An evaluator: the sources' values are in the registers 0, 1, …"""

        def prepare(e: Emitter) -> None:
            e.next_register = len(op.parameters)
            e.names = {p.name: Binding(k) for k, p in enumerate(op.parameters)}

        return self._code(op, x, prepare)

    def _interval(self, op: Op, x: syntax.Expression | None) -> int:
        """One end of an interval: the ends of source k are in the registers 2k and 2k + 1."""

        def prepare(e: Emitter) -> None:
            e.next_register = 2 * len(op.parameters)
            for k, p in enumerate(op.parameters):
                e.names = {**e.names, f"lo {p.name}": Binding(2 * k), f"hi {p.name}": Binding(2 * k + 1)}

        return self._code(op, x, prepare)

    def _on_node(self, op: Op, x: syntax.Expression) -> int:
        """A shape or a check: the node is in register 0; sources and attributes have their names, its dtype is `T`."""

        def prepare(e: Emitter) -> None:
            e.next_register = 1
            for k, p in enumerate(op.parameters):
                register = e.register(op.declaration.span)
                if p.variadic:
                    e.emit("SOURCE_SLICE", register, 0, k, 0)
                elif not p.optional:
                    e.emit("SOURCE", register, 0, k)
                e.names = {**e.names, p.name: Binding(register, "node")}
            for k, name in enumerate(op.attributes):
                register = e.register(op.declaration.span)
                e.emit("GET_ATTR", register, 0, k)
                e.names = {**e.names, name: Binding(register)}
            register = e.register(op.declaration.span)
            e.emit("GET_DTYPE", register, 0)
            e.names = {"T": Binding(register), **e.names}

        return self._code(op, x, prepare)


def _constant(x: syntax.Expression) -> object:
    match x:
        case syntax.Literal():
            return x.value
        case syntax.Sequence():
            return tuple(_constant(item) for item in x.items)
    raise problem("a default must be a literal or a tuple of literals", x.span)


__all__ = ["OpTableCompiler", "RuleError"]
