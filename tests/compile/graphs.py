"""Random tensor graphs: the programs that schedules, indexing and lowering are tried on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from rulegrad.ir import UOp
from rulegrad.runtime.buffer import Buffer

MOST_ELEMENTS = 3000


@dataclass
class Graphs:
    """Draws a graph; keeps the buffers that it reads alive."""

    draw: st.DrawFn
    device: str
    buffers: list[Buffer] = field(default_factory=list)
    nodes: list[UOp] = field(default_factory=list)

    def leaf(self) -> UOp:
        shape = tuple(self.draw(st.lists(st.integers(1, 5), max_size=4)))
        buffer = Buffer(shape, "float32", self.device)
        # small integers: float32 sums and products of a few of them are exact in every order
        seed = self.draw(st.integers(0, 99))
        buffer.copy_in(np.random.default_rng(seed).integers(-3, 4, shape).astype("float32"))
        self.buffers.append(buffer)
        return buffer.uop

    def pick(self) -> UOp:
        return self.draw(st.sampled_from(self.nodes))

    def step(self) -> UOp:
        choices = [
            self.binary,
            self.unary,
            self.reshape,
            self.permute,
            self.expand,
            self.pad,
            self.shrink,
            self.flip,
            self.reduce,
            self.where,
        ]
        return self.draw(st.sampled_from(choices))(self.pick())

    def unary(self, x: UOp) -> UOp:
        return UOp(self.draw(st.sampled_from(["NEG", "ABS"])), (x,))

    def binary(self, x: UOp) -> UOp:
        others = [n for n in self.nodes if n.shape == x.shape] + [UOp.const(self.draw(st.integers(-2, 3)), "float32")]
        return UOp(self.draw(st.sampled_from(["ADD", "SUB", "MAX", "MIN"])), (x, self.draw(st.sampled_from(others))))

    def where(self, x: UOp) -> UOp:
        return UOp("WHERE", (UOp("CMPLT", (x, UOp.const(0, "float32"))), x, UOp.const(1, "float32")))

    def reshape(self, x: UOp) -> UOp:
        size, shape = math.prod(x.shape), []
        while size > 1 and len(shape) < 4:
            factor = self.draw(st.sampled_from([k for k in range(1, size + 1) if size % k == 0]))
            shape.append(factor)
            size //= factor
        if size > 1:
            shape.append(size)
        return UOp("RESHAPE", (x,), shape=tuple(shape))

    def permute(self, x: UOp) -> UOp:
        return UOp("PERMUTE", (x,), order=tuple(self.draw(st.permutations(range(len(x.shape))))))

    def expand(self, x: UOp) -> UOp:
        shape = tuple(self.draw(st.integers(1, 4)) if n == 1 else n for n in x.shape)
        return UOp("EXPAND", (x,), shape=shape)

    def pad(self, x: UOp) -> UOp:
        amounts = st.tuples(*[st.integers(0, 2)] * len(x.shape))
        return UOp("PAD", (x,), before=self.draw(amounts), after=self.draw(amounts))

    def shrink(self, x: UOp) -> UOp:
        begin = tuple(self.draw(st.integers(0, n - 1)) for n in x.shape)
        end = tuple(self.draw(st.integers(b + 1, n)) for b, n in zip(begin, x.shape, strict=True))
        return UOp("SHRINK", (x,), begin=begin, end=end)

    def flip(self, x: UOp) -> UOp:
        return UOp("FLIP", (x,), axes=tuple(k for k in range(len(x.shape)) if self.draw(st.booleans())))

    def reduce(self, x: UOp) -> UOp:
        axes = tuple(k for k in range(len(x.shape)) if self.draw(st.booleans()))
        return UOp("REDUCE", (x,), op=self.draw(st.sampled_from(["ADD", "MAX", "MIN"])), axes=axes)


@st.composite
def programs(draw: st.DrawFn, device: str, steps: int = 8) -> tuple[list[UOp], list[Buffer]]:
    """A few outputs of one graph, and the buffers that they read."""
    graphs = Graphs(draw, device)
    graphs.nodes = [graphs.leaf() for _ in range(draw(st.integers(1, 2)))]
    for _ in range(draw(st.integers(1, steps))):
        node = graphs.step()
        if math.prod(node.shape) <= MOST_ELEMENTS:
            graphs.nodes.append(node)
    outputs = [graphs.nodes[-1]]
    if draw(st.booleans()):
        outputs.append(graphs.pick())
    return outputs, graphs.buffers
