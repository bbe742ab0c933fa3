"""Files that somebody made to do harm: nothing of the process changes, it does not end, and its memory is not filled."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import FileError
from rulegrad.ir.dtype import as_dtype
from rulegrad.nn._torch_pickle import Name
from rulegrad.nn.state import safe_load, safe_open, torch_load

FLOAT32 = b"ctorch\nfloat32\n"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def archive(path: Path, pickled: bytes, storages: dict[str, bytes] | None = None, method: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("m/data.pkl", b"\x80\x02" + pickled)
        for key, values in (storages or {}).items():
            file.writestr(f"m/data/{key}", values)
    return path


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def tensor(size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """A tensor in storage 0 as torch pickles it."""
    reference = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x04tQ"
    numbers = pickle.dumps((size, stride), 2)[2:-1].replace(b"q\x00", b"").replace(b"q\x01", b"").replace(b"q\x02", b"")
    unpacked = numbers.removesuffix(b"\x86")  # the pair is not wanted, its members are
    return REBUILD + b"(" + reference + b"K\x00" + unpacked + b"\x89}tR"


# ---- archives of PyTorch ----


@pytest.mark.parametrize("state", [b"}" + text("itemsize") + b"K\x00s", b"N}" + text("itemsize") + b"K\x00s\x86"])
@pytest.mark.parametrize("owner", [FLOAT32, b"ccollections\nOrderedDict\n", REBUILD, b"ctorch\nFloatStorage\n"])
def test_nothing_that_others_share_is_changed(tmp_path: Path, owner: bytes, state: bytes) -> None:
    path = archive(tmp_path / "build.pt", owner + state + b"b.")
    with pytest.raises(FileError, match=r"build\.pt is damaged"):
        torch_load(path)
    assert as_dtype("float32").itemsize == 4


def test_only_the_metadata_of_a_state_dict_is_kept(tmp_path: Path) -> None:
    made = b"ccollections\nOrderedDict\n)R}(" + text("items") + b"K\x01" + text("_metadata") + b"}ub."
    found = torch_load(archive(tmp_path / "state.pt", made))
    assert found._metadata == {} and callable(found.items) and vars(found) == {"_metadata": {}}


@pytest.mark.parametrize("pickled", [
    b"]" + text("x") + b"}b.",  # attributes of a list
    b"cbuiltins\neval\n" + text("1") + b"\x85R.",
    b"cos\nsystem\n" + text("true") + b"\x85R.",
    b"(" + text("os") + text("system") + b"\x93.",
    b"\x82\x01.", b"}(K\x01u.", b"a.", b"0.", b"(", b"", b".", b"h\x05.", b"t.", b"K\x01K\x02R.", b"}]K\x01s.",
    b"X\xff\xff\xff\xff", FLOAT32 + b")R.", FLOAT32 + b")\x81.", b"c\n\n.", b"\x8a\xff.",
])  # fmt: skip
def test_other_opcodes_and_half_a_pickle(tmp_path: Path, pickled: bytes) -> None:
    with pytest.raises(FileError, match=r"bad\.pt (is damaged|holds an object)"):
        torch_load(archive(tmp_path / "bad.pt", pickled))


def test_structures_that_grow_without_end(tmp_path: Path) -> None:
    bombs = {
        "tuples": b")" + b"".join(b"q\x00h\x00\x86" for _ in range(60)) + b".",
        "keys": b"}" + b")" + b"q\x00h\x00\x86" * 60 + b"K\x01s.",
        "lists": b"]" + b"".join(b"q\x00](h\x00h\x00e" for _ in range(60)) + b".",
        "itself": b"]q\x00h\x00a.",
        "depth": b"]" * 5_000 + b"a" * 4_999 + b".",
        "copies": b"](" + b"K\x01" * 60_000 + b"eq\x00" + b"cbuiltins\nset\nq\x010" + b"h\x01h\x00\x85R0" * 300 + b"N.",
    }
    for name, pickled in bombs.items():
        with pytest.raises(FileError, match=rf"{name}\.pt is damaged"):
            torch_load(archive(tmp_path / f"{name}.pt", pickled))


def test_values_larger_than_the_file(tmp_path: Path) -> None:
    four = np.arange(4, dtype=np.float32).tobytes()
    expanded = torch_load(archive(tmp_path / "expanded.pt", tensor((3, 4), (0, 1)) + b".", {"0": four}))
    assert expanded.tolist() == [[0, 1, 2, 3]] * 3
    bombs = {
        "strides": ((1 << 20, 1 << 20), (0, 0), {"0": four}, 0),
        "compressed": ((4,), (1,), {"0": bytes(200 << 20)}, zipfile.ZIP_DEFLATED),
    }
    for name, (size, stride, storages, method) in bombs.items():
        path = archive(tmp_path / f"{name}.pt", tensor(size, stride) + b".", storages, method)
        with pytest.raises(FileError, match=rf"{name}\.pt is damaged, or made to fill the memory"):
            torch_load(path)


def test_errors_of_zip_archives(tmp_path: Path) -> None:
    good = archive(tmp_path / "good.pt", tensor((4,), (1,)) + b".", {"0": bytes(16)}, zipfile.ZIP_DEFLATED).read_bytes()
    torch_load(tmp_path / "good.pt")
    generator = np.random.default_rng(7)
    refused = 0
    for _ in range(300):
        changed = bytearray(good)
        for place in generator.integers(len(good), size=generator.integers(1, 4)):
            changed[place] = generator.integers(256)
        (tmp_path / "changed.pt").write_bytes(changed[: generator.integers(len(good) // 2, len(good) + 1)])
        try:
            torch_load(tmp_path / "changed.pt")
        except FileError:
            refused += 1
    assert refused > 100


def test_names_compare_by_value() -> None:
    assert str(Name("torch", "Size")) == "torch.Size" and Name("a", "b") == ("a", "b")


# ---- safetensors ----


def safetensors(path: Path, header: dict[str, Any], data: bytes) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    """It was mapped, and reading it ended the process."""
    header = {"a": {"dtype": "F32", "shape": [4096], "data_offsets": [0, 16384]}}
    path = safetensors(tmp_path / "cut.safetensors", header, bytes(16384))
    file = safe_open(path)
    assert float(file["a"].sum()) == 0
    os.truncate(path, 100)
    with pytest.raises(FileError, match=r"cut\.safetensors has changed since it was opened"):
        file["a"]
    path.unlink()
    with pytest.raises(FileError, match=r"cut\.safetensors cannot be read any more"):
        file["a"]


def test_metadata_that_is_null(tmp_path: Path) -> None:
    header = {"__metadata__": None, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}
    file = safe_open(safetensors(tmp_path / "null.safetensors", header, b"\x05"))
    assert file.metadata == {} and file["a"].tolist() == [5]


def test_bools_of_other_bytes(any_device: str, tmp_path: Path) -> None:
    """A kernel may make anything of a bool that is neither 0 nor 1."""
    odd = bytes([0, 1, 2, 255])
    header = {"a": {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]}}
    array = np.frombuffer(odd, np.uint8).view(bool)
    storage = tensor((4,), (1,)).replace(b"FloatStorage", b"BoolStorage")
    given = (
        safe_load(safetensors(tmp_path / "odd.safetensors", header, odd))["a"],
        torch_load(archive(tmp_path / "odd.pt", storage + b".", {"0": odd})),
        Tensor(array), Tensor.from_dlpack(array.copy()),
    )  # fmt: skip
    for x in given:
        assert (x.numpy().tobytes(), x.sum().item(), x.cast("int32").tolist()) == (b"\0\1\1\1", 3, [0, 1, 1, 1])
