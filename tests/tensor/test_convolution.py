"""Convolutions and pooling against loops in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor, grad, vmap
from rulegrad.errors import ShapeError


def _values(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 11 - 5).astype(np.float32)


def _convolution(x, w, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    x = np.pad(x, [(0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2])
    outputs, channels, kh, kw = w.shape
    height = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    width = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    result = np.zeros((x.shape[0], outputs, height, width), np.float32)
    for o in range(outputs):
        first = o // (outputs // groups) * channels
        for i, j in np.ndindex(height, width):
            rows = slice(i * stride[0], i * stride[0] + dilation[0] * (kh - 1) + 1, dilation[0])
            columns = slice(j * stride[1], j * stride[1] + dilation[1] * (kw - 1) + 1, dilation[1])
            window = x[:, first : first + channels, rows, columns]
            result[:, o, i, j] = (window * w[o]).sum(axis=(1, 2, 3))
    return result


def test_convolutions(device, check):
    x = _values(2, 4, 6, 5)
    cases = [
        (_values(3, 4, 3, 3), {}),
        (_values(3, 4, 1, 1), {}),
        (_values(3, 4, 3, 2), {"stride": (2, 1), "padding": (1, 2)}),
        (_values(2, 4, 2, 2), {"dilation": (2, 3)}),
        (_values(4, 2, 3, 3), {"groups": 2, "padding": (1, 1)}),
        (_values(3, 4, 2, 2), {"stride": (3, 3)}),
        (_values(3, 4, 3, 3), {"stride": (2, 2), "dilation": (1, 2)}),
    ]
    check(*((Tensor(x).conv2d(Tensor(w), **how), _convolution(x, w, **how)) for w, how in cases))


def test_bias_and_single_numbers(device, check):
    x, w, b = _values(1, 2, 4, 4), _values(3, 2, 3, 3), _values(3)
    expected = _convolution(x, w, (2, 2), (1, 1)) + b[:, None, None]
    check((Tensor(x).conv2d(Tensor(w), Tensor(b), stride=2, padding=1), expected))


def test_pooling(device, check):
    x = _values(2, 4, 6)
    blocks = x.reshape(2, 2, 2, 3, 2)
    overlapping = np.stack([x[:, i : i + 2, j : j + 4] for i in range(3) for j in range(3)], 1)
    check(
        (Tensor(x).max_pool2d(), blocks.max(axis=(2, 4))),
        (Tensor(x).avg_pool2d(2), blocks.mean(axis=(2, 4))),
        (Tensor(x).max_pool2d((2, 4), 1), overlapping.reshape(2, 3, 3, 2, 4).max(axis=(3, 4))),
        (Tensor(x).max_pool2d(1, 3), x[:, ::3, ::3]),
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Tensor.ones(1, 2, 4, 4).conv2d(Tensor.ones(3, 3, 3, 3)), r"conv2d: .*\(1, 2, 4, 4\).*\(3, 3, 3, 3\)"),
        (lambda: Tensor.ones(1, 2, 4, 4).conv2d(Tensor.ones(3, 2, 5, 5)), "kernel of 5"),
        (lambda: Tensor.ones(1, 2, 4, 4).conv2d(Tensor.ones(3, 2, 2, 2), stride=0), "stride=0"),
        (lambda: Tensor.ones(4).max_pool2d(), "no height and width"),
    ],
)
def test_errors(make, text):
    with pytest.raises(ShapeError, match=text):
        make()


GEOMETRIES = [
    ((2, 4, 6, 5), (3, 4, 3, 3), {"padding": 1}),
    ((2, 4, 6, 5), (3, 4, 1, 1), {"stride": 2}),
    ((1, 4, 7, 6), (3, 4, 3, 2), {"stride": (2, 1), "padding": (1, 2)}),
    ((2, 4, 9, 8), (2, 4, 2, 3), {"stride": (3, 2), "dilation": (2, 3), "padding": 2}),
    ((2, 4, 6, 5), (4, 2, 3, 3), {"groups": 2, "stride": 2}),
    ((1, 2, 6, 5), (3, 2, 4, 2), {"padding": "same"}),
    ((2, 3, 9), (4, 3, 3), {"stride": 2, "padding": 2}),
    ((1, 2, 4, 5, 3), (2, 2, 3, 2, 2), {"stride": (1, 2, 1), "padding": 1}),
]


TRANSPOSED = [
    ((2, 4, 6, 5), (4, 3, 4, 4), {"stride": 2, "padding": 1}),
    ((2, 4, 6, 5), (4, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2)}),
    ((1, 4, 3, 4), (4, 2, 3, 3), {"groups": 2, "stride": 3}),  # the taps do not meet all places
    ((2, 4, 4, 5), (4, 2, 2, 3), {"dilation": (3, 2), "stride": 2, "output_padding": (2, 1)}),  # more than the stride
    ((1, 2, 4, 4), (2, 3, 3, 3), {"padding": 2}),  # cuts off elements
    ((2, 3, 7), (3, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((1, 2, 2, 3, 2), (2, 2, 2, 1, 3), {"stride": (1, 2, 2)}),
]


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("images", "weights", "how", "name"),
    [(*geometry, "conv") for geometry in GEOMETRIES] + [(*geometry, "conv_transpose") for geometry in TRANSPOSED],
)
def test_gradients_are_adjoint(device, images, weights, how, name):
    """A convolution is linear in images and in weights: the products of its gradients with v are those of d with it of v."""
    x, w = (Tensor(_values(*shape), device=device, requires_grad=True) for shape in (images, weights))
    convolution = getattr(Tensor, f"{name}{len(images) - 2}d")
    y = convolution(x, w, **how)
    d = Tensor((np.arange(np.prod(y.shape)).reshape(y.shape) % 7 - 3).astype(np.float32), device=device)
    (y * d).sum().backward()
    u, v = (Tensor((_values(*shape) * 3 + 2) % 5, device=device) for shape in (images, weights))
    assert (x.grad * u).sum().item() == (convolution(u, w.detach(), **how) * d).sum().item()
    assert (w.grad * v).sum().item() == (convolution(x.detach(), v, **how) * d).sum().item()


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_gradients_of_gradients(device, name):
    """<d, x * w> by x, then by w, is what d has by w at the direction that x was changed in."""
    x, u = Tensor(_values(2, 3, 6, 6), device=device), Tensor(_values(2, 3, 6, 6) % 4, device=device)
    w = Tensor(_values(*((4, 3) if name == "conv2d" else (3, 4)), 3, 3), device=device)

    def loss(x, w):
        return (getattr(x, name)(w, stride=2, padding=1) * d).sum()

    d = Tensor(_values(2, 4, *((3, 3) if name == "conv2d" else (11, 11))), device=device)
    mixed = grad(lambda w: (grad(lambda x: loss(x, w))(x) * u).sum())(w)
    np.testing.assert_array_equal(mixed.numpy(), grad(lambda w: loss(u, w))(w).numpy())
    each = vmap(grad(lambda one: loss(one, w)))(x.reshape(2, 1, 3, 6, 6).expand(2, 2, 3, 6, 6))
    np.testing.assert_array_equal(
        each.sum(1)[0].numpy(), grad(lambda one: loss(one, w))(x[:1].expand(2, 3, 6, 6)).sum(0).numpy()
    )
