"""Questions to z3, whether formulas contradict each other: as they are, without hard parts, or with theorems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import z3

from rulegrad.workbench.proof.lemmas import Occurring, Subterm, lemmas, subterms

_HIGHEST = 1024  # factors of a product of bit-vectors
_ROUNDS = 12  # of removing what the formulas decide

_HARD = {
    z3.Z3_OP_BMUL: "*", z3.Z3_OP_BSDIV: "signed //", z3.Z3_OP_BUDIV: "//", z3.Z3_OP_BSREM: "signed rest",
    z3.Z3_OP_BUREM: "rest",
}  # fmt: skip


def ask(formulas: Sequence[Any], effort: int) -> Any:
    """z3's answer to whether all can hold, within some steps."""
    solver = z3.Solver()
    solver.set("rlimit", effort)
    solver.add(*formulas)
    return solver.check()


def contradiction(hypotheses: Sequence[Any], claim: Any, effort: int) -> tuple[Any, Any]:
    """z3's answer to whether hypotheses and a claim can hold at once, and a model where they can.

    unsat is the answer of whichever way finds it; sat only that of the formulas as they are.
    """
    formulas = [*hypotheses, claim]
    terms = subterms(formulas)
    easier = without_multipliers(formulas, terms)
    if easier is not None and ask(easier, effort) == z3.unsat:
        return z3.unsat, None
    if _degree(terms) > _HIGHEST:
        return z3.unknown, None
    solver = z3.Solver()
    solver.set("rlimit", effort)
    solver.add(*formulas)
    answer = solver.check()
    if answer == z3.unknown and Occurring.of(terms).divisions:
        answer = with_theorems(formulas, effort)
    return answer, solver.model() if answer == z3.sat else None


# ---- multipliers and dividers of bit-vectors ----


def without_multipliers(formulas: Sequence[Any], terms: Sequence[Subterm]) -> list[Any] | None:
    """The formulas with functions of which little is known for * // % on bit-vectors; None where there are none.

    What contradicts itself then does so for all functions of which that little is so; * // % among them.
    """
    made: dict[int, Any] = {}
    facts: list[Any] = []
    for term, kind, children in terms:
        parts = [made[part.get_id()] for part in children]
        if kind in _HARD:
            made[term.get_id()] = _abstract(kind, parts, facts)
        elif parts and any(not new.eq(old) for new, old in zip(parts, children)):
            made[term.get_id()] = z3.substitute(term, *zip(children, parts))
        else:
            made[term.get_id()] = term
    return [*(made[f.get_id()] for f in formulas), *facts] if facts else None


def _degree(terms: Sequence[Subterm]) -> int:
    """How many factors a product of bit-vectors has when it is multiplied out, as z3 does before it counts steps."""
    degrees: dict[int, int] = {}
    most = 0
    for term, kind, children in terms:
        below = [degrees[part.get_id()] for part in children]
        degree = sum(below) if kind == z3.Z3_OP_BMUL else max(below, default=1) if kind == z3.Z3_OP_ITE else 1
        degrees[term.get_id()] = degree
        most = max(most, degree)
    return most


def _abstract(kind: int, parts: Sequence[Any], facts: list[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = _applied(_HARD[kind], result, part, facts)
    return result


def _applied(name: str, a: Any, b: Any, facts: list[Any]) -> Any:
    """A function of two bit-vectors; what is told of it is so of the one of that name, at any width."""
    sort, zero, one = a.sort(), z3.BitVecVal(0, a.size()), z3.BitVecVal(1, a.size())
    term = z3.Function(f"{name} {a.size()}", sort, sort, sort)(a, b)
    if name == "*":
        facts.append(term == z3.Function(f"{name} {a.size()}", sort, sort, sort)(b, a))
        facts.extend(z3.Implies(p == one, term == q) for p, q in ((a, b), (b, a)))
        facts.extend(z3.Implies(p == zero, term == zero) for p in (a, b))
    else:  # a = q b + r, as SMT-LIB has it for b = 0 as well
        signed = "signed " if name.startswith("signed") else ""
        q, r = (z3.Function(f"{signed}{n} {a.size()}", sort, sort, sort)(a, b) for n in ("//", "rest"))
        facts.append(a == _applied("*", q, b, facts) + r)
        if signed:
            facts.append(z3.Or(r == zero, (r < 0) == (a < 0)))
    return term


# ---- integers ----


def linear(formulas: Sequence[Any]) -> list[Any]:
    """The formulas, multiplied out, with a number of which nothing is known in place of each product of unknowns.

    Quotients and remainders by what is not a number become functions of which nothing is known. What contradicts
    itself then does so with products and quotients. z3 answers at once, for what is left is linear.
    """
    known = [z3.simplify(f, som=True) for f in formulas]
    made: dict[int, Any] = {}
    for term, kind, children in subterms(known):
        parts = [made[part.get_id()] for part in children]
        unknown = [part for part in parts if not z3.is_int_value(part)]
        if kind == z3.Z3_OP_MUL and len(unknown) > 1:
            factor = next((part for part in parts if z3.is_int_value(part)), None)
            name = " * ".join(sorted(str(part.get_id()) for part in unknown))
            product = z3.Int(f"product {name}")
            made[term.get_id()] = product if factor is None else factor * product
        elif kind in _QUOTIENTS and not z3.is_int_value(parts[1]):
            made[term.get_id()] = z3.Function(_QUOTIENTS[kind], z3.IntSort(), z3.IntSort(), z3.IntSort())(*parts)
        elif parts and any(not new.eq(old) for new, old in zip(parts, children)):
            made[term.get_id()] = z3.substitute(term, *zip(children, parts))
        else:
            made[term.get_id()] = term
    return [made[f.get_id()] for f in known]


_QUOTIENTS = {z3.Z3_OP_IDIV: "quotient", z3.Z3_OP_MOD: "rest"}


def with_theorems(formulas: Sequence[Any], effort: int) -> Any:
    """z3's answer once the theorems on quotients and products are added: unsat, or else unknown.

    Choices and wrapping around that the formulas decide are removed first, so that the theorems are about few terms.
    """
    known = _decided([z3.simplify(f) for f in formulas], (), effort)
    for _ in range(_ROUNDS):
        told = lemmas(known)
        if ask(linear([*known, *told]), effort) == z3.unsat:
            return z3.unsat
        less = _decided(known, told, effort)
        if len(less) == len(known):
            break
        known = less
    return z3.unsat if ask([*known, *told], effort) == z3.unsat else z3.unknown


def _decided(known: list[Any], told: Sequence[Any], effort: int) -> list[Any]:
    """The formulas without the choices and the wrapping around that they and some theorems decide; those are added."""
    changed = True
    while changed:
        changed = False
        found = Occurring.of(subterms(known))
        wanted = (*_choices(found), *_wrapping(found))
        made = linear([*known, *told, *(fact for fact, _, _ in wanted)])
        solver = z3.Solver()
        solver.set("rlimit", effort)
        solver.add(*made[: len(known) + len(told)])
        for (fact, old, new), asked in zip(wanted, made[len(known) + len(told) :]):
            if solver.check(z3.Not(asked)) == z3.unsat:
                known = [z3.simplify(z3.substitute(f, (old, new))) for f in known] + [z3.simplify(fact)]
                changed = not told
                if told:
                    return known
    return known


def _choices(found: Occurring) -> list[tuple[Any, Any, Any]]:
    each = [c for c in found.conditions if not (z3.is_true(c) or z3.is_false(c))]
    return [entry for c in each for entry in ((c, c, z3.BoolVal(True)), (z3.Not(c), c, z3.BoolVal(False)))]


def _wrapping(found: Occurring) -> list[tuple[Any, Any, Any]]:
    return [(z3.And(t.arg(0) >= 0, t.arg(0) < t.arg(1)), t, t.arg(0)) for t in found.wrapped]
