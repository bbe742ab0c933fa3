"""Groups of tensors with one placement, as parameters of equal layers or inputs of a batch, and ways to place them."""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rulegrad.errors import ConfigError
from rulegrad.tensor.core import TensorCore
from rulegrad.workbench.scale.scripts import Training
from rulegrad.workbench.scale.traced_step import Placement

#: Layers with less than this share of all parameters are decided together.
_SMALL = 0.005
_REST = "small parameters"


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors that are placed in one way.

    A placement is that of the leading tensor, the largest. Others of its layer, such as a bias, are split where the
    leading one's axis 0 is, as `column_parallel` does it; tensors of the same shape as it is.
    """

    name: str
    tensors: Mapping[str, TensorCore]  #: by their names in the program
    leading: tuple[int, ...]  #: the shape of the leading tensor
    is_input: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all its tensors."""
        return sum(math.prod(one.shape) * one.dtype.itemsize for one in self.tensors.values())

    def placement(self, shape: Sequence[int], placement: Placement) -> Placement:
        """That of a tensor of the group, where the leading one has a placement."""
        if tuple(shape) == self.leading:
            return placement
        same = [k < len(shape) and tuple(shape[: k + 1]) == self.leading[: k + 1] for k in range(len(self.leading))]
        kept = (0 <= k < len(same) and same[k] and (k == 0 or self.is_input) for k in placement)
        return tuple(k if keep else -1 for k, keep in zip(placement, kept, strict=True))

    def choices(self, sizes: Sequence[int]) -> list[Placement]:
        """The placements on a mesh of these sizes whose parts are equally large: along the first two axes at most."""
        options = [(-1,) if size == 1 else (-1, *range(min(2, len(self.leading)))) for size in sizes]
        return [one for one in itertools.product(*options) if self._is_even(one, sizes)]

    def _is_even(self, placement: Placement, sizes: Sequence[int]) -> bool:
        counts = [1] * len(self.leading)
        for size, axis in zip(sizes, placement, strict=True):
            if axis >= 0:
                counts[axis] *= size
        return all(extent % count == 0 for extent, count in zip(self.leading, counts, strict=True))


def groups_of(training: Training, read: Sequence[TensorCore]) -> list[Group]:
    """The groups of a program's inputs, then of its parameters in the order of the model.

    read: the tensors that a step reads. Inputs are those with axes that are globals of the program; those of one first
    extent are decided together. Layers that differ in the first number of their names (`blocks.3.up`), with the same
    shapes, are one group. Raises ConfigError where the optimizer moves parameters that are not the model's.
    """
    parameters = training.parameters()
    known = {id(tensor) for tensor in parameters.values()}
    inputs: dict[int, dict[str, TensorCore]] = {}
    for name, tensor in training.inputs(read).items():
        if id(tensor) not in known:
            inputs.setdefault(tensor.shape[0], {})[name] = tensor
    found = [_group(", ".join(tensors), tensors, True) for tensors in inputs.values()]
    return found + _of_parameters(parameters)


def _of_parameters(parameters: Mapping[str, TensorCore]) -> list[Group]:
    layers: dict[str, dict[str, TensorCore]] = {}
    for name, tensor in parameters.items():
        layers.setdefault(name.rpartition(".")[0], {})[name] = tensor
    kinds: dict[tuple[str, object], list[str]] = {}
    for layer, tensors in layers.items():
        shapes = tuple((name.rpartition(".")[2], one.shape) for name, one in tensors.items())
        kinds.setdefault((starred(layer), shapes), []).append(layer)
    groups = []
    for (star, _), members in kinds.items():
        tensors = {name: one for layer in members for name, one in layers[layer].items()}
        groups.append(_group(star if len(members) > 1 else members[0] or "parameters", tensors, False))
    least = _SMALL * sum(group.nbytes for group in groups)
    small = [group for group in groups if group.nbytes < least or len(group.leading) < 2]
    large = [group for group in groups if group not in small]
    if len(small) > 1:
        rest = {name: tensor for group in small for name, tensor in group.tensors.items()}
        small = [_group(_REST, rest, False)]
    return large + small


def _group(name: str, tensors: Mapping[str, TensorCore], is_input: bool) -> Group:
    leading = max((one.shape for one in tensors.values()), key=lambda shape: (len(shape), math.prod(shape)))
    return Group(name, dict(tensors), tuple(leading), is_input)


def starred(name: str) -> str:
    """A name with `*` for its first number.

    >>> starred("blocks.3.mlp.0"), starred("head")
    ('blocks.*.mlp.0', 'head')
    """
    words = name.split(".")
    first = next((place for place, word in enumerate(words) if word.isdecimal()), None)
    return name if first is None else ".".join([*words[:first], "*", *words[first + 1 :]])


def patterns(placed: Mapping[str, Placement]) -> dict[str, Placement]:
    """The least patterns, for `shard_parameters`, that give each of these parameters its placement.

    What is not split has no pattern. A pattern that would fit another parameter too is not used.

    >>> patterns({"blocks.0.up.weight": (0,), "blocks.1.up.weight": (0,), "blocks.0.up.bias": (-1,)})
    {'blocks.*.up.weight': (0,)}
    """
    found: dict[str, Placement] = {}
    for name, placement in placed.items():
        if max(placement, default=-1) >= 0 and not any(fnmatch.fnmatchcase(name, known) for known in found):
            found[_pattern(name, placement, placed)] = placement
    return found


def _pattern(name: str, placement: Placement, placed: Mapping[str, Placement]) -> str:
    """Of the patterns for a name that fit no other placement the one for the most names, and as narrow as possible."""
    layer = starred(name).rpartition(".")[0]
    fitting = {one: fnmatch.filter(placed, one) for one in (name, starred(name), *([f"{layer}.*"] if layer else []))}
    right = [one for one, names in fitting.items() if all(placed[other] == placement for other in names)]
    return max(right, key=lambda one: len(fitting[one]))


def check_divides(groups: Sequence[Group], mesh: Mapping[str, int]) -> None:
    """Raises ConfigError for an axis of a mesh that divides no axis of any tensor into equal parts."""
    for place, (name, size) in enumerate(mesh.items()):
        alone = [size if k == place else 1 for k in range(len(mesh))]
        if size > 1 and all(len(group.choices(alone)) == 1 for group in groups):
            shapes = ", ".join(f"{group.name} {group.leading}" for group in groups)
            raise ConfigError(
                f"--mesh: {name}={size} divides the first two axes of no tensor into equal parts: {shapes}"
            )
