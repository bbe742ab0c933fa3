"""Long loops that never ask for a value, as people write them in PyTorch: milliseconds of the first and second call.

    python bench/loops.py [--json] [--quick] [WORD ...]

Nothing is captured: each call builds the graph of all its steps, and reading the result computes it. "first" is the
first call with an empty cache on disk, "second" the next one in the process. `LONGEST_GRAPH=0` shows what it is without
subgraphs, and `CC` chooses the compiler. The values of both libraries are compared.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from common import Row, arguments, find, in_child, note, report

Loop = Callable[[Any, int], Any]


def diffusion(t: Any, steps: int) -> Any:
    """The equation of heat on a grid."""
    u = t.zeros(64, 64)
    u[30:34, 30:34] = 1.0
    for _ in range(steps):
        u = u + 0.1 * (t.roll(u, 1, 0) + t.roll(u, -1, 0) + t.roll(u, 1, 1) + t.roll(u, -1, 1) - 4 * u)
    return u


def attractor(t: Any, steps: int) -> Any:
    """Lorenz's equations by Runge and Kutta, with the whole path."""

    def slope(s: Any) -> Any:
        x, y, z = s[..., 0], s[..., 1], s[..., 2]
        return t.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)

    state, step = t.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.001]]), 0.005
    path = [state]
    for _ in range(steps):
        a = slope(state)
        b = slope(state + step / 2 * a)
        c = slope(state + step / 2 * b)
        state = state + step / 6 * (a + 2 * b + 2 * c + slope(state + step * c))
        path.append(state)
    return t.stack(path)[:200]


def life(t: Any, steps: int) -> Any:
    """Conway's game of life."""
    grid = (t.arange(64 * 64).reshape(64, 64) * 7 % 5 == 0).float()
    kernel = t.ones(1, 1, 3, 3)
    for _ in range(steps):
        around = t.nn.functional.pad(grid[None, None], (1, 1, 1, 1), mode="circular")
        count = t.nn.functional.conv2d(around, kernel)[0, 0] - grid
        grid = ((count == 3) | ((grid == 1) & (count == 2))).float()
    return grid


def bodies(t: Any, steps: int) -> Any:
    """Sixteen bodies that attract each other."""
    a = t.arange(16) * 1.0
    place, speed = t.stack([t.cos(a), t.sin(a), a * 0.1], 1), t.zeros(16, 3)
    for _ in range(steps):
        apart = place[None] - place[:, None]
        speed = speed + 0.001 * (apart / ((apart * apart).sum(-1) + 0.1)[..., None] ** 1.5).sum(1)
        place = place + 0.001 * speed
    return place


def transport(t: Any, steps: int) -> Any:
    """Sinkhorn's iterations."""
    kernel = t.exp(-((t.linspace(0, 1, 50)[:, None] - t.linspace(0, 1, 60)[None]) ** 2) / 0.1)
    u, v = t.ones(50), t.ones(60)
    for _ in range(steps):
        u = (1 / 50) / (kernel @ v)
        v = (1 / 60) / (kernel.T @ u)
    return u[:, None] * kernel * v[None]


def descent(t: Any, steps: int) -> Any:
    """Gradient descent by hand, whose losses are kept."""
    weight = t.zeros(10, requires_grad=True)
    x = t.sin(t.arange(500).reshape(50, 10) * 1.0)
    losses = []
    for _ in range(steps):
        loss = ((x @ weight - x.sum(1)) ** 2).mean()
        loss.backward()
        with t.no_grad():
            weight -= 0.05 * weight.grad
            weight.grad.zero_()
        losses.append(loss.detach())
    return t.stack(losses)[-5:]


def smoothed(t: Any, steps: int) -> Any:
    """An exponential average, sample by sample in place."""
    x, y = t.sin(t.arange(steps) * 0.1), t.zeros(steps)
    for k in range(1, steps):
        y[k] = 0.9 * y[k - 1] + 0.1 * x[k]
    return y


def filtered(t: Any, steps: int) -> Any:
    """States that are put into a list."""
    x = t.cos(t.arange(steps * 4).reshape(steps, 4) * 1.0)
    states = [t.zeros(4)]
    for k in range(steps):
        states.append(t.relu(states[-1] * 0.5 + x[k] - states[max(0, k - 3)] * 0.1))
    return t.stack(states)


LOOPS: dict[str, tuple[Loop, int]] = {
    "heat on a grid": (diffusion, 3000),
    "Lorenz's attractor": (attractor, 3000),
    "game of life": (life, 1000),
    "sixteen bodies": (bodies, 1500),
    "Sinkhorn": (transport, 1500),
    "descent by hand": (descent, 1500),
    "average in place": (smoothed, 5000),
    "states in a list": (filtered, 3000),
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only loops whose names have one of these words")
    options = parser.parse_args()
    rows = []
    for name in LOOPS:
        if options.words and not any(word in name for word in options.words):
            continue
        share = 10 if options.quick else 1
        torch = in_child(__file__, ("torch", name, share), timeout=300) if find("torch") else {}
        with tempfile.TemporaryDirectory() as cache:
            os.environ["RULEGRAD_CACHE"] = cache
            ours = in_child(__file__, ("rulegrad", name, share), timeout=600)
        if (
            "values" in ours
            and "values" in torch
            and not np.allclose(ours["values"], torch["values"], rtol=2e-3, atol=1e-4)
        ):
            note(f"{name}: the libraries' values differ")
        for call in ("first", "second"):
            row = Row(f"{name}, {LOOPS[name][1] // share:,} steps: {call}", "ms")
            row.put("rulegrad", ours.get(call))
            row.put("torch", torch.get(call))
            rows.append(row)
    report(rows, options)


def measure(library: str, name: str, share: int) -> dict[str, Any]:
    """Milliseconds of two calls, and some of the values."""
    loop, steps = LOOPS[name]
    module, found = importlib.import_module(library), {}
    for call in ("first", "second"):
        start = time.perf_counter()
        values = np.asarray(loop(module, steps // share).detach())
        found[call] = (time.perf_counter() - start) * 1e3
    return {**found, "values": values.ravel()[:: max(1, values.size // 50)].tolist()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        main()
