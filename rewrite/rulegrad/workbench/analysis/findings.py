"""The problems that analyses find, each reported once although it may be met for several targets and passes."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.ir import UOp
from rulegrad.lang import syntax
from rulegrad.lang.checker.world import World
from rulegrad.lang.diagnostics import Diagnostic

_WIDEST = 200


class Findings:
    """Collects diagnostics; the first for a code and a location counts."""

    def __init__(self, files: Sequence[syntax.File]) -> None:
        self._world = World(files)
        self._seen: set[tuple[str, syntax.Span, str]] = set()

    def report(
        self, code: str, message: str, span: syntax.Span, hint: str = "", notes: tuple[str, ...] = (), other: str = ""
    ) -> None:
        """Records a diagnostic. other: tells problems of one code at one place apart."""
        key = (code, span, other)
        if key not in self._seen:
            self._seen.add(key)
            self._world.report(code, message, span, hint, notes)

    def report_word(self, code: str, message: str, span: syntax.Span, word: str, hint: str = "") -> None:
        """Records a diagnostic at the first place of a word in the declaration that starts at `span`."""
        self.report(code, message, self._world.locate(span, word), hint, (), word)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return sorted(self._world.diagnostics, key=lambda d: (d.span.file, d.span.line, d.span.column, d.code))


def one_line(node: UOp) -> str:
    """A small graph as one line, as far as it goes: `ADD(a0:int32, 3)`."""
    text = _spelled(node, 0)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _spelled(node: UOp, depth: int) -> str:
    if node.op == "CONST":
        return f"{node.attrs['value']}:{node.dtype}"
    if node.op == "PARAM" and not node.src:
        return f"x{node.attrs['slot']}:{node.dtype}" + (f"{list(node.shape)}" if node.shape else "")
    attributes = ", ".join(f"{k}={v}" for k, v in node.attrs.items())
    brackets = f"[{attributes}]" if attributes else ""
    if node.op in ("CAST", "BITCAST", "INVALID"):
        brackets = f"[{node.dtype}]"
    sources = ", ".join(_spelled(s, depth + 1) for s in node.src) if depth < 6 else "…"
    return f"{node.op}{brackets}({sources})"
