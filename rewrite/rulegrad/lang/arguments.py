"""The arguments of a call of a `def` or a record: some may have names, or come from another record."""

from __future__ import annotations

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.diagnostics import Diagnostic, did_you_mean


def arguments_of(definition: syntax.Definition, call: syntax.Call) -> tuple[syntax.Expression, ...]:
    """Those of a call, in the order of the parameters; raises RuleError.

    `f(1, b=2)` gives a parameter by its name, and `r(..other, b=2)` takes the other fields of a record from another.
    """
    parameters, label = definition.parameters, f"`{definition.name}`"
    if not any(isinstance(argument, syntax.Attribute) for argument in call.arguments):
        if len(call.arguments) != len(parameters):
            raise _wrong_count(definition, call)
        return call.arguments
    given, copied = _given(definition, call)
    if copied and len(given) == len(parameters):
        raise _error("duplicate-key", "nothing is copied: all fields are given", copied.span, "leave `..` out")
    missing = [parameter for parameter in parameters if parameter not in given]
    if missing and not copied:
        message = f"{label} is called without {', '.join(f'`{name}`' for name in missing)}"
        raise _error("wrong-argument-count", message, call.span, "give each of its " + _noun(definition) + "s")
    return tuple(
        syntax.Member(copied.span, copied.value, name) if copied and name not in given else given[name]
        for name in parameters
    )


def _given(
    definition: syntax.Definition, call: syntax.Call
) -> tuple[dict[str, syntax.Expression], syntax.Attribute | None]:
    """The arguments of a call by the names of their parameters, and `..other`. Raises RuleError."""
    parameters, label = definition.parameters, f"`{definition.name}`"
    given: dict[str, syntax.Expression] = {}
    copied: syntax.Attribute | None = None
    for place, argument in enumerate(call.arguments):
        if not isinstance(argument, syntax.Attribute):
            if place >= len(parameters):
                raise _wrong_count(definition, call)
            if place and isinstance(call.arguments[place - 1], syntax.Attribute):
                message = "an argument without a name stands behind one with a name"
                raise _error("wrong-argument-count", message, argument.span, "give it its name")
            given[parameters[place]] = argument
        elif argument.name == "..":
            if not definition.is_record:
                message = f"{label} is a `def`, and `..` takes the fields of a record"
                raise _error("unnamed-attribute", message, argument.span, "give its arguments one by one")
            if copied is not None:
                raise _error("duplicate-key", "a second record to copy", argument.span, "leave one out")
            copied = argument
        elif argument.name not in parameters:
            hint = did_you_mean(str(argument.name), parameters) or "it has " + ", ".join(parameters)
            message = f"{label} has no {_noun(definition)} `{argument.name}`"
            raise _error("unknown-field", message, argument.span, hint)
        elif argument.name in given:
            raise _error("duplicate-key", f"`{argument.name}` is given twice", argument.span, "leave one out")
        else:
            given[argument.name] = argument.value
    return given, copied


def _noun(definition: syntax.Definition) -> str:
    return "field" if definition.is_record else "parameter"


def _wrong_count(definition: syntax.Definition, call: syntax.Call) -> RuleError:
    wanted, count = len(definition.parameters), len(call.arguments)
    noun = "argument" if wanted == 1 else "arguments"
    return _error("wrong-argument-count", f"`{definition.name}` takes {wanted} {noun}, not {count}", call.span)


def _error(code: str, message: str, span: syntax.Span, hint: str = "") -> RuleError:
    diagnostic = Diagnostic(code, message, span, hint)
    return RuleError(str(diagnostic), (diagnostic,))
