"""PyTorch's files from before version 1.6, which are pickles and storages one after the other.

Five pickles: a magic number, the version of the protocol, the sizes of C's types, the object, and the keys of its
storages; then, for each key, the number of elements (int64) and their bytes. All numbers are little-endian, whatever
machine wrote them. `torch.save(..., _use_new_zipfile_serialization=False)` still writes such files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from rulegrad.errors import FileError
from rulegrad.ir.dtype import as_dtype
from rulegrad.nn._file_parts import read_bytes
from rulegrad.nn._torch_values import StorageReference, TorchFile, whole_values

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_VERSION: Final = 1001
#: The magic number stands in the first bytes, after the opcodes of a version of pickle's protocol.
_HEAD: Final = 32


def is_legacy(path: Path) -> bool:
    """Whether a file begins with the magic number of the old format."""
    with path.open("rb") as file:
        return _MAGIC.to_bytes(10, "little") in file.read(_HEAD)


class LegacyFile(TorchFile):
    """A file of the old format while it is read."""

    def __init__(self, path: Path, file: BinaryIO, device: str | None) -> None:
        super().__init__(path, device)
        self._file = file
        self._dtypes: dict[str, str] = {}
        self._places: dict[str, tuple[int, int]] = {}  # where a storage begins, and how many bytes it has
        self._storages: dict[str, np.ndarray[Any, Any]] = {}

    def load(self) -> Any:
        """The object that was given to `torch.save`."""
        if self.unpickle(self._file) != _MAGIC:
            raise self.damaged("it does not begin with PyTorch's magic number")
        version = self.unpickle(self._file)
        if version != _VERSION:
            raise FileError(f"{self.path} is of version {version} of the format, and only {_VERSION} is read")
        self.unpickle(self._file)  # the sizes of C's types, which nothing here depends on
        begin = self._file.tell()
        # The storages come after the object, whose tensors name their dtypes: it is read for these first.
        self.unpickle(self._file, dict.fromkeys(self.constructors(), lambda *_: None))
        self._find_storages(self.unpickle(self._file))
        self._file.seek(begin)
        return self.unpickle(self._file)

    def reference(self, described: Any) -> StorageReference:
        """As in every format; a sixth part says which elements of another storage this one is."""
        found = super().reference(described)
        self._dtypes[found.key] = found.dtype
        view = described[5] if len(described) > 5 else None
        return found if view is None else found._replace(offset=int(view[1]))

    def let_go(self, key: str) -> None:
        """The values of a storage are read again, should they be asked for again."""
        self._storages.pop(key, None)

    def _find_storages(self, keys: Any) -> None:
        if not isinstance(keys, list):
            raise self.damaged(f"a {type(keys).__name__} where the list of its storages belongs")
        size = os.fstat(self._file.fileno()).st_size
        for key in map(str, keys):
            if key not in self._dtypes:
                raise self.damaged(f"no tensor names the storage {key}")
            count = int.from_bytes(self._file.read(8), "little", signed=True)
            nbytes, begin = count * as_dtype(self._dtypes[key]).numpy.itemsize, self._file.tell()
            if count < 0 or begin + nbytes > size:
                raise self.damaged(f"its storage {key} of {count} elements ends after the file")
            self._places[key] = begin, nbytes
            self._file.seek(nbytes, os.SEEK_CUR)

    def storage(self, key: str, dtype: str) -> np.ndarray[Any, Any]:
        """The values of a storage: (elements,)."""
        if key not in self._storages:
            if key not in self._places:
                raise self.damaged(f"its storage {key} is missing")
            begin, nbytes = self._places[key]
            self.take(nbytes)
            with self.path.open("rb") as file:
                file.seek(begin)
                self._storages[key] = read_bytes(file, nbytes)
            if len(self._storages[key]) != nbytes:
                raise self.damaged(f"its storage {key} ends early")
        return whole_values(self._storages[key], dtype)
