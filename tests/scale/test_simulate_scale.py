"""`python -m rulegrad simulate-scale`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulegrad.__main__ import main
from rulegrad.workbench.scale.schedule import Event, Memory, Schedule

SMALL = "layers=4,width=1024,heads=16,sequence=512,vocabulary=8000"


@pytest.fixture
def step(tmp_path: Path) -> str:
    events = (
        Event("backward", operations=1e12, bytes=1e9, gradients=4e8, phase="backward"),
        Event("update", bytes=8e8, after=(0,), phase="update", follows_batch=False),
    )
    path = tmp_path / "step.json"
    Schedule("step", events, memory=(Memory("parameters", 4e8),), batch=32).save(path)
    return str(path)


def test_a_table(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate-scale", step, "--strategy", "data", "--devices", "1,8,8192"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("step on h100-infiniband: ")
    assert [line.split()[0] for line in lines[3:6]] == ["1", "8", "8,192"]
    assert "1 x all_reduce along data" in lines[-1] and "hierarchical" in lines[-1]


def test_data(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    def seconds(*options: str) -> list[float]:
        assert main(["simulate-scale", step, "--json", "--devices", "8,10000", *options]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [row["devices"] for row in found["rows"]] == [8, 10000]
        return [row["seconds"] for row in found["rows"]]

    weak = seconds("--strategy", "data")
    assert weak[0] <= weak[1]
    assert seconds("--strategy", "data", "--strong")[1] < weak[1]
    assert seconds("--strategy", "data", "--jitter", "0.1")[1] > weak[1]
    assert seconds("--strategy", "data", "--machine", "frontier")[1] > weak[1]
    assert seconds("--strategy", "fully-sharded", "--no-overlap")[0] >= seconds("--strategy", "fully-sharded")[0]


def test_too_little_memory_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = "layers=32,width=16384,heads=128,sequence=2048,vocabulary=50000"
    assert main(["simulate-scale", "--transformer", sizes, "--strategy", "data", "--devices", "8"]) == 0
    assert "! more than the 80 GB of a device" in capsys.readouterr().out


def test_transformers(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = f"{SMALL},model=4,pipeline=2,micro_batches=8"
    assert main(["simulate-scale", "--transformer", sizes, "--strategy", "data", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["devices"] for row in rows] == [8, 64, 512, 8192]
    assert rows[0]["waiting"] > 0


def test_the_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate-scale", "--machines"]) == 0
    assert "h100-infiniband" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["missing.json"], "missing.json cannot be read: there is no such file"),
        (["--transformer", "layers=4"], "--transformer: width is missing"),
        (["--transformer", "depth=4"], "'depth=4' is not NAME=NUMBER"),
        (["--transformer", SMALL], "has no axis 'data' in its mesh"),
        (["--transformer", SMALL, "--machine", "abacus"], "there is no machine 'abacus'"),
        (["--transformer", SMALL, "--strategy", "data", "--devices", "100000"], "100000 devices are more than"),
    ],
)
def test_mistakes(options: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate-scale", *options]) == 1
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["a.json", "--transformer", SMALL], ["a.json", "--devices", "0"]])
def test_wrong_arguments(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate-scale", *options])
    assert "simulate-scale: error:" in capsys.readouterr().err
