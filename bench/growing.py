"""Decoding with caches that grow by `cat`, written as in PyTorch and not captured: milliseconds a token.

    python bench/growing.py [--json] [--quick] [DEVICE ...]

A decoder of 6 layers of width 256. rulegrad makes the token's graph at each length: with general plans (the default)
the third length compiles kernels for all, without them each length compiles its own. "first" is the slowest of the
first tokens, with an empty cache on disk; "later" the median of those after the fourth.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from common import Row, arguments, find, in_child, report

WIDTH, HEADS, LAYERS, VOCABULARY = 256, 4, 6, 2000
FIRST = 4
WAYS = {"general plans": "1", "a plan for each length": "0"}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("devices", nargs="*", default=["c"], metavar="DEVICE")
    options = parser.parse_args()
    tokens = 12 if options.quick else 40
    torch = in_child(__file__, ("torch", "cpu", tokens), timeout=300) if find("torch") else {}
    rows = []
    for device in options.devices:
        for way, setting in WAYS.items():
            with tempfile.TemporaryDirectory() as cache:
                os.environ |= {"GENERAL_PLANS": setting, "RULEGRAD_CACHE": cache}
                ours = in_child(__file__, ("rulegrad", device, tokens), timeout=600)
            for key in ("first", "later"):
                row = Row(f"{device}, {way}: {key}", "ms")
                row.put("rulegrad", ours.get(key))
                row.put("torch", torch.get(key))
                rows.append(row)
    report(rows, options)


def measure(library: str, device: str, tokens: int) -> dict[str, float]:
    """Milliseconds of the slowest of the first tokens, and of the median of the others."""
    times = []
    start = time.perf_counter()
    for _ in decoded(importlib.import_module(library), device, tokens):
        end = time.perf_counter()
        times.append((end - start) * 1e3)
        start = end
    return {"first": max(times[:FIRST]), "later": statistics.median(times[FIRST:])}


def decoded(library: Any, device: str, tokens: int) -> Iterator[int]:
    """The tokens that a network with random weights writes."""
    nn, where = library.nn, {"device": device}
    library.manual_seed(0)
    embedding, positions = (nn.Embedding(count, WIDTH, **where) for count in (VOCABULARY, 512))
    head = nn.Linear(WIDTH, VOCABULARY, **where)
    norms = [nn.LayerNorm(WIDTH, **where) for _ in range(2 * LAYERS)]
    sizes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    layers = [[nn.Linear(*size, **where) for size in sizes] for _ in range(LAYERS)]
    caches: list[Any] = [None] * LAYERS
    token = 5
    with library.no_grad():
        for position in range(tokens):
            x = embedding(library.tensor([[token]], **where)) + positions(library.tensor([[position]], **where))
            for number, (qkv, out, up, down) in enumerate(layers):
                parts = qkv(norms[2 * number](x)).chunk(3, -1)
                q, k, v = (part.reshape(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
                if caches[number] is not None:
                    k, v = (library.cat(both, 2) for both in zip(caches[number], (k, v), strict=True))
                caches[number] = k, v
                scores = (q @ k.transpose(-1, -2)) * (WIDTH // HEADS) ** -0.5
                x = x + out((scores.softmax(-1) @ v).transpose(1, 2).reshape(1, -1, WIDTH))
                x = x + down(nn.functional.gelu(up(norms[2 * number + 1](x))))
            found = head(x)[0, -1].argmax()
            if library.__name__ == "rulegrad":  # caches too, which are part of the next graph otherwise
                library.Tensor.realize(found, *(one for cache in caches for one in cache))
            token = int(found.item())
            yield token


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        main()
