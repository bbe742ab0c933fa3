"""A captured computation: plans, the sources of their inputs, the targets of their results, and guards on the call."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulegrad._core import CapturedCall, placements
from rulegrad.capture.gradients import Product, make_product, no_gradient, pullback, track
from rulegrad.capture.native import native_of
from rulegrad.capture.paths import Paths
from rulegrad.capture.sources import Kind, Output, Recipe, Source, kind_of
from rulegrad.compile import kernels
from rulegrad.compile.plans import Plan, in_engine
from rulegrad.compile.realize import is_free, plan_of
from rulegrad.compile.schedule import Schedule
from rulegrad.compile.sharding import is_on_mesh
from rulegrad.config import config
from rulegrad.errors import CaptureError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime import source_lines
from rulegrad.runtime.buffer import Buffer, Parts
from rulegrad.tensor import nan_checks
from rulegrad.tensor.aliasing import View, renew, settled
from rulegrad.tensor.core import TensorCore, _leaf_of_buffer, pending_leaves
from rulegrad.tensor.history import GradientPoint, Pullback
from rulegrad.tensor.realize import needs_buffer, realize_all
from rulegrad.tensor.storage import upload
from rulegrad.tensor.tensor import Tensor
from rulegrad.tensor.trees import Rebuild, flatten

if TYPE_CHECKING:
    from rulegrad.compile.varying import SizedPlan


class Part(NamedTuple):
    """The computation of the outputs that are on one device."""

    plan: Plan
    sources: tuple[Source, ...]
    graphs: tuple[UOp, ...]
    outputs: tuple[int, ...]
    own: dict[int, int | None]  # inputs that are replaced, and the places of the graphs that replace them
    shared: tuple[int, ...]  # places of graphs whose results are inputs, or other results
    inputs: tuple[UOp, ...]  # the nodes that stand for the inputs in the graphs
    targets: tuple[int, ...]  # inputs that gradients go to
    prepared: tuple[tuple[int, ...], ...] | None = None  # of a file: the inputs that can be taken together
    sized: SizedPlan | None = None  # where the plan is one for all sizes


class Write(NamedTuple):
    """A tensor from outside, by its number, that stands for an output from now on; for a gradient None is none."""

    tensor: int
    output: int | None


class Guards(NamedTuple):
    """Conditions of a replay: these have to be as in the trace. Tensors are numbered, the arguments first."""

    generation: int
    paths: Paths
    flags: tuple[tuple[int, bool, bool, str], ...]  # whether a tensor requires a gradient, is a leaf; its device
    gradients: tuple[tuple[int, Kind | None], ...]  # of tensors: None for no gradient
    values: tuple[tuple[weakref.ref[Any], str, Any], ...]
    same: tuple[int, ...]  # arguments that have to be the same tensors


class Call(NamedTuple):
    """A function of `each_call`, and what its tensors are like."""

    make: Callable[[], Any]
    kinds: tuple[Kind, ...]


class Captured:
    """A function as it was traced for arguments of one structure."""

    def __init__(
        self,
        parts: Sequence[Part],
        outputs: Sequence[Output],
        recipes: Sequence[Recipe],
        rebuild: Rebuild,
        writes: Sequence[Write],
        gradients: Sequence[Write],
        calls: Sequence[Call],
        arguments: Sequence[Any],
        outside: Sequence[TensorCore],
        guards: Guards,
    ) -> None:
        self.parts, self.outputs, self.recipes, self.rebuild = parts, outputs, recipes, rebuild
        self.writes, self.gradients, self.calls, self.guards = writes, gradients, calls, guards
        self.outside = [weakref.ref(tensor) for tensor in outside]
        self.arguments = len(arguments)
        self.same = [(number, weakref.ref(arguments[number])) for number in guards.same]
        self.objects: Sequence[Any] = ()  # arguments that are told apart by identity, as far as possible weakly
        self._written = {write.tensor for write in writes}
        computed = {number for part in parts for number in part.outputs}
        self._empty = [number for number in range(len(outputs)) if number not in computed]  # without elements
        replaced = {write.output for write in writes}
        self.new = [number for number in range(len(outputs)) if number not in replaced]
        self._tracked = any(output.requires_grad and not output.is_leaf for output in outputs)
        self._products: dict[int, Product] = {}
        self._native: CapturedCall | None = None
        self._learned: set[tuple[int, ...]] | None = None  # inputs that are taken, in ways that the engine has met

    # ---- whether it can be replayed ----

    def obstacle(self, arguments: Sequence[TensorCore], roots: Sequence[Any]) -> str:
        """Why a replay would not be a call, as a sentence; "" where it would."""
        if self.guards.generation != kernels.generation:
            return "the rules or a setting that plans depend on changed"
        changed = self.guards.paths.change(roots)
        if changed:
            return changed
        tensors: list[Any] = [*arguments, *(reference() for reference in self.outside)]
        if any(tensor is None for tensor in tensors):
            return "a tensor that it reads is gone"
        changed = self._changed_tensor(tensors) or self._changed_value() or self._changed_argument(arguments, tensors)
        return changed or self._changed_placement(tensors)

    def _changed_tensor(self, tensors: list[Any]) -> str:
        for number, requires_grad, leaf, device in self.guards.flags:
            tensor = tensors[number]
            if tensor._requires_grad is not requires_grad or tensor._leaf is not leaf:
                return f"a tensor of shape {tensor.shape} has requires_grad={tensor._requires_grad} now"
            if tensor._device != device and tensor.device != device:
                return f"a tensor of shape {tensor.shape} is on {tensor.device} now"
        for number, kind in self.guards.gradients:
            gradient = tensors[number].grad
            if (None if gradient is None else kind_of(gradient)) != kind:
                return f"a tensor of shape {tensors[number].shape} has {'no' if gradient is None else 'a'} gradient now"
        return ""

    def _changed_placement(self, tensors: list[Any]) -> str:
        """The plan is of the parts that each device has of what it reads."""
        for part in self.parts:
            reads = [
                (_tensor_of(source, tensors, ()), node)
                for source, node in zip(part.sources, part.inputs, strict=True)
                if source.kind in ("tensor", "gradient")
            ]
            for tensor, _ in reads:
                if tensor._view is not None:
                    renew(tensor)
                if needs_buffer(tensor) and is_on_mesh([tensor._uop]):
                    realize_all([tensor])
            if placements([tensor._uop for tensor, _ in reads]) != placements([node for _, node in reads]):
                return "a tensor that it reads lies on the devices of a mesh in another way now"
        return ""

    def _changed_value(self) -> str:
        for owner, name, value in self.guards.values:
            now = getattr(owner(), name, None)
            if now != value:
                return f"{type(owner()).__name__}.{name.lstrip('_')} is {now!r} now, and was {value!r}"
        return ""

    def _changed_argument(self, arguments: Sequence[TensorCore], tensors: list[Any]) -> str:
        for number, reference in self.same:
            if reference() is not arguments[number]:
                return "an argument that the function could find without being given it is another tensor now"
        if self._written:
            written = {id(tensors[number]) for number in self._written}
            for argument in arguments:
                base: Any = argument
                while base._view is not None and base._view.base is not None:
                    base = base._view.base
                    if id(base) in written:
                        return "an argument is a view of a tensor that the function changes"
        return ""

    # ---- replay ----

    def replay_natively(self, arguments: list[Any], roots: tuple[Any, ...]) -> Any:
        """The result, where the engine can tell that a replay is the call; NotImplemented where Python has to look."""
        native = self._native
        if native is None or not native.holds(arguments, roots):
            return NotImplemented
        called = [_call(call) for call in self.calls] if self.calls else []
        found = native.replay(arguments, called)
        return self.replay(arguments, called) if found is NotImplemented else found

    def _teach(self, part: Part, taken: tuple[int, ...], pairs: tuple[tuple[int, int], ...]) -> None:
        """Let the engine do what was done now."""
        if self._learned is None:
            self._learned, self._native = set(), native_of(self)
        if self._native is not None and taken not in self._learned:
            self._learned.add(taken)
            prepared = in_engine(part.plan, part.plan.prepared(taken, pairs), taken, part.graphs)
            if prepared is not None:
                self._native.learn(prepared)

    def replay(self, arguments: Sequence[TensorCore], called: Sequence[list[Any]] | None = None) -> Any:
        """The result for these arguments, with all that the function does to tensors.

        called: what its `each_call`s made, where they were called already.
        """
        tensors: list[Any] = [*arguments, *(reference() for reference in self.outside)]
        if called is None:
            called = [_call(call) for call in self.calls]
        made: list[Any] = [None] * len(self.outputs)
        pullbacks: dict[int, Pullback] = {}
        for part in self.parts:
            if part.sized is not None:
                part.sized.used()
                if part.sized.is_repeated():
                    self.of_own_sizes()
                    break
        for part in self.parts:
            self._run(part, tensors, called, made, pullbacks)
        for number in self._empty:
            output = self.outputs[number]
            made[number] = upload(np.empty(output.shape, as_dtype(output.dtype).numpy), output.device)
        for write in self.writes:
            assert write.output is not None
            self.write(tensors[write.tensor], made[write.output])
            if write.output in pullbacks:
                track(tensors[write.tensor], made[write.output], pullbacks[write.output])
        new: list[Any] = [None] * len(made)
        for number in self.new:
            new[number] = _result(made[number], self.outputs[number], pullbacks.get(number))
        for write in self.gradients:
            tensors[write.tensor].grad = None if write.output is None else new[write.output]
        return self.rebuild([_cooked(recipe, new, tensors) for recipe in self.recipes])[0]

    @staticmethod
    def write(tensor: Any, buffer: Buffer) -> None:
        """Let a tensor from outside stand for the contents of a buffer, which no other tensor has."""
        tensor._changes += 1
        tensor._gradient_of = ()
        tensor._device = buffer.device
        if tensor._leaf:
            if tensor._uop.op == "BUFFER":
                _leaf_of_buffer.pop(tensor._uop.attrs["id"], None)
            pending_leaves.pop(id(tensor), None)
            tensor._own(buffer)
            settled(tensor)
        else:
            tensor._uop, tensor._history, tensor._requires_grad = buffer.uop, buffer, False

    def _run(
        self,
        part: Part,
        tensors: list[Any],
        called: Sequence[list[Any]],
        made: list[Any],
        pullbacks: dict[int, Pullback],
    ) -> None:
        buffers = [_bound(source, tensors, called) for source in part.sources]
        if self._tracked:
            pullbacks.update(self._pullbacks(part, tensors, buffers))
        # Where results are looked at, what they are computed from may be needed once more.
        launch = self._launch_in_place if part.own and not config.detect_nan else self._launch
        found = launch(part, tensors, buffers)
        for place in part.shared:
            found[place] = _root(found[place]).alias()
        for number, buffer in zip(part.outputs, found, strict=True):
            made[number] = buffer

    def of_own_sizes(self) -> None:
        """From now on all plans are of these sizes alone: they are used often, or kept in a file."""
        self.parts = [part if part.sized is None else of_own_sizes(part) for part in self.parts]

    def _launch(self, part: Part, tensors: list[Any], buffers: list[Buffer]) -> list[Buffer]:
        found = part.plan.launch(buffers, part.graphs)
        if config.detect_nan:
            names = {node: buffer.uop for node, buffer in zip(part.inputs, buffers, strict=True)}
            nan_checks.check([source_lines.with_others(graph, names) for graph in part.graphs], found)
        if part.sized is None:
            self._teach(part, (), ())
        return found

    def _launch_in_place(self, part: Part, tensors: list[Any], buffers: list[Buffer]) -> list[Buffer]:
        """The results, where the memory of what is replaced is used if nobody else holds it."""
        let_go = []
        for place in part.own:
            kind, which = part.sources[place]
            tensor = tensors[which].grad if kind == "gradient" else tensors[which]
            # A gradient is another tensor afterwards: this one may be somebody's.
            if (kind == "tensor" and (tensor._leaf or not tensor._requires_grad)) or sys.getrefcount(tensor) == 3:
                tensor._history = None
                let_go.append((tensor, place))
        taken = _taken(part, buffers)
        try:
            found = part.plan.launch(buffers, part.graphs, *taken)
        except BaseException:
            for tensor, place in let_go:
                _take_back(tensor, buffers[place])
            raise
        self._teach(part, *taken)
        return found

    def _pullbacks(self, part: Part, tensors: list[Any], buffers: list[Buffer]) -> Iterator[tuple[int, Pullback]]:
        """The ways of gradients from this part's outputs back to what it reads."""
        wanted = [
            (place, number)
            for place, number in enumerate(part.outputs)
            if self.outputs[number].requires_grad and not self.outputs[number].is_leaf
        ]
        if not wanted:
            return
        targets = [part.sources[place].which for place in part.targets]
        needed = list(buffers)  # references of their own: nobody may take the memory
        operands: dict[int, Any] | None = None
        for place, number in wanted:
            if self.ends_gradients(part, number):
                yield number, no_gradient
                continue
            if operands is None:
                operands = {k: _same(tensors[which]) for k, which in zip(part.targets, targets, strict=True)}
            yield number, pullback(partial(self._product, part, place, number), needed, operands)

    def ends_gradients(self, part: Part, number: int) -> bool:
        """Whether no gradient goes back from an output: `backward` was called on it, or what it reads is changed."""
        return self.outputs[number].is_root or not self._written.isdisjoint(
            part.sources[place].which for place in part.targets
        )

    def _product(self, part: Part, place: int, number: int) -> Product:
        if number not in self._products:
            schedule = part.plan.schedule
            result = schedule.outputs[place]
            is_input = result < schedule.inputs
            parts = Parts.of(part.inputs[result]) if is_input else dict(schedule.parts).get(result)
            self._products[number] = make_product(part.graphs[place], parts, part.inputs, part.targets)
        return self._products[number]


def of_own_sizes(part: Part) -> Part:
    """The same with a plan of its sizes alone."""
    number_of = {node.attrs["id"]: place for place, node in enumerate(part.inputs)}
    plan, ids = plan_of(part.graphs, part.plan.device)
    places = [number_of[number] for number in ids]
    return part._replace(
        plan=plan,
        sources=tuple([part.sources[place] for place in places]),
        inputs=tuple([part.inputs[place] for place in places]),
        targets=tuple([at for at, place in enumerate(places) if place in part.targets]),
        shared=shared(plan.schedule),
        sized=None,
    )


def shared(schedule: Schedule) -> tuple[int, ...]:
    """The outputs of a schedule that are inputs, or other outputs."""
    seen = set(range(schedule.inputs))
    found = []
    for place, number in enumerate(schedule.outputs):
        if number in seen:
            found.append(place)
        seen.add(number)
    return tuple(found)


def _root(buffer: Buffer) -> Buffer:
    """The buffer that has the memory: an alias of an alias, call after call, would be a chain without an end."""
    while buffer._owner is not None:
        buffer = buffer._owner
    return buffer


def _taken(part: Part, buffers: list[Buffer]) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """The inputs whose memory is used, and the results that are put into that of the input that they replace."""
    taken = tuple([place for place in part.plan.takeable if place in part.own and is_free(buffers, place)])
    if part.prepared is not None and taken not in part.prepared:
        taken = max((known for known in part.prepared if set(known) <= set(taken)), key=len)
    return taken, pairs_of(part, taken)


def pairs_of(part: Part, taken: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The results that are put into the memory of the inputs that they replace, where these are taken."""
    schedule = part.plan.schedule
    pairs = [(schedule.outputs[new], place) for place in taken if (new := part.own[place]) is not None]
    return tuple([pair for pair in pairs if pair[0] >= schedule.inputs])


def _same(tensor: Any) -> Any:
    """The tensor as it is now, to where gradients go on."""
    same = tensor._new(tensor._uop, tensor._history, tensor._device)
    same._requires_grad = True
    return same


def _call(call: Call) -> list[Any]:
    tensors = flatten(call.make())[0]
    kinds = tuple(map(kind_of, tensors))
    if kinds != call.kinds:
        raise CaptureError(f"each_call: the tensors are {kinds}, and were {call.kinds} in the trace; make them alike")
    waiting = [tensor for tensor in tensors if needs_buffer(tensor)]
    if waiting:
        realize_all(waiting)
    return tensors


def _tensor_of(source: Source, tensors: list[Any], called: Sequence[list[Any]]) -> Any:
    """The tensor that an input stands for, where that is not a constant."""
    kind, which = source
    if kind == "tensor":
        return tensors[which]
    return tensors[which].grad if kind == "gradient" else called[which[0]][which[1]]


def _bound(source: Source, tensors: list[Any], called: Sequence[list[Any]]) -> Buffer:
    """The buffer of an input, which is computed now if it waits."""
    if source.kind == "constant":
        constant: Buffer = source.which
        return constant
    tensor = _tensor_of(source, tensors, called)
    if tensor._view is None:
        history = tensor._history
        buffer: Any = history.buffer if type(history) is GradientPoint else history
        if type(buffer) is Buffer and buffer._uop is tensor._uop:
            return buffer
    else:
        renew(tensor)
    if needs_buffer(tensor):
        realize_all([tensor])
    return Buffer.of(tensor._uop)


def _take_back(tensor: Any, buffer: Buffer) -> None:
    """Nothing was computed: the tensor has its values still, where the memory is there."""
    if buffer.is_allocated or not buffer.nbytes:
        if tensor._leaf:
            tensor._own(buffer)
        else:
            tensor._history = buffer


def _result(buffer: Buffer, output: Output, way: Pullback | None) -> Any:
    """The tensor of an output."""
    new = Tensor._new(buffer.uop, buffer, buffer.device)
    if output.is_leaf:
        new.requires_grad = True
    elif way is not None:
        track(new, buffer, way)
    return new


def _cooked(recipe: Recipe, new: list[Any], tensors: list[Any]) -> Any:
    """A tensor of the result."""
    tensor = new[recipe.which] if recipe.kind == "made" else tensors[recipe.which]
    if recipe.steps is None:
        return tensor
    link = View(tensor, recipe.steps, recipe.detached, recipe.obstacle)
    uop = link.graph(link.root)
    detached = recipe.detached and tensor._requires_grad
    view = tensor._new(UOp("DETACH", (uop,)) if detached else uop, None, tensor._device)
    view._view, view._requires_grad = link, tensor._requires_grad and not recipe.detached
    return view
