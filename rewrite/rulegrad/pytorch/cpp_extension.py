"""`torch.utils.cpp_extension`: code in C++ or CUDA that is compiled against PyTorch, which is not there.

Programs that have another way go it when they see the error.
"""

from __future__ import annotations

from typing import Any, Final

from rulegrad.errors import ConfigError

__all__ = ["CUDA_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "include_paths", "load", "load_inline"]

#: Where NVIDIA's compiler would be.
CUDA_HOME: Final = None


def load(name: str, sources: Any, *arguments: Any, **more: Any) -> Any:
    """Not supported: a ConfigError that says what to do."""
    raise ConfigError(
        f"cpp_extension: {name} is C++ for PyTorch, which is not there; write it with rulegrad's "
        "operations, or as rules (rulegrad.load_rules)"
    )


load_inline = CppExtension = CUDAExtension = load


class BuildExtension:
    """A name for build scripts: there is nothing to build against."""


def include_paths(*arguments: Any, **more: Any) -> list[str]:
    """None: there are no headers.

    >>> include_paths()
    []
    """
    return []
