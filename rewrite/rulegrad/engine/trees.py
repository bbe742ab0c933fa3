"""Syntax trees as bytes: our rule files come with the package as they were parsed and compiled when it was built."""

from __future__ import annotations

import dataclasses
import io
import pickle
import sys
from typing import Any, Final, NamedTuple

from rulegrad.lang.compiler.assembler import Pooled
from rulegrad.lang.compiler.reuse import Known
from rulegrad.lang.modules import Renamed
from rulegrad.lang.parser.expressions import LITERALS
from rulegrad.lang.syntax import File, Literal, Span

_NAN: Final = LITERALS["nan"]


class Trees(NamedTuple):
    """Files, and what was made of them. A tree is known by its identity, so all are written together."""

    files: list[File]
    renamed: list[Renamed]
    compiled: Known


def to_bytes(trees: Trees) -> bytes:
    """The trees, to be read by the same version of the package."""
    written = io.BytesIO()
    _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(trees)
    return written.getvalue()


def from_bytes(data: bytes) -> Trees:
    """The trees that `to_bytes` was given. Only for bytes that come with the package: a pickle can run code."""
    found: Trees = pickle.loads(data)
    return found


class _Pickler(pickle.Pickler):
    """Writes nodes as calls of their classes, which are read twice as fast as what dataclasses write."""

    def reducer_override(self, node: Any) -> Any:
        """How a node is made again."""
        if isinstance(node, Pooled):
            return _pooled, (int(node), node.pool, *node.content)
        if isinstance(node, type) or not dataclasses.is_dataclass(node):
            return NotImplemented
        if isinstance(node, Literal) and node.value is _NAN:
            return _nan, (node.span,)
        values = (getattr(node, field.name) for field in dataclasses.fields(node))
        return type(node), tuple(sys.intern(value) if type(value) is str else value for value in values)


def _nan(span: Span) -> Literal:
    """A nan, which equals another one only where it is the same object."""
    return Literal(span, _NAN)


def _pooled(number: int, pool: str, *content: Any) -> Pooled:
    return Pooled.at(number, pool, *content)
