"""`check(files, sound=…)`: declarations that were checked before are not checked again, unless others change their meaning."""

from collections.abc import Sequence

import pytest

from rulegrad.engine.sources import our_files, shown
from rulegrad.lang import syntax
from rulegrad.lang.checker import check, rules
from rulegrad.lang.merging import merge
from rulegrad.lang.modules import resolved
from rulegrad.lang.parser import parse_file

OPS = next(path for path in our_files() if path.name == "ops.rules")
BASE = """ruleset simple:
    plus_zero: x:int32 + 0 -> x
        test x:int32 + 0 -> x
ruleset inner:
    again: x:int32 * 1 -> x
        test x:int32 * 1 -> x
ruleset over_ops:
    unary[f: Unary]: f(f(x:float32)) -> f(x)
        test NEG(NEG(x:float32)) -> NEG(x)
    binary[f: Binary]: f(x:int32, 1) -> f(x, 1)
        test ADD(x:int32, 1) -> ADD(x, 1)
ruleset outer:
    twice: (x:int32 + 1) + 2 -> rewritten(x + 3, inner)
        test (x:int32 + 1) + 2 -> x + 3
pass short rewrite children_first: simple + outer
"""


@pytest.fixture(scope="module")
def base() -> list[syntax.File]:
    found = resolved([parse_file(OPS.read_text(), shown(OPS)), parse_file(BASE, "rules/base.rules")])
    assert not [d for d in check(found) if d.is_error]
    return found


def with_user(base: Sequence[syntax.File], text: str) -> list[syntax.File]:
    return merge(resolved([*base, parse_file(text, "user.rules")]), frozenset(["user.rules"]))


def found_by(base: Sequence[syntax.File], text: str) -> list[tuple[str, str, int]]:
    """The errors that a user's file leads to, which are the same with and without trust in ours."""
    files = with_user(base, text)
    found, whole = ([d for d in check(files, sound=sound) if d.is_error] for sound in (base, ()))
    assert found == whole
    return [(d.code, d.span.file, d.span.line) for d in found]


def test_a_rule_that_is_added_to_ours_is_checked(base: Sequence[syntax.File]) -> None:
    text = "ruleset simple:\n    wrong: x:int32 + 1 -> y\n        test x:int32 + 1 -> x\n"
    assert found_by(base, text) == [("unbound-name", "user.rules", 2)]


def test_a_rule_that_makes_another_set_wrong(base: Sequence[syntax.File]) -> None:
    text = "ruleset inner:\n    nested: x:int32 + 5 -> rewritten(x, simple)\n        test x:int32 + 5 -> x\n"
    assert ("nested-rewriting", "rules/base.rules", 13) in found_by(base, text)


def test_texts_in_a_set_that_rewrites(base: Sequence[syntax.File]) -> None:
    text = 'ruleset simple:\n    spelled: x:int32 + 1 -> expr "{x}"\n'
    assert ("misplaced-text", "rules/base.rules", 15) in found_by(base, text)


def test_names_that_are_declared_twice(base: Sequence[syntax.File]) -> None:
    assert ("duplicate-declaration", "user.rules", 1) in found_by(base, "pass short rewrite walk: simple\n")


def test_an_op_of_the_user(base: Sequence[syntax.File]) -> None:
    assert not found_by(base, 'op NOTHING(a: T) -> T\n    shape shape(a)\n    levels tensor\n    doc "itself"\n')


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("ruleset mine:\n    zero: x:int32 * 0 -> 0\n        test x:int32 * 0 -> 0\n", ["zero"]),
        # `rewritten` runs a set that has another rule now
        (
            "ruleset inner:\n    zero: x:int32 * 0 -> 0\n        test x:int32 * 0 -> 0\n",
            ["zero", "twice"],
        ),
        (
            'op OTHER(a: T) -> T\n    class Unary\n    shape shape(a)\n    levels tensor\n    doc "the same"\n',
            ["unary"],
        ),
    ],
)
def test_what_has_not_changed_is_not_checked_again(
    text: str, again: list[str], base: Sequence[syntax.File], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    whole = rules._RuleChecker.check

    def checked(checker: rules._RuleChecker) -> None:
        seen.append(checker.rule.name)
        whole(checker)

    monkeypatch.setattr(rules._RuleChecker, "check", checked)
    files = with_user(base, text)
    assert not [d for d in check(files, sound=base) if d.is_error]
    assert seen == again
