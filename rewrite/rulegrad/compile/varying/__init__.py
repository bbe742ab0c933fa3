"""One plan for all sizes of a computation, made when its second size is seen.

Users' shapes are whole numbers. Two graphs that differ in whole numbers only have a *template*: their structure, with
formulas of variables, the sizes, where they differ. A third graph is compared with the template node by node; where it
is the template at some sizes, its plan is the template's with these as arguments, and nothing is compiled.

How kernels depend on the sizes is found by scheduling the template at a few generic sizes, up to where all sizes are
constants of index arithmetic, and by fitting a formula to each constant. From there on the sizes are arguments (VAR).
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from rulegrad import engine
from rulegrad._core import renumbered
from rulegrad.compile import kernels as compiling
from rulegrad.compile.plans import is_for_engine
from rulegrad.compile.scheduling import are_searched
from rulegrad.compile.sharding import is_on_mesh
from rulegrad.config import config
from rulegrad.errors import GraphError, RulegradError
from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted
from rulegrad.runtime import devices
from rulegrad.runtime.buffer import Buffer
from rulegrad.support.locations import user_line

from .formulas import NAMES, NoFormulaError
from .pairs import DifferentError
from .plans import General, general_plan
from .templates import Match, Template, generalised, key_of, matched
from .validity import Bounds

OFTEN: Final = 16  #: a size that is used so many times, and in half of all calls, gets kernels of its own
_MOST_TRIED: Final = 4  # graphs of one kind that templates are made from
_MOST_REFUSED: Final = 3  # templates of one kind that rules cannot compile: each costs some schedules
_MOST_KEPT: Final = 512  # sizes whose plans are kept, and kinds of graphs


@dataclass(slots=True)
class _Kind:
    """Graphs that may have a template."""

    seen: list[list[UOp]] = field(default_factory=list)  # those that were compiled for their sizes
    plans: list[_Used] = field(default_factory=list)
    refused: int = 0


@dataclass(slots=True)
class SizedPlan:
    """A general plan at the sizes of some graphs: what it reads are places in their buffers, or buffers of its own."""

    plan: Any
    inputs: tuple[int | Buffer, ...]
    general: _Used
    uses: int = 0
    unseen: int = 0  # uses that the engine may have had since it was last looked for

    def used(self) -> None:
        """Counts a use, and those that nobody saw."""
        self.uses += 1 + self.unseen
        self.general.uses += 1 + self.unseen
        self.unseen = 0

    def is_repeated(self) -> bool:
        """Whether these sizes are used so often that who captured the graphs wants a plan of their own."""
        return self.uses > OFTEN

    def is_often_used(self) -> bool:
        """The same for graphs that are built anew: of the layers of a decoder each has as many calls at each length."""
        return self.is_repeated() and 2 * self.uses >= self.general.uses

    def let_go(self) -> int:
        """How often the engine may use the plan by itself; from now on these uses count."""
        self.unseen = OFTEN if is_for_engine(self.plan) else 0
        return self.unseen


@dataclass(slots=True)
class _Used:
    """A general plan, and how often it was used."""

    general: General
    uses: int = 0


_kinds: dict[tuple[int, str], _Kind] = {}
_found: OrderedDict[tuple[bytes, str], SizedPlan] = OrderedDict()
_reasons: list[str] = []  # why graphs have no general plan


def _forget() -> None:
    """Lets go of all general plans."""
    _kinds.clear()
    _found.clear()
    _reasons.clear()


compiling._also_forget.append(_forget)


def reasons() -> tuple[str, ...]:
    """Why graphs that look alike have no general plan, the last 100."""
    return tuple(_reasons[-100:])


def find(key: bytes, uops: Sequence[UOp], ids: Sequence[int], device: str) -> SizedPlan | None:
    """The general plan of graphs at their sizes, and what it reads: places in `ids`, or buffers of its own.

    None where they have none, or these sizes are used so often that a plan of their own is better; and where schedules
    are searched, or were: they are found for kernels of one size.
    """
    found = _found.get((key, device))
    if found is None:
        if not _is_able(device) or are_searched():
            return None
        found = _find(uops, ids, device)
        if found is None:
            return None
        _found[key, device] = found
        if len(_found) > _MOST_KEPT:
            _found.popitem(last=False)
    _found.move_to_end((key, device))
    found.used()
    if found.is_often_used():
        del _found[key, device]
        return None
    return found


def general_of(template: Template, device: str, bounds: Bounds) -> General | None:
    """The general plan of a template for sizes within these bounds; None where there is none."""
    if not _is_able(device):
        return None
    try:
        general = general_plan(template, device, bounds)
    except (DifferentError, NoFormulaError, RulegradError) as error:
        _refused(error)
        return None
    _tell(general)
    return general


def _is_able(device: str) -> bool:
    """Whether kernels of the device take sizes."""
    templates = engine.target(devices.target_of(device)).templates
    return "size" in templates or "sizes" in templates


def _find(uops: Sequence[UOp], ids: Sequence[int], device: str) -> SizedPlan | None:
    if is_on_mesh(uops):  # the parts of an axis are rounded up, which no formula of sizes is
        return None
    kind = _kind_of(uops, device)
    for known in kind.plans:
        found = _at(known, uops, ids, device)
        if found is not None:
            return found
    if len(kind.seen) >= _MOST_TRIED or kind.refused >= _MOST_REFUSED:
        return None
    for template in itertools.chain(
        _templates_of_separate_sizes(kind.seen, uops) if kind.plans else (), _templates(kind.seen, uops)
    ):
        try:
            general = general_plan(template, device)
        except GraphError as error:  # sizes that no graph has, found out before anything is scheduled
            _refused(error)
            continue
        except (DifferentError, NoFormulaError, RulegradError) as error:
            _refused(error)
            kind.refused += 1
            continue
        used = _Used(general)
        found = _at(used, uops, ids, device)
        if found is not None:
            kind.plans.append(used)
            kind.plans.sort(key=lambda one: len(one.general.template.examples))
            _tell(general)
            return found
    kind.seen.append(_of_other_buffers(uops))
    return None


def _kind_of(uops: Sequence[UOp], device: str) -> _Kind:
    """Of the graphs that a template with these may have."""
    key = key_of(uops), device
    kind = _kinds[key] = _kinds.pop(key) if key in _kinds else _Kind()  # the latest is the last
    if len(_kinds) > _MOST_KEPT:
        del _kinds[next(iter(_kinds))]
    return kind


def _of_other_buffers(uops: Sequence[UOp]) -> list[UOp]:
    """The same graphs on buffers of nobody: a node that is held keeps the value of a tensor that it stands for."""
    graph = UOp("SINK", tuple(uops))
    others = {uop: renumbered(uop, -1 - number) for number, uop in enumerate(graph.toposort("BUFFER"))}
    return list(substituted(graph, others).src)


def _templates_of_separate_sizes(seen: Sequence[list[UOp]], uops: Sequence[UOp]) -> list[Template]:
    """The template of most sizes: those of two graphs may agree by chance, and then their plan is for few others."""
    found: list[Template] = []
    for known in seen:
        with contextlib.suppress(DifferentError):
            found.append(generalised(known, uops, separate=True))
    return sorted((one for one in found if one.examples), key=lambda one: -len(one.examples))[:1]


def _templates(seen: Sequence[list[UOp]], uops: Sequence[UOp]) -> Iterator[Template]:
    """The templates of a graph with those that were seen before, those of the fewest sizes first."""
    errors: list[DifferentError] = []
    are_alike = False
    for steps, rounded in ((False, False), (True, False), (False, True)):
        found: list[Template] = []
        for known in reversed(seen):
            try:
                found.append(generalised(known, uops, steps, rounded))
            except DifferentError as error:
                errors.append(error)
        yield from sorted((one for one in found if one.examples or one.scalars), key=lambda one: len(one.examples))
        are_alike = are_alike or bool(found)
    for one in () if are_alike else errors:
        _refused(one)


def _at(used: _Used, uops: Sequence[UOp], ids: Sequence[int], device: str) -> SizedPlan | None:
    """A general plan at the sizes of these graphs, if it is theirs."""
    general = used.general
    match = matched(general.template, uops)
    if match is None or not general.serves(match.sizes):
        return None
    values = match.sizes or (0,)
    sizes = filled_buffer(values, (len(values),), "int64", device)
    inputs = tuple([_input(general.template, match, number, ids, device) for number in general.inputs])
    return SizedPlan(general.plan(match.sizes, device), (*inputs, sizes), used)


def _input(template: Template, match: Match, number: int, ids: Sequence[int], device: str) -> int | Buffer:
    if number < template.buffers:
        return ids.index(match.buffers[number])
    scalar = number - template.buffers
    return filled_buffer(match.scalars[scalar], (), template.scalars[scalar], device)


def filled_buffer(values: Any, shape: tuple[int, ...], dtype: Any, device: str) -> Buffer:
    """A new buffer with these values."""
    buffer = Buffer(shape, dtype, device)
    buffer.copy_in(np.asarray(values, buffer.dtype.numpy))
    return buffer


def _refused(error: Exception) -> None:
    _reasons.append(str(error))
    del _reasons[:-100]
    if config.debug >= 2:
        print(f"rulegrad: no general plan: {error}", file=sys.stderr)


def _tell(general: General) -> None:
    if config.debug >= 1:
        bounds = "".join(
            f", {name} in [{least}, {most}]" for name, (least, most) in zip(NAMES, general.bounds, strict=False)
        )
        count = len(general.launches)
        kernels = "1 kernel" if count == 1 else f"{count} kernels"
        print(f"rulegrad: general plan{bounds}, {kernels}{user_line()}", file=sys.stderr)
