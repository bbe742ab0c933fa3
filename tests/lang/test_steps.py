"""Steps of schedules as text: what is printed is read again, and templates quote steps as the op table says."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from rulegrad import UOp, engine
from rulegrad.engine.schedules import forms, parse_schedule, schedule_text
from rulegrad.errors import RuleError

STEPS = (
    "split i0 by 64 tail guard",
    "split i0.inner.outer by 8",
    "fuse i0.outer, i1.outer as task",
    "unroll i1.inner.outer",
    "vectorize i1.inner.inner",
    "bind task to thread",
    "reorder task, i0.inner.outer",
    "stage b layout k0, i1.inner.outer, i1.inner.inner",
    "stage b layout k0 in local",
    "stage_windows b layout k2 windows (i1.inner, k0, 2), (i2.inner, k1, 1) in local",
    "stage_windows b layout windows (i1, k0, 1)",
)
RULES = """
ruleset quoted:
    plain: SINK(NEG(_)) -> SCHEDULED[tactic="t"](SINK(), steps {split i0 by 8; unroll i0.inner})
    computed: SINK(SQRT(_)) -> SCHEDULED(SINK(), steps {
            split {path} by {4 * 2} tail {tail};
            reorder {[path, path]...}, {path}.outer, i1;
            stage_windows b layout windows ({path}, k0, {4 * 2}), ({path}.x, {path}, 1);
            unroll {path}.rest.inner})
        let path = ["i0", "inner"]
        let tail = "guard"
    chosen: SINK(EXP2(_)) -> SCHEDULED(SINK(), steps {
            unroll i0 if yes;
            unroll i1 if not yes;
            split {p} by {n} for p, n in zip([["i2"], ["i3"]], [2, 4]);
            unroll {p} for p in [["i4"], ["i5"]] if p != ["i4"];
            {both("i6")...};
            {both(p)...} for p in ["i7", "i8"]})
        let yes = 1 < 2
    none: SINK(LOG2(_)) -> SCHEDULED(SINK(), steps {})
def both(name) = steps {unroll {[name]}; vectorize {[name]}.inner}
pass quoted rewrite walk: quoted
"""


def found(tmp_path: Path, op: str) -> list[str]:
    """The steps that the rule for an op gives."""
    path = tmp_path / "quoted.rules"
    path.write_text(RULES, encoding="utf-8")
    with engine.load_rules(path):
        result = engine.rewrite(UOp("SINK", (UOp(op, (UOp.const(2.0, "float32"),)),)), "quoted")
    assert result.op == "SCHEDULED"
    return [schedule_text([step]) for step in result.src[1:]]


def test_a_text_is_read_and_printed() -> None:
    for step in STEPS:
        assert schedule_text(parse_schedule(step)) == step
    whole = "; ".join(STEPS)
    assert schedule_text(parse_schedule(whole)) == whole
    assert [schedule_text([step]) for step in parse_schedule(whole.replace("; ", ";\n"))] == list(STEPS)
    assert parse_schedule("") == []


def test_what_is_the_default_may_be_said() -> None:
    assert parse_schedule("split i0 by 8 tail exact") == parse_schedule("split i0 by 8")
    assert schedule_text(parse_schedule("stage b layout k0 in register")) == "stage b layout k0"
    assert schedule_text([UOp("ADD", (UOp.const(1, "int32"),) * 2)]) == "ADD:int32"


def test_random_steps_are_read_as_they_are_printed() -> None:
    generator = random.Random(0)

    def path() -> tuple[str, ...]:
        return tuple(generator.choice(("i0", "k1", "outer", "rest2")) for _ in range(generator.randint(1, 4)))

    for form in forms().values():
        for _ in range(20):
            attributes: dict[str, object] = {}
            for piece in form.pieces:
                attribute = form.attribute(piece.field)
                if attribute is None:
                    continue
                values = {"tuple": path(), "int": generator.randint(0, 99), "str": "word"}
                value: object = generator.choice(attribute.values) if attribute.values else values[attribute.type]
                attributes[piece.field] = tuple(path() for _ in range(3)) if piece.several else value
            step = UOp(form.op, (), **attributes)
            assert parse_schedule(schedule_text([step])) == [step]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("unroll i0; spilt i0 by 8", "1:12", "there is no step `spilt`"),
        ("split i0 bye 8", "1:10", "did you mean `by`?"),
        ("split i0 by 8 tail gaurd", "1:20", "`tail` is never `gaurd`"),
        ("split i0 by", "1:10", "ends where a number is wanted"),
        ("split i0 by 8 unroll i0", "1:15", "`;` stands between two steps"),
        ("split i0 by {8}", "1:13", "in the steps of rule files only"),
        ("unroll i0 for i in x", "1:1", "in the steps of rule files only"),
        ("unroll (i0)", "1:8", "expected a loop"),
        ("reorder (i0", "1:12", "`(` is open"),
        ("reorder (i0, )", "1:14", "expected a word, a loop, a number"),
        ("unroll &", "1:8", "expected a word, a loop, a number"),
        ("unroll i0;; unroll i1", "1:11", "expected a step"),
        ("unroll i0 }", "1:12", "closes nothing"),
        ("reorder i0, , i1", "1:13", "expected a loop"),
        ("split i0 by 0x1g", "1:13", "not a number"),
        ('unroll "i0', "1:8", "closing"),
    ],
)
def test_a_mistake_is_shown_at_its_place(text: str, place: str, message: str) -> None:
    with pytest.raises(RuleError, match=f"schedule:{place}: ") as error:
        parse_schedule(text)
    assert message in str(error.value)


def test_templates_quote_steps(tmp_path: Path) -> None:
    assert found(tmp_path, "NEG") == ["split i0 by 8", "unroll i0.inner"]
    assert found(tmp_path, "LOG2") == []


def test_values_are_computed(tmp_path: Path) -> None:
    assert found(tmp_path, "SQRT") == [
        "split i0.inner by 8 tail guard",
        "reorder i0.inner, i0.inner, i0.inner.outer, i1",
        "stage_windows b layout windows (i0.inner, k0, 8), (i0.inner.x, i0.inner, 1)",
        "unroll i0.inner.rest.inner",
    ]


def test_steps_are_chosen_and_put_together(tmp_path: Path) -> None:
    assert found(tmp_path, "EXP2") == [
        "unroll i0",
        "split i2 by 2",
        "split i3 by 4",
        "unroll i5",
        *("unroll i6", "vectorize i6.inner"),
        *("unroll i7", "vectorize i7.inner", "unroll i8", "vectorize i8.inner"),
    ]


def test_an_op_of_ones_own_has_a_text(tmp_path: Path) -> None:
    path = tmp_path / "own.rules"
    path.write_text(
        "op SKEW[loop: tuple, by: int = 1]() -> void\n    shape     scalar\n"
        '    levels    kernel program\n    step      "skew {loop} by {by}"\n    doc       "a loop, skewed"\n',
        encoding="utf-8",
    )
    code = (
        "from rulegrad.engine.schedules import parse_schedule, schedule_text;"
        "steps = parse_schedule('skew i0 by 3; skew i1');"
        "print(schedule_text(steps), steps[1].attrs['by'])"
    )
    assert outcome(code, path) == "skew i0 by 3; skew i1 1"


def outcome(code: str, rules: Path) -> str:
    """The output of a program, with a rule file in force before its first node."""
    environment = {**os.environ, "RULEGRAD_RULES": str(rules)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()
