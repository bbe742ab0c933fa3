"""Digits out of noise: a small U-Net learns to remove noise from pictures, and then makes some (Ho et al. 2020).

    python examples/diffusion.py
    python examples/diffusion.py --steps 2000 --picture digits.png

Pictures are mixed with noise, more of it at later times; the network says which part is noise. To draw, it starts from
noise alone and takes away what it finds, in steps that reach back evenly (DDIM, Song et al. 2020).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import rulegrad as rg
from models.unet import UNet
from rulegrad import Tensor, optim

TIMES = 200  # steps from a picture to noise
KEPT = np.cumprod(1 - np.linspace(1e-4, 0.04, TIMES)).astype(np.float32)  # the share of the picture's variance
BATCH, JUMP, ROW = 64, 5, 8

Pictures = np.ndarray[Any, Any]  # float32, (n, 1, 8, 8), -1 to 1


def train(model: UNet, steps: int) -> float:
    """Train on the digits of scikit-learn; the mean loss of the last tenth of the steps (1: it finds nothing)."""
    pictures: Pictures = (load_digits().images.astype(np.float32) / 8 - 1)[:, None]
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)

    @rg.jit
    def step(mixed: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (model(mixed, times) - noise).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    generator, losses = np.random.default_rng(0), []
    for number in range(steps):
        chosen, times = generator.integers(0, len(pictures), BATCH), generator.integers(0, TIMES, BATCH)
        kept = KEPT[times][:, None, None, None]
        noise = generator.normal(size=(BATCH, 1, 8, 8)).astype(np.float32)
        mixed = kept**0.5 * pictures[chosen] + (1 - kept) ** 0.5 * noise
        losses.append(step(Tensor(mixed), Tensor(times.astype(np.float32)), Tensor(noise)))
        if number % 50 == 0:
            print(f"step {number:4}: loss {losses[-1].item():.3f}", file=sys.stderr)
    return float(np.mean([loss.item() for loss in losses[-max(1, steps // 10) :]]))


def sample(model: UNet, count: int, seed: int) -> Pictures:
    """New pictures."""
    model.eval()
    noise_of = rg.jit(lambda x, times: model(x, times))
    x = np.random.default_rng(seed).normal(size=(count, 1, 8, 8)).astype(np.float32)
    for now in range(TIMES - 1, -1, -JUMP):
        with rg.no_grad():
            noise = noise_of(Tensor(x), Tensor(np.full(count, now, np.float32))).numpy()
        clean = np.clip((x - (1 - KEPT[now]) ** 0.5 * noise) / KEPT[now] ** 0.5, -1, 1)
        before = KEPT[now - JUMP] if now >= JUMP else np.float32(1)
        x = before**0.5 * clean + (1 - before) ** 0.5 * noise
    return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--width", type=int, default=16, help="channels of the first level")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write what was made as a PNG")
    given = parser.parse_args()
    rg.manual_seed(given.seed)
    model = UNet(1, given.width, 2)
    start = time.perf_counter()
    loss = train(model, given.steps)
    print(f"[{given.steps} steps in {time.perf_counter() - start:.1f} s, loss {loss:.3f}]", file=sys.stderr)
    found = sample(model, ROW, given.seed)
    page = np.concatenate(list(found[:, 0]), axis=1)
    for line in page:
        print("".join(" .:-=+*#%@"[int(np.clip((value + 1) * 5, 0, 9))] * 2 for value in line))
    if given.picture:
        from PIL import Image

        shades = np.clip((page + 1) * 127.5, 0, 255).astype(np.uint8)
        Image.fromarray(shades.repeat(8, 0).repeat(8, 1)).save(given.picture)


if __name__ == "__main__":
    main()
