"""`jit`: a function that is traced at its first call, and replayed at later calls of the same structure."""

from __future__ import annotations

import functools
import inspect
import reprlib
import sys
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, overload

from rulegrad.capture import files
from rulegrad.capture.captured import Captured
from rulegrad.capture.outcome import Outcome
from rulegrad.capture.paths import Walk
from rulegrad.capture.tracing import Trace
from rulegrad.compile import kernels
from rulegrad.config import config
from rulegrad.engine import watching
from rulegrad.errors import CaptureError
from rulegrad.support import forks
from rulegrad.support.locations import shown, user_location
from rulegrad.tensor import capturing
from rulegrad.tensor.aliasing import release
from rulegrad.tensor.attention import chosen_attention
from rulegrad.tensor.autocasting import autocast_dtype
from rulegrad.tensor.core import pending_leaves
from rulegrad.tensor.gradient_mode import gradients_enabled
from rulegrad.tensor.history import is_transformed
from rulegrad.tensor.realize import needs_buffer, realize_all
from rulegrad.tensor.tensor import Tensor
from rulegrad.tensor.trees import difference, flatten, structure

if TYPE_CHECKING:
    from rulegrad.capture.variables import Declared

P = ParamSpec("P")
R = TypeVar("R")
Dynamic: TypeAlias = "Mapping[str, Declared] | bool"

_MANY: Final = 8  # traces, before a warning
_MOST_KEYS: Final = 64  # structures of arguments, of one function; those that were not used for longest go
_MOST_OF_KEY: Final = 8  # captures of one structure
_MOST_REASONS: Final = 100


class JitFunction(Generic[P, R]):
    """A captured function, as `jit` gives it: it is called like the function, and is a method where that is one."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._captured: OrderedDict[Hashable, list[Captured]] = OrderedDict()
        self._unambiguous: set[tuple[Hashable, int]] = set()  # arguments that are not found otherwise
        self._reasons: list[str] = []
        self._traces = 0
        self._lock = forks.lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if capturing.is_tracing() or watching.watchers:  # part of another, or looked at pass by pass
            return self._function(*args, **kwargs)
        tensors: list[Any] = []
        objects: list[Any] = []
        named = tuple(sorted(kwargs.items())) if kwargs else ()
        inputs = structure(args, tensors, objects), structure(named, tensors, objects) if named else ()
        key = (*inputs, *mode())
        roots = (self._function, *objects)
        with self._lock:
            for one in self._captured.get(key, ()):
                found: R = one.replay_natively(tensors, roots)
                if found is not NotImplemented:
                    self._captured.move_to_end(key)
                    return found
        if not are_in_buffers(tensors):
            return self._function(*args, **kwargs)
        with self._lock:
            known, why = self._captured.get(key), ""
            if known is not None:
                self._captured.move_to_end(key)
                for one in known:
                    why = one.obstacle(tensors, roots)
                    if not why:
                        result: R = one.replay(tensors)
                        return result
            why = why or self._novelty(key)
            traced: R = self._trace(args, kwargs, key, tensors, roots, why)
            return traced

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"jit({self._function!r})"

    def reasons(self) -> list[str]:
        """Why the function was traced, one sentence for each trace (the last 100).

        >>> double = rg.jit(lambda x: x * 2)
        >>> _ = double(Tensor([1.0])), double(Tensor([2.0])), double(Tensor([1.0, 2.0]))
        >>> len(double.reasons()), double.reasons()[0]
        (2, 'the first call')
        """
        return list(self._reasons)

    def save(self, path: str | Path) -> None:
        """Write what was captured to a file, with its kernels, for `load` in another process.

        State is named by its path from the closure and the globals of the function. The file is code, as a module is.
        Raises CaptureError for what cannot be saved (functions of the user's in `each_call`, modules as arguments), and
        where nothing was captured; FileError.

        >>> double = rg.jit(lambda x: x * 2)
        >>> _ = double(Tensor([1.0]))
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/double.captured"
        >>> double.save(path)
        >>> again = rg.jit(double.__wrapped__)
        >>> again.load(path)
        >>> again(Tensor([4.0])).item(), again.reasons()
        (8.0, [])
        """
        with self._lock:
            kept = [(key, one) for key, several in self._captured.items() for one in several]
            kept = [(key, one) for key, one in kept if one.guards.generation == kernels.generation]
            if not kept:
                raise CaptureError(f"save: {self._name} has no captures; call it first")
            files.save(path, self._name, kept, self._function)

    def load(self, path: str | Path) -> None:
        """Take the captures of a file: calls of their structures are not traced, and no kernel is compiled.

        The state has to be there, with the shapes, dtypes and devices that it had. Raises CaptureError, which names the
        difference, for a file of another version, other rules, another device, compiler or code; FileError.
        """
        with self._lock:
            for key, one in files.load(path, self._name, self._function):
                self._keep(key, one, ())

    @property
    def _name(self) -> str:
        return getattr(self._function, "__qualname__", repr(self._function))

    # ---- tracing ----

    def _novelty(self, key: tuple[Any, ...]) -> str:
        """Why a key was not met before, by the last one that was."""
        if not self._captured:
            return "the first call"
        if key in self._captured:
            return ""
        last: Any = next(reversed(self._captured))
        why = difference(last[0], key[0]) or difference(last[1], key[1])
        return why or "it is called in another mode (no_grad, Tensor.train, the settings device and check_indices)"

    def _trace(self, args: Any, kwargs: Any, key: Hashable, tensors: list[Any], roots: Sequence[Any], why: str) -> Any:
        self._tell(why)
        walk = Walk(roots)
        for _, tensor in walk.tensors:
            if tensor._view is not None and tensor._view.is_alone():
                release(tensor)  # a view of nobody else's is state of its own
        # Weights of a new model, in one computation: the trace would meet and compute them one by one.
        realize_all([tensor for _, tensor in walk.tensors if id(tensor) in pending_leaves])
        trace = Trace(tensors)
        with trace:
            box = [self._function(*args, **kwargs)]
        try:
            with trace.waiting():
                outcome = Outcome(trace, box, tensors)
                problem = outcome.problem or _rebound(walk, roots, trace) or _changed_arguments(args, kwargs, tensors)
                if not problem and (survivors := outcome.survivors()):
                    noun = "a tensor" if survivors == 1 else f"{survivors} tensors"
                    problem = f"{noun} that it made inside are held outside"
                same = self._ambiguous(key, walk, tensors, trace)
                adopted = list(trace.adopted.values())  # held to the end: the function may have dropped them
                if problem:
                    one = None
                elif adopted:  # computed as later calls are, by the same kernels
                    one, problem = outcome.captured(walk, same), "it made the state of an optimizer"
                else:
                    one = self._capture(outcome, walk, same, args, kwargs)
        except BaseException:
            trace.put_back(all_of_them=False)
            raise
        if problem:
            self._reasons[-1] += f"; not kept, for {problem}"
        if one is None:
            trace.put_back(all_of_them=False)
            outcome.compute()
            return box[0]
        called = trace.called
        trace.put_back(all_of_them=True)
        del outcome, box, trace, walk
        if not adopted:
            self._keep(key, one, roots[1:])
        return one.replay(tensors, called)

    def _ambiguous(self, key: Hashable, walk: Walk, tensors: Sequence[Any], trace: Trace) -> list[int]:
        """The arguments that the function could read in another way, too: it cannot be seen in which it did."""
        for one in self._captured.get(key, ()):
            for number, reference in one.same:
                old = reference()
                if old is not None and old is not tensors[number] and id(old) not in trace.known:
                    self._unambiguous.add((key, number))
        found = {id(tensor) for _, tensor in walk.tensors}
        return [k for k, t in enumerate(tensors) if id(t) in found and (key, k) not in self._unambiguous]

    def _capture(self, outcome: Outcome, walk: Walk, same: Sequence[int], args: Any, kwargs: Any) -> Any:
        """The capture to keep of a trace."""
        return outcome.captured(walk, same)

    def _keep(self, key: Hashable, one: Any, objects: Sequence[Any]) -> None:
        self._keep_in(self._captured, key, one, objects)

    @staticmethod
    def _keep_in(captures: OrderedDict[Hashable, list[Any]], key: Hashable, one: Any, objects: Sequence[Any]) -> None:
        kept = captures.setdefault(key, [])
        kept.append(one)
        del kept[:-_MOST_OF_KEY]
        while len(captures) > _MOST_KEYS:
            captures.popitem(last=False)
        owner = weakref.ref(captures)

        def forget(_: Any) -> None:
            captures = owner()
            if captures is not None:
                captures.pop(key, None)

        # Another object may have the address of one that is gone.
        one.objects = [weakref.ref(item, forget) if hasattr(item, "__weakref__") else item for item in objects]

    def _tell(self, why: str) -> None:
        self._traces += 1
        self._reasons.append(why)
        del self._reasons[:-_MOST_REASONS]
        if config.debug >= 1:
            place = shown(user_location())
            print(f"rulegrad: jit traces {self._name}{f', for {place}' if place else ''}: {why}", file=sys.stderr)
        if self._traces == _MANY:
            warnings.warn(
                f"jit: {self._name} was traced {_MANY} times, the last time because: {why}. Each trace costs more than "
                "a call without jit; .reasons() lists them all",
                RuntimeWarning,
                stacklevel=_levels_to_user(),
            )


def _levels_to_user() -> int:
    """How many frames are between a warning here and the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (frame.f_globals.get("__name__") or "").startswith("rulegrad."):
        level, frame = level + 1, frame.f_back
    return level


def mode() -> tuple[Hashable, ...]:
    """The settings that a computation depends on beside its arguments and state: a part of a capture's key."""
    modes = gradients_enabled(), autocast_dtype(), chosen_attention()
    return *modes, Tensor.training, config.device, config.default_dtype, config.check_indices


def are_in_buffers(tensors: Sequence[Any]) -> bool:
    """Realizes the tensors that wait; False inside grad or vmap, where a call is part of what these build."""
    waiting = [tensor for tensor in tensors if needs_buffer(tensor)]
    if any(is_transformed(tensor._uop) for tensor in waiting):
        return False
    if waiting:
        realize_all(waiting)
    return True


def _rebound(walk: Walk, roots: Sequence[Any], trace: Trace) -> str:
    """The place where the function has put another tensor than there was; "" where it has not."""
    before, after = walk.found(), Walk(roots).found()
    called = {id(tensor) for tensors in trace.called for tensor in tensors}
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old is not new and id(new) not in called and id(new) not in trace.adopted:
            if old is None:
                return f"{name} was made in the call"
            return f"{name} is another tensor after the call (assign changes it in place)"
    return ""


def _changed_arguments(args: Any, kwargs: Any, tensors: Sequence[Any]) -> str:
    found = {id(tensor): tensor for tensor in flatten((args, [kwargs[name] for name in sorted(kwargs)]))[0]}
    same = len(found) == len(tensors) and all(one is other for one, other in zip(found.values(), tensors))
    return "" if same else "it puts other tensors into a container among its arguments"


@overload
def jit(function: Callable[P, R], *, dynamic: Dynamic = False) -> JitFunction[P, R]: ...
@overload
def jit(function: None = None, *, dynamic: Dynamic = False) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def jit(function: Any = None, *, dynamic: Any = False) -> Any:
    """The function, captured: its first call is traced, and later calls of the same structure are replayed.

    A replay runs no Python of the function; the kernels are those of one computation. Arguments and results are tensors
    and nested tuples, lists, dicts, named tuples and dataclasses of them; other arguments (numbers, texts, modules) are
    part of what is captured. Tensors that the function reads and writes without being given them are its state:
    parameters, an optimizer's moments, caches. docs/capture.md says what can be captured, and which errors there are.
    Use it as a decorator, for methods too.

    >>> weight = Tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rg.optim.SGD([weight], lr=0.5)
    >>> @rg.jit
    ... def step(x):
    ...     optimizer.zero_grad()
    ...     loss = (weight * x).sum()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> [step(Tensor([1.0, 1.0])).item() for _ in range(3)]
    [3.0, 2.0, 1.0]

    dynamic: sizes that vary, by the name of the parameter: `{axis: Variable(name, least, most)}` for the tensors in it,
    `Variable(…)` for an integer. One trace serves all sizes from 2 on; the function is looked at for the smallest, the
    largest and some between. True: whatever is another number in a later call.

    >>> n, t = rg.Variable("n", 1, 8), rg.Variable("t", 10, 4096)
    >>> last = rg.jit(lambda x, n: x[-n:].sum(), dynamic={"x": {0: t}, "n": n})
    >>> last(Tensor.arange(10), 2).item(), last(Tensor.arange(100), 3).item(), len(last.reasons())
    (17, 294, 1)

    Raises CaptureError for a value that is not a function, for one whose body does not run when it is called (a
    generator or a coroutine), and for a wrong declaration. A call whose sizes are outside of their bounds raises it,
    and a first call that is not one computation at all of them.
    """
    if function is None:
        return functools.partial(jit, dynamic=dynamic)
    _refuse_others(function)
    if dynamic is False:
        return JitFunction(function)
    from rulegrad.capture.dynamic import DynamicFunction  # late: few programs have a use for it

    return DynamicFunction(function, dynamic)


def _refuse_others(function: object) -> None:
    """Raises CaptureError for a value that is not a function, and for one that runs nothing yet when it is called."""
    if not callable(function):
        raise CaptureError(f"jit: {reprlib.repr(function)} is not a function; give a function or a module")
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if is_generator or inspect.iscoroutinefunction(function):
        name, made = getattr(function, "__qualname__", function), "generator" if is_generator else "coroutine"
        advice = "capture the functions that it calls"
        raise CaptureError(f"jit: a call of `{name}` gives a {made} and computes nothing yet; {advice}")
