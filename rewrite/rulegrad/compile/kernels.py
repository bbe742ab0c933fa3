"""Kernels: from their tensors to what a device takes, by the pipelines `kernel` and `program`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

from rulegrad import engine
from rulegrad.compile import on_disk
from rulegrad.compile.estimate import estimate, typical
from rulegrad.compile.passes import BEFORE_LOWERING, lower
from rulegrad.compile.scheduling import are_searched, scheduled_kernels, scheduled_programs
from rulegrad.config import config
from rulegrad.config import on_change as on_setting
from rulegrad.engine import watching
from rulegrad.engine.schedules import choice_of
from rulegrad.errors import DtypeError, RewriteError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.ir.substitution import substituted
from rulegrad.runtime.kernel import Kernel, TensorMap

_OPERATORS = frozenset(("Unary", "Binary"))
_COMPUTING = frozenset(("CAST", "MULACC", "CONST"))
_MEMORY = ("PARAM", "BUFFER")
_PLACES = frozenset(("INDEX", "AFTER"))
_LITTLE = 1 << 17  # operations and bytes of a launch that takes microseconds, however its loops run
#: A kernel for all sizes may take so many times as long as at constant sizes, or longer by so many hundredths of cycles
#: of a thread, some milliseconds: sixteen such launches (varying.OFTEN) are as dear as compiling it for its sizes.
_SLOWER, _DEARER = 2, 1_000_000_000
_kernels: dict[tuple[UOp, str, bool, str], Kernel] = {}


#: How often all kernels were forgotten: what was captured before then is captured again.
generation = 0


def forget_kernels() -> None:
    """Lets go of all compiled kernels and schedules, so that the next use compiles again."""
    global generation
    generation += 1
    _kernels.clear()
    for listener in _also_forget:
        listener()


_also_forget: list[Callable[[], None]] = []  # callables of modules that keep what was made from kernels
engine.on_change(forget_kernels)
on_setting(lambda names: forget_kernels() if names & {"check", "search", "tuned"} else None)


def compile_kernels(graphs: Sequence[UOp], target: str, source: bool, device: str = "") -> list[Kernel]:
    """The kernels of numbered SINK(STORE(...)) graphs; `source`: for a device that compiles text.

    Equal graphs are one kernel, also where they are on other parts of buffers; new ones are compiled in parallel.
    device: that they will run on, whose schedules that were found by search are used; without one the rules choose.
    Raises RewriteError when a rule is missing or wrong.
    """
    place = device if source and are_searched() else ""
    unknown = [graph for graph in dict.fromkeys(graphs) if (graph, target, source, place) not in _kernels]
    on_parts = _on_parts(unknown, target) if source else {}
    begun = dict.fromkeys(on_parts[graph][0] if graph in on_parts else graph for graph in unknown)
    new = [graph for graph in begun if (graph, target, source, place) not in _kernels]

    def make(missing: list[UOp]) -> list[Kernel]:
        return _compile(missing, target, source, place)

    are_kept = device and source and not place and on_disk.is_usable()
    for graph, kernel in zip(new, on_disk.kernels(new, target, make) if are_kept else make(new), strict=True):
        _kernels[graph, target, source, place] = kernel
    for graph, (same, offsets) in on_parts.items():
        kernel = _kernels[same, target, source, place]
        whole = (0,) * (kernel.buffers - len(offsets))  # flags of checks of indices come after the graph's buffers
        _kernels[graph, target, source, place] = kernel._replace(offsets=offsets + whole)
    return [_kernels[graph, target, source, place] for graph in graphs]


def _on_parts(graphs: Sequence[UOp], target: str) -> dict[UOp, tuple[UOp, tuple[int, ...]]]:
    """Of graphs that need only parts of buffers: the graph on buffers that begin there, and the bytes before them.

    Where passes are looked at one by one, each kernel is on whole buffers: it is looked at as it is.
    """
    if engine.is_looked_at():
        for graph in graphs if config.check == 0 else ():  # values would be compared with those of the whole buffers
            with watching.part("kernel", graph):
                engine.run(graph, "begin_at_parts", target)
        return {}
    found = {}
    for graph, begun in zip(graphs, engine.run_all(graphs, ["begin_at_parts"], target), strict=True):
        if begun == graph:
            continue
        parameters = [node for node in begun.toposort("PARAM") if node.attrs["offset"]]
        whole = {node: node.replace(offset=0) for node in parameters}
        offsets = [0] * (1 + max(_slots(graph)))
        for node in parameters:
            offsets[node.attrs["slot"]] = node.attrs["offset"] * as_dtype(node.dtype).itemsize
        found[graph] = substituted(begun, whole), tuple(offsets)
    return found


def _compile(graphs: list[UOp], target: str, source: bool, device: str) -> list[Kernel]:
    for graph in graphs:
        _require_flags(graph)
    steps = [name for name in engine.pipeline("kernel") if name not in BEFORE_LOWERING]
    indexed = lower(graphs, graphs, steps, target, "kernel")
    if source:
        names = [_name(node, 1 + max(_slots(graph))) for graph, node in zip(graphs, indexed, strict=True)]

        def made(place: int, scheduled: UOp, program: UOp) -> Kernel:
            return _kernel(graphs[place], indexed[place], scheduled, program, target, source)

        lowered = scheduled_programs(graphs, indexed, names, target, device, made)
    else:
        programs = lower(graphs, indexed, engine.pipeline("interpreted"), target, "kernel")
        lowered = list(zip(indexed, programs, strict=True))
    kernels = [
        _kernel(graph, nodes, *pair, target, source)
        for graph, nodes, pair in zip(graphs, indexed, lowered, strict=True)
    ]
    for graph, kernel in zip(graphs, kernels, strict=True):
        watching.tell_kernel(graph, kernel, target)
    return kernels


def compile_varying(
    graphs: Sequence[UOp], indexed: Sequence[UOp], constant: Sequence[UOp], target: str
) -> list[Kernel]:
    """The kernels of indexed graphs with flat addresses and sizes that are VARs, for a device that compiles text.

    graphs: numbered, as `compile_kernels` takes them, at any sizes. constant: the indexed ones at typical sizes. Raises
    RewriteError where a rule needs a size to be a constant, or where a kernel is estimated to take much longer because
    sizes vary; for little work also that is better than compiling each size.
    """
    steps = engine.pipeline("kernel")
    ready = lower([*indexed, *constant], [*indexed, *constant], steps[steps.index("indexing") + 1 :], target, "kernel")
    of_sizes, of_constants = ready[: len(indexed)], ready[len(indexed) :]
    slots = [1 + max(_slots(graph)) for graph in graphs]
    names = [_name(node, count) for node, count in zip(of_sizes, slots, strict=True)]

    def made(place: int, scheduled: UOp, program: UOp) -> Kernel:
        return _kernel(graphs[place], of_sizes[place], scheduled, program, target, True)

    lowered = scheduled_programs(indexed, of_sizes, names, target, "", made)
    wanted = scheduled_kernels(constant, of_constants, target)
    for (scheduled, _), one_size, indexed_at in zip(lowered, wanted, of_constants, strict=True):
        tactics = [one.attrs.get("tactic", "") for one in (scheduled, one_size)]
        times = [one.attrs.get("estimate", 0) for one in (scheduled, one_size)]
        is_dear = times[0] > _SLOWER * times[1] and times[0] - times[1] > _DEARER
        if is_dear and sum(estimate(indexed_at)) > _LITTLE:
            raise RewriteError(
                f"a kernel has the tactic `{tactics[0]}` where sizes vary, `{tactics[1]}` where they do not, "
                "and is estimated to take much longer"
            )
    return [made(place, *pair) for place, pair in enumerate(lowered)]


def _require_flags(graph: UOp) -> None:
    """Raises RewriteError for a check of a tensor's indices that has no word among the flags: it would only clamp."""
    for node in graph.toposort("INSIDE"):
        if node.attrs["slot"] < 0 and (node.attrs["operation"] or node.attrs["place"] >= 0):
            raise RewriteError(
                f"the check of the indices of `{node.attrs['operation']}` along axis {node.attrs['axis']} has no slot "
                "for its flags in a kernel: pass number_buffers (rules/schedule/memory.rules) has to give it one"
            )


def _kernel(graph: UOp, indexed: UOp, scheduled: UOp, program: UOp, target: str, source: bool) -> Kernel:
    if source:
        _require_dtypes(indexed, program, target)
    slots, program_slots = (1 + max(_slots(one)) for one in (graph, program))
    checks_indices = program_slots > slots  # the flags come after the buffers of the graph
    slots = max(slots, program_slots)
    flops, nbytes = estimate(indexed)
    name = _name(indexed, slots)
    sizes = 1 + max([node.attrs["slot"] for node in indexed.toposort("VAR")], default=-1)
    grid, group = launch_sizes(program) if source else ((), ())
    text = render(program, target, name, slots, sizes, math.prod(group)) if source else ""
    positions = None
    if sizes and "sizes" in engine.target(target).templates:
        positions = UOp("SINK", tuple(program.toposort("SPECIAL")))
    elif sizes:
        text += render(_items(program), target, f"items_{name}", 1, sizes)
    local_bytes = local_memory(program, target) if source else 0
    maps = tensor_maps(program, target) if source else ()
    runs = indexed if source else program
    tactic, steps = choice_of(scheduled)
    return Kernel(
        name, runs, text, grid, group, slots, flops, nbytes,
        local_bytes=local_bytes, maps=maps, checks_indices=checks_indices, tactic=tactic, steps=steps, sizes=sizes,
        positions=positions,
    )  # fmt: skip


def _slots(graph: UOp) -> list[int]:
    return [node.attrs["slot"] for node in graph.toposort("PARAM")]


def _require_dtypes(indexed: UOp, program: UOp, target: str) -> None:
    """Raises DtypeError where the lowered kernel has values that the target cannot have."""
    known = engine.target(target).dtypes
    missing = program.dtypes() - known - {"void", "index"}
    if missing:
        names = ", ".join(sorted(map(str, missing)))
        raise DtypeError(
            f"{target} devices have no {names}, which this kernel computes with: {_name(indexed, 0)}. Convert to "
            "another dtype where the data are made, such as np.float32(values), or compute on another device"
        )
    _require_arithmetic(program, target)
    _require_one_dtype(program, target)


def _require_one_dtype(program: UOp, target: str) -> None:
    """Raises RewriteError for memory that some ops take as another dtype than others: it would be two buffers."""
    known: dict[tuple[object, ...], UOp] = {}
    for node in program.toposort(*_MEMORY):
        kind, number = ("parameter", "slot") if node.op == "PARAM" else (f"{node.attrs['space']} buffer", "id")
        other = known.setdefault((kind, node.attrs[number], tuple(node.shape)), node)
        if other.dtype != node.dtype:
            takers = " and ".join(f"{n.dtype} for {', '.join(_takers(program, n))}" for n in (other, node))
            raise RewriteError(
                f"the rules leave {kind} {node.attrs[number]} with two dtypes in a program for {target}: {takers}. "
                "An op that takes memory says `class Access` and leaves the dtypes of its sources open, so that "
                "storage.access (rules/lower/small_floats.rules) gives it small floats as the bits that others take"
            )


def _takers(program: UOp, memory: UOp) -> list[str]:
    """The ops that memory is for, in order: those behind its places."""
    places = {memory}
    takers: dict[str, None] = {}
    for node in program.toposort():
        if not places.isdisjoint(node.src):
            if node.op in _PLACES and node.src[0] in places:
                places.add(node)
            else:
                takers[node.op] = None
    return list(takers)


def _require_arithmetic(program: UOp, target: str) -> None:
    """Raises RewriteError for arithmetic on a dtype that the target only stores: it would be that of the bits."""
    facts, ops = engine.target(target), engine.summary()["ops"]
    moved = facts.dtypes - facts.computes - {"void", "index"}
    if moved.isdisjoint(program.dtypes()):
        return
    for node in program.toposort():
        if node.op in _COMPUTING or not _OPERATORS.isdisjoint(ops[node.op][0]):
            for dtype in (node.dtype, *(source.dtype for source in node.src)):
                if dtype in moved and (node.op != "CONST" or as_dtype(dtype).is_float):
                    raise RewriteError(
                        f"the rules leave {node.op} of {dtype} in a program for {target}, which only stores {dtype}: "
                        "a rule is missing that computes it in another dtype"
                    )


def launch_sizes(program: UOp, sizes: Sequence[int] = ()) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Work-items along each axis of the grid, the fastest axis first, and those of a work-group.

    sizes: what a launch gives the program for sizes that vary, by default what it was made for.
    The second is () where the rules leave the size of work-groups to the device: no position in a group is asked for.
    """
    counts: dict[str, dict[int, int]] = {"item": {}, "group": {}, "local": {}}
    parts: list[UOp] = []
    for node in program.toposort("RANGE", "SPECIAL"):
        if node.op == "SPECIAL":
            counts[node.attrs["name"]][node.attrs["axis"]] = typical(node.src[0], sizes)
        elif node.attrs["kind"] == "item":
            parts.append(node.src[0])  # a device without a grid does a part of the outermost loop
    if parts:
        if any(part != parts[0] for part in parts):
            raise RewriteError("a kernel has outermost loops of several extents; a launch is divided by one")
        return (typical(parts[0]),), ()
    if counts["item"] and counts["local"]:
        raise RewriteError(
            "a kernel has positions in the grid as well as in a work-group; the launch pass gives one kind"
        )
    groups = counts["group"] or counts["item"]
    axes = range(max([*groups, *counts["local"]], default=0) + 1)
    local = tuple(counts["local"].get(axis, 1) for axis in axes) if counts["local"] or counts["group"] else ()
    of_axes = tuple(groups.get(axis, 1) for axis in axes)
    return tuple(map(math.prod, zip(of_axes, local or (1,) * len(of_axes), strict=True))), local


def _items(program: UOp) -> UOp:
    """A program that stores the number of work-items of a launch, which may depend on sizes."""
    items = [node.src[0] for node in program.toposort("RANGE") if node.attrs["kind"] == "item"]
    count = items[0] if items else UOp.const(1, "int64")
    place = UOp("INDEX", (UOp("PARAM", (), "int64", slot=0, shape=(1,)), UOp.const(0, "int64")))
    return UOp("SINK", (UOp("STORE", (place, UOp("CAST", (count,), "int64"))),))


def local_memory(program: UOp, target: str) -> int:
    """Bytes of local memory that a launch asks for: each buffer's, rounded up to the target's limit `local_alignment`.

    0 where that is 0: there the source of a kernel says what it needs.
    """
    step = engine.target(target).limits["local_alignment"]
    if not step:
        return 0
    buffers = [n for n in program.toposort("BUFFER") if n.attrs["space"] == "local"]
    sizes = [math.prod(n.shape) * as_dtype(n.dtype).itemsize for n in buffers]
    return sum(-(-size // step) * step for size in sizes)


def tensor_maps(program: UOp, target: str) -> tuple[TensorMap, ...]:
    """The maps that a launch gives a program for its copies of boxes, in the order of their numbers.

    () where the target's limit `box_lines` is 0: there nothing is copied so.
    """
    if not engine.target(target).limits["box_lines"]:
        return ()
    nodes = {n.attrs["number"]: n for n in program.toposort("TENSOR_MAP")}
    return tuple(
        TensorMap(
            node.src[0].attrs["slot"], as_dtype(node.dtype).itemsize, tuple(node.src[0].shape),
            tuple(node.attrs["sizes"]), tuple(node.attrs["box"]),
        )
        for _, node in sorted(nodes.items())
    )  # fmt: skip


def _map_parameters(program: UOp, target: str) -> list[str]:
    template = engine.target(target).templates.get("tensor_map")
    count = len(tensor_maps(program, target))
    if count and template is None:
        raise RewriteError(
            f"target {target} has a limit box_lines, but no template tensor_map: how is such a parameter spelled?"
        )
    return [(template or "").format(number=number) for number in range(count)]


def render(program: UOp, target: str, name: str, slots: int, sizes: int = 0, items: int = 1) -> str:
    """Source text of a lowered kernel. The body is by rules; the target's templates make the signature.

    sizes: how many sizes are arguments, integers of 64 bits. items: the work-items of a work-group.
    """
    facts = engine.target(target)
    maps = _map_parameters(program, target)
    body, parameters = engine.source(program, "linearize", facts.render, target)
    by_slot = {slot: (text, dtype) for slot, text, dtype in parameters}
    unused = facts.templates.get("unused", "void")
    signature = facts.templates.get("separator", ", ").join(
        facts.templates["param"].format(slot=k, name=text, type=dtype)
        for k in range(slots)
        for text, dtype in [by_slot.get(k, (f"unused{k}", unused))]
    )
    signature = facts.templates.get("separator", ", ").join([signature, *maps, *_size_parameters(facts, slots, sizes)])
    texts = dict.fromkeys(node.attrs["text"] for node in program.toposort("MATRIX_MULACC"))
    definitions = "".join(_defined_once(text) for text in texts if text)
    if "shared" in facts.templates:  # a language in which the memory of a work-group is declared outside of the kernel
        definitions += "".join(
            facts.templates["shared"].format(
                name=f"shared{node.attrs['id']}", type=facts.types[str(node.dtype)], size=math.prod(node.shape)
            )
            for node in program.toposort("BUFFER")
            if node.attrs["space"] == "local"
        )
    of_groups = any(node.attrs["name"] == "local" for node in program.toposort("SPECIAL"))
    head = "kernel_of_groups" if of_groups and "kernel_of_groups" in facts.templates else "kernel"
    prologue = facts.templates.get("prologue", "").format()
    builtins = facts.templates.get("builtins", "")
    begin = facts.templates[head].format(name=name, params=signature, builtins=builtins, items=items)
    return prologue + definitions + begin + "\n" + body + "}\n"


def _size_parameters(facts: engine.TargetFacts, slots: int, sizes: int) -> list[str]:
    """How sizes are passed: as one buffer, or each by itself."""
    if sizes and "sizes" in facts.templates:
        return [facts.templates["sizes"].format(slot=slots)]
    return [facts.templates["size"].format(number=number) for number in range(sizes)]


def _defined_once(text: str) -> str:
    """The definition of a matrix instruction's function; several kernels that are compiled together may have it."""
    guard = f"DEFINED_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return f"#ifndef {guard}\n#define {guard}\n{text}\n#endif\n"


def _name(indexed: UOp, slots: int) -> str:
    """The kernel's name, for people: reduce or map, the sizes of its result and reductions; and a short hash.

    Of several kernels in one launch it says how many they are.

    Kernels whose graphs became equal may still take different numbers of buffers: these are part of the hash.
    """
    sizes: dict[str, list[int | str]] = {"output": [], "reduce": []}
    for loop in indexed.toposort("RANGE"):
        sizes.setdefault(loop.attrs["kind"], []).append(loop.src[0].attrs.get("value", "n"))
    word = "reduce" if indexed.toposort("REDUCE") else "map"
    number = f"{indexed.key + slots & 0xFFFFFFFF:08x}"
    if len(indexed.src) > 1:
        return f"{word}_of_{len(indexed.src)}_kernels_{number}"
    shape = "x".join(map(str, sizes["output"])) or "1"
    inner = "_" + "x".join(map(str, sizes["reduce"])) if sizes["reduce"] else ""
    return f"{word}_{shape}{inner}_{number}"


__all__ = [
    "compile_kernels",
    "compile_varying",
    "forget_kernels",
    "launch_sizes",
    "local_memory",
    "render",
    "tensor_maps",
]
