"""The subject of analyses: all rules, or those of a user's files, beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rulegrad.lang import syntax


@dataclass(frozen=True, slots=True)
class Asked:
    """The files whose rules, ops and targets are looked at; without any, all are."""

    files: frozenset[str] = frozenset()
    ops: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()

    @classmethod
    def about(cls, files: Sequence[syntax.File]) -> Asked:
        """The declarations of some files, as they were parsed, with their additions to ours."""
        declarations = [d for f in files for d in f.declarations]
        ops = frozenset(d.name for d in declarations if isinstance(d, syntax.OpDeclaration))
        targets = frozenset(d.name.split("+")[0] for d in declarations if isinstance(d, syntax.Target))
        return cls(frozenset(f.path for f in files), ops, targets)

    def __contains__(self, item: object) -> bool:
        """Whether a rule, a declaration or another thing with a place is asked about."""
        span = getattr(item, "span", None)
        return not self.files or (isinstance(span, syntax.Span) and span.file in self.files)


EVERYTHING = Asked()
