"""Targets that go on from others, and what features add to them."""

from __future__ import annotations

from pathlib import Path

import pytest

import rulegrad as rg
from rulegrad import engine
from rulegrad.errors import RuleError
from rulegrad.lang import targets
from rulegrad.lang.checker import check
from rulegrad.lang.merging import with_bases
from rulegrad.lang.parser import parse_file

TEXT = """
target small:
    has    ADD
    dtypes int32
    limit  lanes 4, occupancy 8
    type   int32 "int"
    flag   plain
target middle:
    use    small
    has    MUL
    limit  lanes 8
target large:
    use    middle
    limit  occupancy 16
    flag   fancy
"""


def test_a_target_has_what_its_base_has() -> None:
    (file,) = with_bases([parse_file(TEXT, "targets.rules")])
    small, middle, large = file.declarations
    assert (small.limits, small.ops) == ({"lanes": 4, "occupancy": 8}, {"ADD"})
    assert (middle.limits, middle.ops) == ({"lanes": 8, "occupancy": 8}, {"ADD", "MUL"})
    assert (large.limits, large.ops) == ({"lanes": 8, "occupancy": 16}, {"ADD", "MUL"})
    assert (large.name, large.types, large.flags) == ("large", {"int32": "int"}, {"plain", "fancy"})


def test_the_compiled_rules_know_it() -> None:
    c, amx = engine.target("c"), engine.target("c_amx")
    assert amx._replace(limits=c.limits) == c
    assert amx.limits["unroll_last"] == 32
    assert engine.target_declaration("c_amx").limits["unroll_last"] == 32
    assert engine.target_declaration("c").limits["unroll_last"] == 16


FANCY = 'flag fancy\n    doc "for a test"\n'
FEATURES = """
target plain:
    has    ADD
    limit  lanes 4, occupancy 8
    value  "none"
target plain + both + fast:
    value  "both and fast"
target plain + fast:
    has    MUL
    limit  lanes 8
    value  "fast"
target plain + both:
    flag   fancy
    value  "both"
target other:
    has    SUB
"""


def test_a_device_adds_features_to_its_target() -> None:
    declared = parse_file(FEATURES, "features.rules").declarations
    plain, fast = targets.find(declared, "plain"), targets.find(declared, "plain+fast")
    assert (plain.ops, plain.templates, plain.flags) == ({"ADD"}, {"value": "none"}, frozenset())
    assert (fast.name, fast.ops, fast.limits) == ("plain+fast", {"ADD", "MUL"}, {"lanes": 8, "occupancy": 8})
    assert (fast.templates, fast.flags) == ({"value": "fast"}, frozenset())
    for name in ("plain+fast+both", "plain+both+fast"):
        both = targets.find(declared, name)
        # what is said of two features comes after what is said of each
        assert (both.ops, both.flags, both.templates) == ({"ADD", "MUL"}, {"fancy"}, {"value": "both and fast"})
    assert [one.name for one in targets.examples(declared)] == ["plain", "plain+both+fast", "other"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("plane+fast", "no target is called `plane`; there are: other, plain"),
        ("plain+quick", "the target `plain` has no feature `quick`; there are: both, fast"),
        ("other+fast", "the target `other` has no feature `fast`; there are: none"),
    ],
)
def test_a_feature_that_is_not_there(name: str, problem: str) -> None:
    with pytest.raises(RuleError) as raised:
        targets.find(parse_file(FEATURES, "features.rules").declarations, name)
    assert str(raised.value) == problem


def test_a_feature_is_one_of_a_target() -> None:
    (found,) = check([parse_file(f"{FANCY}target faraway + fast:\n    flag fancy\n", "features.rules")])
    assert (found.code, found.message) == ("unknown-target", "there is no target `faraway`")


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ("plain + both:\n    use other", "unknown-clause", "`use` does not stand in what features add: all of `other` would come with them"),
        ("plain + fast + both:\n    flag fancy", "duplicate-declaration", "`plain+fast+both` is declared already, as `plain+both+fast`"),
        ("plain + odd + odd:\n    flag fancy", "duplicate-key", "`plain+odd+odd` names a feature twice"),
    ],
)  # fmt: skip
def test_mistakes_with_features(more: str, code: str, message: str) -> None:
    text = f"{FANCY}target plain:\n    flag fancy\ntarget other:\n    flag fancy\ntarget plain + both + fast:\n    flag fancy\n"
    (found,) = check([parse_file(f"{text}target {more}\n", "features.rules")])
    assert (found.code, found.message) == (code, message)


def test_a_file_of_the_user_adds_a_feature(tmp_path: Path) -> None:
    file = tmp_path / "mine.rules"
    file.write_text("target opencl + mine:\n    limit occupancy 77\ntarget webgpu + f16:\n    limit occupancy 78\n")
    with rg.load_rules(file):
        assert engine.target("opencl+mine").limits["occupancy"] == 77
        assert engine.target("webgpu+f16").limits["occupancy"] == 78
        assert engine.target("opencl").limits["occupancy"] == engine.target("webgpu").limits["occupancy"] == 32
        assert engine.program("opencl+mine") is not engine.program("opencl")
    with pytest.raises(RuleError, match="the target `opencl` has no feature `mine`; there are: none"):
        engine.target("opencl+mine")


def test_what_a_target_needs_whose_programs_are_not_rendered() -> None:
    from rulegrad.lang import syntax, targets
    from rulegrad.lang.optable import OpTable

    bare = syntax.Target("t", syntax.Span("t.rules", 1, 0, 1, 9))
    needed = [problem for problem, _ in targets.missing_for_lowering(bare)]
    assert needed == ["it has no ops", "it has no dtypes"]
    assert [problem for problem, _ in targets.missing(bare, OpTable())][:3] == [*needed, "it has no render pass"]
