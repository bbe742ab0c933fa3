"""Captures as files: what a function was traced to, with its kernels, for another process.

A file is code: it holds compiled programs, and objects by the names of their classes. It says by what it was made, and
is only read by the same: version, rules, device, compiler.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rulegrad import __version__, engine
from rulegrad._core import placements
from rulegrad.capture.captured import Call, Captured, Guards, Part, pairs_of
from rulegrad.capture.paths import Paths, Walk
from rulegrad.capture.sources import Source, kind_of
from rulegrad.compile import kernels, plans
from rulegrad.compile.collectives import Communication
from rulegrad.compile.sharding import asks_for_own_number, is_on_mesh, own_number
from rulegrad.errors import CaptureError, FileError, FileMissingError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer, Parts
from rulegrad.runtime.several import Several
from rulegrad.support.diskcache import shared
from rulegrad.tensor import Tensor
from rulegrad.tensor.random import Draw
from rulegrad.tensor.realize import needs_buffer, realize_all
from rulegrad.tensor.storage import upload, upload_in_parts
from rulegrad.tensor.trees import flatten

if TYPE_CHECKING:
    from rulegrad.communication import World

_MAGIC: Final = b"rulegrad capture 1\n"


class _Place(NamedTuple):
    """A tensor of the result, by its number."""

    number: int


class _Constant(NamedTuple):
    """The values of a buffer, of all devices together, and how they lie on a mesh."""

    values: np.ndarray[Any, Any]
    parts: Parts | None


class _Pickler(pickle.Pickler):
    """Nodes as text; kernels without what a device made of them."""

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, UOp):
            return _parsed, (str(item),)
        if isinstance(item, plans.Launch):
            return plans.Launch, (item.kernel, None, item.buffers, item.step)
        if isinstance(item, plans.Recorded):
            return _nothing, ()
        return NotImplemented


def _parsed(text: str) -> UOp:
    return UOp.parse(text)


def _nothing() -> None:
    return None


def save(path: str | Path, name: str, captured: Sequence[tuple[Any, Captured]], function: Any) -> None:
    """Writes captures with their keys. Raises CaptureError for one that cannot be saved, FileError.

    Captures on a mesh of ranks are the same on all: all ranks call it, the first of them writes.
    """
    walk = Walk([function])
    names = {id(tensor): walk.name(place) for place, tensor in reversed(walk.tensors)}
    names.update({id(item): walk.name(place) for place, item in walk.items()})
    for _, one in captured:
        one.of_own_sizes()
    parts = [part for _, one in captured for part in one.parts]
    used = sorted({part.plan.device for part in parts})
    body = {
        "code": _code(walk),
        "values": {walk.name(place): value for place, value in walk.values},
        "captures": [(key, _described(one, names, name)) for key, one in captured],
    }
    meshed = sorted({part.plan.device for part in parts if _is_on_mesh(part)})
    programs = [entry for device in used for entry in _programs(device, [one for _, one in captured])]
    file = io.BytesIO()
    try:
        pickle.dump(_made_by(used, meshed), file)
        pickle.dump(programs, file)
        _Pickler(file).dump(body)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CaptureError(f"save: {name} has arguments or results that cannot be written to a file: {error}") from None
    try:
        if all(_world_of(device).local[0] == 0 for device in meshed):
            Path(path).write_bytes(_MAGIC + file.getvalue())
    except OSError as error:
        raise FileError(f"save: {path} cannot be written: {error}") from None
    for device in meshed:
        _world_of(device).check_same("save: written", name)  # from here on all may read it


def load(path: str | Path, name: str, function: Any) -> list[tuple[Any, Captured]]:
    """The captures of a file with their keys, bound to the state that the function finds now.

    Raises CaptureError, which names what is different, and FileError.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise FileMissingError(f"load: there is no file {path}") from None
    except OSError as error:
        raise FileError(f"load: {path} cannot be read: {error}") from None
    if not data.startswith(_MAGIC):
        raise FileError(f"load: {path} is not a captured function, or one of another format; save it again")
    file = io.BytesIO(data[len(_MAGIC) :])
    try:
        made_by = pickle.load(file)
        meshed = [device for device in made_by["device"] if f"size of the mesh on {device}" in made_by]
        _compare(path, made_by, _made_by(made_by["device"], meshed))
        programs = pickle.load(file)
        body = pickle.load(file)
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError) as error:
        raise FileError(f"load: {path} is damaged, or names what is not here: {error}") from None
    walk = Walk([function])
    _compare(path, {"code of the function": body["code"]}, {"code of the function": _code(walk)})
    _compare(path, body["values"], {walk.name(place): value for place, value in walk.values})
    for kind, key, value in programs:
        if shared().get(kind, key) is None:
            shared().put(kind, key, value)
    return [(key, _bound(described, walk, name)) for key, described in body["captures"]]


def _made_by(used: Sequence[str], meshed: Sequence[str]) -> dict[str, Any]:
    """The environment that a file depends on, by name. meshed: the devices on which tensors are in parts."""
    found: dict[str, Any] = {
        "version": __version__,
        "version of Python": ".".join(map(str, sys.version_info[:2])),
        "rules": engine.loaded().sources.text_key,
        "device": list(used),
    }
    for device in used:
        found[f"target of {device}"] = devices.target_of(device)
        found[f"compiler of {device}"] = getattr(_one_of(device), "identity", "")
    for device in meshed:
        found[f"size of the mesh on {device}"] = _world_of(device).size
    return found


def _one_of(device: str) -> Any:
    """The device of a name, or the first of those that its parts are on."""
    found = devices.get(device)
    return found.devices[0] if isinstance(found, Several) else found


def _world_of(device: str) -> World:
    from rulegrad.communication.meshes import world_of  # late: few programs have tensors on a mesh

    return world_of(device)


def _is_on_mesh(part: Part) -> bool:
    return part.plan.communicates or bool(placements(part.inputs))


def _compare(path: str | Path, saved: dict[str, Any], here: dict[str, Any]) -> None:
    for name in {**saved, **here}:
        if saved.get(name) != here.get(name):
            raise CaptureError(
                f"load: {path} was saved with another {name}: {saved.get(name)!r} there, {here.get(name)!r} here; "
                "capture and save it again"
            )


def _code(walk: Walk) -> str:
    """Changes when the code of the user's functions does that the walk has met."""
    digest = hashlib.sha256()

    def add(code: types.CodeType) -> None:
        digest.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                add(constant)
            else:
                digest.update(repr(constant).encode())

    for _, item in walk.items():
        if isinstance(item, types.FunctionType) and not (item.__module__ or "").startswith("rulegrad."):
            add(item.__code__)
    return digest.hexdigest()[:16]


# ---- writing ----


def _described(one: Captured, names: dict[int, str], name: str) -> dict[str, Any]:
    """All that makes a capture, with names in the place of tensors and objects."""
    if one.same or one.objects:
        raise CaptureError(
            f"save: {name} has arguments that are told apart by identity (modules, or tensors that it finds otherwise "
            "too); let it find them in its closure, or in globals, and pass tensors"
        )
    outside = [reference() for reference in one.outside]
    for tensor in outside:
        if tensor is None or id(tensor) not in names:
            shape = "" if tensor is None else f" of shape {tensor.shape}"
            raise CaptureError(
                f"save: {name} reads a tensor{shape} that is found on no path from its closure or globals"
            )
    owners = [(names.get(id(owner())), attribute, value) for owner, attribute, value in one.guards.values]
    template = one.rebuild([_Place(number) for number in range(len(one.recipes))])
    return {
        "parts": [_described_part(part) for part in one.parts],
        "outputs": one.outputs,
        "recipes": one.recipes,
        "template": template,
        "writes": one.writes,
        "gradients": one.gradients,
        "calls": [(_described_call(call.make, names, name), call.kinds) for call in one.calls],
        "arguments": one.arguments,
        "outside": [(names[id(t)], kind_of(t), t._requires_grad, t._leaf) for t in outside if t is not None],
        "flags": one.guards.flags,
        "gradient kinds": one.guards.gradients,
        "owners": owners,
    }


def _described_part(part: Part) -> Part:
    sources = [
        Source(kind, _saved_constant(which)) if kind == "constant" else Source(kind, which)
        for kind, which in part.sources
    ]
    every = tuple(place for place in part.plan.takeable if place in part.own)
    for taken in ((), every):  # nothing is compiled later
        part.plan.prepared(taken, pairs_of(part, taken))
    return part._replace(sources=tuple(sources), prepared=tuple({(), every}))


def _saved_constant(buffer: Buffer) -> _Constant | UOp:
    """The values of a constant; of a device's own number the node that asks for it."""
    asks = asks_for_own_number(buffer.id)
    if asks is not None:
        return asks
    return _Constant(Tensor._new(buffer.uop, buffer, buffer.device).numpy(), buffer.parts)


def _described_call(make: Callable[[], Any], names: dict[int, str], name: str) -> tuple[Any, ...]:
    saved = getattr(make, "saved", None)
    if saved is None:
        raise CaptureError(f"save: {name} calls each_call with a function of its own, which cannot be saved")
    kind, *rest = saved
    return (kind, *(names.get(id(part), part) if kind == "optimizer" else part for part in rest))


def _programs(device: str, captured: Sequence[Captured]) -> list[tuple[str, str, bytes]]:
    """The entries of the cache on disk that have a device's kernels, where it can say."""
    kept = getattr(_one_of(device), "kept_programs", None)
    if kept is None:
        return []
    variants = [v for one in captured for part in one.parts if part.plan.device == device for v in part.plan.variants()]
    launches = [launch for variant in variants for launch in variant.launches]
    found: list[tuple[str, str, bytes]] = kept(
        [launch.kernel for launch in launches if not isinstance(launch.executable, Communication)]
    )
    return found


# ---- reading ----


def _bound(described: dict[str, Any], walk: Walk, name: str) -> Captured:
    tensors = {walk.name(place): tensor for place, tensor in reversed(walk.tensors)}
    objects = {walk.name(place): item for place, item in walk.items()}
    outside = _bound_outside(described, tensors, name)
    owners = []
    for path, attribute, value in described["owners"]:
        owner = objects.get(path)
        if owner is None or getattr(owner, attribute) != value:
            raise CaptureError(f"load: {path}.{attribute.lstrip('_')} has another value than {value!r}")
        owners.append((weakref.ref(owner), attribute, value))
    wanted = {id(tensor) for tensor in outside}
    guards = Guards(
        kernels.generation, Paths(walk, wanted), described["flags"], described["gradient kinds"], tuple(owners), ()
    )
    places, rebuild = flatten(described["template"], _Place)
    order = [place.number for place in places]
    return Captured(
        [_bound_part(part) for part in described["parts"]],
        described["outputs"],
        described["recipes"],
        lambda found: rebuild([found[number] for number in order]),
        described["writes"],
        described["gradients"],
        [Call(_bound_call(saved, objects), kinds) for saved, kinds in described["calls"]],
        (None,) * described["arguments"],
        outside,
        guards,
    )


def _bound_outside(described: dict[str, Any], tensors: dict[str, Tensor], name: str) -> list[Tensor]:
    """The tensors that a function reads or changes without being given them: they must be what they were."""
    outside = []
    for path, kind, requires_grad, leaf in described["outside"]:
        tensor = tensors.get(path)
        if tensor is None:
            raise CaptureError(
                f"load: {name} needs the tensor {path}, which is not there; an optimizer makes its state in its first "
                "step, or in load_state_dict"
            )
        if needs_buffer(tensor) and is_on_mesh([tensor._uop]):
            realize_all([tensor])
        here = (*kind_of(tensor), tensor._requires_grad, tensor._leaf)
        if here != (*kind, requires_grad, leaf):
            raise CaptureError(f"load: {path} is {here} (shape, dtype, device, requires_grad, leaf), and was {kind}")
        outside.append(tensor)
    return outside


def _bound_part(part: Part) -> Part:
    plan = part.plan.built()
    sources = [
        Source(kind, _constant(which, plan.device)) if kind == "constant" else Source(kind, which)
        for kind, which in part.sources
    ]
    return part._replace(plan=plan, sources=tuple(sources))


def _constant(saved: _Constant | UOp, device: str) -> Buffer:
    if isinstance(saved, UOp):
        return own_number(saved, device)
    return upload(saved.values, device) if saved.parts is None else upload_in_parts(saved.values, saved.parts, device)


def _bound_call(saved: tuple[Any, ...], objects: dict[str, Any]) -> Callable[[], Any]:
    kind, *rest = saved
    if kind == "random":
        return Draw(*rest)
    optimizer = objects.get(rest[0])
    if optimizer is None:
        raise CaptureError(f"load: the optimizer {rest[0]} is not there")
    make: Callable[[], Any] = optimizer._uploads(rest[1])
    return make
