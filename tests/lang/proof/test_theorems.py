"""The theorems on integers hold and are used; what is nearly right is not proved."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

z3 = pytest.importorskip("z3")

from rulegrad.workbench.proof import theorems  # noqa: E402
from rulegrad.workbench.proof.lemmas import subterms  # noqa: E402
from rulegrad.workbench.proof.questions import ask, contradiction, without_multipliers  # noqa: E402
from rulegrad.workbench.proof.reference import threefry  # noqa: E402

EFFORT = 600_000


@pytest.mark.parametrize("theorem", theorems.THEOREMS, ids=lambda t: t.name)
def test_every_step_is_confirmed(theorem: theorems.Theorem) -> None:
    assert theorems.check(theorem) == ""


@pytest.mark.parametrize("theorem", [t for t in theorems.THEOREMS if t.arity <= 4], ids=lambda t: t.name)
def test_theorems_hold_for_small_numbers(theorem: theorems.Theorem) -> None:
    """Their premises hold for some numbers, and the conclusions then do."""
    applied = 0
    for values in itertools.product((-3, 0, 1, 2, 7), repeat=theorem.arity):
        terms = [z3.IntVal(v) for v in values]
        if z3.is_true(z3.simplify(z3.And(theorem.premise(*terms)))):
            applied += 1
            assert z3.is_true(z3.simplify(z3.And(theorem.conclusion(*terms)))), values
    assert applied


def test_a_theorem_that_is_wrong_is_not_used() -> None:
    wrong = theorems.Theorem("wrong", 2, lambda a, b: b >= 0, lambda a, b: a == b * (a / b) + a % b, lambda a, b: ())
    rounded = theorems.Theorem("rounded", 2, lambda a, b: b > 0, lambda a, b: b * (a / b) == a, lambda a, b: ())
    assert theorems.check(rounded)
    with pytest.raises(theorems.TheoremError, match="rounded"):
        rounded(z3.Int("x"), z3.Int("y"))
    assert "step 1" in theorems.check(wrong)


@pytest.mark.parametrize(("claim", "answer"), [("a * b != b * a", z3.unsat), ("a * b != a * b + 1 - a", z3.sat)])
def test_products_of_words_without_multipliers(claim: str, answer: object) -> None:
    a, b = z3.BitVecs("a b", 64)
    found, _ = contradiction([], {"a * b != b * a": a * b != b * a}.get(claim, a * b != a * b + 1 - a), EFFORT)
    assert found == answer


@pytest.mark.parametrize("width", [4])
def test_what_is_told_of_divisions_is_so_for_every_word(width: int) -> None:
    """a = q b + r, signed and unsigned, and r has the sign of a, for all words of 4 bits, 0 as the divisor among them."""
    for a, b in itertools.product((z3.BitVecVal(v, width) for v in range(2**width)), repeat=2):
        for q, r in ((a / b, z3.SRem(a, b)), (z3.UDiv(a, b), z3.URem(a, b))):
            assert z3.simplify(q * b + r).eq(a)
        assert z3.is_true(z3.simplify(z3.Or(z3.SRem(a, b) == 0, (z3.SRem(a, b) < 0) == (a < 0))))


def test_rests_of_words() -> None:
    def easier_than(formulas: list[Any]) -> Any:
        return without_multipliers(formulas, subterms(formulas))

    a, b = z3.BitVecs("a b", 64)
    easier = easier_than([z3.SRem(a, b) != a - (a / b) * b])
    assert easier is not None and ask(easier, EFFORT) == z3.unsat
    wrong = easier_than([z3.SRem(a, b) != a - z3.UDiv(a, b) * b])
    assert wrong is not None and ask(wrong, EFFORT) == z3.sat


@pytest.mark.parametrize(
    ("counter", "key", "result"),
    [
        (0, 0, 0x99BA4EFE6B200159),
        (2**64 - 1, 2**64 - 1, 0xBB002BE71CB996FC),
        (0x85A308D3243F6A88, 0x0370734413198A2E, 0x483DF7A0C4923A9C),
    ],
)
def test_threefry_gives_the_published_answers(counter: int, key: int, result: int) -> None:
    """Of Random123's known answers, low word first."""
    found = threefry(z3.BitVecVal(counter, 64), z3.BitVecVal(key, 64))
    assert z3.simplify(found).as_long() == result
