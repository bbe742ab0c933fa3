"""The mistakes that users of NumPy and PyTorch make: each is an error that says what is wrong, or has an answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DeviceError, DtypeError, RulegradError, ShapeError

NAMES: dict[str, Any] = {"Tensor": Tensor, "np": np, "nan": float("nan"), "inf": float("inf")}
#: The tensors that the mistakes are made with: a matrix, a wider one, a vector, indices, and a mask.
OPERANDS = {
    "x": lambda: Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "y": lambda: Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "v": lambda: Tensor(np.arange(3, dtype=np.float32)),
    "i": lambda: Tensor([0, 1]),
    "b": lambda: Tensor([True, False]),
    "w": lambda: Tensor([1.0, 2.0], requires_grad=True),
}

CREATION = [
    ("Tensor(None)", DtypeError, "a NoneType cannot be in a tensor"),
    ("Tensor({1, 2})", DtypeError, "a set cannot be in a tensor"),
    ("Tensor(n for n in [1])", DtypeError, "an iterator as a list"),
    ("Tensor([10**30])", DtypeError, "does not fit any integer dtype"),
    ("Tensor(np.array([1], dtype=object))", DtypeError, "array of Python objects"),
    ("Tensor(np.array(['2020'], dtype='datetime64[D]'))", DtypeError, "values of type datetime64"),
    ("Tensor(np.longdouble(3))", DtypeError, "cannot be in a tensor"),
    ("Tensor(np.ma.array([1, 2], mask=[0, 1]))", DtypeError, "no masked values"),
    ("Tensor([1.5, nan], dtype='int32')", DtypeError, "nan is not a value of int32"),
    ("Tensor([1e30], dtype='int32')", DtypeError, "does not fit int32"),
    ("Tensor(nan, dtype='int8')", DtypeError, "nan is not a value of int8"),
    ("Tensor(1000.0, dtype='int8')", DtypeError, "1000 does not fit int8"),
    ("Tensor(1 + 2j, dtype='float32')", DtypeError, "does not fit float32; cast to a complex dtype"),
    ("Tensor(10**400, dtype='float32')", DtypeError, "an integer of 401 digits does not fit float32"),
    ("x + 10**400", DtypeError, "an integer of 401 digits does not fit float32"),
    ("Tensor([1], dtype=x)", DtypeError, "unknown dtype"),
    ("Tensor([1], dtype='void')", DtypeError, "unknown dtype|no values"),
    ("Tensor([1], device=0)", DeviceError, "0 is not a device name; give a string"),
    ("Tensor([1], device='Numpy')", DeviceError, "did you mean 'numpy'"),
    ("x.to(device=1)", DeviceError, "1 is not a device name"),
    ("Tensor.zeros(10**20)", ShapeError, r"zeros: .* more than 2\*\*63"),
    ("Tensor.ones(10**10, 10**10)", ShapeError, r"ones: .* more than 2\*\*63"),
    ("Tensor.rand(2, -1)", ShapeError, r"rand: \(2, -1\) is not a shape"),
    ("Tensor.zeros(x)", ShapeError, r"zeros: a tensor of shape \(3,\) is not a whole number"),
    ("Tensor.full((2,), None)", DtypeError, "full: a value of type NoneType is not one number"),
    ("Tensor.full((2,), [1, 2])", DtypeError, "full: a value of type list"),
    ("Tensor.full((2,), v)", DtypeError, r"full: a value of shape \(3,\)"),
    ("Tensor.full((2,), nan, dtype='int32')", DtypeError, "full: nan is not a value of int32"),
    ("Tensor.arange('a')", DtypeError, "arange: a value of type str"),
    ("Tensor.arange(None)", DtypeError, "arange: a value of type NoneType"),
    ("Tensor.arange(inf)", ShapeError, "not a finite count"),
    ("Tensor.arange(nan)", ShapeError, "not a finite count"),
    ("Tensor.arange(10**30)", DtypeError, "arange: .* does not fit int64"),
    ("Tensor.arange(300, dtype='uint8')", DtypeError, "arange: the number 299 does not fit uint8"),
    ("Tensor.linspace(0, 1, -1)", ShapeError, "linspace: .* is not a shape"),
    ("Tensor.linspace('a', 1, 3)", DtypeError, "linspace: a value of type str"),
    ("Tensor.eye(-1)", ShapeError, "eye: .* is not a shape"),
    ("Tensor.randperm(-1)", ShapeError, "randperm: .* is not a shape"),
    ("Tensor.normal(2, std=-1)", ShapeError, "normal: std=-1 is negative"),
    ("Tensor.manual_seed('a')", ShapeError, "manual_seed: 'a' is not a whole number"),
]

SHAPES = [
    ("Tensor.cat([])", ShapeError, "cat: there is no tensor among the 0 arguments"),
    ("Tensor.cat([x, 1])", DtypeError, "cat: an operand is the number 1; use a tensor"),
    ("Tensor.cat([x, x], 5)", ShapeError, "cat: axis 5 does not exist"),
    ("Tensor.cat([x, y])", ShapeError, "cat: the shapes"),
    ("Tensor.stack([1, 2])", ShapeError, "stack: there is no tensor among the 2"),
    ("Tensor.stack([x, None])", DtypeError, "stack: an operand is a NoneType"),
    ("Tensor.dstack([])", ShapeError, "dstack: there is no tensor"),
    ("Tensor.column_stack([v, 5])", DtypeError, "column_stack: an operand is the number 5"),
    ("Tensor.meshgrid([v, 1])", DtypeError, "meshgrid: an operand is the number 1"),
    ("x.chunk(0)", ShapeError, "chunk: 0 parts; use 1 or more"),
    ("x.chunk(-1)", ShapeError, "chunk: -1 parts"),
    ("x.repeat(2, -1)", ShapeError, r"repeat: the counts \(2, -1\) for the shape \(2, 3\)"),
    ("x.transpose(0)", ShapeError, "transpose: axis 0 alone; name two axes, or use permute"),
    ("x.pad((1, 1), value='a')", DtypeError, "pad: a value of type str is not one number"),
    ("x.std(7)", IndexError, "std: axis 7 does not exist"),
    ("x.count_nonzero(5)", IndexError, "count_nonzero: axis 5 does not exist"),
    ("x.sum(v)", ShapeError, r"sum: a tensor of shape \(\) is not a whole number"),
    ("x.tril('a')", ShapeError, "tril: 'a' is not a whole number"),
    ("x.split('2')", ShapeError, "split: '2' is not a whole number"),
    ("x.split([1, '1'])", ShapeError, "split: '1' is not a whole number"),
    ("v.diag('1')", ShapeError, "diag_embed: '1' is not a whole number"),
    ("x.diag('1')", ShapeError, "diagonal: '1' is not a whole number"),
    ("x.group_norm('1')", ShapeError, "group_norm: '1' is not a whole number"),
    ("x.dropout('1')", ShapeError, "dropout: the probability is '1'; use a number from 0 to 1"),
    ("x[None].interpolate(scale_factor='2')", ShapeError, "interpolate: scale_factor='2'; use a number"),
    ("x.diagonal(0, 0, 0)", ShapeError, "diagonal: axis 0 twice"),
    ("x[1.0]", IndexError, "index: a float at axis 0; a tensor is indexed by ints, slices"),
]

CHANGES = [
    ("w += 1", RuntimeError, r"\+=: this tensor is a leaf that requires a gradient"),
    ("w.zero_()", RuntimeError, "zero_: this tensor is a leaf"),
    ("w.assign(5)", ShapeError, r"assign: the shapes \(2,\) and \(\) differ"),
    ("w.assign('a')", DtypeError, "assign: an operand is a str"),
    ("x.copy_(y)", ShapeError, "copy_: the shapes"),
    ("v.copy_(x)", ShapeError, r"copy_: values of shape \(2, 3\) do not fit a tensor of shape \(3,\)"),
    ("x.fill_([1, 2])", ShapeError, "fill_: the shapes"),
    ("x.fill_('a')", DtypeError, "fill_: an operand is a str"),
    ("z = Tensor([1], dtype='uint8'); z[0] = 300", DtypeError, "the number 300 does not fit uint8"),
    ("z = Tensor([1], dtype='uint8'); z[z > 0] = -1", DtypeError, "the number -1 does not fit uint8"),
]

GRADIENTS = [
    ("(w * 2).backward()", ShapeError, "backward: the shape"),
    ("x.sum().backward()", RuntimeError, "backward: this tensor depends on no tensor with requires_grad"),
    ("(w > 1).sum().backward()", RuntimeError, "backward: this tensor depends on no tensor"),
    ("w.sum().backward([1.0, 2.0])", ShapeError, r"backward: a gradient of shape \(2,\) for a tensor of shape \(\)"),
    ("w.sum().backward('a')", DtypeError, "backward: an operand is a str"),
    ("(w * 2).requires_grad = False", RuntimeError, "computed from others that require gradients; use detach"),
    ("import copy; copy.deepcopy(w * 2)", RuntimeError, "deepcopy: this tensor was computed from others"),
]


def expect(source: str, error: type[Exception], text: str) -> None:
    """The mistake raises an error of ours, of this type, that says so; alone, or when its value is asked for."""
    operands = {name: make() for name, make in OPERANDS.items()}
    with pytest.raises(error, match=text) as caught:
        exec(source, NAMES | operands)
    assert isinstance(caught.value, RulegradError)


@pytest.mark.parametrize(("source", "error", "text"), CREATION)
def test_creation(any_device, source, error, text):
    expect(source, error, text)


@pytest.mark.parametrize(("source", "error", "text"), SHAPES)
def test_shapes_and_axes(any_device, source, error, text):
    expect(source, error, text)


@pytest.mark.parametrize(("source", "error", "text"), CHANGES)
def test_changes(any_device, source, error, text):
    expect(source, error, text)


@pytest.mark.parametrize(("source", "error", "text"), GRADIENTS)
def test_gradients(any_device, source, error, text):
    expect(source, error, text)


def test_numpy_numbers_keep_their_kind(any_device):
    assert Tensor.arange(np.int64(3)).dtype == Tensor.arange(Tensor(3)).dtype == "int64"
    assert Tensor.arange(np.float64(3)).dtype == "float32"
    assert Tensor.full((2,), np.float32(3)).dtype == "float32"
    assert Tensor.full((2,), np.float16(3)).dtype == "float16"
    assert Tensor.full((2,), Tensor(3)).tolist() == [3, 3]
    assert Tensor.zeros(Tensor(2)).shape == Tensor.zeros(np.array(2)).shape == (2,)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("f4", "float32"), ("double", "float64"), ("half", "float16"), ("float", "float64"), ("int", "int64")],
)
def test_names_of_dtypes_that_numpy_knows(any_device, name, dtype):
    assert Tensor([1, 2], dtype=name).dtype == dtype


def test_a_tensor_is_not_equal_to_what_has_no_elements(any_device):
    x = Tensor([1, 2])
    assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711
    with pytest.raises(DtypeError, match="equal: an operand is a NoneType"):
        x.equal(None)
    with pytest.raises(DtypeError, match="equal: an operand is a str"):
        assert "a" in x


def test_axes_by_position(any_device):
    x = Tensor.zeros(2, 3)
    assert Tensor.cat([x, x], 1).shape == Tensor.concat([x, x], 1).shape == (2, 6)
    assert Tensor.stack([x, x], 1).shape == Tensor.stack((x, x), dim=1).shape == (2, 2, 3)
    assert Tensor.cat([x, np.ones((1, 3))]).shape == (3, 3)
    assert [part.shape for part in Tensor.meshgrid([Tensor([1, 2]), [3.0]])] == [(1, 2), (1, 2)]
    assert x.repeat((2, 2)).shape == (4, 6)


def test_transpose_is_numpys_without_two_axes(any_device):
    x = Tensor.zeros(2, 3, 4)
    assert x.transpose().shape == (4, 3, 2)
    assert x.transpose((1, 2, 0)).shape == (3, 4, 2)
    assert x.transpose(dim0=0, dim1=1).shape == x.swapaxes(0, 1).shape == (3, 2, 4)


def test_gradients_given_as_numbers_and_arrays(any_device):
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * 2).sum().backward(3, retain_graph=True)
    (w * 2).backward(np.array([1.0, 0.0]))
    assert w.grad.tolist() == [8.0, 6.0]
    w.assign([5, 6])
    assert w.tolist() == [5.0, 6.0] and w.requires_grad


def test_values_that_numpy_has_no_array_for() -> None:
    """Shown as they are, with no kernel: too many axes, too many elements, and more than there is memory for."""
    with pytest.raises(ShapeError, match="no such array: .*found 70"):
        Tensor([1.0], device="numpy").reshape((1,) * 70).numpy()
    with pytest.raises(ShapeError, match="no such array: "):
        Tensor.zeros(2**62, device="numpy").numpy()
