"""Arguments as programs for PyTorch give them, beside PyTorch itself; and those that are named because they do not fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
import rulegrad.nn.functional as F
from rulegrad import Tensor, nn, optim
from rulegrad.errors import AliasError, ConfigError, DtypeError, ShapeError

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

torch = pytest.importorskip("torch")

NUMBERS = np.random.default_rng(0)


def near(found: Any, wanted: Any) -> None:
    found, wanted = (np.asarray(x.detach().numpy() if hasattr(x, "detach") else x) for x in (found, wanted))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, 1e-6, 1e-6)


# ---- keywords of optimizers ----


@pytest.mark.parametrize(
    "name",
    [
        "SGD",
        "Adam",
        "AdamW",
        "RMSprop",
        "Adagrad",
        "Adadelta",
        "Adamax",
        "NAdam",
        "RAdam",
        "ASGD",
        "Rprop",
        "Adafactor",
    ],
)
def test_how_a_step_is_carried_out_changes_nothing(name: str) -> None:
    weights = [library.tensor([1.0, -2.0], requires_grad=True) for library in (torch, rg)]
    theirs = getattr(torch.optim, name)([weights[0]])
    ours = getattr(optim, name)([weights[1]], foreach=False, fused=True, capturable=True, differentiable=False)
    for _ in range(2):
        for weight, optimizer in zip(weights, (theirs, ours)):
            optimizer.zero_grad()
            (weight * weight).sum().backward()
            optimizer.step()
        near(weights[1], weights[0])
        ours.load_state_dict(theirs.state_dict())
    with pytest.raises(ConfigError, match=r"functional_call"):
        getattr(optim, name)([weights[1]], differentiable=True)
    with pytest.raises(TypeError, match="no argument momentums"):
        getattr(optim, name)([weights[1]], momentums=1)


# ---- windows ----


def test_columns_of_one_image() -> None:
    image = NUMBERS.normal(size=(2, 3, 4)).astype(np.float32)
    columns = F.unfold(Tensor(image), 2, padding=1)
    near(columns, torch.nn.functional.unfold(torch.tensor(image), 2, padding=1))
    near(nn.Unfold(2, padding=1)(Tensor(image)), columns)
    near(
        F.fold(columns, (3, 4), 2, padding=1),
        torch.nn.functional.fold(torch.tensor(columns.numpy()), (3, 4), 2, padding=1),
    )
    with pytest.raises(ShapeError, match=r"^unfold"):
        F.unfold(Tensor([1.0]), 2)
    with pytest.raises(ShapeError, match=r"^unfold"):
        F.unfold(Tensor(image), 5)
    with pytest.raises(ShapeError, match=r"^fold"):
        F.fold(columns, (3, 4), 2)


@pytest.mark.parametrize(("dim", "size", "step"), [(0, 3, 1), (1, 3, 2), (1, 2, 2), (1, 2, 3), (0, 1, 1), (1, 4, 9)])
def test_windows_without_overlap_can_be_written(dim: int, size: int, step: int) -> None:
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    written = [library.tensor(values) for library in (torch, rg)]
    for x in written:
        x.unfold(dim, size, step).mul_(-1)
    near(*reversed(written))


# ---- reductions ----


@pytest.mark.parametrize(
    "name",
    ["amax", "amin", "sum", "mean", "any", "all", "logsumexp", "var", "std", "norm", "nansum", "nanmean"],
)
def test_an_empty_dim_is_all_axes_as_in_pytorch(name: str) -> None:
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x = Tensor(values)
    found = getattr(x, name)(dim=(), keepdim=True)
    near(found, getattr(torch, name)(torch.tensor(values), dim=(), keepdim=True))
    assert x.sum(axis=()).shape == x.prod(axis=()).shape == x.amax(axis=()).shape == (2, 3)


# ---- views by strides ----


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((2,), (2,), 0), ((2, 3), (4, 1), 1), ((3, 2), (1, 4), 2), ((2, 1, 2), (6, 9, 2), None), ((), (), 5), ((0, 2), (1, 1), 0)
    ],
)  # fmt: skip
def test_what_is_written_by_strides_is_written(size: Any, stride: Any, offset: int | None) -> None:
    written = [library.arange(12.0).reshape(3, 4) for library in (torch, rg)]
    for x in written:
        x.as_strided(size, stride, offset).mul_(-1)
    near(*reversed(written))


def test_places_that_are_shown_twice_are_not_written() -> None:
    x = rg.arange(8.0)
    for size, stride in (((3, 2), (1, 1)), ((3,), (0,)), ((2, 3), (3, 2))):
        view = x.as_strided(size, stride)
        near(view, torch.arange(8.0).as_strided(size, stride))
        with pytest.raises(AliasError, match="clone"):
            view.fill_(9)
    view = x.as_strided((3, 2), (1, 1))
    x.fill_(1)
    assert view.tolist() == [[1, 1]] * 3


# ---- complex numbers, and what is not a tensor ----


def test_more_functions_of_complex_numbers() -> None:
    values = np.array([[1 + 1j, 0.5j], [0.25, 1 - 1j]], np.complex64)
    x, theirs = Tensor(values), torch.tensor(values)
    near(x.ldexp(-2), torch.ldexp(theirs, torch.tensor(-2)))
    near(x.sinc(), torch.sinc(theirs))
    near(Tensor([0j, 1e-3 + 1e-3j]).sinc(), torch.sinc(torch.tensor([0j, 1e-3 + 1e-3j])))
    near(x.logdet(), torch.logdet(theirs))
    near(Tensor([[-2 + 0j]]).logdet(), math.log(2) + math.pi * 1j)
    with pytest.raises(DtypeError, match="real"):
        x.frexp()


X = Tensor([[2.0, 1.0], [1.0, 3.0]], device="numpy")
ROWS, INDEX, VECTOR = (Tensor(numbers, device="numpy") for numbers in ([[[1.0, 2.0]]], [0, 1], [1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: rg.linalg.solve(X, 1), DtypeError),
        (lambda: rg.linalg.cross(VECTOR, "x"), DtypeError),
        (lambda: rg.linalg.lstsq(X, 1), DtypeError),
        (lambda: rg.linalg.householder_product(X, 1), DtypeError),
        (lambda: rg.linalg.tensorsolve(X, 1), DtypeError),
        (lambda: rg.linalg.vecdot(VECTOR, 1), DtypeError),
        (lambda: rg.linalg.lu_solve(X, INDEX, 1), DtypeError),
        (lambda: rg.linalg.ldl_solve(X, 1, X), DtypeError),
        (lambda: rg.linalg.multi_dot([X, 1]), DtypeError),
        (lambda: rg.linalg.multi_dot(1), ShapeError),
        (lambda: rg.linalg.det(1), DtypeError),
        (lambda: rg.special.polygamma(VECTOR, 1), DtypeError),
        (lambda: rg.complex(X, 1), DtypeError),
        (lambda: rg.equal(X, 1), DtypeError),
        (lambda: F.embedding_bag(INDEX, 1), DtypeError),
        (lambda: F.embedding(INDEX, 1), DtypeError),
        (lambda: F.grid_sample(X, 1), DtypeError),
        (lambda: F.affine_grid(X, 1), ShapeError),
        (lambda: F.bilinear(X, X, 1), DtypeError),
        (lambda: F.bilinear(X, X, X), ShapeError),
        (lambda: rg.constant_pad_nd(X, 1), ShapeError),
        (lambda: X.index_put(1, X), DtypeError),
        (lambda: rg.poisson(X, VECTOR), DtypeError),
        (lambda: rg.poisson(1), DtypeError),
        (lambda: rg.normal(X, "x"), DtypeError),
        (lambda: rg.normal(0.0, 1.0, 3), ShapeError),
        (lambda: rg.normal(X, 0.0, generator=VECTOR), DtypeError),
        (lambda: rg.rot90(X, 0, Tensor(1)), ShapeError),
        (lambda: rg.rot90(X, 1, 1), ShapeError),
        (lambda: rg.rot90(X, "x"), ShapeError),
        (lambda: F.adaptive_avg_pool1d(ROWS, ROWS), ShapeError),
        (lambda: X.as_strided("x", 0), ShapeError),
        (lambda: Tensor([1j]).histogram(2), DtypeError),
        (lambda: VECTOR.quantile(1j), ShapeError),
        (lambda: rg.linalg.qr(X, "foo"), ConfigError),
        (lambda: rg.linalg.eigh(X, UPLO="X"), ConfigError),
        (lambda: rg.linalg.lstsq(X, X, driver="x"), ConfigError),
    ],
)
def test_what_fits_no_parameter_is_named(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_arrays_beside_a_tensor_are_tensors() -> None:
    near(rg.linalg.solve(X, np.array([3.0, 4.0], np.float32)), [1.0, 1.0])
    near(rg.special.zeta(2.0, Tensor([1.0])), [math.pi**2 / 6])
