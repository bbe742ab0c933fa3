"""`torch.utils.tensorboard`: TensorBoard's event files by the library tensorboardX, which takes arrays."""

from __future__ import annotations

from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.tensor.tensor import Tensor

__all__ = ["SummaryWriter"]


class SummaryWriter:
    """tensorboardX's writer, whose methods take tensors too: they are read, wherever they stand in lists and dicts.

    Raises ConfigError where tensorboardX is not installed.

    >>> import os, tempfile
    >>> from rulegrad import Tensor
    >>> folder = tempfile.mkdtemp()
    >>> with SummaryWriter(folder) as writer:
    ...     writer.add_scalar("loss", Tensor(0.5), 1)
    >>> ["tfevents" in name for name in os.listdir(folder)]
    [True]
    """

    def __init__(self, log_dir: Any = None, comment: str = "", *args: Any, **more: Any) -> None:
        try:
            # late: an optional library
            from tensorboardX import SummaryWriter as Writer
        except ImportError:
            raise ConfigError("SummaryWriter: it needs tensorboardX; run pip install tensorboardX") from None
        self._writer = Writer(None if log_dir is None else str(log_dir), comment, *args, **more)
        self.log_dir: str = self._writer.logdir

    def get_logdir(self) -> str:
        """The folder of the files."""
        return self.log_dir

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__dict__["_writer"], name)
        if not callable(found):
            return found
        return lambda *args, **more: found(*(_plain(x) for x in args), **{key: _plain(x) for key, x in more.items()})

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _plain(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.detach().numpy() if x.ndim else x.item()
    if type(x) in (list, tuple):
        return type(x)(_plain(part) for part in x)
    return {key: _plain(part) for key, part in x.items()} if type(x) is dict else x
