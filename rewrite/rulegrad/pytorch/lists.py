"""`torch._foreach_add_` and the like: a method of each tensor of a list, which optimizers are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rulegrad.errors import ConfigError
from rulegrad.ir.dtype import DType
from rulegrad.tensor.tensor import Tensor

__all__ = ["_group_tensors_by_device_and_dtype"]

#: What the last argument of some methods is called: PyTorch has it in one place for all.
_NAMED = {"addcmul": "value", "addcdiv": "value", "addcmul_": "value", "addcdiv_": "value"}
#: In place, of numbers and tensors.
_OTHER_NAMES = {"maximum_": "clamp_min_", "minimum_": "clamp_max_"}


def function_of_lists(name: str) -> Callable[..., Any]:
    """The function of lists of this name; those that end in `_` change the tensors of the first list.

    Arguments beside the first one are lists with an entry for each tensor, or values for all of them. Raises
    AttributeError where tensors have no such method.

    >>> import rulegrad
    >>> x, y = rulegrad.tensor([1.0]), rulegrad.tensor([2.0])
    >>> rulegrad._foreach_add_([x, y], [x, y], alpha=2); [x.item(), y.item()]
    [3.0, 6.0]
    """
    of_each = name.removeprefix("_foreach_")
    method = getattr(Tensor, _OTHER_NAMES.get(of_each, of_each), None)
    if method is None:
        raise AttributeError(f"module 'rulegrad' has no attribute {name!r}: tensors have no method {of_each}")
    in_place = of_each.endswith("_")
    renamed = {"ord": "p"} if of_each == "norm" else {}

    def function(tensors: Sequence[Tensor], *arguments: Any, **more: Any) -> Any:
        results = []
        for place, tensor in enumerate(tensors):
            given = [_entry(argument, place) for argument in arguments]
            named = {renamed.get(key, key): _entry(value, place) for key, value in more.items() if key != "scalars"}
            if of_each in _NAMED and (len(given) > 2 or "scalars" in more):
                named["value"] = given.pop() if len(given) > 2 else _entry(more["scalars"], place)
            results.append(method(tensor, *given, **named))
        return None if in_place else results

    function.__name__ = function.__qualname__ = name
    return function


def _entry(argument: Any, place: int) -> Any:
    return argument[place] if isinstance(argument, (list, tuple)) else argument


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[str, DType], tuple[list[list[Tensor | None]], list[int]]]:
    """`torch.utils._foreach_utils`: lists of as many tensors, in groups by device and dtype of the first list's.

    Beside the lists of a group are the places of its tensors, where they are asked for. Raises ConfigError.

    >>> x, y = Tensor([1.0], device="numpy"), Tensor([2], device="numpy")
    >>> groups = _group_tensors_by_device_and_dtype([[x, y, x]], with_indices=True)
    >>> [(str(dtype), places) for (_, dtype), (_, places) in groups.items()]
    [('float32', [0, 2]), ('int64', [1])]
    """
    if len({len(tensors) for tensors in tensorlistlist}) > 1:
        raise ConfigError(f"lists of {', '.join(str(len(one)) for one in tensorlistlist)} tensors; give equally many")
    groups: dict[tuple[str, DType], tuple[list[list[Tensor | None]], list[int]]] = {}
    rows: Iterable[tuple[Tensor | None, ...]] = zip(*tensorlistlist, strict=True)
    for place, row in enumerate(rows):
        if row[0] is None:
            raise ConfigError("the first list has a None; it says what device and dtype a group has")
        key = row[0].device, row[0].dtype
        lists, places = groups.setdefault(key, ([[] for _ in row], []))
        for one, tensor in zip(lists, row, strict=True):
            one.append(tensor)
        if with_indices:
            places.append(place)
    return groups
