"""Tensors in the hands of PyTorch, Pillow, einops, xarray, pandas and notebooks, and theirs in ours."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad import array_api as xp
from rulegrad.errors import ConfigError, GradientError, ShapeError
from rulegrad.tensor import einops_backend
from rulegrad.tensor.capsules import Borrowed, _described, lend


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "bool"])
def test_capsules_of_every_dtype_go_there_and_back(any_device: str, dtype: str) -> None:
    x = Tensor([[1.5, 0.0, 2.0]], device="numpy").cast(dtype).realize()
    for copy in (None, True, False):
        back = Tensor.from_dlpack(_Only(x), device="numpy", copy=copy)
        assert (back.dtype, back.tolist()) == (dtype, x.tolist())
    assert Tensor.from_dlpack(_Old(x), device="numpy").tolist() == x.tolist()


class _Only:
    """An array of another library: all that is known of it is DLPack."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self.__dlpack_device__ = tensor.__dlpack_device__

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)


class _Old(_Only):
    """One of before DLPack 1.0."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self._tensor.__dlpack__()


def test_the_code_in_a_capsule_is_that_of_the_dtype() -> None:
    for dtype, code in (("bfloat16", 4), ("float8_e4m3fn", 10), ("float8_e5m2", 12), ("uint8", 1), ("float64", 2)):
        values = Tensor([1.0], device="numpy").cast(dtype).numpy()
        for version in (None, (1, 0)):
            found = _described(lend(values, version))
            assert (found.code, found.bits, found.ndim) == (code, 8 * values.itemsize, 1)
    assert Borrowed(np.ones(2)).as_it_is(np.ones(2)).dtype == np.float64


def test_pytorch_takes_tensors() -> None:
    torch = pytest.importorskip("torch")
    for dtype in ("float32", "int64", "bool", "bfloat16", "complex64"):
        x = Tensor([[1, 0, 1], [0, 1, 1]], device="c").cast(dtype)
        for function in (torch.asarray, torch.from_dlpack, torch.as_tensor):
            found = function(x)
            assert found.dtype == getattr(torch, dtype) and found.tolist() == x.tolist(), function.__name__
    x = Tensor([1.0, 2.0], device="c", requires_grad=True)
    assert torch.asarray(x.detach()).tolist() == [1.0, 2.0]
    copied = torch.tensor(x.detach())
    copied[0] = 9
    written = torch.from_numpy(np.asarray(x))
    written[0] = 9
    assert x.tolist() == [1.0, 2.0]


def test_tensors_of_pytorch_are_taken() -> None:
    torch = pytest.importorskip("torch")
    for theirs in (
        torch.tensor([1.5, 2.0], dtype=torch.bfloat16),
        torch.tensor([1.5, 2.0], requires_grad=True),
        torch.tensor([[1.5, 2.0], [3.0, 4.0]]).T,
        torch.tensor([1 + 2j]).conj(),
    ):
        ours = Tensor(theirs, device="numpy")
        assert ours.dtype == theirs.dtype and ours.tolist() == theirs.detach().tolist() and not ours.requires_grad
    assert Tensor([1.0], dtype=torch.float64).dtype == "float64"
    with pytest.raises(GradientError, match="would be lost; use its detach"):
        Tensor([1.0]) + torch.tensor([1.0], requires_grad=True)


def test_pillow_takes_tensors() -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    assert image.fromarray(Tensor(pixels, device="numpy")).getpixel((1, 2)) == tuple(pixels[2, 1])
    assert image.fromarray(Tensor(pixels[:, :, 0], device="numpy")).mode == "L"


def test_einops_finds_the_backend() -> None:
    einops = pytest.importorskip("einops")
    x = Tensor(np.arange(24.0).reshape(2, 3, 4), device="numpy", requires_grad=True)
    rearranged = einops.rearrange(x, "a b c -> c (b a)")
    np.testing.assert_array_equal(rearranged.numpy(), einops.rearrange(x.numpy(), "a b c -> c (b a)"))
    assert rearranged.requires_grad
    for how in ("sum", "mean", "max", "min", "prod"):
        expected = einops.reduce(x.numpy(), "a b c -> b", how)
        np.testing.assert_allclose(einops.reduce(x, "a b c -> b", how).numpy(), expected, rtol=1e-6)
    assert einops.repeat(x, "a b c -> a (b k) c", k=2).shape == (2, 6, 4)
    assert einops.einsum(x, x, "a b c, a b d -> c d").shape == (4, 4)
    assert einops.rearrange([x, x], "k a b c -> a k b c").shape == (2, 2, 3, 4)
    packed, shapes = einops.pack([x, x[:, 0]], "a * c")
    assert packed.shape == (2, 4, 4) and [part.shape for part in einops.unpack(packed, shapes, "a * c")] == [
        (2, 3, 4), (2, 4)]  # fmt: skip


_EINOPS = """
class AbstractBackend:
    pass
"""


@pytest.mark.parametrize("before", [True, False])
def test_einops_is_told_whenever_it_is_imported(tmp_path: Any, before: bool) -> None:
    """With a stand-in of einops, imported before tensors are or after."""
    (tmp_path / "einops").mkdir()
    (tmp_path / "einops" / "__init__.py").write_text("from . import _backends\n")
    (tmp_path / "einops" / "_backends.py").write_text(_EINOPS)
    lines = [f"import sys; sys.path.insert(0, {str(tmp_path)!r})", "import einops", "from rulegrad import Tensor"]
    if not before:
        lines[1:] = lines[:0:-1]
    lines.append("import gc; gc.collect(); print(einops._backends.AbstractBackend.__subclasses__())")
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert "RulegradBackend" in done.stdout


def test_the_backend_for_einops() -> None:
    module = ModuleType("backends")
    module.AbstractBackend = object  # type: ignore[attr-defined]
    einops_backend._define(module)
    backend = module.RulegradBackend()
    x = Tensor([[1.0, 2.0]], device="numpy")
    assert backend.is_appropriate_type(x) and not backend.is_appropriate_type(x.numpy())
    assert backend.is_float_type(x) and not backend.is_float_type(x > 1)
    assert backend.transpose(x, (1, 0)).shape == (2, 1) and backend.add_axis(x, 1).shape == (1, 1, 2)
    assert backend.tile(x, (2, 1)).shape == (2, 2) and backend.concat([x, x], 1).shape == (1, 4)
    assert backend.stack_on_zeroth_dimension([x, x]).shape == (2, 1, 2)
    assert backend.einsum("ab,ab->a", x, x).tolist() == [5.0] and backend.arange(1, 3).tolist() == [1, 2]
    assert backend.to_numpy(backend.from_numpy(np.ones(2))).tolist() == [1.0, 1.0]


def test_pandas_and_xarray_take_tensors() -> None:
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="numpy")
    assert pandas.DataFrame(x, columns=["a", "b"])["b"].tolist() == [2.0, 4.0]
    assert pandas.Series(x[0]).sum() == 3.0
    array = xarray.DataArray(x, dims=("r", "c"))
    plain = xarray.DataArray(x.numpy(), dims=("r", "c"))
    for name in ("sum", "mean", "max", "min", "std", "var", "prod", "cumsum", "cumprod", "count", "median"):
        found = getattr(array, name)("r").data
        assert isinstance(found, Tensor), name
        np.testing.assert_allclose(found.numpy(), getattr(plain, name)("r").data, rtol=1e-6)
    for changed in (array * 2, array.isel(r=0), array.transpose("c", "r"), array.fillna(0), array.roll(r=1)):
        assert isinstance(changed.data, Tensor)


def test_xarray_pads_shifts_and_selects_tensors(any_device: str) -> None:
    xarray = pytest.importorskip("xarray")
    plain = xarray.DataArray(np.arange(6.0).reshape(2, 3), dims=("r", "c"))
    array = plain.copy(data=Tensor(plain.data, device="numpy"))
    for mode in ("edge", "reflect", "symmetric", "wrap"):
        found = array.pad(c=2, mode=mode).data
        assert isinstance(found, Tensor) and found.tolist() == plain.pad(c=2, mode=mode).data.tolist(), mode
    for call in (
        lambda x: x.pad(c=(1, 2), r=1, constant_values=7),
        lambda x: x.pad(c=(1, 2), r=1, constant_values=(7, 8)),
        lambda x: x.pad(c=(1, 2), r=(0, 1), constant_values={"c": (7, 8), "r": (5, 6)}),
        lambda x: x.shift(c=1, fill_value=0),
        lambda x: x.shift(r=-1, c=1, fill_value=9),
        lambda x: x.where(x > 2, -1),
    ):
        found = call(array).data
        assert isinstance(found, Tensor) and found.tolist() == call(plain).data.tolist()
    plain.data[0, 1] = np.nan
    array = plain.copy(data=Tensor(plain.data, device="numpy")).assign_coords(r=[1.0, 2.0], c=[0.0, 1.0, 3.0])
    plain = plain.assign_coords(r=[1.0, 2.0], c=[0.0, 1.0, 3.0])
    for call in (
        lambda x: x.shift(c=1, fill_value=np.nan),
        lambda x: x.pad(c=1, constant_values=np.nan),
        lambda x: x.reindex(c=[1.0, 2.0, 3.0], fill_value=np.nan),
        lambda x: x.quantile(0.25, "c", skipna=False),
        lambda x: x.quantile([0.25, 0.5], ["c", "r"], skipna=False),
        lambda x: x.rolling(c=2).construct("w", fill_value=0.0),
        lambda x: x.differentiate("c"),
        lambda x: x.differentiate("r"),
    ):
        found, expected = call(array).data, call(plain).data
        assert isinstance(found, Tensor)
        np.testing.assert_allclose(found.numpy(), expected)
    # Without a value xarray asks what stands for "missing" in a dtype, and knows NumPy's and pandas' only.
    with pytest.raises(TypeError, match="extension array dtype or numpy dtype"):
        array.where(array > 2)
    assert np.array_equal(array.where(array > 2, np.nan).data, plain.where(plain > 2).data, equal_nan=True)


def test_the_namespace_pads_and_transposes_as_numpy_does() -> None:
    values = np.arange(6).reshape(2, 3)
    x = Tensor(values, device="numpy")
    for width, constant in ((1, 0), ((1, 2), (3, 4)), (((0, 1), (2, 0)), ((1, 2), (3, 4))), (((1, 1), (2, 2)), 5)):
        assert (
            xp.pad(x, width, constant_values=constant).tolist()
            == np.pad(values, width, constant_values=constant).tolist()
        )
    assert xp.pad(Tensor(5, device="numpy"), 2).tolist() == 5
    assert xp.transpose(x).tolist() == values.T.tolist() and xp.transpose(x, (0, 1)).tolist() == values.tolist()
    with pytest.raises(ShapeError, match="not a number, not a pair"):
        xp.pad(x, (1, 2, 3))
    with pytest.raises(ConfigError, match="mode"):
        xp.pad(x, 1, "linear_ramp")


def test_the_namespace_has_windows_slopes_and_quantiles_as_numpy() -> None:
    values = np.random.default_rng(0).normal(size=(3, 4, 5))
    x = Tensor(values, device="numpy")
    for q, axis in ((0.25, None), (0.5, 1), ([0.1, 0.9], (0, 2)), (0.5, (2, 0, 1)), (0.3, ())):
        for kept in (False, True):
            expected = np.quantile(values, q, axis, keepdims=kept)
            np.testing.assert_allclose(xp.quantile(x, q, axis, keepdims=kept).numpy(), expected)
            np.testing.assert_allclose(np.quantile(x, q, axis, keepdims=kept).numpy(), expected)
    np.testing.assert_allclose(
        xp.quantile(x, 0.3, 1, method="lower").numpy(), np.quantile(values, 0.3, 1, method="lower")
    )
    windows = np.lib.stride_tricks.sliding_window_view
    for shape, axis in ((2, 1), ((2, 3), (0, 2)), ((1, 2, 3), None), ((2, 2), (1, 1))):
        assert (
            xp.lib.stride_tricks.sliding_window_view(x, shape, axis).tolist() == windows(values, shape, axis).tolist()
        )
    spaced = np.array([0.0, 1.0, 3.0, 4.0])
    for arguments, options in (
        ((), {}),
        ((2.0,), {}),
        ((spaced,), {"axis": 1}),
        ((2, 3), {"axis": (2, 0), "edge_order": 2}),
    ):
        found, expected = xp.gradient(x, *arguments, **options), np.gradient(values, *arguments, **options)
        assert isinstance(found, tuple) == isinstance(expected, tuple)
        np.testing.assert_allclose(np.stack(found), np.stack(expected))
    with pytest.raises(ShapeError, match="a window of 2 axes along 3"):
        xp.lib.stride_tricks.sliding_window_view(x, (2, 2))
    with pytest.raises(ShapeError, match="names one axis twice"):
        x.quantile(0.5, (0, -3))


def test_notebooks_show_tables() -> None:
    shown = Tensor([[True, False]], device="numpy")._repr_html_()
    assert shown == ("<table><caption>Tensor 1 × 2, bool, numpy</caption><tr><td>True</td><td>False</td></tr></table>")
    large = Tensor.zeros(100, 50, device="numpy")._repr_html_()
    assert large.count("<tr>") == 21 and large.count("<td>") == 21 * 21 and large.count("…") == 41
    assert Tensor(2.5, device="numpy")._repr_html_().startswith("<pre>Tensor(2.5")
    assert "requires grad" in Tensor([1.0], device="numpy", requires_grad=True)._repr_html_()


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
@pytest.mark.filterwarnings("ignore:All-NaN", "ignore:Degrees of freedom", "ignore:invalid value", "ignore:Mean of")
def test_numpys_reductions_without_nan(any_device: str, dtype: str) -> None:
    values = np.array([[1, 2, 3, 4], [5, 6, 7, 9]], dtype)
    if dtype != "int64":
        values[0, 1:3] = values[1, 2] = np.nan
    x = Tensor(values, device="numpy")
    names = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nancumsum", "nancumprod"]
    for name in [*names, *([] if dtype == "complex64" else ["nanmax", "nanmin"])]:
        function = getattr(np, name)
        for options in ({"axis": 0}, {"axis": 1}, {}, {"axis": 1, "dtype": None}):
            if "dtype" in options and name in ("nanmax", "nanmin"):
                continue
            found = function(x, **options)
            assert isinstance(found, Tensor), name
            np.testing.assert_allclose(found.numpy(), function(values, **options), rtol=1e-6)
    assert np.nanvar(x, axis=1, ddof=1).tolist() == pytest.approx(np.nanvar(values, axis=1, ddof=1).tolist())
