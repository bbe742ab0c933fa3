"""`torch.utils.hooks`: handles of hooks that a program keeps in a dict of its own."""

from __future__ import annotations

import itertools
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["RemovableHandle"]

_numbers = itertools.count()


class RemovableHandle:
    """The key `id` for a dict of hooks, which `remove`, or the end of a `with` block, takes out again.

    >>> hooks = {}
    >>> handle = RemovableHandle(hooks)
    >>> hooks[handle.id] = print
    >>> handle.remove(); hooks
    {}
    """

    def __init__(self, hooks_dict: MutableMapping[int, Any], *, extra_dict: Any = None) -> None:
        self.id = next(_numbers)
        more = extra_dict if isinstance(extra_dict, (list, tuple)) else [] if extra_dict is None else [extra_dict]
        self._dicts = [hooks_dict, *more]

    def remove(self) -> None:
        """The hook is no longer in the dict."""
        for hooks in self._dicts:
            hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
