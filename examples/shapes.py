"""Trains a convolutional network on coloured pictures of CIFAR's size, 32 by 32 pixels, which this program draws.

    python examples/shapes.py
    python examples/shapes.py --epochs 10 --amp bfloat16 --workers 2
    python examples/shapes.py --checkpoint run.checkpoint --metrics run.csv --tensorboard runs/shapes

Discs, squares, triangles and crosses of any colour, size and place, in noise. Pictures are mirrored and shifted anew
each time they are read; an average of the parameters over the last steps is tested. With a checkpoint the same command
goes on where it was interrupted. It exits with status 1 where it tells apart fewer than 85 % of the pictures held out.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

import rulegrad as rg
from rulegrad import Tensor, amp, config, data, nn, no_grad, optim, training
from rulegrad.optim.swa_utils import AveragedModel, get_ema_avg_fn

SEED = 5
SIZE = 32
KINDS = ("disc", "square", "triangle", "cross")
WANTED_ACCURACY = 0.85
PADDING = 3

Array = np.ndarray[Any, Any]


def draw(kind: int, random: np.random.Generator) -> Array:
    """A picture (3, 32, 32) of float32: a shape in one colour on another, in noise."""
    y, x = np.mgrid[:SIZE, :SIZE] - random.uniform(11, 21, 2).reshape(2, 1, 1)
    radius = random.uniform(5, 10)
    distance = (
        np.hypot(x, y),
        1.2 * np.maximum(abs(x), abs(y)),
        np.maximum(1.3 * y, 0.9 * abs(x) * 1.6 - y * 0.8),
        np.where(np.minimum(abs(x), abs(y)) < radius / 3.5, np.maximum(abs(x), abs(y)), SIZE),
    )[kind]
    dark, bright = random.uniform(-1, 0, (3, 1, 1)), random.uniform(0.2, 1.2, (3, 1, 1))
    picture = np.where(distance < radius, bright, dark)
    return (picture + 0.2 * random.standard_normal(picture.shape)).astype(np.float32)


class Pictures(data.Dataset[Any]):
    """Pictures with the numbers of their kinds; `augment` mirrors and shifts them at random."""

    def __init__(self, count: int, seed: int, augment: bool) -> None:
        random = np.random.default_rng(seed)
        self.kinds = random.integers(len(KINDS), size=count)
        self.pictures = np.stack([draw(kind, random) for kind in self.kinds])
        self.augment = augment

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index: int) -> Any:
        picture = self.pictures[index]
        if self.augment:
            if np.random.rand() < 0.5:
                picture = picture[:, :, ::-1]
            padded = np.pad(picture, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)), mode="reflect")
            top, left = np.random.randint(0, 2 * PADDING + 1, 2)
            picture = padded[:, top : top + SIZE, left : left + SIZE]
        return picture, self.kinds[index]


def network(width: int) -> nn.Sequential:
    """Three convolutions, each with a norm and a pool that halves the picture, and a mean over what is left."""

    def stage(inputs: int, outputs: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]

    layers = [*stage(3, width), *stage(width, 2 * width), *stage(2 * width, 4 * width)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, len(KINDS)))


def make_step(model: nn.Module, optimizer: optim.Optimizer, scaler: amp.GradScaler, low: str | None) -> Any:
    """One step as one captured computation: forward, backward, update."""

    @rg.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        with rg.autocast(dtype=low) if low else nullcontext():
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.05)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


class Run:
    """All that training changes, and the step that changes it."""

    def __init__(self, options: argparse.Namespace, steps: int) -> None:
        self.model = network(options.width)
        self.averaged = AveragedModel(self.model, avg_fn=get_ema_avg_fn(0.95), use_buffers=True)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
        self.scheduler = optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=0.05, total_steps=steps)
        self.scaler = amp.GradScaler(enabled=options.amp == "float16")
        self.step = make_step(self.model, self.optimizer, self.scaler, options.amp)

    def parts(self) -> dict[str, Any]:
        names = ("model", "averaged", "optimizer", "scheduler", "scaler")
        return {name: getattr(self, name) for name in names}


def accuracy(model: Any, loader: data.DataLoader) -> float:
    """The share of pictures whose kind has the highest score."""
    model.eval()
    with no_grad():
        right = [(model(x).argmax(-1) == y).sum() for x, y in loader]
    model.train()
    return sum(count.item() for count in right) / len(loader.dataset)


def train(options: argparse.Namespace) -> float:
    """The accuracy of the averaged network on pictures that it has not seen."""
    pictures = Pictures(options.pictures, SEED, augment=True)
    # Random numbers of the augmentation are the workers' own, so they are the same however many there are.
    loader = data.DataLoader(pictures, options.batch, shuffle=True, drop_last=True, num_workers=options.workers)
    held_out = data.DataLoader(Pictures(256, SEED + 1, augment=False), 128)
    run = Run(options, options.epochs * len(loader))
    checkpoint = training.Checkpoint(options.checkpoint, loader=loader, **run.parts()) if options.checkpoint else None
    done = checkpoint.load().get("step", 0) if checkpoint else 0
    metrics = None
    if options.metrics or options.tensorboard:
        metrics = training.Metrics(options.metrics, options.tensorboard, from_step=done + 1 if done else None)
    for epoch in range(done // len(loader), options.epochs):
        bar = training.Progress(loader, f"epoch {epoch + 1}", disable=options.quiet)
        for x, y in bar:
            loss = run.step(x, y)
            run.scheduler.step()
            run.averaged.update_parameters(run.model)
            done += 1
            bar.show(loss=loss)
            if metrics is not None:
                metrics.add(done, loss=loss, rate=run.optimizer.lr)
            if checkpoint is not None and done % 10 == 0:
                checkpoint.save(step=done)
        print(f"epoch {epoch + 1}: {accuracy(run.averaged, held_out):.1%} of new pictures", flush=True)
    if metrics is not None:
        metrics.close()
    return accuracy(run.averaged, held_out)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="", help="such as c, opencl, numpy; the best that works without it")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--pictures", type=int, default=1536)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--amp", choices=["bfloat16", "float16"])
    parser.add_argument("--checkpoint", help="a file to go on from, and to write each 10 steps")
    parser.add_argument("--metrics", help="a CSV file of losses")
    parser.add_argument("--tensorboard", help="a folder of losses for TensorBoard")
    parser.add_argument("--quiet", action="store_true", help="without the progress bar")
    options = parser.parse_args(arguments)
    if options.device:
        config.device = options.device
    rg.manual_seed(SEED)
    found = train(options)
    print(f"{found:.1%} of new pictures are told apart")
    return 0 if found >= WANTED_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
