"""Loops as people write them in PyTorch; most never ask for a value. Milliseconds of the first and the second call.

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


def heat_in_place(t: Any, steps: int) -> Any:
    """The equation of heat, with the interior of the grid written to."""
    u = t.zeros(64, 64)
    u[20:40, 20:40] = 1.0
    for _ in range(steps):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] += 0.2 * (around - 4 * u[1:-1, 1:-1])
    return u


def advected(t: Any, steps: int) -> Any:
    """Burgers' equation with derivatives by Fourier transforms."""
    n = 128
    x, k = t.arange(n) * (2 * np.pi / n), t.fft.fftfreq(n, 1 / n)
    u = t.sin(x) + 0.5 * t.cos(3 * x)
    for _ in range(steps):
        spectrum = t.fft.fft(u)
        slope, curvature = t.fft.ifft(1j * k * spectrum).real, t.fft.ifft(-(k**2) * spectrum).real
        u = u + 0.0005 * (0.1 * curvature - u * slope)
    return u


def messages(t: Any, steps: int) -> Any:
    """Nodes of a graph that look at two others each."""
    x = t.sin(t.arange(400).reshape(100, 4) * 1.0)
    first, second = t.arange(100) * 7 % 100, t.arange(100) * 13 % 100
    for _ in range(steps):
        x = t.tanh(0.5 * (x[first] + x[second]) + 0.1 * x)
    return x


def likeliest(t: Any, steps: int) -> Any:
    """Viterbi's algorithm: the scores of the best paths, and where they come from."""
    moves, seen = t.sin(t.arange(64).reshape(8, 8) * 1.0), t.cos(t.arange(steps * 8).reshape(steps, 8) * 3.0)
    scores, sources = seen[0], []
    for k in range(1, steps):
        best, source = (scores[:, None] + moves).max(dim=0)
        scores = best + seen[k]
        sources.append(source)
    return t.cat([scores, sources[-1].float(), t.stack(sources).float().mean(1)])


def learned_table(t: Any, steps: int) -> Any:
    """Q-learning on a line: each step looks at the table and writes to it."""
    table, place, noise = t.zeros(10, 2), 0, np.random.default_rng(3)
    for _ in range(steps):
        action = int(table[place].argmax()) if noise.random() > 0.2 else int(noise.integers(2))
        after = min(max(place + (1 if action else -1), 0), 9)
        gain = 1.0 if after == 9 else 0.0
        table[place, action] += 0.5 * (gain + 0.9 * table[after].max() - table[place, action])
        place = 0 if after == 9 else after
    return table


def perceptron(t: Any, steps: int) -> Any:
    """Weights that change where a sample is on the wrong side."""
    x = t.tensor(np.random.default_rng(0).normal(size=(steps, 4)).astype(np.float32))
    side, weights = t.sign(x[:, 0] + x[:, 1]), t.zeros(4)
    for k in range(steps):
        if side[k] * (weights @ x[k]) <= 0:
            weights = weights + side[k] * x[k]
    return weights


LOOPS: dict[str, tuple[Loop, int]] = {
    "heat on a grid": (diffusion, 3000),
    "Lorenz's attractor": (attractor, 3000),
    "game of life": (life, 1000),
    "sixteen bodies": (bodies, 1500),
    "Sinkhorn": (transport, 1500),
    "descent by hand": (descent, 1500),
    "average in place": (smoothed, 5000),
    "states in a list": (filtered, 3000),
    "heat in place": (heat_in_place, 1000),
    "Burgers by Fourier": (advected, 500),
    "messages": (messages, 1000),
    "Viterbi": (likeliest, 200),
    "Q-learning": (learned_table, 500),
    "perceptron": (perceptron, 500),
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
