"""A cursor over the tokens of one logical line, with the errors every part of the parser raises."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang.diagnostics import Diagnostic, did_you_mean
from rulegrad.lang.foreign import hint_for
from rulegrad.lang.lexer import END, NAME, STRING, Source, Token
from rulegrad.lang.syntax import Span

COMPARES = "`==` compares; a name is bound by `let NAME = …`, a line of its own"  # where an expression ends at `=`
_NO_WORD = (END, STRING)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}


class Problem(Exception):  # noqa: N818  (never leaves the parser)
    """Ends the reading of one logical line."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Cursor:
    """Reads tokens from left to right; past the last one stands an END token."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        last = tokens[-1]
        self.source = source
        self.tokens = [*tokens, Token(END, "", last.line, last.end)]
        self.position = 0
        self.token = self.tokens[0]
        self.previous = self.tokens[0]
        # guards of the expression parser, see expressions.py
        self.depth = 0
        self.operators = 0

    def advance(self) -> Token:
        """The current token; moves on to the next."""
        token = self.token
        if token.kind != END:
            self.position += 1
            self.token = self.tokens[self.position]
        self.previous = token
        return token

    def peek(self, distance: int = 1) -> Token:
        """The token `distance` places ahead, or the END token."""
        return self.tokens[min(self.position + distance, len(self.tokens) - 1)]

    def at(self, *texts: str) -> bool:
        """Whether the current token is one of these symbols or names."""
        token = self.token
        return token.text in texts and token.kind not in _NO_WORD

    def at_end(self) -> bool:
        return self.token.kind == END

    def accept(self, text: str) -> bool:
        """Moves over the symbol or name `text` if it is here."""
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str, hint: str = "") -> Token:
        """The symbol or name `text`, or a Problem."""
        if not self.at(text):
            raise self.expected(f"`{text}`", hint)
        return self.advance()

    def name(self, what: str = "a name") -> Token:
        """A name, or a Problem that says what was expected."""
        if self.token.kind != NAME:
            raise self.expected(what)
        return self.advance()

    def keyword(self, allowed: Sequence[str], what: str) -> Token:
        """A name out of a closed set."""
        if self.token.kind == NAME and self.token.text not in allowed:
            hint = did_you_mean(self.token.text, allowed) or "one of " + ", ".join(f"`{a}`" for a in allowed)
            raise self.expected(what, hint)
        return self.name(what)

    def string(self, what: str = "a string in quotes") -> str:
        """A string, its escapes replaced; strings that follow each other are one."""
        if self.token.kind != STRING:
            raise self.expected(what)
        text = ""
        while self.token.kind == STRING:
            text += self.unescape(self.token.text[1:-1], self.token, 1)
            self.advance()
        return text

    def unescape(self, text: str, token: Token, offset: int) -> str:
        """Replaces the escapes in a piece of a string token that starts `offset` characters into it."""
        if "\\" not in text:
            return text
        pieces: list[str] = []
        index = 0
        while index < len(text):
            character = text[index]
            if character == "\\":
                index += 1
                escaped = text[index : index + 1]
                if escaped not in _ESCAPES:
                    column = token.column + offset + index - 1
                    span = Span(self.source.path, token.line, column, token.line, column + 2)
                    hint = "the escapes are \\n \\t \\\" \\' \\\\"
                    raise self.problem("bad-escape", f"`\\{escaped}` is not an escape", span, hint)
                character = _ESCAPES[escaped]
            pieces.append(character)
            index += 1
        return "".join(pieces)

    def end(self) -> None:
        """Nothing may follow on this line."""
        if not self.at_end():
            raise self.expected("the end of the line", COMPARES if self.at("=") else "")

    def span_from(self, first: Token) -> Span:
        """From `first` to the last token read."""
        last = self.previous
        place = (self.source.path, first.line, first.column, last.line, last.column + len(last.text))
        return tuple.__new__(Span, place)  # each node has one, and the class takes three times as long

    def expected(self, what: str, hint: str = "") -> Problem:
        """A Problem at the current token."""
        token = self.token
        found = END if token.kind == END else f"`{token.text}`"
        hint = hint_for(self.source.physical[token.line - 1], token.column) or hint
        return self.problem("expected", f"expected {what}, found {found}", self.source.span(token), hint)

    def problem(self, code: str, message: str, span: Span, hint: str = "") -> Problem:
        return Problem(self.source.diagnostic(code, message, span, hint))
