"""From a trace to what is kept of it, or to the reason that nothing can be."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rulegrad.capture.captured import Call, Captured, Guards, Part, Write, shared
from rulegrad.capture.paths import Paths, Walk
from rulegrad.capture.sources import Output, Recipe, Source, kind_of
from rulegrad.capture.tracing import Trace
from rulegrad.compile import kernels
from rulegrad.compile.realize import Found, find_plan, find_sized_plan
from rulegrad.compile.sharding import asks_for_own_number
from rulegrad.errors import CaptureError
from rulegrad.ir import UOp
from rulegrad.runtime.buffer import Buffer
from rulegrad.tensor.aliasing import leave, release, renew
from rulegrad.tensor.core import TensorCore
from rulegrad.tensor.history import without_points
from rulegrad.tensor.realize import realize_all
from rulegrad.tensor.trees import flatten

if TYPE_CHECKING:
    from rulegrad.compile.varying import SizedPlan

FindPlan: TypeAlias = Callable[[Sequence[UOp], str], Found]


class Outcome:
    """The effects of a traced call on tensors, and its result: the only part of the list `box`."""

    def __init__(self, trace: Trace, box: list[Any], arguments: Sequence[TensorCore]) -> None:
        self.trace, self.arguments = trace, arguments
        self.outside: list[TensorCore] = []
        self.made: list[TensorCore] = []  # what has to be computed
        self._numbers = {id(tensor): number for number, tensor in enumerate(arguments)}
        self._places: dict[int, int] = {}
        self._leaves, self.rebuild = flatten(box)
        for tensor in trace.known.values():
            if id(tensor) not in trace.owner_of and tensor._view is None:
                self.number(tensor)
        self.recipes = [self._recipe(leaf) for leaf in self._leaves]
        self.writes = [Write(self.number(t), self._output(t)) for t in trace.written.values()]
        self.problem = ""
        self.gradients = self._gradients()
        self.outputs = [
            Output(t.shape, str(t.dtype), t.device, t._requires_grad, t._leaf, _is_root(t)) for t in self.made
        ]  # fmt: skip
        self._graphs = [tensor._uop for tensor in self.made]
        self._forget_ways()
        if any(tensor._leaf is not trace.before[number].leaf for number, tensor in trace.written.items()):
            self.problem = (
                "it sets requires_grad of a tensor from outside (x = x.detach().requires_grad_() makes one inside)"
            )

    def number(self, tensor: TensorCore) -> int:
        """The number of a tensor from outside."""
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self.arguments) + len(self.outside)
            self.outside.append(tensor)
        return self._numbers[id(tensor)]

    def _output(self, tensor: TensorCore) -> int:
        if id(tensor) not in self._places:
            self._places[id(tensor)] = len(self.made)
            self.made.append(tensor)
        return self._places[id(tensor)]

    def _recipe(self, tensor: TensorCore) -> Recipe:
        if not self.trace.is_inside(tensor):
            return Recipe("given", self.number(tensor))
        renew(tensor)
        link = tensor._view
        if link is not None and link.written is not None:
            tensor._view = link = None
        if link is not None and link.is_alone():
            release(tensor)
            link = tensor._view
        if link is None or link.base is None or tensor._leaf:
            return Recipe("made", self._output(tensor))
        base: Any = link.base
        steps, detached = link.path(), link.detached
        obstacle = link.obstacle
        while base._view is not None and base._view.base is not None and not base._leaf:
            link = base._view
            base, steps, detached = link.base, link.path() + steps, detached or link.detached
        if self.trace.is_inside(base):
            return Recipe("made", self._output(base), steps, detached, obstacle)
        return Recipe("given", self.number(base), steps, detached, obstacle)

    def _gradients(self) -> list[Write]:
        found = []
        for owner in self.trace.grads_written.values():
            gradient = owner.grad
            if gradient is None:
                found.append(Write(self.number(owner), None))
            elif self.trace.is_inside(gradient):
                if gradient._view is not None:
                    leave(gradient)
                found.append(Write(self.number(owner), self._output(gradient)))
            else:
                self.problem = "it sets a gradient to a tensor from outside"
        return found

    def _forget_ways(self) -> None:
        """Let go of what users' functions kept for gradients that nobody can ask for after this call."""
        written = {write.tensor for write in self.writes}
        tracked = [self.trace.named[number].which for number in self.trace.tracked if number in self.trace.named]
        numbers = {which if isinstance(which, int) else self._numbers.get(id(which)) for which in tracked}
        are_changed = not written.isdisjoint(numbers)
        for tensor, output in zip(self.made, self.outputs, strict=True):
            is_end = output.is_root or output.is_leaf or not output.requires_grad or are_changed
            if is_end and tensor._view is None and tensor._uop.op != "BUFFER":  # that of a leaf is its own point
                tensor._history = without_points(tensor._past())

    def survivors(self) -> int:
        """How many tensors that were made inside somebody else holds now."""
        found = self._held_elsewhere()
        if found:  # perhaps only a cycle does
            gc.collect()
            found = self._held_elsewhere()
        return found

    def _held_elsewhere(self) -> int:
        held = Counter(id(leaf) for leaf in self._leaves)  # each is in the tree, too
        holds = Counter({number: 2 * count for number, count in held.items()})
        holds.update(id(tensor) for tensor in self.made)
        holds.update(id(owner.grad) for owner in self.trace.grads_written.values())
        own = {id(leaf): leaf for leaf in self._leaves}
        holds.update(id(leaf._view.base) for leaf in own.values() if leaf._view is not None)
        alive = self._alive()
        count = 0
        del own
        for tensor in alive:
            # The list, the loop and the argument have it, too.
            count += sys.getrefcount(tensor) > holds[id(tensor)] + 3
        return count

    def _alive(self) -> list[Any]:
        """The tensors that were made inside, as far as somebody has them."""
        return [tensor for tensor in (reference() for reference in self.trace.inside.values()) if tensor is not None]

    def compute(self) -> None:
        """Compute all that waits, as nothing is kept."""
        alive = self._alive()
        realize_all([*self.made, *alive])

    def parts(self) -> dict[str, tuple[tuple[int, ...], list[UOp]]]:
        """For each device the outputs on it that have elements, and their graphs."""
        found: dict[str, tuple[tuple[int, ...], list[UOp]]] = {}
        for device in dict.fromkeys(output.device for output in self.outputs):
            on_it = [k for k, output in enumerate(self.outputs) if output.device == device and 0 not in output.shape]
            if on_it:
                found[device] = tuple(on_it), [self._graphs[k] for k in on_it]
        return found

    def captured(self, walk: Walk, same: Sequence[int], find: FindPlan | None = None) -> Captured:
        """The capture to keep; walk: over what the function could reach before the call."""
        return Captured(
            [self._computation(*its, device, find) for device, its in self.parts().items()],
            self.outputs,
            self.recipes,
            self.rebuild,
            self.writes,
            self.gradients,
            [
                Call(make, tuple(map(kind_of, called)))
                for make, called in zip(self.trace.calls, self.trace.called, strict=True)
            ],
            self.arguments,
            self.outside,
            self._guards(walk, same),
        )

    def _computation(self, numbers: tuple[int, ...], graphs: list[UOp], device: str, find: FindPlan | None) -> Part:
        """Of a plan for all sizes only where no result takes the memory of an input: it has no room for that."""
        sized = None if find or self.writes or self.gradients else find_sized_plan(graphs, device)
        if sized is not None:
            return self._part(numbers, graphs, *sized)
        return self._part(numbers, graphs, (find or find_plan)(graphs, device))

    def _part(
        self, numbers: tuple[int, ...], graphs: Sequence[UOp], found: Found, sized: SizedPlan | None = None
    ) -> Part:
        plan, buffers = found
        own_buffers = {id(one) for one in sized.inputs} if sized else set()
        sources = tuple(
            Source("constant", buffer) if id(buffer) in own_buffers else self.source(buffer.id) for buffer in buffers
        )
        # The outputs that inputs may give their memory to: arguments are somebody else's.
        heirs = {("tensor", write.tensor): write.output for write in self.writes if write.tensor >= len(self.arguments)}
        heirs.update({("gradient", write.tensor): write.output for write in self.gradients})
        places: dict[int | None, int] = {output: place for place, output in enumerate(numbers)}
        own = {place: places.get(heirs[source]) for place, source in enumerate(sources) if source in heirs}
        ends = shared(plan.schedule)
        nodes = [buffer.uop for buffer in buffers]
        targets = tuple(
            place for place, buffer in enumerate(buffers) if self._original(buffer.id) in self.trace.tracked
        )
        return Part(plan, sources, tuple(graphs), numbers, own, ends, tuple(nodes), targets, sized=sized)

    def _original(self, number: int) -> int:
        """The number of the buffer that another one is an alias of, as far as the trace knows it."""
        while number not in self.trace.named and (owner := Buffer.numbered(number)._owner) is not None:
            number = owner.id
        return number

    def source(self, number: int) -> Source:
        """The source whose values the buffer of a number has. Raises CaptureError where nothing holds it any more."""
        number = self._original(number)  # of a leaf that is a view: the same values under another number
        named = self.trace.named.get(number)
        if named is None:
            if number not in self.trace.constants and asks_for_own_number(number) is None:
                raise CaptureError(
                    "jit: the function uses a graph that was built outside on values that no tensor holds any more; "
                    "keep the tensors that it was built on, or build it inside"
                )
            return Source("constant", Buffer.numbered(number))
        kind, which = named
        if kind == "call":
            return named
        number = which if isinstance(which, int) else self.number(which)
        return Source("gradient" if kind == "gradient" else "tensor", number)

    def _guards(self, walk: Walk, same: Sequence[int]) -> Guards:
        trace, before = self.trace, self.trace.before
        flags = tuple(
            (number, before[id(t)].requires_grad, before[id(t)].leaf, t.device)
            for number, t in enumerate(self.outside, len(self.arguments))
            if id(t) in before
        )
        return Guards(
            kernels.generation,
            Paths(walk, {id(tensor) for tensor in self.outside}),
            flags,
            tuple((self.number(trace.known[k]), kind) for k, kind in trace.gradient_kinds.items()),
            tuple((weakref.ref(owner), name, value) for owner, name, value in trace.values.values()),
            tuple(same),
        )


def _is_root(tensor: TensorCore) -> bool:
    return any(call.root is tensor for call in tensor._gradient_of)
