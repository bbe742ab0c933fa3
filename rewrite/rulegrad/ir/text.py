"""The text form of a graph: one line a node, sources first. Parsing it gives the same node back.

%0 = CONST[value=4]:index()
%1 = RANGE[id=0, kind="output"]:index(%0)
"""

from __future__ import annotations

import re
from typing import Any

from rulegrad._core import UOp
from rulegrad.errors import GraphError

# Compiled by `re` when a text is first parsed, which few programs do.
_LINE = r"\s*%(?P<name>\w+) = (?P<op>\w+)(?:\[(?P<attributes>.*)\])?:(?P<dtype>\w+)\((?P<sources>[^()]*)\)\s*$"
_TOKEN = (
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<float>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b|nan\b))'
    r"|(?P<int>-?\d+)|(?P<name>[A-Za-z_]\w*)|(?P<mark>[()=,])"
)
_ESCAPE = r"(?s)\\(?:x([0-9a-f]{2})|(.))"
_WORDS = {"true": True, "false": False}
_DEEPEST = 64  # nested tuples


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
    # Not splitlines: a string may hold any other character that ends lines.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            name, last = _parse_line(line, nodes)
        except (GraphError, ValueError) as error:  # ValueError: an integer with thousands of digits
            raise GraphError(f"line {number}: {error}") from None
        nodes[name] = last
    if last is None:
        raise GraphError("the text has no node")
    return last


def _parse_line(line: str, nodes: dict[str, UOp]) -> tuple[str, UOp]:
    found = re.match(_LINE, line)
    if found is None:
        raise GraphError(f"expected `%name = OP[attributes]:dtype(sources)`, found {line.strip()!r}")
    if found["name"] in nodes:
        raise GraphError(f"%{found['name']} is defined twice")
    sources = []
    for source in found["sources"].split(",") if found["sources"].strip() else ():
        name = source.strip()
        if not name.startswith("%"):
            raise GraphError(f"expected `%name`, found {name!r}: a source is written `%name`")
        if name[1:] not in nodes:
            raise GraphError(f"{name} is not defined above")
        sources.append(nodes[name[1:]])
    attributes = _Attributes(found["attributes"] or "").parse()
    return found["name"], UOp(found["op"], tuple(sources), found["dtype"], **attributes)


class _Attributes:
    """`a=1, b="x", shape=(2, 3)` as a dictionary; names of ops and dtypes stay text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._skip_spaces():
            kind, name = self._take()
            if kind != "name" or not self._accept("="):
                raise GraphError(f"expected `attribute=value` in {self._text!r}")
            if name in found:
                raise GraphError(f"the attribute {name} is given twice")
            found[name] = self._value(0)
            if self._skip_spaces() and not self._accept(","):
                raise self._unexpected("`,`")
        return found

    def _value(self, depth: int) -> Any:
        kind, token = self._take()
        if kind == "string":
            return re.sub(_ESCAPE, lambda m: chr(int(m[1], 16)) if m[1] else "\n" if m[2] == "n" else m[2], token[1:-1])
        if kind == "int":
            return int(token)
        if kind == "float":
            return float(token)
        if kind == "name":
            return _WORDS.get(token, token)
        if token != "(" or depth == _DEEPEST:
            raise self._unexpected("a value")
        items = []
        while not self._accept(")"):
            items.append(self._value(depth + 1))
            if not self._accept(","):
                if not self._accept(")"):
                    raise self._unexpected("`,` or `)`")
                break
        return tuple(items)

    def _skip_spaces(self) -> bool:
        """Whether anything is left."""
        while self._text[self._at : self._at + 1] == " ":
            self._at += 1
        return self._at < len(self._text)

    def _take(self) -> tuple[str, str]:
        self._skip_spaces()
        found = re.compile(_TOKEN).match(self._text, self._at)
        if found is None:
            raise self._unexpected("a value")
        self._at = found.end()
        return str(found.lastgroup), found[0]

    def _accept(self, mark: str) -> bool:
        self._skip_spaces()
        if not self._text.startswith(mark, self._at):
            return False
        self._at += 1
        return True

    def _unexpected(self, what: str) -> GraphError:
        return GraphError(f"expected {what}, found {self._text[self._at : self._at + 20]!r} in the attributes")
