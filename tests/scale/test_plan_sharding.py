"""`python -m rulegrad plan-sharding`: a script's step, placed in all ways, the best that fits first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad.__main__ import main
from rulegrad.errors import ConfigError
from rulegrad.workbench.scale.machine import FOLDER, load_machine
from rulegrad.workbench.scale.placements import ABOUT, candidates
from rulegrad.workbench.scale.schedule import Event, Memory, Schedule
from rulegrad.workbench.scale.strategies import STRATEGIES
from rulegrad.workbench.tools.plan_sharding import mesh_of

SCRIPT = """
import numpy as np
import rulegrad as rg
from rulegrad import Tensor, nn, optim

model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to("c")
x, y = (Tensor(np.ones((16, n), "float32"), device="c") for n in (32, 8))
adam = optimizer = optim.Adam(model.parameters())

@rg.jit
def step():
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss

train = step
if __name__ == "__main__":
    raise RuntimeError("the program runs")
"""
BYTES = 4 * (32 * 64 + 64 + 64 * 8 + 8)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("scripts") / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def test_all_placements_of_a_script(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan-sharding", script, "--mesh", "data=4", "--batch", "16", "--json"]) == 0
    found = {one["placement"]: one for one in json.loads(capsys.readouterr().out)["placements"]}
    assert set(found) == set(STRATEGIES) == set(ABOUT)
    # the textbook's bytes: gradients twice, or once and parameters once; parameters for each kernel that reads them
    assert found["data"]["bytes_sent"] == found["state-sharded"]["bytes_sent"] == 2 * 3 / 4 * BYTES
    assert found["fully-sharded"]["bytes_sent"] > found["data"]["bytes_sent"]
    whole, state, full = (found[name]["bytes_of_memory"] for name in ("data", "state-sharded", "fully-sharded"))
    assert whole - state == 3 / 4 * 2 * BYTES
    assert full < whole + 2 * BYTES


def test_the_step_of_a_script_is_simulated(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "step.json"
    options = ["--strategy", "data", "--devices", "1,4", "--json"]
    assert main(["simulate-scale", script, "--batch", "16", "--save", str(file), *options]) == 0
    first = json.loads(capsys.readouterr().out)["rows"]
    assert [row["bytes_sent"] for row in first] == [0, 2 * 3 / 4 * BYTES]
    assert main(["simulate-scale", str(file), *options]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == first


def test_a_table(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan-sharding", script, "--mesh", "data=8", "--step", "train", "--optimizer", "adam"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "train.py on 8 devices of h100-infiniband"
    assert {line[2:38].strip() for line in lines[3:]} == set(ABOUT.values())


def test_nothing_fits(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text((FOLDER / "h100-infiniband.toml").read_text().replace("memory = 80e9", "memory = 100"))
    assert main(["plan-sharding", script, "--mesh", "data=8", "--machine", str(path)]) == 1
    assert "! more than the 100 B of a device of tiny" in capsys.readouterr().out


def test_what_fits_comes_first() -> None:
    layers = tuple(
        Event(f"layer {n}", operations=1e15, parameters=1e10, gradients=1e10, phase="backward") for n in range(6)
    )
    schedule = Schedule("s", layers, memory=(Memory("parameters", 6e10), Memory("state", 12e10)))
    found = candidates(schedule, load_machine("h100-infiniband"), 8)
    assert [one.fits for one in found] == [True, True, False] and found[-1].name == "data"
    assert found[0].step.seconds <= found[1].step.seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a list of axes and their sizes"),
        ("data=0", "'data=0' is not a list of axes"),
        ("data=2,data=2", "is not a list of axes"),
        ("data=4,model=2", "placements along 'model' cannot be planned, only along 'data'"),
    ],
)
def test_meshes(text: str, problem: str) -> None:
    assert mesh_of("model=1") == {"data": 1, "model": 1}
    with pytest.raises(ConfigError, match=problem):
        mesh_of(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 / 0", "train.py failed: ZeroDivisionError: division by zero"),
        ("x = 1", "train.py defines no function 'step' without arguments"),
        ("def step(): ...", "train.py defines no optimizer 'optimizer'"),
    ],
)
def test_scripts_that_define_no_step(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)
    assert main(["plan-sharding", str(path), "--mesh", "data=2"]) == 1
    assert problem in capsys.readouterr().err
