"""Sources of the inputs of a captured plan, and targets of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from rulegrad.tensor.core import TensorCore

#: Shape, dtype and device.
Kind: TypeAlias = tuple[tuple[int, ...], str, str]


def kind_of(tensor: TensorCore) -> Kind:
    """Shape, dtype and device of a tensor; of one in parts the device is that with its placement.

    The engine knows no such device, and leaves these calls to Python.
    """
    device, node = str(tensor.device), tensor._uop
    if node.op == "BUFFER" and node.attrs["mesh"]:
        device = f"{device}, a mesh {node.attrs['mesh']} with parts {node.attrs['placement']}"
    return tensor.shape, str(tensor.dtype), device


Where = Literal["argument", "state", "tensor", "gradient", "call", "constant"]


class Source(NamedTuple):
    """An input of a captured plan.

    In a trace `which` is the number of an argument; the tensor that is state; the number of an argument or the tensor
    whose gradient it is; the numbers of a call and of the tensor that it makes; the buffer of a constant. Once it is
    captured, arguments and state are tensors with a number: the arguments first, then those from outside.
    """

    kind: Where
    which: Any


class Output(NamedTuple):
    """A tensor that a replay computes."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    requires_grad: bool
    is_leaf: bool
    is_root: bool  # `backward` was called on it


class Recipe(NamedTuple):
    """How a replay makes a tensor of the result.

    `which` is the number of an output, or of a tensor from outside; a view is the `steps` from there.
    """

    kind: Literal["made", "given"]
    which: int
    steps: tuple[Any, ...] | None = None
    detached: bool = False
    obstacle: str = ""
