"""Files of metrics: a table (CSV), and TensorBoard's event files by the library tensorboardX."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

from rulegrad.errors import ConfigError, FileError


class Metrics:
    """Writes numbers of steps to a CSV file, to a folder for TensorBoard, or both; each row is on disk at once.

    from_step: of a run that goes on: what the files have of this step and later ones is dropped, since it is made
    again; without it the CSV file begins anew. Raises ConfigError where neither is named, or tensorboardX is not
    installed, and FileError for a file that is not such a table. Close it, or use it in a `with` statement.

    >>> import os, tempfile; from pathlib import Path
    >>> from rulegrad.training import Metrics
    >>> path = os.path.join(tempfile.mkdtemp(), "metrics.csv")
    >>> with Metrics(path) as metrics:
    ...     metrics.add(0, loss=0.5, rate=0.1)
    ...     metrics.add(1, loss=0.25, rate=0.1)
    >>> Path(path).read_text().split()
    ['step,loss,rate', '0,0.5,0.1', '1,0.25,0.1']
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        tensorboard: str | os.PathLike[str] | None = None,
        *,
        from_step: int | None = None,
    ) -> None:
        if path is None and tensorboard is None:
            raise ConfigError("Metrics: give the path of a CSV file, a folder for tensorboard, or both")
        self._names: list[str] = []
        self._file: Any = None
        self._board = None if tensorboard is None else _summary_writer()(os.fspath(tensorboard), purge_step=from_step)
        if path is not None:
            rows = self._rows_before(Path(path), from_step)
            self._file = Path(path).open("w", newline="", encoding="utf-8")  # noqa: SIM115  (closed by `close`)
            self._writer = csv.writer(self._file)
            if rows:
                self._writer.writerows([["step", *self._names], *rows])
                self._file.flush()

    def _rows_before(self, path: Path, step: int | None) -> list[list[str]]:
        """The rows of the file that stay."""
        if step is None or not path.is_file():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        if rows and rows[0][:1] != ["step"]:
            raise FileError(f"{path} is not a table of metrics: it does not begin with a column 'step'")
        self._names = rows[0][1:] if rows else []
        # The last row may be cut off where the program was killed.
        return [row for row in rows[1:] if len(row) == len(rows[0]) and int(row[0]) < step]

    def add(self, step: int, **values: Any) -> None:
        """Numbers, or tensors of one element, of a step. Raises ConfigError for other names than in the first row."""
        numbers = {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}
        if self._file is not None:
            if not self._names:
                self._names = list(numbers)
                self._writer.writerow(["step", *self._names])
            if set(numbers) != set(self._names):
                raise ConfigError(f"Metrics.add: {', '.join(numbers)}, and the table has {', '.join(self._names)}")
            self._writer.writerow([step, *(numbers[name] for name in self._names)])
            self._file.flush()
        if self._board is not None:
            for name, number in numbers.items():
                self._board.add_scalar(name, number, step)
            self._board.flush()

    def close(self) -> None:
        """Close the files."""
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _summary_writer() -> Any:
    try:
        # late: an optional library
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ConfigError("Metrics: tensorboard needs tensorboardX; run pip install tensorboardX") from None
    return SummaryWriter
