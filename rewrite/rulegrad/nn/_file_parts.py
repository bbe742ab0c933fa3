"""Parts of files that are read when they are asked for, as long as the file is the one that was opened."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from rulegrad.errors import FileError

#: From so many bytes on, what is read has pages of its own.
_LARGE: Final = 1 << 20


def state_of(file: BinaryIO) -> tuple[int, ...]:
    """A key that changes when the file does, or when another takes its place."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_bytes(file: BinaryIO, length: int) -> np.ndarray[Any, Any]:
    """The next bytes of a file, fewer where it ends. Much of it goes back to the system when it is let go.

    From the heap of C it would not: that keeps blocks of up to 32 MiB once a program has freed such ones, and what was
    read of a checkpoint would be in memory twice.
    """
    room = np.empty(length, np.uint8) if length < _LARGE else np.frombuffer(mmap.mmap(-1, length), np.uint8)
    found = 0
    while found < length and (more := file.readinto(room[found:])):  # type: ignore[attr-defined]  # of open files
        found += more
    return room[:found]


def read_part(path: Path, state: tuple[int, ...], begin: int, length: int) -> np.ndarray[Any, Any]:
    """Bytes of a file whose state was this when it was opened. Raises FileError when it has changed meanwhile."""
    # Not mapped: where another process makes a mapped file shorter, reading it ends this process.
    try:
        with path.open("rb") as file:
            if state_of(file) != state:
                raise FileError(f"{path} has changed since it was opened; open it again")
            file.seek(begin)
            raw = read_bytes(file, length)
    except OSError as error:
        raise FileError(f"{path} cannot be read any more: {error}") from None
    if len(raw) != length:
        raise FileError(f"{path} has become shorter while it was read")
    return raw
