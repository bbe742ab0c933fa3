"""The analyses of `rulegrad check` on rules that they must not complain of, each close to one that they report."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulegrad import engine
from rulegrad.lang.checker import check
from rulegrad.lang.compiler import ProgramCompiler
from rulegrad.lang.diagnostics import Diagnostic
from rulegrad.lang.parser import parse_file
from rulegrad.lang.syntax import Ruleset
from rulegrad.workbench.analysis import analyse, shadowed
from rulegrad.workbench.analysis.candidates import Candidates
from rulegrad.workbench.analysis.cells import Cell, Contradiction, Opaque, infer
from rulegrad.workbench.analysis.generality import covers
from rulegrad.workbench.analysis.sketches import Sketch

OP_TABLE = Path(__file__).parents[2] / "rules" / "ops" / "ops.rules"
FINE = {
    "a declared order": """
ruleset choices:
    same: where(_, x, x) -> x
        test where(c:bool, x:int32, x) -> x
    product[T: Int]: where(c, x:T, y:T) -> CAST[T](c) * x + CAST[T](~c) * y
        after same
        test where(c:bool, x:int32, y:int32) -> CAST[int32](c) * x + CAST[int32](~c) * y
pass choose rewrite children_first: choices
""",
    "the order of a union": """
ruleset first:
    same: where(_, x, x) -> x
        test where(c:bool, x:int32, x) -> x
ruleset second:
    product[T: Int]: where(c, x:T, y:T) -> CAST[T](c) * x + CAST[T](~c) * y
        test where(c:bool, x:int32, y:int32) -> CAST[int32](c) * x + CAST[int32](~c) * y
pass choose rewrite children_first: first + second
""",
    "different results that the pass makes equal": """
ruleset sums:
    twice[T: Int]: x:T + x -> x * 2
        test i:int32 + i -> i * 2
    nothing: x + 0 -> x
        test x:float32 + 0 -> x
    folded[T: Int]: a:const:T * b:const -> {a * b}
        test CONST[int32](3) * 2 -> 6
pass add rewrite children_first: sums
""",
    "a special case before the general one": """
ruleset products:
    double[T: Int]: x:T * 2 -> x + x
        test x:int32 * 2 -> x + x
    scaled[T: Int]: x:T * c:const -> c * (x << 1)
        if c > 7
        after double
        test x:int32 * 8 -> x << 1 if false else CONST[int32](8) * (x << 1)
""",
    "an earlier rule with another guard": """
ruleset products:
    small[T: Int]: x:T * c:const -> x + x
        if c == 2
        test x:int32 * 2 -> x + x
    large[T: Int]: x:T * k:const -> x << {log2(k)}
        if k > 2 and is_pow2(k)
        test x:int32 * 8 -> x << 3
""",
    "a part that is only rewritten under a guard": """
ruleset powers:
    square: x ** c:const -> x * x
        if c == 2
        test x:float32 ** 2 -> x * x
    root: SQRT(x ** c:const) -> x ** {c / 2}
        if c == 4
        test SQRT(x:float32 ** 4) -> x ** 2
pass roots rewrite children_first: powers
""",
    "a set that no pass uses, and whose guard rewrites by another": """
ruleset signs:
    twice: -(-x) -> x
        test -(-x:int32) -> x
ruleset products:
    pulled: x:int32 * -y -> -(x * y)
        if op(rewritten(-(x * y), signs)) != NEG
        test fails x:int32 * -y:int32
""",
    "rules that undo each other in different passes": """
pass apart rewrite children_first:
    minus: x:Float - y -> x + -y
        test x:float32 - y:float32 -> x + -y
pass together rewrite children_first:
    plus: x:Float + -y -> x - y
        test x:float32 + -y:float32 -> x - y
""",
}


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_no_false_alarm(text: str) -> None:
    engine.install_op_table()
    files = [parse_file(OP_TABLE.read_text(encoding="utf-8"), "ops.rules"), parse_file(text, "fine.rules")]
    assert not [d for d in check(files) if d.is_error]
    assert [str(d) for d in analyse(files)] == []


def test_analyses_are_deterministic() -> None:
    engine.install_op_table()
    text = (Path(__file__).parent / "fail" / "rules-disagree.rules").read_text(encoding="utf-8")
    files = [parse_file(OP_TABLE.read_text(encoding="utf-8"), "ops.rules"), parse_file(text, "t.rules")]
    assert analyse(files) == analyse(files) != []


def analysed(text: str, notes: bool = False) -> list[Diagnostic]:
    engine.install_op_table()
    files = [parse_file(OP_TABLE.read_text(encoding="utf-8"), "ops.rules"), parse_file(text, "t.rules")]
    assert not [d for d in check(files) if d.is_error]
    return analyse(files, notes=notes)


ROUND = """
ruleset first:
    minus[T: Int]: -x:T -> x * 77
        test -x:int32 -> x * 77
ruleset second:
    back[T: Int]: (x:T // y) * c:const -> -(x // y)
        if c == GUARD
pass around rewrite children_first: first + second
"""


def test_a_loop_across_sets_that_only_a_narrowed_instance_shows() -> None:
    """A negated quotient is needed, and the constant that the first rule makes."""
    found = [d for d in analysed(ROUND.replace("GUARD", "77")) if d.code == "rule-loop"]
    assert [d.message for d in found] == ["pass around does not end: first.minus, second.back"]
    assert "FLOORDIV" in found[0].notes[0]


def test_a_guard_of_literals_opens_a_cycle() -> None:
    assert {d.code for d in analysed(ROUND.replace("GUARD", "78"), notes=True)} & {
        "rule-loop",
        "possible-loop",
    } == set()


def test_measures_explain_cycles() -> None:
    """Casts become fewer, then sums: nothing is left to note, although each rule makes what another matches."""
    text = """
pass simple rewrite children_first:
    twice[T: Int]: CAST[T](CAST[T](x)) -> CAST[T](x)
        test CAST[int32](CAST[int32](x:float32)) -> CAST[int32](x)
    sum[T: Int]: CAST[T](x:T) + CAST[T](y:T) -> CAST[T](x + y)
        test fails x:int32 + y:int32
    nested: (x + a:const) + b:const -> x + {a + b}
        test (x:int32 + 1) + 2 -> x + 3
"""
    assert [d.code for d in analysed(text, notes=True) if "loop" in d.code] == []


ACTIONS = """
function weight(n):
    all: weight(n@_) -> {1 + sum([weight(s) for s in srcs(n)])}
        test weight(x:int32 + y:int32) -> 3
pass smaller choose best:
    cost weight
    add: x + y -> y + (x + 0)
        test x:int32 + y:int32 -> y + (x + 0)
    # another way for the same nodes is not a duplicate, and is reached
    other: x:Int + y -> x - -y
        test x:int32 + y:int32 -> x - -y
"""


def test_actions_on_the_same_nodes_are_all_tried() -> None:
    assert [str(d) for d in analysed(ACTIONS)] == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("    again: p + q -> q + (p + 0)\n        test x:int32 + y:int32 -> y + (x + 0)\n", "same-rule"),
        ("    never: (_ < _) * 2 -> false\n        test fails x:int32 * 2\n", "never-matches"),
        ("    wider: x * y -> CAST[int64](x)\n        test fails x:int64 + y:int64\n", "dtype-changed"),
    ],
)
def test_actions_are_looked_at(line: str, code: str) -> None:
    assert [d.code for d in analysed(ACTIONS + line)] == [code]


def test_facts_and_states_that_are_never_reached() -> None:
    text = """
pass split collect:
    fact factor(r) = 1 first: r@NEG(_)
    fact factor(r) = 2 first: r@NEG(ABS(_))
    cut: n@NEG(x) -> x * {factor(n)}
        test -x:int32 -> x * 1
pass trips flow consumers_first:
    state trips = 1 max
    send all: n@_ -> {[trips(n) for s in srcs(n)]}
    send never: n@(x:Float & y) -> {[2, 2]}
    keep: n@EXP(_) -> MATERIALIZE(n)
        if trips(n) > 100
        test fails EXP(x:float32)
"""
    found = analysed(text)
    assert [(d.code, d.span.line) for d in found] == [("shadowed-rule", 4), ("never-matches", 10)]
    assert "the fact factor of split" in found[0].message


def test_few_pairs_of_rules_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rules with numbers of their own none can shadow another: which those are is known without a comparison."""
    compared = []
    covers = shadowed.covers
    monkeypatch.setattr(shadowed, "covers", lambda *given: compared.append(given) or covers(*given))
    rules = [
        f"    r{k}: (x:int32 * {k + 2}) * {k + 3} -> x * {(k + 2) * (k + 3)}\n        test fails x:int32 * {k + 2}\n"
        for k in range(60)
    ]
    again = "    twice: (x:int32 * 5) * 6 -> x * 30\n        test (x:int32 * 5) * 6 -> x * 30\n"
    found = analysed(f"ruleset many:\n{''.join(rules)}{again}pass all rewrite children_first: many\n")
    assert [d.code for d in found] == ["same-rule"] and "many.r3" in found[0].message
    assert 0 < len(compared) < 3 * len(rules)


def test_candidates_leave_out_no_rule_that_covers_another() -> None:
    """Of our rules: all pairs are compared, and each that covers is among the candidates."""
    files = engine.loaded().sources.files
    compiler = ProgramCompiler(files, None, False)
    table = compiler.library.table
    rules = [rule for f in files for d in f.declarations if isinstance(d, Ruleset) for rule in d.rules][:700:4]
    cells: list[Cell | None] = []
    for rule in rules:
        generics = compiler.rules.generics(rule)
        try:
            cell = Sketch(table, generics, {}).pattern(rule.pattern) if generics is not None else None
            if cell is not None:
                infer(table, cell)
            cells.append(cell)
        except (Opaque, Contradiction):
            cells.append(None)
    candidates = Candidates(cells)
    pairs = 0
    for place, special in enumerate(cells):
        known = set(candidates.of(place))
        assert special is None or place in known
        for other, general in enumerate(cells):
            if special is not None and general is not None and any(True for _ in covers(table, general, special)):
                pairs += 1
                assert other in known
    assert pairs > len(rules) // 2
