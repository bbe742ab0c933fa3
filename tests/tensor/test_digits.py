"""examples/digits.py: the same losses on every device. (That it learns to read, the test of all examples shows.)"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rulegrad.errors import DeviceError
from rulegrad.runtime import devices

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def _run(device: str, steps: int, losses: Path) -> tuple[int, str, np.ndarray]:
    pytest.importorskip("sklearn")
    try:
        devices.get(device)
    except DeviceError as error:
        pytest.skip(str(error))
    command = [sys.executable, str(EXAMPLE), "--device", device, "--steps", str(steps), "--losses", str(losses)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert losses.exists(), result.stderr
    return result.returncode, result.stdout, np.array(json.loads(losses.read_text()))


def test_losses_are_the_same_on_all_devices(tmp_path):
    _, _, reference = _run("numpy", 12, tmp_path / "numpy.json")
    _, _, losses = _run("opencl", 12, tmp_path / "opencl.json")
    assert reference.shape == (12,)
    assert reference[-1] < reference[0]
    np.testing.assert_allclose(losses, reference, 1e-5)


def test_too_few_steps_are_a_failure(tmp_path):
    status, output, _ = _run("numpy", 1, tmp_path / "losses.json")
    assert status == 1
    assert output.startswith("1 steps on numpy")
