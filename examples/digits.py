"""Trains a small network to read handwritten digits, on any device.

    python examples/digits.py
    python examples/digits.py --device numpy --steps 20 --losses losses.json

The 1,797 images of 8 by 8 pixels come with scikit-learn. A fifth of them is held out; the program prints the
share of those that the trained network reads right, and exits with status 1 when it is below 96 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from rulegrad import Tensor, config, nn, no_grad, optim

SEED = 7
BATCH = 128
HIDDEN = 128
WANTED_ACCURACY = 0.96
SHOW_EVERY = 20


class Network:
    """64 pixels to 10 scores, with one hidden layer."""

    def __init__(self) -> None:
        self.hidden = nn.Linear(64, HIDDEN)
        self.output = nn.Linear(HIDDEN, 10)

    def __call__(self, images: Tensor) -> Tensor:
        return self.output(self.hidden(images).relu())


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """All images (1797, 64), as float32 from 0 to 1, and their digits (1797,)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("This example takes its images from scikit-learn: run 'pip install scikit-learn' first.")
    found = load_digits()
    return (found.data / 16.0).astype(np.float32), found.target.astype(np.int32)


def split(images: np.ndarray, digits: np.ndarray) -> tuple[np.ndarray, ...]:
    """Four fifths to train on and one fifth to test on, always the same ones."""
    order = np.random.default_rng(SEED).permutation(len(images))
    held_out = len(images) // 5
    test, train = order[:held_out], order[held_out:]
    return images[train], digits[train], images[test], digits[test]


def batches(images: np.ndarray, digits: np.ndarray) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of one size for ever, in an order that depends on the seed only."""
    random = np.random.default_rng(SEED)
    while True:
        order = random.permutation(len(images))
        for first in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[first : first + BATCH]
            yield Tensor(images[chosen]), Tensor(digits[chosen])


def train(network: Network, data: Iterator[tuple[Tensor, Tensor]], steps: int) -> list[float]:
    """Adam for that many steps; returns the loss of each."""
    optimizer = optim.Adam(nn.state.get_parameters(network), lr=3e-3)
    losses: list[Tensor] = []
    with progress(steps) as bar:
        for step in range(steps):
            images, digits = next(data)
            optimizer.zero_grad()
            scores = network(images)
            loss = scores.cross_entropy(digits)
            accuracy = (scores.detach().argmax(axis=1) == digits).cast("float32").mean()
            loss.backward()
            optimizer.step(accuracy)
            losses.append(loss)
            if bar is not None:
                bar.update()
                if step % SHOW_EVERY == SHOW_EVERY - 1:
                    bar.set_postfix(loss=f"{loss.item():.4f}", accuracy=f"{accuracy.item():.1%}")
    return [loss.item() for loss in losses]


def progress(steps: int) -> Any:
    """A progress bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        return nullcontext()
    try:
        from tqdm import tqdm
    except ImportError:
        return nullcontext()
    return tqdm(total=steps, unit="step")


def accuracy_on(network: Network, images: np.ndarray, digits: np.ndarray) -> float:
    """The share of images that the network reads right."""
    with no_grad():
        return float((network(Tensor(images)).argmax(axis=1) == Tensor(digits)).cast("float32").mean().item())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="such as opencl or numpy; default: RULEGRAD_DEVICE, else the best")
    parser.add_argument("--steps", type=int, default=400, help="training steps (default: %(default)s)")
    parser.add_argument("--losses", type=Path, metavar="FILE", help="write the loss of each step as JSON")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    start = time.perf_counter()
    with config(device=options.device) if options.device else nullcontext():
        Tensor.manual_seed(SEED)
        train_images, train_digits, test_images, test_digits = split(*load_digits())
        network = Network()
        losses = train(network, batches(train_images, train_digits), options.steps)
        if options.losses:
            options.losses.write_text(json.dumps(losses), encoding="utf-8")
        accuracy = accuracy_on(network, test_images, test_digits)
        device = network.output.weight.device
    print(
        f"{options.steps} steps on {device} in {time.perf_counter() - start:.1f} s: "
        f"{accuracy:.2%} of {len(test_digits)} held-out images are right"
    )
    return 0 if accuracy >= WANTED_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
