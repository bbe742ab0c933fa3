"""One graph of the corpus: a name, its inputs, and a function that computes its outputs with any of four libraries."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Body = Callable[..., Any]  # (library, tensors...) -> a tensor or several


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that a graph reads.

    extents: names of sizes, or numbers. below: it has integers from 0 up to the size of this name; otherwise floats,
    from a normal distribution, or from 0.5 … 1.5 where it is positive.
    """

    extents: tuple[str, ...]
    below: str = ""
    positive: bool = False

    @classmethod
    def parse(cls, text: str) -> Input:
        """`rows columns`: the extents; `rows <classes`: integers below a size; `rows >0`: positive floats."""
        words = text.split()
        below = [word[1:] for word in words if word.startswith("<")]
        extents = tuple(word for word in words if word[0] not in "<>")
        return cls(extents, below[0] if below else "", ">0" in words)

    def make(self, sizes: dict[str, int], random: np.random.Generator) -> Array:
        shape = tuple(_size(name, sizes) for name in self.extents)
        if self.below:
            return random.integers(0, _size(self.below, sizes), shape).astype("int32")
        if self.positive:
            return random.uniform(0.5, 1.5, shape).astype("float32")
        return random.normal(size=shape).astype("float32")


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of the corpus.

    sizes: by name, the size that tests use and the one that is measured. kernels: it should become at most so many.
    """

    name: str
    family: str
    body: Body
    inputs: tuple[Input, ...]
    sizes: dict[str, tuple[int, int]]
    kernels: int | None = None

    def arrays(self, small: bool = False) -> list[Array]:
        """The inputs: the same numbers in every run and for every library."""
        sizes = {name: pair[0 if small else 1] for name, pair in self.sizes.items()}
        random = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [one.make(sizes, random) for one in self.inputs]

    def outputs(self, library: Any, tensors: Sequence[Any]) -> list[Any]:
        """The results, as tensors of the library; nothing is computed yet where the library is lazy."""
        found = self.body(library, *tensors)
        return list(found) if isinstance(found, tuple | list) else [found]


class Family:
    """A list of graphs that belong together; `graph` adds one, as a decorator of its body."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graphs: list[Graph] = []

    def __iter__(self) -> Iterator[Graph]:
        return iter(self.graphs)

    def graph(
        self, *inputs: str, name: str = "", kernels: int | None = None, **sizes: tuple[int, int]
    ) -> Callable[[Body], Body]:
        """Adds the decorated function as a graph, called by its name with spaces unless another is given."""

        def add(body: Body) -> Body:
            title = name or body.__name__.replace("_", " ")
            parsed = tuple(map(Input.parse, inputs))
            self.graphs.append(Graph(title, self.name, body, parsed, sizes, kernels))
            return body

        return add


def _size(name: str, sizes: dict[str, int]) -> int:
    return int(name) if name.isdecimal() else sizes[name]
