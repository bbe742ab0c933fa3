"""Targets that go on from others."""

from __future__ import annotations

from rulegrad.lang import engine
from rulegrad.lang.merging import with_bases
from rulegrad.lang.parser import parse_file

TEXT = """
target small:
    has    ADD
    dtypes int32
    limit  lanes 4, rows 8
    type   int32 "int"
    flag   plain
target middle:
    use    small
    has    MUL
    limit  lanes 8
target large:
    use    middle
    limit  rows 16
    flag   fancy
"""


def test_a_target_has_what_its_base_has() -> None:
    (file,) = with_bases([parse_file(TEXT, "targets.rules")])
    small, middle, large = file.declarations
    assert (small.limits, small.ops) == ({"lanes": 4, "rows": 8}, {"ADD"})
    assert (middle.limits, middle.ops) == ({"lanes": 8, "rows": 8}, {"ADD", "MUL"})
    assert (large.limits, large.ops) == ({"lanes": 8, "rows": 16}, {"ADD", "MUL"})
    assert (large.name, large.types, large.flags) == ("large", {"int32": "int"}, {"plain", "fancy"})


def test_the_compiled_rules_know_it() -> None:
    c, amx = engine.target("c"), engine.target("c_amx")
    assert amx._replace(limits=c.limits) == c
    assert amx.limits["lanes_last"] == 32
    assert engine.target_declaration("c_amx").limits["lanes_last"] == 32
    assert engine.target_declaration("c").limits["lanes_last"] == 16
