"""Checkpoints of a whole run, from which training goes on bit for bit."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np

from rulegrad.errors import ConfigError, FileError
from rulegrad.nn._checkpoint_files import load, save


class Checkpoint:
    """One file with the state of all that a run of training changes; it goes on from there after an interruption.

    parts: by name, objects with `state_dict` and `load_state_dict`: model, optimizer, scheduler, `GradScaler`,
    `DataLoader`, averages, early stopping. Random numbers go along: rulegrad's, Python's and NumPy's. The file is
    replaced as a whole, so a program that is killed leaves the one before or the new one. Raises ConfigError for a part
    without these methods.

    >>> import os, tempfile
    >>> from rulegrad import nn, optim, training
    >>> model = nn.Linear(2, 1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.checkpoint")
    >>> checkpoint = training.Checkpoint(path, model=model, optimizer=optim.SGD(model.parameters(), lr=0.1))
    >>> checkpoint.load()
    {}
    >>> checkpoint.save(epoch=3, best=0.5)
    >>> checkpoint.load()
    {'epoch': 3, 'best': 0.5}
    """

    def __init__(self, path: str | os.PathLike[str], **parts: Any) -> None:
        self.path, self.parts = Path(path), parts
        for name, part in parts.items():
            if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
                raise ConfigError(
                    f"Checkpoint: {name} is a {type(part).__name__}, which has no state_dict and load_state_dict; give "
                    "plain values to save() instead"
                )

    def save(self, **values: Any) -> None:
        """Write the state of all parts, and plain values such as the epoch. Raises FileError, as `rulegrad.save`."""
        states = {name: part.state_dict() for name, part in self.parts.items()}
        save({"parts": states, "values": values, "random": _random_states()}, self.path)

    def load(self) -> dict[str, Any]:
        """Give all parts their states back, and the plain values; {} where there is no file yet.

        Raises FileError for a file with other parts; nothing is changed then.
        """
        if not self.path.is_file():
            return {}
        found = load(self.path)
        if not isinstance(found, dict) or found.keys() != {"parts", "values", "random"}:
            raise FileError(f"{self.path} is not the checkpoint of a run; read it with rulegrad.load")
        if found["parts"].keys() != self.parts.keys():
            raise FileError(
                f"{self.path} has the parts {', '.join(found['parts'])}, and the checkpoint {', '.join(self.parts)}; "
                "give the same parts"
            )
        for name, part in self.parts.items():
            part.load_state_dict(found["parts"][name])
        _set_random_states(found["random"])
        load(self.path, random=True)  # last: parts may draw
        values: dict[str, Any] = found["values"]
        return values


def _random_states() -> dict[str, Any]:
    version, numbers, gauss = random.getstate()
    kind, keys, place, has_gauss, cached = np.random.get_state()
    return {
        "python": [version, np.array(numbers, np.uint64), gauss],
        "numpy": [kind, np.array(keys, np.uint32), place, has_gauss, cached],
    }


def _set_random_states(states: dict[str, Any]) -> None:
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(map(int, np.asarray(numbers))), gauss))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.asarray(keys), *rest))
