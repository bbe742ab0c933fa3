"""PyTorch's `.pt` and `.pth` files, read without torch and without running anything that they contain.

An archive is a zip file: `data.pkl` describes the structure in pickle's format, `data/KEY` are the storages. Archives
of TorchScript have code beside it. Files from before torch 1.6 are read by `_torch_legacy`.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from rulegrad.errors import FileError, FileMissingError
from rulegrad.nn._file_parts import read_bytes
from rulegrad.nn._torch_legacy import LegacyFile, is_legacy
from rulegrad.nn._torch_script import ScriptModule, constructors_of, state_of
from rulegrad.nn._torch_values import TorchFile, whole_values

_LOCAL_HEADER: Final = 30  # bytes, before the entry's name
#: What damaged archives make of the module zipfile.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError)


def is_torch_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one that `torch_load` reads, as far as its first and last bytes say."""
    return is_legacy(Path(path)) or zipfile.is_zipfile(path)


def torch_load(path: str | os.PathLike[str], device: str | None = None) -> Any:
    """Read a file of `torch.save`: dicts, lists, numbers and strings, with each tensor as a Tensor on `device`.

    Files from before torch 1.6 are read too. Of a TorchScript archive (`torch.jit.save`) the state dict is read.
    Nothing in the file is executed, and torch is not needed. Parameters require a gradient.
    Raises FileError for a file that is missing, damaged, or that holds objects other than tensors and plain containers.
    """
    file = Path(path)
    try:
        if is_legacy(file):
            with file.open("rb") as content:
                return LegacyFile(file, content, device).load()
        with zipfile.ZipFile(file) as archive:
            return _Archive(file, archive, device).load()
    except FileError:
        raise
    except FileNotFoundError:
        raise FileMissingError(f"{file} cannot be read: there is no such file") from None
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error}") from None
    except _ZIP_ERRORS as error:
        if not zipfile.is_zipfile(file):
            raise FileError(
                f"{file} is not a file of torch.save: neither a zip archive nor of the format before torch 1.6"
            ) from None
        raise FileError(f"{file} is damaged: {error}") from None


class _Archive(TorchFile):
    """A zip archive while it is read."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, device: str | None) -> None:
        super().__init__(path, device)
        self.archive = archive
        self.storages: dict[str, np.ndarray[Any, Any]] = {}
        found = [info.filename for info in archive.infolist() if info.filename.rpartition("/")[2] == "data.pkl"]
        if len(found) != 1:
            raise FileError(f"{path} is a zip archive, but not one of torch.save: it has no data.pkl")
        self.folder = found[0].removesuffix("data.pkl")
        order = self.folder + "byteorder"
        self.is_big_endian = order in archive.namelist() and self.read(order) == b"big"

    def read(self, entry: str) -> bytes:
        """The bytes of an entry, which may be compressed."""
        self.take(self.archive.getinfo(entry).file_size)
        return self.archive.read(entry)

    def load(self) -> Any:
        """The object that was given to `torch.save`; the state dict, if that was `torch.jit.save`."""
        names = self.constructors()
        code = self.folder + "code/"
        for entry in self.archive.namelist():
            if entry.startswith(code) and entry.endswith(".py"):
                module = entry.removeprefix(code).removesuffix(".py").replace("/", ".")
                names.update(constructors_of(module, self.read(entry).decode()))
        found = self.unpickle(io.BytesIO(self.read(self.folder + "data.pkl")), names)
        return state_of(found) if isinstance(found, ScriptModule) else found

    def storage(self, key: str, dtype: str) -> np.ndarray[Any, Any]:
        """The values of a storage; read from the file itself where the entry is not compressed."""
        if key not in self.storages:
            info = self.archive.getinfo(f"{self.folder}data/{key}")
            if info.compress_type == zipfile.ZIP_STORED:
                self.storages[key] = self._stored(info)
            else:
                self.storages[key] = np.frombuffer(self.read(info.filename), np.uint8)
        return whole_values(self.storages[key], dtype, is_big_endian=self.is_big_endian)

    def let_go(self, key: str) -> None:
        """The values of a storage are read again, should they be asked for again."""
        self.storages.pop(key, None)

    def _stored(self, info: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
        self.take(info.file_size)
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            header = file.read(_LOCAL_HEADER)
            file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), os.SEEK_CUR)
            found = read_bytes(file, min(info.file_size, self.path.stat().st_size))
        if len(found) != info.file_size:
            raise self.damaged(f"{info.filename} ends early")
        return found
