"""`torch.autograd.detect_anomaly`: the setting `detect_nan` under PyTorch's names."""

from __future__ import annotations

from rulegrad.config import config

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:  # noqa: N801  (PyTorch's name)
    """From now on, or in a block, an operation that makes a nan is an error that names it; with False it is not.

    >>> with set_detect_anomaly(True):
    ...     config.detect_nan
    1
    >>> config.detect_nan
    0
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = config.detect_nan
        config.detect_nan = int(mode and check_nan)

    def __enter__(self) -> None:
        """The block begins."""

    def __exit__(self, *error: object) -> None:
        config.detect_nan = self._before


class detect_anomaly(set_detect_anomaly):  # noqa: N801  (PyTorch's name)
    """A block in which an operation that makes a nan is an error."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
