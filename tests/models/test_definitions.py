"""The models of `examples/models` beside PyTorch: the same files with `torch` in the place of `rulegrad`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.nn.state import safe_save

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(Path(__file__).parent))  # for the other tests of models
GENERATOR = np.random.default_rng(5)

Array = np.ndarray[Any, Any]


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A module of the folder of examples, by its name."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module


def with_torch(name: str) -> ModuleType:
    """The definitions of a file as PyTorch's."""
    text = (EXAMPLES / "models" / f"{name}.py").read_text(encoding="utf-8")
    module = ModuleType(f"{name}_of_torch")
    sys.modules[module.__name__] = module  # for dataclasses
    text = text.replace("import rulegrad as torch", "import torch").replace("rulegrad", "torch")
    exec(compile(text, module.__name__, "exec"), vars(module))
    return module


SMALL: dict[str, tuple[Callable[[Any], Any], tuple[Array, ...]]] = {
    "resnet": (lambda m: m.ResNet(m.Bottleneck, (1, 2), 10, 8), (GENERATOR.normal(size=(2, 3, 48, 48)),)),
    "vit": (lambda m: m.VisionTransformer(32, 8, 2, 32, 4, 64, 10), (GENERATOR.normal(size=(2, 3, 32, 32)),)),
    "bert": (
        lambda m: m.Bert(50, 16, 32, 2, 4, 64),
        (GENERATOR.integers(0, 50, (2, 9)), np.arange(9) < np.array([[9], [5]]), GENERATOR.integers(0, 2, (2, 9))),
    ),
    "gpt2": (lambda m: m.GPT2(m.Config(50, 16, 32, 2, 4)), (GENERATOR.integers(0, 50, (2, 9)),)),
    "unet": (lambda m: m.UNet(1, 8, 2), (GENERATOR.normal(size=(2, 1, 8, 8)), np.array([3.0, 150.0]))),
}


def as_float32(values: Array) -> Array:
    return values.astype(np.float32) if values.dtype == np.float64 else values


@pytest.mark.each_value
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("device", ["numpy", "c"])
def test_logits_are_those_of_torch(
    examples: Callable[[str], ModuleType], tmp_path: Path, name: str, device: str
) -> None:
    torch = pytest.importorskip("torch", reason="pip install torch")
    build, inputs = SMALL[name]
    torch.manual_seed(3)
    theirs = build(with_torch(name)).eval()
    torch.save(theirs.state_dict(), tmp_path / "weights.pt")
    with rg.config(device=device):
        ours = build(examples(f"models.{name}")).eval()
        ours.load_state_dict(rg.load(tmp_path / "weights.pt"))
        with rg.no_grad():
            found = rg.jit(ours)(*[Tensor(as_float32(values)) for values in inputs]).numpy()
    with torch.no_grad():
        expected = theirs(*[torch.from_numpy(as_float32(values)) for values in inputs]).numpy()
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_names_and_values_are_torchvisions(
    examples: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchvision's own source, whose state dict loads into ours, gives the same."""
    torch = pytest.importorskip("torch", reason="pip install torch")
    from test_torch_sources import STAND_INS
    from torch_sources import Package, folder_of, imported

    folder = folder_of("torchvision", "pip install --no-deps torchvision")
    theirs = Package("tv_definitions", folder, False, STAND_INS)
    torch.manual_seed(4)
    models = {
        "resnet": imported(monkeypatch, theirs, "models.resnet").resnet18(num_classes=10),
        "vit": imported(monkeypatch, theirs, "models.vision_transformer").VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10),
    }  # fmt: skip
    torch.nn.init.normal_(models["vit"].heads.head.weight)
    ours = {
        "resnet": examples("models.resnet").resnet18(10),
        "vit": examples("models.vit").VisionTransformer(32, 8, 2, 32, 4, 64, 10),
    }
    picture = GENERATOR.normal(size=(1, 3, 32, 32)).astype(np.float32)
    for name, model in models.items():
        model.eval()
        ours[name].load_state_dict({key: Tensor(value.numpy()) for key, value in model.state_dict().items()})
        with torch.no_grad(), rg.no_grad():
            found, expected = ours[name].eval()(Tensor(picture)).numpy(), model(torch.from_numpy(picture)).numpy()
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("kind", ["model.safetensors", "pytorch_model.bin"])
def test_gpt2_from_a_folder_of_hugging_face(examples: Callable[[str], ModuleType], tmp_path: Path, kind: str) -> None:
    """Token by token with caches as the whole text at once, from both kinds of file and both kinds of vocabulary."""
    pytest.importorskip("tokenizers", reason='pip install "rulegrad[models]"')
    write, gpt2 = examples("write"), examples("models.gpt2")
    rg.manual_seed(1)
    model = gpt2.GPT2(gpt2.Config(8, 16, 32, 2, 4))
    weights = {f"transformer.{name}": value for name, value in model.state_dict().items()}
    weights["transformer.h.0.attn.bias"] = Tensor.ones(16, 16).tril()  # as old files have it
    if kind == "pytorch_model.bin":
        torch = pytest.importorskip("torch", reason="pip install torch")
        torch.save({name: torch.from_numpy(value.numpy().copy()) for name, value in weights.items()}, tmp_path / kind)
    else:
        safe_save(weights, tmp_path / kind)
    sizes = {"vocab_size": 8, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4, "architectures": ["GPT2"]}
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    (tmp_path / "vocab.json").write_text(json.dumps({word: k for k, word in enumerate(["a", "b", "ab", "Ġ", "Ġab"])}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\nĠ ab\n")
    loaded, words = write.from_folder(tmp_path)
    assert words.encode("ab ab").ids == [2, 4] and words.decode([2, 4]) == "ab ab"
    tokens = [3, 1, 4, 1, 5, 2]
    with rg.no_grad():
        expected = model.eval()(Tensor([tokens])).numpy()[0]
    writer = write.Writer(loaded, 8)
    np.testing.assert_allclose(writer.logits(tokens[:3]), expected[2], 1e-4, 1e-5)
    for place in range(3, 6):
        np.testing.assert_allclose(writer.logits(tokens[place : place + 1]), expected[place], 1e-4, 1e-5)
    greedy = list(write.Writer(loaded, 8).write(tokens, 10, 0.0, 0))
    assert len(greedy) == 3 and greedy[0] == expected[5].argmax()  # two more fit, and one after the last


# ---- sound and pictures ----


def test_stretches_of_speech(examples: Callable[[str], ModuleType]) -> None:
    speech = examples("speech")
    second = speech.CHUNK / speech.RATE
    shares = np.array([0.1] * 10 + [0.9] * 20 + [0.4] * 5 + [0.9] * 5 + [0.1] * 10 + [0.9] * 3 + [0.0] * 9 + [0.8] * 10)
    found = speech.stretches(shares, 0.5)  # 0.4 is not silence yet, and three chunks are too few
    np.testing.assert_allclose(found, [(10 * second, 40 * second), (62 * second, 72 * second)])
    assert speech.stretches(np.zeros(5), 0.5) == []


def test_speech_beside_onnxruntime(examples: Callable[[str], ModuleType]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    if importlib.util.find_spec("silero_vad") is None:
        pytest.skip("pip install --no-deps silero-vad")
    speech = examples("speech")
    sound = speech.made()[0][: 3 * speech.RATE]
    found = speech.Detector(speech.model_file()).probabilities(sound)
    session = onnxruntime.InferenceSession(str(speech.model_file()), providers=["CPUExecutionProvider"])
    padded = np.concatenate([np.zeros(speech.BEFORE, np.float32), sound, np.zeros(speech.CHUNK, np.float32)])
    state, expected = np.zeros((2, 1, 128), np.float32), []
    for place in range(len(found)):
        chunk = padded[place * speech.CHUNK :][: speech.CHUNK + speech.BEFORE][None]
        share, state = session.run(None, {"input": chunk, "state": state, "sr": np.array(speech.RATE)})
        expected.append(share.item())
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert found[:40].max() < 0.5 < found[60:].max()


def test_the_drawn_picture_is_read(examples: Callable[[str], ModuleType]) -> None:
    if importlib.util.find_spec("rapidocr_onnxruntime") is None:
        pytest.skip("pip install --no-deps rapidocr-onnxruntime")
    read_picture = examples("read_picture")
    lines = read_picture.Reader(read_picture.models_folder()).lines(read_picture.drawn())
    assert [line.text for line in lines] == list(read_picture.LINES)
    assert all(line.confidence > 0.9 and line.box[0] < 40 for line in lines[:3])
