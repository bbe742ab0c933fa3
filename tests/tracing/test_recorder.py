"""The records of a trace: passes, firings, kernels, and the user's lines from tensors to the nodes of kernels."""

from __future__ import annotations

import inspect
import itertools
from pathlib import Path

import numpy as np
import pytest
from traces import index_expression

import rulegrad as rg
from rulegrad import Tensor, _core, engine
from rulegrad.compile import compile_graph
from rulegrad.engine import watching
from rulegrad.errors import ConfigError
from rulegrad.workbench.tracing import Trace
from rulegrad.workbench.tracing.recorder import TracedPass


def named(trace: Trace, name: str) -> list[TracedPass]:
    return [one for one in trace.passes if one.name == name]


def test_a_pass(small: Trace) -> None:
    (one,) = small.passes
    assert one.name == "symbolic" and small.table.nodes[one.before] == index_expression()
    assert [firing.rule for firing in one.firings] == ["algebra.zero", "algebra.one"]
    zero, unit = one.firings
    assert zero.found == zero.before[0] and unit.found != unit.before[0]
    assert small.table.nodes[unit.before[0]] == small.table.nodes[one.after] * 1
    assert small.rules[zero.rule, zero.location].startswith("# x + 0 == x")
    assert "test" not in small.rules[zero.rule, zero.location]


def test_every_pass_of_every_kernel(kernels: Trace) -> None:
    found = [p.name for p in kernels.passes if p.part.pipeline == "schedule"]
    steps = ["number_buffers", *(name for name in engine.pipeline("schedule") if name != "number_buffers")]
    assert list(dict.fromkeys(found)) == list(
        dict.fromkeys(steps)
    )  # what runs again on the same graph is recorded once
    for place, kernel in enumerate(kernels.kernels):
        mine = [p for p in kernels.passes if kernels.kernel_of(p) == place]
        assert [p.name for p in mine] == [*engine.pipeline("kernel"), *engine.pipeline("program")]
        assert all(a.after == b.before for a, b in itertools.pairwise(mine))
        assert kernels.table.number(kernel.graph) == mine[1].after
    # The events of one kernel are adjacent.
    order = [kernels.kernel_of(p) for p in kernels.passes]
    assert order == sorted(order, key=lambda k: -1 if k is None else k)


def test_lines_reach_the_nodes_of_kernels(kernels: Trace) -> None:
    text = Path(__file__).with_name("traces.py").read_text(encoding="utf-8").split("\n")
    product, softmax = (next(k for k, line in enumerate(text, 1) if part in line) for part in ("(x @ x)", ".softmax("))
    assert [kernel.line and kernel.line[1] for kernel in kernels.kernels] == [product, softmax]
    firings = [firing for one in kernels.passes if one.part.kernel for firing in one.firings]
    lines = {firing.line[1] for firing in firings if firing.line}
    assert lines == {product, softmax}
    without = [firing for firing in firings if firing.line is None]
    assert len(without) * 10 < len(firings)


def test_gradients() -> None:
    with rg.trace() as trace:
        x = Tensor([1.0, 2.0], device="numpy", requires_grad=True)
        loss = x.exp().sum()
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
        loss.backward()
    (one,) = named(trace, "gradients")
    assert [firing.rule.partition(".")[0] for firing in one.firings] == ["gradient"] * len(one.firings)
    assert [firing.rule for firing in one.firings][-1] == "gradient.exp"
    assert [firing.line and firing.line[1] for firing in one.firings][-1] == line
    for firing in one.firings:
        assert len(firing.before) == 2 and firing.difference.removed == ()
    # The SINK of the gradients of leaves.
    (source,) = trace.table.sources[one.after]
    assert trace.table.nodes[source].shape == (2,)


def test_what_was_compiled_before_is_traced() -> None:
    def compute() -> list[float]:
        return (Tensor([1.0, 2.0], device="numpy") * 3).tolist()

    values = compute()
    for _ in range(2):
        with rg.trace() as trace:
            assert compute() == values == compute()
        assert len(trace.kernels) == 1 and len(trace.profile.kernels) == 2
        assert all(one.runs >= 1 for one in trace.passes)


def test_equal_runs_are_recorded_once() -> None:
    with rg.trace() as trace:
        for _ in range(3):
            rg.rewrite(index_expression(), "symbolic")
    assert [one.runs for one in trace.passes] == [3]


def test_nothing_is_recorded_outside() -> None:
    with rg.trace() as trace:
        assert watching.watchers == [trace]
    assert watching.watchers == []
    rg.rewrite(index_expression(), "symbolic")
    assert trace.passes == [] and trace.table.nodes == []
    assert engine.run(index_expression(), "symbolic")[1]["firings"] == []


def test_a_trace_ends_with_an_error_inside() -> None:
    with pytest.raises(ZeroDivisionError), rg.trace():
        raise ZeroDivisionError
    assert watching.watchers == []


def test_watching_changes_no_result() -> None:
    def compiled() -> list[tuple[str, str]]:
        x = Tensor(np.arange(12, dtype="float32").reshape(3, 4), device="numpy")
        return [(k.name, k.source) for k in compile_graph([(x.softmax(axis=1) @ x.T).uop], "opencl")]

    plain = compiled()
    with rg.trace():
        assert compiled() == plain


def test_callers_get_what_they_asked_for() -> None:
    with rg.trace():
        x = Tensor([1.0, 2.0], device="numpy")
        total = (x + x).uop
        _, info = engine.run(total, "symbolic", follow=[total])
    assert len(info["followed"]) == 1 and isinstance(info["followed"][0], _core.UOp)


def test_endings_of_files(small: Trace, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"saved as \.html, \.json or \.txt, not as \.pdf"):
        small.save(tmp_path / "trace.pdf")
    small.save(tmp_path / "trace.txt")
    assert (tmp_path / "trace.txt").read_text(encoding="utf-8") == small.text() + "\n"
