"""RULES_OFF, RULES_ORDER, RULES_STRICT and RULES_LIMIT: what they choose, and what is refused."""

from __future__ import annotations

import pytest

from rulegrad import UOp, config, engine, rewrite
from rulegrad.engine.selection import switched_off
from rulegrad.errors import ConfigError
from rulegrad.lang import syntax
from rulegrad.lang.compiler import in_order
from rulegrad.lang.parser import parse_file

X = UOp("PARAM", (), "float32", slot=0, shape=())


def test_a_rule_is_off() -> None:
    for name in ("algebra.one", "one"):
        with config(rules_off=[name]):
            assert rewrite(X * 1.0, "symbolic") == X * 1.0
    assert rewrite(X * 1.0, "symbolic") == X


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("algebra.onne", r"RULES_OFF .*'algebra\.onne'; no rule has this name; did you mean algebra\.one\?"),
        ("quite_unknown_name", "a rule is called SET.RULE"),
        (
            "form_kernels.materialize",
            r"form_kernels\.materialize \(rules/schedule/grouping\.rules:\d+\) is essential; replace it",
        ),
        ("gradient.add", r"gradient\.add \(.*\) is a case of a function, a fact or a state"),
    ],
)
def test_names_that_are_refused(name: str, message: str) -> None:
    with config(rules_off=[name]), pytest.raises(ConfigError, match=message):
        rewrite(X * 1.0, "symbolic")


@pytest.mark.parametrize("value", ["random", "random:x", "random:1:2", "random:1:0.5:3"])
def test_shares_that_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="it takes names of rules"):
        config(rules_off=[value])


def test_every_rule_of_a_program_is_known() -> None:
    """Spellings of the op table too, which cannot be left out."""
    rules = engine.rules()
    for target in (None, "numpy", "c"):
        assert {name for name, _ in engine.program(target).rules} <= rules.keys()
    assert rules["ops.ADD"].kind == "text" and not rules["ops.ADD"].optional
    with (
        config(rules_off=["ops.ADD"]),
        pytest.raises(ConfigError, match=r"ops\.ADD \(rules/ops/ops.rules:\d+\) is essential"),
    ):
        switched_off(rules)


def test_a_rule_that_may_be_loaded_later() -> None:
    rules = engine.rules()
    with config(rules_off=["algebra.one?", "algebra.none_such?"]):
        assert switched_off(rules) == {"algebra.one"}
    with config(rules_limit="algebra.one?:0"):
        assert rewrite(X * 1.0, "symbolic") != X
    with config(rules_limit="algebra.none_such?:0"):
        assert rewrite(X * 1.0, "symbolic") == X


def test_a_random_share() -> None:
    rules = engine.rules()
    optional = {name for name, facts in rules.items() if facts.optional}
    with config(rules_off=["random:1", "random:2:0.5"]):
        first = switched_off(rules)
    with config(rules_off=["random:1", "random:2:0.5"]):
        assert switched_off(rules) == first
    with config(rules_off=["random:3:1"]):
        assert switched_off(rules) == optional
    assert len(optional) / 2 <= len(first) < len(optional) and first < optional


def owned(text: str) -> list[tuple[str, syntax.Rule]]:
    file = parse_file(text, "t.rules")
    sets = [d for d in file.declarations if isinstance(d, syntax.Ruleset)]
    return [(d.name, rule) for d in sets for rule in d.rules]


def test_the_random_order_keeps_to_what_is_declared() -> None:
    import random

    rules = owned(
        """
ruleset one:
    a: x + 0 -> x
        after b
    b: x + 1 -> x
    last: x + 2 -> x
        fallback
ruleset two:
    a: x + 3 -> x
        before one.b
    c: x + 4 -> x
"""
    )
    orders = set()
    for seed in range(40):
        names = [f"{owner}.{rule.name}" for owner, rule in in_order(rules, random.Random(seed))]
        assert names.index("two.a") < names.index("one.b") < names.index("one.a") and names[-1] == "one.last"
        orders.add(tuple(names))
    assert len(orders) == 2  # two.a and two.c in either order
    assert in_order(rules)[0][1].name == "a"


def test_the_order_setting() -> None:
    with config(rules_order="random:7"):
        assert config.rules_order == 7
        assert rewrite(X * 1.0, "symbolic") == X
    for wrong in ("7", "random", "random:x"):
        with pytest.raises(ConfigError, match="it takes random:SEED"):
            config(rules_order=wrong)


def test_strict_leaves_unsound_rules_out() -> None:
    unsound = {name for name, facts in engine.rules().items() if facts.unsound}
    assert "power.root" in unsound
    assert rewrite(X**0.5, "decompose").op == "SQRT"
    with config(rules_strict=1):
        assert rewrite(X**0.5, "decompose").op == "POW"
        assert not unsound & {name for name, _ in engine.program("opencl").rules}


def test_a_limit_holds_for_the_whole_program(capsys: pytest.CaptureFixture[str]) -> None:
    other = UOp("PARAM", (), "float32", slot=1, shape=())
    with config(rules_limit="algebra.one:1", debug=1):
        assert rewrite(X * 1.0, "symbolic") == X
        assert rewrite(other * 1.0, "symbolic") == other * 1.0
    message = capsys.readouterr().err
    assert "rule algebra.one (rules/kernel/algebra.rules:" in message and "firing 1, in pass symbolic:" in message
    for name, wanted in (("algebra.onne:1", "did you mean algebra.one"), ("gradient.add:1", "a case of a function")):
        with config(rules_limit=name), pytest.raises(ConfigError, match=wanted):
            rewrite(X * 1.0, "symbolic")
    with pytest.raises(ConfigError, match="it takes SET.RULE:NUMBER"):
        config(rules_limit="one")
