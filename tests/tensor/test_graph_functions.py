"""Functions whose graphs are made once: what the engine builds of them is what Python would build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rulegrad
from rulegrad import Tensor, autocast, jit, nn, no_grad, profile
from rulegrad.config import config
from rulegrad.errors import CaptureError, DeviceError, DtypeError, IndexRangeError, RulegradError, ShapeError
from rulegrad.runtime.eager import eager, follow_settings
from rulegrad.tensor import graph_functions

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

VALUES = np.random.default_rng(0)


def floats(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(VALUES.uniform(0.1, 0.9, shape), dtype=dtype)


#: A method, and what makes its arguments.
CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "conv1d": lambda: (floats(2, 3, 8), floats(4, 3, 3), floats(4), 2, 1),
    "conv2d": lambda: (floats(2, 4, 6, 6), floats(4, 2, 3, 3), None, (1, 2), "valid", 1, 2),
    "conv3d": lambda: (floats(1, 2, 4, 4, 4), floats(2, 2, 2, 2, 2)),
    "conv_transpose1d": lambda: (floats(2, 3, 5), floats(3, 2, 3), floats(2), 2),
    "conv_transpose2d": lambda: (floats(1, 3, 4, 4), floats(3, 2, 3, 3)),
    "conv_transpose3d": lambda: (floats(1, 2, 2, 2, 2), floats(2, 1, 2, 2, 2)),
    "layer_norm": lambda: (floats(3, 4), [4], floats(4), floats(4)),
    "rms_norm": lambda: (floats(3, 4), 4, floats(4)),
    "group_norm": lambda: (floats(2, 4, 3), 2, floats(4), floats(4)),
    "local_response_norm": lambda: (floats(2, 4, 3), 3),
    "softmax": lambda: (floats(3, 4), 0),
    "softmin": lambda: (floats(3, 4),),
    "log_softmax": lambda: (floats(3, 4), -1, "float64"),
    "logsumexp": lambda: (floats(3, 4), (0, 1)),
    "normalize": lambda: (floats(3, 4), 2.0, 1),
    "gelu": lambda: (floats(5), "tanh"),
    "mish": lambda: (floats(5),),
    "selu": lambda: (floats(5),),
    "elu": lambda: (floats(5), 0.5),
    "celu": lambda: (floats(5), 0.5),
    "logsigmoid": lambda: (floats(5),),
    "hardswish": lambda: (floats(5),),
    "hardsigmoid": lambda: (floats(5),),
    "glu": lambda: (floats(3, 4),),
    "prelu": lambda: (floats(3, 4), floats(4)),
    "softsign": lambda: (floats(5),),
    "tanhshrink": lambda: (floats(5),),
    "scaled_dot_product_attention": lambda: (floats(2, 3, 4), floats(2, 5, 4), floats(2, 5, 3), None, 0.0, True),
    "linear": lambda: (floats(3, 4), floats(5, 4), floats(5)),
    "addmm": lambda: (floats(3, 5), floats(3, 4), floats(4, 5)),
    "baddbmm": lambda: (floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5)),
    "matmul": lambda: (floats(2, 3, 4), floats(4, 5)),
    "binary_cross_entropy": lambda: (floats(3), floats(3)),
    "binary_cross_entropy_with_logits": lambda: (floats(3), floats(3)),
    "soft_margin_loss": lambda: (floats(3), floats(3)),
    "hinge_embedding_loss": lambda: (floats(3), floats(3)),
    "mse_loss": lambda: (floats(3), floats(3), "sum"),
    "l1_loss": lambda: (floats(3), floats(3), "none"),
    "huber_loss": lambda: (floats(3), floats(3)),
    "smooth_l1_loss": lambda: (floats(3), floats(3)),
    "poisson_nll_loss": lambda: (floats(3), floats(3)),
    "kl_div": lambda: (floats(3, 4), floats(3, 4)),
    "cosine_embedding_loss": lambda: (floats(3, 4), floats(3, 4), floats(3)),
    "margin_ranking_loss": lambda: (floats(3), floats(3), floats(3)),
    "triplet_margin_loss": lambda: (floats(3, 4), floats(3, 4), floats(3, 4)),
    "cross_entropy": lambda: (floats(3, 4), Tensor([0, 3, 1]), None, -100, "sum"),
    "nll_loss": lambda: (floats(3, 4), Tensor([0, 3, 1]), floats(4)),
    "gather": lambda: (floats(3, 4), 1, Tensor([[0], [3], [1]])),
    "take_along_axis": lambda: (floats(3, 4), Tensor([[0], [3], [1]])),
    "take": lambda: (floats(3, 4), Tensor([0, 3]), 1),
    "cat": lambda: ([floats(3, 4), floats(2, 4)],),
    "stack": lambda: ([floats(3), floats(3)], 1),
    "where": lambda: (floats(3, 4) > 0.5, floats(4), -1.0),
    "norm": lambda: (floats(3, 4), 2, 1),
    "threshold": lambda: (floats(3, 4), 0.5, -1.0),
    "clip": lambda: (floats(3, 4), 0.0, floats(4)),
    "cumsum": lambda: (floats(3, 4), 1),
    "einsum": lambda: ("ij,kj->ik", floats(3, 4), floats(5, 4)),
    "roll": lambda: (floats(3, 4), (1, -1), (0, 1)),
    "repeat": lambda: (floats(3, 4), 2, 1, 3),
    "embedding": lambda: (floats(3, 4), Tensor([[0, 2], [1, 1]])),
    "searchsorted": lambda: (Tensor([1.0, 3.0, 5.0]), floats(2, 3) * 6),
    "tril": lambda: (floats(3, 4),),
    "triu": lambda: (floats(3, 4), -1),
    "__getitem__": lambda: (floats(3, 4, 5), (slice(None, None, -1), Tensor([0, 3]), None, Tensor([[1], [2]]), ...)),
    "sum": lambda: (floats(3, 4), 1),
    "prod": lambda: (floats(3, 4),),
    "amax": lambda: (floats(3, 4), (0, 1)),
    "amin": lambda: (floats(3, 4), None, True),
    "mean": lambda: (floats(3, 4), -1),
    "var": lambda: (floats(3, 4), 0),
    "std": lambda: (floats(3, 4), 0, 0),
    "argmax": lambda: (floats(3, 4), 1),
    "argmin": lambda: (floats(3, 4),),
    "avg_pool1d": lambda: (floats(1, 2, 6), 2),
    "avg_pool2d": lambda: (floats(1, 2, 6, 6), 2),
    "avg_pool3d": lambda: (floats(1, 2, 4, 4, 4), 2),
    "max_pool1d": lambda: (floats(1, 2, 6), 2),
    "max_pool2d": lambda: (floats(1, 2, 6, 6), 2),
    "max_pool3d": lambda: (floats(1, 2, 4, 4, 4), 2),
    "adaptive_avg_pool1d": lambda: (floats(1, 2, 6), 4),
    "adaptive_avg_pool2d": lambda: (floats(1, 2, 6, 6), 3),
    "adaptive_avg_pool3d": lambda: (floats(1, 2, 4, 4, 4), 2),
    "masked_fill": lambda: (floats(3, 4), floats(4) > 0.5, 2.0),
    "clamp": lambda: (floats(3, 4), 0.25, None),
    "pow": lambda: (floats(3, 4), 3),
    "any": lambda: (floats(3, 4) > 0.5, 1),
    "all": lambda: (floats(3, 4) > 0.5,),
    "bucketize": lambda: (floats(3, 4), Tensor([0.2, 0.5])),
    "cross": lambda: (floats(4, 3), floats(4, 3)),
    "tensordot": lambda: (floats(3, 4), floats(4, 5), 1),
    "kron": lambda: (floats(2, 3), floats(3, 2)),
    "addcmul": lambda: (floats(3, 4), floats(4), floats(3, 1)),
    "addcdiv": lambda: (floats(3, 4), floats(4), floats(3, 1)),
    "lerp": lambda: (floats(3, 4), floats(3, 4), 0.25),
    "isclose": lambda: (floats(3, 4), floats(3, 4), 0.5),
    "nan_to_num": lambda: (floats(3, 4), 1.0),
    "cumprod": lambda: (floats(3, 4), 1),
    "logcumsumexp": lambda: (floats(3, 4), 1),
    "diff": lambda: (floats(3, 4), 2),
    "quantile": lambda: (floats(3, 4), 0.3, 1),
    "cosine_similarity": lambda: (floats(3, 4), floats(3, 4)),
    "pairwise_distance": lambda: (floats(3, 4), floats(3, 4)),
    "cdist": lambda: (floats(3, 4), floats(5, 4)),
    "index_select": lambda: (floats(3, 4), 1, Tensor([2, 0])),
    "index_add": lambda: (floats(3, 4), 0, Tensor([2, 0]), floats(2, 4)),
    "index_copy": lambda: (floats(3, 4), 0, Tensor([2, 0]), floats(2, 4)),
    "index_reduce": lambda: (floats(3, 4), 0, Tensor([2, 0]), floats(2, 4), "amax"),
    "scatter": lambda: (floats(3, 4), 1, Tensor([[0], [3], [1]]), floats(3, 1)),
    "scatter_add": lambda: (floats(3, 4), 1, Tensor([[0], [3], [1]]), floats(3, 1)),
    "scatter_reduce": lambda: (floats(3, 4), 1, Tensor([[0], [3], [1]]), floats(3, 1), "amax"),
    "instance_norm": lambda: (floats(2, 3, 4),),
    "pad": lambda: (floats(3, 4), (1, 2), "reflect"),
    "diag": lambda: (floats(3),),
    "trace": lambda: (floats(3, 4), 1),
    "bitwise_not": lambda: (Tensor([0, 3, 1]),),
}
CALLS |= {
    name: lambda: (floats(3, 4),)
    for name in (
        *("relu", "leaky_relu", "relu6", "hardtanh", "hardshrink", "softshrink", "sigmoid", "silu", "softplus"),
        *("rsqrt", "sinc", "logit", "isinf", "isfinite", "logical_not"),
    )
}
CALLS |= {
    name: lambda: (floats(3, 4), floats(4))
    for name in (
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "floor_divide", "remainder"),
        *("logical_and", "logical_or", "logical_xor", "logaddexp", "hypot"),
    )
}
CALLS |= {
    name: lambda: (Tensor([0, 3, 1]), Tensor([[1], [2]])) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
}


def not_known(*_: Any) -> Any:
    raise TypeError


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tensor]:
    """A call of a method whose graph Python builds, also what it calls itself."""

    def call(name: str, *arguments: Any, **more: Any) -> Tensor:
        with monkeypatch.context() as patch:
            patch.setattr(graph_functions, "_argument_key", not_known)
            patch.setattr(eager, "is_off", True)
            found: Tensor = getattr(Tensor, name)(*arguments, **more)
        return found

    return call


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_graphs_are_those_of_python(name: str, tracked: bool, in_python: Callable[..., Tensor]) -> None:
    follow_settings()  # the engine's table of graphs is in use
    for round_ in range(4):
        arguments = CALLS[name]()
        for k, argument in enumerate(arguments):
            if isinstance(argument, Tensor) and argument.dtype == "float32":
                argument.requires_grad = tracked and round_ != 3
                if round_ == 2 and k == 0:
                    arguments = (argument * 2, *arguments[1:])  # a graph, not a buffer
        found, wanted = getattr(Tensor, name)(*arguments), in_python(name, *arguments)
        assert found.uop == wanted.uop
        assert (type(found), found.requires_grad, found.device) == (type(wanted), wanted.requires_grad, wanted.device)
        with no_grad():
            assert getattr(Tensor, name)(*arguments).uop == in_python(name, *arguments).uop


def test_every_function_is_tried() -> None:
    """CALLS has all methods that are built once."""
    found = {row.__name__ for row in vars(Tensor).values() if _is_built_once(row) and not row.__name__.endswith("_")}
    assert found <= set(CALLS), found - set(CALLS)


def _is_built_once(row: Any) -> bool:
    while row is not None:
        if getattr(row, "__code__", None) in _CODES:
            return True
        row = getattr(row, "__wrapped__", None)
    return False


_CODES = {graph_functions.built_once(lambda self: self).__code__}


def test_a_tuple_of_results() -> None:
    @graph_functions.built_once
    def both(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        calls.append(1)
        return (x * y).detach(), x * y + x

    calls: list[int] = []
    for number in range(4):
        x, y = floats(3).requires_grad_(), floats(3)
        first, second = both(x, y)
        assert not first.requires_grad and second.requires_grad
        np.testing.assert_allclose(first.numpy(), x.numpy() * y.numpy(), rtol=1e-6)
        second.sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.numpy() + 1, rtol=1e-6)
        assert len(calls) == min(number + 1, 2)
    x = floats(3)
    assert both(x, x)[1].requires_grad is False and both(x, x)[0].tolist() == both(x, x)[0].tolist()


#: Of nn.functional: a function, and what makes its arguments.
FUNCTIONS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "grid_sample": lambda: (floats(1, 2, 4, 5), floats(1, 3, 3, 2) * 2 - 1, "bilinear", "zeros", False),
    "affine_grid": lambda: (floats(1, 2, 3), (1, 2, 3, 4), False),
    "pixel_shuffle": lambda: (floats(1, 4, 2, 3), 2),
    "unfold": lambda: (floats(1, 2, 4, 5), 2),
    "fold": lambda: (floats(1, 8, 4), 3, 2),
    "embedding_bag": lambda: (Tensor([[0, 2], [1, 1]]), floats(3, 4)),
    "bilinear": lambda: (floats(3, 4), floats(3, 5), floats(2, 4, 5)),
    "interpolate": lambda: (floats(1, 2, 4, 5), (6, 3), None, "bilinear"),
    "multi_head_attention_forward": lambda: (
        *(floats(3, 1, 4), floats(5, 1, 4), floats(5, 1, 4), 4, 2, floats(12, 4), floats(12), None, None, False, 0.1),
        *(floats(4, 4), floats(4), False),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_layers_are_what_they_were(name: str) -> None:
    function = getattr(nn.functional, name)
    for _ in range(3):
        arguments = FUNCTIONS[name]()
        with profile():  # everything goes through Python
            again = function.__wrapped__ if hasattr(function, "__wrapped__") else function
            expected = again(*arguments)
        found = function(*arguments)
        for one, other in zip(
            *(made if isinstance(made, tuple) else (made,) for made in (found, expected)), strict=True
        ):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-7)


def test_values_and_gradients() -> None:
    found = []
    for _ in range(3):
        x, w = Tensor(np.arange(12.0).reshape(3, 4), requires_grad=True), Tensor(np.eye(4), requires_grad=True)
        x.linear(w).softmax(-1).square().sum().backward()
        assert x.grad is not None and w.grad is not None
        found.append((x.grad.numpy(), w.grad.numpy()))
    for one in found[1:]:
        for a, b in zip(one, found[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_gradients_of_leaves_that_wait_for_their_buffers() -> None:
    """A leaf that is not computed yet gets its buffer when it is first used."""
    for make in (lambda: Tensor(np.arange(6.0)) * 0.5, lambda: Tensor.ones(6)):
        for _ in range(4):
            leaf = make()
            leaf.requires_grad = True
            leaf.softmax(-1).square().sum().backward()
            assert leaf.grad is not None and leaf.grad.shape == (6,)
            leaf = make()
            leaf.requires_grad = True
            assert leaf.mean().numpy() == leaf.detach().numpy().mean()


def test_a_view_has_the_gradient_that_its_base_has_by_now() -> None:
    for _ in range(4):
        base, added = Tensor(np.ones((2, 3))), Tensor(np.ones(3), requires_grad=True)
        view = base[0]
        base += added
        view.softmax(-1).square().sum().backward()
        assert view.softmax(-1).requires_grad and added.grad is not None
    for _ in range(4):
        product = Tensor(np.ones((2, 3)), requires_grad=True) * 2
        view = product[0]
        product.detach_()
        assert not view.gelu().requires_grad


def test_tensors_that_stand_for_numbers() -> None:
    """Their values are asked for, so each call is Python's."""
    x, values = Tensor(np.arange(6.0).reshape(2, 3)), np.arange(6.0).reshape(2, 3)
    for axis in (0, 1, 0, 1):
        assert x.sum(Tensor(axis)).tolist() == values.sum(axis).tolist()
        assert x.sum(0, Tensor(axis == 1)).shape == values.sum(0, keepdims=axis == 1).shape
        assert x[[Tensor(axis), Tensor(axis)], Tensor([0, 1])].tolist() == values[[axis, axis], [0, 1]].tolist()
        assert x[Tensor(axis) :, Tensor([0, 1])].tolist() == values[axis:, [0, 1]].tolist()
        assert x.smooth_l1_loss(x + 1, beta=Tensor(0.5 + axis / 2)).item() == 0.75 - axis / 4
    captured = jit(lambda x, n: x.prod(n))
    for _ in range(3):
        with pytest.raises(CaptureError):
            captured(x, Tensor(1))


def test_classes_of_results(in_python: Callable[..., Tensor]) -> None:
    class Special(Tensor):
        pass

    plain, special = floats(3), Special([1.0, 2.0, 3.0])
    for _ in range(3):
        for arguments in ((special, plain > 0.5, 0.0), (plain, special > 0.5, 0.0), (plain > 0.5, special, plain)):
            assert type(Tensor.where(*arguments)) is type(in_python("where", *arguments))


def test_lists_that_are_no_arguments() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for _ in range(3):
        with pytest.raises(RulegradError):
            floats(3)[endless]


def test_arguments_of_other_kinds_are_others(in_python: Callable[..., Tensor]) -> None:
    """Values that Python holds to be equal, dtypes, numbers that are constants, and a tensor that is given twice."""
    x, w = floats(3, 4), floats(3, 3)
    for given in (x, x.cast("float64"), x.cast("float16"), Tensor.zeros(3, 4), x.T.T, x):
        for axis in (-1, 1, True, 0, None):
            for _ in range(2):
                assert given.sum(axis).uop == in_python("sum", given, axis).uop
    for pair in ((w, w), (w, floats(3, 3)), (w, Tensor.ones(3, 3))):
        for _ in range(2):
            assert pair[0].matmul(pair[1]).uop == in_python("matmul", *pair).uop
    for eps in (0.0, -0.0, 1e-5):
        for _ in range(2):
            assert x.layer_norm(4, eps=eps).uop == in_python("layer_norm", x, 4, eps=eps).uop


def test_mistakes_are_told_each_time() -> None:
    x = floats(3, 4)
    for _ in range(3):
        with pytest.raises(ShapeError, match="matmul"):
            x.matmul(floats(3, 4))
        with pytest.raises(ShapeError, match="axis"):
            x.sum(7)
    with pytest.raises(DeviceError):
        for _ in range(3):
            x.matmul(Tensor(np.ones((4, 2)), dtype="float32", device="c"))


def test_a_name_is_no_argument_by_position() -> None:
    parts = [Tensor([[1.0]]), Tensor([[2.0]])]
    for _ in range(4):
        assert Tensor.cat(parts, axis=1).shape == (1, 2)
    with pytest.raises(DtypeError, match="an operand is a str"):
        Tensor.cat(parts, "axis", 1)  # type: ignore[arg-type]


def test_long_lists_of_tensors() -> None:
    for count in (64, 65, 1024, 1025):
        parts = [Tensor([float(k)]) for k in range(count)]
        for _ in range(3):
            assert Tensor.cat(parts).tolist() == list(range(count))


def test_inside_autocast(in_python: Callable[..., Tensor]) -> None:
    x, w = floats(3, 4), floats(5, 4)
    for _ in range(3):
        assert x.linear(w).dtype == "float32"
        with autocast():
            assert x.linear(w).dtype == "bfloat16"
            assert x.linear(w).softmax(-1).uop == in_python("softmax", x.linear(w), -1).uop


def test_values_of_lists_are_no_part_of_a_graph_function() -> None:
    """They are in buffers, which live as long as the result."""
    x = floats(3, 4)
    for _ in range(4):
        np.testing.assert_array_equal(x[[2, 0]].numpy(), x.numpy()[[2, 0]])
        np.testing.assert_array_equal(x[:, [True, False, True, False]].numpy(), x.numpy()[:, [0, 2]])
        np.testing.assert_array_equal(x.take([1, 1], 1).numpy(), x.numpy()[:, [1, 1]])
        np.testing.assert_allclose(x.matmul([[1.0], [0.0], [2.0], [0.0]]).numpy(), x.numpy() @ [[1], [0], [2], [0]])
        assert x[list(range(3)) * 30].shape == (90, 4)


def test_masks_are_read_each_time() -> None:
    x = Tensor(np.arange(4.0))
    for bound in range(4):
        assert x[x > bound].tolist() == list(range(bound + 1, 4))


def test_an_index_that_is_wrong_names_the_line_of_its_call() -> None:
    x = floats(3, 4)
    for _ in range(2):
        x[Tensor([0, 1])].numpy()
        x.cross_entropy(Tensor([0, 1, 2])).item()
    wrong = x[Tensor([0, 7])]  # this line
    with pytest.raises(IndexRangeError, match=r"index: .*\n?.*test_graph_functions.py:\d+"):
        wrong.numpy()
    loss = x.cross_entropy(Tensor([0, 1, 9]))
    with pytest.raises(IndexRangeError, match=r"cross_entropy: .*\n?.*test_graph_functions.py:\d+"):
        loss.item()
    with config(check_indices=False):
        assert np.isnan(x.cross_entropy(Tensor([0, 1, 9])).item())


def test_results_are_tensors_of_their_own() -> None:
    x = floats(3, 4)
    before = x.numpy().copy()
    for _ in range(3):
        for y in (x.sum(()), x.softmax(-1), x.avg_pool1d(1), x.max((), keepdims=True)):
            y += 1
            np.testing.assert_array_equal(x.numpy(), before)


def test_a_view_follows_its_base() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3))
    row = x[0]
    for k in range(3):
        x += 1
        assert row.sum().item() == 3.0 + 3 * (k + 1)


def test_arguments_that_differ_in_little_are_of_different_kinds(in_python: Callable[..., Tensor]) -> None:
    follow_settings()
    x = floats(2, 3)
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("leaky_relu", (x, 0.0), {}), ("leaky_relu", (x, -0.0), {}), ("clamp", (x, 0, None), {}), ("clamp", (x, None, 0), {}),
        ("clamp", (x, 0.0, 1), {}), ("clamp", (x, False, 1), {}), ("clamp", (x,), {"max": 0}), ("clamp", (x,), {"min": 0}),
        ("sum", (x, 0), {}), ("sum", (x, (0,)), {}), ("sum", (x, [0]), {}), ("sum", (x, rulegrad.Size((0,))), {}), ("sum", (x, (0, 1)), {}), ("sum", (x, 0, True), {}), ("sum", (x, 1), {}),
        ("sum", (floats(3, 2), 1), {}), ("sum", (floats(6), 0), {}), ("sum", (x.half(), 0), {}), ("sum", (x.T, 0), {}),
        ("pow", (x, 2), {}), ("pow", (x, 2.0), {}), ("pow", (x, 2**40), {}), ("softmax", (x, -1, "float64"), {}),
        ("softmax", (x, -1, rulegrad.float64), {}), ("softmax", (x, -1, rulegrad.float16), {}), ("softmax", (x, -1, None), {}),
    ]  # fmt: skip
    for _ in range(4):
        for name, arguments, more in calls:
            found = getattr(Tensor, name)(*arguments, **more)
            wanted = in_python(name, *arguments, **more)
            assert found.uop == wanted.uop, (name, arguments[1:], more)
