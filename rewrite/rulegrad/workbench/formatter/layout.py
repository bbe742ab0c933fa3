"""One entry on lines of at most 120 columns.

A line that is too long is broken where it is joined most loosely: after `->`, after commas, before `for`, before
`if` and `else`, before operators from `or` to `*`. As much as fits stays on a line; a piece that would fit on a line
of its own is not broken. The lines inside a bracket are indented by four spaces against the line that opens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rulegrad.lang.lexer import NAME, STRING, SYMBOL
from rulegrad.workbench.formatter.entries import DECLARATION, DEFINITION, EXPRESSION, PROPERTY, ROW, RULE, Entry, Word
from rulegrad.workbench.formatter.spacing import CLOSING, OPENING

WIDTH = 120
INDENT = 4
_COMMENTED = 10_000  # the width of what has a comment in it: it fits nowhere

# Where an entry may be broken, from loosest to tightest; outside brackets the first three in any entry.
_ARROW, _STRING, _COLON, _EQUALS, _COMMA, _NAME, _FOR, _CHOICE = range(8)
_OPERATORS = {
    "or": 8, "and": 9,
    "in": 10, "not": 10, "==": 10, "!=": 10, "<": 10, "<=": 10, ">": 10, ">=": 10,
    "|": 11, "^": 12, "&": 13, "<<": 14, ">>": 14, "+": 15, "-": 15, "*": 16, "/": 16, "//": 16, "%": 16,
}  # fmt: skip
_STEP = -1  # after the `;` of a step: each stands on a line of its own
_IN_HEAD = (_ARROW, _STRING, _COLON)
_LISTS = ("class", "flags", "levels", "has", "dtypes", "flag")  # properties that are names


@dataclass(slots=True)
class Bracket:
    """A bracket with what is inside."""

    opening: Word
    inner: list[Node]
    closing: Word


Node = Word | Bracket


def layout(entry: Entry) -> list[str]:
    """The lines of an entry whose words are spaced."""
    last = entry.words[-1]
    remark, last.remark = last.remark, ""
    lines = _broken(entry)
    last.remark = remark
    return [*lines[:-1], f"{lines[-1]}  {remark}"] if remark else lines


def _broken(entry: Entry) -> list[str]:
    nodes, _ = _nested(entry.words, 0)
    writer = _Writer(entry)
    if entry.kind == DEFINITION and not writer.fits(nodes, 0):
        end = 1 + next(k for k, node in enumerate(nodes) if _text(node) == "=")
        if nodes[end:]:
            return _definition(entry, nodes[:end], nodes[end:])
    writer.write(nodes, writer.continuation, 0, False)
    return writer.finished()


def _definition(entry: Entry, head: list[Node], value: list[Node]) -> list[str]:
    """A `def` with its expression below it."""
    writer = _Writer(entry)
    writer.write(head, writer.continuation, 0, False)
    below = _Writer(replace(entry, kind=EXPRESSION, level=entry.level + 1))
    below.write(value, below.continuation, 0, False)
    return writer.finished() + below.finished()


def flat_width(nodes: Sequence[Node]) -> int:
    """The width on one line, with the spaces before the first word."""
    return sum(_width(node) for node in nodes)


def _width(node: Node) -> int:
    if isinstance(node, Bracket):
        return _width(node.opening) + flat_width(node.inner) + _width(node.closing)
    commented = _COMMENTED if node.above or node.remark else 0
    return node.spaces + len(node.text) + commented


def _nested(words: Sequence[Word], start: int) -> tuple[list[Node], int]:
    """The nodes from `start` to the bracket that closes them, and its place."""
    nodes: list[Node] = []
    while start < len(words):
        word = words[start]
        text = word.text if word.token.kind == SYMBOL else ""
        if text in CLOSING:
            break
        if text in OPENING:
            inner, start = _nested(words, start + 1)
            nodes.append(Bracket(word, inner, words[start]))
        else:
            nodes.append(word)
        start += 1
    return nodes, start


class _Writer:
    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.lines: list[str] = []
        self.indent = entry.level * INDENT
        self.line = " " * self.indent
        self.remarked = False  # the line ends with a comment
        value_column = len(entry.head) + entry.words[1].spaces if entry.kind == PROPERTY else INDENT
        self.continuation = self.indent + value_column

    def finished(self) -> list[str]:
        return [line.rstrip() for line in (*self.lines, self.line)]

    # ---- words ----

    def new_line(self, indent: int) -> None:
        """Begins a line, unless nothing is on this one yet."""
        if self.line.strip():
            self.lines.append(self.line)
        self.indent = indent
        self.line = " " * indent
        self.remarked = False

    def word(self, word: Word, indent: int) -> None:
        if not (self.lines or self.line.strip()):
            indent = self.indent  # the first word stays left of what goes on below it
        if word.above or self.remarked:
            self.new_line(indent)
        for comment in word.above:
            self.lines.append(" " * indent + comment)
        self.line += " " * word.spaces * bool(self.line.strip()) + word.text
        if word.remark:
            self.line += "  " + word.remark
            self.remarked = True

    def flat(self, nodes: Sequence[Node], indent: int) -> None:
        for node in nodes:
            if isinstance(node, Bracket):
                self.word(node.opening, indent)
                self.flat(node.inner, indent)
                self.word(node.closing, indent)
            else:
                self.word(node, indent)

    def fits(self, nodes: Sequence[Node], trailing: int, at: int | None = None) -> bool:
        """Whether the nodes, and `trailing` columns more, fit on this line, or on a new one indented by `at`."""
        width = flat_width(nodes)
        if at is None and self.line.strip():
            return not self.remarked and len(self.line) + width + trailing <= WIDTH
        start = len(self.line) if at is None else at
        return start + width - _spaces(nodes) + trailing <= WIDTH

    # ---- lines ----

    def write(self, nodes: Sequence[Node], indent: int, trailing: int, inside: bool) -> None:
        """Writes nodes, broken where they do not fit; `inside` a bracket, which was just opened, or a piece of one."""
        if self.fits(nodes, trailing):
            self.flat(nodes, indent)
            return
        classes = self._classes(nodes, inside)
        loosest = min((found for found in classes if found is not None), default=None)
        if loosest is None:
            self._brackets(nodes, indent, trailing)
            return
        if loosest >= min(_OPERATORS.values()) and self._ends_in_bracket(nodes, indent):
            self._brackets(nodes, indent, trailing)
            return
        starts = [0, *(k for k, found in enumerate(classes) if found == loosest), len(nodes)]
        pieces = [nodes[a:b] for a, b in pairwise(starts) if a < b]
        self._fill(pieces, indent, trailing, inside, loosest)

    def _fill(self, pieces: Sequence[Sequence[Node]], indent: int, trailing: int, inside: bool, kind: int) -> None:
        broken = False
        for number, piece in enumerate(pieces):
            after = trailing if number == len(pieces) - 1 else 0
            if not broken and kind != _STEP and self.fits(piece, after):
                self.flat(piece, indent)
                continue
            stays = number == 0 and not (inside and self._opens_line_end())
            if kind in (_COLON, _EQUALS) and number and not self.fits(piece, after, indent):
                stays = True
            if not stays:
                self.new_line(indent)
            before = len(self.lines)
            self.write(piece, indent, after, inside)
            broken = len(self.lines) > before

    def _ends_in_bracket(self, nodes: Sequence[Node], indent: int) -> bool:
        """Whether only the bracket at the end is too long, so that it alone is to be broken: `x + y * f(...`."""
        last = nodes[-1]
        start = next(k for k in range(len(nodes) - 1, -1, -1) if k == 0 or _text(nodes[k]) in _OPERATORS)
        if not isinstance(last, Bracket) or self.fits(nodes[start:], 0, indent):
            return False
        return self.fits(nodes[:-1], 1 + last.opening.spaces)

    def _opens_line_end(self) -> bool:
        return self.line.rstrip().endswith(OPENING)

    def _brackets(self, nodes: Sequence[Node], indent: int, trailing: int) -> None:
        """Writes what can be broken inside its brackets only: in the last, where the others fit."""
        for number, node in enumerate(nodes):
            rest = nodes[number + 1 :]
            if isinstance(node, Word):
                self.word(node, indent)
                continue
            later = any(isinstance(other, Bracket) and other.inner for other in rest)
            after = 1 if later else flat_width(rest) + trailing
            if not node.inner or self.fits([node], after):
                self.flat([node], indent)
                continue
            self.word(node.opening, indent)
            self.write(node.inner, self.indent + INDENT, 1 + after, True)
            self.word(node.closing, indent)

    # ---- where to break ----

    def _classes(self, nodes: Sequence[Node], inside: bool) -> list[int | None]:
        """For each node, how loosely it is joined to the one before it; None where no line may end."""
        found: list[int | None] = [None]
        variables = not inside and nodes[0] is self.entry.words[0] and self.entry.head == "for"  # up to `in`
        comprehension = False
        for number, (previous, node) in enumerate(pairwise(nodes)):
            kind = None if variables else self._class(previous, node, inside, comprehension)
            text = _text(node)
            if text == "for":
                variables = comprehension = _begins_loop(nodes[number + 2 :])
            elif text == "in":
                variables = False
            elif text == ",":
                comprehension = variables
            found.append(kind if inside or self._allowed(kind) else None)
        return found

    def _class(self, previous: Node, node: Node, inside: bool, comprehension: bool) -> int | None:
        before, text = _text(previous), _text(node)
        if before == ";":
            return _STEP
        if before == ",":
            return _COMMA
        if text == "for" and self._is_word(node):
            return _FOR
        if text in ("if", "else") and self._is_word(node):
            return _FOR if comprehension and text == "if" else _CHOICE
        if isinstance(node, Word) and node.binary:
            return _OPERATORS.get(text)
        return None if inside else self._outside(previous, node)

    def _outside(self, previous: Node, node: Node) -> int | None:
        """Places outside brackets that have no counterpart inside."""
        before, text = _text(previous), _text(node)
        first = node.opening if isinstance(node, Bracket) else node
        if before == "->":
            return _ARROW
        if before in (":", "="):
            return None if not first.spaces else _COLON if before == ":" else _EQUALS
        after_string = isinstance(previous, Word) and previous.token.kind == STRING
        if text in ("close", "..") or (first.token.kind == STRING and (after_string or self.entry.head == "check")):
            return _STRING
        in_list = self.entry.kind == PROPERTY and self.entry.head in _LISTS and first is not self.entry.words[1]
        return _NAME if in_list else None

    def _is_word(self, node: Node) -> bool:
        return isinstance(node, Word) and node.token.kind == NAME and node is not self.entry.words[0]

    def _allowed(self, kind: int | None) -> bool:
        """Whether an entry may be broken there, outside brackets: the parser must read it as one."""
        if self.entry.kind in (DECLARATION, DEFINITION, ROW):
            return False
        return kind in _IN_HEAD if self.entry.kind == RULE else True


def _begins_loop(nodes: Sequence[Node]) -> bool:
    """Whether variables and `in` follow a `for`; `fresh OP(...) for n` is not a loop."""
    following = (_text(node) for node in nodes)
    return next((text == "in" for text in following if text in ("in", "for", "if", "else")), False)


def _text(node: Node) -> str:
    if isinstance(node, Bracket):
        return node.opening.text
    return node.text if node.token.kind in (NAME, SYMBOL) else ""


def _spaces(nodes: Sequence[Node]) -> int:
    first = nodes[0]
    return first.opening.spaces if isinstance(first, Bracket) else first.spaces
