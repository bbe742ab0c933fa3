"""Bank conflicts in the local memory of matrix products on NVIDIA's GPUs, counted from the addresses that the programs compute.

Local memory has 32 banks of four bytes. What a warp reads or writes at once takes one turn for each address that lies in the same bank as another
one. Accesses of 16 bytes are made by eight threads at a time.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, engine
from rulegrad.compile import compile_graph
from rulegrad.interpreter import statements
from rulegrad.workbench.diagnosis import meaning, samples

WARP, BANKS, BYTES = 32, 32, 4
DTYPES = {
    "bfloat16": "cuda",
    "float32": "cuda",
    "int8": "cuda",
    "float8_e5m2": "cuda_sm89",
}  # and the targets that multiply them
LAID = ("", "left", "right")  # which operand is transposed in memory


def turns(addresses: np.ndarray[Any, Any], size: int) -> int:
    """The most turns that a warp's accesses of so many bytes take, for threads of whole warps.

    >>> turns(np.arange(32) * 4, 4), turns(np.arange(32) * 8, 4), turns(np.zeros(32, int), 4)
    (1, 2, 1)
    >>> turns(np.arange(32) * 16, 16), turns(np.arange(32) * 128, 16)
    (1, 8)
    """
    together = WARP if size <= BYTES else WARP * BYTES // size
    most = 0
    for access in addresses.reshape(-1, together):
        words = np.unique(access // BYTES)
        lie_in = words % BANKS if size <= BYTES else words // (size // BYTES) % (BANKS * BYTES // size)
        most = max(most, int(np.bincount(lie_in).max()))
    return most


def worst(build: Tensor, target: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The most turns of reads, of loads of lines and of copies, where the program of a kernel is run."""
    (kernel,) = compile_graph([build.uop], target)
    (program,) = engine.run_all([kernel.graph], engine.pipeline("program"), target)
    found: dict[str, int] = defaultdict(int)

    def counted(name: str, address: int, size: int | None) -> None:
        original = getattr(statements._Run, name)

        def run(self: Any, node: Any) -> Any:
            memory, place = self._place(node.src[address], None)
            if len(place) == 2 and len(memory) != len(self.items):  # local memory
                index = np.broadcast_to(place[1], self.items.shape)[self.teams]
                bytes_each = size or memory.itemsize
                found[name] = max(found[name], turns(index * memory.itemsize, bytes_each))
            return original(self, node)

        monkeypatch.setattr(statements._Run, name, run)

    counted("_load", 0, None)
    counted("_load_lines", 1, 16)
    counted("_copy", 0, 16)
    arrays = samples.sample_arrays(kernel.graph)
    found_values, wanted = (meaning.meaning(graph, arrays) for graph in (program, kernel.graph))
    if "tf32" not in kernel.source:  # which is meant to differ
        assert meaning.agree(wanted, found_values)
    return dict(found)


def factors(dtype: str, transposed: str, depth: int = 64) -> Tensor:
    shapes = (
        (depth, 128) if transposed == "left" else (128, depth),
        (128, depth) if transposed == "right" else (depth, 128),
    )
    a, b = (Tensor(np.ones(shape, np.int8), device="numpy").cast(dtype).realize() for shape in shapes)
    a, b = a.T if transposed == "left" else a, b.T if transposed == "right" else b
    return a.cast("int32") @ b.cast("int32") if dtype == "int8" else a @ b


@pytest.mark.parametrize("transposed", LAID)
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_access_waits_for_a_bank(
    dtype: str, transposed: str, with_tf32: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = worst(factors(dtype, transposed), DTYPES[dtype], monkeypatch)
    assert "_copy" in found and {"_load_lines", "_load"} & set(found)
    assert set(found.values()) == {1}, found


@pytest.mark.parametrize("transposed", LAID)
def test_copies_for_wgmma_do_not_wait(transposed: str, without_boxes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads shared memory itself, with 128-byte swizzle: lines are copied as they lie, and the emulation finds them."""
    assert worst(factors("bfloat16", transposed, 128), "cuda_sm90a", monkeypatch) == {"_copy": 1}


@pytest.mark.parametrize(("transposed", "lines"), [("", 1), ("right", 2)])
def test_halves_are_loaded_by_lines(transposed: str, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way the operands lie, as instructions transpose what they load."""
    (kernel,) = compile_graph([factors("bfloat16", transposed).uop], "cuda")
    assert kernel.source.count("load_4_matrices(") == lines
    assert kernel.source.count("load_4_matrices_transposed(") == 2 - lines


def test_longer_lines_have_conflicts(with_tf32: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The purpose of the XOR swizzle: lines that are 16 bytes longer keep reads of halves apart, and nothing else."""
    file = tmp_path / "padded.rules"
    file.write_text("target cuda:\n    limit bank_bytes 0\n")
    with rg.load_rules(file):
        for dtype, wanted in (("bfloat16", {"_copy": 2, "_load_lines": 1}), ("float32", {"_copy": 2, "_load": 2})):
            with monkeypatch.context() as patch:
                found = worst(factors(dtype, ""), DTYPES[dtype], patch)
                assert wanted.items() <= found.items()
