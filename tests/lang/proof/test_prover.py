"""Rules that are right are proved or tested; of rules that are wrong a smallest counterexample is shown."""

from __future__ import annotations

import textwrap

import pytest

from rulegrad.lang.parser import parse_file

RIGHT = """
    ruleset t:
        unbounded: (x:index // a:const) // b:const -> x // {a * b}
            if b > 0
        wraps[T: FixedInt]: (x:T + a:const) + b:const -> x + {eval(ADD, T, [a, b])}
        machine: x:int8 // 4 -> x >> 2
        powers[T: {int8, uint16, index}]: x:T % c:const -> x & {c - 1}
            if is_pow2(c)
        interval[T: Int]: max(x:T, y) -> x
            if vmin(x) >= vmax(y)
        by_cases: (x:int32 & mask:const) >> k:const -> x >> k
            if k >= 0 and mask | ((1 << k) - 1) == -1
        logic: where(c, a:bool, false) -> c & a
        congruence[f: Binary]: f(where(c, a, b), where(c, x, y)) -> where(c, f(a, x), f(b, y))
        narrows[A, B]: CAST[B](CAST[A](x:B)) -> x
            if lossless(B, A) and not is_float(B)
"""


def test_right_rules_are_proved(outcomes) -> None:
    found = outcomes(RIGHT)
    assert {name: o.kind for name, o in found.items() if o.kind != "proved"} in ({}, {"narrows": "tested"})


WRONG = {
    "guard_missing": "(x:index // a:const) // b:const -> x // {a * b}",
    "overflow": "(x:int8 * 2) // 2 -> x",
    "unsigned": "x:uint8 < 0 - y:uint8 -> x + y < 0",
    "connective": "x:bool & y:bool -> x | y",
    "bound": "max(x:index, y) -> x\n            if vmin(x) >= vmin(y)",
    "shift": "x:int32 // c:const -> x >> {c}\n            if c > 0 and c < 8",
    "flipped": "INDEX(FLIP(x), is...) -> INDEX(x, is...)",
    "permuted": "PERMUTE[order=p](PERMUTE[order=q](x)) -> PERMUTE[order=[q[k] for k in q]](x)",
    "zero": "x:float32 + 0 -> x",
    "reassociated": "(x:float32 + y) + z -> x + (y + z)",
    "reduced": "REDUCE[op=ADD, axes=a](-x) -> REDUCE[op=ADD, axes=a](x)",
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_fail_with_a_line_that_can_be_pasted(outcomes, name: str) -> None:
    text = f"ruleset t:\n        {name}: {WRONG[name]}\n"
    found = outcomes(text)[name]
    assert found.kind == "failed"
    assert found.line.startswith("test fails ")
    with_line = text + f"            {found.line}\n"
    rule = parse_file(textwrap.dedent(with_line), "pasted.rules").declarations[0].rules[0]
    assert len(rule.tests) == 1


def test_a_counterexample_is_small(outcomes) -> None:
    found = outcomes("ruleset t:\n    wrong: x:int32 * c:const -> x + c\n        if c > 5\n")["wrong"]
    assert found.line == "test fails MUL(x:int32, CONST[int32](6))"
    assert "gives" in found.how


def test_a_line_of_a_counterexample_is_a_test_that_fails(outcomes, checked) -> None:
    """The rule still fires there, so that the line fails until the rule is mended."""
    from rulegrad.workbench.rule_tests import RuleTests

    text = "ruleset t:\n    wrong: x:int32 & y -> x\n"
    line = outcomes(text)["wrong"].line
    tests = RuleTests(checked(text + f"        {line}\n"))
    assert "fires" in tests.run(tests.cases[0])


CHOICES = """
    view scaled(t, k):
        t * k:const
        t with k = 1
    ruleset t:
        like_terms: sum{scaled(x:index, a), scaled(x, b), rest...} -> sum{x * {a + b}, rest...}
        contradiction: all{x, ~x, rest...} -> false
        forgets: sum{x:int32, 1, rest...} -> sum{x, rest...}
"""


def test_choices_in_patterns(outcomes) -> None:
    found = outcomes(CHOICES)
    kinds = {name: o.kind for name, o in found.items()}
    assert kinds == {
        "like_terms": "proved", "contradiction": "proved", "forgets": "failed",
    }  # fmt: skip
    assert "sequences up to length 3" in found["like_terms"].how


def test_a_guard_that_never_holds_is_vacuous(outcomes) -> None:
    found = outcomes("ruleset t:\n    never: x:int32 + c:const -> x\n        if c > 3 and c < 2\n")["never"]
    assert found.kind == "vacuous"


REWRITTEN = """
    ruleset signs:
        twice: -(-x:int32) -> x
    ruleset t:
        same: x:int32 & x -> x
            if op(rewritten(-(-x), signs)) != NEG
"""


RECORDS = """
    record pair(first, second)
    record other(first, second)
    ruleset t:
        wrong: x:Int * c:const -> x
            if c == 1 or (pair(c, 2) != other(c, 2) and c == 77)
        beside: x:Int * c:const -> x
            if c == 1 or (pair(c, 2) not in [[c, 2], other(c, 2)] and c == 77)
        right: x:Int * c:const -> x
            if c == 1 or other(c, 2) == [pair(c, 2)][0]
        fields: x:Int * c:const -> x
            let p = pair(7, second=1)
            if pair(..p, first=c).first == p.second
"""


def test_records_of_two_kinds_are_never_equal(outcomes) -> None:
    found = outcomes(RECORDS)
    assert {name: one.kind for name, one in found.items()} == {
        "wrong": "failed", "beside": "failed", "right": "proved", "fields": "proved",
    }  # fmt: skip


def test_a_guard_may_rewrite_by_a_set(outcomes) -> None:
    """No pass uses these sets, so only the rules by themselves ask for one."""
    found = outcomes(REWRITTEN)
    assert (found["same"].kind, found["twice"].kind) == ("proved", "proved")


def test_a_rule_that_never_fires_is_untested(outcomes) -> None:
    found = outcomes("ruleset t:\n    never: STACK(x, y) -> STACK(y, x)\n        if contains(COPY, x)\n")["never"]
    assert found.kind == "untested"


STRUCTURE = """
    ruleset t:
        flip_twice: FLIP[axes=a](FLIP[axes=a](x)) -> x
        shrink: INDEX(SHRINK[begin=b](x), is...) -> INDEX(x, (i + k for i, k in zip(is, b)))
        permute: INDEX(PERMUTE[order=p](x), is...) -> INDEX(x, (is[k] for k in argsort(p)))
        any_order: REDUCE[op=MAX, axes=(0,)](FLIP[axes=(0,)](x:int32)) -> REDUCE[op=MAX, axes=(0,)](x)
        loop: STORE(b@PARAM(), -x) -> STORE(b, x * -1)
"""


def test_structural_rules_are_tested_on_random_shapes(outcomes) -> None:
    found = outcomes(STRUCTURE)
    assert {name: o.kind for name, o in found.items() if o.kind != "tested"} == {}
    assert "40 graphs" in found["shrink"].how


FLOATS = """
    ruleset t:
        exact: -(-x:float32) -> x
        rounded: (x:float32 / 3) * 3 -> x
            ulp 1
        wrong_on_purpose: x:float32 - x -> 0
            unsound "nan - nan is nan"
        not_so_wrong: max(x:float32, x) -> x
            unsound "it is not"
        taken_for_granted: PARAM[slot=1]() -> PARAM[slot=2, shape=(), dtype=float32]()
            assumes both_are_equal
"""


def test_floats(outcomes) -> None:
    found = outcomes(FLOATS)
    assert found["exact"].kind == "tested"
    assert (found["wrong_on_purpose"].kind, found["wrong_on_purpose"].how) == ("unsound", "nan - nan is nan")
    assert found["not_so_wrong"].kind == "failed" and "no difference" in found["not_so_wrong"].how
    assert (found["taken_for_granted"].kind, found["taken_for_granted"].how) == ("assumed", "assumes both_are_equal")


GRADIENT = """
    function slope(n, d):
        square: slope(ordered a * a, d) -> (d * a, d * a)
            test slope(x:float32 * x, d:float32) -> (d * x, d * x)
        sine: slope(SIN(a), d) -> (d * sin(a),)
            test slope(SIN(x:float32), d:float32) -> (d * SIN(x),)
        exponential: slope(n@EXP(_), d) -> (d * n,)
            test slope(EXP(x:float32), d:float32) -> (d * EXP(x),)
    function depth(n):
        other: depth(_) -> {1}
            test depth(x:float32) -> 1
        wrong: depth(_) -> {1}
            test depth(x:float32) -> 2
    pass slopes = reverse slope
"""


def test_functions_by_slopes_and_by_their_test_lines(outcomes) -> None:
    found = outcomes(GRADIENT)
    assert found["exponential"].kind == "tested" and "slope" in found["exponential"].how
    assert found["sine"].kind == "failed" and "slope" in found["sine"].how
    assert found["other"].kind == "tested"
    assert found["wrong"].kind == "failed"


def test_outcomes_are_the_same_each_time(outcomes) -> None:
    text = f"ruleset t:\n        zero: {WRONG['zero']}\n        flipped: {WRONG['flipped']}\n"
    assert outcomes(text) == outcomes(text)


ARITHMETIC = """
    use math/power: multiplied

    ruleset t:
        digits: (x:index % a:const) // c:const -> (x // c) % {a // c}
            if c > 0 and a > 0 and a % c == 0
        powers[T: {int64}]: a:T ** c:const -> multiplied(a, c)
            if c > 0
        rest: TRUNCMOD(a:int64, b) -> where(CMPEQ(b, 0), 0, a - TRUNCDIV(a, b) * b)
"""


def test_quotients_powers_and_rests_of_wide_integers_are_proved(outcomes_beside_ours) -> None:
    assert {o.kind for o in outcomes_beside_ours(ARITHMETIC).values()} == {"proved"}


TAKEN = """
use lower/division: multiplier
use math/power: multiplied, squared
use tensor/random: threefry2x32
"""
NEARLY_RIGHT = {
    "digits": "(x:index % a:const) // c:const -> (x // c) % {a // c}\n            if c > 0 and a > 0 and a % c <= 1",
    "powers": "a:int16 ** c:const -> multiplied(a, c)\n            if c > -2",
    "bits": "a:int32 ** c:const -> prod([squared(a, k) for k in iota(3) if (c >> k) & 1 == 1])\n            if c > 0",
    "rest": "TRUNCMOD(a:int16, b) -> a - TRUNCDIV(a, b) * b",
    "random": "THREEFRY(counter, key) -> threefry2x32(key, counter)",
    "multiply": (
        "TRUNCDIV(x:int16, d:const) -> (x * {multiplier(vmax(x), d)[0] + 1}) >> {multiplier(vmax(x), d)[1]}\n"
        "            if d > 1 and not is_pow2(d) and vmin(x) >= 0 and vmax(x) >= d\n"
        "            if (multiplier(vmax(x), d)[0] + 1) * vmax(x) <= 32767"
    ),
}


def test_arithmetic_that_is_nearly_right_is_not_proved(outcomes_beside_ours) -> None:
    rules = "".join(f"    {name}: {rule}\n" for name, rule in NEARLY_RIGHT.items())
    found = outcomes_beside_ours(f"{TAKEN}\nruleset t:\n{rules}")
    assert {name: o.kind for name, o in found.items()} == dict.fromkeys(NEARLY_RIGHT, "failed")
    assert all(o.line.startswith("test fails ") for o in found.values())


def test_members_that_a_rule_tells_apart_are_proved_for_no_number(outcomes) -> None:
    """A chain has up to three further members in a proof: enough for a rule that gives all of them on."""
    found = outcomes("""
        ruleset t:
            short: all{x:bool, y, rest...} -> all{x, y, rest[0:3]...}
            few: all{x:bool, y, rest...} -> all{x, y, rest...}
                if len(rest) < 4
            all: all{x:bool, x, rest...} -> all{x, rest...}
        """)
    assert {name: o.kind == "proved" for name, o in found.items()} == {"short": False, "few": False, "all": True}


def test_complex_numbers_are_not_integers(outcomes) -> None:
    found = outcomes("""
        ruleset t:
            zero[T: Complex]: x:T == 0 -> CONST[bool](false)
            same[T: Complex]: where(x:T == y, x, y) -> y
        """)
    assert all(o.kind != "proved" for o in found.values())
