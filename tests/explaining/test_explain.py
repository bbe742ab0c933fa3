"""Each kind of answer to why a rule fires or does not."""

from __future__ import annotations

import pytest

from rulegrad import UOp
from rulegrad.config import config
from rulegrad.errors import RewriteError, RuleError
from rulegrad.workbench.explaining import Answer, Explanation, Subject, explain


def var(number: int, dtype: str = "int32", shape: tuple[int, ...] = ()) -> UOp:
    """A variable that nothing is known of."""
    return UOp("BUFFER", (), dtype, id=number, shape=shape)


def const(value: object, dtype: str = "int32") -> UOp:
    return UOp.const(value, dtype)


def loop(number: int, extent: int) -> UOp:
    """A loop counter, an index from 0 to extent - 1."""
    return UOp("RANGE", (UOp.const(extent, "index"),), id=number, kind="output")


X, Y = var(0), var(1)


def about(rule: str, graph: UOp, **options: str | int | UOp) -> Explanation:
    options = {"pass_name": "demo", **options}
    return explain(rule if "." in rule else f"demo.{rule}", graph, **options)  # type: ignore[arg-type]


def first(rule: str, graph: UOp, **options: str | int | UOp) -> Answer:
    return about(rule, graph, **options).answers[0]


# ---- the first false test ----


@pytest.mark.parametrize(
    ("rule", "graph", "message", "caret"),
    [
        ("nested", (X + 1) // 4, "source 0 is %2 = ADD(%0, 1), not FLOORDIV", "x // a:const"),
        ("zero", X | 3, "source 1 is 3, not 0", "0"),
        ("nested", X // Y, "source 1 is %1 = BUFFER[id=1, shape=()], no constant", "b:const"),
        ("same", X ^ Y, "source 1 is %1 = BUFFER[id=1, shape=()], and `x` is %0 = BUFFER[id=0, shape=()] already", "x"),
        (
            "typed",
            UOp("CAST", (var(3, "int64"),), "float32"),
            "source 0 is %0 = BUFFER[id=3, shape=()] of dtype int64, not int32",
            "x:int32",
        ),
        (
            "reduced",
            UOp("REDUCE", (var(4, "int32", (4,)),), op="ADD", axes=(0,)),
            "it is %1 = REDUCE[op=ADD, axes=(0,)](%0), whose op is ADD, not MAX",
            "REDUCE[op=MAX](x)",
        ),
        (
            "summed",
            UOp("STACK", (X, Y)),
            "a source is %1 = BUFFER[id=1, shape=()], and another is %0 = BUFFER[id=0, shape=()]",
            "STACK(one s...)",
        ),
        ("shared", UOp("SINK", (X,)), "it is %1 = SINK(%0) with 1 source, not 2", "SINK(x, y)"),
        ("doubled", (X + 3) - (Y + 4), "source 1 of source 1 is 4, and `{c + 0}` is 3", "{c + 0}"),
    ],
)
def test_a_pattern_that_stops(rule: str, graph: UOp, message: str, caret: str) -> None:
    answer = first(rule, graph)
    assert (answer.message, answer.part, answer.fires) == (message, "pattern", False)
    assert marked(answer) == caret


@pytest.mark.parametrize(
    ("rule", "graph", "message", "caret"),
    [
        ("nested", (X // 3) // -4, "`b > 0` is false: b = -4", "b > 0"),
        ("products", (Y // 4) ^ (X * 3), "`a == b` is false: a = 3, b = 4", "a == b"),
        (
            "bounded",
            UOp("MAX", (loop(0, 9), const(3, "index"))),
            "`vmax(x) < c` is false: x = %1, vmax(x) = 8, c = 3",
            "vmax(x) < c",
        ),
        (
            "bounded",
            UOp("MAX", (var(7, "float32"), const(3.0, "float32"))),
            "`vmax(x)` has no value, it is unbounded, or no integer: x = %0",
            "vmax(x)",
        ),
        ("pair", -X, "`(x, x, x)` is a sequence of 3 items, not of 2: x = %0", "(x, x, x)"),
        ("neither", X % 6, "`not is_pow2(c + 2)` is false: c = 6, is_pow2(c + 2) = true", "not is_pow2(c + 2)"),
        ("either", X % 4, "`c > 7 or c < 3` is false: c = 4", "c > 7 or c < 3"),
        ("nearest", X + 1, "of all choices above `least abs(a - c)` none is left", "abs(a - c)"),
        ("nearest", X + 6, "`a == c` is false: a = 5, c = 6", "a == c"),
    ],
)
def test_a_clause_that_is_false(rule: str, graph: UOp, message: str, caret: str) -> None:
    answer = first(rule, graph)
    assert (answer.message, answer.part, answer.fires) == (message, "clause", False)
    assert marked(answer) == caret


def test_a_template_without_a_value() -> None:
    answer = first("divided", X << 0)
    assert answer.message == "`8 // c` has no value, it divides by zero: c = 0"
    assert (answer.part, marked(answer)) == ("template", "8 // c")


def test_a_template_that_builds_a_wrong_node() -> None:
    explanation = about("broken", ~X)
    assert not explanation.fires
    assert "WHERE" in explanation.answers[0].message
    assert explanation.answers[0].part == "template"
    assert "pass demo ended with an error: rule demo.broken" in explanation.notes[0]


def test_a_template_that_gives_the_node_itself() -> None:
    answer = first("itself", X % 5)
    assert answer.message == "it matches, but its template gives the matched node itself: that is not a firing"


def test_the_alternative_that_came_furthest_is_told_of() -> None:
    answer = first("products", (Y // 4) ^ (X // 3))
    assert answer.message == "source 1 is %5 = FLOORDIV(%3, 3), not MUL"
    assert (answer.matched, answer.total) == (2, 3)
    assert answer.names == {"b": "4", "y": "%0"}


Z, F, G = var(2), var(3, "float32"), var(4, "float32")


@pytest.mark.parametrize(
    ("rule", "graph", "message", "caret"),
    [
        ("added", X * 3 + Y * 4 + Z, "source 1 of a source is 4, not 5", "5"),
        (
            "added",
            X * 3 + Y,
            "no member is left for what `sum{x * 3, y * 5, rest...}` still asks for",
            "sum{x * 3, y * 5, rest...}",
        ),
        ("above", X + Y + Z + 7, "`c > 100` is false: c = 7", "c > 100"),
        ("negated", UOp("SQRT", (F * G,)), "`not (x * y)` does not hold: x = %0, y = %1", "not (x * y"),
        (
            "wrapped",
            UOp("EXP", (UOp("CAST", (var(8, "int64") + var(9, "int64"),), "float32"),)),
            "source 0 of source 0 is %2 = ADD(%0, %1), not MUL",
            "x * y",
        ),
        (
            "fielded",
            X << 7,
            "`p.first` has no value, a `demo_sizes` has name, n: p = demo_sizes(name=a, n=4)",
            "p.first",
        ),
        ("sized", X << 4, "`c > 5` is false: c = 4", "c > 5"),
        ("sized", X << 5, "`s.n == c` is false: s = demo_sizes(name=a, n=4), s.n = 4, c = 5", "s.n == c"),
    ],
)
def test_patterns_that_go_back_and_try_again(rule: str, graph: UOp, message: str, caret: str) -> None:
    answer = first(rule, graph)
    assert (answer.message, answer.fires, marked(answer)) == (message, False, caret)


# ---- what was there before ----


def test_it_fires() -> None:
    explanation = about("nested", ((X * 1) // 3) // 4)
    answer = explanation.answers[0]
    assert explanation.fires and (explanation.tried, explanation.fired) == (3, 1)
    assert (answer.at, answer.step, answer.made) == ("%6", 2, "FLOORDIV(%0, 12)")
    assert answer.message == "it fires at step 2 and gives FLOORDIV(%0, 12)"


def test_a_source_was_rewritten_before() -> None:
    answer = first("multiplied", (X * 1) - Y)
    assert answer.message == "source 0 is %0 = BUFFER[id=0, shape=()], not MUL"
    (note,) = answer.notes
    assert note.startswith("source 0 was %2 = MUL(%0, 1) before step 1, when demo_cleanup.drop_one (")
    assert "demo.rules:6) rewrote it" in note


def test_a_deeper_source_was_rewritten_before() -> None:
    answer = first("deeper", -((X * 1) - Y))
    assert answer.message == "source 0 of source 0 is %0 = BUFFER[id=0, shape=()], not MUL"
    assert answer.notes[0].startswith("source 0 of source 0 was %2 = MUL(%0, 1) before step 1")


def test_another_rule_took_the_node() -> None:
    answer = first("late", X | 0)
    assert answer.message == "it matches and would give 0, but another rule fires here"
    assert "taken at step 1 by demo.zero" in answer.notes[0] and "tried before this one" in answer.notes[0]


def test_one_node_and_what_it_became() -> None:
    graph = ((X // 3) * 1) // 4
    number = graph.count_nodes() - 1
    for at in (number, f"%{number}", graph):
        explanation = about("nested", graph, at=at)
        assert explanation.summary == "fires there"
        assert [answer.at for answer in explanation.answers] == [f"%{number}", f"%{number}"]
    assert "which demo.nested" in explanation.answers[1].node and "made at step 2" in explanation.answers[1].node


@pytest.mark.parametrize("pass_name", ["demo", "demo_parents", "demo_walk"])
def test_every_direction(pass_name: str) -> None:
    answer = first("zero", ((X | 0) + Y) * 1, pass_name=pass_name)
    assert answer.fires and answer.at == "%2" and answer.passes == (pass_name,)


# ---- rules that are not tried ----


def test_no_node_of_the_pattern() -> None:
    explanation = about("zero", X + 3)
    assert explanation.status == "not tried"
    assert explanation.summary == "was not tried in pass demo: no node has an op that its pattern starts with, OR"
    explanation = about("zero", (X | 3) + 1, at=3)
    assert explanation.summary == "was not tried in pass demo: %3 is 1, and its pattern starts with OR"


def test_a_rule_of_other_passes() -> None:
    explanation = about("zero", X | 0, pass_name="symbolic")
    assert explanation.status == "not in the pass"
    assert explanation.summary == "is not in the pass symbolic; it is in demo, demo_parents, demo_walk"
    assert about("alone.unused", X | 0).summary == "is in no pass: none uses the set that it stands in"


def test_a_rule_that_the_target_leaves_out() -> None:
    graph = UOp("TRUNCDIV", (X, Y))
    explanation = explain("demo.lacking", graph, target="opencl", pass_name="demo")
    assert explanation.status == "left out"
    assert explanation.summary == "is left out for target opencl: the target lacks what `needs` asks for"
    assert explanation.spot is not None and explanation.spot.source.strip() == "needs has(FLOORDIV)"
    assert "numpy" in explanation.notes[0]
    assert explain("demo.lacking", graph, target="numpy", pass_name="demo").fires


def test_a_rule_that_is_switched_off() -> None:
    with config(rules_off=("demo.zero",)):
        explanation = about("zero", X | 0)
    assert (explanation.status, explanation.summary) == ("switched off", "is switched off by RULES_OFF=demo.zero")


# ---- functions, several graphs ----


def test_rules_of_functions() -> None:
    graph = UOp("SINK", (-(-X),))
    deep = first("demo_functions.deep", graph, pass_name="demo_functions")
    assert deep.message == "`demo_depth(x) > 3` is false: x = %2, demo_depth(x) = 2"
    node = about("demo_depth.node", graph, pass_name="demo_functions")
    assert node.fires and [answer.fires for answer in node.answers] == [True, True, False]
    assert node.answers[2].message == "`len(srcs(n)) > 0` is false: n = %0, srcs(n) = (), len(srcs(n)) = 0"


def test_gradient_rules() -> None:
    explanation = explain("gradient.mul", var(0, "float32") * var(1, "float32"))
    assert explanation.fires and explanation.answers[0].passes == ("gradients",)


def test_facts_and_the_rules_that_ask_for_them() -> None:
    graph = UOp("SINK", (loop(0, 12) % 3, loop(1, 7) % 2, loop(2, 8) % 4))
    fact = explain("demo_collect.demo_factor", graph)
    assert fact.fires and [answer.fires for answer in fact.answers] == [True, True, False]
    assert fact.answers[2].message == "`n % c == 0` is false: n = 7, c = 2"
    rule = explain("demo_collect.split", graph)
    assert (rule.tried, rule.fired) == (3, 1)
    assert [answer.message for answer in rule.answers[1:]] == [
        "`c > 3` is false: c = 3",
        "`demo_factor(r)` has no value, nothing is known of it: r = %5",
    ]


def test_states_and_the_rules_that_ask_for_them() -> None:
    graph = UOp("SINK", (-(X + 1), -((X + 1) * Y)))
    rule = explain("demo_flow.deep", graph)
    assert [answer.message for answer in rule.answers] == [
        "`demo_level(x) > 2` is false: x = %2, demo_level(x) = 1",
        "`demo_level(x) > 2` is false: x = %5, demo_level(x) = 2",
    ]
    state = explain("demo_flow.below", graph, at=0)
    assert state.answers[0].message == "`len(srcs(n)) > 0` is false: n = %0, srcs(n) = (), len(srcs(n)) = 0"


def test_several_graphs() -> None:
    subjects = [Subject(X | 3, "demo"), Subject(Y | 0, "demo"), Subject(X | Y, "symbolic")]
    explanation = explain("demo.zero", subjects)
    assert (explanation.tried, explanation.fired) == (2, 1)
    assert [answer.graph for answer in explanation.answers] == [2, 1]
    assert explanation.graphs == {1: str(X | 3), 2: str(Y | 0)}
    assert explain("demo.zero", [Subject(X, "symbolic")]).summary.startswith(
        "was not tried: no graph went through demo"
    )


def test_one_answer_for_several_passes() -> None:
    explanation = explain("demo.zero", X | 3)
    assert explanation.answers[0].passes == ("demo", "demo_parents", "demo_walk")


def test_at_most_so_many_answers() -> None:
    graph = UOp("SINK", tuple(X | k for k in range(2, 9)))
    assert len(about("zero", graph).answers) == 3
    assert len(about("zero", graph, most=7).answers) == 7


# ---- questions that cannot be answered ----


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        ("demo.nestd", {}, "no rule is called `demo.nestd`; did you mean `demo.nested`?"),
        ("vanishing", {}, "no rule is called `vanishing`"),
        ("demo.zero", {"pass_name": "demmo"}, "no pass is called `demmo`; did you mean `demo`?"),
        ("demo.zero", {"target": "opencll"}, "no target is called `opencll`"),
        (
            "render_opencl.item",
            {},
            "render_opencl.item is a rule of the render pass render_opencl, which does not rewrite",
        ),
        ("twice", {}, "several rules are called `twice`: in_shape.twice"),
    ],
)
def test_unknown_names(rule: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(RuleError) as error:
        explain(rule, X | 0, **options)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("at", ["%9", "-1", "x", 9, var(5)])
def test_nodes_that_are_not_there(at: str | int | UOp) -> None:
    with pytest.raises(RewriteError, match=r"nodes are numbered as in the printed text, here from %0 to %2"):
        about("zero", X | 0, at=at)


def marked(answer: Answer) -> str:
    """The text that the carets underline."""
    assert answer.spot is not None
    line, carets = str(answer.spot).split("\n")[1:]
    start = carets.index("^")
    return line[start : start + carets.count("^")]
