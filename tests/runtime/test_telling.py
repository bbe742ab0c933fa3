"""DEBUG output about kernels at each level, and reports of time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rulegrad as rg
from rulegrad import Tensor, config


def test_each_level_of_debug_says_more(capfd: pytest.CaptureFixture[str]) -> None:
    said = []
    for level in range(4):
        with config(debug=level):
            (Tensor([1.0] * (level + 3), device="numpy") * 7).realize()
        said.append(capfd.readouterr().err)
    assert said[0] == ""
    lines = said[1].splitlines()
    assert len(lines) == 1 and lines[0].startswith("rulegrad: 1 kernel on numpy, ")
    assert "for test_telling.py:" in lines[0]
    assert "*** " in said[2] and "the graph of" not in said[2]
    assert "rulegrad: the graph of " in said[3] and " = MUL:float32(" in said[3]


def test_a_graph_that_is_known_says_nothing_at_1(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with config(debug=1):
            (Tensor([1.0] * 11, device="numpy") * 7).realize()
    assert capfd.readouterr().err.count("rulegrad: 1 kernel") == 1


def test_the_source_is_said_though_the_kernel_comes_from_disk(tmp_path: Path) -> None:
    program = "from rulegrad import Tensor; (Tensor([1.0, 2.0], device='c') * 3.25).realize()"
    path = str(Path(rg.__file__).parents[1])  # which need not be installed
    environment = {"RULEGRAD_CACHE": str(tmp_path), "DEBUG": "4", "PATH": "/usr/bin:/bin", "PYTHONPATH": path}
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        said.append(done.stderr)
    assert all("3.25" in text.partition("rulegrad: the graph of")[2].partition("\n}")[0] for text in said)
    assert [text.count("void ") for text in said] == [said[0].count("void ")] * 2 and "void " in said[0]


def test_a_profile_is_a_table() -> None:
    with rg.profile() as p:
        for _ in range(3):
            (Tensor([1.0, 2.0, 4.0], device="numpy") * 9).realize()
        Tensor([1.0, 2.0, 4.0], device="numpy").sum().realize()
    lines = str(p).splitlines()
    columns = ["kernel", "device", "launches", "time", "share", "GFLOP/s", "GB/s", "of", "limit", "line"]
    assert lines[0].split() == columns
    assert len(lines) == 4 and {line.rpartition("  ")[2].partition(":")[0] for line in lines[1:-1]} == {
        "test_telling.py"
    }
    assert len({len(line.rpartition("  ")[0]) for line in lines[:-1]}) == 1
    counts = {int(line.split()[2]) for line in lines[1:-1]}
    assert counts == {1, 3} and lines[-1].split()[:2] == ["all", "4"]
    assert repr(p).startswith("<Profile of 4 launches, ")
    with rg.profile() as nothing:
        pass
    assert len(str(nothing).splitlines()) == 2


def test_a_report_of_memory() -> None:
    before = rg.memory_report("numpy")
    x = (Tensor.zeros(100_000, device="numpy") + 1).contiguous().realize()
    report = rg.memory_report("numpy")
    assert report.in_use - before.in_use >= 400_000 and report.peak >= report.in_use and report.device == "numpy"
    mine = next(one for one in report.buffers if one.kind == "float32 100000")
    assert mine.nbytes == 400_000 and mine.made_at.startswith("test_telling.py:")
    assert [one.nbytes for one in report.buffers] == sorted((one.nbytes for one in report.buffers), reverse=True)
    text = str(report)
    assert "numpy: in use" in text and "float32 100000" in text and "kept for reuse" in text
    rg.reset_peak_memory("numpy")
    assert rg.peak_memory("numpy") == rg.memory_report("numpy").peak
    del x
