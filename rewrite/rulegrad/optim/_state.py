"""The state of an optimizer: what is kept of each parameter from step to step."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.tensor.tensor import Tensor


class State(dict[int, dict[str, Any]]):
    """The state by the numbers of parameters; a parameter stands for its number, as in steps written for PyTorch."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__()
        self._groups = groups
        self._numbers: dict[int, tuple[int, Tensor]] = {}

    def _number(self, key: Any) -> Any:
        if not isinstance(key, Tensor):
            return key
        if self._numbers.get(id(key), (0, None))[1] is not key:
            listed = [parameter for group in self._groups for parameter in group["params"]]
            self._numbers = {id(parameter): (number, parameter) for number, parameter in enumerate(listed)}
        if id(key) not in self._numbers:
            raise ConfigError("optimizer: a tensor is not among the parameters; add its group first")
        return self._numbers[id(key)][0]

    def __getitem__(self, key: Any) -> dict[str, Any]:
        number = self._number(key)
        return self.setdefault(number, {}) if isinstance(key, Tensor) else super().__getitem__(number)

    def __setitem__(self, key: Any, value: dict[str, Any]) -> None:
        super().__setitem__(self._number(key), value)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self._number(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The state of a parameter, where it has one."""
        return super().get(self._number(key), default)
