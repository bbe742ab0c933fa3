"""A difference that z3 finds is run by the interpreter, which decides; and what z3 is told of ops and constants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rulegrad._core import UOp
from rulegrad.errors import DeviceError
from rulegrad.workbench.proof import models
from rulegrad.workbench.proof.models import EQUAL, SILENT, UNTRIED

HIDDEN = {
    # 86419747 is 7 times a number only modulo 2 ** 32: no values at random find it
    "wraps": (
        "x:int32 | x -> where(x * 7 == 86419747, x + 1, x)",
        "test fails OR(CONST[int32](-1214787835), CONST[int32](-1214787835))",
    ),
    "of_an_index": (
        "x:index * 2 -> where(x * 7 == 86419746, x, x + x)",
        "test fails MUL(CONST[index](12345678), CONST[index](2))",
    ),
    "no_constant": (
        "max(x:int32, y:int32) -> where(x * 7 == 86419747, x + 1, x)\n"
        "            if vmin(x) >= vmax(y) and not is_const(x)",
        "test fails MAX(CAST[int32](CONST[index](-1214787835)), CAST[int32](CONST[index](-1214787835)))",
    ),
    # no loop counter gets there: it is an index
    "beyond_an_index": (
        "x:uint64 * 2 == 14 -> x == 7",
        "test fails CMPEQ(MUL(CONST[uint64](9223372036854775815), CONST[uint64](2)), CONST[uint64](14))",
    ),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_difference_that_only_z3_finds_refutes_a_rule(outcomes, name: str) -> None:
    rule, line = HIDDEN[name]
    found = outcomes(f"ruleset t:\n        {name}: {rule}\n")[name]
    assert (found.kind, found.line) == ("failed", line)
    assert found.how.startswith("gives ")


def test_a_difference_that_is_none_says_so(outcomes) -> None:
    """z3 knows less of intervals than the engine: there the rule does not fire."""
    text = (
        "ruleset t:\n        sum_of: CAST[index](n@ADD(x:int8, y:int8)) -> CAST[index](x) + CAST[index](y)\n"
        "            if vmin(n) > -128 and vmax(n) < 127\n"
    )
    found = outcomes(text)["sum_of"]
    assert found.kind == "tested" and f"not proved for int8, index: {SILENT}" in found.how


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((None, True), EQUAL),
        ((None, "no element"), f"{UNTRIED}: no element"),
        ((None, DeviceError("no op")), f"{UNTRIED}: no op"),
        ((True, "no element"), EQUAL),
        ((None,), SILENT),
        ((), UNTRIED),
    ],
)
def test_why_a_difference_is_not_confirmed(found: tuple[Any, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came of the values as constants, and of those near them; without graphs they were not tried at all."""
    left = list(found)

    def compare(*_: Any) -> Any:
        answer = left.pop(0)
        if isinstance(answer, DeviceError):
            raise answer
        return answer

    tester: Any = SimpleNamespace(rules=SimpleNamespace(library=SimpleNamespace(table=None)), compare=compare)
    monkeypatch.setattr(models, "_graphs", lambda *_: iter([UOp.const(1, "int32")] * len(found)))
    nothing: Any = None
    assert models.confirmed(tester, nothing, nothing) == said


def test_the_interval_of_a_variable_of_which_z3_knows_one_end(monkeypatch: pytest.MonkeyPatch) -> None:
    z3 = pytest.importorskip("z3")
    from rulegrad.workbench.proof import symbolic
    from rulegrad.workbench.proof.values import Exact, Node

    x = z3.BitVec("x", 8)
    node = Node(x, "uint8")
    solver = z3.Solver()
    solver.add(x == 200)
    assert solver.check() == z3.sat
    real = z3.Real("end")  # a model has no integer for it
    evaluation: Any = SimpleNamespace(bounds={id(node): (node, Exact(z3.IntVal(3), None), Exact(real / 3, None))})
    found = symbolic._variables(solver.model(), {"x": node}, evaluation)
    assert found["x"] == symbolic.Found(200, 200, 200, "uint8")


POWERS = """
    ruleset t:
        masked: x:index & c:const -> x % {c + 1}
            if is_pow2(c + 1) and vmin(x) >= 0
        masked_fixed[T: FixedInt]: x:T & c:const -> x % {c + 1}
            if is_pow2(c + 1) and c + 1 <= T.max and vmin(x) >= 0
        shifted[T: Unsigned]: x:T // c:const -> x >> {log2(2 + c - 2)}
            if is_pow2(c - 1 + 1)
        too_large[T: Unsigned]: x:T & c:const -> x % {c + 1}
            if is_pow2(c + 1)
        off_by_one[T: Unsigned]: x:T & c:const -> x % {c + 2}
            if is_pow2(c + 2) and c + 2 <= T.max
        both: (x:int32 + b:const) * a:const -> x * a + {b << a}
            if is_pow2(a)
"""


def test_a_constant_and_a_number_that_are_a_power_of_two(outcomes) -> None:
    """Cases that rule out the powers of two say nothing of what is no power of them: `b << a` is refuted."""
    kinds = {name: found.kind for name, found in outcomes(POWERS).items()}
    assert kinds == {
        "masked": "proved", "masked_fixed": "proved", "shifted": "proved",
        "too_large": "failed", "off_by_one": "failed", "both": "failed",
    }  # fmt: skip


def test_is_one_of() -> None:
    from rulegrad.workbench.proof.values import CasesError, Exact

    with pytest.raises(CasesError) as asked:
        Exact(None, None, "c", (), 1).is_one_of((1, 2, 4))
    assert (asked.value.name, asked.value.values) == ("c", (0, 1, 3))
    assert not Exact(None, None, "c", (0, 1, 3, 7), 1).is_one_of((1, 2, 4))
    with pytest.raises(CasesError):
        Exact(None, None, "c", (1, 2, 4)).is_one_of((0, 1, 2))
