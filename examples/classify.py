"""Pictures and what they show: ResNet-18, ResNet-50 and a Vision Transformer, with torchvision's files or trained here.

    python examples/classify.py                                     a small ResNet learns handwritten digits
    python examples/classify.py --model vit                         a small Vision Transformer does
    python examples/classify.py --model resnet50 --weights resnet50.pth --picture cat.jpg

A file of weights is a state dict of torchvision (`.pth`, also as TorchScript, or safetensors); the five likeliest
classes are printed by their numbers. The 1,797 digits come with scikit-learn, and a fifth of them is held out.
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
from models.resnet import BasicBlock, ResNet, resnet18, resnet50
from models.vit import VisionTransformer, vit_b_16
from rulegrad import Tensor, nn, optim

FULL = {"resnet18": resnet18, "resnet50": resnet50, "vit": vit_b_16}
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue
BATCH = 128


def small(model: str) -> nn.Module:
    """A model for digits: pictures of 16 by 16 in one colour."""
    if model == "vit":
        return VisionTransformer(16, 4, depth=2, width=32, heads=4, hidden=64, classes=10, channels=1)
    return ResNet(BasicBlock, (1, 1), classes=10, width=16, channels=1)


def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The pictures (1797, 1, 16, 16), about -1 to 1, and their digits (1797,)."""
    found = load_digits()
    pictures = found.images.astype(np.float32).repeat(2, 1).repeat(2, 2)[:, None] / 8 - 1
    order = np.random.default_rng(0).permutation(len(pictures))
    return pictures[order], found.target[order]


def train(model: nn.Module, steps: int) -> float:
    """Train on four fifths of the digits; the share of the others that is read right."""
    pictures, labels = digits()
    held_out = len(pictures) // 5
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)

    @rg.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).cross_entropy(y)
        loss.backward()
        optimizer.step()
        return loss

    generator = np.random.default_rng(1)
    for number in range(steps):
        chosen = generator.integers(held_out, len(pictures), BATCH)
        loss = step(Tensor(pictures[chosen]), Tensor(labels[chosen]))
        if number % 20 == 0:
            print(f"step {number:3}: loss {loss.item():.3f}", file=sys.stderr)
    model.eval()
    with rg.no_grad():
        found = model(Tensor(pictures[:held_out])).argmax(1).numpy()
    return float((found == labels[:held_out]).mean())


def opened(path: Path) -> Tensor:
    """A picture as the models take it: its middle, 224 by 224, with ImageNet's mean and deviation: (1, 3, 224, 224)."""
    from PIL import Image

    picture = Image.open(path).convert("RGB")
    scale = 256 / min(picture.size)
    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
    left, top = (picture.width - 224) // 2, (picture.height - 224) // 2
    values = np.asarray(picture.crop((left, top, left + 224, top + 224)), np.float32) / 255
    return Tensor(((values - MEAN) / DEVIATION).astype(np.float32).transpose(2, 0, 1)[None].copy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=FULL, default="resnet18")
    parser.add_argument("--weights", type=Path, help="a state dict of torchvision; without it a small model is trained")
    parser.add_argument("--picture", type=Path, help="with --weights: what to look at")
    parser.add_argument("--steps", type=int, default=100, help="of training")
    given = parser.parse_args()
    if given.weights and given.picture:
        model = FULL[given.model]()
        model.load_state_dict(rg.load(given.weights))
        model.eval()
        with rg.no_grad():
            shares = model(opened(given.picture)).softmax(-1).numpy()[0]
        for place in np.argsort(-shares)[:5]:
            print(f"{shares[place]:6.1%}  class {place}")
    elif given.weights or given.picture:
        parser.error("--weights and --picture belong together")
    else:
        rg.manual_seed(0)
        start = time.perf_counter()
        accuracy = train(small(given.model), given.steps)
        print(f"{given.steps} steps in {time.perf_counter() - start:.1f} s: {accuracy:.1%} of the held-out digits")


if __name__ == "__main__":
    main()
