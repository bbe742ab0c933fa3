"""Columns: properties below ops and targets, and what stands on lines one below the other and reads as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rulegrad.lang.lexer import SYMBOL
from rulegrad.workbench.formatter.entries import DECLARATION, PROPERTY, ROW, RULE, Entry
from rulegrad.workbench.formatter.layout import INDENT, WIDTH

# where the value of a property begins, after its indentation
_VALUE_COLUMN = {"op": 10, "target": 9, "limit": 10, "flag": 10}
_WIDEST_NAME = 12  # of a rule whose pattern is aligned with its neighbours'


def align(entries: Sequence[Entry]) -> None:
    """Sets the spaces that make columns."""
    for entry in entries:
        if entry.kind == PROPERTY and len(entry.words) > 1:
            entry.words[1].spaces = max(1, _VALUE_COLUMN[entry.owner] - len(entry.head))
    for cells, run in _runs(entries):
        _align_run(run, [cells(entry) for entry in run])


_Cells = Callable[[Entry], list[int]]


def _runs(entries: Sequence[Entry]) -> Iterator[tuple[_Cells, list[Entry]]]:
    """Entries of one form that follow each other, with comments between them, and clauses in a function."""
    form: _Cells | None = None
    run: list[Entry] = []
    for number, entry in enumerate(entries):
        passed = bool(entry.comment) or (entry.owner == "function" and entry.level == 2)
        found = form if passed else _form(entries, number)
        if found is not form or entry.blank_above:
            if form is not None:
                yield form, run
            form, run = found, []
        if not passed:
            run.append(entry)
    if form is not None:
        yield form, run


def _form(entries: Sequence[Entry], number: int) -> _Cells | None:
    """The cells of an entry; None for one outside tables."""
    entry = entries[number]
    if entry.kind == DECLARATION and entry.head == "dtype":
        return _dtype_cells
    if entry.kind == DECLARATION and entry.head == "class":
        return _class_cells
    if entry.kind == ROW:
        return _row_cells
    if entry.kind != RULE or entry.owner == "function":
        return _rule_cells if entry.kind == RULE else None
    below = next((other for other in entries[number + 1 :] if not other.comment), None)
    return None if below is not None and below.level > entry.level else _rule_cells


def _dtype_cells(entry: Entry) -> list[int]:
    return [k + 1 for k, word in enumerate(entry.words[:-1]) if word.text in (":", ",")]


def _class_cells(entry: Entry) -> list[int]:
    return [k for k, word in enumerate(entry.words) if word.text == "="]


def _rule_cells(entry: Entry) -> list[int]:
    depth = width = 0
    for number, word in enumerate(entry.words[:-1]):
        width += word.spaces + len(word.text)
        text = word.text if word.token.kind == SYMBOL else ""
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if text == ":" and not depth:
            return [number + 1] if width <= _WIDEST_NAME else []
    return []


def _row_cells(entry: Entry) -> list[int]:
    cells: list[int] = []
    depth = 0
    for number, word in enumerate(entry.words):
        text = word.text if word.token.kind == SYMBOL else ""
        if number and not depth and word.spaces:
            cells.append(number)
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
    return cells


def _align_run(run: Sequence[Entry], cells: Sequence[list[int]]) -> None:
    if any(word.above or word.remark for entry in run for word in entry.words[:-1]):
        return
    for column in range(max((len(of) for of in cells), default=0)):
        present = [(entry, of[column]) for entry, of in zip(run, cells) if len(of) > column]
        widths = [sum(word.spaces + len(word.text) for word in entry.words[:at]) for entry, at in present]
        for (entry, at), width in zip(present, widths):
            padded = 1 + max(widths) - width
            whole = entry.level * INDENT + sum(word.spaces + len(word.text) for word in entry.words)
            entry.words[at].spaces = padded if whole + padded - 1 <= WIDTH else 1
