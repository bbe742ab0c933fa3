"""Products of matrices on a device, all elements compared with NumPy's, in each way that its target has to copy tiles.

    python bench/gpu_products.py [--device NAME] [--way WAY] [--quick]

bench/gpu.py calls it, in a process of its own for each way: a kernel that waits for what never comes is stopped after a
while, and does not stop the rest. It prints a JSON object; the exit status is 1 when a product is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import common
import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import RulegradError
from rulegrad.runtime import devices

#: For targets that have several ways: a rule file for each, the target's own first.
WAYS = {"cuda_sm90a": {"TMA": "", "cp.async": "target cuda_sm90a:\n    limit box_lines 0\n"}}
#: Sizes (batch, rows, depth, columns): whole tiles, one step, several blocks, a batch, sizes that do not fit.
QUICK = ((1, 128, 64, 128), (1, 128, 320, 256), (2, 128, 192, 128), (1, 200, 120, 200))
SIZES = (
    *QUICK,
    (1, 512, 1024, 768),
    (1, 2048, 512, 1024),
    (3, 256, 256, 384),
    (1, 1000, 1000, 1000),
    (5, 104, 248, 232),
)
SECONDS = 300


def ways_of(device: str) -> dict[str, str]:
    """The ways of a device, and the rule file of each; one without a name where there is nothing to choose."""
    found: Any = devices.get(device)
    return WAYS.get(found.target, {"": ""})


@contextmanager
def rule_file(rules: str) -> Iterator[Path | None]:
    """A file of this text; none without one."""
    if not rules:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "way.rules"
        file.write_text(rules, encoding="utf-8")
        yield file


@contextmanager
def in_way(rules: str) -> Iterator[None]:
    """With a rule file of this text; nothing changes without one."""
    with rule_file(rules) as file:
        if file is None:
            yield
            return
        with rg.load_rules(file):
            yield


def check(device: str, quick: bool) -> dict[str, Any]:
    """How many products are right, and what is wrong with others. An error of the device is the end."""
    right, problems = 0, []
    for size in QUICK if quick else SIZES:
        for dtype in ("bfloat16", "float16", "int8"):
            for turned in ("", "left", "right", "left right"):
                name = f"{size}, {dtype}, {turned or 'nothing'} turned"
                try:
                    wrong = differing(size, dtype, turned, device)
                except RulegradError as error:
                    return {"right": right, "problems": [*problems, f"{name}: {error}"]}
                right += not wrong
                if wrong:
                    problems.append(f"{name}: {wrong} elements are wrong")
    return {"right": right, "problems": problems}


def differing(size: tuple[int, int, int, int], dtype: str, turned: str, device: str) -> int:
    """In how many elements a product of small integers, whose sums are exact, differs from NumPy's."""
    batch, rows, depth, columns = size
    generator = np.random.default_rng(rows + depth)
    shapes = ((batch, rows, depth), (batch, depth, columns))
    arrays = [generator.integers(-3, 4, shape).astype(np.int8) for shape in shapes]
    operands = []
    for side, array in zip(("left", "right"), arrays, strict=True):
        kept = np.ascontiguousarray(array.swapaxes(1, 2)) if side in turned.split() else array
        kept = kept[0] if batch == 1 else kept
        one = Tensor(kept, device=device).cast(dtype).realize()
        operands.append(one.swapaxes(-1, -2) if side in turned.split() else one)
    a, b = operands
    found = a.cast("int32") @ b.cast("int32") if dtype == "int8" else a @ b
    exact = Tensor(arrays[0].astype(np.float32) @ arrays[1].astype(np.float32), device="numpy")
    wanted = exact.cast(str(found.dtype)).cast("float32").numpy()
    return int((found.cast("float32").numpy().reshape(wanted.shape) != wanted).sum())


def checked_apart(device: str, quick: bool) -> dict[str, dict[str, Any]]:
    """The result of `check` for each way, in a process of its own."""
    found = {}
    for way in ways_of(device):
        command = [sys.executable, __file__, "--device", device, "--way", way, *(["--quick"] if quick else [])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            found[way] = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            found[way] = {"right": 0, "problems": [f"it has not ended after {SECONDS} seconds"]}
        except ValueError:
            found[way] = {"right": 0, "problems": [done.stderr.strip()[-2000:] or f"exit status {done.returncode}"]}
    return found


def main() -> int:
    """Prints what was found of one way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:0 without it")
    parser.add_argument("--way", default="", help="one of the ways of its target; the target's own without it")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args()
    common.note(f"products on {options.device} {options.way}")
    with in_way(ways_of(options.device).get(options.way, "")):
        found = check(options.device, options.quick)
    print(json.dumps(found, indent=2))
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
