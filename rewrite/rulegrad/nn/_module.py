"""`Module`, the base of layers and models: what they hold, whether they are being trained, and their state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from rulegrad.errors import ModuleError, NoPartError, NotAParameterError, RulegradError
from rulegrad.nn import _layers as layers
from rulegrad.nn import _walking as walking
from rulegrad.nn import state
from rulegrad.nn._backward_hooks import HookedCall
from rulegrad.nn._held import HeldBy
from rulegrad.nn._hooks import HOOKS, Hooked, after, before
from rulegrad.nn._uninitialized import UninitializedBuffer, UninitializedParameter, waiting
from rulegrad.nn.parameter import Parameter, buffer_kind, mark
from rulegrad.tensor.capturing import noticed
from rulegrad.tensor.device_names import cuda_device
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self


NOT_WALKED: Final = (*HOOKS, "_kinds")
#: What the value of `get_extra_state` is called in a state.
_EXTRA_STATE: Final = "_extra_state"


def _asking_for_parts(self: Any, name: str) -> Any:
    """`__getattribute__` of a class that has a `__getattr__`: in PyTorch that is asked for parts, which no dict has."""
    if name[:2] != "__" and name in object.__getattribute__(self, "__dict__").get("_kinds", ()):
        return type(self).__getattr__(self, name)
    return object.__getattribute__(self, name)


class Module(Hooked, walking.Walked):
    """The base of models, as in PyTorch: set layers and parameters as attributes, and define `forward`.

    Parameters are tensors that require a gradient (or `nn.Parameter`); what else belongs to the state is given to
    `register_buffer`; other tensors are plain attributes. Layers in lists, tuples and dicts are found too, where
    they have no other name. A module is in training mode until `eval()` is called.

    >>> from rulegrad import Tensor, nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(4, 8)
    ...         self.output = nn.Linear(8, 2)
    ...     def forward(self, x):
    ...         return self.output(self.hidden(x).relu())
    >>> net = Net().eval()
    >>> net(Tensor.ones(3, 4)).shape, [name for name, _ in net.named_parameters()]
    ((3, 2), ['hidden.weight', 'hidden.bias', 'output.weight', 'output.bias'])
    """

    #: Whether the bases that a class names after this one are initialized by `__init__`; a program may say so.
    call_super_init = False

    _training = True
    _kinds: dict[str, walking.Kind]
    _modules = HeldBy()
    _parameters = HeldBy("parameter")
    _buffers = HeldBy("buffer", "temporary")

    def __init__(self, *arguments: Any, **more: Any) -> None:
        """Nothing is to be done before attributes are set; other bases of a class are initialized by the class."""
        if self.call_super_init:
            super().__init__(*arguments, **more)
        elif arguments or more:
            given = ", ".join([*map(repr, arguments), *more])
            raise TypeError(f"{type(self).__name__}.__init__() has arguments that nobody takes: {given}")

    def forward(self, *arguments: Any, **more: Any) -> Any:
        """The computation of a call."""
        raise ModuleError(f"{type(self).__name__} has no forward; define `def forward(self, x)` in the class")

    def _call(self, *arguments: Any, **more: Any) -> Any:
        try:
            if self._pre_hooks:
                arguments, more = before(self, arguments, more)
            hooked = HookedCall(self) if self._backward_hooks or self._backward_pre_hooks else None
            arguments = hooked.arguments(arguments) if hooked else arguments
            result = self.forward(*arguments, **more)
            if self._hooks:
                result = after(self, arguments, more, result)
            result = hooked.results(result) if hooked else result
        except RulegradError as error:
            layers.note(error, self)
            raise
        return result

    # Not a method, so that a subclass can say what its calls give.
    __call__: Callable[..., Any] = _call

    # ---- what it holds ----

    def __setattr__(self, name: str, value: Any) -> None:
        is_part = isinstance(value, (Module, Parameter))
        if is_part and self.__dict__.get(name, self) is None and name not in self.__dict__.get("_kinds", {}):
            del self.__dict__[name]  # the order is PyTorch's, for which None was another attribute
        if isinstance(value, Tensor):
            kinds = self.__dict__.setdefault("_kinds", {})
            kind = buffer_kind(value)
            if kind is not None:
                kinds[name] = kind
            elif isinstance(value, Parameter) and kinds.get(name) not in ("buffer", "temporary"):
                kinds[name] = "parameter"
                mark(value)
            elif kinds.get(name) == "parameter":
                raise NotAParameterError(
                    f"{type(self).__name__}.{name} is a parameter, and the new value is none; assign "
                    "nn.Parameter(value), or change the parameter inside no_grad() with .assign(value)"
                )
        elif isinstance(value, Module):
            self.__dict__.setdefault("_kinds", {})[name] = "module"
        elif isinstance(value, UninitializedParameter):
            value.held_by(self, name)
        super().__setattr__(name, value)

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__getattr__" in vars(cls) and cls.__module__.partition(".")[0] != "rulegrad":
            cls.__getattribute__ = _asking_for_parts  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        """A part, for a class whose own `__getattr__` is asked for it first; there is no other way here."""
        if name in self.__dict__:
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self.__dict__.get("_kinds", {}).pop(name, None)

    def _direct(self) -> Mapping[str, Any]:
        return {name: part for name, part in self._may_hold().items() if isinstance(part, (Tensor, walking.Walked))}

    def _walked(self) -> Mapping[str, Any]:
        found = self._may_hold()
        several = [name for name, part in found.items() if isinstance(part, (list, tuple, Mapping))]
        if several:
            walking.keep_apart(found, several)
        return found

    def _may_hold(self) -> dict[str, Any]:
        """The attributes that are, or may hold, tensors and modules."""
        kinds: dict[str, walking.Kind] = self.__dict__.get("_kinds", {})
        found: dict[str, Any] = {}
        for name, part in self.__dict__.items():
            if name in NOT_WALKED or (isinstance(part, Module) and kinds.get(name) != "module"):
                continue  # a module that `object.__setattr__` has set is not a part, as in PyTorch
            if part is None or isinstance(part, (Tensor, walking.Walked, list, tuple, Mapping)):
                found[name] = part
        return found

    def _kind_of(self, name: str, tensor: Tensor) -> walking.Kind:
        kinds: dict[str, walking.Kind] = self.__dict__.get("_kinds", {})
        kind = kinds.get(name, "plain")
        return "plain" if kind == "module" else kind

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Set an attribute that is not a parameter, and moves with the module; part of the state if `persistent`.

        >>> from rulegrad import Tensor, nn
        >>> module = nn.Module()
        >>> module.register_buffer("mask", Tensor([1.0, 0.0]))
        >>> list(module.state_dict())
        ['mask']
        """
        self.__dict__.setdefault("_kinds", {})[name] = "buffer" if persistent else "temporary"
        Module.__setattr__(self, name, tensor)  # which a subclass's own may have called

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """Set an attribute that is a parameter, or None."""
        if param is not None:
            mark(param)
        else:
            self.__dict__.setdefault("_kinds", {})[name] = "parameter"
        Module.__setattr__(self, name, param)

    def add_module(self, name: str, module: Any) -> None:
        """Set an attribute that is a module, under any name."""
        Module.__setattr__(self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """`add_module`"""
        self.add_module(name, module)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The parameters with their paths, each once; not those of its modules unless `recurse`."""
        return self._named(("parameter",), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """The parameters, each once, as optimizers take them."""
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their paths, each once."""
        return self._named(("buffer", "temporary"), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def _named(
        self, kinds: tuple[walking.Kind, ...], prefix: str, recurse: bool, once: bool
    ) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for path, tensor, kind in walking.tensors(self):
            if kind in kinds and not (once and id(tensor) in seen) and (recurse or "." not in path):
                seen.add(id(tensor))
                yield (f"{prefix}.{path}" if prefix else path), tensor
        for path, empty in self._uninitialized() if waiting else ():
            kind = "buffer" if isinstance(empty, UninitializedBuffer) else "parameter"
            if kind in kinds and (recurse or "." not in path):
                yield (f"{prefix}.{path}" if prefix else path), cast("Tensor", empty)

    def _uninitialized(self) -> Iterator[tuple[str, UninitializedParameter]]:
        """The placeholders, by path, for tensors of lazy layers that no input has reached."""
        for path, module in self.named_modules():
            for name, part in vars(module).items():
                if isinstance(part, UninitializedParameter):
                    yield (f"{path}.{name}" if path else name), part

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that this one holds itself, each once; one in a list has its place in the name: `layers.0`."""
        return self._held_modules(True)

    def _held_modules(self, once: bool) -> Iterator[tuple[str, Module]]:
        seen: set[int] = set()
        for path, module in walking.modules(self):
            if isinstance(module, Module) and not (once and id(module) in seen):
                seen.add(id(module))
                yield path, module

    def children(self) -> Iterator[Module]:
        """The modules that this one holds itself."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module, and all below it, with their paths, each once unless `remove_duplicate` is False.

        memo: modules that are left out, with what is below them; those that come are added.
        """
        seen: set[Module] = set() if memo is None else memo
        if remove_duplicate and self in seen:
            return
        seen.add(self)
        yield prefix, self
        for path, child in self._held_modules(remove_duplicate):
            yield from child.named_modules(seen, f"{prefix}.{path}" if prefix else path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module, and all below it."""
        return (module for _, module in self.named_modules())

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as `layers.0.attention`. Raises NoPartError where there is none."""
        found = dict(self.named_modules())
        self._require("get_submodule", "module", target, found)
        return found[target]

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a layer in the place of the one at a path. Raises ModuleError where the path leads nowhere.

        strict: whether the layer there has to exist.

        >>> from rulegrad import nn
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> model.set_submodule("1", nn.Tanh()); model[1]
        Tanh()
        """
        path, _, name = target.rpartition(".")
        modules = dict(self.named_modules())
        if path not in modules or (strict and target not in modules):
            raise ModuleError(f"set_submodule: there is no layer {target if path in modules else path!r}")
        setattr(modules[path], name, module)

    def get_parameter(self, target: str) -> Tensor:
        """The parameter at a path such as `layers.0.weight`, also at the other paths of one that modules share.

        Raises NoPartError where there is none.

        >>> from rulegrad import nn
        >>> nn.Sequential(nn.Linear(3, 2)).get_parameter("0.bias").shape
        (2,)
        """
        return self._tensor_at("get_parameter", "parameter", target, ("parameter",))

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path such as `layers.1.running_mean`. Raises NoPartError where there is none."""
        return self._tensor_at("get_buffer", "buffer", target, ("buffer", "temporary"))

    def _tensor_at(self, method: str, kind: str, target: str, kinds: tuple[walking.Kind, ...]) -> Tensor:
        found = {path: tensor for path, tensor, its_kind in walking.tensors(self) if its_kind in kinds}
        self._require(method, kind, target, found)
        return found[target]

    def _require(self, method: str, kind: str, target: str, found: Mapping[str, Any]) -> None:
        if target not in found:
            raise NoPartError(f"{method}: no {kind} {target!r} in {type(self).__name__}; there are {[*found]}")

    # ---- modes ----

    @property
    def training(self) -> bool:
        """Whether dropout drops and batch normalisation uses the batch: True until `eval()`.

        Inside `with Tensor.train(mode):` it is that mode, for every module.
        """
        mode = self._training if Tensor.training is None else Tensor.training
        noticed(self, "training", mode)
        return mode

    @training.setter
    def training(self, mode: bool) -> None:
        self._training = bool(mode)

    def train(self, mode: bool = True) -> Self:
        """Put this module, and all below it, into training mode (or out of it). Returns the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Put this module, and all below it, out of training mode. Returns the module."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Thaw (or freeze) all parameters. Returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients; with `set_to_none=False` they are zeros."""
        for parameter in self.parameters():
            grad = parameter.grad
            parameter.grad = None if set_to_none or grad is None else grad.zeros_like()

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call `function` with each module, those below first, this one last. Returns the module."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # ---- state ----

    def state_dict(
        self, *, destination: dict[str, Tensor] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Tensor]:
        """The parameters and persistent buffers by path, without gradients; views, as in PyTorch.

        So they change when the module does, and an update of one is an update of the module; `copy.deepcopy` of the
        dict keeps the values. destination: a dict that takes them. prefix: put before each name. keep_vars: the
        parameters themselves, with their gradients.

        >>> from rulegrad import nn
        >>> list(nn.Linear(3, 2).state_dict())
        ['weight', 'bias']
        """
        found: dict[str, Tensor] = {} if destination is None else destination
        places = [(f"{prefix}{path}." if path else prefix, module) for path, module in self.named_modules()]
        for place, module in places:
            for hook in module._state_pre_hooks:
                hook(module, place, keep_vars)
        for path, tensor in state.get_state_dict(self).items():
            found[prefix + path] = tensor if keep_vars else tensor.detach()
        for place, module in reversed(places):
            module._save_to_state_dict(found, place, keep_vars)
            if _overrides(module, "get_extra_state"):
                found[place + _EXTRA_STATE] = module.get_extra_state()
            for hook in module._state_hooks:
                changed = hook(module, found, place, {})
                found = changed if isinstance(changed, dict) else found
        return found

    def get_extra_state(self) -> Any:
        """For a class with a state beside its tensors: its value, which `state_dict` has as `_extra_state`.

        The class defines `set_extra_state(state)` too, which `load_state_dict` calls. Raises ModuleError where it does
        not define this method.

        >>> from rulegrad import nn
        >>> class Counter(nn.Module):
        ...     count = 3
        ...     def get_extra_state(self):
        ...         return {"count": self.count}
        ...     def set_extra_state(self, state):
        ...         self.count = state["count"]
        >>> nn.Sequential(Counter()).state_dict()
        {'0._extra_state': {'count': 3}}
        """
        raise ModuleError(f"{type(self).__name__} has no extra state; define get_extra_state(self) in the class")

    def set_extra_state(self, state: Any) -> None:
        """For a class with `get_extra_state`: takes such a value. Raises ModuleError where it does not define it."""
        raise ModuleError(f"{type(self).__name__} has no extra state; define set_extra_state(self, state) in the class")

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """For programs of PyTorch, whose classes have one that adds to the state."""

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """For programs of PyTorch, whose classes have one that changes the state first: it is read afterwards."""

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """Take the values of a state: ours, PyTorch's, or that of a file. `nn.state.load_state_dict` says more.

        assign: the parameters take the dtypes of the state, too.
        """
        if assign:
            for path, tensor in state.get_state_dict(self).items():
                if isinstance(given := state_dict.get(path), Tensor) and given.dtype != tensor.dtype:
                    state.move(tensor, None, given.dtype, None)
        modules = list(self.named_modules())
        metadata = getattr(state_dict, "_metadata", {})
        if any(module._load_hooks or _overrides(module, "_load_from_state_dict") for _, module in modules):
            state_dict = dict(state_dict)  # which the hooks change
        errors: list[str] = []
        for path, module in modules:
            given = f"{path}." if path else "", metadata.get(path, {}), strict, [], [], errors
            for hook in module._load_hooks:
                hook(module, state_dict, *given)
            module._load_from_state_dict(state_dict, *given)
        if errors:
            raise ModuleError(f"load_state_dict: {'; '.join(errors)}")
        taking = {
            (f"{path}." if path else "") + _EXTRA_STATE: module
            for path, module in modules
            if _overrides(module, "set_extra_state")
        }
        keys = state.load_with_extra(self, state_dict, strict, taking.keys())
        for name, module in taking.items():
            if name in state_dict:
                module.set_extra_state(state_dict[name])
        for _, module in modules:
            for hook in module._loaded_hooks:
                hook(module, keys)
        return keys

    def to(self, target: Any = None, dtype: Any = None, *, device: str | None = None) -> Self:
        """Move all parameters and buffers to a device, and those of floats to a dtype. Returns the module.

        The arguments are those of `Tensor.to`. The tensors stay the same objects, so optimizers keep hold of them.

        >>> from rulegrad import nn
        >>> nn.Linear(3, 2).to("float64").weight.dtype
        DType('float64')
        """
        for _, tensor, kind in walking.tensors(self):
            if kind != "plain":
                state.move(tensor, target, dtype, device)
        for _, empty in self._uninitialized() if waiting else ():
            empty.move(target, dtype, device)
        return self

    def to_empty(self, *, device: str | None, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without their values, which are zeros then. Returns the module.

        recurse: also those of the modules below. The tensors stay the same objects.

        >>> from rulegrad import nn
        >>> nn.Linear(1, 1).to_empty(device="cpu").weight.item()
        0.0
        """
        for path, tensor, kind in walking.tensors(self):
            if kind != "plain" and (recurse or "." not in path):
                state.empty(tensor, device)
        for path, empty in self._uninitialized() if waiting else ():
            if recurse or "." not in path:
                empty.move(None, None, device)
        return self

    def cpu(self) -> Self:
        """`to("cpu")`"""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """`to("cuda")`, or to the GPU of this number."""
        return self.to(cuda_device(device))

    def type(self, dst_type: Any) -> Self:
        """`to(dst_type)`, of a dtype."""
        return self.to(dtype=dst_type)

    def compile(self, *arguments: Any, **more: Any) -> None:
        """Nothing, as `rulegrad.compile`: for programs of PyTorch."""

    def float(self) -> Self:
        """`to("float32")`"""
        return self.to("float32")

    def double(self) -> Self:
        """`to("float64")`"""
        return self.to("float64")

    def half(self) -> Self:
        """`to("float16")`"""
        return self.to("float16")

    def bfloat16(self) -> Self:
        """`to("bfloat16")`"""
        return self.to("bfloat16")

    # ---- text ----

    def extra_repr(self) -> str:
        """This module's own part of `repr`, without its children."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        children = [f"({path}): {child!r}".replace("\n", "\n  ") for path, child in walking.modules(self)]
        inside = [*([self.extra_repr()] if self.extra_repr() else []), *children]
        if not children:
            return f"{type(self).__name__}({''.join(inside)})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(inside) + "\n)"


class Described(Module):
    """A module whose public numbers, texts and flags are shown by `repr`."""

    def extra_repr(self) -> str:
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "inplace"}
        plain = (bool, int, float, str, tuple)
        return ", ".join(f"{name}={value!r}" for name, value in shown.items() if isinstance(value, plain))


class Layer(Described):
    """A module from one tensor to another."""

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...


def _overrides(module: Module, name: str) -> bool:
    """Whether the class has a method of this name that is its own."""
    return getattr(type(module), name) is not getattr(Module, name)
