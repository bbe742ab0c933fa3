"""Writes torch_values.json: what PyTorch computes for the cases in the files torch_*.py.

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
from torch_compositions import COMPOSITIONS
from torch_distributions import DISTRIBUTIONS, divergences, results
from torch_functions import CASES, directions, weights
from torch_layers import LAYERS, first_values, flat, slopes
from torch_points import POINTS
from torch_steps import (
    CLIPS,
    METRICS,
    OPTIMIZERS,
    PLATEAUS,
    SCHEDULES,
    SEARCHES,
    STEPS,
    course,
    gradients,
    has_gradient,
    search,
    starts,
    two_groups,
)

FILE = Path(__file__).with_name("torch_values.json")


def rounded(values: Any) -> list[float]:
    """The elements as a list of numbers with nine digits; complex ones as two numbers each."""
    values = np.asarray(values)
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], -1)
    return [float(f"{value:.9g}") for value in np.asarray(values, dtype=np.float64).ravel()]


def of_function(name: str) -> dict[str, Any]:
    """The result, and the gradients projected to the directions."""
    case = (CASES | COMPOSITIONS)[name]
    inputs = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in case.inputs]
    result = case.call(torch.nn.functional, *inputs)
    (result.flatten() * torch.tensor(weights(result.numel()))).sum().backward()
    gradients = [tensor.grad for tensor in inputs if tensor.requires_grad]
    projections = [
        0.0 if gradient is None else float((gradient.numpy() * direction).sum())
        for gradient, direction in zip(gradients, directions(case), strict=True)
    ]
    return {"shape": list(result.shape), "result": rounded(result.detach()), "gradients": rounded(projections)}


def of_points(name: str) -> dict[str, Any]:
    """The result, the gradients of its sum, and those of the sum of the gradients."""
    case = POINTS[name]
    inputs = [torch.tensor(array, requires_grad=True) for array in case.inputs]
    result = case.call(torch.nn.functional, *inputs)
    firsts = torch.autograd.grad(result.sum(), inputs, create_graph=True, allow_unused=True)
    total = sum((first.sum() for first in firsts if first is not None), torch.zeros(()))
    seconds = torch.autograd.grad(total, inputs, allow_unused=True) if total.requires_grad else [None for _ in inputs]
    parts = [
        [
            rounded(np.zeros(array.shape) if part is None else part.numpy(force=True))
            for part, array in zip(order, case.inputs)
        ]
        for order in (firsts, seconds)
    ]
    return {"result": rounded(result.detach()), "firsts": parts[0], "seconds": parts[1]}


def of_layer(name: str) -> dict[str, Any]:
    """The names and shapes of the tensors, the results, and what changed in training."""
    case = LAYERS[name]
    layer = case.make(torch.nn).double()
    shapes = {key: tuple(value.shape) for key, value in layer.state_dict().items()}
    layer.load_state_dict({key: torch.tensor(value) for key, value in first_values(shapes).items()})
    layer.train(case.training)
    inputs = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in case.inputs]
    results = flat(case.call(layer, *inputs))
    floats = [result for result in results if result.requires_grad]
    sum((result.flatten() * torch.tensor(weights(result.numel()))).sum() for result in floats).backward()
    tensors = {f"input {k}": tensor for k, tensor in enumerate(inputs)} | dict(layer.named_parameters())
    towards = slopes(name, {key: tuple(value.shape) for key, value in layer.named_parameters()})
    gradients = {key: tensors[key].grad for key in towards}
    changed = layer.state_dict() if case.training else {}
    return {
        "names": {key: list(shape) for key, shape in shapes.items()},
        "shapes": [list(result.shape) for result in results],
        "results": [rounded(result.detach()) for result in results],
        "gradients": {
            key: 0.0 if gradient is None else rounded((gradient.numpy() * towards[key]).sum())[0]
            for key, gradient in gradients.items()
        },
        "changed": {key: rounded(value) for key, value in changed.items() if "running" in key or "tracked" in key},
    }


def of_optimizer(name: str) -> dict[str, Any]:
    """The parameters after all steps, and the optimizer's state."""
    case = OPTIMIZERS[name]
    parameters = [torch.tensor(start, requires_grad=True) for start in starts(case.dtype)]
    optimizer = case.make(torch.optim, parameters)
    for step in range(STEPS):
        for place, (parameter, gradient) in enumerate(zip(parameters, gradients(case.dtype, step))):
            parameter.grad = torch.tensor(gradient) if has_gradient(case, place, step) else None
        optimizer.step()
    state = {
        place: {key: rounded(value) for key, value in kept.items() if value is not None}
        for place, kept in optimizer.state_dict()["state"].items()
    }
    return {
        "parameters": [rounded(parameter.detach()) for parameter in parameters],
        "state": {f"{place}.{key}": value for place, kept in state.items() for key, value in kept.items()},
    }


def of_search(name: str) -> dict[str, Any]:
    """The losses, the parameters after all steps, and how often a search has moved and has computed the loss."""
    dtype = "complex128" if "complex" in name else "float64"
    parameters = [torch.tensor(start, requires_grad=True) for start in starts(dtype)]
    losses, optimizer = search(torch.optim.LBFGS, name, parameters)
    state = optimizer.state_dict()["state"][0]
    return {
        "losses": rounded(losses),
        "parameters": [rounded(parameter.detach()) for parameter in parameters],
        "counts": [state["n_iter"], state["func_evals"], len(state["old_dirs"])],
    }


def of_schedule(name: str) -> list[list[float]]:
    """Rates and momenta of the groups, epoch for epoch."""
    parameters = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    optimizer = two_groups(torch.optim, SCHEDULES[name].optimizer, parameters)
    return [rounded(row) for row in course(torch.optim.lr_scheduler, optimizer, SCHEDULES[name], optimizer.step)]


def of_plateau(name: str) -> list[list[float]]:
    """The rates after each metric."""
    optimizer = two_groups(torch.optim, "SGD", [torch.zeros(1, requires_grad=True) for _ in range(2)])
    schedule, rows = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **PLATEAUS[name]), []
    for metric in METRICS:
        schedule.step(metric)
        rows.append(rounded([group["lr"] for group in optimizer.param_groups]))
    return rows


def of_clip(name: str) -> dict[str, Any]:
    """The norm, where it is one, and the gradients."""
    dtype = "complex128" if "complex" in name else "float64"
    parameters = [torch.tensor(start, requires_grad=True) for start in starts(dtype)]
    for parameter, gradient in zip(parameters, gradients(dtype, 0)):
        parameter.grad = torch.tensor(gradient)
    norm = CLIPS[name](torch.nn.utils, parameters)
    found = [rounded(parameter.grad) for parameter in parameters]
    return {"norm": [] if norm is None else rounded(norm), "gradients": found}


def of_distribution(name: str) -> dict[str, Any]:
    """The properties of the distribution, and the gradients of the sum of all but `cdf`."""
    found, parameters = results(
        torch.distributions, name, lambda array, is_parameter: torch.tensor(array, requires_grad=is_parameter)
    )
    asked = [one for key, one in found.items() if key != "cdf" and one.requires_grad and one.isfinite().all()]
    sum(one.sum() for one in asked).backward()
    gradients = [np.zeros(one.shape) if one.grad is None else one.grad for one in parameters]
    return {
        "results": {key: rounded(one.detach()) for key, one in found.items()},
        "gradients": [rounded(gradient) for gradient in gradients],
    }


def of_divergences() -> dict[str, Any]:
    """The divergences of pairs of kinds, and the gradients of the sum of those that are finite."""
    found, parameters = divergences(
        torch.distributions, lambda array, is_parameter: torch.tensor(array, requires_grad=is_parameter)
    )
    sum(one.sum() for one in found.values() if one.isfinite().all()).backward()
    return {
        "results": {key: rounded(one.detach()) for key, one in found.items()},
        "gradients": [rounded(one.grad) for one in parameters],
    }


def values() -> dict[str, dict[str, Any]]:
    """Everything that is in the file."""
    torch.backends.mha.set_fastpath_enabled(False)
    return {
        "functions": {name: of_function(name) for name in CASES | COMPOSITIONS},
        "points": {name: of_points(name) for name in POINTS},
        "layers": {name: of_layer(name) for name in LAYERS},
        "distributions": {name: of_distribution(name) for name in DISTRIBUTIONS},
        "divergences": {"all pairs": of_divergences()},
        "optimizers": {name: of_optimizer(name) for name in OPTIMIZERS},
        "searches": {name: of_search(name) for name in SEARCHES},
        "schedules": {name: of_schedule(name) for name in SCHEDULES},
        "plateaus": {name: of_plateau(name) for name in PLATEAUS},
        "clips": {name: of_clip(name) for name in CLIPS},
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
