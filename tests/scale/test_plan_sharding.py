"""`python -m rulegrad plan-sharding`: placements are judged by what the rules make of a script's step, and are real."""

from __future__ import annotations

import gc
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from rulegrad.__main__ import main
from rulegrad.communication import counters, reset_counters
from rulegrad.distributed import placement
from rulegrad.errors import ConfigError
from rulegrad.runtime import devices
from rulegrad.workbench.scale.groups import patterns, starred
from rulegrad.workbench.scale.machine import Machine, load_machine
from rulegrad.workbench.scale.planning import Candidate, Judge, best_placements
from rulegrad.workbench.scale.scripts import Training, load_training
from rulegrad.workbench.tools.plan_sharding import code, fixed_by, mesh_of

SCRIPT = """
import numpy as np
import rulegrad as rg
from rulegrad import Tensor, nn, optim
from rulegrad.distributed import Mesh, shard, shard_parameters

rg.manual_seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.query, self.value, self.out = (nn.Linear(8, 8) for _ in range(3))
        self.up, self.down = nn.Linear(8, 128), nn.Linear(128, 8)

    def forward(self, x):
        y = self.norm(x)
        weights = (self.query(y) @ y.transpose(1, 2)).softmax(-1)
        x = x + self.out(weights @ self.value(y))
        return x + self.down(self.up(x).relu())

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.head = nn.Linear(8, 16)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

model = Model().to("numpy")
tokens, targets = (Tensor(np.random.default_rng(k).integers(0, 16, (4, 4)), device="numpy") for k in range(2))
# the plan
optimizer = optim.Adam(model.parameters(), lr=1e-3)

@rg.jit
def step():
    optimizer.zero_grad()
    loss = model(tokens).reshape(-1, 16).cross_entropy(targets.reshape(-1))
    loss.backward()
    optimizer.step()
    return loss

train = step
if __name__ == "__main__":
    raise RuntimeError("the program runs")
"""
MACHINE = """
doc = "slow devices between which little is sent"
[device]
rates = { float32 = 1e9 }
memory_bandwidth = 1e10
memory = 1e9
[[links]]
name = "bus"
devices = 16
latency = 1e-6
bandwidth = 1e8
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scripts")
    (path / "train.py").write_text(SCRIPT)
    (path / "slow.toml").write_text(MACHINE)
    return path


@pytest.fixture(scope="module")
def script(folder: Path) -> str:
    return str(folder / "train.py")


@pytest.fixture(scope="module")
def training(script: str) -> Training:
    return load_training(script)


def judge(training: Training, folder: Path, memory: float = 1e9, **mesh: int) -> Judge:
    machine = load_machine(folder / "slow.toml")
    return Judge(training, mesh, Machine(**{**_fields(machine), "memory": memory}))


def _fields(machine: Machine) -> dict[str, Any]:
    return {name: getattr(machine, name) for name in Machine.__slots__}


def ran(folder: Path, judge: Judge, candidate: Candidate) -> dict[str, Any]:
    """The script with the lines of the plan in it, after a step on parts of a device; with what each has sent."""
    text = code(judge, candidate).replace(f"Mesh({judge.mesh})", f"Mesh({judge.mesh}, device='numpy*{judge.size}')")
    path = folder / "placed.py"
    path.write_text(SCRIPT.replace("# the plan", text))
    names = runpy.run_path(str(path), run_name="training")
    for _ in range(2):  # state is made in the first
        reset_counters()
        names["loss"] = names["step"]().item()
    names["sent"] = {kind: count.bytes for kind, count in counters().items()}
    return names


CHOICES = {
    "data": {"tokens": {"data": 0}},
    "columns and rows": {"tokens": {"data": 0}, "*.up.weight": {"model": 0}, "*.down.weight": {"model": 1}},
    "all parameters": {"tokens": {"data": 0}, "*.weight": {"data": 0}},
    "vocabulary": {"embedding.weight": {"model": 0}, "head.weight": {"model": 0}},
    "sequence": {"tokens": {"data": 1}, "*.value.weight": {"model": 1}},
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in ("columns and rows", "sequence") else pytest.mark.long_run)
        for kind in CHOICES
    ],
)
def test_a_plan_sends_what_it_tells(kind: str, training: Training, folder: Path) -> None:
    """The lines that are printed give the placements, and a run counts the bytes that were estimated."""
    judged = judge(training, folder, data=2, model=2)
    texts = [f"{name}:{','.join(f'{a}={k}' for a, k in axes.items())}" for name, axes in CHOICES[kind].items()]
    fixed = fixed_by(texts, judged.groups, judged.mesh)
    candidate = judged.candidate(tuple(fixed.get(k, (-1, -1)) for k in range(len(judged.groups))))
    names = ran(folder, judged, candidate)
    assert names["sent"] == {kind: count.bytes for kind, count in candidate.sent.items()}
    assert sum(names["sent"].values()) > 0
    wanted = judged.placements(candidate.choice)
    for name, parameter in training.parameters().items():
        found = placement(dict(names["model"].named_parameters())[name], names["mesh"])
        assert tuple(found.get(axis, -1) for axis in judged.mesh) == wanted[id(parameter)], name
    alone = runpy.run_path(str(folder / "train.py"), run_name="training")
    assert names["loss"] == pytest.approx([alone["step"]().item() for _ in range(2)][-1], rel=1e-4)


def test_memory_is_counted(training: Training, folder: Path) -> None:
    judged = judge(training, folder, model=4)
    whole = judged.candidate(((-1,),) * len(judged.groups))
    parameters = sum(one.nbytes for one in training.parameters().values())
    assert whole.memory["parameters"] == pytest.approx(parameters, rel=0.1)
    for name in ("gradients", "optimizer state"):  # the gradients of the step before are there until a step ends
        assert whole.memory[name] == pytest.approx(2 * parameters, rel=0.1), name
    assert whole.bytes_sent == 0 and whole.fits
    split = judged.candidate(tuple((0,) if not one.is_input else (-1,) for one in judged.groups))
    for name in ("parameters", "gradients", "optimizer state"):
        assert split.memory[name] < 0.4 * whole.memory[name], name


def test_memory_is_that_of_a_run(training: Training, folder: Path) -> None:
    judged = judge(training, folder, data=2, model=2)
    fixed = fixed_by(["tokens:data=0", "*.up.*:model=0", "*.down.*:model=1"], judged.groups, judged.mesh)
    candidate = judged.candidate(tuple(fixed.get(k, (-1, -1)) for k in range(len(judged.groups))))
    allocator = devices.allocator("numpy*4")
    gc.collect()
    before = allocator.in_use
    names = ran(folder, judged, candidate)
    gc.collect()
    allocator.reset_peak()
    names["step"]()
    assert allocator.most_in_use - before == pytest.approx(candidate.step.memory, rel=0.05)


def test_columns_and_rows_are_found(folder: Path) -> None:
    """Where memory is short, the layers of the large network are split so that one sum is sent between devices."""
    path = folder / "large.py"
    path.write_text(SCRIPT.replace("(4, 4)", "(16, 32)").replace("range(2)])", "range(1)])"))  # a large batch
    judged = judge(load_training(str(path)), folder, 680e3, model=2)
    fixed = fixed_by(["tokens:", "head:"], judged.groups, judged.mesh)
    found = best_placements(judged, 40, fixed)
    place = dict(zip([group.name for group in judged.groups], found[0].choice, strict=True))
    assert found[0].fits and len(found) <= 40
    assert not judged.candidate(((-1,),) * len(judged.groups)).fits
    assert [place[f"blocks.0.{name}"] for name in ("up", "down", "value", "out")] == [(0,), (1,), (0,), (1,)]


def test_the_search_is_the_same_each_time(training: Training, folder: Path) -> None:
    found = [best_placements(judge(training, folder, model=2), 6) for _ in range(2)]
    assert [one.choice for one in found[0]] == [one.choice for one in found[1]]
    assert [one.step.seconds for one in found[0]] == sorted(one.step.seconds for one in found[1])


def test_a_report(script: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "step.json"
    words = ["plan-sharding", script, "--mesh", "data=4", "--tries", "6", "--step", "train", "--save", str(file)]
    assert main([*words, "--place", "tokens:data=0"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^\d placements on data=4 devices of h100-infiniband; the best:", text)
    assert re.search(r"tokens, targets +data=0", text) and "tokens = shard(tokens, mesh, data=0)" in text
    assert main(["simulate-scale", str(file), "--devices", "4,64", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["devices"] for row in rows] == [4, 64] and rows[0]["bytes_sent"] > 0


def test_nothing_fits(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan-sharding", script, "--mesh", "data=2", "--tries", "2", "--memory", "100"]
    assert main(words) == 1
    assert "! more than the 100 B of a device of h100-infiniband" in capsys.readouterr().out
    assert main([*words, "--json", "--show", "1"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (one,) = answer["placements"]
    assert answer["tried"] == 2 and not one["fits"] and set(one["bytes_of_memory"]) >= {"parameters", "activations"}


def test_patterns_fit_their_parameters_only() -> None:
    placed = {
        "blocks.0.up.weight": (0,), "blocks.1.up.weight": (0,), "blocks.0.up.bias": (0,), "blocks.1.up.bias": (0,),
        "blocks.0.down.weight": (1,), "blocks.1.down.weight": (-1,), "head.weight": (0,), "head.bias": (-1,),
    }  # fmt: skip
    assert patterns(placed) == {"blocks.*.up.*": (0,), "blocks.0.down.weight": (1,), "head.weight": (0,)}
    assert starred("weight") == "weight"


@pytest.mark.parametrize("text", ["", "data=0", "data=2,data=2", "data", "data=2,=3"])
def test_meshes_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a list of axes and their sizes"):
        mesh_of(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tokens", "'tokens' is not NAME:AXIS=K"),
        ("tokens:data", "'tokens:data' is not NAME:AXIS=K"),
        ("tokens:pipe=0", "the mesh has no axis 'pipe'; it has data, model"),
        ("wieght:data=0", "no input or parameter is called 'wieght'; these are placed: tokens, targets, "),
        ("tokens:data=2", r"tokens, targets, of shape \(4, 4\), is split along its first two axes only"),
    ],
)
def test_fixed_placements(text: str, problem: str, training: Training, folder: Path) -> None:
    judged = judge(training, folder, data=2, model=1)
    with pytest.raises(ConfigError, match=problem):
        fixed_by([text], judged.groups, judged.mesh)
    assert fixed_by(["targets:data=1,model=0"], judged.groups, judged.mesh) == {0: (1, -1)}


@pytest.mark.parametrize(
    ("change", "words", "problem"),
    [
        (
            ("# the plan", ""),
            ("--mesh", "data=3"),
            "data=3 divides the first two axes of no tensor into equal parts: tokens",
        ),
        (("# the plan", ""), ("--step", "other"), "defines no function 'other' without arguments"),
        (("train = step", "optimizer = 3"), (), "defines no optimizer 'optimizer'"),
        (
            ("@rg.jit\ndef step():", "def step():\n    tokens.sum().item()"),
            (),
            "the step cannot be captured as one computation",
        ),
        (("    optimizer.step()\n", ""), (), "computes no new values of the parameters; call optimizer.step"),
        (("train = step", "def step(): raise KeyError(3)"), (), "the step of the script failed: KeyError: 3"),
        (("return self.head(x)", "return HEAD(x)"), (), "the step of the script failed: NameError"),
        (
            ("model.parameters()", "[*model.parameters(), nn.Parameter(Tensor([1.0], device='numpy'))]"),
            (),
            "defines no module with all parameters that the optimizer moves",
        ),
        (
            (
                "# the plan",
                "mesh = Mesh({'data': 2}, device='numpy*2')\nshard_parameters(model, mesh, {})\n"
                "tokens, targets = (shard(one, mesh, data=0) for one in (tokens, targets))",
            ),
            (),
            "the script places tensors on a mesh itself",
        ),
    ],
)
def test_scripts_that_cannot_be_planned(
    change: tuple[str, str],
    words: tuple[str, ...],
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace(*change))
    assert main(["plan-sharding", str(path), "--mesh", "data=2", *words]) == 1
    assert problem in " ".join(capsys.readouterr().err.split())
