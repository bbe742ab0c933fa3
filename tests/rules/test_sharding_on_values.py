"""Rules of the pass `shard` are compared on values of all devices: wrong ones are found, and `CHECK=2` looks at graphs."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, config, engine
from rulegrad.compile import sharding
from rulegrad.distributed import Mesh, shard
from rulegrad.errors import RewriteError
from rulegrad.ir import UOp
from rulegrad.lang.parser import parse_file
from rulegrad.support.paths import data_folder
from rulegrad.workbench.diagnosis import checking
from rulegrad.workbench.diagnosis.on_mesh import values_on_mesh
from rulegrad.workbench.proof import testing
from rulegrad.workbench.proof.programs import Rules, entries_of

FILE = "sharding/propagation.rules"

#: Rules, a part of each, what is wrong in its place, and what is found.
WRONG = [
    ("reduce", "valid_only(redistributed(x, m, q), s, m, q, axes, CONST[T](identity(f, T)))", "redistributed(x, m, q)",
     "gives"),
    ("permute", "argsort(o)[k] for k in p]", "o[k] for k in p]", "x is the part of one device"),
    ("scan", "without_axes(without_terms(p), [n.axis])", "without_terms(p)", "gives"),
    ("gather_parts", "number(table, 0)))", "number(table, 1)))", "gives"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "right", "wrong", "said"), WRONG, ids=[name for name, *_ in WRONG])
def test_a_wrong_rule_is_found(name: str, right: str, wrong: str, said: str) -> None:
    engine.install_op_table()
    text = (data_folder("rules") / FILE).read_text(encoding="utf-8")
    assert text.count(right) == 1
    files = [
        parse_file(text.replace(right, wrong), str(file.declarations[0].span.file))
        if str(file.declarations[0].span.file).endswith(FILE) else file
        for file in engine.loaded().sources.files
    ]  # fmt: skip
    (entry,) = (one for one in entries_of(files) if one.name == f"shard.{name}")
    trial = testing.Tester(Rules(files, {entry.rule.span.file})).test(entry)
    assert trial.difference is not None and said in trial.difference.values


def test_values_of_devices_that_exchange() -> None:
    x = UOp("PARAM", (), "float32", slot=0, shape=(2,))
    number = UOp("COORDINATE", (), "int64", mesh=(3,), axes=(0,))
    total = UOp("ALL_REDUCE", (x,), mesh=(3,), axes=(0,), op="ADD")
    parts = UOp("SHARDED", (x,), mesh=(3,), placement=(0,), shape=(5,), partial="ADD")
    terms = UOp("SHARDED", (x,), mesh=(3,), placement=(-2,), shape=(2,), partial="MAX")
    found = values_on_mesh([total, parts, terms, number], 3, lambda _, rank: np.array([rank, 10], np.float32))
    assert [one.tolist() for one in found[0]] == [[3, 30]] * 3
    assert [one.tolist() for one in found[1]] == [[0, 10, 1, 10, 2]] * 3
    assert [one.tolist() for one in found[2]] == [[2, 10]] * 3
    assert [one.tolist() for one in found[3]] == [0, 1, 2]


def test_check_looks_at_what_devices_compute(capsys: pytest.CaptureFixture[str]) -> None:
    mesh = Mesh({"data": 3}, device="numpy*3")
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    with config(check=2):
        x = shard(values, mesh, data=0)
        assert x.sum(0).tolist() == values.sum(0).tolist()
        assert (x @ shard(values.T, mesh, data=1)).tolist() == (values @ values.T).tolist()
    assert "pass shard" not in capsys.readouterr().err


def test_check_refuses_what_is_wrong_on_one_device() -> None:
    local = UOp("PARAM", (), "float32", slot=0, shape=(2, 4))
    graph = UOp("REDUCE", (UOp("SHARDED", (local,), mesh=(2,), placement=(0,), shape=(3, 4)),), op="ADD", axes=(0,))
    target = "numpy"
    right = sharding.localize(UOp("SINK", (graph,)), "numpy*2", target)
    assert right.parts == (None,)
    terms = UOp("REDUCE", (local,), op="ADD", axes=(0,))  # with what lies behind the end of the axis
    wrong = UOp("ALL_REDUCE", (terms,), mesh=(2,), axes=(0,), op="ADD")
    with pytest.raises(
        RewriteError, match=r"pass shard changes what the graph computes; rules that fired: shard.reduce"
    ):
        checking.check_sharding(UOp("SINK", (graph,)), UOp("SINK", (wrong,)), (None,), ["shard.reduce"])


def test_a_tensor_that_is_placed_is_its_value() -> None:
    mesh = Mesh({"a": 2, "b": 2}, device="numpy*4")
    with config(check=2):
        assert shard(Tensor([[1.0, 2.0, 3.0]], device=mesh.device), mesh, b=1).tolist() == [[1, 2, 3]]
