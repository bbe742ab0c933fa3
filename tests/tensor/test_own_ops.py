"""`apply_op`, ops that a user's rule file declares, and graphs that are made by hand."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rulegrad import Tensor, UOp, apply_op, grad, jit, no_grad, vjp, vmap
from rulegrad.errors import GraphError, RulegradError, ShapeError

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_op"


def test_the_example_on_devices() -> None:
    """Values, gradients, vmap and both of an elementwise op and of one with a shape of its own."""
    pytest.importorskip("pyopencl")
    rules = str(EXAMPLE / "my_ops.rules")
    environment = {**os.environ, "RULEGRAD_RULES": rules, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(EXAMPLE / "run.py"), "numpy", "c", "opencl:0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["numpy", "c", "opencl:0"]
    assert all(line.endswith("differences below 1e-5: True") for line in lines)


def test_the_examples_rules_are_clean() -> None:
    rules = str(EXAMPLE / "my_ops.rules")  # in force from the start, or the command would start another process
    environment = {**os.environ, "RULEGRAD_RULES": rules}
    command = [sys.executable, "-m", "rulegrad", "check", rules]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "no problems\n", done.stdout + done.stderr


def test_numbers_and_shapes() -> None:
    x = Tensor([[1.0], [2.0]], requires_grad=True)
    y = apply_op("ADD", apply_op("MUL", x, [10.0, 20.0]), 1)
    assert y.tolist() == [[11.0, 21.0], [21.0, 41.0]] and y.requires_grad
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[30.0], [30.0]]
    assert apply_op("CAST", Tensor([1.5]), dtype="int32").tolist() == [1]
    with pytest.raises(ShapeError, match=r"apply_op\(ADD\)"):
        apply_op("ADD", Tensor([1.0, 2.0]), Tensor([1.0, 2.0, 3.0]))


def test_attributes_and_truth_values() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert apply_op("REDUCE", x, op="ADD", axes=(1,)).tolist() == [[3.0], [7.0]]
    assert apply_op("WHERE", x > 1.5, x, 0).tolist() == [[0.0, 2.0], [3.0, 4.0]]
    assert apply_op("WHERE", Tensor([True, False]), 7, Tensor([1, 2], dtype="int8")).tolist() == [7, 2]
    assert apply_op("XOR", Tensor([True, False]), True).tolist() == [False, True]


def test_mistakes() -> None:
    for op in ("LOAD", "MULACC"):
        with pytest.raises(GraphError, match=f"{op} may not stand among tensors"):
            apply_op(op, *[Tensor([1.0])] * (1 if op == "LOAD" else 3))
    with pytest.raises(RulegradError, match=r"no rule file declares an op MULAC; did you mean `MULACC`"):
        apply_op("MULAC", Tensor([1.0]))
    with pytest.raises(RulegradError, match="RULEGRAD_RULES"):
        apply_op("SWISH", Tensor([1.0]))
    with pytest.raises(RulegradError, match="needs a tensor"):
        apply_op("ADD", 1, 2)
    with pytest.raises(GraphError):
        apply_op("ADD", Tensor([1.0]))


def test_a_graph_made_by_hand_in_a_function() -> None:
    """`grad` gave zeros: its arguments are not buffers."""

    def power(x: Tensor) -> Tensor:
        return Tensor(UOp("EXP2", (x.uop,))).sum()

    x = Tensor([0.0, 1.0])
    wanted = [math.log(2), 2 * math.log(2)]
    outer = Tensor([3.0, 4.0], requires_grad=True)
    for found in (
        grad(power)(x),
        jit(grad(power))(x),
        vmap(grad(power))(x.reshape(2, 1)).reshape(2),
        vjp(power, x)[1](Tensor(1.0))[0],
    ):
        assert found.tolist() == pytest.approx(wanted)
    grad(lambda x: Tensor(UOp("MUL", (x.uop, outer.uop))).sum())(x).sum().backward()
    assert outer.grad is not None and outer.grad.tolist() == [1.0, 1.0]


def test_a_graph_made_by_hand_keeps_gradients() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    realized = (x * 3).realize()
    for node, slope in ((x.uop, [2.0, 4.0]), (realized.uop, [18.0, 36.0])):
        x.grad = None
        square = Tensor(UOp("MUL", (node, node)))
        assert square.requires_grad
        square.sum().backward()
        assert x.grad is not None and x.grad.tolist() == slope
    assert not Tensor(x.detach().uop).requires_grad
    assert not Tensor(x).requires_grad
    with no_grad():
        assert not Tensor(UOp("NEG", (x.uop,))).requires_grad
