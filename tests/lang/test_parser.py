"""The parser: the shape of what it reads, recovery, and text that is not a rule file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulegrad.errors import RuleError
from rulegrad.lang import syntax
from rulegrad.lang.checker import check
from rulegrad.lang.parser import parse_file
from rulegrad.lang.syntax import (
    Call,
    Capture,
    Comprehension,
    Compute,
    Conditional,
    Infix,
    Literal,
    Member,
    Name,
    OpCall,
    Prefix,
    Rule,
    Sequence,
    SetLiteral,
    Slice,
    Splice,
    Subscript,
    Text,
)

ROOT = Path(__file__).parents[2]
VALID = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests/lang/pass").glob("*.rules"))]
DOC_BLOCKS = re.findall(
    r"^```rules\n(.*?)^```", (ROOT / "docs" / "language.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def rule(line: str, *clauses: str) -> Rule:
    """The one rule of a rule set."""
    text = "\n".join(["ruleset r:", f"    {line}", *(f"        {clause}" for clause in clauses), ""])
    declaration = parse_file(text, "t.rules").declarations[0]
    assert isinstance(declaration, syntax.Ruleset)
    return declaration.rules[0]


def show(x: object) -> str:
    """An expression fully parenthesised."""
    match x:
        case Literal(value=value):
            return repr(value)
        case Name():
            kind = ":const" * x.is_const + (f":{x.dtype}" if x.dtype else "")
            return "one " * x.one + x.name + kind
        case Capture():
            return f"{x.name}@{show(x.pattern)}"
        case Splice():
            return f"{show(x.inner)}..."
        case OpCall():
            attributes = ", ".join(
                f"..{show(a.value)}" if a.name == ".." else f"{a.name}={show(a.value)}" if a.name else show(a.value)
                for a in x.attributes
            )
            return f"{x.op}[{attributes}]({', '.join(map(show, x.arguments))})"
        case Call():
            return f"{x.function}({', '.join(map(show, x.arguments))})"
        case Infix():
            return f"({'ordered ' * x.ordered}{show(x.left)} {x.operator} {show(x.right)})"
        case Prefix():
            return f"({x.operator} {show(x.operand)})"
        case Compute():
            return f"{{{show(x.inner)}}}"
        case SetLiteral():
            return f"set({', '.join(map(show, x.items))})"
        case Sequence():
            return f"[{', '.join(map(show, x.items))}]"
        case Comprehension():
            condition = f" if {show(x.condition)}" if x.condition else ""
            return f"<{show(x.body)} for {', '.join(x.variables)} in {show(x.iterable)}{condition}>"
        case Subscript():
            return f"{show(x.sequence)}[{show(x.index)}]"
        case Slice():
            start = show(x.start) if x.start else ""
            return f"{show(x.sequence)}[{start}:{show(x.stop) if x.stop else ''}]"
        case Member():
            return f"{show(x.owner)}.{x.name}"
        case Conditional():
            return f"({show(x.then)} if {show(x.condition)} else {show(x.otherwise)})"
    raise AssertionError(x)


def expression(text: str) -> str:
    return show(rule(f"a: x -> {text}").template)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("-a ** -b ** c", "(- (a ** (- (b ** c))))"),
        ("-2 ** 2", "(- (2 ** 2))"),
        ("x // -1", "(x // -1)"),
        ("~a & b | c ^ d << 1 + 2", "(((~ a) & b) | (c ^ (d << (1 + 2))))"),
        ("a % b / c", "((a % b) / c)"),
        ("not a in b and c not in {ADD, 3} or d", "(((not (a in b)) and (c not-in set(ADD, 3))) or d)"),
        ("a < b + 1", "(a < (b + 1))"),
        ("(a < b) == c", "((a < b) == c)"),
        ("a if b else c if d else e", "(a if b else (c if d else e))"),
        ("x[1:][0].y", "x[1:][0].y"),
        ("x[:n - 1]", "x[:(n - 1)]"),
        ("f(x)[0]", "f(x)[0]"),
        ("(a), ", "[a]"),
        ("(a,)", "[a]"),
        ("()", "[]"),
        ("(a)", "a"),
        ("[a, xs...]", "[a, xs...]"),
        ("f(g(x)... for x, y in zip(xs, ys) if x < y)", "f(<g(x)... for x, y in zip(xs, ys) if (x < y)>)"),
        ("[a if b else c for a in xs]", "[<(a if b else c) for a in xs>]"),
        ("f(a, (g(x) for x in xs))", "f(a, <g(x) for x in xs>)"),
        ("f(a, [g(x) for x in xs])", "f(a, [<g(x) for x in xs>])"),
        ("CAST[T](x)", "CAST[T](x)"),
        ("f[..n, k=v + 1](xs...)", "f[..n, k=(v + 1)](xs...)"),
        ("xs[i]", "xs[i]"),
        ("xs[i] + (a)", "(xs[i] + a)"),
        ("{a + {b}}", "{(a + {b})}"),
        ("SINK()", "SINK[]()"),
        ("1.5e-3 + 0x1F + 1_000 + 0b11", "(((0.0015 + 31) + 1000) + 3)"),
        ("inf if true else none", "(inf if True else None)"),
        ("'it''s' + \"a\\n\\\"\"", "('its' + 'a\\n\"')"),
        ("where(a == b, min(a, 1), T.bits)", "where((a == b), min(a, 1), T.bits)"),
    ],
)
def test_expressions(text: str, shape: str) -> None:
    if text.endswith(", "):
        text = f"({text})"
    assert expression(text) == shape


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x:T + c:const:T", "(x:T + c:const:T)"),
        ("n@f(xs..., (p * one s)...)", "n@f(xs..., (p * one s)...)"),
        ("b@x * y", "(b@x * y)"),
        ("(b@(x % y)) % y", "(b@(x % y) % y)"),
        ("n@-x + _", "(n@(- x) + _)"),
        ("cs:const...", None),
        ("f(cs:const..., _...)", "f(cs:const..., _...)"),
        ("ordered a + b * c", "(ordered a + (b * c))"),
        ("(ordered a + b) * c", "((ordered a + b) * c)"),
        ("ordered", "ordered"),
        ("one", "one"),
        ("x > y", "(x > y)"),
        ("REDUCE[op=f, axes=(0, 1)](x)", "REDUCE[op=f, axes=[0, 1]](x)"),
    ],
)
def test_patterns(text: str, shape: str | None) -> None:
    if shape is None:
        with pytest.raises(RuleError, match="expected `->`"):
            rule(f"a: {text} -> x")
    else:
        assert show(rule(f"a: {text} -> x").pattern) == shape


def test_rule() -> None:
    text = """ruleset r:
    # not this one

    # the law,
    # and more of it
    nested[f: Binary, T: {int8, int16}, U]:
        f(x, y)
            -> x
        if a > 0
        let (p, q) = (1, 2)
        before other, set.another
        unsound "because" "of"
        needs has(ADD) and not flag(fast)
        ulp 2.5
        essential
        test i:range(-4, 5) + x:float32[4, 8] + j:range(7) ->
            i
        test fails i:int32
        test on small + fast fires i:int32
        test on small i -> i
"""
    declaration = parse_file(text, "t.rules").declarations[0]
    assert isinstance(declaration, syntax.Ruleset)
    (found,) = declaration.rules
    assert found.comment == "the law,\nand more of it"
    assert [(g.name, g.classes) for g in found.generics] == [("f", ("Binary",)), ("T", ("int8", "int16")), ("U", ())]
    assert show(found.pattern) == "f(x, y)"
    keywords = ["if", "let", "before", "unsound", "needs", "ulp", "essential"]
    assert [clause.keyword for clause in found.clauses] == keywords
    assert found.clauses[1].names == ("p", "q")
    assert found.clauses[2].names == ("other", "set.another")
    assert found.clauses[3].text == "becauseof"
    assert (found.span.line, found.span.end_line) == (6, 20)
    left = found.tests[0].left
    assert isinstance(left, Infix) and isinstance(left.left, Infix)
    assert isinstance(left.left.left, Name) and left.left.left.bounds == (-4, 5)
    assert isinstance(left.left.right, Name) and left.left.right.shape == (4, 8)
    assert isinstance(left.right, Name) and left.right.bounds == (0, 7)
    assert found.tests[1].right is None
    forms = [(test.target, test.fires, test.right is None) for test in found.tests]
    assert forms == [("", False, False), ("", False, True), ("small+fast", True, True), ("small", False, False)]


def test_a_variable_called_on() -> None:
    (found,) = rule("a: x -> x", "test on:int32 + 0 -> on").tests
    assert (found.target, show(found.left)) == ("", "(on:int32 + 0)")


def test_spans() -> None:
    found = rule("a: (x + y) * SQRT(z) -> xs[0]")
    span = found.pattern.span
    assert (span.line, span.column, span.end_column) == (2, 7, 24)
    assert isinstance(found.pattern, Infix)
    assert (found.pattern.left.span.column, found.pattern.left.span.end_column) == (8, 13)
    assert (found.template.span.column, found.template.span.end_column) == (28, 33)


def text_of(line: str) -> Text:
    declaration = parse_file(f"pass p render:\n    {line}\n", "t.rules").declarations[0]
    assert isinstance(declaration, syntax.Pass)
    template = declaration.rules[0].template
    assert isinstance(template, Text)
    return template


def test_text() -> None:
    text = text_of('a: RANGE(e) -> block 3 "for ({e:bare}) {{ {f(n, \'}\')[1:]}" ";\\n" close "}}"')
    assert (text.kind, text.precedence, text.close) == ("block", 3, ("}",))
    shown = [part if isinstance(part, str) else (show(part[0]), *part[1:]) for part in text.parts]
    assert shown == ["for (", ("e", "bare", None), ") { ", ("f(n, '}')[1:]", "", None), ";\n"]
    field = text.parts[1]
    assert isinstance(field, tuple)
    assert (field[0].span.line, field[0].span.column, field[0].span.end_column) == (2, 34, 35)
    assert text_of('a: x -> inline ""').parts == ()
    fields = text_of("""a: SINK(xs...) -> expr "{xs:', '}{xs:bare '}\\n'}{xs: bare}" """).parts
    assert [field[1:] for field in fields if isinstance(field, tuple)] == [("", ", "), ("bare", "}\n"), ("bare", None)]


def test_op() -> None:
    (op,) = parse_file(
        """op FOO[k: int = 3, op: op](a: T, b: Int?, xs...) -> explicit where T: Float, U: Int
    class Binary Other
    check a == b "no" "pe"
    check true "yes"
    interval lo(a) if lo(b) > 0 else
        dtype_min() .. -hi(b)
    c 12 "{a} + {b}"
""",
        "t.rules",
    ).declarations
    assert isinstance(op, syntax.OpDeclaration)
    assert [(a.name, a.type, a.default is None) for a in op.attributes] == [("k", "int", False), ("op", "op", True)]
    assert [(p.name, p.type, p.variadic, p.optional) for p in op.parameters] == [
        ("a", "T", False, False),
        ("b", "Int", False, True),
        ("xs", None, True, False),
    ]
    assert op.where == {"T": "Float", "U": "Int"}
    assert [message for _, message in op.checks] == ["nope", "yes"]
    assert op.interval is not None
    assert show(op.interval[0]) == "(lo(a) if (lo(b) > 0) else dtype_min())"
    assert op.spelling is not None and op.spelling.precedence == 12


def test_passes_functions_and_definitions() -> None:
    file = parse_file((ROOT / "tests/lang/pass/device.rules").read_text(encoding="utf-8"), "d.rules")
    passes = {d.name: d for d in file.declarations if isinstance(d, syntax.Pass)}
    assert (passes["cleanup"].direction, passes["cleanup"].uses) == ("children_first", ("mover",))
    assert passes["stage"].uses == ("mover",) and passes["stage"].rules[0].name == "shared"
    assert [(p.op, p.value) for p in passes["linearize"].priorities] == [("LOAD", -1), ("STORE", 1), ("BUFFER", -17)]
    assert passes["render_toy"].prefixes == (("RANGE", "i"), ("LOAD", "value"))
    (target,) = [d for d in file.declarations if isinstance(d, syntax.Target)]
    assert target.ops == {"ADD", "MUL", "EXP2", "DOT", "Comparison"}
    assert target.literals == {
        "suffix float32": "f",
        "suffix float64": "",
        "inf": "INFINITY",
        "float64 nan": "NAN",
    }
    assert target.templates["prologue"] == "#define A 1\n#define B 2\n"
    assert target.limits == {"arguments": 64, "local_size": 3}
    assert target.flags == {"slow_math", "async"}
    nodes = parse_file((ROOT / "tests/lang/pass/nodes.rules").read_text(encoding="utf-8"), "n.rules")
    functions = {d.name: d for d in nodes.declarations if isinstance(d, syntax.Function)}
    assert functions["gradient"].parameters == ("n", "d")
    assert show(functions["gradient"].rules[0].pattern) == "(_ + _)"
    definitions = {d.name: d for d in nodes.declarations if isinstance(d, syntax.Definition)}
    assert [clause.names for clause in definitions["limit_of"].lets] == [("big",), ("low", "high")]
    (reverse,) = [d for d in nodes.declarations if isinstance(d, syntax.Pass)]
    assert (reverse.kind, reverse.uses) == ("reverse", ("gradient",))


def test_what_passes_gather() -> None:
    tree = parse_file((ROOT / "tests/lang/pass/passes.rules").read_text(encoding="utf-8"), "p.rules")
    split, trips, depths = (d for d in tree.declarations if isinstance(d, syntax.Pass))
    assert [(f.name, len(f.keys), f.merge, f.value is None) for f in split.facts] == [
        ("factor", 1, "first", False),
        ("place", 1, "number", True),
        ("place", 1, "number", True),
        ("kinds", 0, "all", False),
    ]
    assert [g.name for g in split.facts[1].rule.generics] == ["f"]
    assert len(split.facts[0].rule.clauses) == 1
    assert [(s.name, s.join) for s in (*trips.states, *depths.states)] == [
        ("trips", "max"),
        ("names", "union"),
        ("depth", ""),
    ]
    assert [(s.state, s.rule.name) for s in trips.sends] == [("trips", "through"), ("trips", "other"), ("names", "all")]
    assert [(s.state, s.rule.name) for s in depths.sends] == [("", "below")]
    assert (split.kind, split.direction, trips.direction) == ("collect", "", "consumers_first")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fact f(r) = r largest: r@RANGE(_)", "expected how values for one key are merged, found `largest`"),
        ("fact f(r) first: r@RANGE(_)", "`first` merges values, but there is none"),
        ("fact f(r) = r count: r@RANGE(_)", "`count` has no value"),
        ("fact f = r first: r@RANGE(_)", "a fact has keys in parentheses"),
        ("fact f(a, b, c, d) count: SINK(a, b, c, d)", "a fact has at most three keys"),
        ("fact f(r) count r@RANGE(_)", "a fact is written"),
    ],
)
def test_malformed_facts(line: str, message: str) -> None:
    with pytest.raises(RuleError, match=re.escape(message)):
        parse_file(f"pass p collect:\n    {line}\n", "t.rules")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("state s 0 max", "a state is written"),
        ("state s = 0", "expected how values that meet are joined"),
        ("state s = 0 most", "expected how values that meet are joined, found `most`"),
        ("send", "expected `send NAME: PATTERN -> VALUE`"),
        ("send s one: x + 0", "expected `->`"),
    ],
)
def test_malformed_states(line: str, message: str) -> None:
    with pytest.raises(RuleError, match=re.escape(message)):
        parse_file(f"pass p flow consumers_first:\n    {line}\n", "t.rules")


def test_a_flow_along_the_edges_joins_nothing() -> None:
    with pytest.raises(RuleError, match="a node sends its own state"):
        parse_file("pass p flow sources_first:\n    state s = 0 max\n", "t.rules")


def test_function_rules_must_be_calls_of_it() -> None:
    with pytest.raises(RuleError, match=r"expected `f\(PATTERN, d\)`"):
        parse_file("function f(n, d):\n    a: g(x, d) -> x\n", "t.rules")
    with pytest.raises(RuleError, match="expected the parameter `d`"):
        parse_file("function f(n, d):\n    a: f(x, y) -> x\n", "t.rules")


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("any", "otherwise: f(n@_, d) -> {any(f(each, d) for each in srcs(n))}"),
        ("all", "otherwise: f(n@_, d) -> {all(f(each, d) for each in srcs(n))}"),
        ("total", "otherwise: f(n@_, d) -> {total([f(each, d) for each in srcs(n)])}"),
        ("max 1 + 2", "otherwise: f(n@_, d) -> {max(1 + 2, [f(each, d) for each in srcs(n)])}"),
        ("min d", "otherwise: f(n@_, d) -> {min(d, [f(each, d) for each in srcs(n)])}"),
        ("distinct", "otherwise: f(n@_, d) -> {distinct([f(each, d) for each in srcs(n)])}"),
        ("rebuild", "otherwise[g: Op]: f(n@g(xs...), d) -> g[..n]((f(x, d) for x in xs))"),
        ("else {d}", "otherwise: f(_, d) -> {d}"),
        ("else SINK(n)", "otherwise: f(n@_, d) -> SINK(n)"),
    ],
)
def test_the_form_of_a_function_is_its_last_rule(form: str, written: str) -> None:
    first = "    add: f(_ + _, d) -> {1}\n"
    formed = parse_file(f"function f(n, d) {form}:\n{first}", "t.rules").declarations[0]
    plain = parse_file(f"function f(n, d):\n{first}    {written}\n        fallback\n", "t.rules").declarations[0]
    assert isinstance(formed, syntax.Function) and isinstance(plain, syntax.Function)
    own = {"each": "each", "operation": "g", "sources": "xs"}

    def shown(function: syntax.Function) -> list[str]:
        rule = function.rules[-1]
        text = f"{show(rule.pattern)} -> {show(rule.template)}"
        return [re.sub(r"\w+", lambda m: own.get(m[0], m[0]), text).replace("each", "x"), rule.clauses[0].keyword]

    expected = [part.replace("each", "x") for part in shown(plain)]
    assert (shown(formed), formed.rules[-1].name, formed.rules[-1].span.line) == (expected, "otherwise", 1)


def test_a_form_takes_names_that_no_parameter_has() -> None:
    (function,) = parse_file("function f(n, each) any:\n    add: f(_ + _, each) -> {each}\n", "t.rules").declarations
    assert isinstance(function, syntax.Function)
    assert "f(each_, each)" in show(function.rules[-1].template)


@pytest.mark.parametrize("block", DOC_BLOCKS)
def test_the_documentation_parses(block: str) -> None:
    assert parse_file(block, "language.md").declarations


def test_there_is_documentation() -> None:
    assert len(DOC_BLOCKS) >= 5


def test_line_ends_and_byte_order_mark() -> None:
    text = "\ufeffruleset r:\r\n    a: x + 0 -> x\r\n"
    (declaration,) = parse_file(text, "t.rules").declarations
    assert isinstance(declaration, syntax.Ruleset) and declaration.rules[0].name == "a"


@pytest.mark.parametrize(
    "inner",
    [
        "(" * 5000 + "x" + ")" * 5000,
        "-" * 5000 + "x",
        "+".join("x" * 5000),
        "x if y else " * 500 + "x",
        "x@" * 500 + "x",
        "x" + "[x]" * 500,
        "x" + ".y" * 500,
        "not " * 500 + "x",
        "f(" * 500 + ")" * 500,
        "f[x](" * 500,
        "{" * 500 + "x" + "}" * 500,
        "[x for x in " * 300 + "x" + "]" * 300,
    ],
    ids=lambda text: text[:12],
)
def test_depth_is_a_diagnostic(inner: str) -> None:
    with pytest.raises(RuleError):
        parse_file(f"ruleset r:\n    a: x -> {inner}\n", "t.rules")


def test_the_deepest_expression_can_be_checked() -> None:
    chain = "+".join("x" * 250)
    nested = "(" * 38 + "x" + " + 1)" * 38
    file = parse_file(f"ruleset r:\n    a: x -> {chain}\n    b: x -> {nested}\n    c: {chain} -> x\n", "t.rules")
    assert check([file])


def never_fails(text: str) -> None:
    """Nothing but RuleError, with places inside the text."""
    try:
        file = parse_file(text, "t.rules")
    except RuleError as error:
        assert error.diagnostics
        for diagnostic in error.diagnostics:
            assert 1 <= diagnostic.span.line <= text.count("\n") + 1
            assert diagnostic.is_error and str(diagnostic)
    else:
        for diagnostic in check([file]):
            assert str(diagnostic)


FRAGMENTS = [
    "ruleset r:", "pass p rewrite walk:", "pass p render:", "function f(n):", "target t:", "op A(a: T) -> T",
    "def d(x) =", "extern pure e(n: int) -> int =", "class C =", "dtype d:", "pipeline p:", "\n", "\n    ",
    "\n        ",
    "a:", "->", "x", "c:const", "...", "..", "(", ")", "[", "]", "{", "}", ",", "+", "-", "*", "//", "<", "==",
    "not", "in", "if", "else", "for", "and", "let", "test", "fails", "needs", "before", "1", "1.5", '"{x}"', '"', "'",
    "@", ":", "=", "ordered", "one", "ADD", "CAST", "expr", "block", "close", "#", ".", "|", "\t", "\\", "é", "\x00",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40), st.sampled_from(["", " "]))
def test_random_fragments(fragments: list[str], between: str) -> None:
    never_fails(between.join(fragments))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_random_text(text: str) -> None:
    never_fails(text)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(VALID),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 8), st.sampled_from(["", *FRAGMENTS])), min_size=1, max_size=4),
)
def test_mutated_files(text: str, changes: list[tuple[float, int, str]]) -> None:
    for place, deleted, inserted in changes:
        position = int(place * len(text))
        text = text[:position] + inserted + text[position + deleted :]
    never_fails(text)
