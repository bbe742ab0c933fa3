"""Networks on images and sound of sizes that vary: plans for all sizes beside a plan for each size, and PyTorch.

    python bench/images.py [resnet18] [photographs] [unet] [sound] [--device c] [--cold]

photographs: ResNet-18 on images whose height and width are any numbers. sound: the convolutions of a speech encoder
(wav2vec 2.0), which make one value of 320.

Each row is a size that was not seen before: the first call and the least of some later ones, in milliseconds, by the
clock, with all cores. `--cold` keeps nothing on disk, so that the device's compiler is part of a first call.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: the axes of a batch of one, by network, each size new
SIZES: dict[str, list[tuple[int, ...]]] = {
    "resnet18": [(3, n, n) for n in (224, 256, 288, 320, 192)],
    "photographs": [(3, 197, 260), (3, 234, 301), (3, 250, 187), (3, 188, 333), (3, 221, 222), (3, 300, 200)],
    "unet": [(3, n, n) for n in (128, 160, 192, 224, 96)],
    "sound": [(1, n) for n in (16000, 21397, 18230, 40001, 12345, 30003)],
}


def unet(library: Any) -> Any:
    nn = library.nn
    cat = library.cat

    def pair(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()),
            *(nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()),
        )

    class Network(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.middle = pair(3, 16), pair(16, 32), pair(32, 64)
            self.up2, self.left2 = nn.ConvTranspose2d(64, 32, 2, 2), pair(64, 32)
            self.up1, self.left1 = nn.ConvTranspose2d(32, 16, 2, 2), pair(32, 16)
            self.last, self.pool = nn.Conv2d(16, 1, 1), nn.MaxPool2d(2)

        def forward(self, x: Any) -> Any:
            first = self.first(x)
            second = self.second(self.pool(first))
            x = self.up2(self.middle(self.pool(second)))
            x = self.up1(self.left2(cat([x, second], 1)))
            return self.last(self.left1(cat([x, first], 1)))

    return Network()


def speech_encoder(library: Any) -> Any:
    nn, layers, channels = library.nn, [], 1
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
        layers += [nn.Conv1d(channels, 64, kernel, stride), nn.GELU()]
        channels = 64
    return nn.Sequential(*layers)


def network(library: Any, name: str) -> Any:
    if name == "sound":
        return speech_encoder(library).eval()
    if name == "unet":
        return unet(library).eval()
    from schedule_models import _resnet18

    return _resnet18(library.nn.functional)(library.nn).eval()


def times(network: Callable[[Any], Any], given: Callable[[], Any], count: int = 6) -> tuple[float, float]:
    """The first call and the least of others, in milliseconds; each of a new tensor, as results that somebody holds
    are not computed again."""
    found = []
    for _ in range(count):
        x = given()
        start = time.perf_counter()
        network(x).numpy()
        found.append((time.perf_counter() - start) * 1e3)
    return found[0], min(found[1:])


def rows(name: str, device: str) -> Sequence[tuple[str, tuple[float, ...]]]:
    import torch

    import rulegrad as rg
    from rulegrad.compile import forget_kernels

    here, peer = network(rg, name), network(torch, name)
    given = [np.random.default_rng(size).standard_normal((1, *size)).astype(np.float32) for size in SIZES[name]]
    with rg.config(device=device), rg.no_grad(), torch.no_grad():
        general = [times(here, functools.partial(rg.Tensor, x)) for x in given]
        forget_kernels()
        with rg.config(general_plans=0):
            own = [times(here, functools.partial(rg.Tensor, x)) for x in given]
        others = [times(peer, functools.partial(torch.from_numpy, x)) for x in given]
    names = [" x ".join(map(str, size[1:])) for size in SIZES[name]]
    return [(title, (*a, *b, *c)) for title, a, b, c in zip(names, general, own, others, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", choices=[*SIZES, []], help="all without any")
    parser.add_argument("--device", default="c")
    parser.add_argument("--cold", action="store_true", help="with an empty cache on disk")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.cold:
            os.environ["RULEGRAD_CACHE"] = folder
        for name in given.networks or SIZES:
            print(
                f"\n{name:12}{'all sizes: first':>18}{'later':>8}{'each: first':>14}{'later':>8}"
                f"{'PyTorch: first':>16}{'later':>8}"
            )
            for size, columns in rows(name, given.device):
                print(f"{size:12}" + "".join(f"{ms:{width}.1f}" for ms, width in zip(columns, (18, 8, 14, 8, 16, 8))))


if __name__ == "__main__":
    main()
