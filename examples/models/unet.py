"""A small U-Net that removes noise, for diffusion models (Ho et al. 2020)."""

from __future__ import annotations

import itertools
import math

import rulegrad as torch
import rulegrad.nn as nn
from rulegrad.nn import functional as F


class Residual(nn.Module):
    """Two convolutions with group normalization; the vector of the time is added between them."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(4, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.skip(x)


class UNet(nn.Module):
    """Noisy pictures (n, channels, size, size) and times (n,) to the noise in them.

    On the way down the size halves and the width doubles; on the way up each level reads what it had on the way down.
    """

    def __init__(self, channels: int = 1, width: int = 32, levels: int = 2) -> None:
        super().__init__()
        self.width, time = width, 4 * width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        widths = [width * 2**level for level in range(levels + 1)]
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList([Residual(a, a, time) for a, _ in pairs])
        self.halve = nn.ModuleList([nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairs])
        self.middle = Residual(widths[-1], widths[-1], time)
        self.enlarge = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs])
        self.up = nn.ModuleList([Residual(2 * a, a, time) for a, _ in pairs])
        self.norm, self.last = nn.GroupNorm(4, width), nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float32, device=x.device) * (-math.log(10000.0) / half))
        angles = times[:, None] * rates
        time = self.time(torch.cat([angles.cos(), angles.sin()], dim=1))
        x = self.first(x)
        kept = []
        for block, halve in zip(self.down, self.halve):
            x = block(x, time)
            kept.append(x)
            x = halve(x)
        x = self.middle(x, time)
        for block, enlarge, beside in reversed(list(zip(self.up, self.enlarge, kept))):
            x = block(torch.cat([enlarge(x), beside], dim=1), time)
        return self.last(F.silu(self.norm(x)))
