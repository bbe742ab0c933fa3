"""safetensors files and PyTorch's archives. Torch is not needed: the archives are written by a stand-in for its names."""

from __future__ import annotations

import io
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rulegrad import Tensor, nn
from rulegrad.errors import FileError
from rulegrad.ir.dtype import ALL
from rulegrad.nn.state import get_state_dict, load_state_dict, safe_load, safe_open, safe_save, torch_load

STORED = [dtype for dtype in ALL if dtype != "complex128"]


# ---- safetensors ----


def test_every_dtype_comes_back(any_device: str, tmp_path: Path) -> None:
    state = {str(dtype): Tensor(np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype.numpy)) for dtype in STORED}
    safe_save(state, tmp_path / "all.safetensors", {"made by": "a test"})
    file = safe_open(tmp_path / "all.safetensors")
    assert file.metadata == {"made by": "a test"} and set(file) == set(state) and len(file) == len(state)
    for name, tensor in state.items():
        assert (file.dtype(name), file.shape(name)) == (tensor.dtype, (2, 3))
        assert file[name].numpy().tobytes() == tensor.numpy().tobytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["all.safetensors"]


def test_a_dtype_that_the_format_lacks(any_device: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"wide\.safetensors cannot be written: .*complex128"):
        safe_save({"z": Tensor([1j], dtype="complex128")}, tmp_path / "wide.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_file_is_read_lazily(any_device: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    safe_save({"a": Tensor.zeros(3), "b": Tensor.arange(6).reshape(2, 3), "empty": Tensor.zeros(0, 4)}, path)
    file = safe_open(path)
    assert file.array("b").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert file["empty"].shape == (0, 4) and file["b"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(KeyError):
        file["c"]


def test_all_of_a_file_is_a_dict(any_device: str, tmp_path: Path) -> None:
    safe_save({"a": Tensor.zeros(3), "b": Tensor([1, 2])}, tmp_path / "two")
    found = safe_load(tmp_path / "two", "numpy")
    assert type(found) is dict and set(found) == {"a", "b"} and found["b"].tolist() == [1, 2]
    assert found["a"].device == "numpy"
    found["c"] = found.pop("a")


def test_a_model_goes_through_a_file(any_device: str, tmp_path: Path) -> None:
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    safe_save(get_state_dict(first), tmp_path / "m.safetensors")
    load_state_dict(second, safe_load(tmp_path / "m.safetensors"))
    assert second.weight.tolist() == first.weight.tolist() and second.weight.requires_grad


@pytest.mark.parametrize("content", [b"", b"\xff" * 20, b"\x02\0\0\0\0\0\0\0{}x", b"\x08\0\0\0\0\0\0\0notjson!"])
def test_damaged_files(any_device: str, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileError, match="bad.safetensors is not a safetensors file, or is damaged"):
        safe_load(path)


def test_files_that_are_not_there(any_device: str, tmp_path: Path) -> None:
    for load in (safe_load, torch_load):
        with pytest.raises(FileError, match=r"nothing\.bin cannot be read"):
            load(tmp_path / "nothing.bin")
    with pytest.raises(FileError, match="cannot be written"):
        safe_save({"a": Tensor([1])}, tmp_path / "no" / "folder.safetensors")


# ---- torch's archives ----

STORAGES = {
    "bool": "BoolStorage", "int8": "CharStorage", "int16": "ShortStorage", "int32": "IntStorage", "int64": "LongStorage",
    "uint8": "ByteStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage", "float32": "FloatStorage",
    "float64": "DoubleStorage",
}  # fmt: skip


class Stored:
    """A tensor as torch pickles it: a function's name and its arguments, with a storage by number."""

    def __init__(
        self, values: Any, key: str, size: Any = None, stride: Any = None, offset: int = 0, parameter: bool = False
    ) -> None:
        self.values = np.asarray(values)
        self.key, self.offset, self.parameter = key, offset, parameter
        self.size = self.values.shape if size is None else size
        self.stride = tuple(n // self.values.itemsize for n in self.values.strides) if stride is None else stride

    def __reduce__(self) -> tuple[Any, ...]:
        torch = sys.modules["torch"]
        reference = Reference(
            "storage", getattr(torch, STORAGES[self.values.dtype.name]), self.key, "cpu", self.values.size
        )
        utils = sys.modules["torch._utils"]
        arguments = (reference, self.offset, tuple(self.size), tuple(map(int, self.stride)), False, OrderedDict())
        if self.parameter:
            inner = Stored(self.values, self.key, self.size, self.stride, self.offset)
            return utils._rebuild_parameter, (inner, True, OrderedDict())
        return utils._rebuild_tensor_v2, arguments


class Reference(tuple):
    """A tuple that becomes a persistent identifier."""

    def __new__(cls, *parts: Any) -> Reference:
        return super().__new__(cls, parts)


class Pickler(pickle.Pickler):
    def persistent_id(self, item: Any) -> Any:
        return tuple(item) if isinstance(item, Reference) else None


@pytest.fixture
def torch_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in STORAGES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    for name in ("_rebuild_tensor_v2", "_rebuild_parameter"):

        def function(*arguments: Any) -> None: ...

        function.__module__, function.__qualname__ = "torch._utils", name
        setattr(utils, name, function)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)
    yield


def write(path: Path, content: Any, storages: dict[str, Any], order: str = "little", compress: bool = False) -> None:
    text = io.BytesIO()
    Pickler(text, protocol=2).dump(content)
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("model/data.pkl", text.getvalue())
        archive.writestr("model/byteorder", order)
        for key, values in storages.items():
            array = np.asarray(values)
            archive.writestr(f"model/data/{key}", (array.byteswap() if order == "big" else array).tobytes())


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("order", ["little", "big"])
def test_an_archive_of_every_dtype(
    any_device: str, torch_names: None, tmp_path: Path, order: str, compress: bool
) -> None:
    arrays = {name: np.array([[0, 1, 2], [3, 4, 5]]).astype(getattr(ml_dtypes, name, name)) for name in STORAGES}
    content = OrderedDict((name, Stored(values, name)) for name, values in arrays.items())
    write(tmp_path / "a.pt", {"state": content, "epoch": 3, "names": ["x", None, 2.5]}, arrays, order, compress)
    found = torch_load(tmp_path / "a.pt")
    assert found["epoch"] == 3 and found["names"] == ["x", None, 2.5] and list(found["state"]) == list(STORAGES)
    for name, values in arrays.items():
        tensor = found["state"][name]
        assert tensor.dtype == name and tensor.numpy().tobytes() == values.tobytes()


def test_views_of_one_storage_and_parameters(any_device: str, torch_names: None, tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32)
    content = {
        "transposed": Stored(values, "0", (4, 3), (1, 4)),
        "part": Stored(values, "0", (2,), (5,), offset=1),
        "repeated": Stored(values, "0", (3, 2), (0, 1)),
        "nothing": Stored(values, "0", (0, 3), (3, 1)),
        "scalar": Stored(values, "0", (), (), offset=7),
        "weight": Stored(values, "0", parameter=True),
    }
    write(tmp_path / "views.pth", content, {"0": values})
    found = torch_load(tmp_path / "views.pth")
    assert found["transposed"].tolist() == values.reshape(3, 4).T.tolist()
    assert found["part"].tolist() == [1.0, 6.0] and found["scalar"].item() == 7.0
    assert found["repeated"].tolist() == [[0.0, 1.0]] * 3 and found["nothing"].shape == (0, 3)
    assert found["weight"].requires_grad and not found["part"].requires_grad


def test_a_state_dict_loads_into_a_model(any_device: str, torch_names: None, tmp_path: Path) -> None:
    weight, bias = np.ones((2, 3), np.float32), np.zeros(2, np.float32)
    state = OrderedDict(weight=Stored(weight, "0"), bias=Stored(bias, "1"))
    write(tmp_path / "linear.pt", state, {"0": weight, "1": bias})
    model = nn.Linear(3, 2)
    load_state_dict(model, torch_load(tmp_path / "linear.pt"))
    assert model(Tensor.ones(1, 3)).tolist() == [[3.0, 3.0]]


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


def test_code_in_a_file_is_refused(
    any_device: str, torch_names: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "bad.pt", {"a": Malicious()}, {})
    with pytest.raises(FileError, match=r"print, which is not loaded: it could run code"):
        torch_load(tmp_path / "bad.pt")
    assert "executed" not in capsys.readouterr().out


def test_views_outside_their_storage_are_refused(any_device: str, torch_names: None, tmp_path: Path) -> None:
    values = np.arange(4, dtype=np.float32)
    for k, view in enumerate(
        [((5,), (1,), 0), ((2, 2), (4, 1), 0), ((2,), (1,), 3), ((2,), (-1,), 1), ((1,), (1,), -1)]
    ):
        write(tmp_path / f"{k}.pt", Stored(values, "0", view[0], view[1], view[2]), {"0": values})
        with pytest.raises(FileError, match="lies outside its storage 0"):
            torch_load(tmp_path / f"{k}.pt")


def test_archives_that_are_damaged_or_something_else(any_device: str, torch_names: None, tmp_path: Path) -> None:
    (tmp_path / "old.pt").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FileError, match=r"neither a zip archive nor of the format before torch 1\.6"):
        torch_load(tmp_path / "old.pt")
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(FileError, match="not one of torch.save"):
        torch_load(tmp_path / "other.pt")
    with zipfile.ZipFile(tmp_path / "cut.pt", "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02}q\x00(X")
    with pytest.raises(FileError, match=r"cut\.pt is damaged"):
        torch_load(tmp_path / "cut.pt")
    write(tmp_path / "missing.pt", Stored(np.ones(2, np.float32), "9"), {})
    with pytest.raises(FileError, match=r"missing\.pt is damaged"):
        torch_load(tmp_path / "missing.pt")
