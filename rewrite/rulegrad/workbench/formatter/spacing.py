"""The spaces between the words of an entry, and commas that say nothing."""

from __future__ import annotations

from rulegrad.lang.lexer import NAME, NUMBER, STRING, SYMBOL
from rulegrad.lang.optable import INFIX_OPS, SWAPPED_OPS
from rulegrad.workbench.formatter.entries import CLAUSE, DECLARATION, PROPERTY, ROW, RULE, Entry, Word

OPENING = ("(", "[", "{")
CLOSING = (")", "]", "}")
# words of expressions that an operand follows
_BEFORE_OPERAND = frozenset(("if", "else", "and", "or", "not", "in", "for", "ordered"))
_INFIX_WORDS = frozenset(("and", "or", "in", "not"))
_INFIX = frozenset((*INFIX_OPS, *SWAPPED_OPS))
_MULTISETS = ("sum", "prod", "all")
# entries whose numbers follow names: `priority LOAD -1`
_WITH_NUMBERS = ("priority", "limit")


def space(entry: Entry) -> None:
    """Sets how many spaces stand before each word, and leaves out needless commas."""
    _Spacing(entry).run()
    entry.words = _without_trailing_commas(entry.words)


class _Spacing:
    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.words = entry.words
        self.brackets: list[bool] = []  # of each open one: whether names are declared in it, as in `a: T`
        self.head = entry.kind in (RULE, DECLARATION) and entry.owner != "def"  # up to its first `:`
        self.keywords = self._leading_keywords()
        texts = [word.text for word in self.words]
        # the path of a `use` is one word
        self.path = range(2, texts.index(":")) if texts[0] == "use" and entry.level == 0 else range(0)
        # values that spaces separate: a table's own row, or a target's
        self.is_row = entry.kind == ROW or (entry.kind == PROPERTY and entry.head == "row")

    def _leading_keywords(self) -> int:
        """How many words at its start are not operands."""
        if self.entry.kind not in (CLAUSE, PROPERTY):
            return 0
        texts = [word.text for word in self.words]
        if texts[0] != "test":
            return 1
        count = 1
        if texts[1:2] == ["on"] and len(texts) > 2 and self.words[2].token.kind == NAME:
            count = 3
            while texts[count : count + 1] == ["+"]:
                count += 2
        return count + (texts[count : count + 1] in (["fails"], ["fires"]))

    def run(self) -> None:
        previous: Word | None = None
        glued = True  # no space after the previous word
        for number, word in enumerate(self.words):
            prefix = self._is_prefix(number, word, previous)
            word.binary = self._is_infix(number, word) and not prefix and number not in self.path
            if previous is None or glued or number in self.path or self._glued_before(number, word, previous, prefix):
                word.spaces = 0
            else:
                word.spaces = 1
            glued = self._glued_after(word, prefix)
            self._track(word)
            previous = word

    # ---- what a word is ----

    def _symbol(self, word: Word | None) -> str:
        return word.text if word is not None and word.token.kind == SYMBOL else ""

    def _ends_operand(self, number: int) -> bool:
        """Whether the word before `number` ends an operand."""
        word = self.words[number - 1] if number else None
        if word is None or number <= self.keywords:
            return False
        if word.token.kind == NAME:
            return word.text not in _BEFORE_OPERAND
        return word.token.kind in (NUMBER, STRING) or word.text in (*CLOSING, "...", "?")

    def _is_prefix(self, number: int, word: Word, previous: Word | None) -> bool:
        """A sign, or `..` before the node whose attributes are copied."""
        text = self._symbol(word)
        if text == "..":
            return bool(self.brackets)
        if text not in ("-", "~"):
            return False
        loose = not self.brackets and (self.is_row or self.entry.head in _WITH_NUMBERS)
        return loose or not self._ends_operand(number)

    def _is_infix(self, number: int, word: Word) -> bool:
        if word.token.kind == NAME:
            return word.text in _INFIX_WORDS and self._ends_operand(number)
        return self._symbol(word) in _INFIX

    # ---- what it stands close to ----

    def _glued_before(self, number: int, word: Word, previous: Word, prefix: bool) -> bool:
        text = self._symbol(word)
        if text in CLOSING or text in (",", ";", "...", "?", ".", "@", ":"):
            return True
        if text == "=":
            return bool(self.brackets) and not self.brackets[-1]
        if text in ("(", "["):
            return self._is_called(number, previous) and not (self.is_row and not self.brackets)
        if text == "{":
            return previous.text in _MULTISETS and previous.token.kind == NAME and self._ends_operand(number)
        return False

    def _is_called(self, number: int, previous: Word) -> bool:
        if previous.token.kind == NAME:
            return self._ends_operand(number)
        return self._symbol(previous) in CLOSING

    def _glued_after(self, word: Word, prefix: bool) -> bool:
        text = self._symbol(word)
        if text == ":":
            return not self.path and not (self.head and not self.brackets) and not (self.brackets and self.brackets[-1])
        if text == "=":
            return bool(self.brackets) and not self.brackets[-1]
        return prefix or text in OPENING or text in (".", "@")

    def _track(self, word: Word) -> None:
        text = self._symbol(word)
        if text in OPENING:
            declares = self.head if not self.brackets else self.brackets[-1]
            self.brackets.append(declares)
        elif text in CLOSING and self.brackets:
            self.brackets.pop()
        elif text == ":" and not self.brackets and self.entry.kind == RULE:
            self.head = False


def _without_trailing_commas(words: list[Word]) -> list[Word]:
    """Leaves out commas before closing brackets, but for that of `(x,)`; moves remarks behind commas."""
    kept: list[Word] = []
    opened: list[tuple[bool, int]] = []  # whether `(` stands alone, and the commas so far
    for number, word in enumerate(words):
        text = word.text if word.token.kind == SYMBOL else ""
        if text in OPENING:
            opened.append((text == "(" and not (kept and _called(kept[-1], word)), 0))
        elif text in CLOSING and opened:
            opened.pop()
        elif text == "," and opened:
            alone, commas = opened.pop()
            opened.append((alone, commas + 1))
            if words[number + 1].text in CLOSING and not (alone and commas == 0):
                _leave_out(word, kept[-1], words[number + 1])
                continue
        if text == "," and kept:
            _move_behind(word, kept[-1], words[number + 1])
        kept.append(word)
    return kept


def _leave_out(comma: Word, previous: Word, following: Word) -> None:
    """Hands the comments around a comma to its neighbours."""
    if comma.remark and not comma.above and not previous.remark:
        previous.remark = comma.remark
    elif comma.remark:
        comma.above.append(comma.remark)
    following.above[:0] = comma.above


def _move_behind(comma: Word, previous: Word, following: Word) -> None:
    """Puts a comma to the word before it, and the comments between them behind it."""
    if comma.remark and (previous.remark or comma.above):
        return
    following.above[:0] = comma.above
    comma.above = []
    comma.remark = comma.remark or previous.remark
    previous.remark = ""


def _called(previous: Word, opening: Word) -> bool:
    """Whether the words before and at a `(` are a call: they stand close together."""
    return opening.spaces == 0 and (previous.token.kind == NAME or previous.text in CLOSING)
