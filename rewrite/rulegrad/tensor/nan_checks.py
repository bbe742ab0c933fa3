"""The setting `detect_nan`: which op made the first nan, and for which line of the user's program.

Results are looked at on the host. Where one has a nan, the nodes of its graph are computed once more, each reduced to
whether it has one, in the order in which values are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from rulegrad.compile.realize import realize
from rulegrad.config import config
from rulegrad.errors import NanError
from rulegrad.ir import UOp
from rulegrad.ir.dtype import as_dtype
from rulegrad.runtime import source_lines
from rulegrad.runtime.buffer import Buffer
from rulegrad.support.locations import Stack, shown
from rulegrad.tensor.tensor import Tensor

_AT_ONCE: Final = 24  # nodes that are looked at in one computation


class _Bad(NamedTuple):
    """Whether some values are nan, and whether some are infinite where that counts."""

    nan: bool
    infinite: bool

    def __bool__(self) -> bool:
        return self.nan or self.infinite

    @property
    def name(self) -> str:
        return "nan" if self.nan else "infinite value"


_GOOD: Final = _Bad(False, False)


def check(graphs: Sequence[UOp], results: Sequence[Buffer]) -> None:
    """Raises NanError where a result has a nan (an infinite value, with `detect_nan=2`) that an op has made.

    graphs: what the results were computed from, whose buffers have the values that they had.
    """
    level = config.detect_nan
    bad = any(_of_buffer(buffer, level) for buffer in results)
    if any(buffer.parts for buffer in results):
        from rulegrad.communication.meshes import on_any_rank  # late: few programs have tensors on a mesh

        bad = on_any_rank(bad, results[0].device)
    if not bad:
        return
    with config(detect_nan=0):
        _Search(graphs, level, results[0].device).run()


def _of_buffer(buffer: Buffer, level: int) -> _Bad:
    """Of a buffer in parts: those of this process."""
    if not buffer.dtype.is_inexact or not buffer.nbytes:
        return _GOOD
    if buffer.parts is None:
        return _of_values(buffer.numpy(), level)
    from rulegrad.communication.meshes import own_parts  # late: few programs have tensors on a mesh

    found = [_of_values(array, level) for _, _, array in own_parts(buffer)]
    return _Bad(any(one.nan for one in found), any(one.infinite for one in found))


def _of_values(values: Any, level: int) -> _Bad:
    return _Bad(bool(np.isnan(values).any()), level >= 2 and bool(np.isinf(values).any()))


class _Search:
    """The search for the op that made the first nan of a computation."""

    def __init__(self, graphs: Sequence[UOp], level: int, device: str) -> None:
        self._level, self._device = level, device
        self._held = [Buffer.of(node) for node in UOp("SINK", tuple(graphs)).toposort("BUFFER")]
        self._nodes = [node for node in UOp("SINK", tuple(graphs)).toposort() if as_dtype(node.dtype).is_inexact]
        self._lines = source_lines.inherited(graphs)
        self._bad: dict[UOp, _Bad] = {}

    def run(self) -> None:
        """Raises NanError; returns where all nans were in what the program gave: constants that it named."""
        read = None
        for node in self._nodes:
            if node.op == "CONST":
                self._bad[node] = _of_values(node.attrs["value"], self._level)
            elif node.op == "BUFFER":
                if node.attrs["mesh"]:
                    list(self._looked_at(iter([node])))
                else:
                    self._bad[node] = _of_buffer(Buffer.of(node), self._level)
                read = node if self._bad[node] and read is None else read
        computed = (node for node in self._nodes if node not in self._bad and node.op not in ("SINK", "STORE"))
        for node in self._looked_at(computed):
            bad, sources = self._bad[node], [self._bad.get(source, _GOOD) for source in node.src]
            if (bad.nan and not any(one.nan for one in sources)) or (bad.infinite and not any(sources)):
                raise NanError(self._made(node, bad))
        if read is not None:
            what = f"a tensor that is read, {Buffer.of(read).kind},"
            raise NanError(
                f"detect_nan: {what} has a {self._bad[read].name} already, and no op of this computation has made "
                f"one{_at(self._lines.get(read, ()))}; look at the data, or set detect_nan before what computes it"
            )

    def _looked_at(self, nodes: Iterator[UOp]) -> Iterator[UOp]:
        """The nodes, once it is known of each whether it has a nan."""
        while chunk := list(islice(nodes, _AT_ONCE)):
            nans = self._values([Tensor(node).isnan().any() for node in chunk])
            infinite = [False] * len(chunk)
            if self._level >= 2:
                infinite = self._values([Tensor(node).isinf().any() for node in chunk])
            self._bad.update((node, _Bad(*of_node)) for node, *of_node in zip(chunk, nans, infinite, strict=True))
            yield from chunk

    def _values(self, scalars: Sequence[Tensor]) -> list[Any]:
        """The values of tensors, computed without a trace: no other tensor gets its value, none is kept in memory."""
        return [buffer.numpy().item() for buffer in realize([one._uop for one in scalars], None, self._device)]

    def _made(self, node: UOp, bad: _Bad) -> str:
        stack, rule = self._lines.get(node, ()), source_lines.gradient_rule_of(node)
        backward = f" in the backward pass (rule {rule})" if rule else ""
        kind = f"{node.dtype} {' × '.join(map(str, node.shape)) or 'scalar'}"
        name = f"{node.op} by {node.attrs['op']}" if "op" in node.attrs else node.op
        return (
            f"detect_nan: {name} ({kind}) made the first {bad.name}{backward}{_at(stack)}; "
            f"it is computed from {self._ranges(node) or 'nothing'}"
        )

    def _ranges(self, node: UOp) -> str:
        """The values of a node's sources, from the least to the greatest."""
        told = []
        for source in dict.fromkeys(node.src):
            dtype = as_dtype(source.dtype)
            if dtype.is_float and self._bad.get(source, _GOOD) == _GOOD:
                least, most = self._values([Tensor(source).min(), Tensor(source).max()])
                told.append(f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}")
        return "values of " + " and ".join(told) if told else ""


def _at(stack: Stack) -> str:
    return f" at {shown(stack[-1])}" if stack else ""
