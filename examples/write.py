"""Text by GPT-2: from a folder of Hugging Face's files, or by a small model that is trained here.

    pip install "rulegrad[models]"
    python examples/write.py                             a small model learns this project's documentation
    python examples/write.py --folder gpt2 --prompt "The tensor is"

A folder has `model.safetensors` or `pytorch_model.bin`, `config.json`, and `tokenizer.json` or `vocab.json` with
`merges.txt`. Keys and values of earlier tokens are in caches of fixed size, so that one capture serves every token.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import rulegrad as rg
from models.gpt2 import GPT2, Config
from rulegrad import Tensor, optim

DOCUMENTS = Path(__file__).resolve().parents[1] / "docs"
SMALL = Config(vocab_size=512, n_positions=128, n_embd=64, n_layer=2, n_head=4)
BATCH, LENGTH = 16, 32


def from_folder(folder: Path) -> tuple[GPT2, Any]:
    """The model and the vocabulary of a folder of Hugging Face's files."""
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    model = GPT2(Config(**{name: values[name] for name in names}))
    found = [path for name in ("model.safetensors", "pytorch_model.bin") if (path := folder / name).is_file()]
    if not found:
        raise SystemExit(f"{folder} has neither model.safetensors nor pytorch_model.bin")
    weights = {name.removeprefix("transformer."): value for name, value in rg.load(found[0]).items()}
    model.load_state_dict({name: weights[name] for name in model.state_dict()})  # files have masks, too
    model.eval()
    return model, vocabulary(folder)


def vocabulary(folder: Path) -> Any:
    """The byte-pair vocabulary of a folder."""
    if (whole := folder / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(whole))
    found = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    found.pre_tokenizer, found.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return found


def learned(steps: int) -> tuple[GPT2, Any]:
    """A small model and a vocabulary, both made of the documentation."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(DOCUMENTS.glob("*.md"))]
    words = Tokenizer(models.BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=512, initial_alphabet=alphabet, show_progress=False)
    )
    tokens = np.concatenate([words.encode(text).ids for text in texts])
    model = GPT2(SMALL)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)

    @rg.jit
    def step(inputs: Tensor, wanted: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(inputs).flatten(0, 1).cross_entropy(wanted.flatten())
        loss.backward()
        optimizer.step()
        return loss

    generator = np.random.default_rng(0)
    for number in range(steps):
        places = generator.integers(0, len(tokens) - LENGTH, BATCH)[:, None] + np.arange(LENGTH + 1)
        batch = tokens[places]
        loss = step(Tensor(batch[:, :-1].copy()), Tensor(batch[:, 1:].copy()))
        if number % 50 == 0:
            print(f"step {number:3}: loss {loss.item():.3f}", file=sys.stderr)
    model.eval()
    return model, words


class Writer:
    """A model with caches for one text."""

    def __init__(self, model: GPT2, length: int) -> None:
        model.make_cache(min(length, model.config.n_positions))
        self.model, self.length = model, 0
        self.step = rg.jit(model)

    def logits(self, tokens: list[int]) -> np.ndarray[Any, Any]:
        """The scores of what comes after these tokens, which the caches have from now on."""
        with rg.no_grad():
            found = self.step(Tensor([tokens]), Tensor(np.array(self.length)))
        self.length += len(tokens)
        return found.numpy()[0, -1]

    def write(self, prompt: list[int], count: int, temperature: float, seed: int) -> Iterator[int]:
        """So many tokens after the prompt, or as many as there is room for."""
        generator = np.random.default_rng(seed)
        logits = self.logits(prompt)
        for _ in range(count):
            shares = np.exp((logits - logits.max()) / temperature) if temperature else logits == logits.max()
            token = int(generator.choice(len(shares), p=shares / shares.sum()))
            yield token
            if self.length == self.model.h[0].attn.cache.shape[2]:
                return
            logits = self.logits([token])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of Hugging Face's files; without it a small model is trained")
    parser.add_argument("--prompt", default="The compiler is")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--temperature", type=float, default=0.7, help="0: always the most likely token")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=300, help="of training, without --folder")
    given = parser.parse_args()
    rg.manual_seed(given.seed)
    model, words = from_folder(given.folder) if given.folder else learned(given.steps)
    prompt = words.encode(given.prompt).ids
    writer = Writer(model, len(prompt) + given.tokens)
    found: list[int] = []
    times = [time.perf_counter()]
    for token in writer.write(prompt, given.tokens, given.temperature, given.seed):
        found.append(token)
        times.append(time.perf_counter())
    print(given.prompt + words.decode(found))
    print(f"[{len(found)} tokens, the fastest in {1000 * min(np.diff(times)):.1f} ms]", file=sys.stderr)


if __name__ == "__main__":
    main()
