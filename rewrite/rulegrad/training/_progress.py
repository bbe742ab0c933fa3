"""A progress bar, by the library tqdm: steps per second, values such as the loss, memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from rulegrad.errors import ConfigError
from rulegrad.runtime.memory import peak_memory

T = TypeVar("T")


class Progress(Generic[T]):
    """Goes over `iterable` with a bar of tqdm's: steps/s, the values given to `show`, the most memory on the device.

    The host waits for the values of tensors only when the bar is drawn, each `interval` seconds. total: steps, where
    the iterable has no length. device: whose memory is shown. more: arguments of `tqdm.tqdm`, such as `file`. With
    `disable=True` there is no bar. Raises ConfigError where tqdm is not installed.

    >>> from rulegrad.training import Progress
    >>> for x in (bar := Progress([0.5, 0.25], "train", disable=True)):
    ...     bar.show(loss=x)
    >>> bar.text()
    'loss=0.25, peak ... MiB'
    """

    def __init__(
        self,
        iterable: Iterable[T],
        description: str = "",
        *,
        total: int | None = None,
        interval: float = 0.5,
        device: str | None = None,
        disable: bool = False,
        **more: Any,
    ) -> None:
        self._iterable, self._interval, self._device = iterable, interval, device
        self._values: dict[str, Any] = {}
        self._bar: Any = None
        self._drawn = -interval
        if not disable:
            self._bar = _tqdm()(
                total=_length(iterable) if total is None else total,
                desc=description or None,
                unit="step",
                mininterval=interval,
                **more,
            )

    def __iter__(self) -> Iterator[T]:
        try:
            for item in self._iterable:
                yield item
                if self._bar is not None:
                    self._bar.update()
        finally:
            if self._bar is not None:
                self._bar.set_postfix_str(self.text())
                self._bar.close()

    def show(self, **values: Any) -> None:
        """Values to be shown from now on, by name: numbers, texts, or tensors of one element."""
        self._values.update(values)
        now = time.monotonic()
        if self._bar is not None and now - self._drawn >= self._interval:
            self._drawn = now
            self._bar.set_postfix_str(self.text(), refresh=False)

    def text(self) -> str:
        """The values and the most memory so far, as the bar has them."""
        shown = [f"{name}={_shown(value)}" for name, value in self._values.items()]
        return ", ".join([*shown, f"peak {peak_memory(self._device) / 2**20:.0f} MiB"])


def _shown(value: Any) -> str:
    number = value.item() if hasattr(value, "item") else value
    return f"{number:.4g}" if isinstance(number, float) else str(number)


def _length(iterable: Any) -> int | None:
    try:
        return len(iterable)
    except TypeError:
        return None


def _tqdm() -> Any:
    try:
        # late: an optional library
        from tqdm import tqdm
    except ImportError:
        raise ConfigError("Progress: tqdm is not installed; run pip install tqdm, or give disable=True") from None
    return tqdm
