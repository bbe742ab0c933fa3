"""GGUF files that tests write, and a model of the Llama architecture in NumPy, from the definition of each part."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

_KINDS = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value_of(value: Any) -> bytes:
    """The kind of a value, and the value."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        inner = value_of(value[0])[:4]
        return struct.pack("<I", 9) + inner + struct.pack("<Q", len(value)) + b"".join(value_of(v)[4:] for v in value)
    number, kind = _KINDS[type(value)]
    return struct.pack("<I" + kind, number, value)


def write_gguf(path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[tuple[int, ...], int, bytes]]) -> None:
    """tensors: shape, the number of the format, and the bytes of each."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    header += b"".join(text(name) + value_of(value) for name, value in metadata.items())
    data = b""
    for name, (shape, kind, content) in tensors.items():
        header += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        header += struct.pack("<IQ", kind, len(data))
        data += content + b"\0" * (-len(content) % 32)
    path.write_bytes(header + b"\0" * (-len(header) % 32) + data)


def q8_0(matrix: np.ndarray[Any, Any]) -> tuple[bytes, np.ndarray[Any, Any]]:
    """A matrix as blocks of a half and 32 bytes, and the numbers that they stand for."""
    blocks = matrix.reshape(-1, 32)
    factor = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    integers = np.rint(blocks / factor.astype(np.float32)).astype(np.int8)
    content = b"".join(f.tobytes() + i.tobytes() for f, i in zip(factor, integers))
    return content, (integers * factor.astype(np.float32)).reshape(matrix.shape).astype(np.float32)


class TinyLlama:
    """Random weights, written to a file, and their logits."""

    def __init__(self, path: Path, heads: int = 4, groups: int = 2, size: int = 8, layers: int = 2) -> None:
        rng, width, hidden, words = np.random.default_rng(0), heads * size, 64, 40
        self.heads, self.groups, self.size, self.layers = heads, groups, size, layers
        shapes = {"token_embd": (words, width), "output_norm": (width,)}
        for k in range(layers):
            rows = {"attn_q": width, "attn_k": groups * size, "attn_v": groups * size, "attn_output": width}
            shapes |= {f"blk.{k}.{name}": (count, width) for name, count in rows.items()}
            shapes |= {f"blk.{k}.ffn_gate": (hidden, width), f"blk.{k}.ffn_up": (hidden, width)}
            shapes |= {f"blk.{k}.ffn_down": (width, hidden)}
            shapes |= {f"blk.{k}.attn_norm": (width,), f"blk.{k}.ffn_norm": (width,)}
        self.weights: dict[str, Any] = {}
        tensors = {}
        for name, shape in shapes.items():
            values = rng.normal(size=shape).astype(np.float32) / (1 if len(shape) == 1 else shape[1] ** 0.5)
            if len(shape) == 1:
                tensors[f"{name}.weight"], self.weights[name] = (shape, 0, values.tobytes()), values
            else:
                content, self.weights[name] = q8_0(values)
                tensors[f"{name}.weight"] = (shape, 8, content)
        metadata = {
            "general.architecture": "llama", "llama.block_count": layers, "llama.context_length": 1024,
            "llama.embedding_length": width, "llama.attention.head_count": heads,
            "llama.attention.head_count_kv": groups, "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.freq_base": 10000.0,
        }  # fmt: skip
        write_gguf(path, metadata, tensors)

    def logits(self, tokens: list[int]) -> np.ndarray[Any, Any]:
        """After each token, (tokens, words)."""
        w, length = self.weights, len(tokens)
        rates = 10000.0 ** (-np.arange(0, self.size, 2) / self.size)
        turn = np.exp(1j * np.arange(length)[:, None] * rates)[:, None, :]

        def norm(x: Any, weight: Any) -> Any:
            return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight

        def rotated(x: Any) -> Any:
            z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
            return np.stack([z.real, z.imag], -1).reshape(x.shape)

        x = w["token_embd"][tokens]
        for k in range(self.layers):
            y = norm(x, w[f"blk.{k}.attn_norm"])
            q, key, v = (
                (y @ w[f"blk.{k}.attn_{name}"].T).reshape(length, count, self.size)
                for name, count in (("q", self.heads), ("k", self.groups), ("v", self.groups))
            )
            q, key = rotated(q), np.repeat(rotated(key), self.heads // self.groups, 1)
            scores = np.einsum("ihd,jhd->hij", q, key) / self.size**0.5
            scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            found = np.einsum("hij,jhd->ihd", shares, np.repeat(v, self.heads // self.groups, 1))
            x = x + found.reshape(length, -1) @ w[f"blk.{k}.attn_output"].T
            y = norm(x, w[f"blk.{k}.ffn_norm"])
            gate = y @ w[f"blk.{k}.ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ w[f"blk.{k}.ffn_up"].T)) @ w[f"blk.{k}.ffn_down"].T
        return norm(x, w["output_norm"]) @ w["token_embd"].T
