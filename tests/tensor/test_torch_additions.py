"""Names of PyTorch beside PyTorch itself: mixed precision in functions, state of modules, layers, checks of gradients."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
import rulegrad.nn.functional as F
from rulegrad import Tensor, amp, autograd, config, cuda, func, nn, optim
from rulegrad.errors import ConfigError, DeviceError, DtypeError, GradientError, ModuleError, ShapeError
from rulegrad.nn.utils import parametrizations

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

torch = pytest.importorskip("torch")

NUMBERS = np.random.default_rng(0)


def near(found: Any, wanted: Any, tolerance: float = 1e-6) -> None:
    found, wanted = (np.asarray(x.detach().numpy() if hasattr(x, "detach") else x) for x in (found, wanted))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, tolerance, tolerance)


# ---- mixed precision ----


def product(library: Any, seen: list[Any], custom_amp: Any, **options: Any) -> Any:
    """A function whose `forward` and `backward` note the dtypes of their products."""

    class Product(library.autograd.Function):  # type: ignore[misc]
        @staticmethod
        @custom_amp.custom_fwd(**options)
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            result = x @ y
            seen.append((str(x.dtype).removeprefix("torch."), str(result.dtype).removeprefix("torch.")))
            return result

        @staticmethod
        @custom_amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, gradient: Any) -> Any:
            x, y = ctx.saved_tensors
            seen.append(str((x.float() @ y.float()).dtype).removeprefix("torch."))
            return gradient @ y.T.to(gradient.dtype), x.T.to(gradient.dtype) @ gradient

    return Product


@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_functions_under_autocast(enabled: bool, cast: bool) -> None:
    seen: dict[str, list[Any]] = {"torch": [], "rulegrad": []}
    for name, library in (("torch", torch), ("rulegrad", rg)):
        options = {"device_type": "cpu", **({"cast_inputs": library.float32} if cast else {})}
        function = product(library, seen[name], library.amp, **options)
        x = library.ones(2, 2, dtype=library.bfloat16, requires_grad=True)
        with library.amp.autocast("cpu", library.bfloat16, enabled=enabled):
            result = function.apply(x, x)
        result.float().sum().backward()
    assert seen["rulegrad"] == seen["torch"]


def test_older_names_of_mixed_precision() -> None:
    import rulegrad.amp.autocast_mode
    from rulegrad.cuda.amp import autocast_mode, custom_bwd, custom_fwd

    assert rulegrad.amp.autocast_mode.custom_fwd is amp.custom_fwd is custom_fwd
    assert autocast_mode.custom_bwd is amp.custom_bwd is custom_bwd and autocast_mode.autocast is amp.autocast
    assert custom_fwd(lambda ctx, x: x)(autograd.FunctionCtx(), 3) == 3
    with autocast_mode.autocast(False):
        assert (Tensor([[1.0]]) @ Tensor([[1.0]])).dtype == "float32"
    rg.clear_autocast_cache()


# ---- modules ----


def counting(library: Any) -> Any:
    class Counting(library.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = library.nn.Linear(2, 1)
            self.count = 0

        def get_extra_state(self) -> dict[str, int]:
            return {"count": self.count}

        def set_extra_state(self, state: dict[str, int]) -> None:
            self.count = state["count"]

    return library.nn.Sequential(Counting(), library.nn.Linear(1, 1))


def test_extra_state() -> None:
    ours, theirs, other = counting(rg), counting(torch), counting(rg)
    ours[0].count = 5
    state = ours.state_dict(prefix="net.")
    assert set(state) == set(theirs.state_dict(prefix="net.")) and state["net.0._extra_state"] == {"count": 5}
    assert other.load_state_dict(ours.state_dict()) == ([], []) and other[0].count == 5
    file = io.BytesIO()
    rg.save(ours.state_dict(), file)
    file.seek(0)
    assert rg.load(file)["0._extra_state"] == {"count": 5}
    without = {name: value for name, value in ours.state_dict().items() if name != "0._extra_state"}
    with pytest.raises(ModuleError, match=r"missing names \['0._extra_state'\]"):
        other.load_state_dict(without)
    assert other.load_state_dict(without, strict=False).missing_keys == ["0._extra_state"]
    layer = nn.Linear(2, 1)
    with pytest.raises(ModuleError, match=r"unknown names \['_extra_state'\]"):
        layer.load_state_dict({**layer.state_dict(), "_extra_state": 1})
    with pytest.raises(ModuleError, match="define get_extra_state"):
        layer.get_extra_state()
    with pytest.raises(ModuleError, match="define set_extra_state"):
        layer.set_extra_state(1)


def test_hooks_before_the_state() -> None:
    seen: dict[Any, list[Any]] = {torch: [], rg: []}
    for library, calls in seen.items():
        model = library.nn.Sequential(library.nn.Linear(1, 1), library.nn.Sequential(library.nn.Linear(1, 1)))
        for module in (model[1][0], model, model[0]):
            handle = module.register_state_dict_pre_hook(
                lambda module, prefix, keep, calls=calls: calls.append((type(module).__name__, prefix, keep))
            )
        model.state_dict(keep_vars=True)
        handle.remove()
        model.state_dict(prefix="x.")
    assert seen[rg] == seen[torch]


def test_modules_without_values() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model.register_buffer("mask", Tensor([1.0]))
    weight, adam = model[0].weight, optim.SGD(model.parameters())
    assert model.to_empty(device="numpy", recurse=False)[0].weight.abs().max().item() > 0 and model.mask.item() == 0
    assert model.to_empty(device="numpy")[0].weight is weight is adam.parameters[0]
    assert weight.tolist() == [[0.0, 0.0]] * 3 and weight.requires_grad and weight.is_leaf
    state = rg.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 2, out_features=3, device="numpy")
    assert rg.get_rng_state().tolist() == state.tolist() and layer.weight.shape == (3, 2)
    for wrong in (nn.ReLU, Tensor):
        with pytest.raises(ModuleError, match="skip_init"):
            nn.utils.skip_init(wrong)


def test_norms_of_tensors_together() -> None:
    arrays = [NUMBERS.normal(size=(2, 3)), NUMBERS.normal(size=4)]
    for order in (2.0, 1.0, 3.0, float("inf")):
        wanted = torch.nn.utils.get_total_norm([torch.tensor(array) for array in arrays], order)
        near(nn.utils.get_total_norm([Tensor(array) for array in arrays], order), wanted)
    assert nn.utils.get_total_norm([]).item() == 0 and nn.utils.get_total_norm(Tensor([3.0, 4.0])).item() == 5
    with pytest.raises(ConfigError, match="get_total_norm: the norm is inf"):
        nn.utils.get_total_norm([Tensor([np.inf])], error_if_nonfinite=True)
    with pytest.raises(ConfigError, match="norm_type=0"):
        nn.utils.get_total_norm([Tensor([1.0])], 0)


@pytest.mark.parametrize("has_base", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (4, 3)])
@pytest.mark.parametrize("by", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights(by: str, shape: tuple[int, int], has_base: bool) -> None:
    if by != "householder" and not has_base:
        with pytest.raises(ConfigError, match="use_trivialization"):
            parametrizations.orthogonal(nn.Linear(*shape), "weight", by, use_trivialization=False)
        return
    theirs = torch.nn.utils.parametrizations.orthogonal(
        torch.nn.Linear(*shape).double(), "weight", by, use_trivialization=has_base
    )
    ours = parametrizations.orthogonal(nn.Linear(*shape, dtype="float64"), "weight", by, use_trivialization=has_base)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    with torch.no_grad():
        theirs.parametrizations.weight.original += torch.tensor(NUMBERS.normal(size=shape[::-1])).tril(-1)
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    near(ours.weight, theirs.weight, 1e-12)
    (ours.weight**3).sum().backward()
    (theirs.weight**3).sum().backward()
    near(ours.parametrizations.weight.original.grad, theirs.parametrizations.weight.original.grad, 1e-10)
    long = np.linalg.qr(NUMBERS.normal(size=(max(shape), min(shape))))[0]
    value = long if shape[1] >= shape[0] else long.T
    ours.weight = Tensor(value)
    near(ours.weight, value, 1e-12)


def test_orthogonal_weights_of_several_axes_and_mistakes() -> None:
    module = nn.Module()
    module.weight = nn.Parameter(Tensor(NUMBERS.normal(size=(2, 3, 3)) + 1j * NUMBERS.normal(size=(2, 3, 3))))
    weight = parametrizations.orthogonal(module).weight
    near(weight.mH @ weight, np.broadcast_to(np.eye(3), (2, 3, 3)), 1e-12)
    with pytest.raises(ShapeError, match="in the place of one"):
        module.weight = Tensor.zeros(2, 3, 2)
    with pytest.raises(DtypeError, match="householder"):
        parametrizations.orthogonal(module, orthogonal_map="householder")
    with pytest.raises(ConfigError, match="orthogonal_map='exp'"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="exp")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="two axes"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    assert parametrizations.orthogonal(nn.Linear(2, 3)).parametrizations.weight[0].orthogonal_map == "householder"


@pytest.mark.parametrize("bias", [False, True])
def test_softmax_in_clusters(bias: bool) -> None:
    arguments, options = (8, 20, [5, 10]), {"div_value": 2.0, "head_bias": bias}
    ours, theirs = (library.nn.AdaptiveLogSoftmaxWithLoss(*arguments, **options) for library in (rg, torch))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    x, labels = NUMBERS.normal(size=(6, 8)).astype(np.float32), np.array([0, 4, 5, 9, 10, 19])
    found, wanted = ours(Tensor(x), Tensor(labels)), theirs(torch.tensor(x), torch.tensor(labels))
    near(found.output, wanted.output)
    near(found.loss, wanted.loss)
    found.loss.backward(), wanted.loss.backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        near(mine.grad, other.grad)
    near(ours.log_prob(Tensor(x)), theirs.log_prob(torch.tensor(x)), 1e-5)
    assert ours.predict(Tensor(x)).tolist() == theirs.predict(torch.tensor(x)).tolist()
    assert ours(Tensor(x[0]), Tensor(3)).output.shape == ()
    with pytest.raises(IndexError, match="20 is out of range"):
        ours(Tensor(x), Tensor(labels + 1)).loss.item()
    with pytest.raises(ShapeError, match="need"):
        ours(Tensor(x), Tensor(labels[:2]))
    for cutoffs in ([], [0, 5], [5, 5], [20], [2.5]):
        with pytest.raises(ConfigError, match="cutoffs"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)  # type: ignore[arg-type]


def test_mistakes_of_adafactor() -> None:
    w = Tensor([[1.0, 2.0]], requires_grad=True)
    for wrong in ({"d": 0.5}, {"beta2_decay": 0.5}, {"eps": (None, -1.0)}, {"lr": -1.0}):
        with pytest.raises(ConfigError):
            optim.Adafactor([w], **wrong)
    with pytest.raises(DtypeError, match="complex"):
        optim.Adafactor([Tensor([1j], requires_grad=True)])
    adafactor = optim.Adafactor([w])
    w.sum().backward()
    adafactor.step()
    state = adafactor.state_dict()
    state["state"][0]["row_var"] = Tensor.zeros(2, 2)
    with pytest.raises(ShapeError, match="row_var of parameter 0"):
        adafactor.load_state_dict(state)


# ---- functions ----


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("relu_", ()), ("leaky_relu_", (0.3,)), ("celu_", (0.5,)), ("elu_", (0.5,)), ("selu_", ()),
     ("threshold_", (0.1, 7.0)), ("hardtanh_", (-0.5, 0.5)), ("rrelu_", (0.3, 0.3))],
)  # fmt: skip
def test_activations_in_place(name: str, arguments: tuple[Any, ...]) -> None:
    x = NUMBERS.normal(size=6)
    found, wanted = Tensor(x), torch.tensor(x)
    assert getattr(F, name)(found, *arguments) is found
    near(found, getattr(torch.nn.functional, name)(wanted, *arguments))
    with pytest.raises(GradientError, match=name):
        getattr(F, name)(Tensor([1.0], requires_grad=True), *arguments)
    assert not hasattr(torch, name) or callable(getattr(rg, name))


@pytest.mark.filterwarnings("ignore:torch.chain_matmul")
def test_functions_without_methods() -> None:
    matrices = [NUMBERS.normal(size=shape) for shape in ((2, 3), (3, 4), (4, 2))]
    near(rg.chain_matmul(*map(Tensor, matrices)), torch.chain_matmul(*map(torch.tensor, matrices)), 1e-12)
    assert rg.chain_matmul(Tensor([[2]])).tolist() == [[2]]
    for options in ({}, {"N": 2}, {"N": 5, "increasing": True}, {"N": 0}):
        for values in ([1, 2, 3], [0.5, 2.0]):
            found, wanted = rg.vander(Tensor(values), **options), torch.vander(torch.tensor(values), **options)
            assert (found.shape, found.tolist()) == (tuple(wanted.shape), wanted.tolist())
    for shape in ((10, 10, 100), 9000, [100, 100]):
        found = rg.unravel_index(Tensor([[1234], [5678]]), shape)
        wanted = torch.unravel_index(torch.tensor([[1234], [5678]]), shape)
        assert [part.tolist() for part in found] == [part.tolist() for part in wanted]
    weight = Tensor(NUMBERS.normal(size=(4, 2)))
    assert rg.embedding_bag(Tensor([[0, 1]]), weight).tolist() == F.embedding_bag(Tensor([[0, 1]]), weight).tolist()
    for wrong, error in (
        (lambda: rg.vander(Tensor([[1.0]])), ShapeError),
        (lambda: rg.chain_matmul(Tensor([1.0]), Tensor([1.0])), ShapeError),
        (lambda: rg.unravel_index(Tensor([1.0]), (2,)), DtypeError),
        (lambda: rg.poisson(Tensor([1])), DtypeError),
    ):
        with pytest.raises(error):
            wrong()


def test_counts_at_a_rate() -> None:
    counts = rg.poisson(Tensor.full((4000,), 3.0, dtype="float64"))
    assert counts.dtype == "float64" and abs(counts.mean().item() - 3) < 0.2 and abs(counts.var().item() - 3) < 0.4
    generator, state = rg.Generator().manual_seed(3), rg.get_rng_state().tolist()
    first, second = (rg.poisson(Tensor.full((20,), 9.0), generator=generator).tolist() for _ in range(2))
    assert first != second and rg.get_rng_state().tolist() == state
    assert rg.poisson(Tensor.full((20,), 9.0), generator.manual_seed(3)).tolist() == first


def test_seeds_threads_and_devices() -> None:
    rg.manual_seed(7)
    assert rg.initial_seed() == 7 and rg.random.initial_seed() == 7
    assert rg.seed() == rg.initial_seed() != 7
    with config(threads=3):
        assert rg.get_num_threads() == 3
        rg.set_num_threads(1)
        assert config.threads == 1
    rg.set_num_interop_threads(2)
    assert rg.get_num_interop_threads() == 2
    for wrong in (rg.set_num_threads, rg.set_num_interop_threads):
        with pytest.raises(ConfigError, match="threads"):
            wrong(0)
    assert Tensor([1]).is_cpu and Tensor([1]).get_device() == -1


@pytest.mark.parametrize(
    "name", ["get_device_name", "get_device_properties", "current_stream", "get_device_capability"]
)
def test_questions_about_a_cuda_device(name: str) -> None:
    if cuda.is_available():
        assert getattr(cuda, name)(0)
        cuda.current_stream().synchronize()
        assert cuda.get_device_properties()[:3] == (cuda.get_device_name(), *cuda.get_device_capability())
    with pytest.raises(DeviceError, match=f"{name}: there is no CUDA device 'cuda:99'"):
        getattr(cuda, name)(99)


# ---- complex numbers, and tensors without axes ----

COMPLEX = {
    "var": lambda z: z.var(dim=0),
    "var of parts": lambda z: z.reshape(2, 3).var(dim=1, unbiased=False, keepdim=True),
    "std": lambda z: z.std(dim=0),
    "sigmoid": lambda z: z.sigmoid(),
    "lerp": lambda z: z.lerp(z * z, 0.7),
    "lerp by a complex tensor": lambda z: z.lerp(z * z, z),
    "float_power": lambda z: z.float_power(2),
    "float_power of a fraction": lambda z: z.float_power(2.5),
    "logsumexp": lambda z: z.logsumexp(0),
    "logsumexp of parts": lambda z: z.reshape(2, 3).logsumexp(dim=1, keepdim=True),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_complex_numbers(name: str) -> None:
    values = np.array([1 + 2j, 3 - 1j, -0.5 + 0.25j, -4j, 0.1 + 0j, -2 - 2j])
    ours, theirs = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    found, wanted = COMPLEX[name](ours), COMPLEX[name](theirs)
    near(found, wanted, 1e-12)
    assert str(found.dtype) == str(wanted.dtype).removeprefix("torch.")
    found.abs().sum().backward()
    wanted.abs().sum().backward()
    near(ours.grad, theirs.grad, 1e-10)


def test_sigmoid_of_large_complex_numbers() -> None:
    assert Tensor([1000 + 1j, -1000 + 1j]).sigmoid().tolist() == [1, 0]


def test_tensors_without_axes() -> None:
    for library in (torch, rg):
        five, one = library.tensor(5.0), library.tensor(1.0)
        assert library.tensor(5.0).index_add_(0, library.tensor([0]), one).item() == 6
        assert five.index_add(0, library.tensor(0), one, alpha=3).item() == 8
        assert five.index_copy(0, library.tensor([0]), one).item() == five.index_fill(0, library.tensor([0]), one) == 1
        assert five.movedim(0, -1).item() == five.moveaxis((0,), (-1,)).item() == 5
    assert Tensor([5.0, 2.0]).index_fill(0, Tensor([0, 0]), Tensor(1.0)).tolist() == [1.0, 2.0]
    with pytest.raises(IndexError):
        Tensor(5.0).movedim(1, 0)


# ---- derivatives ----


class Tripled(autograd.Function):
    """A function whose gradient is wrong."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3


def test_checks_of_gradients() -> None:
    x = Tensor(NUMBERS.normal(size=(2, 3)), requires_grad=True)
    y = Tensor(NUMBERS.normal(size=(3, 2)), requires_grad=True)
    z = Tensor(np.array([1 + 2j, -0.5 + 1j]), requires_grad=True)
    assert autograd.gradcheck(lambda x, y: (x @ y).sin(), (x, y))
    assert autograd.gradcheck(lambda x, y, n: ((x @ y) * n, x.exp(), Tensor([1])), [x, y.detach(), 2], fast_mode=True)
    assert autograd.gradcheck(lambda z: (z * z, z.abs()), z)
    assert autograd.gradgradcheck(lambda x, y: (x @ y).sin(), (x, y))
    assert autograd.gradgradcheck(lambda x: x.exp(), (x,), Tensor.ones(2, 3, dtype="float64"))
    assert not autograd.gradcheck(Tripled.apply, x, raise_exception=False)
    with pytest.raises(GradientError, match="output 0 by input 0"):
        autograd.gradcheck(Tripled.apply, (x,))
    with pytest.raises(ConfigError, match="requires_grad"):
        autograd.gradcheck(Tripled.apply, x.detach())
    with pytest.warns(UserWarning, match="float64"):
        autograd.gradcheck(lambda x: x * 2, Tensor([1.0], requires_grad=True), eps=1e-2)


def test_modules_mapped_together() -> None:
    layers = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval() for _ in range(4)]
    parameters, buffers = func.stack_module_state(layers)
    assert list(parameters) == ["0.weight", "0.bias", "1.weight", "1.bias"] and len(buffers) == 3
    weight = parameters["0.weight"]
    assert (
        weight.shape == (4, 3, 2)
        and weight.is_leaf
        and weight.requires_grad
        and not buffers["1.running_mean"].requires_grad
    )
    x = Tensor(NUMBERS.normal(size=(5, 2)).astype(np.float32))
    found = func.vmap(lambda p, b: func.functional_call(layers[0], (p, b), (x,)))(parameters, buffers)
    near(found, np.stack([layer(x).detach().numpy() for layer in layers]), 1e-5)
    layers[1][0].weight.requires_grad = False
    for wrong in ([], [nn.ReLU(), nn.Tanh()], [nn.ReLU(), nn.ReLU().eval()], layers):
        with pytest.raises(ModuleError, match="stack_module_state"):
            func.stack_module_state(wrong)


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_matrices_of_derivatives(name: str) -> None:
    x, y = [1.0, 2.0], [3.0, 4.0]
    for library in (torch, rg):
        of = getattr(library.func, name)
        first, second = library.tensor(x), library.tensor(y)
        parts = of(lambda x, y: x * y, argnums=(0, 1))(first, second)
        assert [part.tolist() for part in parts] == [[[3, 0], [0, 4]], [[1, 0], [0, 2]]]
        matrix, more = of(lambda x: (x * x, x + 1), has_aux=True)(first)
        assert (matrix.tolist(), more.tolist()) == ([[2, 0], [0, 4]], [2, 3])
    assert func.jacrev(lambda x: x * x, chunk_size=1)(Tensor(x)).tolist() == [[2, 0], [0, 4]]
