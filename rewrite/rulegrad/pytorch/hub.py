"""`torch.hub`: files of weights on the network, which rulegrad does not fetch."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse

from rulegrad.errors import ConfigError

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "load_url", "urlparse"]

#: The hash at the end of a file's name.
HASH_REGEX: Final = re.compile(r"-([a-f0-9]*)\.")


def __getattr__(name: str) -> Any:
    if name == "tqdm" and importlib.util.find_spec("tqdm"):  # the package's, as in PyTorch, where it is installed
        return importlib.import_module("tqdm").tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_state_dict_from_url(url: str, *arguments: Any, **more: Any) -> Any:
    """Not supported: a ConfigError that says what to do."""
    raise ConfigError(f"hub: rulegrad downloads nothing; fetch {url} yourself, and load it by rulegrad.load(path)")


download_url_to_file = load_url = load_state_dict_from_url


def _get_torch_home() -> str:
    """PyTorch's folder of files that were fetched: packages ask for it when they are imported."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return os.environ.get("TORCH_HOME") or str(Path(cache) / "torch")


def get_dir() -> str:
    """The folder in which PyTorch keeps files that it has fetched; nothing is written there.

    >>> from pathlib import Path
    >>> import rulegrad
    >>> Path(rulegrad.hub.get_dir()).name
    'hub'
    """
    return str(Path(_get_torch_home()) / "hub")
