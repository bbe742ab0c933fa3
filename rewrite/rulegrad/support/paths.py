"""Paths of rulegrad's data folders and cache files."""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from pathlib import Path
from typing import Literal

from rulegrad.config import config
from rulegrad.errors import RulegradError
from rulegrad.support.messages import say_once


@cache
def data_folder(name: Literal["rules", "backends"]) -> Path:
    """The folder of rule files or of backends: inside the package in a wheel, beside `rewrite` in a checkout.

    >>> data_folder("rules").joinpath("ops/ops.rules").is_file()
    True
    """
    package = Path(__file__).resolve().parents[1]
    candidates = [package / name]
    if package.parent.name == "rewrite":
        candidates.append(package.parents[1] / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    places = " or ".join(map(str, candidates))
    raise RulegradError(f"the folder {name!r} is missing; looked for {places}. Install rulegrad again")


def cache_folder() -> Path | None:
    """The cache folder, made if it is missing, for this user alone.

    Programs are loaded from it. So None, and once a line on stderr, where others could have written what is in it;
    None too where it cannot be made.
    """
    folder = Path(config.cache)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = doubt(folder)
    except (OSError, ValueError):
        return None
    if problem:
        say_once(f"the cache folder {folder} is not used: {problem}. Remove it, or set RULEGRAD_CACHE to another")
        return None
    return folder


def doubt(path: Path) -> str:
    """Why a folder or file may hold what another user has put there; empty where it is this user's own.

    A folder of this user's that others may look into is closed to them. Raises OSError where there is none.
    """
    if sys.platform == "win32":  # folders of a user's profile are the user's
        return ""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return f"{path.name} is a link"
    if status.st_uid != os.geteuid():
        return f"{path.name} belongs to another user (number {status.st_uid})"
    if stat.S_ISDIR(status.st_mode):
        if status.st_mode & 0o022:
            return "other users may write into it"
        if status.st_mode & 0o055:
            path.chmod(0o700)
    elif not stat.S_ISREG(status.st_mode):
        return f"{path.name} is not a file"
    return ""
