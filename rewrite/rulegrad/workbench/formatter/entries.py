"""From text to entries: the lines of a rule file as the parser joins them, with their comments and blank lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rulegrad.lang.lexer import STRING, Line, Source, Token, tokenize
from rulegrad.lang.parser.blocks import group, join_head, joined

# The kind of an entry decides where it may be broken, and the meaning of `:`, `=` and `-` in it.
DECLARATION = "declaration"  # in column 0; only its brackets can be broken
DEFINITION = "definition"  # a `def`: also after its `=`
RULE = "rule"  # `name: pattern -> template`, and facts and sends: also at `:` and `->`
CLAUSE = "clause"  # a word and what follows: anywhere
PROPERTY = "property"  # the same in an op, a target, a limit or a flag, in two columns
ROW = "row"  # a row of a table: values separated by spaces
EXPRESSION = "expression"  # the value of a `def`, the case of a view, a step of a pipeline, `off`: anywhere

_WITH_RULES = ("ruleset", "pass", "function")
_IN_COLUMNS = ("op", "target", "limit", "flag")
_RULE_WORDS = ("fact", "send")


@dataclass(slots=True)
class Word:
    """A token to be written: the spaces before it, and the comments around it."""

    token: Token
    text: str
    spaces: int = 0
    binary: bool = False  # an infix operator
    above: list[str] = field(default_factory=list)  # comments on lines of their own
    remark: str = ""  # a comment at the end of its line


@dataclass(slots=True)
class Entry:
    """A logical line with everything that goes on below it, or a comment of its own (no words)."""

    kind: str
    level: int
    words: list[Word]
    owner: str  # the word that its declaration starts with
    blank_above: bool = False
    comment: str = ""

    @property
    def head(self) -> str:
        """The word that it starts with."""
        return self.words[0].text if self.words else ""


@dataclass(frozen=True, slots=True)
class _Joined:
    """An entry before its comments are put in."""

    kind: str
    level: int
    owner: str
    tokens: list[Token]
    indent: int


def read_entries(source: Source) -> list[Entry]:
    """The entries of a text that the parser accepts, comments among them, in order."""
    lines = [line for line in tokenize(source) if line.tokens]
    entries: list[Entry] = []
    above = _Above(source)
    for found in _joined_lines(source, lines):
        entries.extend(above.comments_before(found))
        entries.append(_with_comments(source, found))
    entries.extend(above.comments_before(None))
    return entries


# ---- which lines are one entry ----


def _joined_lines(source: Source, lines: Sequence[Line]) -> Iterator[_Joined]:
    start = 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and lines[end].indent > 0:
            end += 1
        yield from _declaration(source, lines[start], list(lines[start + 1 : end]))
        start = end


def _declaration(source: Source, head: Line, body: list[Line]) -> Iterator[_Joined]:
    words = [token.text for token in head.tokens[:2]]
    owner = words[-1] if words[0] == "export" else words[0]
    if owner == "def":
        yield from _definition(source, head, body)
        return
    if owner in ("off", "use"):
        yield _Joined(EXPRESSION, 0, owner, [t for line in (head, *body) for t in line.tokens], head.indent)
        return
    yield _Joined(DECLARATION, 0, owner, head.tokens, head.indent)
    for line, deeper in group(source, body):
        if owner in _WITH_RULES and _is_rule(line):
            yield from _rule(source, owner, line, deeper)
        else:
            yield _Joined(_entry_kind_in(owner), 1, owner, joined(line, deeper).tokens, line.indent)


def _entry_kind_in(owner: str) -> str:
    """The kind of the entries of a declaration that are not rules."""
    if owner in _IN_COLUMNS:
        return PROPERTY
    if owner == "table":
        return ROW
    return EXPRESSION if owner in ("view", "pipeline") else CLAUSE


def _is_rule(line: Line) -> bool:
    """Whether it may have clauses below it."""
    second = line.tokens[1] if len(line.tokens) > 1 else None
    if second is not None and second.kind != STRING and second.text in (":", "["):
        return True
    return line.tokens[0].text in _RULE_WORDS


def _rule(source: Source, owner: str, line: Line, deeper: list[Line]) -> Iterator[_Joined]:
    head, rest = join_head(line, deeper)
    yield _Joined(RULE, 1, owner, head.tokens, line.indent)
    for clause, continuation in group(source, rest):
        yield _Joined(CLAUSE, 2, owner, joined(clause, continuation).tokens, clause.indent)


def _definition(source: Source, head: Line, body: list[Line]) -> Iterator[_Joined]:
    """A `def`: on one line where there is no `let`."""
    entries = [(joined(*entry), entry[0].indent) for entry in group(source, body)]
    lets = [entry for entry in entries if entry[0].tokens[0].text == "let"]
    if not lets:
        whole = [token for line in (head, *(line for line, _ in entries)) for token in line.tokens]
        yield _Joined(DEFINITION, 0, "def", whole, head.indent)
        return
    yield _Joined(DEFINITION, 0, "def", head.tokens, head.indent)
    for line, indent in lets:
        yield _Joined(CLAUSE, 1, "def", line.tokens, indent)
    value = entries[len(lets) :]
    tokens = [token for line, _ in value for token in line.tokens]
    yield _Joined(EXPRESSION, 1, "def", tokens, value[0][1])


# ---- comments ----


def _with_comments(source: Source, found: _Joined) -> Entry:
    """The entry, with the comments between its lines put before, and those at line ends after, their tokens."""
    words = [Word(token, _quoted(token)) for token in found.tokens]
    first, last = words[0].token.line, words[-1].token.line
    waiting = [line for line in sorted(source.comments) if first < line < last]
    for word, following in zip(words, [*words[1:], None]):
        while waiting and waiting[0] < word.token.line:
            word.above.append(comment_text(source.comments[waiting.pop(0)]))
        ends_line = following is None or following.token.line > word.token.line
        if ends_line and word.token.line in source.remarks:
            word.remark = comment_text(source.remarks[word.token.line])
    return Entry(found.kind, found.level, words, found.owner, _blank(source, first - 1))


def _blank(source: Source, line: int) -> bool:
    return line > 0 and not source.physical[line - 1].strip()


def comment_text(comment: str) -> str:
    """A comment with a space after its `#`, and none at its end."""
    body = comment.rstrip()
    return body if body[1:2] in ("", " ", "#", "!") else "# " + body[1:]


def _quoted(token: Token) -> str:
    """A token's text; a string in double quotes where that needs no change inside."""
    if token.kind == STRING and token.text[0] == "'" and not any(c in token.text for c in '"\\'):
        return f'"{token.text[1:-1]}"'
    return token.text


class _Above:
    """Hands out the comments between entries, each at the level of the entry that it belongs to."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.waiting = sorted(source.comments)
        self.open: list[tuple[int, int, str]] = []  # indentation, level and owner of the entries that are open

    def comments_before(self, entry: _Joined | None) -> Iterator[Entry]:
        """The comments above an entry; all that are left, when it is None."""
        first = entry.tokens[0].line if entry is not None else len(self.source.physical) + 1
        indent, level, owner = (entry.indent, entry.level, entry.owner) if entry is not None else (0, 0, "")
        while self.waiting and self.waiting[0] < first:
            line = self.waiting.pop(0)
            text = self.source.physical[line - 1]
            own = len(text) - len(text.lstrip())
            level_here, owner_here = level, owner
            if own > indent:  # it belongs to what is above
                above = [(opened[1], opened[2]) for opened in self.open if opened[0] <= own]
                level_here, owner_here = max([*above, (level, owner)])
            comment = comment_text(self.source.comments[line])
            yield Entry("", level_here, [], owner_here, _blank(self.source, line - 1), comment)
        if entry is not None:
            self.open = [opened for opened in self.open if opened[1] < level] + [(indent, level, owner)]
            last = entry.tokens[-1].line
            self.waiting = [line for line in self.waiting if line > last]
