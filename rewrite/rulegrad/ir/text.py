"""The text form of a graph: one line a node, sources first. Parsing it gives the same node back.

%0 = CONST[value=4]:index
%1 = RANGE[id=0, kind="output"]:index(%0)
"""

from __future__ import annotations

import ast
import re
from typing import Any

from rulegrad._core import UOp
from rulegrad.errors import GraphError

_LINE = re.compile(
    r"\s*%(?P<name>\w+) = (?P<op>\w+)(?:\[(?P<attributes>.*)\])?:(?P<dtype>\w+)\((?P<sources>[^()]*)\)\s*$"
)
_WORDS = {"true": "True", "false": "False", "none": "None"}
_SPECIAL = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def format_uop(uop: UOp) -> str:
    """The graph below a node as text, a line a node.

    >>> from rulegrad import UOp
    >>> print(UOp.const(1, "int32") + 2)
    %0 = CONST[value=1]:int32()
    %1 = CONST[value=2]:int32()
    %2 = ADD:int32(%0, %1)
    """
    numbers: dict[UOp, int] = {}
    lines = []
    for node in uop.toposort():
        numbers[node] = len(numbers)
        sources = ", ".join(f"%{numbers[s]}" for s in node.src)
        lines.append(f"%{numbers[node]} = {node.describe()}({sources})")
    return "\n".join(lines)


def repr_uop(uop: UOp) -> str:
    """One line: the node without its sources.

    >>> from rulegrad import UOp
    >>> UOp.const(1, "int32")
    <UOp CONST[value=1]:int32>
    """
    return f"<UOp {uop.describe()}>"


def parse_uop(text: str) -> UOp:
    """The node that a text describes: the last line's. Raises GraphError with the line's number.

    >>> from rulegrad import UOp
    >>> u = UOp.const(1, "int32") + 2
    >>> UOp.parse(str(u)) == u
    True
    """
    nodes: dict[str, UOp] = {}
    last: UOp | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _LINE.match(line)
        if found is None:
            raise GraphError(f"line {number}: expected `%name = OP[attributes]:dtype(sources)`, found {line.strip()!r}")
        sources = [s.strip().removeprefix("%") for s in found["sources"].split(",") if s.strip()]
        for source in sources:
            if source not in nodes:
                raise GraphError(f"line {number}: %{source} is not defined above")
        try:
            attributes = _attributes(found["attributes"] or "")
            last = _node(found["op"], tuple(nodes[s] for s in sources), found["dtype"], attributes)
        except (GraphError, ValueError, SyntaxError) as error:
            raise GraphError(f"line {number}: {error}") from None
        nodes[found["name"]] = last
    if last is None:
        raise GraphError("the text has no node")
    return last


def _node(op: str, sources: tuple[UOp, ...], dtype: str, attributes: dict[str, Any]) -> UOp:
    node = UOp(op, sources, dtype, **attributes)
    return node


def _attributes(text: str) -> dict[str, Any]:
    """`a=1, b="x", shape=(2, 3)` as a dictionary; names of ops and dtypes stay text."""
    found: dict[str, Any] = {}
    for part in _split(text):
        name, _, value = part.partition("=")
        found[name.strip()] = _value(value.strip())
    return found


def _split(text: str) -> list[str]:
    """At the commas outside brackets and quotes."""
    parts, depth, start, quoted, escaped = [], 0, 0, False, False
    for place, character in enumerate(text):
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [p for p in (*parts, text[start:]) if p.strip()]


def _value(text: str) -> Any:
    if text in _SPECIAL:
        return _SPECIAL[text]
    if text.startswith("("):
        return tuple(_value(part.strip()) for part in _split(text[1:-1]))
    if re.fullmatch(r"[A-Za-z_]\w*", text) and text not in _WORDS:
        return text
    return ast.literal_eval(_WORDS.get(text, text))
