"""Trains a small GPT on characters and writes text with it, as nanoGPT does.

    python examples/nanogpt/train.py
    python examples/nanogpt/train.py --text my_book.txt --steps 3000 --width 128 --layers 4 --amp bfloat16
    python examples/nanogpt/train.py --checkpoint run.checkpoint --metrics run.csv --tensorboard runs/gpt

Without `--text` it learns from the reference of the Python language that comes with Python. Ctrl-C, or any other end,
loses at most the steps since the last checkpoint: the same command goes on from there, with the same numbers. It exits
with status 1 where the loss has not fallen below that of guessing by the frequencies of characters.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from model import GPT  # beside this file

import rulegrad as rg
from rulegrad import Tensor, amp, config, data, nn, no_grad, optim, training

SEED = 11


class Windows(data.Dataset[Any]):
    """Stretches of a text: the characters, and those one further."""

    def __init__(self, tokens: np.ndarray[Any, Any], length: int) -> None:
        self.tokens, self.length = tokens, length

    def __len__(self) -> int:
        return len(self.tokens) - self.length

    def __getitem__(self, start: int) -> Any:
        window = self.tokens[start : start + self.length + 1]
        return window[:-1], window[1:]


def read_text(path: Path | None) -> str:
    if path is not None:
        return path.read_text(encoding="utf-8")
    return "\n".join(text for _, text in sorted(topics.items()))


def entropy(tokens: np.ndarray[Any, Any]) -> float:
    """The loss of who knows how often each character comes, and nothing else."""
    shares = np.bincount(tokens) / len(tokens)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def make_step(model: GPT, optimizer: optim.Optimizer, scaler: amp.GradScaler, low: str | None) -> Any:
    """One step as one captured computation: forward, backward, clipping, update."""

    @rg.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        with rg.autocast(dtype=low) if low else nullcontext():
            scores = model(x)
            loss = nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


def batches(loader: data.DataLoader, steps: int) -> Any:
    """Batches of as many epochs as it takes."""
    while steps > 0:
        for batch in loader:
            yield batch
            steps -= 1
            if not steps:
                return


def train(options: argparse.Namespace, model: GPT, tokens: np.ndarray[Any, Any]) -> float | None:
    """The mean loss of the last steps; None where a checkpoint has all of them already."""
    optimizer = optim.AdamW(model.parameters(), lr=options.rate, betas=(0.9, 0.95))
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps, eta_min=options.rate / 10)
    scaler = amp.GradScaler(enabled=options.amp == "float16")
    windows = Windows(tokens, options.length)
    loader = data.DataLoader(
        windows, options.batch, shuffle=True, drop_last=True, num_workers=options.workers, worker_type="thread"
    )
    checkpoint = None
    done, losses = 0, []
    if options.checkpoint:
        parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "loader": loader}
        checkpoint = training.Checkpoint(options.checkpoint, **parts)
        done = checkpoint.load().get("step", 0)
    metrics = None
    if options.metrics or options.tensorboard:
        metrics = training.Metrics(options.metrics, options.tensorboard, from_step=done + 1 if done else None)
    step = make_step(model, optimizer, scaler, options.amp)
    left = options.steps - done
    bar = training.Progress(batches(loader, left), "train", total=left, disable=options.quiet)
    for x, y in bar:
        losses.append(step(x, y))
        scheduler.step()
        done += 1
        bar.show(loss=losses[-1])
        if metrics is not None:
            metrics.add(done, loss=losses[-1], rate=optimizer.lr)
        if checkpoint is not None and (done % 50 == 0 or done == options.steps):
            checkpoint.save(step=done)
    if metrics is not None:
        metrics.close()
    return float(np.mean([loss.item() for loss in losses[-10:]])) if losses else None


def write(model: GPT, start: np.ndarray[Any, Any], count: int, temperature: float) -> list[int]:
    """`count` characters that follow, each drawn by its share."""
    model.eval()
    window = list(map(int, start))
    with no_grad():
        following = rg.jit(lambda x: (model(x)[0, -1] / temperature).softmax(-1))
        for _ in range(count):
            shares = following(Tensor([window[-model.block_size :]])).numpy().astype(np.float64)
            window.append(int(np.random.choice(len(shares), p=shares / shares.sum())))
    return window[len(start) :]


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--text", type=Path, help="a file to learn from, in UTF-8")
    parser.add_argument("--device", default="", help="such as c, opencl, numpy; the best that works without it")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=64, help="characters that the model sees")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--amp", choices=["bfloat16", "float16"])
    parser.add_argument("--checkpoint", help="a file to go on from, and to write each 50 steps")
    parser.add_argument("--metrics", help="a CSV file of losses")
    parser.add_argument("--tensorboard", help="a folder of losses for TensorBoard")
    parser.add_argument("--write", type=int, default=200, help="characters to write at the end")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--quiet", action="store_true", help="without the progress bar")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    if options.device:
        config.device = options.device
    rg.manual_seed(SEED)
    np.random.seed(SEED)
    text = read_text(options.text)
    characters = sorted(set(text))
    numbers = {character: number for number, character in enumerate(characters)}
    tokens = np.array([numbers[character] for character in text], np.int32)
    sizes = (options.width, options.heads, options.layers, options.dropout)
    model = GPT(len(characters), options.length, *sizes)
    print(f"{len(text):,} characters, {sum(p.size for p in model.parameters()):,} parameters")
    loss = train(options, model, tokens)
    guessing = entropy(tokens)
    if loss is not None:
        print(f"loss {loss:.3f}; {guessing:.3f} by the frequencies of characters alone")
    # Windows of one length, so that one captured computation writes all.
    written = write(model, tokens[: options.length], options.write, options.temperature)
    print("".join(characters[number] for number in written))
    return 0 if loss is None or loss < guessing else 1


if __name__ == "__main__":
    sys.exit(main())
