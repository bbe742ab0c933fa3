"""Layers and models as rows of bench/schedule.py, written once for `torch.nn` and `rulegrad.nn`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from schedule_cases import Case, Work

WIDTH, HEADS, VOCABULARY = 768, 12, 50257  # of GPT-2 small


def models() -> Iterator[Case]:
    steps, batch, inputs, hidden = 64, 16, 128, 256
    operations = 2 * steps * batch * 4 * hidden * (inputs + hidden)
    weights = 4 * 4 * hidden * (inputs + hidden + 2)
    states = 4 * steps * batch
    yield Case("LSTM, 64 steps, batch 16, 128 -> 256", lstm, operations, weights + inputs * states, hidden * states)
    batch, sizes = 64, (784, 128, 128, 10)
    weights = sum(a * b for a, b in pairwise(sizes))
    operations = 2 * batch * (3 * weights - sizes[0] * sizes[1])
    parameters = 4 * (weights + sum(sizes[1:]))
    yield Case("MLP 784-128-128-10, batch 64, training step", perceptron, operations, 2 * parameters + 4 * batch * 784,
               2 * parameters, tolerance=1e-3)  # fmt: skip
    for length in (128, 127):
        one = _block_operations(length, WIDTH)
        yield Case(f"GPT-2 block, T = {length}", partial(gpt2_block, length=length), one,
                   4 * 12 * WIDTH**2, 4 * length * WIDTH, tolerance=1e-3)  # fmt: skip
    head = 2 * 128 * WIDTH * VOCABULARY
    yield Case("GPT-2 small, T = 128", gpt2, 12 * one + head, 4 * (12 * 12 * WIDTH**2 + WIDTH * VOCABULARY),
               4 * 128 * VOCABULARY, tolerance=1e-3, is_model=True)  # fmt: skip
    parameters = 4 * 11_689_512
    yield Case("ResNet-18, batch 1, forward", lambda library: resnet18(library, 1, False), 3.628e9, parameters, 4000,
               tolerance=1e-3, is_model=True)  # fmt: skip
    # The gradients of PyTorch in float32 and in float64 differ by 9 %: a few units turn from off to on.
    yield Case("ResNet-18, batch 8, training step", lambda library: resnet18(library, 8, True),
               8 * (3 * 3.628e9 - 0.236e9), 2 * parameters, 2 * parameters, tolerance=0.2, is_model=True)  # fmt: skip
    operations = 3 * 8 * (6 * _block_operations(256, 384) + 2 * 256 * 384 * 65)
    parameters = 4 * 6 * 12 * 384**2
    yield Case("nanoGPT 6x384, T = 256, batch 8, training step", nanogpt, operations, 2 * parameters, 2 * parameters,
               tolerance=1e-2, is_model=True)  # fmt: skip


def _block_operations(length: int, width: int) -> int:
    """Of one block on one sequence: four products with weights, and half of the two of attention."""
    return 2 * length * 12 * width**2 + 2 * length**2 * width


def lstm(library: Any) -> Work:
    model = library.module(lambda nn: nn.LSTM(128, 256))
    x = library.normal(64, 16, 128)
    return Work(lambda: model(x)[0])


def perceptron(library: Any) -> Work:
    def make(nn: Any) -> Any:
        layers = (nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
        return nn.Sequential(*layers)

    return _training(library, library.module(make), library.normal(64, 784), library.integers(10, 64))


def _training(library: Any, model: Any, x: Any, labels: Any) -> Work:
    """A step of training a classifier, with the statistics that its layers keep."""

    def forward() -> Any:
        scores = model(x)
        return library.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels)

    def changed() -> list[Any]:
        return [statistic for name, statistic in model.named_buffers() if "running" in name]

    return Work(forward, list(model.parameters()), trains=True, changed=changed)


def _block(nn: Any, functional: Any, width: int, heads: int) -> Any:
    """A block of GPT-2: causal attention and two products with a gelu between them, each on a norm, each added."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.into(self.norm1(x)).split(width, -1)
            q, k, v = (part.reshape(batch, length, heads, width // heads).transpose(1, 2) for part in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.back(functional.gelu(self.wide(self.norm2(x)), approximate="tanh"))

    return Block()


def _decoder(library: Any, layers: int, width: int, heads: int, length: int, vocabulary: int) -> Any:
    """Tokens to scores; the head is the table of tokens, as in GPT-2."""
    functional = library.functional

    def make(nn: Any) -> Any:
        class Decoder(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
                self.blocks = nn.ModuleList([_block(nn, functional, width, heads) for _ in range(layers)])
                self.norm = nn.LayerNorm(width)

            def forward(self, tokens: Any) -> Any:
                x = self.tokens(tokens) + self.places.weight
                for block in self.blocks:
                    x = block(x)
                return self.norm(x) @ self.tokens.weight.T

        return Decoder()

    return library.module(make)


def gpt2_block(library: Any, length: int) -> Work:
    model = library.module(lambda nn: _block(nn, library.functional, WIDTH, HEADS))
    x = library.normal(1, length, WIDTH)
    return Work(lambda: model(x))


def gpt2(library: Any) -> Work:
    model = _decoder(library, 12, WIDTH, HEADS, 128, VOCABULARY)
    tokens = library.integers(VOCABULARY, 1, 128)
    return Work(lambda: model(tokens))


def nanogpt(library: Any) -> Work:
    model = _decoder(library, 6, 384, 6, 256, 65)
    tokens, labels = library.integers(65, 8, 256), library.integers(65, 8 * 256)
    return _training(library, model, tokens, labels)


def resnet18(library: Any, images: int, training: bool) -> Work:
    model = library.module(_resnet18(library.functional))
    x = library.normal(images, 3, 224, 224)
    if training:
        return _training(library, model, x, library.integers(1000, images))
    model.eval()
    return Work(lambda: model(x))


def _resnet18(functional: Any) -> Callable[[Any], Any]:
    def make(nn: Any) -> Any:
        def convolution(inputs: int, outputs: int, kernel: int, stride: int) -> Any:
            return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)

        class Block(nn.Module):  # type: ignore[misc]
            def __init__(self, inputs: int, outputs: int, stride: int) -> None:
                super().__init__()
                self.conv1, self.norm1 = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
                self.conv2, self.norm2 = convolution(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
                self.is_changed = inputs != outputs
                if self.is_changed:
                    self.shortcut, self.norm3 = convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)

            def forward(self, x: Any) -> Any:
                y = functional.relu(self.norm1(self.conv1(x)))
                y = self.norm2(self.conv2(y))
                return functional.relu(y + (self.norm3(self.shortcut(x)) if self.is_changed else x))

        class Network(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.stem, self.norm = convolution(3, 64, 7, 2), nn.BatchNorm2d(64)
                widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
                self.blocks = nn.ModuleList([Block(a, b, 1 if a == b else 2) for a, b in pairwise(widths)])
                self.head = nn.Linear(512, 1000)

            def forward(self, x: Any) -> Any:
                x = functional.relu(self.norm(self.stem(x)))
                x = functional.max_pool2d(x, 3, stride=2, padding=1)
                for block in self.blocks:
                    x = block(x)
                return self.head(x.mean((2, 3)))

        return Network()

    return make
