"""PyTorch's modules and functions under rulegrad's name: what they mean, and where they are."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor, nn
from rulegrad.errors import ConfigError, DeviceError, DtypeError, GradientError, ModuleError, ShapeError


def test_reductions_of_the_module_are_those_of_pytorch(any_device):
    x = Tensor([[3.0, 1.0, 3.0], [2.0, float("nan"), 5.0]])
    values, indices = rg.max(x[:1], dim=1)
    assert values.tolist() == [3.0] and indices.tolist() == [0]
    assert rg.min(x[:1], -1, True).indices.tolist() == [[1]] and rg.max(x[0], x[0] * 2).tolist() == [6.0, 2.0, 6.0]
    assert rg.median(x, 1).values[0].item() == 3.0 and np.isnan(rg.median(x, 1)[0][1].item())
    assert rg.nanmedian(x, dim=1)[0].tolist() == [3.0, 2.0] and rg.nanmedian(x, dim=1)[1][1].item() == 0
    assert rg.median(Tensor([4, 1, 3, 2])).item() == 2 and rg.max(Tensor(2.0), 0).indices.item() == 0
    assert rg.var(x[0], 0).item() == pytest.approx(4 / 3) and rg.var(x[0], unbiased=False).item() == pytest.approx(
        8 / 9
    )
    assert rg.std(x[0], [0], keepdim=True).shape == (1,) and rg.var_mean(x[0], correction=3)[1].item() > 2
    assert rg.equal(x[0], x[0]) is True and rg.equal(x, x) is False and rg.equal(x, x[0]) is False
    assert rg.promote_types(rg.int64, rg.float16) == "float16" == rg.promote_types("bool", "float16")
    assert rg.promote_types(rg.float64, rg.complex64) == "complex128"
    assert rg.result_type(rg.arange(3), 0.5) == rg.result_type(rg.ones(1), rg.arange(3)) == "float32"
    assert rg.can_cast("int64", "uint8") and rg.can_cast("bool", "int8") and not rg.can_cast("complex64", "float64")


def test_of_equal_elements_the_first_has_the_gradient(any_device):
    """As in PyTorch; `x.max(1)` shares it."""
    x = Tensor([[2.0, 2.0, 1.0]], requires_grad=True)
    rg.max(x, 1).values.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0]]


def test_functions_of_lists(any_device):
    x, y = Tensor([1.0, 2.0]), Tensor([4.0])
    rg._foreach_mul_([x, y], 2.0)
    rg._foreach_addcdiv_([x, y], [x, y], [x, y], [1.0, 3.0])
    assert (x.tolist(), y.tolist()) == ([3.0, 5.0], [11.0])
    rg._foreach_maximum_([x, y], 4.0)
    rg._foreach_lerp_([x, y], [y, y], 0.5)
    assert [one.tolist() for one in rg._foreach_sqrt([x + 8.5, y + 5])] == [[4.0, pytest.approx(16.5**0.5)], [4.0]]
    rg._foreach_copy_([x], [y.expand(2)])
    rg._foreach_zero_([y])
    assert x.tolist() == [11.0, 11.0] and y.tolist() == [0.0]
    with pytest.raises(AttributeError, match="no method twist_"):
        rg._foreach_twist_  # noqa: B018


def test_modules_of_pytorch_have_the_names_of_ours():
    from rulegrad.jit import Final
    from rulegrad.jit.annotations import BroadcastingList2
    from rulegrad.nn.modules.batchnorm import _BatchNorm
    from rulegrad.nn.modules.loss import _Loss
    from rulegrad.optim.optimizer import Optimizer, ParamsT
    from rulegrad.utils.data import DataLoader

    assert Optimizer is rg.optim.Optimizer and DataLoader is rg.data.DataLoader and ParamsT is not None
    assert rg.utils.checkpoint.checkpoint is nn.utils.checkpoint and isinstance(nn.BatchNorm2d(2), _BatchNorm)
    assert issubclass(_Loss, nn.Module) and callable(rg.jit) and Final is not None
    assert rg.jit.script(len) is rg.jit.ignore(len) is rg.jit.unused()(len) is len
    assert rg.compile(len) is rg.compile(mode="default")(len) is rg.jit._script_if_tracing(len) is len
    assert not rg._dynamo.utils.is_compile_supported("cpu") and BroadcastingList2[int] is not None
    assert rg.full_like(Tensor([1.0]), 2, layout=rg.strided).tolist() == [2.0]
    rg.backends.cudnn.benchmark = True
    with rg.nn.attention.sdpa_kernel(rg.nn.attention.SDPBackend.MATH), rg.backends.cudnn.flags(enabled=False):
        pass
    with pytest.raises(AttributeError, match=r"'rulegrad.optim.adam' has no attribute 'Adams'"):
        rg.optim.adam.Adams  # noqa: B018


def test_modules_have_the_methods_of_pytorch(on_the_interpreter):
    layer = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert layer.compile(mode="default") is None and layer.cpu() is layer and layer._get_name() == "Sequential"
    assert layer.type(rg.float64)[0].weight.dtype == "float64" and layer.type("float32")[0].weight.dtype == "float32"
    assert nn.LSTM(2, 3).flatten_parameters() is None
    layer.set_submodule("1", nn.Tanh())
    assert isinstance(layer[1], nn.Tanh) and layer(Tensor([[1.0, 2.0]])).abs().max().item() < 1
    with pytest.raises(ModuleError, match="set_submodule: there is no layer '5'"):
        layer.set_submodule("5.inner", nn.Tanh())


def test_sequences_of_different_lengths(any_device):
    rows = [Tensor([[1.0, 2.0]]), Tensor([[3.0, 4.0], [5.0, 6.0]])]
    padded = rg.nn.utils.rnn.pad_sequence(rows, padding_value=-1.0)
    assert padded.tolist() == [[[1, 2], [3, 4]], [[-1, -1], [5, 6]]]
    left = rg.nn.utils.rnn.pad_sequence([Tensor([1]), Tensor([2, 3])], True, padding_side="left")
    assert left.tolist() == [[0, 1], [2, 3]] and left.dtype == "int64"
    assert [one.tolist() for one in rg.nn.utils.rnn.unpad_sequence(padded, Tensor([1, 2]))] == [
        r.tolist() for r in rows
    ]
    with pytest.raises(ShapeError, match="no sequence"):
        rg.nn.utils.rnn.pad_sequence([])
    with pytest.raises(ConfigError, match="padding_side"):
        rg.nn.utils.rnn.pad_sequence(rows, padding_side="up")


def test_a_module_with_other_tensors(any_device):
    model = nn.Sequential(nn.Linear(2, 2), nn.ParameterList([Tensor([1.0])]))
    model.forward = lambda x: model[0](x) * model[1][0]
    given = {"0.weight": Tensor([[1.0, 0.0], [0.0, 1.0]]), "0.bias": Tensor([1.0, 1.0]), "1.0": Tensor([2.0])}
    before = model[0].weight
    assert rg.func.functional_call(model, given, Tensor([[1.0, 2.0]])).tolist() == [[4.0, 6.0]]
    assert model[0].weight is before
    with pytest.raises(ModuleError, match=r"no 0\.weights"):
        rg.func.functional_call(model, {"0.weights": before}, Tensor([[1.0, 2.0]]))


def test_like_functions_take_what_pytorchs_take(any_device):
    x = Tensor([1, 2])
    for like in (x.zeros_like, x.ones_like, x.empty_like, x.rand_like, x.randn_like):
        made = like(dtype="float32", device=x.device, requires_grad=True, memory_format=rg.preserve_format)
        assert made.requires_grad and made.shape == (2,) and made.dtype == "float32"
    assert x.clone(memory_format=rg.contiguous_format).to(memory_format=rg.channels_last).tolist() == [1, 2]
    assert x.contiguous(memory_format=rg.channels_last).is_contiguous(memory_format=rg.channels_last)


def test_attributes_of_layers_are_those_of_pytorch():
    """Sources read them, and write them: what is changed counts."""
    conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
    assert (conv.stride, conv.padding, conv.dilation, conv.output_padding) == ((2, 2), (1, 1), (1, 1), (0, 0))
    assert not conv.transposed and nn.ConvTranspose1d(1, 1, 2).transposed
    assert nn.Conv2d(3, 3, 3, padding="same").padding == "same"
    norm = nn.BatchNorm2d(2, affine=False)
    assert not norm.affine and norm.track_running_stats and nn.LayerNorm(2).elementwise_affine
    pool, attention = nn.AvgPool2d(2), nn.MultiheadAttention(8, 2)
    assert (pool.kernel_size, pool.stride, pool.ceil_mode) == (2, 2, False) and nn.MaxPool2d(3).stride == 3
    assert (attention.head_dim, attention.kdim, attention.vdim) == (4, 8, 8)
    leaky, loss = nn.LeakyReLU(inplace=True), nn.CrossEntropyLoss()
    leaky.negative_slope, loss.reduction = 0.5, "none"
    assert leaky.inplace and leaky(Tensor([-2.0])).item() == -1.0
    assert loss(Tensor([[0.0, 0.0]]), Tensor([0])).shape == (1,)


def test_lists_of_lists_of_parameters():
    scales = nn.ParameterList([nn.ParameterList([Tensor([1.0]), np.ones(2, "float32")])])
    scales.append(nn.ParameterDict({"gain": Tensor([3.0])}))
    assert [name for name, _ in scales.named_parameters()] == ["0.0", "0.1", "1.gain"]


def test_a_dtype_of_none_is_the_default(any_device):
    """Layers of PyTorch hand on `{"device": None, "dtype": None}`; zeros of int64 were the result."""
    for make in (Tensor.zeros, Tensor.ones, Tensor.empty, Tensor.rand, Tensor.eye):
        assert make(2, dtype=None, device=None).dtype == "float32"
    assert Tensor.linspace(0, 1, 3, dtype=None).dtype == "float32" == Tensor.scalar_tensor(1, dtype=None).dtype
    assert rg.randint(0, 3, (2,), dtype=None).dtype == "int64" == rg.arange(3, dtype=None).dtype
    norm = nn.BatchNorm2d(2, device=None, dtype=None)
    assert norm.weight.dtype == norm.running_mean.dtype == "float32" == nn.LSTM(2, 2, dtype=None).weight_ih_l0.dtype
    assert rg.eye(2, requires_grad=True, layout=None).requires_grad
    assert rg.randperm(3, dtype=rg.int32, pin_memory=False).dtype == "int32"
    x = Tensor([1, 2])
    assert x.new_zeros((2,), dtype=None, device=None).dtype == "int64"
    assert x.new_full((2,), 0.5, dtype="float32", requires_grad=True).requires_grad


def test_functions_with_a_gradient_of_their_own(any_device):
    class Scaled(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, factor):
            ctx.save_for_backward(x, y)
            ctx.factor = factor
            return x * y * factor, x + y

        @staticmethod
        def backward(ctx, product, total):
            _, y = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False, False)
            return product * y * ctx.factor + 10 * total, None, None

    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0])
    product, total = Scaled.apply(x * 2, y, 0.5)
    (product * product + total).sum().backward()
    assert x.grad.tolist() == [38.0, 84.0]
    with rg.no_grad():
        assert not Scaled.apply(x, y, 1.0)[0].requires_grad

    class Wrong(Scaled):
        @staticmethod
        def backward(ctx, product, total):
            return product

    with pytest.raises(GradientError, match="gave 1 gradients for 3 arguments"):
        Wrong.apply(x, y, 1.0)[0].sum().backward()


def test_second_derivatives_of_such_functions(any_device):
    class Exp(rg.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, gradient):
            (y,) = ctx.saved_tensors
            return gradient * y

    x = Tensor([0.5], requires_grad=True)
    (slope,) = rg.autograd.grad(Exp.apply(x * 2), x, create_graph=True)
    (second,) = rg.autograd.grad(slope, x)
    assert slope.item() == pytest.approx(2 * np.e, 1e-6) and second.item() == pytest.approx(4 * np.e, 1e-6)
    assert not second.requires_grad and slope.requires_grad


def test_a_mistake_in_a_backward_is_not_a_missing_gradient():
    class Wrong(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient.no_such_method()

    x = Tensor([1.0], requires_grad=True, device="numpy")
    with pytest.raises(GradientError, match="Wrong.backward: .*no_such_method"):
        Wrong.apply(x).sum().backward()
        getattr(x, "grad", None)


def test_gradients_of_given_tensors(any_device):
    x, other = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    y = x * 3
    z = y**2
    assert rg.autograd.grad(z, [y, x], Tensor([1.0, 0.5]))[0].tolist() == [6.0, 6.0] and x.grad is None
    assert rg.autograd.grad(z.sum(), [x, other], allow_unused=True)[1] is None
    assert rg.autograd.grad([z.sum()], [other], materialize_grads=True)[0].tolist() == [0.0]
    rg.autograd.backward([z, y], [Tensor([1.0, 1.0]), Tensor([0.0, 1.0])])
    assert x.grad.tolist() == [18.0, 39.0]
    with pytest.raises(GradientError, match="allow_unused"):
        rg.autograd.grad(z.sum(), other)
    with pytest.raises(ShapeError, match="grad_outputs"):
        rg.autograd.grad(z, x)


def test_an_optimizer_that_is_written_for_pytorch(any_device):
    """Its state is by parameter, its own step may be called with a closure."""

    class Momentum(rg.optim.Optimizer):
        def __init__(self, params, lr=0.1):
            super().__init__(params, {"lr": lr})

        @rg.no_grad()
        def step(self, closure=None):
            with rg.enable_grad():
                loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"], state["mean"] = 0, rg.zeros_like(p, memory_format=rg.preserve_format)
                    state["step"] += 1
                    state["mean"].mul_(0.5).add_(p.grad, alpha=0.5)
                    p.add_(state["mean"], alpha=-group["lr"])
            return loss

    weight = nn.Parameter(Tensor([1.0]))
    optimizer = Momentum([weight])

    def closure():
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    assert [round(optimizer.step(closure).item(), 4) for _ in range(2)] == [1.0, 0.81]
    assert weight in optimizer.state and optimizer.state.get(weight)["step"] == 2
    other = Momentum([weight])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[weight]["step"] == 2 and other.state[0]["mean"].tolist() == optimizer.state[0]["mean"].tolist()
    assert rg.optim.SGD([weight], 0.1).step(closure).item() > 0
    with pytest.raises(ConfigError, match="not among the parameters"):
        optimizer.state[Tensor([1.0])]


def test_buffers_by_assignment_and_layers_that_are_fused():
    module = nn.Module()
    module.mask, module.cache = nn.Buffer(Tensor([1.0])), nn.Buffer([2.0], persistent=False)
    assert list(module.state_dict()) == ["mask"] and [name for name, _ in module.named_buffers()] == ["mask", "cache"]
    assert isinstance(module.mask, nn.Buffer) and not isinstance(Tensor([1.0]), nn.Buffer)
    with pytest.raises(ModuleError, match="training mode"):
        nn.utils.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
    with pytest.raises(ConfigError, match="downloads nothing"):
        rg.hub.load_state_dict_from_url("somewhere")
    assert not rg.distributed.is_initialized() and rg.distributed.get_world_size() == 1
    kernel = nn.init.dirac_(Tensor.ones(4, 2, 3, 3), groups=2)
    assert kernel.sum().item() == 4 and kernel[3, 1, 1, 1].item() == 1


def test_distributions(any_device):
    """Values are PyTorch's; samples have the mean and the variance that the distribution says."""
    from rulegrad import distributions

    normal = distributions.Normal(Tensor([0.5, -1.0], requires_grad=True), Tensor(2.0))
    assert normal.log_prob(Tensor([1.0, 1.0])).tolist() == pytest.approx([-1.643335700, -2.112085700], 1e-6)
    assert normal.cdf(Tensor(1.0)).tolist() == pytest.approx([0.598706, 0.841345], 1e-5)
    assert normal.icdf(normal.cdf(Tensor([1.0, 2.0]))).tolist() == pytest.approx([1.0, 2.0], 1e-4)
    assert normal.rsample((3,)).requires_grad and not normal.sample((3,)).requires_grad
    others = [
        distributions.Uniform(1.0, Tensor([3.0, 4.0])), distributions.Laplace(1.0, Tensor([0.5, 2.0])),
        distributions.Bernoulli(Tensor([0.25, 0.5])), distributions.Exponential(Tensor([0.5, 2.0])), normal,
    ]  # fmt: skip
    for one in others:
        samples = one.sample((4000,))
        assert samples.shape == (4000, 2)
        assert samples.mean(0).tolist() == pytest.approx(one.mean.tolist(), abs=0.2)
    classes = distributions.Categorical(logits=Tensor([[0.0, np.log(3.0)], [0.0, 0.0]]))
    assert classes.log_prob(Tensor([1, 0])).exp().tolist() == pytest.approx([0.75, 0.5])
    assert classes.entropy().tolist() == pytest.approx([0.5623351, 0.6931472]) and classes.sample((5,)).shape == (5, 2)
    assert distributions.kl_divergence(normal, distributions.Normal(0.0, 1.0)).tolist()[0] == pytest.approx(0.9318528)
    for wrong in (
        lambda: distributions.Bernoulli(),
        lambda: classes.rsample(),
        lambda: distributions.kl_divergence(1, 2),
    ):
        with pytest.raises(ConfigError):
            wrong()


def test_classes_of_one_dtype_stand_in_annotations():
    from typing import get_args

    assert get_args(rg.FloatTensor | None) == (rg.FloatTensor, type(None))
    assert isinstance(Tensor([1.0]), rg.FloatTensor) and not isinstance(Tensor([1]), rg.FloatTensor)
    assert rg.LongTensor([1, 2]).dtype == "int64" and rg.FloatTensor().shape == (0,)


def test_gradient_modes_as_decorators_without_parentheses():
    weight = Tensor([1.0], requires_grad=True)

    @rg.no_grad
    def plain(x):
        """Its text."""
        return x * weight

    assert not plain(2).requires_grad and plain.__doc__ == "Its text."
    assert not rg.inference_mode(lambda: weight * 2)().requires_grad
    assert rg.no_grad(rg.enable_grad(lambda: weight * 2))().requires_grad
    with rg.inference_mode(False):
        assert (weight * 2).requires_grad


def test_an_axis_named_dim_gives_values_and_places(any_device):
    """Sources take the pair apart; of two rows that was the first row and the second, without an error."""
    x = Tensor([[1.0, 3.0, 2.0], [6.0, 4.0, 5.0]])
    values, indices = x.max(dim=1, keepdim=True)
    assert values.tolist() == [[3.0], [6.0]] and indices.tolist() == [[1], [0]] and x.min(dim=0)[0].shape == (3,)
    assert x.median(dim=-1).values.tolist() == [2.0, 5.0] and x.nanmedian(dim=0).indices.tolist() == [0, 0, 0]
    assert x.max(1).tolist() == x.max(axis=1).tolist() == [3.0, 6.0] and x.max(dim=(0, 1)).item() == 6.0
    with pytest.raises(ShapeError):
        Tensor.zeros(2, 0).max(dim=1)


def test_the_device_of_a_tensor_has_a_type():
    """`autocast(x.device.type)` and the like; it is a text as it was."""
    x = Tensor([1.0], device="numpy")
    assert x.device == "numpy" == x.device.type and x.device.index is None and isinstance(x.device, rg.device)
    assert f"{x.device}" == "numpy" and x.to(x.device) is x


def test_derivatives_of_functions_at_tensors(any_device):
    """`torch.autograd.functional`, with several inputs and results."""
    from rulegrad.autograd import functional

    x, y = Tensor([1.0, 2.0]), Tensor(3.0)
    value, (by_x, by_y) = functional.vjp(lambda a, b: a * a * b, (x, y), Tensor([1.0, 10.0]))
    assert value.tolist() == [3, 12] and by_x.tolist() == [6, 120] and by_y.item() == 41
    assert functional.jvp(lambda a: a * a, x)[1].tolist() == [2, 4]
    (first, second), (third, _) = functional.jacobian(lambda a, b: (a * b, a.sum()), (x, y))
    assert (first.tolist(), second.tolist(), third.tolist()) == ([[3, 0], [0, 3]], [1, 2], [1, 1])
    (_, across), (back, _) = functional.hessian(lambda a, b: (a * a).sum() * b, (x, y))
    assert across.tolist() == back.tolist() == [2, 4]
    assert functional.hvp(lambda a: (a**3).sum(), x, Tensor([1.0, 10.0]))[1].tolist() == [6, 120]
    start = x.clone().requires_grad_()
    assert not functional.vjp(lambda a: a.sum() * 2, start)[1].requires_grad
    functional.vjp(lambda a: (a**3).sum(), start, create_graph=True)[1].sum().backward()
    assert start.grad.tolist() == [6, 12]
    module = nn.Module()
    module.register_module("a b", nn.Linear(1, 1))
    assert rg.Tensor().shape == (0,) and not rg.onnx.is_in_onnx_export() and rg.hub.get_dir().endswith("hub")
    target, rows = rg.zeros(2), rg.tensor([[1.0, 5.0], [3.0, 2.0]])
    assert rg.div(x, rg.tensor([2.0, 4.0]), out=target) is target and target.tolist() == [0.5, 0.5]
    order = (rg.zeros(2, 2), rg.zeros(2, 2, dtype=rg.long))
    assert rg.sort(rows, 1, out=order) is order and order[1].tolist() == [[0, 1], [1, 0]]
    with pytest.raises(ShapeError, match="make one alike"):
        rg.exp(rows, out=target)
    assert rg.trace(rows).item() == 3.0
    ones = rg.zeros(2, 2, dtype=rg.long).scatter(1, rg.tensor([[1], [0]]), 1.0)
    assert ones.dtype == "int64" and ones.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(DtypeError, match="float values do not fit"):
        ones.scatter(1, rg.tensor([[1], [0]]), 0.5)
    z = rg.tensor([1 + 2j])
    assert rg.real(z).tolist() == [1.0] and rg.imag(z).tolist() == [2.0]
    assert [n.item() for n in rg._foreach_norm([rows[0] * 0 + 1, x], ord=1)] == [2.0, 3.0]
    assert rg.float16.is_floating_point and not rg.int8.is_floating_point and not isinstance(1, rg.SymInt)
    assert rg.finfo(rg.float16).tiny == 2**-14 and rg.finfo("bfloat16").resolution == 0.01
    assert x.dtype not in (rg.complex32, rg.quint8)
    with pytest.raises(DtypeError, match="complex32"):
        x.to(dtype=rg.complex32)
    rg._assert_async(x > 0)
    with pytest.raises(RuntimeError, match="too large"):
        rg._assert_async(x > 1, "too large")
    tuples = importlib.import_module("rulegrad.nn.modules.utils")
    assert tuples._pair(3) == (3, 3) and tuples._triple([1, 2, 3]) == (1, 2, 3)
    assert tuples._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    for name in ("utils.model_zoo", "utils.data._utils.collate", "_C"):
        importlib.import_module(f"rulegrad.{name}")
    assert [name for name, _ in module.named_children()] == ["a b"]


def test_attention_whose_scores_a_function_changes(any_device):
    """Beside the same computed with a mask, in the order of its axes."""
    flex = rg.nn.attention.flex_attention
    draw = np.random.default_rng(0).standard_normal
    query, key, value = (Tensor(draw((2, heads, 6, 4)).astype("float32")) for heads in (4, 2, 2))
    slopes = Tensor([0.1, 0.2, 0.3, 0.4])
    causal = flex.create_block_mask(flex.and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 3), 1, 1, 6, 6)
    found, lse = flex.flex_attention(
        query, key, value, lambda s, b, h, i, j: s + slopes[h] * (j - i), causal, enable_gqa=True, return_lse=True
    )
    distance = np.arange(6)[None, :] - np.arange(6)[:, None]
    scores = query.numpy() @ np.repeat(key.numpy(), 2, 1).swapaxes(2, 3) / 2 + slopes.numpy()[:, None, None] * distance
    weights = np.exp(np.where((distance <= 0) & (distance > -3), scores, -np.inf))
    expected = weights / weights.sum(-1, keepdims=True) @ np.repeat(value.numpy(), 2, 1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(lse.numpy(), np.log(weights.sum(-1)), rtol=1e-4, atol=1e-5)
    nothing = flex.create_block_mask(lambda b, h, i, j: i < 0, 1, 1, 6, 6)
    assert not flex.flex_attention(query, query, query, block_mask=nothing).any().item()
    with pytest.raises(ShapeError, match="each is batch, heads, places, width"):
        flex.flex_attention(query[0], key, value)


def test_operations_of_a_program_s_own(any_device):
    library = rg.library

    def scaled(x, factor):
        return x * factor

    library.custom_op("tests::scaled", scaled, mutates_args=(), schema="(Tensor x, float factor) -> Tensor")
    library.register_fake("tests::scaled", lambda x, factor: x)
    library.register_autograd(
        "tests::scaled",
        lambda ctx, gradient: (gradient * ctx.factor * 10, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = rg.ops.tests.scaled(x, 3.0)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([3.0, 6.0], [30.0, 30.0])
    with pytest.raises(ConfigError, match="write NAMESPACE::NAME"):
        library.custom_op("scaled", scaled)
    with pytest.raises(ConfigError, match="let it return the new values"):
        library.custom_op("tests::add_one", scaled, mutates_args=("x",))
    with pytest.raises(ConfigError, match="no operation is called 'tests::unknown'"):
        library.register_autograd("tests::unknown", scaled)
    with pytest.raises(AttributeError, match="torch.ops has no tests.unknown"):
        rg.ops.tests.unknown  # noqa: B018
    with pytest.raises(OSError, match="custom_op"):
        rg.ops.load_library("operations.so")
    keys, key = rg._C.DispatchKeySet, rg._C.DispatchKey
    assert key.AutocastCPU in keys(key.AutocastCPU) | keys(key.AutocastCUDA)


def test_tensors_in_one_vector() -> None:
    utils = importlib.import_module("rulegrad._utils")
    parts = [rg.tensor([[1.0, 2.0]]), rg.tensor(3.0), rg.tensor([4.0])]
    flat = utils._flatten_dense_tensors(parts)
    assert flat.tolist() == [1, 2, 3, 4]
    assert [part.tolist() for part in utils._unflatten_dense_tensors(flat * 2, parts)] == [[[2, 4]], 6, [8]]
    with pytest.raises(ShapeError, match="give one of 4"):
        utils._unflatten_dense_tensors(flat[:3], parts)


def test_names_for_annotations_cannot_be_made():
    assert issubclass(rg.cuda.CUDAGraph, rg.cuda.Stream) and rg.Stream is rg.cuda.Stream
    for name in ("Stream", "Event", "CUDAGraph"):
        with pytest.raises(DeviceError, match=f"{name}: launches on a device are in the order of the program"):
            getattr(rg.cuda, name)()
    for name in ("ProcessGroup", "DeviceMesh"):
        with pytest.raises(ConfigError, match="there are no groups of processes"):
            getattr(rg.distributed.device_mesh, name)()
    for block in (rg.overrides.TorchFunctionMode(), rg.autograd.graph.saved_tensors_hooks(len, len)):
        with pytest.raises(ConfigError, match=type(block).__name__), block:
            pass


def test_functions_that_ask_for_gradients_in_their_backward_are_called_once():
    """As linear_operator's: each way back by leaves of its own ends at these, and not at the beginning of all."""
    calls = []

    class Squared(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * x * w

        @staticmethod
        def backward(ctx, gradient):
            calls.append(None)
            inner = [one.detach().requires_grad_(True) for one in ctx.saved_tensors]
            with rg.autograd.enable_grad():
                loss = (gradient * (inner[0] * inner[0] * inner[1])).sum()
            return rg.autograd.grad(loss, inner)

    x, w = Tensor([1.5, -0.5], requires_grad=True), Tensor([0.5, 2.0], requires_grad=True)
    y = x
    for _ in range(6):
        y = Squared.apply(y, w)
    found = rg.autograd.grad(y.sum(), [x, w])
    assert len(calls) == 6
    values = [np.array([1.5, -0.5]), np.array([0.5, 2.0])]
    expected = 64 * values[0] ** 63 * values[1] ** 63, 63 * values[0] ** 64 * values[1] ** 62
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, 1e-4)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_random_complex_numbers(dtype: str) -> None:
    """Both parts are drawn, of half the variance each."""
    rg.manual_seed(3)
    normal, uniform = rg.randn(2000, dtype=dtype), rg.rand(2000, dtype=dtype)
    assert str(normal.dtype) == str(uniform.dtype) == dtype
    for numbers, deviation in ((normal.numpy(), 0.5**0.5), (uniform.numpy(), 12**-0.5)):
        assert [numbers.real.std(), numbers.imag.std()] == pytest.approx([deviation] * 2, rel=0.06)
        assert abs(np.corrcoef(numbers.real, numbers.imag)[0, 1]) < 0.08
    assert rg.zeros(2000, dtype=dtype).normal_(0.0, 2.0).numpy().std() == pytest.approx(2, rel=0.06)
    assert rg.randn_like(normal).is_complex() and rg.randn(3, dtype=dtype, requires_grad=True).requires_grad


def test_a_state_that_goes_into_a_dict() -> None:
    layer, taken = nn.Linear(2, 1), {"other": rg.zeros(1)}
    assert layer.state_dict(destination=taken, prefix="a.") is taken
    assert list(taken) == ["other", "a.weight", "a.bias"] and not taken["a.bias"].requires_grad
    assert layer.state_dict(keep_vars=True)["weight"] is layer.weight


def test_a_state_whose_dtypes_are_taken() -> None:
    layer = nn.Linear(2, 1)
    weight = layer.weight
    layer.load_state_dict({"weight": rg.ones(1, 2, dtype=rg.float64), "bias": rg.zeros(1)}, assign=True)
    assert layer.weight is weight and weight.dtype == rg.float64 and layer.bias.dtype == rg.float32
    assert weight.tolist() == [[1, 1]] and weight.requires_grad
