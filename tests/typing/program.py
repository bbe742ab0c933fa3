"""A user's program, checked by `mypy --strict` and run."""

from __future__ import annotations

import numpy as np

from rulegrad import Tensor, array_api, config, grad, nn, no_grad, optim, vmap


class Model:
    def __init__(self) -> None:
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        self.scale = Tensor([2.0], requires_grad=True)

    def __call__(self, x: Tensor) -> Tensor:
        return self.body(x) * self.scale


def loss(w: Tensor, x: Tensor) -> Tensor:
    return ((x * w).sum(axis=-1, keepdims=True) - 1.0).square().mean()


def main() -> float:
    x = Tensor(np.ones((2, 3), np.float32))
    model = Model()
    sgd = optim.SGD(nn.state.get_parameters(model), lr=0.1, momentum=0.9)
    error: Tensor = model(x).square().mean()
    error.backward()
    sgd.step()
    with no_grad(), config(debug=0):
        chosen: Tensor = x[0, :2].exp().reshape(1, -1)
    shape: tuple[int, ...] = chosen.shape
    gradient: Tensor = grad(loss)(x[0], x)
    rows: Tensor = vmap(loss, in_axes=(None, 0))(gradient, x)
    total: float = float(array_api.sum(rows)) + sum(shape) + len(x) + (2 - x).max().item()
    largest, places = x.max(dim=1)
    middle: Tensor = x.median(dim=-1, keepdim=True).values + x.nanmedian() + x.min(1, keepdims=True)
    least: Tensor = x.min(dim=0).indices + x.max().cast("int64") + x.aminmax().min.cast("int64")
    total += (largest * places).sum().item() + middle.sum().item() + least.sum().item() + x.shape[1:].numel()
    state: dict[str, Tensor] = nn.state.get_state_dict(model)
    return total + len(state)


if __name__ == "__main__":
    print(main())
