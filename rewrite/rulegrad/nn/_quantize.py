"""Linear layers of a model replaced by layers of few bits a weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rulegrad.errors import ConfigError, ShapeError
from rulegrad.nn._linear import Linear
from rulegrad.nn._quantized import ROUNDED, QuantizedLinear

Place = tuple[str, Any, Callable[[Any], None]]  # the path of an object, the object, what puts another into its place


def quantize(
    model: Any, format: str = "int8", only: Callable[[str, Linear], bool] | None = None
) -> dict[str, QuantizedLinear]:
    """Put a layer of few bits a weight into the place of each `Linear` of a model; returns the new ones by path.

    model: a module, or an object, list or dict that holds layers; it is changed. A layer that has two places keeps one
    new layer in both. Layers derived from `Linear` are left as they are. format: "int8" (8 bits and a factor for each
    output), or "q8_0", "q4_0" and "q4_1" (8 and 4 bits, a factor for 32 weights of a row, whose number of inputs is a
    multiple of 32). only: whether a layer is replaced, by its path. The new layers are not trained. Raises ConfigError
    for a model without such a layer and an unknown format, ShapeError, which names the layer, where a format does not
    fit; the model is not changed then.

    >>> from rulegrad import Tensor, nn
    >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    >>> before = model(Tensor.ones(1, 64))
    >>> list(nn.quantize(model, "int8", only=lambda path, layer: layer.weight.shape[0] > 10))
    ['0']
    >>> bool((model(Tensor.ones(1, 64)) - before).abs().max().item() < 0.02)
    True
    """
    if format not in ROUNDED:
        raise ConfigError(f"quantize: format={format!r}; choose from {', '.join(ROUNDED)}")
    if isinstance(model, Linear):
        raise ConfigError("quantize: the model is one layer, which has no place; use nn.QuantizedLinear.of(layer)")
    places = [(path, layer, put) for path, layer, put in _places(model, "", []) if type(layer) is Linear]
    places = [place for place in places if only is None or only(place[0], place[1])]
    if not places:
        raise ConfigError(f"quantize: {type(model).__name__} has no layer of the class Linear to replace")
    made: dict[int, QuantizedLinear] = {}
    for path, layer, _ in places:
        if id(layer) not in made:
            try:
                made[id(layer)] = QuantizedLinear.of(layer, format)
            except ShapeError as error:
                advice = "use format='int8', or leave it out by `only`"
                raise ShapeError(f"quantize: the layer {path}: {error.problem}; {advice}") from None
    for _, layer, put in places:
        put(made[id(layer)])
    return {path: made[id(layer)] for path, layer, _ in places}


def _places(item: Any, path: str, above: list[Any]) -> Iterator[Place]:
    """Everything that a model holds, each where it is held."""
    if any(item is other for other in above):
        return
    parts: Any
    if isinstance(item, dict):
        parts = item.items()
    elif isinstance(item, list):
        parts = enumerate(item)
    else:
        parts = getattr(item, "__dict__", {}).items()
    for name, part in list(parts):
        # the entries of a container are named by their places
        below = path if name == "_entries" else f"{path}.{name}" if path else str(name)
        if isinstance(part, (dict, list)) or (hasattr(part, "__dict__") and not isinstance(part, type)):
            yield below, part, _putter(item, name)
            yield from _places(part, below, [*above, item])


def _putter(item: Any, name: Any) -> Callable[[Any], None]:
    """A function that puts another object into the place of a part."""

    def put(new: Any) -> None:
        if isinstance(item, (dict, list)):
            item[name] = new
        else:
            setattr(item, name, new)

    return put
