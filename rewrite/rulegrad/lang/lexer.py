"""From text to logical lines of tokens, with one regular expression.

A logical line is a physical line together with the lines that its open brackets take in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from rulegrad.lang.diagnostics import Diagnostic
from rulegrad.lang.foreign import hint_for
from rulegrad.lang.syntax import Span

NAME = "name"
NUMBER = "number"
STRING = "string"
SYMBOL = "symbol"
END = "end of line"

_TOKEN = re.compile(
    r"""
      (?P<space>[ \r]+)
    | (?P<newline>\n)
    | (?P<comment>\#[^\n]*)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>0[xX]\w*|\d(?:[eE][+-]?\d|\w|\.(?=\d))*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
    | (?P<symbol>\.\.\.|\.\.|->|\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%&|^~<>=@:,.?()\[\]{}])
    | (?P<tab>\t+)
    | (?P<open_string>["'][^\n]*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.ASCII,
)
_NUMBER_SHAPE = re.compile(
    r"0[xX][0-9a-fA-F](_?[0-9a-fA-F])*|0[bB][01](_?[01])*|\d(_?\d)*(\.\d(_?\d)*)?([eE][+-]?\d+)?"
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BRACKETS = frozenset("()[]{}")
_PLAIN = (NAME, STRING)  # kinds of tokens that stand for themselves
_MAX_NUMBER_LENGTH = 100


class Token(NamedTuple):
    """A token stands on one line; column counts from 0."""

    kind: str
    text: str
    line: int
    column: int

    @property
    def end(self) -> int:
        return self.column + len(self.text)


@dataclass(slots=True)
class Line:
    """A logical line: its indentation and tokens. `broken`: it has a lexical error, already reported."""

    indent: int
    tokens: list[Token]
    broken: bool = False


@dataclass(slots=True)
class Source:
    """A text being read: where its lines are, its comments, and what is wrong with it."""

    path: str
    text: str
    physical: list[str] = field(default_factory=list)
    comments: dict[int, str] = field(default_factory=dict)  # lines that hold a comment only
    remarks: dict[int, str] = field(default_factory=dict)  # comments at the ends of other lines
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text = self.text.removeprefix("\ufeff")  # the mark that some editors put first
        self.physical = self.text.split("\n")

    def span(self, first: Token, last: Token | None = None) -> Span:
        """From the start of `first` to the end of `last`."""
        last = last or first
        return Span(self.path, first.line, first.column, last.line, last.end)

    def diagnostic(
        self, code: str, message: str, span: Span, hint: str = "", notes: tuple[str, ...] = ()
    ) -> Diagnostic:
        """A diagnostic with the source line that belongs to its span."""
        line = self.physical[span.line - 1] if span.line <= len(self.physical) else ""
        return Diagnostic(code, message, span, hint, notes, line)

    def report(self, code: str, message: str, span: Span, hint: str = "") -> None:
        """Records a diagnostic and goes on."""
        self.diagnostics.append(self.diagnostic(code, message, span, hint))


def tokenize(source: Source) -> list[Line]:
    """The logical lines of a text; lexical errors go to `source.diagnostics`."""
    return _Lexer(source).run()


class _Lexer:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines: list[Line] = []
        self.current: Line | None = None
        self.open: list[Token] = []
        self.tab_before = False

    def run(self) -> list[Line]:
        line, line_start = 1, 0
        at_start = True  # nothing but space so far on this physical line
        new = tuple.__new__  # of a named tuple the class takes three times as long, and there are 200,000 tokens
        for match in _TOKEN.finditer(self.source.text):
            kind = match.lastgroup
            if kind == "space":
                continue
            if kind == "newline":
                line, line_start, at_start = line + 1, match.end(), True
                if not self.open:
                    self.current = None
                continue
            token = new(Token, (kind or "", match.group(), line, match.start() - line_start))
            if kind == "comment":
                (self.source.comments if at_start else self.source.remarks)[line] = token.text
                continue
            if at_start:
                if kind == "tab":
                    self._indented_by_tab(token)
                    continue
                at_start = False
                self._start_line(token)
            current = self.current
            assert current is not None  # the first token of a physical line begins a line, or goes on with one
            if kind in _PLAIN or (kind == SYMBOL and token.text not in _BRACKETS):
                current.tokens.append(token)  # most are so
            else:
                self._add(token, current)
        if self.open:
            self._unclosed()
        return self.lines

    def _start_line(self, token: Token) -> None:
        """A new physical line: it may end a bracket that was never closed."""
        if self.open and self.current is not None:
            if token.column > self.current.indent or token.text in (")", "]", "}"):
                return
            self._unclosed()
        self.current = Line(token.column, [], self.tab_before)
        self.tab_before = False
        self.lines.append(self.current)

    def _indented_by_tab(self, token: Token) -> None:
        """The line that follows is broken, but still belongs to its block."""
        self.source.report("tab", "a tab", self.source.span(token), "indent by spaces")
        self.tab_before = True

    def _add(self, token: Token, line: Line) -> None:
        """A number, a bracket, or an error where there is not a token."""
        if token.kind == NUMBER:
            self._number(token, line)
        elif token.kind == SYMBOL:
            self._symbol(token, line)
        elif token.text == ";" and self.open and self.open[-1].text == "{":
            line.tokens.append(token._replace(kind=SYMBOL))
        else:
            self._bad(token, line)

    def _number(self, token: Token, line: Line) -> None:
        line.tokens.append(token)
        problem = number_problem(token.text)
        if problem:
            self._error("bad-number", problem, token)

    def _symbol(self, token: Token, line: Line) -> None:
        line.tokens.append(token)
        if token.text in _CLOSING:
            self.open.append(token)
        elif token.text in (")", "]", "}"):
            if self.open and _CLOSING[self.open[-1].text] == token.text:
                self.open.pop()
            elif self.open:
                opener = self.open.pop()
                closing = _CLOSING[opener.text]
                message = f"`{token.text}` closes nothing: `{opener.text}` is open, which `{closing}` closes"
                self._error("unmatched-bracket", message, token)
            else:
                self._error("unmatched-bracket", f"`{token.text}` closes nothing", token)

    def _bad(self, token: Token, line: Line) -> None:
        if token.kind == "tab":
            self._error("tab", "a tab", token, "use spaces")
        elif token.kind == "open_string":
            self._error("unterminated-string", f"this string has no closing {token.text[0]}", token)
        elif not line.broken:  # one report for a line of them
            written = hint_for(self.source.physical[token.line - 1], token.column)
            self._error("bad-character", f"no token starts with {token.text!r}", token, written)

    def _unclosed(self) -> None:
        opener = self.open[-1]
        closing = _CLOSING[opener.text]
        hint = f"expected `{closing}`; the lines inside a bracket are indented deeper than the first"
        self._error("unclosed-bracket", f"`{opener.text}` is never closed", opener, hint)
        self.open.clear()

    def _error(self, code: str, message: str, token: Token, hint: str = "") -> None:
        if self.current is not None:
            self.current.broken = True
        self.source.report(code, message, self.source.span(token), hint)


def number_problem(text: str) -> str:
    """The problem with a number token, or ""."""
    if not _NUMBER_SHAPE.fullmatch(text):
        return f"`{text}` is not a number; a name cannot start with a digit"
    if len(text) > _MAX_NUMBER_LENGTH or number_value(text) == float("inf"):
        return "this number is too large; `inf` is infinity"
    return ""


def number_value(text: str) -> int | float:
    """The value of a number token."""
    text = text.replace("_", "")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    if any(c in text for c in ".eE"):
        return float(text)
    return int(text)


def field_tokens(source: Source, string: Token, offset: int) -> list[Token]:
    """The tokens of a field `{...}` of a text template, starting `offset` characters into its string.

    The last token is the `}` or `:` that ends the expression; there is none when the field is unclosed.
    """
    tokens: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(string.text, offset, len(string.text) - 1):
        kind, text = match.lastgroup or "", match.group()
        if kind == "space":
            continue
        token = Token(kind, text, string.line, string.column + match.start())
        tokens.append(token)
        if kind not in (NAME, NUMBER, STRING, SYMBOL):
            return tokens
        if depth == 0 and kind == SYMBOL and text in ("}", ":"):
            return tokens
        if kind == SYMBOL:
            depth += (text in _CLOSING) - (text in (")", "]", "}"))
    return tokens
