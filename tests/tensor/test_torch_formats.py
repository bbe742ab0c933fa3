"""PyTorch's formats beside the usual archive: files from before torch 1.6, and the weights of TorchScript."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad.errors import FileError
from rulegrad.nn.state import torch_load

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
Change = Callable[[list[bytes]], None]


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def tensor(
    key: str, size: int, kind: str = "FloatStorage", offset: int = 0, view: bytes = b"N", before: bool = False
) -> bytes:
    """A tensor of one axis, as torch pickles it. before: as torch before 0.4 did."""
    reference = (
        b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + b"K\x04" + view + b"tQ"
    )
    places = bytes([75, offset, 75, size, 0x85, 75, 1, 0x85])
    if before:
        return b"ctorch._utils\n_rebuild_tensor\n(" + reference + places + b"tR"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + reference + places + b"\x89}tR"


def legacy(path: Path, content: bytes, storages: dict[str, Any], change: Change = lambda parts: None) -> Path:
    """A file of the old format; the change is made to its parts: five pickles, then storages."""
    parts = [pickle.dumps(value, 2) for value in (MAGIC, VERSION, {"little_endian": True})]
    parts += [b"\x80\x02" + content + b".", pickle.dumps(list(storages), 2)]
    for values in storages.values():
        parts.append(struct.pack("<q", len(values)) + np.asarray(values).tobytes())
    change(parts)
    path.write_bytes(b"".join(parts))
    return path


VALUES = np.arange(4, dtype=np.float32)


def test_a_file_from_before_1_6(any_device: str, tmp_path: Path) -> None:
    integers = np.array([1, -2, 3])
    view = b"(" + text("part") + b"K\x01K\x03t"  # elements 1 to 3 of the storage, as files before torch 0.4 have it
    content = b"}(" + text("floats") + tensor("93", 4) + text("integers") + tensor("7", 2, "LongStorage", 1)
    content += text("last") + tensor("93", 2, offset=1, view=view, before=True) + text("step") + b"K\x05u"
    found = rg.load(legacy(tmp_path / "old.pt", content, {"7": integers, "93": VALUES}))
    assert found["floats"].tolist() == [0, 1, 2, 3] and found["floats"].dtype == "float32"
    assert found["integers"].tolist() == [-2, 3] and found["integers"].dtype == "int64"
    assert found["last"].tolist() == [2, 3] and found["step"] == 5


def replaced(place: int, value: bytes) -> Change:
    def change(parts: list[bytes]) -> None:
        parts[place] = value

    return change


@pytest.mark.parametrize(("change", "message"), [
    (replaced(0, pickle.dumps([MAGIC], 2)), "does not begin with PyTorch's magic number"),
    (replaced(1, pickle.dumps(1000, 2)), "version 1000 of the format, and only 1001 is read"),
    (replaced(3, b"\x80\x02cos\nsystem\n" + text("true") + b"\x85R."), "os.system, which is not loaded"),
    (replaced(4, pickle.dumps({}, 2)), "a dict where the list of its storages belongs"),
    (replaced(4, pickle.dumps([], 2)), "its storage 0 is missing"),
    (replaced(4, pickle.dumps(["0", "1"], 2)), "no tensor names the storage 1"),
    (replaced(5, struct.pack("<q", 1 << 40)), "its storage 0 of 1099511627776 elements ends after the file"),
    (replaced(5, struct.pack("<q", -1)), "its storage 0 of -1 elements"),
    (replaced(5, struct.pack("<q", 2) + bytes(8)), r"a tensor of shape \(4,\) lies outside its storage 0"),
])  # fmt: skip
def test_old_files_that_are_damaged(tmp_path: Path, change: Change, message: str) -> None:
    with pytest.raises(FileError, match=message):
        torch_load(legacy(tmp_path / "bad.pt", tensor("0", 4), {"0": VALUES}, change))


def test_old_files_that_end_early_or_have_changed_bytes(tmp_path: Path) -> None:
    good = legacy(tmp_path / "good.pt", tensor("0", 4), {"0": VALUES}).read_bytes()
    assert torch_load(tmp_path / "good.pt").tolist() == [0, 1, 2, 3]
    for length in range(20, len(good)):
        (tmp_path / "cut.pt").write_bytes(good[:length])
        with pytest.raises(FileError, match=r"cut\.pt"):
            torch_load(tmp_path / "cut.pt")
    generator = np.random.default_rng(3)
    for _ in range(300):
        changed = bytearray(good)
        changed[generator.integers(20, len(good))] = generator.integers(256)
        (tmp_path / "changed.pt").write_bytes(changed)
        try:
            assert rg.load(tmp_path / "changed.pt") is not None
        except FileError as error:
            assert "changed.pt" in str(error)


@pytest.mark.parametrize("protocol", [2, 4])
def test_old_files_that_torch_writes(tmp_path: Path, protocol: int) -> None:
    torch = pytest.importorskip("torch", reason="pip install torch")
    base = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    state = {
        "model": torch.nn.Linear(3, 2).state_dict(), "views": [base.T, base[1:, 2]], "epoch": 3,
        "half": torch.ones(3, dtype=torch.bfloat16), "scalar": torch.tensor(True), "empty": torch.empty(0, 2),
    }  # fmt: skip
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False, pickle_protocol=protocol)
    found = torch_load(tmp_path / "old.pt")
    for name, value in state["model"].items():
        assert found["model"][name].numpy().tobytes() == value.numpy().tobytes()
    assert [part.tolist() for part in found["views"]] == [part.tolist() for part in state["views"]]
    assert found["half"].dtype == "bfloat16" and found["half"].tolist() == [1.0] * 3
    assert found["scalar"].item() is True and found["empty"].shape == (0, 2) and found["epoch"] == 3


# ---- TorchScript ----

LINEAR = 'class Linear(Module):\n  __parameters__ = ["weight", ]\n  __buffers__ = ["scale", ]\n  training : bool\n'
MODEL = (
    "class Model(Module):\n  __parameters__ = []\n  __buffers__ = []\n  def forward(self) -> Tensor:\n    return 1\n"
)


def script(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("m/data.pkl", b"\x80\x02" + pickled + b".")
        file.writestr("m/data/0", VALUES.tobytes())
        file.writestr("m/code/__torch__/torch/nn/modules/linear.py", LINEAR)
        file.writestr("m/code/__torch__/mine.py", MODEL)
    return path


def test_the_weights_of_a_scripted_module(any_device: str, tmp_path: Path) -> None:
    inner = b"c__torch__.torch.nn.modules.linear\nLinear\n)\x81}(" + text("scale") + tensor("0", 2, offset=2)
    inner += text("cache") + tensor("0", 4) + text("weight") + tensor("0", 3) + text("training") + b"\x89ub"
    sizes = b"ctorch.jit._pickle\nbuild_intlist\n](K\x01K\x02e\x85R"
    outer = b"c__torch__.mine\nModel\n)\x81}(" + text("sizes") + sizes + text("first") + inner + b"ub"
    found = rg.load(script(tmp_path / "model.pt", outer))
    assert {name: value.tolist() for name, value in found.items()} == {
        "first.weight": [0, 1, 2], "first.scale": [2, 3]
    }  # fmt: skip


def test_objects_of_classes_without_code_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"__torch__\.other\.Model, which is not loaded"):
        torch_load(script(tmp_path / "model.pt", b"c__torch__.other\nModel\n)\x81}b"))
    itself = b"c__torch__.mine\nModel\n)\x81q\x00}(" + text("first") + b"h\x00ub"
    with pytest.raises(FileError, match="a container that holds itself"):
        torch_load(script(tmp_path / "model.pt", itself))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says how much memory was in use")
def test_an_archive_is_not_in_memory_twice(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="pip install torch")
    path = tmp_path / "model.pt"
    parts = {f"{place}": torch.ones(1 << 19) for place in range(24)}
    torch.save({**parts, "tied": parts["0"], "half": parts["1"][: 1 << 18]}, path)
    program = f"""
import numpy as np, rulegrad as rg
def most():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) << 10
rg.Tensor([1.0], device="numpy").numpy()
del (block := [np.ones(3 << 20)])[:]  # from now on the heap of C has blocks of this size
before, state = most(), rg.load({str(path)!r}, map_location="numpy")
assert all(one.sum().item() == len(one) for one in (state["tied"], state["half"], state["23"]))
print((most() - before) / {len(parts) * 4 << 19})
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 1.5
