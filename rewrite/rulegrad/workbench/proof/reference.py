"""The meaning of ops without an `eval` line, by the paper that defines it and not by the rule that is to be proved."""

from __future__ import annotations

from typing import Any

import z3

# Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): the rotations of Threefry-2x32
# (their table 2), and Skein's parity constant in 32 bits.
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA
_ROUNDS = 20


def threefry(counter: Any, key: Any) -> Any:
    """Threefry-2x32-20 of two bit-vectors of 64 bits, word 0 in the low half."""
    words, keys = _halves(counter), _halves(key)
    keys.append(keys[0] ^ keys[1] ^ z3.BitVecVal(_PARITY, 32))
    words = [word + subkey for word, subkey in zip(words, keys)]
    for number in range(_ROUNDS):
        words[0] = words[0] + words[1]
        words[1] = z3.RotateLeft(words[1], _ROTATIONS[number % 8]) ^ words[0]
        if number % 4 == 3:
            injection = number // 4 + 1
            words[0] = words[0] + keys[injection % 3]
            words[1] = words[1] + keys[(injection + 1) % 3] + z3.BitVecVal(injection, 32)
    return z3.Concat(words[1], words[0])


def _halves(block: Any) -> list[Any]:
    return [z3.Extract(31, 0, block), z3.Extract(63, 32, block)]
