"""Ops that a user's rule file declares, called on tensors: values, gradients, `vmap`, on several devices.

    RULEGRAD_RULES=examples/my_op/my_ops.rules python examples/my_op/run.py numpy c

Prints for each device the values, and the largest difference to what the same function of ready-made ops gives.
"""

from __future__ import annotations

import sys

import numpy as np

from rulegrad import Tensor, apply_op, grad, vmap


def swish(x: Tensor) -> Tensor:
    """x / (1 + exp(-x)), elementwise, by the op of my_ops.rules."""
    result: Tensor = apply_op("SWISH", x)
    return result


def of_ready_made_ops(x: Tensor) -> Tensor:
    """The same without it."""
    return x / ((-x).exp() + 1)


def inner(a: Tensor, b: Tensor) -> Tensor:
    """The inner products of the last axes, by the op of my_ops.rules."""
    result: Tensor = apply_op("INNER", a, b)
    return result


def main(devices: list[str]) -> None:
    for device in devices:
        x = Tensor(np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4), device=device)
        pairs = [
            (f(x), g(x))
            for f, g in (
                (swish, of_ready_made_ops),
                (grad(lambda x: swish(x).sum()), grad(lambda x: of_ready_made_ops(x).sum())),
                (vmap(lambda row: swish(row).sum()), vmap(lambda row: of_ready_made_ops(row).sum())),
                (vmap(grad(lambda row: swish(row).sum())), vmap(grad(lambda row: of_ready_made_ops(row).sum()))),
                (lambda x: inner(x, x), lambda x: (x * x).sum(-1)),
                (grad(lambda x: inner(x, x).sum()), lambda x: 2 * x),
                (lambda x: vmap(inner, in_axes=(0, None))(x, x[0]), lambda x: x @ x[0]),
                (vmap(grad(lambda row: inner(row, row))), lambda x: 2 * x),
            )
        ]
        differences = [float(np.abs(one.numpy() - other.numpy()).max()) for one, other in pairs]
        print(device, swish(x)[0].numpy().round(4).tolist(), "differences below 1e-5:", max(differences) < 1e-5)


if __name__ == "__main__":
    main(sys.argv[1:] or ["numpy", "c"])
