"""Writes torch_values.json: what PyTorch computes for the cases in torch_functions.py, torch_layers.py and torch_steps.py.

    python tests/tensor/write_torch_values.py

needs torch, and nothing of rulegrad. The tests compare with the file, so they do not need torch; where it is installed
they also compare the file with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_functions import CASES, directions, weights
from torch_layers import LAYERS, first_values, flat

FILE = Path(__file__).with_name("torch_values.json")


def rounded(values: Any) -> list[float]:
    """The elements as a list of numbers with nine digits."""
    return [float(f"{value:.9g}") for value in np.asarray(values, dtype=np.float64).ravel()]


def of_function(name: str) -> dict[str, Any]:
    """The result, and the gradients projected to the directions."""
    case = CASES[name]
    inputs = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in case.inputs]
    result = case.call(torch.nn.functional, *inputs)
    (result.flatten() * torch.tensor(weights(result.numel()))).sum().backward()
    gradients = [tensor.grad for tensor in inputs if tensor.requires_grad]
    projections = [
        0.0 if gradient is None else float((gradient.numpy() * direction).sum())
        for gradient, direction in zip(gradients, directions(case), strict=True)
    ]
    return {"shape": list(result.shape), "result": rounded(result.detach()), "gradients": rounded(projections)}


def of_layer(name: str) -> dict[str, Any]:
    """The names and shapes of the tensors, the results, and what changed in training."""
    case = LAYERS[name]
    layer = case.make(torch.nn).double()
    shapes = {key: tuple(value.shape) for key, value in layer.state_dict().items()}
    layer.load_state_dict({key: torch.tensor(value) for key, value in first_values(shapes).items()})
    layer.train(case.training)
    with torch.no_grad():
        results = flat(case.call(layer, *map(torch.tensor, case.inputs)))
    changed = layer.state_dict() if case.training else {}
    return {
        "names": {key: list(shape) for key, shape in shapes.items()},
        "shapes": [list(result.shape) for result in results],
        "results": [rounded(result) for result in results],
        "changed": {key: rounded(value) for key, value in changed.items() if "running" in key or "tracked" in key},
    }


def values() -> dict[str, dict[str, Any]]:
    """Everything that is in the file."""
    torch.backends.mha.set_fastpath_enabled(False)
    return {
        "functions": {name: of_function(name) for name in CASES},
        "layers": {name: of_layer(name) for name in LAYERS},
    }


def main() -> None:
    """Write the file, one case a line."""
    parts = []
    for kind, cases in values().items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())
        parts.append(f'"{kind}": {{\n{lines}\n}}')
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
