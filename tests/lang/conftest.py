"""Common parts of the tests of compiling."""

from __future__ import annotations

import pytest

from rulegrad.lang.compiler import reuse
from rulegrad.lang.compiler.rules import RuleCompiler


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rules that are compiled from here on, and none that was compiled before is known."""
    names: list[str] = []
    plain = RuleCompiler._alternatives

    def counted(self, rule, *others):
        names.append(rule.name)
        return plain(self, rule, *others)

    monkeypatch.setattr(reuse, "_tables", {})
    monkeypatch.setattr(RuleCompiler, "_alternatives", counted)
    return names
