"""Programs of tensors that every backend's tests compute, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rulegrad import Tensor


def check_programs(device: str, more: Callable[[Tensor], Sequence[Tensor]]) -> None:
    """Matrix products, softmax, convolution, gathers, gradients, and what `more` computes from a matrix of 33 x 40."""
    generator = np.random.default_rng(0)
    x, w, image, filters = (
        generator.normal(size=shape).astype(np.float32) for shape in [(33, 40), (40, 24), (2, 3, 9, 10), (4, 3, 3, 3)]
    )
    results = {}
    for name in (device, "numpy"):
        a, b = (Tensor(array, device=name, requires_grad=True) for array in (x, w))
        loss = ((a @ b).gelu().softmax(axis=1) ** 2).sum()
        loss.backward()
        assert a.grad is not None and b.grad is not None
        convolved = Tensor(image, device=name).conv2d(Tensor(filters, device=name), padding=1)
        taken = a.gather(0, Tensor(np.arange(40)[None] % 33, device=name))
        running = Tensor(np.arange(100), device=name).cumsum(0)
        found = (loss, a.grad, b.grad, convolved, taken, running, a.argmax(1), *more(a))
        results[name] = [value.numpy() for value in found]
    for here, there in zip(results[device], results["numpy"], strict=True):
        assert here.dtype == there.dtype
        np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)
