"""The example of a language model, on a small file with random weights, beside the model in NumPy."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import nn

sys.path.insert(0, str(Path(__file__).parent))  # for tiny_llama
from tiny_llama import TinyLlama


@pytest.fixture(scope="module")
def chat() -> Any:
    spec = importlib.util.spec_from_file_location("chat", Path(__file__).parents[2] / "examples" / "chat.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small_parts(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts in parts of four tokens, and caches that grow soon."""
    monkeypatch.setattr(chat, "CHUNK", 4)
    monkeypatch.setattr(chat, "FIRST_LENGTH", 8)


@pytest.mark.parametrize("device", ["numpy", "c"])
@pytest.mark.usefixtures("small_parts")
def test_logits_of_a_prompt_and_of_tokens_one_by_one(chat: Any, tmp_path: Path, device: str) -> None:
    path = tmp_path / "tiny.gguf"
    tiny = TinyLlama(path)
    tokens = [int(token) for token in np.random.default_rng(1).integers(0, 40, 14)]
    expected = tiny.logits(tokens)
    with rg.config(device=device):
        talk = chat.Chat.__new__(chat.Chat)
        talk.model = chat.Llama(nn.gguf.open_gguf(path))
        talk.step = rg.jit(talk.model)
        found = talk.logits(tokens[:6])  # a whole part, and half of one
        np.testing.assert_allclose(found, expected[5], 2e-4, 2e-4)
        for place in range(6, 14):
            np.testing.assert_allclose(talk.logits([tokens[place]]), expected[place], 2e-4, 2e-4)
    assert talk.model.room == 16
    assert len(talk.step.reasons()) == 3  # parts of four tokens and of one, and of one for caches of 16


def test_which_token_is_chosen(chat: Any) -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    assert chat.chooser(0.0, 40, 0.95, 0)(logits) == 0
    assert {chat.chooser(1.0, 2, 1.0, seed)(logits) for seed in range(40)} == {0, 1}
    assert {chat.chooser(1.0, 0, 0.75, seed)(logits) for seed in range(40)} == {0, 1}
    counts = np.bincount([chat.chooser(1.0, 0, 1.0, seed)(logits) for seed in range(400)], minlength=4) / 400
    np.testing.assert_allclose(counts, np.exp(logits), atol=0.1)
    assert {chat.chooser(0.05, 0, 1.0, seed)(logits) for seed in range(40)} == {0}


def test_a_vocabulary_of_pairs_of_bytes(chat: Any) -> None:
    pytest.importorskip("tokenizers", reason='pip install "rulegrad[models]"')
    tokens = ["<|end|>", *"helo1", "Ġ", "he", "ll", "hell", "hello"]
    values = {
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [3] + [1] * 10,
        "tokenizer.ggml.merges": ["h e", "l l", "he ll", "hell o"], "tokenizer.ggml.pre": "smollm",
    }  # fmt: skip
    vocabulary = chat.tokenizer(values)
    found = vocabulary.encode("hello 11<|end|>").ids
    assert [tokens[k] for k in found] == ["hello", "Ġ", "1", "1", "<|end|>"]
    assert vocabulary.decode(found) == "hello 11"
