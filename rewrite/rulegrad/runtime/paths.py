"""Where rulegrad's data folders and cache files are."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from rulegrad.config import config
from rulegrad.errors import RulegradError


@cache
def data_folder(name: Literal["rules", "backends"]) -> Path:
    """The folder of rule files or of backends: inside the package in a wheel, beside `rewrite` in a checkout.

    >>> data_folder("rules").joinpath("ops.rules").is_file()
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
    """The cache folder, made if it is missing; None where it cannot be written."""
    folder = Path(config.cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder
