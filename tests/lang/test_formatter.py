"""One form for each rule file: whatever the spaces and line ends were, and with every comment where it was."""

from __future__ import annotations

import os
import random
import re
from functools import cache
from pathlib import Path

import pytest

from rulegrad.errors import RuleError
from rulegrad.lang.lexer import Source, tokenize
from rulegrad.lang.parser import parse_file
from rulegrad.lang.walk import meaning
from rulegrad.workbench.formatter import format_text
from rulegrad.workbench.formatter.documents import format_document

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for folder in ("rules", "backends", "examples", "tests/lang/pass") for path in (ROOT / folder).rglob("*.rules")
)


#: Formatting a text once: most of our files are what they are formatted to.
format_once = cache(format_text)
meaning_of = cache(lambda text: meaning(parse_file(text, "").declarations))


def formatted_file(path: Path) -> str:
    return format_once(path.read_text(encoding="utf-8"), path.name)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def comments(text: str) -> list[str]:
    source = Source("", text)
    tokenize(source)
    found = {**source.comments, **source.remarks}
    return [found[line].replace(" ", "") for line in sorted(found)]


def respaced(text: str, generator: random.Random) -> str:
    """The same tokens and comments with other indentation, spaces and, inside brackets, line ends."""
    source = Source("", text)
    lines = tokenize(source)
    factor = generator.randint(1, 3)
    steps = {indent: indent * factor + (indent > 0) * generator.randint(0, factor - 1) for indent in range(200)}
    rows = {number: " " * steps[_indent(source, number)] + text for number, text in source.comments.items()}
    inside = {}  # physical lines that go on with the bracket of another
    for line in lines:
        for token in line.tokens:
            inside.setdefault(token.line, line.tokens[0].line != token.line)
    for line in lines:
        depth = 0
        previous = None
        for token in line.tokens:
            if previous is None or previous.line != token.line:
                extra = generator.randint(1, 9) if inside[token.line] else 0
                rows[token.line] = " " * (steps[line.indent] + extra)
            else:
                spaced = token.column > previous.end
                gap = " " * generator.randint(1, 3) if spaced else " " * generator.randint(0, 1)
                if depth and generator.random() < 0.05:
                    gap = "\n" + " " * (steps[line.indent] + generator.randint(1, 9))
                rows[token.line] += gap
            rows[token.line] += token.text
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            previous = token
    for number, remark in source.remarks.items():
        rows[number] += " " * generator.randint(0, 3) + remark
    return "\n".join(rows.get(number + 1, "") for number in range(len(source.physical)))


def with_comments(text: str, generator: random.Random) -> str:
    """The text with comments and blank lines put in, at line ends and on lines of their own, anywhere."""
    lines: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if generator.random() < 0.08:
            lines.append(" " * generator.randint(0, 14) + f"#above {number}")
        if generator.random() < 0.03:
            lines.append("")
        at_end = line.strip() and "#" not in line and generator.random() < 0.08
        lines.append(f"{line} # after {number}" if at_end else line)
    return "\n".join(lines)


def _indent(source: Source, number: int) -> int:
    line = source.physical[number - 1]
    return len(line) - len(line.lstrip())


@pytest.fixture(scope="module", params=FILES, ids=name_of)
def path(request: pytest.FixtureRequest) -> Path:
    """A rule file; its tests run one after the other, and format it once."""
    found: Path = request.param
    return found


def test_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    formatted = formatted_file(path)
    assert format_once(formatted, path.name) == formatted
    assert meaning_of(formatted) == meaning_of(text)
    assert comments(formatted) == comments(text)
    code = [line for line in formatted.split("\n") if "#" not in line and '"' not in line]
    assert not [line for line in code if len(line) > 120 and any(bracket in line for bracket in "([{")]


def test_our_files_and_documents_are_formatted() -> None:
    """`python -m rulegrad fmt`, and `python -m rulegrad fmt docs/*.md`, make them so."""
    ours = [path for path in FILES if "tests" not in path.relative_to(ROOT).parts]
    texts = {path: formatted_file(path) for path in ours}
    for name in ("language.md", "writing-rules.md"):
        path = ROOT / "docs" / name
        texts[path] = format_document(path.read_text(encoding="utf-8"), name)
    wrong = [name_of(path) for path, text in texts.items() if text != path.read_text(encoding="utf-8")]
    assert not wrong, f"run `python -m rulegrad fmt {' '.join(wrong)}`"


def test_spaces_and_line_ends_do_not_matter(path: Path) -> None:
    if FILES.index(path) % 3 != 1 and not os.environ.get("LONG_RUN"):
        pytest.skip("each third file is respaced, in the long run all; of another third the test below does so")
    other = respaced(path.read_text(encoding="utf-8"), random.Random(path.name))
    assert format_text(other, path.name) == formatted_file(path)


def test_comments_anywhere(path: Path) -> None:
    if FILES.index(path) % 3 and not os.environ.get("LONG_RUN"):
        pytest.skip("each third file has comments put into it, in the long run all")
    generator = random.Random(path.name)
    text = with_comments(respaced(path.read_text(encoding="utf-8"), generator), generator)
    formatted = format_text(text, path.name)
    assert format_text(formatted, path.name) == formatted
    assert comments(formatted) == comments(text)


def of_rule(*lines: str) -> str:
    """The lines of a rule set with one rule, formatted."""
    text = "ruleset r:\n" + "".join(f"    {line}\n" for line in lines)
    return "\n".join(line[4:] for line in format_text(text).split("\n")[1:-1])


@pytest.mark.parametrize(
    ("written", "formatted"),
    [
        ("a [f:{ADD,XOR},T :Int,U]:f(x , 0)->x", "a[f: {ADD, XOR}, T: Int, U]: f(x, 0) -> x"),
        ("a: x : T+ c :const: T -> x * { - c+1 }", "a: x:T + c:const:T -> x * {-c + 1}"),
        ("a: n @ ( - x) -> - ~ x", "a: n@(-x) -> -~x"),
        ("a: OP [k = v ,..n,w](x ... ) -> OP[ .. n]( (y for y in x if not y) , )", "a: OP[k=v, ..n, w](x...) -> OP[..n]((y for y in x if not y))"),
        ("a: x -> (x ,)", "a: x -> (x,)"),
        ("a: x -> ( x,y, )", "a: x -> (x, y)"),
        ("a: x -> [x,] [ 1 : n ]", "a: x -> [x][1:n]"),
        ("a: ordered a*- b -> f(a)if a  not in{ADD}else - b", "a: ordered a * -b -> f(a) if a not in {ADD} else -b"),
        ("a: CAST [ float32 ](one s) -> x . shape [ 0 ] ** - 2", "a: CAST[float32](one s) -> x.shape[0] ** -2"),
        ("a: x -> 'text'", 'a: x -> "text"'),
        ("a[f : Op]: x -> fold [ f ]( [ x,y for y in xs ] )", "a[f: Op]: x -> fold[f]([x, y for y in xs])"),
        ("a: x -> 'a \"text\"'", "a: x -> 'a \"text\"'"),
        ("a:\n        x\n            -> y", "a: x -> y"),
    ],
)  # fmt: skip
def test_spaces(written: str, formatted: str) -> None:
    assert of_rule(written) == formatted


@pytest.mark.parametrize(
    ("written", "formatted"),
    [
        ("if(a or - b)", "if (a or -b)"),
        ("let(a ,b)=( c,d )", "let (a, b) = (c, d)"),
        ("test fails - x : int32 [ 4,8 ]", "test fails -x:int32[4, 8]"),
        ("test   on  webgpu+f16   fires - x : int32", "test on webgpu + f16 fires -x:int32"),
        ("test on c - x : int32->y:int32", "test on c -x:int32 -> y:int32"),
        ("test i:range( - 1 , 4)->( i ,)", "test i:range(-1, 4) -> (i,)"),
        ("needs not has( ADD )", "needs not has(ADD)"),
        ("after b , r . c", "after b, r.c"),
        ("least   4  of f( x )-1", "least 4 of f(x) - 1"),
        ("least(a - b) * c", "least (a - b) * c"),
    ],
)
def test_clauses(written: str, formatted: str) -> None:
    assert of_rule("a: x -> x", "    " + written).split("\n")[1].strip() == formatted


def test_declarations() -> None:
    text = """\
dtype a : kind int ,bits 8
# comment
dtype bcd: kind float,   bits 16
op DOT [ w:int=-4 ]( a:T,rest : T ...,g:bool ?)->T   where T:Int,U :Float
  class Dot   Other
  interval - 1..- hi ( a )
  identity -1
class A=B+C
def f(x,y)=
    x
def g (x) =
  let y=x
  (y,)
extern pure h(n:int)->(int,int)='a.b'
    test h(- 1)->(1,2)
pass p order:
  priority LOAD - 1 , BUFFER [space = "local"]-17
"""
    assert (
        format_text(text)
        == """\
dtype a:   kind int,   bits 8
# comment
dtype bcd: kind float, bits 16
op DOT[w: int = -4](a: T, rest: T..., g: bool?) -> T where T: Int, U: Float
    class     Dot Other
    interval  -1 .. -hi(a)
    identity  -1
class A = B + C
def f(x, y) = x
def g(x) =
    let y = x
    (y,)
extern pure h(n: int) -> (int, int) = "a.b"
    test h(-1) -> (1, 2)
pass p order:
    priority LOAD -1, BUFFER[space="local"] -17
"""
    )


def test_comments_stay_where_they_are() -> None:
    text = """\
#first

#   of the rule set
ruleset r:   # r
  # of a
  a:f(x, # x
     # before y
     y , z) -> x#a
    # of the clause
    if x # if
    # end of a
  # end of r


# last"""
    assert (
        format_text(text)
        == """\
# first

#   of the rule set
ruleset r:  # r
    # of a
    a: f(
        x,  # x
        # before y
        y,
        z) ->
        x  # a
        # of the clause
        if x  # if
        # end of a
    # end of r

# last
"""
    )


def test_blank_lines_are_kept_one_at_a_time() -> None:
    text = "\n\nclass A = B\n\n\n\nruleset r:\n\n    a: x -> x\n\n        if x\n    b: x -> x\n\n\n"
    assert format_text(text) == "class A = B\n\nruleset r:\n\n    a: x -> x\n\n        if x\n    b: x -> x\n"


def test_long_lines() -> None:
    long = "where(first_condition, first_value_that_is_long, where(second_condition, second_value, third))"
    assert of_rule(f"a: f(x) -> g({long}, {long})") == (
        "a: f(x) ->\n"
        f"    g({long},\n"
        f"        {long})"
    )  # fmt: skip
    assert of_rule("a: x -> x", f"    if {long} and {long}").split("\n")[1:] == [
        f"    if {long}",
        f"        and {long}",
    ]
    assert format_text(f"def f(x) = {long} + {long}\n") == f"def f(x) =\n    {long}\n        + {long}\n"


def test_a_comment_between_a_definition_and_its_long_value() -> None:
    one, two = "(first_number // second_number + third_number)", "{second_number * third_number + third_number}"
    formatted = format_text(f"def f(x) =\n  #c\n  {one} * {two} + {one}\n")
    assert formatted == f"def f(x) =\n    # c\n    {one}\n        * {two}\n        + {one}\n"
    assert format_text(formatted) == formatted


def test_a_file_with_an_error_is_refused() -> None:
    with pytest.raises(RuleError, match="expected"):
        format_text("ruleset r:\n    a: x + -> x\n", "t.rules")


def test_windows_line_ends_and_a_byte_order_mark_go() -> None:
    assert format_text("\ufeffruleset r:\r\n    a: x -> y # c\r\n") == "ruleset r:\n    a: x -> y  # c\n"


def test_nothing_but_comments() -> None:
    assert format_text("") == ""
    assert re.fullmatch("# a\n", format_text("\n#a\n\n"))
