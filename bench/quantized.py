"""Linear layers of few bits a weight beside float32: memory, accuracy and time.

    python bench/quantized.py --device c

The network of examples/digits.py, wider, is trained on handwritten digits and then quantised; the accuracy is that on
the images that it has not seen. Times are of a captured call: one row through two layers of 4,096, where reading
weights is all, the least of many.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rulegrad as rg
from rulegrad import Tensor, nn, optim

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from digits import batches, load_digits, split

FORMATS = ("float32", "int8", "q8_0", "q4_1", "q4_0")
WIDTH = 4096


def trained() -> nn.Sequential:
    """A network of 64, 256, 256 and 10 values, after 400 steps."""
    Tensor.manual_seed(7)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    images, digits, _, _ = split(*load_digits())
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    @rg.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).cross_entropy(y)
        loss.backward()
        optimizer.step()
        return loss

    data = batches(images, digits)
    for _ in range(400):
        step(*next(data))
    return model


def nbytes(model: nn.Module) -> int:
    """Of the weights; biases stay float32."""
    layers = [part for _, part in model.named_modules() if isinstance(part, (nn.Linear, nn.QuantizedLinear))]
    return sum(layer.weight.nbytes for layer in layers)


def least(call: Callable[[], object], seconds: float = 1.0) -> float:
    """The least time of a call, in seconds."""
    call()
    found, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found = min(found, time.perf_counter() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="", help="such as c or opencl")
    with rg.config(device=parser.parse_args().device):
        _, _, images, digits = split(*load_digits())
        state = trained().state_dict()
        x = Tensor(images)
        exact = None
        print("| weights | bytes | right | largest difference of a score | 2 × 4,096²: bytes | a row, µs |")
        print("|---|---:|---:|---:|---:|---:|")
        for format in FORMATS:
            model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
            model.load_state_dict(state)
            Tensor.manual_seed(1)
            wide = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
            if format != "float32":
                nn.quantize(model, format)
                nn.quantize(wide, format)
            scores = model(x).detach().numpy()
            exact = scores if exact is None else exact
            right = float((scores.argmax(1) == digits).mean())
            row = Tensor.ones(1, WIDTH).realize()
            call = rg.jit(lambda row, wide=wide: wide(row))
            with rg.no_grad():
                microseconds = least(lambda call=call, row=row: call(row).numpy()) * 1e6
            difference = np.abs(scores - exact).max()
            print(
                f"| {format} | {nbytes(model):,} | {right:.2%} | {difference:.3g} of {np.abs(exact).max():.3g} | "
                f"{nbytes(wide):,} | {microseconds:,.0f} |"
            )


if __name__ == "__main__":
    main()
