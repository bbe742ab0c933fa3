"""The text of a step of a schedule, as the op table's `step` lines say it: `split {loop} by {by} tail {tail}`.

Printing and reading both follow from that line and from the declarations of the op's attributes. A path of a loop is
written with dots, `i0.inner`, a field `{loops...}` is several with commas between them, where `(i0, k0, 2)` is one
item of several parts; a word and its field may be left out where the attribute has a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

_PIECE: Final = re.compile(r"\s*(?:\{(?P<field>\w+)(?P<several>\.\.\.)?\}|(?P<word>[A-Za-z_]\w*|,)|(?P<other>\S))")
#: What attributes of a step can be, and how messages call their values.
KINDS: Final = {"tuple": "a loop", "int": "a number", "str": "a word"}


class Attribute(NamedTuple):
    """An attribute as it is declared; values: the texts that it may be, if it says so."""

    name: str
    type: str
    required: bool
    default: int | float | str | None
    values: tuple[str, ...]


class Piece(NamedTuple):
    """A word (or a comma) of a form, or the field of an attribute."""

    word: str
    field: str
    several: bool


@cache
def _pieces(text: str) -> tuple[Piece, ...]:
    found = _PIECE.finditer(text)
    return tuple(Piece(m["word"] or "", m["field"] or "", bool(m["several"])) for m in found if not m["other"])


class Form(NamedTuple):
    """How the steps of one op are written."""

    op: str
    text: str
    attributes: tuple[Attribute, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The words and fields of the text, in order; `problem` is about what is neither."""
        return _pieces(self.text)

    @property
    def keyword(self) -> str:
        """The word that the step begins with."""
        return self.pieces[0].word if self.pieces else ""

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of a field."""
        return next((a for a in self.attributes if a.name == name), None)

    def may_be_left_out(self, number: int) -> bool:
        """Whether a word stands there with a field behind it that has a default."""
        if number == 0 or number + 1 >= len(self.pieces) or self.pieces[number].word in ("", ","):
            return False
        attribute = self.attribute(self.pieces[number + 1].field)
        return attribute is not None and not attribute.required

    def problem(self) -> str:
        """The problem with the text, or ""."""
        bad = next((m["other"] for m in _PIECE.finditer(self.text) if m["other"]), "")
        if bad:
            return f"`{bad}` is neither a word nor a field such as `{{loop}}`"
        if not self.keyword.isidentifier():
            return "it begins with a word"
        fields = [piece.field for piece in self.pieces if piece.field]
        for name in fields:
            attribute = self.attribute(name)
            if attribute is None:
                return f"{self.op} has no attribute `{name}`"
            if attribute.type not in KINDS:
                return f"the attribute `{name}` is of type {attribute.type}; a step has " + ", ".join(KINDS)
        missing = [f"`{{{a.name}}}`" for a in self.attributes if a.name not in fields]
        return f"it lacks {', '.join(missing)}" if missing else ""

    def written(self, values: Mapping[str, object]) -> str:
        """A step with these values of its attributes; those that are the default's are left out."""
        pieces, number, text = self.pieces, 0, ""
        while number < len(pieces):
            word, field, several = pieces[number]
            if self.may_be_left_out(number) and _is_default(self.attribute(pieces[number + 1].field), values):
                number += 2
                continue
            shown = _shown(values[field], several) if field else word
            text += shown if word == "," or not shown else f" {shown}"
            number += 1
        return text.strip()


def _is_default(attribute: Attribute | None, values: Mapping[str, object]) -> bool:
    return attribute is not None and values.get(attribute.name, attribute.default) == attribute.default


def _shown(value: object, several: bool) -> str:
    if not isinstance(value, tuple):
        return str(value)
    if not several and all(isinstance(part, str) for part in value):
        return ".".join(value)
    items = ", ".join(_shown(part, False) for part in value)
    return items if several else f"({items})"
