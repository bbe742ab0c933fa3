"""Names that sources written for PyTorch import or set, and what they mean by a clone."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import ConfigError, GradientError, ModuleError, ShapeError


def test_switches_of_libraries_that_programs_set_change_nothing():
    """Lines from the heads of training scripts, where there is no CUDA device as well as where there is one."""
    rg.backends.cuda.matmul.allow_tf32 = True
    rg.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    assert rg.backends.cuda.matmul.allow_tf32 and not rg.backends.cudnn.allow_tf32
    rg.backends.cuda.matmul.allow_tf32 = False
    rg.backends.cuda.enable_flash_sdp(False)
    assert rg.backends.cuda.flash_sdp_enabled() and rg.backends.cudnn.version() is None
    for name in ("mha", "mkl", "nnpack", "openmp", "quantized"):
        assert not importlib.import_module(f"rulegrad.backends.{name}").is_available()
    rg.set_float32_matmul_precision("high")
    assert rg.get_float32_matmul_precision() == "highest"
    assert rg.cuda._initialized == rg.cuda.is_bf16_supported() == rg.cuda.is_available()
    rg.cuda.init()
    rg.cuda.ipc_collect()
    assert rg.cuda.OutOfMemoryError is rg.OutOfMemoryError and issubclass(rg.OutOfMemoryError, RuntimeError)


def test_names_that_sources_of_layers_losses_and_functions_import():
    types, names = (importlib.import_module(f"rulegrad.nn.{name}") for name in ("common_types", "_reduction"))
    assert types._size_2_t and types._size_any_t and types._ratio_3_t
    assert names.get_enum(names.legacy_get_string(False, None)) == names.legacy_get_enum(False, True) == 2
    with pytest.raises(ConfigError, match="reduction='some'"):
        names.get_enum("some")
    with pytest.raises(GradientError, match="from backward"):
        rg.autograd.Function.jvp(None)
    modes = importlib.import_module("rulegrad.autograd.grad_mode")
    assert modes.set_grad_enabled is rg.autograd.set_grad_enabled is rg.set_grad_enabled
    with rg.autograd.inference_mode():
        assert not rg.is_grad_enabled()
    with rg.no_grad():
        assert rg.inference_mode(False)(rg.is_grad_enabled)()
    assert importlib.import_module("rulegrad.nn.utils.clip_grad").clip_grad_norm_ is nn.utils.clip_grad_norm_
    layers = [nn.Conv2d(1, 1, 1), nn.ConvTranspose1d(1, 1, 1), nn.Linear(1, 1)]
    assert [isinstance(layer, nn.modules.conv._ConvNd) for layer in layers] == [True, True, False]
    assert isinstance(nn.Dropout2d(), nn.modules.dropout._DropoutNd)
    functions = importlib.import_module("rulegrad.functional")
    assert functions.einsum is rg.einsum and functions.Tensor is Tensor and not rg._C._is_tracing()
    scattered = importlib.import_module("rulegrad.nn.parallel.scatter_gather")
    assert scattered.scatter((1, 2), [0]) == [(1, 2)] and scattered.gather([3], 0) == 3
    with pytest.raises(ConfigError, match="2 devices"):
        scattered.scatter((1, 2), [0, 1])
    assert rg.futures.Future[Tensor] and rg.Future and rg.DeviceObjType


def test_a_gradient_by_a_clone_is_not_one_by_what_it_is_a_copy_of(any_device):
    """They were one node, so what is computed from the other was in it."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    copy = x.clone().requires_grad_()
    y = (x * 3 + copy * copy).sum()
    (slope,) = rg.autograd.grad(y, copy, create_graph=True)
    second = rg.autograd.grad(slope.sum(), copy)[0]
    assert slope.tolist() == [2.0, 4.0] and second.tolist() == [2.0, 2.0]
    assert [part.tolist() for part in rg.autograd.grad(y, [x, copy])] == [[5.0, 7.0], [2.0, 4.0]]
    y.backward()
    assert x.grad.tolist() == [5.0, 7.0]
    with rg.no_grad():
        assert not x.clone().requires_grad
    traced: dict[str, int] = {}
    for name, given in (("product", lambda: x * 2), ("clone", x.clone)):
        calls: list[Tensor] = []
        step = rg.jit(lambda t, calls=calls: calls.append(t) or t * 2)
        for _ in range(3):
            step(given()).tolist()
        traced[name] = len(calls)
    assert traced["clone"] == traced["product"]


def test_the_data_of_a_result_that_is_set_keeps_its_gradient(any_device):
    """As networks do that round on the way; of a view, what it is a view of keeps its values."""
    for of in (lambda h: h, lambda h: h.view(3)):
        w = Tensor([0.5, -2.0, 1.5], requires_grad=True)
        h = w * 3
        rounded = of(h)
        rounded.data = rounded.data.sign()
        (rounded * rounded * 2).sum().backward()
        assert rounded.tolist() == [1.0, -1.0, 1.0] and w.grad.tolist() == [12.0, -12.0, 12.0]
    assert h.tolist() == [1.5, -6.0, 4.5]
    x = Tensor([1.0, 2.0, 3.0])
    part, whole = x[1:], x.data
    part.data = Tensor([8.0, 9.0])
    whole.data = whole * 2
    assert (x.tolist(), part.tolist(), whole.tolist()) == ([1.0, 2.0, 3.0], [8.0, 9.0], [2.0, 4.0, 6.0])


def test_hooks_of_a_state():
    """Inner ones first; one may give another dict, as by PyTorch's older name."""
    seen = []
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, bias=False))
    model[0].register_state_dict_post_hook(
        lambda module, state, prefix, _: seen.append((type(module), prefix, len(state)))
    )
    handle = model._register_state_dict_hook(lambda module, state, prefix, _: {f"{prefix}all": len(state) + len(seen)})
    assert model.state_dict(prefix="a.") == {"a.all": 4} and seen == [(nn.Linear, "a.0.", 3)]
    handle.remove()
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight"]


def test_classes_that_change_the_states_of_theirs():
    """As FrozenBatchNorm2d of torchvision does, and layers that rename what older versions of theirs have saved."""

    class Renamed(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
            state_dict.pop(f"{prefix}num_batches_tracked", None)
            if f"{prefix}kernel" in state_dict:
                state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}kernel")
            if f"{prefix}wrong" in state_dict:
                errors.append("a wrong one")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[f"{prefix}kernel"] = destination.pop(f"{prefix}weight")

    model = nn.Sequential(Renamed(1, 1, bias=False))
    state = {"0.kernel": Tensor([[3.0]]), "0.num_batches_tracked": Tensor(1)}
    model.load_state_dict(state)
    assert model[0].weight.item() == 3.0 and list(state) == ["0.kernel", "0.num_batches_tracked"]
    assert list(model.state_dict()) == ["0.kernel"]
    with pytest.raises(ModuleError, match="a wrong one"):
        model.load_state_dict({**state, "0.wrong": 1})


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("lengths", [[4, 3, 1], [1, 4, 2]])
def test_sequences_of_different_lengths_are_each_as_alone(layer, lengths, any_device):
    rnn = nn.utils.rnn
    model = layer(2, 3, num_layers=2, bidirectional=True)
    x = Tensor(np.random.default_rng(0).standard_normal((5, 3, 2)).astype("float32"), requires_grad=True)
    packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=lengths[0] > 1)
    outputs, state = model(packed)
    padded, found = rnn.pad_packed_sequence(outputs, padding_value=7.0, total_length=6)
    assert isinstance(outputs, rnn.PackedSequence) and found.tolist() == lengths and padded.shape == (6, 3, 6)
    slopes = rg.grad(lambda t: model(packed._replace(data=t))[0].data.square().sum())(packed.data)
    for k, (length, one) in enumerate(zip(lengths, rnn.unpack_sequence(outputs), strict=True)):
        wanted, last = model(x[:length, k : k + 1])
        np.testing.assert_allclose(one.numpy(), wanted.numpy()[:, 0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(padded.numpy()[:length, k], wanted.numpy()[:, 0], rtol=1e-5, atol=1e-6)
        assert (padded.numpy()[length:, k] == 7).all()
        pairs = zip(state, last, strict=True) if layer is nn.LSTM else [(state, last)]
        for mine, alone in pairs:
            np.testing.assert_allclose(mine.numpy()[:, k], alone.numpy()[:, 0], rtol=1e-5, atol=1e-6)
    assert slopes.shape == (sum(lengths), 2)
    outputs.data.square().sum().backward()
    assert not x.grad.numpy()[lengths[0] :, 0].any() and x.grad.numpy()[: lengths[0], 0].all()
    with_state = model(packed, state)[1]
    assert (with_state[0] if layer is nn.LSTM else with_state).shape == (4, 3, 3)


def test_lengths_that_are_no_lengths():
    rnn = nn.utils.rnn
    x = Tensor.ones(4, 2, 1)
    for wrong in ([4], [4, 5], [4, 0]):
        with pytest.raises(ShapeError, match="from 1 to that"):
            rnn.pack_padded_sequence(x, wrong)
    with pytest.raises(ShapeError, match="enforce_sorted=False"):
        rnn.pack_padded_sequence(x, [1, 4])
    with pytest.raises(ShapeError, match="total_length=2"):
        rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [4, 1]), total_length=2)


def test_sigmoids_that_are_neither_0_nor_1():
    """By as little as the dtype has: of float64 they were as far from 1 as of float32."""
    clipped = importlib.import_module("rulegrad.distributions.transforms")._clipped_sigmoid
    for dtype in ("float32", "float64"):
        x = Tensor(np.array([-1e9, 0.0, 20.0, 1e9], dtype), device="numpy")
        info = np.finfo(dtype)
        exact = 1 / (1 + np.exp(-20.0))
        wanted = [info.tiny, 0.5, min(exact, 1 - info.eps), 1 - info.eps]
        np.testing.assert_allclose(clipped(x).numpy(), np.array(wanted, dtype), rtol=2 * info.eps)


def test_files_for_tensorboard_of_tensors(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    board = importlib.import_module("rulegrad.utils.tensorboard")
    with board.SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", Tensor(0.5), global_step=1)
        writer.add_scalars("losses", {"first": Tensor(0.5), "second": 2.0}, 1)
        writer.add_histogram("weights", Tensor([1.0, 2.0], requires_grad=True), 1)
        assert writer.get_logdir() == writer.log_dir == str(tmp_path)
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*tfevents*"))
    assert b"loss" in written and b"weights" in written
    monkeypatch.setitem(importlib.import_module("sys").modules, "tensorboardX", None)
    with pytest.raises(ConfigError, match="pip install tensorboardX"):
        board.SummaryWriter(tmp_path)
