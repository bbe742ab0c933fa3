"""Small programs as people write them, not captured: what a step costs, beside torch.

    python bench/steps.py [--json] [--quick] [--device NAME] [WORD ...]

Each program does a step that many loops do (an update of a model, a cell of a recurrent network, values that are asked
for), on small tensors, so that what is measured is mostly the building of graphs and the finding of plans. The least of
several turns, after turns that compile; both libraries in turn in one process, with one thread each. WORD: only those
whose names have it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import rulegrad
from common import Row, arguments, find, note, report

Program = Callable[[Any], Callable[[], Any]]


def numbers(t: Any, *shape: int) -> Any:
    """Data, which are in memory."""
    return t.tensor(np.random.default_rng(0).uniform(0.1, 1, shape).astype(np.float32))


def network(t: Any, optimizer: str) -> tuple[Any, Any]:
    model = t.nn.Sequential(t.nn.Linear(16, 32), t.nn.ReLU(), t.nn.Linear(32, 4))
    return model, getattr(t.optim, optimizer)(model.parameters(), lr=1e-3)


def training(optimizer: str) -> Program:
    """A step of a network with its loss asked for, as loops over batches do it."""

    def made(t: Any) -> Callable[[], Any]:
        model, update = network(t, optimizer)
        x, y = numbers(t, 8, 16), t.zeros(8, dtype=t.int64)

        def step() -> Any:
            update.zero_grad()
            loss = t.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            update.step()
            return loss.item()

        return step

    return made


def regression(t: Any) -> Callable[[], Any]:
    """Descent by hand: gradients of two parameters, and updates in place."""
    x = numbers(t, 32, 4)
    y = x.sum(1)
    w, b = t.zeros(4, requires_grad=True), t.zeros(1, requires_grad=True)

    def step() -> Any:
        loss = ((x @ w + b - y) ** 2).mean()
        loss.backward()
        with t.no_grad():
            w.sub_(0.01 * w.grad)
            b.sub_(0.01 * b.grad)
            w.grad = b.grad = None
        return loss.item()

    return step


def recurrent(t: Any) -> Callable[[], Any]:
    """A cell over 20 steps, whose states are put into a list."""
    cell, x = t.nn.GRUCell(8, 16), numbers(t, 4, 20, 8)

    def step() -> Any:
        with t.no_grad():
            h, states = t.zeros(4, 16), []
            for k in range(20):
                h = cell(x[:, k], h)
                states.append(h)
            return t.stack(states, 1).sum().item()

    return step


def filtered(t: Any) -> Callable[[], Any]:
    """A filter over 50 samples that writes into its result."""
    x = numbers(t, 4, 50)

    def step() -> Any:
        y, last = t.zeros(4, 50), t.zeros(4)
        for k in range(50):
            last = 0.9 * last + 0.1 * x[:, k]
            y[:, k] = last
        return y.sum().item()

    return step


def agent(t: Any) -> Callable[[], Any]:
    """Choices of a small policy, asked for one at a time, and their discounted returns."""
    model, _ = network(t, "SGD")
    state = numbers(t, 16)

    def step() -> Any:
        rewards, chosen = [], []
        with t.no_grad():
            for k in range(10):
                scores = t.nn.functional.softmax(model(state + 0.01 * k), -1)
                action = scores.argmax().item()
                chosen.append(scores[action])
                rewards.append(1.0 if action % 2 else 0.5)
            total, returns = 0.0, []
            for reward in reversed(rewards):
                total = reward + 0.9 * total
                returns.insert(0, total)
            return (t.stack(chosen).log() * t.tensor(returns)).sum().item()

    return step


def clusters(t: Any) -> Callable[[], Any]:
    """Two turns of k-means."""
    x = numbers(t, 200, 2)

    def step() -> Any:
        centers = x[:5]
        for _ in range(2):
            nearest = ((x[:, None] - centers[None]) ** 2).sum(-1).argmin(1)
            centers = t.stack([x[nearest == k].mean(0) for k in range(5)])
        return centers.sum().item()

    return step


def read(t: Any) -> Callable[[], Any]:
    """Ten small computations, each asked for."""
    x = numbers(t, 3, 4)

    def step() -> Any:
        return sum(float((x * k).sum()) for k in range(10))

    return step


def compared(t: Any) -> Callable[[], Any]:
    """Newton's method until it is near enough."""
    a = t.tensor([2.0, 3.0, 5.0])

    def step() -> Any:
        x = a
        for _ in range(20):
            before, x = x, 0.5 * (x + a / x)
            if (x - before).abs().max() < 1e-6:
                break
        return x.sum().item()

    return step


def rows(t: Any) -> Callable[[], Any]:
    """Rows of a matrix, one after the other, and a sum of them."""
    x = numbers(t, 16, 4)

    def step() -> Any:
        total = t.zeros(4)
        for row in x:
            total = total + row * row[0]
        return total.sum().item()

    return step


def table(t: Any) -> Callable[[], Any]:
    """A table of distances between texts, element by element."""

    def step() -> Any:
        d = t.zeros(6, 6)
        for i in range(6):
            d[i, 0] = i
            d[0, i] = i
        for i in range(1, 6):
            for j in range(1, 6):
                d[i, j] = t.minimum(t.minimum(d[i - 1, j] + 1, d[i, j - 1] + 1), d[i - 1, j - 1] + (i != j))
        return d[-1, -1].item()

    return step


def clipped(t: Any) -> Callable[[], Any]:
    """A step with the norm of the gradients clipped, whose loss is added to a sum that is read seldom."""
    model, update = network(t, "AdamW")
    x, y = numbers(t, 8, 16), t.zeros(8, 4)

    def step() -> Any:
        total = 0.0
        for _ in range(4):
            loss = t.nn.functional.mse_loss(model(x), y)
            update.zero_grad()
            loss.backward()
            t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()
            total += loss.detach()
        return total.item()

    return step


def evaluated(t: Any) -> Callable[[], Any]:
    """A network's classes of a batch, and how many of them are right."""
    model, _ = network(t, "SGD")
    x, y = numbers(t, 8, 16), t.zeros(8, dtype=t.int64)

    def step() -> Any:
        with t.no_grad():
            return (model(x).argmax(1) == y).sum().item() + (model(x).argmax(-1) == y).float().mean().item()

    return step


PROGRAMS: dict[str, Program] = {
    "a step with SGD": training("SGD"),
    "a step with Adam": training("Adam"),
    "4 steps with clipped gradients": clipped,
    "descent by hand": regression,
    "a batch evaluated": evaluated,
    "20 steps of a GRU cell": recurrent,
    "50 samples of a filter": filtered,
    "10 choices of a policy": agent,
    "2 turns of k-means": clusters,
    "10 sums asked for": read,
    "Newton's method": compared,
    "16 rows one by one": rows,
    "a table of 36 elements": table,
}


def times(steps: list[Callable[[], Any]], turns: int) -> list[float]:
    """Microseconds of each, the least of some turns that take them one after the other."""
    for step in steps:
        for _ in range(30):
            step()
    best = [float("inf")] * len(steps)
    for _ in range(turns):
        for k, step in enumerate(steps):
            start = time.perf_counter()
            for _ in range(10):
                step()
            best[k] = min(best[k], (time.perf_counter() - start) / 10 * 1e6)
    return best


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--device", default="c")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args()
    rulegrad.config.device = options.device
    torch = find("torch")
    if torch is not None:
        torch.set_num_threads(1)
    found = []
    for name, program in PROGRAMS.items():
        if options.words and not any(word in name for word in options.words):
            continue
        note(name)
        row = Row(name, "µs")
        libraries = [library for library in (rulegrad, torch) if library is not None]
        for library, least in zip(libraries, times([program(x) for x in libraries], 5 if options.quick else 20)):
            row.put(library.__name__, least)
        found.append(row)
    report(found, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
