"""rulegrad: a tensor compiler whose compile steps are rewrite rules in text files.

    from rulegrad import Tensor
    (Tensor([[1.0, 2.0]]) * 3).sum().item()

`import rulegrad` is cheap: each name below is imported when it is first used. Beside them are PyTorch's names in
`torch`, so that `import rulegrad as torch` runs a model's source: `rulegrad.cat` is `Tensor.cat`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

# Not lazy: importing the module later would put it in the place of the object of the same name.
from rulegrad.config import config
from rulegrad.support.torch_modules import MODULES, Finder

if TYPE_CHECKING:
    from rulegrad import (
        amp,
        array_api,
        communication,
        cuda,
        data,
        distributed,
        errors,
        fft,
        fx,
        masked,
        nn,
        onnx,
        optim,
        signal,
        special,
        training,
    )
    from rulegrad.engine import load_rules, rewrite
    from rulegrad.ir import UOp
    from rulegrad.ir import dtype as dtypes
    from rulegrad.nn._checkpoint_files import load, save
    from rulegrad.runtime.devices import load_backend
    from rulegrad.runtime.memory import memory_report, peak_memory, reset_peak_memory
    from rulegrad.runtime.profile import profile
    from rulegrad.tensor import Tensor, linalg, no_grad
    from rulegrad.tensor.autocasting import autocast
    from rulegrad.tensor.generators import Generator, fork_rng, get_rng_state, manual_seed, set_rng_state
    from rulegrad.tensor.movement import broadcast_shapes
    from rulegrad.workbench.tracing import trace

__version__ = "0.1.0"

# Where each public name is: the module, and the name in it ("" for the module itself).
_PLACES = {
    "Tensor": ("rulegrad.tensor", "Tensor"),
    "Generator": ("rulegrad.tensor.generators", "Generator"),
    "UOp": ("rulegrad.ir", "UOp"),
    "Variable": ("rulegrad.capture.variables", "Variable"),
    "amp": ("rulegrad.amp", ""),
    "apply_op": ("rulegrad.tensor.custom", "apply_op"),
    "array_api": ("rulegrad.array_api", ""),
    "autocast": ("rulegrad.tensor.autocasting", "autocast"),
    "broadcast_shapes": ("rulegrad.tensor.movement", "broadcast_shapes"),
    "communication": ("rulegrad.communication", ""),
    "compile": ("rulegrad.compile", ""),
    "cuda": ("rulegrad.cuda", ""),
    "custom_gradient": ("rulegrad.tensor.custom", "custom_gradient"),
    "data": ("rulegrad.data", ""),
    "distributed": ("rulegrad.distributed", ""),
    "dtypes": ("rulegrad.ir.dtype", ""),
    "each_call": ("rulegrad.tensor.capturing", "each_call"),
    "enable_grad": ("rulegrad.tensor.gradient_mode", "enable_grad"),
    "errors": ("rulegrad.errors", ""),
    "fft": ("rulegrad.fft", ""),
    "fork_rng": ("rulegrad.tensor.generators", "fork_rng"),
    "fx": ("rulegrad.fx", ""),
    "get_rng_state": ("rulegrad.tensor.generators", "get_rng_state"),
    "grad": ("rulegrad.tensor.functional", "grad"),
    "hessian": ("rulegrad.tensor.functional", "hessian"),
    "jacobian": ("rulegrad.tensor.functional", "jacobian"),
    "jit": ("rulegrad.capture", "jit"),
    "jvp": ("rulegrad.tensor.functional", "jvp"),
    "linalg": ("rulegrad.linalg", ""),
    "load": ("rulegrad.nn._checkpoint_files", "load"),
    "load_backend": ("rulegrad.runtime.devices", "load_backend"),
    "load_rules": ("rulegrad.engine", "load_rules"),
    "manual_seed": ("rulegrad.tensor.generators", "manual_seed"),
    "masked": ("rulegrad.masked", ""),
    "memory_report": ("rulegrad.runtime.memory", "memory_report"),
    "nn": ("rulegrad.nn", ""),
    "no_grad": ("rulegrad.tensor", "no_grad"),
    "onnx": ("rulegrad.onnx", ""),
    "optim": ("rulegrad.optim", ""),
    "peak_memory": ("rulegrad.runtime.memory", "peak_memory"),
    "profile": ("rulegrad.runtime.profile", "profile"),
    "reset_peak_memory": ("rulegrad.runtime.memory", "reset_peak_memory"),
    "rewrite": ("rulegrad.engine", "rewrite"),
    "save": ("rulegrad.nn._checkpoint_files", "save"),
    "set_rng_state": ("rulegrad.tensor.generators", "set_rng_state"),
    "signal": ("rulegrad.signal", ""),
    "special": ("rulegrad.special", ""),
    "tensor": ("rulegrad.tensor", ""),
    "trace": ("rulegrad.workbench.tracing", "trace"),
    "training": ("rulegrad.training", ""),
    "value_and_grad": ("rulegrad.tensor.functional", "value_and_grad"),
    "vjp": ("rulegrad.tensor.functional", "vjp"),
    "vmap": ("rulegrad.tensor.mapping", "vmap"),
}

__all__ = [
    "Generator",
    "Tensor",
    "UOp",
    "Variable",
    "amp",
    "apply_op",
    "array_api",
    "autocast",
    "broadcast_shapes",
    "communication",
    "config",
    "cuda",
    "custom_gradient",
    "data",
    "distributed",
    "dtypes",
    "each_call",
    "enable_grad",
    "errors",
    "fft",
    "fork_rng",
    "fx",
    "get_rng_state",
    "grad",
    "hessian",
    "jacobian",
    "jit",
    "jvp",
    "linalg",
    "load",
    "load_backend",
    "load_rules",
    "manual_seed",
    "masked",
    "memory_report",
    "nn",
    "no_grad",
    "onnx",
    "optim",
    "peak_memory",
    "profile",
    "reset_peak_memory",
    "rewrite",
    "save",
    "set_rng_state",
    "signal",
    "special",
    "trace",
    "training",
    "value_and_grad",
    "vjp",
    "vmap",
]


sys.meta_path.insert(0, Finder())  # before others, to whom an installed package's data folder `backends` is a module


def __getattr__(name: str) -> Any:
    if name in MODULES and name not in _PLACES:
        value = importlib.import_module(f"rulegrad.{name}")
    elif name in _PLACES:
        module, attribute = _PLACES[name]
        found = importlib.import_module(module)
        value = getattr(found, attribute) if attribute else found
    elif name in (names := importlib.import_module("rulegrad.support.torch_names")).NAMES or names.is_foreach(name):
        value = importlib.import_module("rulegrad.pytorch.names").find(name)
    else:
        raise AttributeError(f"module 'rulegrad' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
