"""The training step of a user's program, for tools that capture it."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rulegrad.distributed import Mesh
from rulegrad.errors import ConfigError
from rulegrad.nn import Module
from rulegrad.optim import Optimizer
from rulegrad.tensor.core import TensorCore
from rulegrad.workbench.scale.capturing import captured_step
from rulegrad.workbench.scale.schedule import Schedule


class Training(NamedTuple):
    """A program's training: a function without arguments that does one step, its optimizer, and all its globals."""

    step: Callable[[], Any]
    optimizer: Optimizer
    names: Mapping[str, Any] = {}  # nobody changes it

    @property
    def model(self) -> tuple[str, Module]:
        """The module, and its name in the program, that has all parameters of the optimizer. Raises ConfigError."""
        wanted = {id(parameter) for parameter in self.optimizer.parameters}
        for name, value in self.names.items():
            if isinstance(value, Module) and wanted <= {id(one) for _, one in value.named_parameters()}:
                return name, value
        raise ConfigError("the script defines no module with all parameters that the optimizer moves, such as `model`")

    def parameters(self) -> dict[str, TensorCore]:
        """The parameters that the optimizer moves, by their names in the model. Raises ConfigError."""
        wanted = {id(parameter) for parameter in self.optimizer.parameters}
        return {name: one for name, one in self.model[1].named_parameters() if id(one) in wanted}

    def state(self) -> list[tuple[TensorCore, TensorCore]]:
        """The tensors of the optimizer's state, each after the parameter that it belongs to."""
        parameters = self.optimizer.parameters
        return [(parameters[k], one) for k, own in self.optimizer.state.items() for one in own.values()]

    def inputs(self, read: Sequence[TensorCore]) -> dict[str, TensorCore]:
        """The tensors with axes among those that a step reads that are globals of the program, by their names."""
        wanted = {id(tensor) for tensor in read}
        found = {}
        for name, value in self.names.items():
            if isinstance(value, TensorCore) and id(value) in wanted and value.ndim:
                wanted.remove(id(value))
                found[name] = value
        return found

    def mesh(self) -> dict[str, int]:
        """The axes of the mesh that the program has, the first of its globals that is one; {} where it has none."""
        found = next((value for value in self.names.values() if isinstance(value, Mesh)), None)
        return {} if found is None else dict(zip(found.names, found.sizes, strict=True))


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
    found = Training(names.get(step), names.get(optimizer), names)  # type: ignore[arg-type]
    if not callable(found.step):
        raise ConfigError(f"{path} defines no function {step!r} without arguments, which does one step of training")
    if not isinstance(found.optimizer, Optimizer):
        raise ConfigError(f"{path} defines no optimizer {optimizer!r} (of rulegrad.optim)")
    return found


def schedule_of_script(path: str, batch: float, step: str = "step", optimizer: str = "optimizer") -> Schedule:
    """The schedule of a program's training step. Raises ConfigError as `load_training` and `captured_step` do."""
    training = load_training(path, step, optimizer)
    return captured_step(training.step, training.optimizer, batch, os.path.basename(path), mesh=training.mesh())
