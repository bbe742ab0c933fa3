"""Matrices of few bits a number, and the files that they come from."""

from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import DtypeError, FileError, FileMissingError, IndexRangeError, ShapeError

sys.path.insert(0, str(Path(__file__).parent))  # for tiny_llama
from tiny_llama import write_gguf

Bytes = np.ndarray[Any, Any]


def half(block: Bytes, place: int) -> float:
    return float(block[place : place + 2].copy().view(np.float16)[0])


def numbers_q4_0(b: Bytes) -> list[float]:
    return [half(b, 0) * (int(b[2 + k % 16]) // (16 if k >= 16 else 1) % 16 - 8) for k in range(32)]


def numbers_q4_1(b: Bytes) -> list[float]:
    return [half(b, 0) * (int(b[4 + k % 16]) // (16 if k >= 16 else 1) % 16) + half(b, 2) for k in range(32)]


def numbers_q8_0(b: Bytes) -> list[float]:
    return [half(b, 0) * int(b[2 + k : 3 + k].view(np.int8)[0]) for k in range(32)]


def numbers_q4_k(b: Bytes) -> list[float]:
    found = []
    for part in range(8):
        if part < 4:
            factor, smallest = b[4 + part] & 63, b[8 + part] & 63
        else:
            factor = (b[8 + part] & 15) | (b[part] >> 6 << 4)
            smallest = (b[8 + part] >> 4) | (b[4 + part] >> 6 << 4)
        for k in range(32):
            byte = int(b[16 + 32 * (part // 2) + k])
            integer = byte >> 4 if part % 2 else byte & 15
            found.append(half(b, 0) * int(factor) * integer - half(b, 2) * int(smallest))
    return found


def numbers_q6_k(b: Bytes) -> list[float]:
    found = []
    for k in range(256):
        side, part, place = k // 128, k // 32 % 4, k % 32
        low = int(b[64 * side + 32 * (part % 2) + place])
        high = int(b[128 + 32 * side + place]) >> (2 * part) & 3
        factor = int(b[192 + k // 16 : 193 + k // 16].view(np.int8)[0])
        found.append(half(b, 208) * factor * ((low >> 4 if part >= 2 else low & 15) + 16 * high - 32))
    return found


FORMATS: dict[str, tuple[int, int, int, Callable[[Bytes], list[float]]]] = {
    "q4_0": (2, 32, 18, numbers_q4_0),
    "q4_1": (3, 32, 20, numbers_q4_1),
    "q8_0": (8, 32, 34, numbers_q8_0),
    "q4_k": (12, 256, 144, numbers_q4_k),
    "q6_k": (14, 256, 210, numbers_q6_k),
}


def blocks_of(name: str, rows: int, blocks: int) -> tuple[Bytes, Bytes]:
    """Random bytes with sensible halves, and the numbers that they stand for by the definition of the format."""
    _, count, nbytes, numbers = FORMATS[name]
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (rows, blocks, nbytes), dtype=np.uint8)
    for place in {"q4_1": (0, 2), "q4_k": (0, 2), "q6_k": (208,)}.get(name, (0,)):
        data[..., place : place + 2] = rng.random((rows, blocks, 1)).astype(np.float16).view(np.uint8)
    values = np.array([[numbers(block) for block in row] for row in data], np.float32).reshape(rows, blocks * count)
    return data, values


@pytest.mark.each_value
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("device", ["numpy", "c"])
def test_numbers_products_and_rows(name: str, device: str) -> None:
    data, values = blocks_of(name, 6, 2)
    matrix = nn.QuantizedMatrix.from_bytes(data.reshape(-1), name, values.shape, device)
    np.testing.assert_allclose(matrix.floats().numpy(), values, 1e-6, 1e-6)
    x = np.random.default_rng(1).standard_normal((3, values.shape[1])).astype(np.float32)
    layer = nn.QuantizedLinear(matrix, Tensor(np.arange(6, dtype=np.float32), device=device))
    for rows in (1, 3):
        expected = x[:rows] @ values.T + np.arange(6)
        np.testing.assert_allclose(layer(Tensor(x[:rows], device=device)).numpy(), expected, 1e-4, 1e-3)
    places = Tensor([[4, 0], [4, 5]], device=device)
    np.testing.assert_allclose(matrix.rows(places).numpy(), values[[[4, 0], [4, 5]]], 1e-6, 1e-6)
    with pytest.raises(IndexRangeError):
        matrix.rows(Tensor([6], device=device)).numpy()


def test_a_product_makes_no_matrix_of_floats() -> None:
    with rg.config(device="c"):
        matrix = nn.QuantizedMatrix.of(Tensor.randn(64, 64), "q4_1")
        x = Tensor.randn(1, 64).realize()
        with rg.profile() as profile:
            nn.QuantizedLinear(matrix)(x).realize()
    assert len(profile.kernels) == 1


@pytest.mark.parametrize(("name", "steps"), [("q8_0", 254), ("q4_0", 16), ("q4_1", 30)])
def test_rounding(name: str, steps: int) -> None:
    values = np.random.default_rng(0).standard_normal((4, 96)).astype(np.float32)
    values[1, :32], values[2, :32] = 0.0, 3.0
    matrix = nn.QuantizedMatrix.of(Tensor(values), name)
    blocks, found = values.reshape(-1, 32), matrix.floats().numpy().reshape(-1, 32)
    width = blocks.max(1) - blocks.min(1) if name == "q4_1" else np.abs(blocks).max(1)
    # The largest magnitude of q4_0 is -8 steps, so 8 of them are cut to 7 on the other side.
    most = width / steps * (2.001 if name == "q4_0" else 1.001) + 1e-6
    assert (np.abs(blocks - found) <= most[:, None]).all()


def test_state_of_a_layer() -> None:
    layer = nn.QuantizedLinear.of(nn.Linear(32, 4), "q4_0")
    assert set(layer.state_dict()) == {"weight.factor", "weight.packed"}
    assert not list(layer.parameters())
    assert repr(layer.weight) == "QuantizedMatrix(format='q4_0', shape=(4, 32))"


def test_mistakes() -> None:
    with pytest.raises(ShapeError, match="whole blocks of 32"):
        nn.QuantizedMatrix.of(Tensor.ones(2, 33))
    with pytest.raises(DtypeError, match=r"not rounded to 'q6_k'.*q8_0, q4_0, q4_1"):
        nn.QuantizedMatrix.of(Tensor.ones(2, 32), "q6_k")
    with pytest.raises(DtypeError, match="no format 'q9'"):
        nn.QuantizedMatrix.from_bytes(np.zeros(0, np.uint8), "q9", (0, 32))
    with pytest.raises(ShapeError, match="33 bytes are not a matrix"):
        nn.QuantizedMatrix.from_bytes(np.zeros(33, np.uint8), "q8_0", (1, 32))


# ---- files ----


def small_file(path: Path) -> dict[str, Any]:
    """A file with a tensor of each kind; returns the values."""
    rng = np.random.default_rng(0)
    tensors: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, (kind, *_) in FORMATS.items():
        data, values[name] = blocks_of(name, 3, 1)
        tensors[name] = values[name].shape, kind, data.tobytes()
    for name, kind, dtype in (("single", 0, np.float32), ("half", 1, np.float16), ("integer", 26, np.int32)):
        values[name] = (rng.standard_normal((2, 3)) * 9).astype(dtype)
        tensors[name] = (2, 3), kind, values[name].tobytes()
    tensors["unknown"] = (4,), 39, b"1234"
    metadata = {"general.name": "tiny", "count": 7, "rate": 0.5, "is": True, "words": ["ä", "b"], "many": [1, 2, 3]}
    write_gguf(path, metadata, tensors)
    return values


def test_a_file(tmp_path: Path) -> None:
    values = small_file(tmp_path / "small.gguf")
    file = nn.gguf.open_gguf(tmp_path / "small.gguf")
    assert file.metadata["words"] == ["ä", "b"] and file.metadata["many"] == [1, 2, 3]
    assert (file.metadata["count"], file.metadata["rate"], file.metadata["is"]) == (7, 0.5, True)
    assert set(file) == {*values, "unknown"} and len(file) == len(values) + 1 and "small.gguf" in repr(file)
    for name, expected in values.items():
        found = file[name]
        assert file.shape(name) == expected.shape
        got = found.floats() if isinstance(found, nn.QuantizedMatrix) else found
        np.testing.assert_allclose(got.numpy(), expected, 1e-6, 1e-6)
    assert [file.format(name) for name in ("q4_k", "half", "unknown")] == ["q4_k", "float16", "ggml 39"]
    with pytest.raises(DtypeError, match="unknown is in format 39 of ggml"):
        file["unknown"]


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    with pytest.raises(FileMissingError, match="no such file"):
        nn.gguf.open_gguf(path)
    small_file(path)
    whole = path.read_bytes()
    path.write_bytes(b"GGML" + whole[4:])
    with pytest.raises(FileError, match="not a GGUF file"):
        nn.gguf.open_gguf(path)
    path.write_bytes(whole[:4] + struct.pack("<I", 9) + whole[8:])
    with pytest.raises(FileError, match="version 9"):
        nn.gguf.open_gguf(path)
    for length in range(0, len(whole) - 48, 7):  # wherever it ends, up to the data of the last tensor that is read
        path.write_bytes(whole[:length])
        with pytest.raises(FileError):
            nn.gguf.open_gguf(path)
    rng = np.random.default_rng(0)
    for _ in range(300):  # whatever is written over its header
        damaged = bytearray(whole)
        place = int(rng.integers(4, 700))
        damaged[place : place + 8] = rng.integers(0, 256, 8, dtype=np.uint8).tobytes()
        path.write_bytes(bytes(damaged))
        with contextlib.suppress(FileError, DtypeError, ShapeError):
            dict(nn.gguf.open_gguf(path))


def test_a_file_that_changes(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    small_file(path)
    file = nn.gguf.open_gguf(path)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(FileError, match="has changed"):
        file["single"]
