"""A pass marks the nodes that it leaves as they are: it does not look at them again."""

from __future__ import annotations

from rule_programs import compile_rules, const, var

from rulegrad._core import Program
from rulegrad.ir import UOp

LAWS = """
pass p rewrite children_first:
    zero: x:int32 + 0 -> x
    one: x:int32 * 1 -> x
pass q rewrite children_first:
    twice: x:int32 + x -> x * 2
"""


def visited(program: Program, name: str, root: UOp, trace: bool = False) -> int:
    result, did = program.rewrite(name, root, trace=trace)
    assert result == root
    found: int = did["visited"]
    return found


def test_a_graph_in_normal_form_is_not_looked_at_again() -> None:
    program = compile_rules(LAWS)
    root, did = program.rewrite("p", (var(1) + var(2)) * 1 + (var(3) + 0))
    assert did["fired"] == 2 and root == (var(1) + var(2)) + var(3)
    assert visited(program, "p", root) == 0
    # what is new above it is, and nothing below
    above = root * var(4)
    assert visited(program, "p", above) == 1
    assert visited(program, "p", above) == 0


def test_each_pass_and_each_program_has_marks_of_its_own() -> None:
    program, other = compile_rules(LAWS), compile_rules(LAWS.replace("x:int32 * 1 -> x", "x:int32 * 3 -> x + x"))
    root = (var(1) + var(1)) * 3
    assert visited(program, "p", root) > 0
    assert program.rewrite("q", root)[0] == (var(1) * 2) * 3
    assert other.rewrite("p", root)[0] == (var(1) + var(1)) + (var(1) + var(1))


def test_rules_that_are_taken_out_and_back_count() -> None:
    program = compile_rules(LAWS)
    root = var(1) * 1
    program.disable("p.one")
    assert visited(program, "p", root) > 0 == visited(program, "p", root)
    program.disable("p.one", off=False)
    assert program.rewrite("p", root)[0] == var(1)


def test_a_trace_shows_every_node() -> None:
    program = compile_rules(LAWS)
    root = var(1) + var(2)
    visited(program, "p", root)
    assert visited(program, "p", root) == 0 < visited(program, "p", root, trace=True)


def test_what_depends_on_the_run_is_not_marked() -> None:
    program = compile_rules("""
        pass p rewrite children_first:
            number: x:int32 + _:const -> x + {slot(x)}
        """)
    second = var(2) + const(1)
    root = UOp("SINK", (var(1) + const(0), second))
    assert visited(program, "p", root) > 0
    # alone, the second is the first that has a number
    assert program.rewrite("p", second)[0] == var(2) + const(0)
