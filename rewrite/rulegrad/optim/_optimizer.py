"""Base of optimizers: groups of parameters, their state, and the step.

What changes from step to step (learning rates, bias corrections) is in buffers, so every step has the same graph and
is compiled once.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from rulegrad.errors import ConfigError, NoAxesError, ShapeError
from rulegrad.nn._uninitialized import UninitializedParameter
from rulegrad.nn._walking import Walked
from rulegrad.nn.parameter import Parameter
from rulegrad.optim._formulas import Formulas, Numbers, joined
from rulegrad.optim._state import State
from rulegrad.tensor import updates
from rulegrad.tensor.capturing import each_call, initial_state, is_tracing, noticed
from rulegrad.tensor.gradient_mode import enable_grad, no_grad
from rulegrad.tensor.history import BackwardCall, forget_ways, gradient_points, roots_of
from rulegrad.tensor.realize import realize_all
from rulegrad.tensor.storage import filled_like, upload_like
from rulegrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Tensors, or groups of them: dicts with "params" and the options that differ.
Parameters = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[Mapping[str, Any]]


class Execution(TypedDict, total=False):
    """PyTorch's keywords for how a step is carried out. Here a step is one computation, whatever they say.

    `differentiable=True` is refused: parameters that were moved in place have no gradient with respect to what moved
    them.
    """

    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool


@dataclass
class _Cohort:
    """Parameters of a group that were moved in the same steps, by number, and what their formulas share."""

    members: set[int]
    shared: dict[str, Tensor]


@dataclass(frozen=True)
class _Uploads:
    """Called, it uploads the numbers of a group. Weak: a captured step keeps what it calls."""

    optimizer: weakref.ref[Optimizer]
    group: int

    def __call__(self) -> Tensor:
        optimizer = self.optimizer()
        assert optimizer is not None, "a captured step is replayed only as long as its state is there"
        return optimizer._upload(self.group)

    @property
    def saved(self) -> tuple[str, Optimizer | None, int]:
        """How a file of a captured step names it."""
        return ("optimizer", self.optimizer(), self.group)


class Optimizer(Walked):
    """Groups of parameters with their options, in `param_groups` as in PyTorch, and the step that moves them.

    Keywords of all: `foreach`, `fused` and `capturable`, which change nothing; see `Execution`.
    A subclass says in `_numbers` which numbers its formula reads, and in `_change` the new value of a parameter.

    >>> from rulegrad import optim
    >>> class Signs(optim.Optimizer):
    ...     def _change(self, number, value, gradient, group, numbers):
    ...         return value - gradient.sign() * numbers["lr"]
    >>> w = Tensor([1.0, -2.0], requires_grad=True)
    >>> signs = Signs([w], {"lr": 0.5, "weight_decay": 0.0, "maximize": False})
    >>> _ = (w * w).sum().backward(); signs.step()
    >>> w.tolist()
    [0.5, -1.5]
    """

    _shared_state: tuple[str, ...] = ("step",)  # numbers of the state that parameters have in common

    def __init__(self, params: Parameters, defaults: dict[str, Any], **execution: Unpack[Execution]) -> None:
        if unknown := execution.keys() - Execution.__annotations__.keys():
            raise TypeError(f"{type(self).__name__}: there is no argument {', '.join(sorted(unknown))}")
        if isinstance(params, Tensor):
            raise NoAxesError("optimizer: params is a Tensor; give a list of parameters, [tensor]")
        listed: list[Any] = list(params)
        grouped = bool(listed) and isinstance(listed[0], Mapping)
        groups: list[Mapping[str, Any]] = listed if grouped else [{"params": listed}]
        self.param_groups: list[dict[str, Any]] = []
        #: The state of each parameter, by its number: names and meanings are PyTorch's. That of a complex parameter is
        #: kept as pairs of reals, and moved as such: the formulas are those of the parts.
        self.state: dict[int, dict[str, Tensor]] = State(self.param_groups)
        self._cohorts: list[list[_Cohort]] = []
        self._uploaded: list[_Uploaded | None] = []
        self._before: dict[int, tuple[Tensor, Tensor]] | None = None  # in a step that may be left out
        self._on_placeholders = False  # whether a formula is built on placeholders; the state that it makes is dropped
        self._options_before: tuple[list[tuple[Any, ...]], list[Any]] | None = None
        self.defaults = {**defaults, **execution}
        for group in groups:
            self._add_group({**self.defaults, **group})
        if not self.param_groups:
            raise ConfigError("optimizer: no parameter requires a gradient; pass model.parameters()")
        self.device = self.parameters[0].device

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Optimise more parameters: a dict with "params", and the options that differ.

        >>> from rulegrad import optim
        >>> w = Tensor([1.0], requires_grad=True)
        >>> sgd = optim.SGD([w], lr=0.25)
        >>> sgd.add_param_group({"params": [Tensor([2.0], requires_grad=True)], "lr": 0.5})
        >>> [group["lr"] for group in sgd.param_groups]
        [0.25, 0.5]
        """
        self._add_group({**self.defaults, **param_group})

    def _add_group(self, group: dict[str, Any]) -> None:
        listed = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        # `named_parameters()` gives pairs.
        given: list[Any] = [entry[1] if isinstance(entry, tuple) and len(entry) == 2 else entry for entry in listed]
        if any(isinstance(p, UninitializedParameter) for p in given):
            raise ConfigError(
                "optimizer: a parameter of a lazy layer has no values before the first input; call the model once on "
                "an input, and make the optimizer then"
            )
        if any(p.requires_grad and not isinstance(p, Parameter) for p in given):
            raise ConfigError(
                "optimizer: a tensor was computed from others, so it cannot be moved; pass those, or a copy of its "
                "values: tensor.detach().requires_grad_()"
            )
        # A frozen parameter has its place too: it may be thawed later.
        unique = {id(p): p for p in given if isinstance(p, Parameter)}
        if any(id(parameter) in unique for parameter in self.parameters):
            raise ConfigError("optimizer: a parameter is in two groups; leave it out of one of them")
        if not unique:
            return
        group["params"] = list(unique.values())
        self._check(group)
        self.param_groups.append(group)
        self._cohorts.append([])
        self._uploaded.append(None)

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters of all groups; the state is numbered in this order.

        >>> from rulegrad import optim
        >>> w = Tensor([1.0], requires_grad=True)
        >>> sgd = optim.SGD([w], lr=0.25)
        >>> sgd.parameters[0] is w
        True
        """
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @property
    def lr(self) -> float:
        """The learning rate of the first group; assigning sets that of all groups.

        >>> from rulegrad import optim
        >>> w = Tensor([1.0], requires_grad=True)
        >>> sgd = optim.SGD([w], lr=0.25)
        >>> sgd.lr = 0.5; sgd.param_groups[0]["lr"], sgd.lr
        (0.5, 0.5)
        """
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            group["lr"] = value

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients; with `set_to_none=False` they are zeros.

        >>> from rulegrad import optim
        >>> w = Tensor([1.0], requires_grad=True)
        >>> sgd = optim.SGD([w], lr=0.25)
        >>> _ = (w * w).sum().backward(); sgd.zero_grad(); w.grad is None
        True
        """
        for parameter in self.parameters:
            grad = None if set_to_none else parameter.grad
            parameter.grad = None if grad is None else grad.zeros_like()

    @no_grad()
    def step(self, *others: Any, closure: Any = None) -> Any:
        """Move the parameters that have gradients, and compute what `backward` was called on along with them.

        others: further tensors that are worth computing in the same call, such as an accuracy. Running statistics and
        norms of gradients are computed too. Where no parameter has a gradient, nothing is moved. A function in the
        place of the first one, or as `closure`, is called before, with gradients enabled, and its result returned.

        >>> from rulegrad import optim
        >>> w = Tensor([1.0], requires_grad=True)
        >>> sgd = optim.SGD([w], lr=0.25)
        >>> loss = (w * w).sum().backward(); sgd.step()
        >>> w.item()
        0.5
        """
        others = others if closure is None else (closure, *others)
        if not others or isinstance(others[0], Tensor) or not callable(others[0]):
            self._make_step([one for one in others if one is not None], None)
            return None
        with enable_grad():
            loss = others[0]()
        self._make_step([one for one in (loss, *others[1:]) if isinstance(one, Tensor)], None)
        return loss

    def __repr__(self) -> str:
        options = [{name: group[name] for name in sorted(group) if name != "params"} for group in self.param_groups]
        groups = "".join(
            f"Parameter Group {number}\n" + "".join(f"    {name}: {value}\n" for name, value in group.items())
            for number, group in enumerate(options)
        )
        return f"{type(self).__name__} (\n{groups})"

    @no_grad()
    def step_unless(self, left_out: Tensor, *others: Tensor) -> None:
        """`step`, but where `left_out` (one bool) is true all stays as it was. The host does not wait for it.

        >>> from rulegrad import optim
        >>> w = Tensor([1.0], requires_grad=True)
        >>> sgd = optim.SGD([w], lr=0.25, momentum=0.5)
        >>> loss = (w * w).sum().backward(); sgd.step_unless(Tensor(True))
        >>> w.item(), sgd.state[0]["momentum_buffer"].item()
        (1.0, 0.0)
        """
        self._before = {}
        try:
            self._make_step(others, left_out)
        finally:
            self._before = None

    def _make_step(self, others: Sequence[Tensor], left_out: Tensor | None) -> None:
        options = self._options
        noticed(self, "_options", options)
        calls = self._calls()
        used = [] if is_tracing() else [call.graph for call in calls if call.graph is not None and not call.retains]
        parts = updates.parts_of_losses(used, self.device)
        results = [*roots_of(calls), *parts, *others, *([] if left_out is None else [left_out])]
        changes: list[tuple[Tensor, Tensor]] = []
        number = 0
        for k, group in enumerate(self.param_groups):
            moved = {number + j: p for j, p in enumerate(group["params"]) if p.grad is not None}
            number += len(group["params"])
            if not moved:
                continue
            names, uploaded = tuple(self._numbers(group)), each_call(self._uploads(k))
            for cohort in self._moving(k, set(moved)):
                formulas = Formulas(self, group, f"{options[k]}", names, uploaded, cohort.shared)
                self._remember(*cohort.shared.values())
                formulas.begin_step()
                results += cohort.shared.values()
                changes += [(moved[j], formulas.moved(j, moved[j])) for j in sorted(cohort.members)]
            results += [tensor for j in moved for tensor in self.state.get(j, {}).values()]
        if left_out is not None:
            changes = [(p, left_out.where(p.detach(), value.cast(p.dtype))) for p, value in changes]
            for tensor, before in (self._before or {}).values():
                tensor.assign(left_out.where(before, tensor))
        parameters = [parameter for parameter, _ in changes]
        moved_points = {point.number for parameter in parameters for point in gradient_points(parameter._history)}
        while changes:  # whoever held the new values would hold the memory of the old state too
            parameter, value = changes.pop()
            parameter.assign(value.cast(parameter.dtype))
            del value
        # A gradient that was not asked for before needs no memory.
        used_up = [parameter.grad for parameter in parameters if parameter.grad is not None]
        realize_all([*parameters, *results, *updates.take(self.device)], used_up)
        if not is_tracing():
            forget_ways([*roots_of([call for call in calls if not call.retains]), *parts], moved_points)
            for call in calls:
                call.graph = None
        updates.compute_small(self.device)

    def _moving(self, k: int, moved: set[int]) -> list[_Cohort]:
        """The cohorts of group k when these parameters are moved: one, unless some lacked a gradient before."""
        found, new = [], set(moved)
        for cohort in list(self._cohorts[k]):
            here = cohort.members & moved
            if here and here != cohort.members:
                cohort.members -= here
                cohort = _Cohort(here, {name: t.clone() for name, t in cohort.shared.items()})
                self._cohorts[k].append(cohort)
            found += [cohort] if here else []
            new -= here
        if new:
            found.append(_Cohort(new, {}))
            self._cohorts[k].append(found[-1])
        return found

    def _calls(self) -> list[BackwardCall]:
        """The calls of `backward` that have made these gradients."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        return list({id(call): call for gradient in gradients for call in gradient._gradient_of}.values())

    # ---- numbers and state ----

    def _uploads(self, k: int) -> _Uploads:
        return _Uploads(weakref.ref(self), k)

    def _upload(self, k: int) -> Tensor:
        """The numbers of a group in one buffer, which is made anew only where one of them changed."""
        group, uploaded = self.param_groups[k], self._uploaded[k]
        if uploaded is not None and _is_same(group, uploaded.group):
            return uploaded.tensor
        self._check(group)
        values = tuple(self._numbers(group).values())
        if uploaded is None or uploaded.values != values:
            tensor = Tensor(np.array(values, self._dtype(group)), device=group["params"][0].device)
        else:
            tensor = uploaded.tensor
        self._uploaded[k] = _Uploaded(_plain_values(group), values, tensor)
        return tensor

    @property
    def _options(self) -> list[Any]:
        """The options that decide how a step is computed, and not only with which numbers."""
        before = self._options_before
        now = self.param_groups
        if before is not None and len(now) == len(before[0]) and all(map(_is_same, now, before[0])):
            return before[1]
        found = []
        for group in self.param_groups:
            numbers = self._numbers(group)
            covered = {"params", "initial_lr", *(("betas",) if "beta1" in numbers else ())}
            options = {name: value for name, value in group.items() if name not in covered}
            found.append({name: bool(value) if name in numbers else value for name, value in options.items()})
        self._options_before = [_plain_values(group) for group in self.param_groups], found
        return found

    @staticmethod
    def _dtype(group: dict[str, Any]) -> Any:
        return np.float64 if any(_state_dtype(p) is np.float64 for p in group["params"]) else np.float32

    def _kept(self, number: int, name: str, parameter: Tensor, value: float = 0.0) -> Tensor:
        """A tensor of the state, in memory from the start; of float32 for small floats."""
        state = self.state.setdefault(number, {})
        if name not in state:

            def made() -> Tensor:
                buffer = filled_like(parameter, value, _state_dtype(parameter))
                return Tensor._new(buffer.uop, buffer, buffer.device)

            state[name] = self._initial(made)
        self._remember(state[name])
        return state[name]

    @contextmanager
    def _with_state(self, number: int, state: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """Inside, this is the state of a parameter, and nothing is remembered."""
        kept, before = self.state.get(number), self._before
        self.state[number], self._before = state, None
        try:
            yield state
        finally:
            self._before = before
            if kept is None:
                del self.state[number]
            else:  # at its place: the order of the state is that of the parameters
                self.state[number] = kept

    def _remember(self, *tensors: Tensor) -> None:
        """Keep the values of tensors of the state, as of before a step that may be left out."""
        if self._before is not None:
            for tensor in tensors:
                self._before.setdefault(id(tensor), (tensor, tensor.clone()))

    def _count(self, shared: dict[str, Tensor], group: dict[str, Any]) -> Tensor:
        """The number of this step, from 1."""
        steps = self._shared(shared, "step", 0.0, group)
        return steps.assign(steps + 1.0)

    def _shared(self, shared: dict[str, Tensor], name: str, value: float, group: dict[str, Any]) -> Tensor:
        """A number of the state that parameters have in common, with the value that it has before the first step."""
        if name not in shared:
            values, device = np.array(value, self._dtype(group)), group["params"][0].device
            shared[name] = self._initial(lambda: Tensor(values, device=device))
            self._remember(shared[name])
        return shared[name]

    def _initial(self, make: Callable[[], Tensor]) -> Tensor:
        """A tensor of the state, with its value before the first step."""
        return make() if self._on_placeholders else initial_state(make)

    @classmethod
    def _is_ours(cls) -> bool:
        """Whether the formulas are the package's: a user's may do more than compute."""
        return cls.__module__.startswith(f"{__package__}.")

    def state_dict(self) -> dict[str, Any]:
        """The state by parameter number, and the options of the groups, in PyTorch's form.

        >>> from rulegrad import optim
        >>> w = Tensor([1.0], requires_grad=True)
        >>> sgd = optim.SGD([w], lr=0.25, momentum=0.5)
        >>> _ = (w * w).sum().backward(); sgd.step()
        >>> state = sgd.state_dict(); state["param_groups"][0]["lr"], state["state"][0]["momentum_buffer"].tolist()
        (0.25, [2.0])
        """
        groups, state, number = [], {}, 0
        for group, cohorts in zip(self.param_groups, self._cohorts):
            numbers = list(range(number, number + len(group["params"])))
            number += len(numbers)
            groups.append({**group, "params": numbers})
            names = [name for name in self._shared_state if any(name in cohort.shared for cohort in cohorts)]
            steps = {j: {n: c.shared[n] for n in names if n in c.shared} for c in cohorts for j in c.members}
            for j, parameter in zip(numbers, group["params"]):
                if j in self.state:
                    kept = self.state[j].items()
                    own = type(self).step is Optimizer.step and parameter.dtype.is_complex
                    parts = {name: joined(t) if own else t for name, t in kept}
                    state[j] = {**steps.get(j, {}), **parts}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state and the options of another optimizer of this kind, ours or PyTorch's.

        Raises ConfigError for other groups, and ShapeError for state of other shapes; nothing is changed then.

        >>> from rulegrad import optim
        >>> w = Tensor([1.0], requires_grad=True)
        >>> sgd = optim.SGD([w], lr=0.25)
        >>> other = optim.SGD([w], lr=0.5); other.load_state_dict(sgd.state_dict()); other.lr
        0.25
        """
        sizes = [len(group["params"]) for group in state_dict["param_groups"]]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise ConfigError(f"load_state_dict: groups of {sizes} parameters for an optimizer with groups of {own}")
        places = [place for group in state_dict["param_groups"] for place in group["params"]]
        found = {
            number: self._restored(number, parameter, state_dict["state"][place])
            for number, (parameter, place) in enumerate(zip(self.parameters, places))
            if place in state_dict["state"]
        }
        self.state.clear()
        self.state.update({number: state for number, (_, state) in found.items() if state})
        first = 0
        for k, (group, other) in enumerate(zip(self.param_groups, state_dict["param_groups"])):
            known = {*group, "initial_lr"} - {"params"}
            group.update({name: value for name, value in other.items() if name in known})
            numbers = range(first, first + len(group["params"]))
            self._cohorts[k] = self._resumed({j: found[j][0] for j in numbers if j in found}, group)
            first += len(numbers)

    def _restored(
        self, number: int, parameter: Tensor, values: Mapping[str, Any]
    ) -> tuple[dict[str, float], dict[str, Tensor]]:
        """Numbers that a parameter shares with others, such as the steps that it has made, and its state's tensors."""
        found: dict[str, Any] = {}
        if type(self).step is not Optimizer.step:  # its state is what its own step makes of it
            return {}, {name: Tensor(v) if isinstance(v, Tensor) else v for name, v in values.items()}
        for name, value in values.items():
            if value is None or name in self._shared_state:
                continue
            array = np.asarray(value)
            if array.shape != (wanted := self._state_shape(name, parameter)):
                raise ShapeError(f"load_state_dict: {name} of parameter {number} is {array.shape}, and it {wanted}")
            if parameter.dtype.is_complex:
                array = np.stack([array.real, array.imag], -1)
            buffer = upload_like(parameter, array.astype(_state_dtype(parameter)))
            found[name] = Tensor._new(buffer.uop, buffer, buffer.device)
        # PyTorch's SGD counts no steps, and one that has a momentum has made some.
        shared = {name: float(values[name]) for name in self._shared_state if name in values}
        return {"step": 1.0 if found else 0.0, **shared}, found

    def _state_shape(self, name: str, parameter: Tensor) -> tuple[int, ...]:
        """The shape of a tensor of the state."""
        return parameter.shape

    def _resumed(self, shared: Mapping[int, dict[str, float]], group: dict[str, Any]) -> list[_Cohort]:
        """Those who have made equally many steps count on together."""
        cohorts: dict[tuple[Any, ...], _Cohort] = {}
        for number, made in shared.items():
            key = tuple(made.items())
            if made.get("step") and key not in cohorts:
                arrays = {name: np.array(value, self._dtype(group)) for name, value in made.items()}
                device = group["params"][0].device
                cohorts[key] = _Cohort(set(), {name: Tensor(array, device=device) for name, array in arrays.items()})
            if made.get("step"):
                cohorts[key].members.add(number)
        return list(cohorts.values())

    # ---- what a subclass says ----

    def _check(self, group: dict[str, Any]) -> None:
        is_others = not self._is_ours()  # which may find a number themselves
        for name in (
            "lr",
            "momentum",
            "dampening",
            "weight_decay",
            "eps",
            "lr_decay",
            "alpha",
            "rho",
            "momentum_decay",
        ):
            value = group.get(name, 0.0)
            if not (value is None and is_others) and not value >= 0.0:
                raise ConfigError(f"optimizer: {name}={value}; use a number of 0 or more")
        if group.get("differentiable") and not is_others:
            raise ConfigError(
                "optimizer: differentiable=True, but a step changes parameters in place, which has no gradient; "
                "compute the new values by a function of the parameters, with rulegrad.grad and func.functional_call"
            )
        betas = group.get("betas", ())
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ConfigError(f"optimizer: betas={betas}; use numbers from 0 up to, not including, 1")

    def _numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {"lr": group["lr"], "weight_decay": group["weight_decay"]}

    def _begin_step(self, shared: dict[str, Tensor], numbers: Numbers, group: dict[str, Any]) -> None:
        """Advance what all parameters of a group share."""

    def _change(self, number: int, value: Tensor, gradient: Tensor, group: dict[str, Any], numbers: Numbers) -> Tensor:
        """The new value of a parameter; the state is in `_kept`."""
        raise NotImplementedError


def _state_dtype(parameter: Tensor) -> Any:
    return np.float64 if parameter.dtype in ("float64", "complex128") else np.float32


class _Uploaded(NamedTuple):
    """The numbers of a group in a buffer."""

    group: tuple[Any, ...]  # its options then, as `_plain_values` has them
    values: tuple[float, ...]
    tensor: Tensor


def _plain_values(group: dict[str, Any]) -> tuple[Any, ...]:
    """The values of a group, by which `_is_same` can tell whether one is another now; () where it cannot."""
    options = (value for name, value in group.items() if name != "params")
    parts = [part for value in options for part in (value if type(value) is tuple else (value,))]
    return tuple(group.values()) if all(type(part) in (float, int, bool, str, type(None)) for part in parts) else ()


def _is_same(group: dict[str, Any], values: tuple[Any, ...]) -> bool:
    return len(group) == len(values) and all(map(operator.is_, group.values(), values))
