"""`torch.utils.flop_counter`: how many operations a block computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulegrad.runtime.profile import Profile

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """A block whose kernels' operations are counted: all of them, while PyTorch counts products and convolutions.

    Values that are asked for after the block are computed there, and not counted.

    >>> from rulegrad import Tensor
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = (Tensor.rand(2, 3) @ Tensor.rand(3, 4)).realize()
    >>> counter.get_total_flops() >= 2 * 2 * 3 * 4
    True
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        self.display = display
        self._profile = Profile()

    def __enter__(self) -> Self:
        self._profile.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._profile.__exit__()
        if self.display:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """The operations of all kernels."""
        return sum(record.flops for record in self._profile.kernels)

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """The operations of each kernel, under `Global`."""
        found: dict[str, int] = {}
        for record in self._profile.kernels:
            found[record.name] = found.get(record.name, 0) + record.flops
        return {"Global": found}

    def get_table(self, depth: int | None = None) -> str:
        """A table of kernels."""
        return str(self._profile)
