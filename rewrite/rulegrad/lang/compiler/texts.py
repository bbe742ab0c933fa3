"""Texts of render passes to bytecode."""

from __future__ import annotations

from collections.abc import Callable

from rulegrad.lang import syntax
from rulegrad.lang.compiler.scope import Emitter


def compile_text(e: Emitter, x: syntax.Text, compile_field: Callable[[Emitter, syntax.Expression], int]) -> int:
    """A render template: (kind, precedence, parts, closing parts); a field is (value, modifier), with a separator
    (sequence, modifier, separator)."""

    def parts(pieces: tuple[str | syntax.Field, ...]) -> int:
        e.emit("BEGIN")
        mark = e.next_register
        for piece in pieces:
            if isinstance(piece, str):
                e.emit("APPEND", e.constant(piece, x.span))
            else:
                value = compile_field(e, piece[0])
                modifier = e.constant(piece[1], x.span)
                e.emit("BEGIN")
                e.emit("APPEND", value)
                e.emit("APPEND", modifier)
                if piece[2] is not None:
                    e.emit("APPEND", e.constant(piece[2], x.span))
                pair = e.register(x.span)
                e.emit("FINISH", pair)
                e.emit("APPEND", pair)
            e.next_register = mark
        register = e.register(x.span)
        e.emit("FINISH", register)
        return register

    registers = [
        e.constant(x.kind, x.span),
        e.constant(x.precedence, x.span),
        parts(x.parts),
        parts(x.close),
    ]
    e.emit("BEGIN")
    for register in registers:
        e.emit("APPEND", register)
    result = e.register(x.span)
    e.emit("FINISH", result)
    return result
