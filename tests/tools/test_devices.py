"""`python -m rulegrad` and its tool `devices`."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rulegrad import Tensor, config, engine, load_rules
from rulegrad.__main__ import main
from rulegrad.compile import compile_graph
from rulegrad.engine import measured
from rulegrad.errors import ConfigError, RuleError
from rulegrad.runtime import probe


@pytest.fixture(scope="module", autouse=True)
def _drivers_are_tried_once() -> Iterator[None]:
    """The tool tries them anew at each call, which takes seconds and is what tests/runtime/test_devices.py is about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "_discover_in_children", functools.cache(probe._discover_in_children))
        yield


@pytest.fixture(scope="module")
def own_cache(cache_with_rules: Callable[[], Path]) -> Iterator[Path]:
    """A cache folder for this file's tests: what they measure is not for the others."""
    folder = cache_with_rules()
    with config(cache=folder):
        yield folder


@pytest.fixture
def cache(own_cache: Path) -> Iterator[Path]:
    yield own_cache
    measured.forget()


def test_devices_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["devices"])
    text = capsys.readouterr().out
    assert "numpy" in text and "the reference interpreter" in text and "is the default" in text
    assert status in (0, 1)


def test_devices_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["devices", "--json"])
    found = json.loads(capsys.readouterr().out)
    by_name = {backend["name"]: backend for backend in found["backends"]}
    assert by_name["numpy"]["devices"][0]["name"] == "numpy" and not by_name["numpy"]["devices"][0]["problem"]
    assert by_name["opencl"]["looked"]
    if not by_name["opencl"]["devices"]:
        assert "install" in by_name["opencl"]["advice"]
    assert found["default"]


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "devices        The devices that were found" in capsys.readouterr().out


def test_a_reader_that_has_enough() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as pipe:
        result = subprocess.run(
            [sys.executable, "-m", "rulegrad", "devices"], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 141
    assert result.stderr == ""


def test_a_tool_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devcies"]) == 2
    assert "there is no tool 'devcies'; did you mean devices?" in capsys.readouterr().err


# ---- measured numbers ----


def kernels_of_an_expanded_sine(launch: int | None = None) -> int:
    """How many kernels it is planned in, when a launch is measured to take so many nanoseconds."""
    if launch is not None:
        measured.write("numpy", {"launch": launch}, "for a test")
    x, y = (Tensor.ones(64, n, device="numpy").contiguous().realize() for n in (1, 16))
    return len(compile_graph([(x.sin() * y).uop], "numpy"))


def test_plans_are_made_with_the_measured_numbers(cache: Path) -> None:
    told = engine.target_declaration("numpy").limits
    assert kernels_of_an_expanded_sine(launch=1) == 2
    assert kernels_of_an_expanded_sine(launch=10**9) == 1
    assert engine.target_declaration("numpy").limits == {**told, "launch": 10**9}
    assert measured.forget("numpy") == [measured.file_of("numpy")]
    assert engine.target_declaration("numpy").limits == told


def test_measuring(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = engine.target_declaration("numpy").limits
    assert main(["devices", "--measure", "numpy", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["device"] == found["target"] == "numpy"
    assert found["told"] == {name: told[name] for name in ("bandwidth", "rate", "launch")}
    assert all(number > 0 for number in found["measured"].values())
    assert Path(found["file"]).read_text(encoding="utf-8").startswith("# measured on numpy by ")
    limits = engine.target_declaration("numpy").limits
    assert limits == {**told, **found["measured"]}
    main(["devices"])
    assert f"numpy        costs by {found['file']}: bandwidth {limits['bandwidth']:,}" in capsys.readouterr().out
    assert main(["devices", "--forget", "numpy"]) == 0
    assert capsys.readouterr().out == f"removed {found['file']}\n"
    assert main(["devices", "--forget", "numpy"]) == 0
    assert capsys.readouterr().out == "nothing was measured for target numpy\n"
    assert engine.target_declaration("numpy").limits == told


def test_what_is_measured_is_printed(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rulegrad.workbench.diagnosis import measuring

    told = engine.target_declaration("numpy").limits
    numbers = {"bandwidth": 123456, "rate": 7, "launch": 8}
    monkeypatch.setattr(measuring, "measure", lambda device: numbers)
    assert main(["devices", "--measure", "numpy"]) == 0
    printed = capsys.readouterr().out
    assert f"  bandwidth        123,456{told['bandwidth']:>12,}  bytes a microsecond\n" in printed
    assert "`python -m rulegrad devices --forget numpy` removes them" in printed


def test_threads_are_counted_where_they_share_launches(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel's text depends on them: so only a measurement, which people ask for, sets them by the machine."""
    from rulegrad.workbench.diagnosis import measuring

    for name in ("_bandwidth", "_rate", "_launch_time"):
        monkeypatch.setattr(measuring, name, lambda device: 5.0)
    monkeypatch.setattr(measuring, "_cores", lambda: 48)
    assert measuring.measure("c") == {"bandwidth": 5, "rate": 5, "launch": 5, "threads": 48}
    assert measuring.measure("numpy") == {"bandwidth": 5, "rate": 5, "launch": 5}


def test_units_are_those_that_a_device_tells(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rulegrad.workbench.diagnosis import measuring

    for name in ("_bandwidth", "_rate", "_launch_time"):
        monkeypatch.setattr(measuring, name, lambda device: 5.0)
    opened = SimpleNamespace(target="cuda_sm89", compute_units=114)
    monkeypatch.setattr(measuring.devices, "get", lambda device: opened)
    assert measuring.measure("cuda:0") == {"bandwidth": 5, "rate": 5, "launch": 5, "compute_units": 114}
    # a target that does not count units, and a device that does not tell
    opened.target = "opencl"
    assert "compute_units" not in measuring.measure("cuda:0")
    opened.target = "cuda_sm89"
    del opened.compute_units
    assert "compute_units" not in measuring.measure("cuda:0")


def test_numbers_of_a_target_with_features(cache: Path) -> None:
    told = engine.target("webgpu+f16").limits["rate"]
    measured.write("webgpu+f16", {"rate": told + 1}, "for a test")
    measured.write("faraway+f16", {"rate": 5}, "for a test")  # a target that is not there
    assert engine.target("webgpu+f16").limits["rate"] == told + 1
    assert engine.target("webgpu").limits["rate"] == told
    assert len(measured.forget()) == 2
    assert engine.target("webgpu+f16").limits["rate"] == told


def test_a_user_file_counts_more_than_what_is_measured(cache: Path, tmp_path: Path) -> None:
    measured.write("numpy", {"launch": 5, "rate": 6}, "for a test")
    mine = tmp_path / "mine.rules"
    mine.write_text("target numpy:\n    limit launch 7\n", encoding="utf-8")
    with load_rules(mine):
        limits = engine.target_declaration("numpy").limits
        assert (limits["launch"], limits["rate"]) == (7, 6)
    assert engine.target_declaration("numpy").limits["launch"] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "target numpy:\n    limit launch 0\n",
            "numpy.rules:1: the limit `launch` of target `numpy` is 0, and a measured",
        ),
        ("target numpy:\n    flag fast\n", "numpy.rules:1: only the limits of a target can be measured numbers"),
        ("ruleset algebra:\n    a: x + 0 -> x\n", "numpy.rules:1: only the limits of a target"),
        ("target numpy:\n    limit launch fast\n", "numpy.rules:2"),
        ("target", "numpy.rules:1"),
        (b"\xff\xfe", "numpy.rules:1:1: the byte 0xff is not UTF-8"),
    ],
)
def test_a_damaged_file_of_measured_numbers(cache: Path, text: str | bytes, message: str) -> None:
    path = measured.write("numpy", {"launch": 5}, "for a test")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    engine.forget()
    with pytest.raises(RuleError) as caught:
        engine.loaded().sources.declarations().__next__()
    assert message in str(caught.value)
    assert isinstance(text, bytes) or "`python -m rulegrad devices --forget` removes measured numbers" in str(
        caught.value
    )
    assert main(["devices", "--forget"]) == 0
    assert engine.target_declaration("numpy").limits["launch"] != 5


def test_devices_are_listed_though_measured_numbers_are_damaged(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = measured.write("numpy", {"launch": 0}, "for a test")
    main(["devices"])
    assert f"costs by {path}: {path}:2: the limit `launch` of target `numpy` is 0" in capsys.readouterr().out


def test_numbers_of_a_target_that_is_not_there_are_for_later(cache: Path) -> None:
    measured.write("faraway", {"launch": 5}, "for a test")
    assert "faraway" not in engine.summary()["targets"]
    assert kernels_of_an_expanded_sine() == 1


def test_numbers_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "measured").write_text("a file in the way", encoding="utf-8")
    with (
        config(cache=tmp_path),
        pytest.raises(ConfigError, match="the measured numbers cannot be kept: .*RULEGRAD_CACHE"),
    ):
        measured.write("numpy", {"launch": 5}, "for a test")


def test_measuring_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--measure", "opencll"]) == 1
    assert "there is no device 'opencll'; did you mean 'opencl'?" in capsys.readouterr().err


def test_another_cache_folder_has_numbers_of_its_own(cache: Path, tmp_path: Path) -> None:
    measured.write("numpy", {"launch": 5}, "for a test")
    with config(cache=tmp_path):
        assert engine.target_declaration("numpy").limits["launch"] != 5
    assert engine.target_declaration("numpy").limits["launch"] == 5
