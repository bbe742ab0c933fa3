"""`torch.hub`: files of weights on the network, which rulegrad does not fetch."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlparse

from rulegrad.errors import ConfigError

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "urlparse"]

#: The hash at the end of a file's name.
HASH_REGEX: Final = re.compile(r"-([a-f0-9]*)\.")


def load_state_dict_from_url(url: str, *arguments: Any, **more: Any) -> Any:
    """Not supported: a ConfigError that says what to do."""
    raise ConfigError(f"hub: rulegrad downloads nothing; fetch {url} yourself, and load it by rulegrad.load(path)")


download_url_to_file = load_state_dict_from_url


def get_dir() -> str:
    """Not supported: a ConfigError that says what to do."""
    raise ConfigError("hub: rulegrad keeps no downloaded files; fetch them yourself, and load them by rulegrad.load")


_get_torch_home = get_dir
