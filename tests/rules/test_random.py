"""Threefry-2x32 by rules: known answers, a plain Python version, the interpreter's, and every device's are one."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import engine
from rulegrad.compile.realize import realize
from rulegrad.interpreter.evaluation import evaluate
from rulegrad.ir import UOp
from rulegrad.runtime.buffer import Buffer

# (counter, key, result), as published with Random123: words 0 and 1 of each.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def packed(words: tuple[int, int]) -> int:
    return words[0] | words[1] << 32


def threefry(counter: int, key: int) -> int:
    """One block, in plain Python."""
    mask = 0xFFFFFFFF
    keys = [key & mask, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x, y = (counter + keys[0]) & mask, ((counter >> 32) + keys[1]) & mask
    for number in range(20):
        rotation = (13, 15, 26, 6, 17, 29, 16, 24)[number % 8]
        x = (x + y) & mask
        y = ((y << rotation | y >> (32 - rotation)) & mask) ^ x
        if number % 4 == 3:
            group = number // 4 + 1
            x, y = (x + keys[group % 3]) & mask, (y + keys[(group + 1) % 3] + group) & mask
    return x | y << 32


@pytest.fixture
def blocks() -> tuple[np.ndarray, np.ndarray]:
    """Counters and keys: the known ones, small counters, random bits."""
    bits = np.random.default_rng(0).integers(0, 2**64, (2, 200), dtype=np.uint64)
    known = [[packed(block[k]) for block in KNOWN] for k in (0, 1)]
    counters = np.concatenate([np.array(known[0], np.uint64), np.arange(100, dtype=np.uint64), bits[0]])
    keys = np.concatenate([np.array(known[1], np.uint64), np.full(100, 7, np.uint64), bits[1]])
    return counters, keys


@pytest.mark.parametrize("counter, key, result", KNOWN)
def test_plain_python_version(counter, key, result):
    assert threefry(packed(counter), packed(key)) == packed(result)


def test_the_rule_and_the_interpreter_agree(blocks, variable):
    leaves = [variable(k, array) for k, array in enumerate(blocks)]
    graph = UOp("THREEFRY", tuple(leaves))
    lowered = engine.rewrite(graph, "expand_random")
    assert "THREEFRY" not in {node.op for node in lowered.toposort()}
    wanted = np.array([threefry(int(c), int(k)) for c, k in zip(*blocks, strict=True)], np.uint64)
    for version in (graph, lowered, engine.rewrite(lowered, "symbolic")):
        np.testing.assert_array_equal(evaluate(version, dict(zip(leaves, blocks, strict=True))), wanted)


def test_every_device(blocks, device):
    buffers = [Buffer(array.shape, "uint64", device) for array in blocks]
    for buffer, array in zip(buffers, blocks, strict=True):
        buffer.copy_in(array)
    (result,) = realize([UOp("THREEFRY", tuple(buffer.uop for buffer in buffers))])
    wanted = [threefry(int(c), int(k)) for c, k in zip(*blocks, strict=True)]
    assert result.numpy().tolist() == wanted
