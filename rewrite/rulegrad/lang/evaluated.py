"""From the declarations of ops to terms."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.terms import Evaluated, Term


def evaluated(op: syntax.OpDeclaration) -> Evaluated:
    """The evaluator and the identity that a declaration gives an op, as terms.

    >>> from rulegrad.lang.parser import parse_file
    >>> text = "op RELU(a: T) -> T where T: Float\\n    eval a if a > 0 else 0.0\\n"
    >>> evaluated(*parse_file(text, "relu.rules").declarations).evaluator
    ('where', ('>', 'a', 0), 'a', 0.0)
    """
    parameters = tuple(parameter.name for parameter in op.parameters)
    evaluator, identity = (None if x is None else _term(x) for x in (op.evaluator, op.identity))
    return Evaluated(parameters, evaluator, identity, tuple(op.flags), f"{op.span.file}:{op.span.line}")


def _term(x: syntax.Expression) -> Term:
    match x:
        case syntax.Name(name=name):
            return name
        case syntax.Literal(value=bool() | int() | float() as value):
            return value
        case syntax.Conditional(condition=condition, then=then, otherwise=otherwise):
            return ("where", _term(condition), _term(then), _term(otherwise))
        case syntax.Prefix(operator=operator, operand=operand):
            return ("negate" if operator == "-" else operator, _term(operand))
        case syntax.Infix(operator=operator, left=left, right=right):
            return (operator, _term(left), _term(right))
        case syntax.Call(function=function, arguments=arguments):
            return (function, *map(_term, arguments))
    return (type(x).__name__,)  # which no function is called
