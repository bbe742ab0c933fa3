"""The benchmark of GPUs, without one: it says what it needs, and its cases compute what NumPy computes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_without_a_gpu_it_says_what_it_needs() -> None:
    command = [sys.executable, str(BENCH / "gpu.py"), "--device", "cuda:99"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("bench/gpu.py cannot run here: there is no device 'cuda:99'")


def test_its_cases_are_right_on_another_device() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(BENCH)!r})\n"
        "import gpu\n"
        "for case in gpu.cases(32, 48, {'': '', 'again': ''}):\n"
        "    result = gpu.measured(case, 'numpy', None)\n"
        "    assert not result.problem, (case.name, result.problem)\n"
        "    assert result.kernels >= 1 and result.nbytes > 0 and result.share is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.long_run
def test_products_are_checked_in_each_way() -> None:
    """On the simulator, as a GPU of compute capability 9.0; there is one way on other devices."""
    code = (
        f"import sys; sys.path.insert(0, {str(BENCH)!r})\n"
        "import gpu_products\n"
        "import rulegrad\n"
        "from rulegrad.compile import compile_graph\n"
        "from rulegrad.runtime import devices\n"
        f"rulegrad.load_backend({str(BENCH.parent / 'tests' / 'shims' / 'cuda_shim')!r})\n"
        "try:\n"
        "    device = devices.get('cuda_shim')\n"
        "except rulegrad.errors.DeviceError as error:\n"
        "    sys.exit(77)\n"
        "device.target = 'cuda_sm90a'\n"
        "gpu_products.QUICK = gpu_products.QUICK[:1]\n"
        "for way, rules in gpu_products.ways_of('cuda_shim').items():\n"
        "    with gpu_products.in_way(rules):\n"
        "        assert gpu_products.check('cuda_shim', True) == {'right': 12, 'problems': []}, way\n"
        "        a = rulegrad.Tensor([[1.0] * 128] * 128, dtype='float16', device='cuda_shim').realize()\n"
        "        (kernel,) = compile_graph([(a @ a).uop], device.target)\n"
        "        assert bool(kernel.maps) == (way == 'TMA')\n"
        "assert gpu_products.ways_of('numpy') == {'': ''}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("no C++ compiler was found")
    assert done.returncode == 0, done.stderr


def test_what_is_wrong_is_told() -> None:
    command = [sys.executable, str(BENCH / "gpu_products.py"), "--device", "numpy", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"right": 48, "problems": []})
    code = (
        f"import sys; sys.path.insert(0, {str(BENCH)!r})\n"
        "import gpu_products\n"
        "gpu_products.differing = lambda size, *_: int(size[0] == 2)\n"
        "found = gpu_products.check('numpy', True)\n"
        "assert found['right'] == 36 and len(found['problems']) == 12\n"
        "assert found['problems'][0] == '(2, 128, 192, 128), bfloat16, nothing turned: 1 elements are wrong'\n"
        "gpu_products.SECONDS = 0.01\n"
        "assert 'has not ended' in gpu_products.checked_apart('numpy', True)['']['problems'][0]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
