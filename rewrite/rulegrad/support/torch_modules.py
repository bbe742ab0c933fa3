"""PyTorch's modules that are elsewhere here: `import rulegrad.optim.optimizer` finds the names of `rulegrad.optim`.

A table of their names, and the finder that makes a module of a line of it. So a source whose imports say `rulegrad`
in the place of `torch` needs no other change. What such a module means is in the modules that the table names.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

_OF_NN: Final = """
activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm linear loss
module normalization padding pixelshuffle pooling rnn sparse transformer upsampling utils
"""
_OPTIMIZERS: Final = "adadelta adagrad adam adamw asgd nadam optimizer radam rmsprop rprop sgd"
_QUANTIZED: Final = """
ao.nn.quantized ao.quantization ao.quantization.quantize ao.quantization.stubs nn.quantized quantization
"""
_SYMBOLIC: Final = "helper " + " ".join(f"opset{version}" for version in range(7, 21))
_PLACEMENTS: Final = "_composable _composable.fsdp _tensor _tensor.experimental fsdp tensor tensor.experimental"
_LIBRARIES: Final = "cuda cudnn mha mkl mkldnn mps nnpack openmp opt_einsum quantized"
_AMP: Final = "autocast_mode grad_scaler"
_DATA: Final = "_utils _utils.collate dataset distributed sampler"
_DISTRIBUTIONS: Final = """
bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet distribution exp_family exponential
fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy half_normal independent inverse_gamma kl
kumaraswamy laplace lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal mixture_same_family multinomial
multivariate_normal negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli relaxed_categorical
studentT transformed_distribution uniform von_mises weibull wishart
"""
#: By the name of a module of `torch`: the modules of rulegrad that have its names, the first one first.
MODULES: Final[dict[str, tuple[str, ...]]] = {
    "accelerator": ("pytorch.accelerator",),
    **{f"{name}.{part}": ("amp",) for name in ("amp", "cpu.amp", "cuda.amp") for part in _AMP.split()},
    **dict.fromkeys(("ao", "ao.nn"), ()),
    **dict.fromkeys(_QUANTIZED.split(), ("pytorch.quantization",)),
    "autograd": ("pytorch.autograd", "pytorch.anomalies", "pytorch.gradient_modes", "pytorch.gradient_checks"),
    "autograd.grad_mode": ("pytorch.gradient_modes",),
    "autograd.anomaly_mode": ("pytorch.anomalies",),
    "autograd.function": ("pytorch.autograd",),
    "autograd.forward_ad": ("pytorch.forward_ad",),
    "autograd.graph": ("pytorch.graph",),
    "autograd.functional": ("pytorch.derivatives",),
    "_C": ("pytorch.internals",),
    "_custom_ops": ("pytorch.library",),
    "_utils": ("pytorch.flat_tensors",),
    "__config__": ("pytorch.configuration",),
    "_dynamo": ("pytorch.compiler",),
    **{f"_dynamo.{name}": ("pytorch.compiler",) for name in ("_trace_wrapped_higher_order_op", "eval_frame", "utils")},
    "backends": ("pytorch.backends",),
    **{f"backends.{name}": ("pytorch.backends",) for name in _LIBRARIES.split()},
    "compiler": ("pytorch.compiler",),
    "cpu": ("pytorch.processors",),
    "cpu.amp": ("amp",),
    "cuda.amp": ("amp",),
    **{f"distributed.{name}": ("pytorch.processes",) for name in ("device_mesh", "distributed_c10d", "nn", "rpc")},
    **{f"distributed.{name}": ("pytorch.placements",) for name in _PLACEMENTS.split()},
    "distributed.fsdp.fully_sharded_data_parallel": ("pytorch.placements",),
    "distributions": ("pytorch.distributions",),
    "distributions.constraint_registry": ("pytorch.distributions.constraint_registry",),
    "distributions.constraints": ("pytorch.distributions.constraints",),
    "distributions.utils": ("pytorch.distributions.utils",),
    "distributions.transforms": ("pytorch.distributions.transforms",),
    **{f"distributions.{name}": ("pytorch.distributions",) for name in _DISTRIBUTIONS.split()},
    "func": ("pytorch.func",),
    "functional": ("pytorch.functions",),
    "futures": ("pytorch.futures",),
    "fx.experimental": (),
    "fx.experimental.proxy_tensor": ("pytorch.absent",),
    "hub": ("pytorch.hub",),
    "_higher_order_ops": ("pytorch.scans",),
    "_higher_order_ops.associative_scan": ("pytorch.scans",),
    "jit": ("capture",),
    "jit.annotations": ("pytorch.annotations",),
    "library": ("pytorch.library",),
    "multiprocessing": ("pytorch.multiprocesses",),
    "mps": ("pytorch.metal",),
    "nn.attention.flex_attention": ("pytorch.flex_attention",),
    "nn.attention": ("pytorch.attention",),
    "nn.common_types": ("pytorch.bases",),
    "nn._reduction": ("pytorch.reduction_names",),
    "nn.modules": ("nn", "pytorch.bases"),
    **{f"nn.modules.{name}": ("nn", "pytorch.bases") for name in _OF_NN.split()},
    "nn.modules.lazy": ("pytorch.lazy", "nn"),
    "nn.modules.utils": ("pytorch.tuples",),
    "nn.parallel": ("nn._parallel",),
    **{f"nn.parallel.{name}": ("nn._parallel",) for name in ("data_parallel", "distributed", "scatter_gather")},
    **{f"nn.utils.{name}": ("nn.utils",) for name in ("clip_grad", "convert_parameters")},
    "nn.utils.fusion": ("nn.utils._fusion",),
    "nn.utils.rnn": ("pytorch.sequences",),
    **{f"onnx.symbolic_{name}": ("pytorch.symbolics",) for name in _SYMBOLIC.split()},
    **{f"optim.{name}": ("optim", "pytorch.bases") for name in _OPTIMIZERS.split()},
    "overrides": ("pytorch.overrides",),
    "profiler": ("pytorch.profiler",),
    **dict.fromkeys(("profiler.profiler", "autograd.profiler"), ("pytorch.profiler",)),
    "autograd.profiler_util": ("pytorch.profiler_events",),
    "serialization": ("pytorch.serialization",),
    "quasirandom": ("pytorch.quasirandom",),
    "random": ("pytorch.random",),
    "_tensor_str": ("tensor.printing",),
    "_subclasses": ("pytorch.absent",),
    "_subclasses.fake_tensor": ("pytorch.absent",),
    "storage": ("pytorch.absent",),
    "testing": ("pytorch.testing",),
    "sparse": ("pytorch.sparse",),
    "types": ("pytorch.bases",),
    "utils": (),
    "version": ("pytorch.version",),
    "utils._pytree": ("pytorch.trees",),
    "utils._foreach_utils": ("pytorch.lists",),
    "utils.hooks": ("pytorch.handles",),
    "utils.flop_counter": ("pytorch.flops",),
    "utils.model_zoo": ("pytorch.hub",),
    "utils.checkpoint": ("nn.utils", "pytorch.random"),
    "utils.data": ("data",),
    **{f"utils.data.{name}": ("data",) for name in _DATA.split()},
    "utils.data.dataloader": ("data", "pytorch.loaders"),
    "utils.cpp_extension": ("pytorch.cpp_extension",),
    "utils.dlpack": ("pytorch.dlpack",),
    **dict.fromkeys(("utils.tensorboard", "utils.tensorboard.writer"), ("pytorch.tensorboard",)),
}


def modules_below(package: str) -> Callable[[str], Any]:
    """A package's `__getattr__` that imports its modules of the table: `rulegrad.nn.attention`."""

    def get(name: str) -> Any:
        if f"{package}.{name}" in MODULES:
            return importlib.import_module(f"rulegrad.{package}.{name}")
        raise AttributeError(f"module 'rulegrad.{package}' has no attribute {name!r}")

    return get


class Finder:
    """Finds the modules of the table."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of the table."""
        package, _, name = fullname.partition(".")
        if package != "rulegrad" or name not in MODULES:
            return None
        loader: Any = self  # without its base, whose import takes a while
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """The usual empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Lets the module look up its names when they are asked for."""
        inner = module.__name__.partition(".")[2]
        if inner == "jit":  # a function that has the module's names; it stays that
            function = importlib.import_module("rulegrad.capture").jit
            vars(function).update(__path__=[], __spec__=module.__spec__)  # what an import of `jit.annotations` looks at
            sys.modules[module.__name__] = function
            return
        module.__doc__ = f"The names of `torch.{inner}`."
        vars(module)["__getattr__"] = _lookup(module, inner)
        for place in MODULES[inner]:  # programs go through the classes of a module
            found = sys.modules.get(f"rulegrad.{place}")
            if inner == "distributions":
                found = importlib.import_module("rulegrad.pytorch.distributions")
            vars(module).update(
                {name: vars(found)[name] for name in getattr(found, "__all__", ()) if name in vars(found)}
            )


def _lookup(module: ModuleType, inner: str) -> Callable[[str], Any]:
    def get(name: str) -> Any:
        if f"{inner}.{name}" in MODULES:
            return importlib.import_module(f"rulegrad.{inner}.{name}")
        if name == "__all__":
            return [one for place in MODULES[inner] for one in importlib.import_module(f"rulegrad.{place}").__all__]
        for place in MODULES[inner]:
            found = importlib.import_module(f"rulegrad.{place}")
            if hasattr(found, name) and not name.startswith("__"):
                value = getattr(found, name)
                setattr(module, name, value)
                return value
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}, which torch.{inner} may have")

    return get
