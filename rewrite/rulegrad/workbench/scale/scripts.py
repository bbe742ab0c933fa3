"""The training step of a user's program, for tools that capture it."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from rulegrad.errors import ConfigError
from rulegrad.optim import Optimizer
from rulegrad.workbench.scale.capturing import captured_step
from rulegrad.workbench.scale.schedule import Schedule


class Training(NamedTuple):
    """What a program defines: a function without arguments that does one step, and its optimizer."""

    step: Callable[[], Any]
    optimizer: Optimizer


def load_training(path: str, step: str = "step", optimizer: str = "optimizer") -> Training:
    """Runs a program as a module, so not what stands under `if __name__ == "__main__"`, and takes these names of it.

    Raises ConfigError where the file is missing or fails, or a name is not what it should be.

    >>> load_training("missing.py")
    Traceback (most recent call last):
        ...
    rulegrad.errors.ConfigError: the script missing.py cannot be read: there is no such file
    """
    if not os.path.isfile(path):
        raise ConfigError(f"the script {path} cannot be read: there is no such file")
    folders = sys.path
    sys.path = [os.path.dirname(os.path.abspath(path)), *folders]
    try:
        names = runpy.run_path(path, run_name="training")
    except Exception as error:
        raise ConfigError(f"{path} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path = folders
    found = Training(names.get(step), names.get(optimizer))  # type: ignore[arg-type]
    if not callable(found.step):
        raise ConfigError(f"{path} defines no function {step!r} without arguments, which does one step of training")
    if not isinstance(found.optimizer, Optimizer):
        raise ConfigError(f"{path} defines no optimizer {optimizer!r} (of rulegrad.optim)")
    return found


def schedule_of_script(path: str, batch: float, step: str = "step", optimizer: str = "optimizer") -> Schedule:
    """The schedule of a program's training step. Raises ConfigError as `load_training` and `captured_step` do."""
    training = load_training(path, step, optimizer)
    return captured_step(training.step, training.optimizer, batch, os.path.basename(path))
