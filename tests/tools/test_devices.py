"""`python -m rulegrad` and its tool `devices`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rulegrad.__main__ import main


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
    assert "devices        What devices there are" in capsys.readouterr().out


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
