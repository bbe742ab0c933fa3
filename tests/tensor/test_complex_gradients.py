"""Gradients through complex numbers, d/dx + i d/dy for x + i y, against differences of the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, custom_gradient, grad, jacobian, jvp, vjp
from rulegrad.array_api import fft, vecdot
from rulegrad.errors import DtypeError

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square", "reciprocal", "sign", "conj"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
)


def real_of(z: Tensor) -> Tensor:
    """A real number of each complex one, in which both parts count."""
    return z.real * 1.3 + z.imag * 0.7


def written(a: Tensor, b: Tensor) -> Tensor:
    c = a * 1
    c[1] = b[0]
    c[Tensor([0, 2])] = b[:2]
    return c


def with_a_zero(a: Tensor) -> Tensor:
    return a * Tensor([0, 1, 1, 1])


#: Functions of complex matrices (3, 4); the letters of the second entry say which operands are real.
CASES: dict[str, tuple[Function, str]] = {
    "add": (lambda a, b: a + b, "zz"),
    "sub": (lambda a, b: a - b, "zz"),
    "mul": (lambda a, b: a * b, "zz"),
    "div": (lambda a, b: a / b, "zz"),
    "pow": (lambda a, b: a**b, "zz"),
    "of a real base": (lambda a: 2**a, "z"),
    "to a number": (lambda a: a ** (1.5 + 1j), "z"),
    "real beside complex": (lambda a, x: a * x + x, "zx"),
    "from parts": (lambda x, y: Tensor.complex(x, y).exp(), "xx"),
    "matmul": (lambda a, b: a @ b.T, "zz"),
    "matmul of reals": (lambda x, b: x @ b.T, "xz"),
    "vecdot": (vecdot, "zz"),
    "einsum": (lambda a, b: Tensor.einsum("ij,kj->ik", a, b), "zz"),
    "sum": (lambda a: a.sum(0), "z"),
    "mean": (lambda a: a.mean(1), "z"),
    "prod": (lambda a: a.prod(1), "z"),
    "prod with a zero": (lambda a: with_a_zero(a).prod(1), "z"),
    "cumsum": (lambda a: a.cumsum(1), "z"),
    "cumprod": (lambda a: a.cumprod(1), "z"),
    "cumprod with a zero": (lambda a: with_a_zero(a).cumprod(1), "z"),
    "where": (lambda a, b: (a.real > 0).where(a, b), "zz"),
    "index": (lambda a: a[1:, [0, 2, 0]], "z"),
    "written": (written, "zz"),
    "moved": (lambda a: a.pad([(1, 1), (0, 2)]).roll(1, 1).T.flip(0), "z"),
    "cast": (lambda x: x.cast("complex128") * x, "x"),
    "realized": (lambda a: (a * a).realize().exp(), "z"),
    "fft": (fft.fft, "z"),
    "ifft": (fft.ifft, "z"),
    "irfft": (fft.irfft, "z"),
    "hfft": (fft.hfft, "z"),
    "rfft": (fft.rfft, "x"),
    "ihfft": (fft.ihfft, "x"),
    "fftn": (fft.fftn, "x"),
}


def numbers(kinds: str) -> list[Array]:
    generator = np.random.default_rng(5)
    drawn = [generator.normal(size=(3, 4)) + 1j * generator.normal(size=(3, 4)) for _ in kinds]
    return [a.real if kind == "x" else a for a, kind in zip(drawn, kinds, strict=True)]


def slopes_agree(function: Function, arrays: list[Array]) -> None:
    """The gradient of a real function, against its slope in a direction of each operand."""
    generator = np.random.default_rng(7)
    operands = [Tensor(a, requires_grad=True) for a in arrays]
    result = function(*operands)
    weights = generator.normal(size=result.shape)
    (result * Tensor(weights)).sum().backward()
    for k, a in enumerate(arrays):
        found: Any = operands[k].grad
        assert found.dtype == operands[k].dtype
        step: Array = generator.normal(size=a.shape) * 1e-6
        if a.dtype.kind == "c":
            step = step + 1e-6j * generator.normal(size=a.shape)
        ends = [function(*[Tensor(b + s * step if j == k else b) for j, b in enumerate(arrays)]) for s in (1, -1)]
        difference = ((ends[0].numpy() - ends[1].numpy()) * weights).sum() / 2
        slope = np.real(np.conj(found.numpy()) * step).sum()
        assert abs(difference - slope) <= 1e-6 * (abs(difference) + 1e-6), k


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(any_device, name):
    slopes_agree(lambda z: real_of(getattr(z, name)()), numbers("z"))


@pytest.mark.parametrize("name", ["abs", "angle", "real", "imag"])
def test_real_functions(any_device, name):
    slopes_agree(lambda z: found() if callable(found := getattr(z, name)) else found, numbers("z"))


@pytest.mark.parametrize("name", CASES)
def test_operations(any_device, name):
    function, kinds = CASES[name]
    slopes_agree(lambda *operands: real_of(function(*operands)), numbers(kinds))


def test_the_convention(any_device):
    """As PyTorch has it: z.abs()**2 has the gradient 2 z, z.imag has i."""
    z = Tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (z.abs() ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), [2 + 4j, 6 - 2j], rtol=1e-6)
    assert grad(lambda w: w.imag.sum())(z).tolist() == [1j, 1j]


def test_the_size_of_zero_is_flat(any_device):
    assert grad(lambda z: z.abs().sum())(Tensor([0j, 3 + 4j], dtype="complex128")).tolist() == [0, 0.6 + 0.8j]


def test_real_in_and_real_out(device):
    """The gradient of a power spectrum: sum |X|^2 is n times sum x^2."""
    x = Tensor(np.arange(6.0), requires_grad=True)
    fft.fft(x).abs().square().sum().backward()
    assert x.grad.dtype == "float64"
    np.testing.assert_allclose(x.grad.numpy(), 12 * np.arange(6.0), rtol=1e-10, atol=1e-10)


def test_second_derivatives(any_device):
    """Of |z|^4 = (x^2 + y^2)^2 in the direction 1: 4 |z|^2 + 8 x z."""
    z = Tensor([1 + 2j], dtype="complex128")
    _, along = jvp(grad(lambda w: (w.abs() ** 4).sum()), [z], [Tensor([1 + 0j], dtype="complex128")])
    np.testing.assert_allclose(along.numpy(), [20 + 8 * (1 + 2j)], rtol=1e-12)


def test_directions_and_pullbacks(any_device):
    z, way = (Tensor(np.array(a)) for a in ([1 + 2j, 3 - 1j], [0.5 - 1j, 2 + 1j]))
    _, along = jvp(lambda w: w * w, [z], [way])
    np.testing.assert_allclose(along.numpy(), 2 * z.numpy() * way.numpy())
    _, pulled = vjp(lambda w: w * w, z)
    np.testing.assert_allclose(pulled(way)[0].numpy(), 2 * np.conj(z.numpy()) * way.numpy())
    rows = jacobian(lambda w: w.real * w.imag)(z)
    np.testing.assert_allclose(rows.numpy(), np.diag(z.numpy().imag + 1j * z.numpy().real))


def test_a_step_against_the_gradient_makes_a_loss_smaller(any_device):
    target = Tensor([1 + 1j, -2j], dtype="complex128")
    z = Tensor([0j, 0j], dtype="complex128", requires_grad=True)
    for _ in range(60):
        z.grad = None
        (z - target).abs().square().sum().backward()
        z = (z.detach() - z.grad * 0.2).realize().requires_grad_()
    np.testing.assert_allclose(z.detach().numpy(), target.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda z: z.sum().backward(), "backward: this tensor is complex64; take .real or .abs()"),
        (lambda z: grad(lambda w: w.sum())(z), "grad: the function's result is complex64"),
        (lambda z: jacobian(lambda w: w * w)(z), "jacobian: the function's result is complex64"),
    ],
)
def test_complex_results_need_a_choice(any_device, action, message):
    with pytest.raises(DtypeError, match=message):
        action(Tensor([1 + 2j, 3j], requires_grad=True))


def test_a_gradient_of_ones_own(any_device):
    @custom_gradient("turned", "(_, _) -> (none, -d)")
    def turned(z: Tensor) -> Tensor:
        return z * 1j

    z = Tensor([1 + 2j, 3j], dtype="complex128")
    assert turned(z).tolist() == [-2 + 1j, -3 + 0j]
    assert grad(lambda w: turned(w).real.sum())(z).tolist() == [-1, -1]
