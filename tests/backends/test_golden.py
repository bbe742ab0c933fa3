"""The source of a few kernels on every target that renders, beside a golden text: golden/TARGET/NAME.txt.

`GOLDEN_UPDATE=1 pytest tests/backends/test_golden.py` writes the texts anew; read the difference before you keep it.
Nothing is built or run, so no device is needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.runtime.backends import all_backends

GOLDEN = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("GOLDEN_UPDATE"))
_DIGEST = re.compile(r"(?<=_)[0-9a-f]{8}\b")  # of a kernel's graph, at the end of its name


def given(*shape: int, dtype: str = "float32") -> Tensor:
    """A tensor that a kernel reads; nothing is computed with its values."""
    return Tensor(np.ones(shape, np.int8), dtype=dtype, device="numpy").contiguous().realize()


Build = Callable[[], list[Tensor]]

#: Program: the dtypes that a target must be able to keep in memory, and what it computes.
PROGRAMS: dict[str, tuple[str, Build]] = {
    "add_float32": ("float32", lambda: [given(4, 6) + given(4, 6)]),
    "add_float16": ("float16", lambda: [given(8, dtype="float16") + given(8, dtype="float16")]),
    "add_bfloat16": ("bfloat16", lambda: [given(8, dtype="bfloat16") + given(8, dtype="bfloat16")]),
    "add_float64": ("float64", lambda: [given(8, dtype="float64") * 2 + 0.5]),
    "add_int8": ("int8", lambda: [given(8, dtype="int8") + given(8, dtype="int8")]),
    "add_int64": ("int64", lambda: [given(8, dtype="int64") - 5_000_000_000]),
    "add_scalar": ("float32", lambda: [given() + 1]),
    "constants": ("float32", lambda: [given(4).maximum(-float("inf")) + 1e-3]),
    "cast_to_int": ("float32 int32", lambda: [given(8).cast("int32")]),
    "cast_to_float16": ("float32 float16", lambda: [given(8).cast("float16")]),
    "bits": ("float32 uint32", lambda: [given(8).bitcast("uint32") ^ 0x80000000]),
    "division": ("int32", lambda: [given(8, dtype="int32") // given(8, dtype="int32")]),
    "remainder": ("uint8", lambda: [given(8, dtype="uint8") % given(8, dtype="uint8")]),
    "shift": ("int32", lambda: [given(8, dtype="int32") << given(8, dtype="int32")]),
    "compare": ("float32 bool", lambda: [(given(8) < given(8)) | (given(8) == 1.0)]),
    "select": ("float32 bool", lambda: [given(8, dtype="bool").where(given(8), -given(8))]),
    "functions": ("float32", lambda: [given(8).exp() + given(8).sqrt() + given(8).tanh()]),
    "transposed": ("float32", lambda: [given(3, 5).permute(1, 0) + given(5, 3)]),
    "padded": ("float32", lambda: [given(3, 5).pad(((1, 2), (0, 1))) + given(6, 6)]),
    "reduce_all": ("float32", lambda: [given(64).sum()]),
    "reduce_rows": ("float32", lambda: [given(6, 5).max(axis=1)]),
    "matmul": ("float32", lambda: [given(64, 16) @ given(16, 64)]),
    "matmul_float16": ("float16", lambda: [given(16, 16, dtype="float16") @ given(16, 16, dtype="float16")]),
    "matmul_tiles": ("bfloat16", lambda: [given(128, 96, dtype="bfloat16") @ given(96, 128, dtype="bfloat16")]),
    "shared_rows": ("float32", lambda: [given(3, 1024).softmax(-1)]),
    "softmax": ("float32", lambda: [given(4, 10).softmax(-1)]),
    "gather": ("float32 int32", lambda: [given(5, 3).gather(0, given(2, 3, dtype="int32"))]),
    "two_results": ("float32", lambda: two_results()),
}


def two_results() -> list[Tensor]:
    """Two results of one kernel, over the same loops."""
    a, b = given(4, 4), given(4, 4)
    return [a * b, a * b + a]


def rendering_targets() -> list[str]:
    """The targets of all backends that compile source."""
    declared = engine.summary()["targets"]
    return [one.name for one in all_backends() if one.name in declared and engine.target(one.name).render]


def sources(name: str, target: str) -> str:
    """The text of a program's kernels, each below what it is launched with."""
    parts = []
    for kernel in compile_graph([tensor.uop for tensor in PROGRAMS[name][1]()], target):
        maps = f", maps {kernel.maps}" if kernel.maps else ""
        parts.append(f"grid {kernel.grid}, local {kernel.local}, slots {kernel.slots}{maps}\n{kernel.source}")
    return _DIGEST.sub("0" * 8, "\n".join(parts))


#: Targets that go on from a backend's own, or have features, and the programs that are other ones there.
VARIANTS = {
    "webgpu+f16": {name for name, (dtypes, _) in PROGRAMS.items() if "float16" in dtypes.split()},
    "webgpu+f16+subgroups": {"reduce_all", "shared_rows"},
    "cuda_sm90a": {"matmul_tiles"},
    "opencl_cpu": {"add_float16", "add_float64", "cast_to_int", "division", "functions", "shift", "matmul"},
    "opencl_cpu_avx512": {"matmul", "reduce_all", "shared_rows"},
}

CASES = [
    (target, name)
    for target in (*rendering_targets(), *VARIANTS)
    for name, (dtypes, _) in PROGRAMS.items()
    if set(dtypes.split()) <= set(engine.target(target).types) and (target not in VARIANTS or name in VARIANTS[target])
]


@pytest.mark.parametrize(("target", "name"), CASES)
def test_source(target: str, name: str) -> None:
    place = GOLDEN / target / f"{name}.txt"
    found = sources(name, target)
    if UPDATE:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(found, encoding="utf-8")
    assert place.is_file(), f"no golden text {place.name} for {target}; GOLDEN_UPDATE=1 writes it"
    assert found == place.read_text(encoding="utf-8"), "if this is meant, GOLDEN_UPDATE=1 writes the golden texts anew"


def test_no_golden_text_is_left_over() -> None:
    """A text that no test reads says nothing. A folder of a target that is not here is let alone."""
    for target in (*rendering_targets(), *VARIANTS):
        there = {path.stem for path in (GOLDEN / target).glob("*")}
        assert there <= {name for of, name in CASES if of == target}
