"""Expressions to bytecode: templates, guards, `let`, `{...}`, and the op table's evaluators, intervals and shapes.

In a *template* (`build=True`) operators build nodes and a `const` capture is its node. When *computing*, operators
work on values and a `const` capture is its value. The machine decides by the kinds of the operands; only comparison
differs in code.
"""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.arguments import arguments_of
from rulegrad.lang.builtins import TAKES_NODES
from rulegrad.lang.compiler.assembler import BINARY, UNARY, DtypeName, OpName, RecordValue
from rulegrad.lang.compiler.forms import body_of_view, rows_of_table
from rulegrad.lang.compiler.scope import Binding, Emitter, problem, with_names
from rulegrad.lang.compiler.texts import compile_text
from rulegrad.lang.optable import INFIX_OPS, SWAPPED_OPS
from rulegrad.lang.quoted_steps import as_sequence
from rulegrad.lang.steps import Steps

MOST_ARGUMENTS = 16  # of a built-in function


def compile_expression(e: Emitter, x: syntax.Expression, build: bool) -> int:
    """Emits code for an expression; the register of its value. Temporaries are given back."""
    start = e.next_register
    around, e.here = e.here, x
    register = e.settle(start, _dispatch(e, x, build))
    e.here = around
    return register


def _dispatch(e: Emitter, x: syntax.Expression, build: bool) -> int:
    match x:
        case syntax.Literal():
            return e.constant(x.value, x.span)
        case syntax.Name():
            return _name(e, x, build)
        case syntax.Compute():
            return compile_expression(e, x.inner, False)
        case syntax.Infix():
            return _infix(e, x, build)
        case syntax.Prefix():
            return _prefix(e, x, build)
        case syntax.OpCall():
            return _op_call(e, x, build)
        case syntax.Call():
            return _call(e, x, build)
        case syntax.Sequence() | syntax.Comprehension() | syntax.SetLiteral() | syntax.Subscript() | syntax.Slice():
            return _of_sequence(e, x, build)
        case syntax.Record():
            return _record(e, x, build)
        case Steps():
            return compile_expression(e, as_sequence(x, e.library.table.forms), True)
        case syntax.Conditional():
            return _conditional(e, x, build)
        case syntax.Member():
            return _member(e, x)
        case syntax.Multiset():
            return _multiset(e, x, build)
        case syntax.Substitution():
            return _substitution(e, x, build)
        case syntax.Fold():
            return _fold(e, x, build)
        case syntax.Text():
            return compile_text(e, x, lambda e, field: _argument(e, field, True))
    raise problem("this cannot stand in an expression", x.span)


def _of_sequence(
    e: Emitter,
    x: syntax.Sequence | syntax.Comprehension | syntax.SetLiteral | syntax.Subscript | syntax.Slice,
    build: bool,
) -> int:
    """A sequence, or what is taken from one."""
    match x:
        case syntax.Sequence():
            return _sequence(e, x.items, build, x.span)
        case syntax.Comprehension():
            return _sequence(e, (x,), build, x.span)
        case syntax.SetLiteral():
            return _set(e, x)
        case syntax.Subscript():
            return _subscript(e, x)
        case syntax.Slice():
            return _slice(e, x)


def _constant_name(e: Emitter, name: str) -> object | None:
    """Ops, dtypes and classes by name."""
    table = e.library.table
    if name in table.ops:
        return OpName(name)
    if name in table.dtypes:
        return DtypeName(name)
    if name in table.op_classes:
        return tuple(OpName(n) for n in table.declared_order(table.op_classes[name]))
    if name in table.dtype_classes:
        return tuple(DtypeName(n) for n in table.declared_order(table.dtype_classes[name]))
    return rows_of_table(e.library, name)


def _name(e: Emitter, x: syntax.Name, build: bool) -> int:
    binding = e.names.get(x.name)
    if binding is None:
        value = _constant_name(e, x.name)
        if value is None:
            raise problem(f"`{x.name}` is not bound here", x.span)
        return e.constant(value, x.span)
    if not build and binding.kind in ("const", "consts"):
        register = e.register(x.span)
        e.emit("GET_VALUE", register, binding.register)
        return register
    return binding.register


def _argument(e: Emitter, x: syntax.Expression, as_node: bool, build: bool = False) -> int:
    """An argument of a built-in or function: a plain `const` name is its node when a node is wanted."""
    if as_node and isinstance(x, syntax.Name) and x.name in e.names:
        return e.names[x.name].register
    if isinstance(x, syntax.Comprehension):
        return _sequence(e, (x,), build, x.span)
    return compile_expression(e, x, build)


def _infix(e: Emitter, x: syntax.Infix, build: bool) -> int:
    start = e.next_register
    if x.operator in ("and", "or"):
        return _logic(e, x)
    if x.operator in ("in", "not in", "not-in"):
        left = compile_expression(e, x.left, False)
        right = compile_expression(e, x.right, False)
        register = e.result(start, x.span)
        e.emit("BINARY", register, BINARY["IN" if x.operator == "in" else "NOT_IN"], 0, left, right)
        return register
    left = compile_expression(e, x.left, build)
    right = compile_expression(e, x.right, build)
    operator = INFIX_OPS.get(x.operator)
    if operator is None:
        operator = SWAPPED_OPS[x.operator]
        left, right = right, left
    register = e.result(start, x.span)
    e.emit("BINARY", register, BINARY[operator], int(build), left, right)
    return register


def _logic(e: Emitter, x: syntax.Infix) -> int:
    result = e.register(x.span)
    left = compile_expression(e, x.left, False)
    e.emit("MOVE", result, left)
    leave = e.emit("JUMP_FALSE" if x.operator == "and" else "JUMP_TRUE", result, 0)
    right = compile_expression(e, x.right, False)
    e.emit("MOVE", result, right)
    e.patch(leave)
    return result


def _prefix(e: Emitter, x: syntax.Prefix, build: bool) -> int:
    if x.operator == "-" and isinstance(x.operand, syntax.Literal) and isinstance(x.operand.value, (int, float)):
        return e.constant(-x.operand.value, x.span)
    start = e.next_register
    logical = x.operator == "not"
    operand = compile_expression(e, x.operand, build and not logical)
    register = e.result(start, x.span)
    e.emit("UNARY", register, UNARY["LOGICAL_NOT" if logical else "NEG" if x.operator == "-" else "NOT"], operand)
    return register


def _conditional(e: Emitter, x: syntax.Conditional, build: bool) -> int:
    result = e.register(x.span)
    condition = compile_expression(e, x.condition, False)
    otherwise = e.emit("JUMP_FALSE", condition, 0)
    then = compile_expression(e, x.then, build)
    e.emit("MOVE", result, then)
    end = e.emit("JUMP", 0)
    e.patch(otherwise)
    other = compile_expression(e, x.otherwise, build)
    e.emit("MOVE", result, other)
    e.patch(end)
    return result


def _multiset(e: Emitter, x: syntax.Multiset, build: bool) -> int:
    """The chain of its members; 0, 1 or true when there are none."""
    start = e.next_register
    members = _sequence(e, x.items, build, x.span)
    register = e.result(start, x.span)
    name = {"sum": "sum", "prod": "prod", "all": "all_of"}[x.kind]
    e.emit("BUILTIN", register, e.assembler.builtin(name), 1, members)
    return register


def _substitution(e: Emitter, x: syntax.Substitution, build: bool) -> int:
    start = e.next_register
    parts = [x.inner, *(part for pair in x.pairs for part in pair)]
    if len(parts) > MOST_ARGUMENTS:
        raise problem(f"more than {MOST_ARGUMENTS // 2} pairs", x.span, "replace sequences: `subst(e, xs -> ys)`")
    arguments = [_argument(e, part, True, build) for part in parts]
    register = e.result(start, x.span)
    e.emit("BUILTIN", register, e.assembler.builtin("subst"), len(arguments), *arguments)
    return register


def _fold(e: Emitter, x: syntax.Fold, build: bool) -> int:
    start = e.next_register
    op = compile_expression(e, x.op, False)
    sequence = _argument(e, x.sequence, True, build)
    register = e.result(start, x.span)
    e.emit("BUILTIN", register, e.assembler.builtin("fold"), 2, op, sequence)
    return register


def _sequence(e: Emitter, items: tuple[syntax.Expression, ...], build: bool, span: syntax.Span) -> int:
    e.emit("BEGIN")
    mark = e.next_register
    for item in items:
        if isinstance(item, syntax.Splice):
            e.emit("EXTEND", compile_expression(e, item.inner, build))
        elif isinstance(item, syntax.Comprehension):
            _loop(e, item, build)
        else:
            e.emit("APPEND", compile_expression(e, item, build))
        e.next_register = mark
    register = e.register(span)
    e.emit("FINISH", register)
    return register


def _record(e: Emitter, x: syntax.Record, build: bool) -> int:
    start = e.next_register
    values = _sequence(e, x.values, build, x.span)
    register = e.result(start, x.span)
    e.emit("RECORD", register, values, e.assembler.constant(RecordValue(x.name, x.fields, (None,) * len(x.fields))))
    return register


def _loop(e: Emitter, x: syntax.Comprehension, build: bool) -> None:
    """Appends the body's value for each element to the sequence under construction."""
    iterable = compile_expression(e, x.iterable, build=False)
    counter = e.constant(0, x.span)
    item = e.register(x.span)
    start = len(e.words)
    leave = e.emit("ITERATE", counter, item, iterable, 0)
    names = dict(e.names)
    names.update(_unpacked(e, x.variables, item, x.span))
    outer = with_names(e, names)
    skip = None
    if x.condition is not None:
        skip = e.emit("JUMP_FALSE", compile_expression(e, x.condition, False), 0)
    if isinstance(x.body, syntax.Splice):
        e.emit("EXTEND", compile_expression(e, x.body.inner, build))
    else:
        e.emit("APPEND", compile_expression(e, x.body, build))
    if skip is not None:
        e.patch(skip)
    e.emit("JUMP", start)
    e.patch(leave)
    e.names = outer


def _unpacked(e: Emitter, names: tuple[str, ...], item: int, span: syntax.Span) -> dict[str, Binding]:
    """The variable of a loop, or several that the item is taken apart for."""
    if len(names) == 1:
        return {names[0]: Binding(item)}
    registers = [e.register(span) for _ in names]
    e.emit("UNPACK", item, len(registers), *registers)
    return {name: Binding(r) for name, r in zip(names, registers, strict=True)}


def _set(e: Emitter, x: syntax.SetLiteral) -> int:
    values: list[object] = []
    for item in x.items:
        value: object = item.value if isinstance(item, syntax.Literal) else None
        if isinstance(item, syntax.Name) and item.name not in e.names:
            value = _constant_name(e, item.name)
        if value is None:
            return _sequence(e, x.items, False, x.span)
        values.extend(value if isinstance(value, tuple) else (value,))
    return e.constant(tuple(values), x.span)


def _subscript(e: Emitter, x: syntax.Subscript) -> int:
    start = e.next_register
    sequence = _argument(e, x.sequence, True)
    index = compile_expression(e, x.index, False)
    register = e.result(start, x.span)
    named = x.sequence.name if isinstance(x.sequence, syntax.Name) else ""
    is_lookup = named not in e.names and named in e.library.tables
    e.emit("FIND" if is_lookup else "SUBSCRIPT", register, sequence, index)
    return register


def _slice(e: Emitter, x: syntax.Slice) -> int:
    base = e.next_register
    sequence = _argument(e, x.sequence, True)
    start = compile_expression(e, x.start, False) if x.start is not None else -1
    stop = compile_expression(e, x.stop, False) if x.stop is not None else -1
    register = e.result(base, x.span)
    e.emit("SLICE", register, sequence, start, stop)
    return register


def _member(e: Emitter, x: syntax.Member) -> int:
    start = e.next_register
    owner = _argument(e, x.owner, True)
    register = e.result(start, x.span)
    e.emit("GET_MEMBER", register, owner, e.assembler.constant(x.name))
    return register


def _call(e: Emitter, x: syntax.Call, build: bool) -> int:
    library, name = e.library, x.function
    if name in e.generics.ops:
        return _build(e, None, name, (), x.arguments, build, x.span)
    op = library.table.by_function_name.get(name)
    declared = any(name in g for g in (library.dataflow, library.functions, library.definitions, library.externs))
    known = declared or e.has_builtin(name)
    if op is not None and (build or not known):
        return _build(e, op, None, (), x.arguments, build, x.span)
    if name in library.definitions:
        return _definition(e, library.definitions[name], x, build)
    if name in library.views:
        view = library.views[name]
        body = body_of_view(view)
        return _definition(e, syntax.Definition(name, view.parameters, (), body, view.span), x, build)
    if name in library.dataflow or name in library.functions or name in library.externs:
        start = e.next_register
        arguments = [_argument(e, a, name in library.functions) for a in x.arguments]
        register = e.result(start, x.span)
        if name not in library.externs:
            number = e.assembler.function_number(library.dataflow.get(name, name))
            e.emit("FUNCTION", register, number, len(arguments), *arguments)
        else:
            e.emit("EXTERN", register, e.assembler.extern(name), len(arguments), *arguments)
        return register
    if name == "given":
        return _nested(e, name, x.arguments, build, x.span)
    if name == "rewritten":
        return _nested(e, name, x.arguments[:1], build, x.span, x.arguments[1])
    if e.has_builtin(name):
        return _builtin(e, x)
    raise problem(f"no function, op or definition is called `{name}`", x.span)


def _nested(
    e: Emitter,
    kind: str,
    parts: tuple[syntax.Expression, ...],
    build: bool,
    span: syntax.Span,
    ruleset: syntax.Expression | None = None,
) -> int:
    """`rewritten` and `given`: functions without rules that run a pass on a part of a template."""
    runs = e.library.running
    e.library.depends = e.library.depends or ruleset is None
    if ruleset is not None:
        runs = f"rules {ruleset.name}" if isinstance(ruleset, syntax.Name) else None
    if runs is None:
        if e.library.chooses:
            hint = "name the rules that simplify: `use RULESET`"
            raise problem(f"`{kind}` stands in a choose pass without a `use` line", span, hint)
        hint = "use the rule in a pass `rewrite children_first` or `rewrite parents_first`"
        raise problem(f"`{kind}` stands in a pass that does not rewrite to a fixed point", span, hint)
    start = e.next_register
    arguments = [_argument(e, part, True, build) for part in parts]
    register = e.result(start, span)
    e.emit("FUNCTION", register, e.assembler.nested_function(kind, runs), len(arguments), *arguments)
    return register


def _builtin(e: Emitter, x: syntax.Call) -> int:
    if x.function in ("lo", "hi"):
        return _end_of_interval(e, x)
    start = e.next_register
    arguments = [_argument(e, a, x.function in TAKES_NODES) for a in x.arguments]
    register = e.result(start, x.span)
    e.emit("BUILTIN", register, e.assembler.builtin(x.function), len(arguments), *arguments)
    return register


def _end_of_interval(e: Emitter, x: syntax.Call) -> int:
    """In the op table's intervals, lo(a) and hi(a) are registers of their own."""
    source = x.arguments[0]
    found = e.names.get(f"{x.function} {source.name}") if isinstance(source, syntax.Name) else None
    if found is None:
        raise problem(f"`{x.function}` takes a source of the op, in an `interval` line", x.span)
    return found.register


def _definition(e: Emitter, definition: syntax.Definition, x: syntax.Call, build: bool) -> int:
    """Expands a `def`: its arguments are evaluated once, its `let` lines in the mode of the place where it is used."""
    names: dict[str, Binding] = {}
    for parameter, argument in zip(definition.parameters, arguments_of(definition, x), strict=True):
        kind = (
            e.names[argument.name].kind if isinstance(argument, syntax.Name) and argument.name in e.names else "value"
        )
        names[parameter] = Binding(_argument(e, argument, build, build), kind if build else "value")
    outer = with_names(e, names)
    for clause in definition.lets:
        compile_let(e, clause, build)
    register = compile_expression(e, definition.body, build)
    e.names = outer
    return register


def compile_let(e: Emitter, clause: syntax.Clause, build: bool = False) -> None:
    """`let name = expression` or `let (a, b) = expression`."""
    assert clause.expression is not None
    register = compile_expression(e, clause.expression, build)
    e.names = {**e.names, **_unpacked(e, clause.names, register, clause.span)}


def compile_for(e: Emitter, clause: syntax.Clause) -> None:
    """`for name in sequence`: its items, one after the other, until what follows does not fail."""
    assert clause.expression is not None
    sequence = compile_expression(e, clause.expression, False)
    counter, item = e.constant(0, clause.span), e.register(clause.span)
    e.emit("PICK", counter, item, sequence, -1, 0)
    e.names = {**e.names, **_unpacked(e, clause.names, item, clause.span)}


def _op_call(e: Emitter, x: syntax.OpCall, build: bool) -> int:
    if x.op in e.generics.ops:
        return _build(e, None, x.op, x.attributes, x.arguments, build, x.span)
    return _build(e, x.op, None, x.attributes, x.arguments, build, x.span)


def _build(
    e: Emitter,
    op: str | None,
    variable: str | None,
    attributes: tuple[syntax.Attribute, ...],
    arguments: tuple[syntax.Expression, ...],
    build: bool,
    span: syntax.Span,
) -> int:
    """BUILD: op or op variable, dtype, node whose attributes are taken, attributes, sources."""
    start = e.next_register
    op_register = e.names[variable].register if variable is not None else -1
    dtype, spread, given = _attributes(e, op, variable, attributes)
    if op == "CONST" and len(arguments) == 1:  # CONST[T](v)
        place = list(e.library.table.ops[op].attributes).index("value")
        given.extend((place, compile_expression(e, arguments[0], False)))
        arguments = ()
    sources = _sources(e, arguments, build)
    register = e.result(start, span)
    number = e.library.table.ops[op].number if op is not None else -1
    e.emit("BUILD", register, number, op_register, dtype, spread, len(given) // 2, *given, len(sources), *sources)
    return register


def _attributes(
    e: Emitter, op: str | None, variable: str | None, attributes: tuple[syntax.Attribute, ...]
) -> tuple[int, int, list[int]]:
    """The registers of the dtype and of the node whose attributes are taken, or -1; places and registers of others."""
    declared = list(e.library.table.ops[op].attributes) if op is not None else []
    dtype = spread = -1
    given: list[int] = []
    for attribute in attributes:
        if attribute.name == "..":
            spread = _argument(e, attribute.value, True)
            continue
        register = compile_expression(e, attribute.value, False)
        positional_dtype = attribute.name is None and op is not None and e.library.table.ops[op].explicit
        if (attribute.name == "dtype" and "dtype" not in declared) or positional_dtype:
            dtype = register
            continue
        name = attribute.name if attribute.name is not None else declared[0] if declared else None
        if name not in declared:
            raise problem(f"{op or variable} has no attribute `{name}`", attribute.span)
        given.extend((declared.index(name), register))
    return dtype, spread, given


def _sources(e: Emitter, arguments: tuple[syntax.Expression, ...], build: bool) -> list[int]:
    """The registers of sources; -(r + 1) of a sequence of them."""
    sources: list[int] = []
    for argument in arguments:
        if isinstance(argument, syntax.Splice):
            sources.append(-(compile_expression(e, argument.inner, build) + 1))
        elif isinstance(argument, syntax.Comprehension):
            sources.append(-(compile_expression(e, argument, build) + 1))
        else:
            sources.append(compile_expression(e, argument, build))
    return sources
