"""Convolutions of images that are repeated, reversed, interleaved or put together: one kernel copies what its tiles read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.nn import functional

noise = np.random.default_rng(0)
image, other = (noise.standard_normal((1, 4, 20, 36)).astype(np.float32) for _ in range(2))
small = noise.standard_normal((1, 4, 10, 18)).astype(np.float32)
halves = noise.standard_normal((4, 4, 2, 2)).astype(np.float32)
weights = {channels: noise.standard_normal((6, channels, 3, 3)).astype(np.float32) for channels in (1, 4, 8)}

#: the image that is convolved, on a device
IMAGES: dict[str, Callable[[str], Tensor]] = {
    "reversed": lambda d: Tensor(image, device=d).flip(3),
    "repeated": lambda d: functional.interpolate(Tensor(small, device=d), scale_factor=2),
    "interleaved": lambda d: functional.pixel_shuffle(Tensor(small, device=d), 2),
    "transposed convolution": lambda d: functional.conv_transpose2d(
        Tensor(small, device=d), Tensor(halves, device=d), stride=2
    ),
    "beside another": lambda d: rg.cat(
        [functional.interpolate(Tensor(small, device=d), scale_factor=2), Tensor(other, device=d)], dim=1
    ),
}


@pytest.mark.parametrize("device", ["c", "opencl"], indirect=True)
@pytest.mark.parametrize("name", IMAGES)
def test_values(name: str, device: str) -> None:
    def convolved(place: str) -> Tensor:
        x = IMAGES[name](place)
        return x.conv2d(Tensor(weights[x.shape[1]], device=place), padding=1)

    np.testing.assert_allclose(convolved(device).numpy(), convolved("numpy").numpy(), rtol=1e-4, atol=1e-4)
