"""A small language model, and steps of its training, for tests of everything that may be split."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import rulegrad
from rulegrad import Tensor, nn, optim

_random = np.random.default_rng(7)
TOKENS = _random.integers(0, 11, (6, 5))
TARGETS = _random.integers(0, 11, (6, 5))


class Block(nn.Module):
    """A block of a transformer with its parts under names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        heads = [layer(y).reshape(*y.shape[:2], 2, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)]
        scores = heads[0] @ heads[1].transpose(-2, -1) * 0.5
        mask = Tensor.ones(y.shape[1], y.shape[1], device=y.device).tril() == 0
        weights = scores.masked_fill(mask, -np.inf).softmax(-1)
        x = x + self.out((weights @ heads[2]).transpose(1, 2).reshape(*x.shape))
        return x + self.down(self.up(x).gelu())


class Network(nn.Module):
    """A language model of some blocks."""

    def __init__(self, width: int = 8, blocks: Callable[[int], nn.Module] = Block, count: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, width)
        self.blocks: nn.Module = nn.Sequential(*(blocks(width) for _ in range(count)))
        self.head = nn.Linear(width, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embedding(tokens)))


def network(count: int = 1) -> Network:
    """Made by the interpreter, for which nothing is compiled."""
    rulegrad.manual_seed(3)
    with rulegrad.config(device="numpy"):
        model = Network(count=count)
        Tensor.realize(*model.parameters())
    return model


def losses(model: nn.Module, tokens: Tensor, targets: Tensor, steps: int = 3) -> list[float]:
    step = training_step(model)
    return [step(tokens, targets).item() for _ in range(steps)]


def training_step(model: nn.Module, optimizer: optim.Optimizer | None = None) -> Callable[[Tensor, Tensor], Tensor]:
    """A step, by an optimizer of its own where none is given, from inputs and targets to the loss."""
    optimizer = optimizer or optim.AdamW(model.parameters(), lr=0.01)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        scores = model(inputs)
        loss = scores.reshape(-1, scores.shape[-1]).cross_entropy(targets.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step
