"""Parts of files that are read when they are asked for, as long as the file is the one that was opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rulegrad.errors import FileError


def state_of(file: BinaryIO) -> tuple[int, ...]:
    """A key that changes when the file does, or when another takes its place."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_part(path: Path, state: tuple[int, ...], begin: int, length: int) -> np.ndarray[Any, Any]:
    """Bytes of a file whose state was this when it was opened. Raises FileError when it has changed meanwhile."""
    # Not mapped: where another process makes a mapped file shorter, reading it ends this process.
    try:
        with path.open("rb") as file:
            if state_of(file) != state:
                raise FileError(f"{path} has changed since it was opened; open it again")
            file.seek(begin)
            raw = np.fromfile(file, np.uint8, length)
    except OSError as error:
        raise FileError(f"{path} cannot be read any more: {error}") from None
    if len(raw) != length:
        raise FileError(f"{path} has become shorter while it was read")
    return raw
