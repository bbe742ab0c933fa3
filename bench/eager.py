"""Single operations without capture, each result asked for, beside torch eager: microseconds a call.

    python bench/eager.py [--json] [--quick] [WORD ...]

What `bench/everyday.py` does not show: there everything is captured. Each library runs in a process of its own, as
PyTorch's threads spin after a call and slow what runs next. Results are computed (`realize()`), so a view is a copy in
memory here, and none of PyTorch's. WORD: only those whose names have it.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from common import Row, arguments, find, in_child, report

Cases = dict[str, Callable[[], Any]]


def cases(t: Any, F: Any) -> Cases:  # noqa: N803
    """Operations on 256 x 512 floats, on small images, and what is made of nothing."""
    generator = np.random.default_rng(0)

    def made(*shape: int) -> Any:
        return t.tensor(generator.standard_normal(shape).astype(np.float32))

    x, y, w, b = made(256, 512), made(256, 512), made(512, 512), made(512)
    rows, numbers = t.tensor(generator.integers(0, 256, 300)), t.tensor(generator.integers(0, 256, 512))
    mask = t.tensor(generator.random((256, 512)) > 0.5)
    image, kernel, grid = made(4, 16, 32, 32), made(16, 16, 3, 3), made(4, 32, 32, 2).clamp(-1, 1)
    sequence, queries = made(4, 20, 32), made(4, 32, 64)
    layers = {
        "LSTM": (t.nn.LSTM(32, 64, batch_first=True), sequence),
        "GRU": (t.nn.GRU(32, 64, batch_first=True), sequence),
        "LayerNorm": (t.nn.LayerNorm(512), x),
        "Linear": (t.nn.Linear(512, 512), x),
        "BatchNorm2d": (t.nn.BatchNorm2d(16), image),
    }
    attention = t.nn.MultiheadAttention(64, 4, batch_first=True).eval()
    found: Cases = {
        "x + y": lambda: x + y,
        "x * 2 + 1": lambda: x * 2 + 1,
        "x + b": lambda: x + b,
        "x += 0": lambda: x.add_(0.0),
        "x[0:10] = 0": lambda: _put(x),
        "x > y": lambda: x > y,
        "relu": lambda: x.relu(),
        "gelu": lambda: F.gelu(x),
        "exp": lambda: x.exp(),
        "clamp": lambda: x.clamp(-1, 1),
        "where": lambda: t.where(mask, x, y),
        "to int": lambda: x.int(),
        "to half": lambda: x.half(),
        "x @ w": lambda: x @ w,
        "F.linear": lambda: F.linear(x, w, b),
        "softmax": lambda: x.softmax(-1),
        "layer_norm": lambda: F.layer_norm(x, (512,), b, b),
        "sum": lambda: x.sum(),
        "sum of rows": lambda: x.sum(-1),
        "mean of columns": lambda: x.mean(0),
        "max": lambda: x.max(),
        "argmax": lambda: x.argmax(-1),
        "norm": lambda: x.norm(),
        "item": lambda: x.sum().item(),
        "cumsum": lambda: x.cumsum(-1),
        "sort": lambda: x.sort(-1)[0],
        "topk": lambda: x.topk(5)[0],
        "quantile": lambda: x.quantile(0.3),
        "x[rows]": lambda: x[rows],
        "index_select": lambda: x.index_select(0, rows),
        "index_add": lambda: x.index_add(0, rows[:256], y),
        "embedding": lambda: F.embedding(numbers, w),
        "gather": lambda: x.gather(1, numbers[:256, None]),
        "x[mask]": lambda: x[mask],
        "nonzero": lambda: mask.nonzero(),
        "one_hot": lambda: F.one_hot(numbers, 256),
        "unique": lambda: numbers.unique(),
        "bincount": lambda: numbers.bincount(),
        "cat": lambda: t.cat([x, y], 1),
        "stack": lambda: t.stack([x, y]),
        "pad": lambda: F.pad(x, (1, 1)),
        "roll": lambda: x.roll(3, 1),
        "tril": lambda: x.tril(),
        "outer": lambda: t.outer(b, b),
        "lerp": lambda: t.lerp(x, y, 0.3),
        "isclose": lambda: t.isclose(x, y),
        "cross_entropy": lambda: F.cross_entropy(x, numbers[:256]),
        "mse_loss": lambda: F.mse_loss(x, y),
        "cdist": lambda: t.cdist(x[:64], y[:64]),
        "conv2d": lambda: F.conv2d(image, kernel, padding=1),
        "max_pool2d": lambda: F.max_pool2d(image, 2),
        "interpolate": lambda: F.interpolate(image, scale_factor=2.0, mode="bilinear"),
        "grid_sample": lambda: F.grid_sample(image, grid, align_corners=False),
        "MultiheadAttention": lambda: attention(queries, queries, queries)[0],
        "zeros": lambda: t.zeros(256, 512),
        "arange": lambda: t.arange(1000),
        "eye": lambda: t.eye(256),
        "randn": lambda: t.randn(256, 512),
        "dropout": lambda: F.dropout(x, 0.5),
        "tensor(array)": lambda: t.tensor(_ARRAY),
    }
    for name, (layer, given) in layers.items():
        found[name] = _called(layer.eval(), given)
    return found


_ARRAY = np.zeros((256, 512), np.float32)


def _put(x: Any) -> Any:
    x[0:10] = 0.0
    return x


def _called(layer: Any, given: Any) -> Callable[[], Any]:
    def call() -> Any:
        result = layer(given)
        return result[0] if isinstance(result, tuple) else result

    return call


def seconds(work: Callable[[], Any], budget: float) -> float:
    """Of a call: the least of seven batches, which take `budget` seconds together."""
    for _ in range(8):
        work()
    begin = time.perf_counter()
    for _ in range(3):
        work()
    count = max(int(budget / 7 / ((time.perf_counter() - begin) / 3)), 1)
    best = float("inf")
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(count):
            work()
        best = min(best, (time.perf_counter() - begin) / count)
    return best


def child(library: str, quick: bool, words: list[str]) -> None:
    """Print the microseconds of each case, by its name."""
    module = importlib.import_module(library)
    functional = importlib.import_module(f"{library}.nn.functional")

    def computed(case: Callable[[], Any]) -> Callable[[], Any]:
        def work() -> None:
            result = case()
            if hasattr(result, "realize"):
                result.realize()

        return work

    found = {
        name: seconds(computed(case), 0.02 if quick else 0.15) * 1e6
        for name, case in cases(module, functional).items()
        if not words or any(word in name for word in words)
    }
    print(json.dumps(found))


def main() -> None:
    """Measure, and report."""
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2], sys.argv[3] == "True", sys.argv[4:])
        return
    parser = arguments(__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args()
    own = in_child(__file__, ["rulegrad", options.quick, *options.words], 600)
    other = in_child(__file__, ["torch", options.quick, *options.words], 600) if find("torch") else {}
    for library, answer in (("rulegrad", own), ("torch", other)):
        if "error" in answer:
            sys.exit(f"{library}: {answer['error']}")
    rows = []
    for name, value in own.items():
        row = Row(name, "us")
        row.put("rulegrad", value)
        if name in other:
            row.put("torch", other[name])
        rows.append(row)
    report(rows, options)


if __name__ == "__main__":
    main()
