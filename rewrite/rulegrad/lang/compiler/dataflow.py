"""Facts of collect passes and states of flow passes: functions without rules, whose values the engine computes."""

from __future__ import annotations

from typing import Any

from rulegrad.lang import syntax
from rulegrad.lang.compiler.assembler import CompiledDataflow, CompiledFunction, DtypeName, OpName
from rulegrad.lang.compiler.rules import RuleCompiler
from rulegrad.lang.compiler.scope import problem

MERGES = ("first", "min", "max", "sum", "count", "all", "number", "any", "every", "union", "")


def compile_dataflow(rules: RuleCompiler, declaration: syntax.Pass) -> list[CompiledDataflow]:
    """Compiles a pass's facts and states; rules that are compiled until `library.dataflow` is cleared can call them."""
    assembler, library = rules.assembler, rules.library
    found: dict[str, CompiledDataflow] = {}

    def declare(name: str, keys: int, merge: str, initial: Any) -> None:
        full = f"{declaration.name}.{name}"
        number = len(assembler.functions)
        assembler.functions.append(CompiledFunction(full, keys))
        found[name] = CompiledDataflow(name, number, MERGES.index(merge), initial, [])
        library.dataflow = {**library.dataflow, name: full}

    for fact in declaration.facts:
        if fact.name not in found:
            declare(fact.name, len(fact.keys), fact.merge, None)
        found[fact.name].alternatives.extend(rules.compile(declaration.name, fact.rule))
    for state in declaration.states:
        declare(state.name, 1, state.join, _constant(rules, state.initial))
    for send in declaration.sends:
        found[send.state or declaration.states[0].name].alternatives.extend(rules.compile(declaration.name, send.rule))
    return list(found.values())


def _constant(rules: RuleCompiler, x: syntax.Expression) -> Any:
    """The initial value of a state: a literal, an op, a dtype, or a sequence of them."""
    match x:
        case syntax.Literal():
            return x.value
        case syntax.Sequence():
            return tuple(_constant(rules, item) for item in x.items)
        case syntax.Name(name=name) if name in rules.library.table.ops:
            return OpName(name)
        case syntax.Name(name=name) if name in rules.library.table.dtypes:
            return DtypeName(name)
    raise problem("a state starts as a number, a text, an op, a dtype, or a sequence of them", x.span)
