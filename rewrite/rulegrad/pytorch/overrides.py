"""`torch.overrides`: functions of PyTorch that classes of a program's own take over, which none does here."""

from __future__ import annotations

from typing import Any, Final

from rulegrad.errors import ConfigError
from rulegrad.tensor.tensor import Tensor

__all__ = ["TorchFunctionMode", "has_torch_function", "is_tensor_like"]


def has_torch_function(relevant_args: Any) -> bool:
    """False: functions are called as they are written."""
    return False


has_torch_function_unary: Final = has_torch_function
has_torch_function_variadic: Final = lambda *args: False  # noqa: E731


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor.

    >>> is_tensor_like(Tensor([1.0])), is_tensor_like([1.0])
    (True, False)
    """
    return isinstance(inp, Tensor)


class TorchFunctionMode:
    """A block in which a class sees each call of PyTorch: it can be declared, but not entered."""

    def __enter__(self) -> None:
        raise ConfigError(
            f"{type(self).__name__}: calls of rulegrad's functions are not seen by a class; change what is computed by "
            "a rule file (rulegrad.load_rules), or look at it by hooks"
        )

    def __exit__(self, *error: object) -> None:
        """Not reached."""
