"""Arithmetic, comparison, selection and bits against NumPy."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.errors import DeviceError, DtypeError, ShapeError

INTS = np.array([-7, -1, 0, 3, 100], np.int32)
OTHER = np.array([2, -3, 5, 3, 7], np.int32)
FLOATS = np.array([-2.5, -0.5, 0.0, 1.25, 1e3], np.float32)
MORE = np.array([0.5, -4.0, 2.0, 1.25, 3.0], np.float32)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0], np.float32)
BOOLS = np.array([True, False, True, True, False])


def test_operators_on_floats(device, check):
    names = "add sub mul truediv floordiv lt le gt ge eq ne"
    pairs = []
    for name in names.split():
        function = getattr(operator, name)
        pairs += [
            (function(Tensor(FLOATS), Tensor(MORE)), function(FLOATS, MORE)),
            (function(Tensor(FLOATS), 2), function(FLOATS, 2)),
            (function(1.5, Tensor(MORE)), function(1.5, MORE)),
        ]
    check(*pairs)


def test_operators_on_integers(device, check):
    names = "add sub mul truediv floordiv mod and_ or_ xor lt le gt ge eq ne"
    pairs = []
    for name in names.split():
        function = getattr(operator, name)
        triples = [
            (Tensor(INTS), Tensor(OTHER), INTS, OTHER),
            (Tensor(INTS), 3, INTS, 3),
            (-9, Tensor(OTHER), -9, OTHER),
        ]
        for first, second, one, two in triples:
            expected = function(one, two)
            pairs.append((function(first, second), expected.astype("float32") if name == "truediv" else expected))
    check(*pairs)


def test_shifts_powers_and_signs(device, check):
    distances = np.array([0, 1, 2, 5, 30], np.int32)
    positive = np.array([0.25, 1.0, 2.0, 3.0, 10.0], np.float32)
    check(
        (Tensor(INTS) << 3, INTS << 3),
        (Tensor(INTS) >> 1, INTS >> 1),
        (1 << Tensor(distances), 1 << distances),
        (Tensor(INTS) >> Tensor(distances), INTS >> distances),
        (Tensor(positive) ** 2, positive**2),
        (Tensor(positive) ** 3, positive**3),
        (Tensor(positive) ** -2, positive ** np.float32(-2)),
        (Tensor(positive) ** 0, positive**0),
        (Tensor(positive) ** 0.5, positive**0.5),
        (Tensor(positive) ** Tensor(MORE), positive**MORE),
        (2.0 ** Tensor(MORE), np.float32(2.0) ** MORE),
        (Tensor(OTHER) ** 3, OTHER**3),
        (-Tensor(INTS), -INTS),
        (+Tensor(INTS), INTS),
        (~Tensor(INTS), ~INTS),
        (~Tensor(BOOLS), ~BOOLS),
        (abs(Tensor(INTS)), abs(INTS)),
        (Tensor(INTS).sign(), np.sign(INTS)),
        (Tensor(FLOATS).sign(), np.sign(FLOATS)),
        (Tensor(SPECIAL).sign(), np.sign(SPECIAL)),
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
def test_the_remainder_of_small_floats_has_their_dtype(dtype):
    x = Tensor([1.5, -2.0]).cast(dtype)
    for result in (x % x, x % 1.0, 3 % x, x // x, x.fmod(x)):
        assert result.dtype == dtype


def test_remainders_of_float32_are_exact(device):
    """Of quotients just below integers, which division rounds up, of all exponents, and beyond 2 ** 24."""
    random, n = np.random.default_rng(0), 4099
    y = (random.integers(60, 200, n).astype(np.uint32) << 23 | random.integers(0, 1 << 23, n).astype(np.uint32)).view(
        np.float32
    )
    x = (random.integers(1, 1 << 24, n) * y.astype(np.float64)).astype(np.float32)
    bits = random.integers(0, 1 << 32, (2, n), dtype=np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, 1e-45, 1.0, -3.0, 3.4e38, np.inf, -np.inf, np.nan], np.float32)
    pairs = [(np.nextafter(x, np.float32(0)), y), (-x, y), (bits[0], bits[1]), tuple(np.meshgrid(special, special))]
    for a, b in pairs:
        with np.errstate(all="ignore"):
            expected = np.fmod(a, b)
        found = Tensor(a, device=device).fmod(Tensor(b, device=device)).numpy()
        np.testing.assert_array_equal(found, expected)


def test_float_remainder_has_the_sign_of_the_divisor(device, check):
    check(
        (Tensor(FLOATS) % 3.0, FLOATS % np.float32(3.0)),
        (Tensor(FLOATS) % -3.0, FLOATS % np.float32(-3.0)),
        (7.0 % Tensor(MORE), np.float32(7.0) % MORE),
    )


def test_integer_division_by_zero_gives_zero(device, check):
    zero = np.zeros(5, np.int32)
    check((Tensor(INTS) // Tensor(zero), zero), (Tensor(INTS) % Tensor(zero), zero))


def test_selection(device, check):
    x, y = Tensor(FLOATS), Tensor(MORE)
    check(
        (x.maximum(y), np.maximum(FLOATS, MORE)),
        (x.minimum(0.5), np.minimum(FLOATS, np.float32(0.5))),
        (Tensor(SPECIAL).maximum(0), np.maximum(SPECIAL, 0)),
        (x.clip(-1, 1), np.clip(FLOATS, -1, 1)),
        (x.clamp(max=0.0), np.minimum(FLOATS, np.float32(0))),
        (Tensor(INTS).clip(0, 50), np.clip(INTS, 0, 50)),
        (Tensor(BOOLS).where(x, y), np.where(BOOLS, FLOATS, MORE)),
        (Tensor.where(x > 0, x, 0), np.where(FLOATS > 0, FLOATS, np.float32(0))),
        ((Tensor(INTS) != 0).where(1, 2), np.where(INTS != 0, 1, 2)),
        (Tensor(BOOLS).where(Tensor(BOOLS), False), BOOLS),
        (Tensor(BOOLS).where(Tensor(SPECIAL), 0.0), np.where(BOOLS, SPECIAL, np.float32(0))),
        (Tensor(BOOLS).unsqueeze(1).where(x, y), np.where(BOOLS[:, None], FLOATS, MORE)),
        (Tensor(SPECIAL).logical_not(), np.logical_not(SPECIAL)),
    )


def test_bools(device, check):
    other = np.array([True, True, False, True, False])
    a, b = Tensor(BOOLS), Tensor(other)
    check(
        (a + b, BOOLS + other),
        (a * b, BOOLS * other),
        (a & b, BOOLS & other),
        (a | b, BOOLS | other),
        (a ^ b, BOOLS ^ other),
        (a & True, BOOLS & True),
        (a == b, other == BOOLS),
        (a < b, other > BOOLS),
        (a + 1, BOOLS + 1),
        (a << 2, BOOLS << 2),
    )


def test_comparison_with_a_number_that_does_not_fit(device, check):
    small = np.array([0, 200, 255], np.uint8)
    check(
        (Tensor(small) < 300, small < 300),
        (Tensor(small) > -1, small > -1),
        (Tensor(small) == 256, small == 256),
    )


def test_broadcasting(device, check):
    column, row = np.arange(3, dtype=np.int32).reshape(3, 1), np.arange(4, dtype=np.int32)
    scalar = np.array(2, np.int32)
    check(
        (Tensor(column) + Tensor(row), column + row),
        (Tensor(row) * Tensor(scalar), row * scalar),
        (Tensor(column) * row, column * row),
        (row - Tensor(column), row - column),
        (Tensor(column) * [[1], [2], [3]], column * np.array([[1], [2], [3]])),
    )


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Tensor.zeros(2, 3) + Tensor.zeros(2, 4), ShapeError, r"add: .*\(2, 3\) and \(2, 4\).*3 and 4"),
        (lambda: Tensor([1.0]) & Tensor([1.0]), DtypeError, "bitwise_and.*float32"),
        (lambda: ~Tensor([1.0]), DtypeError, "bitwise_not: float32"),
        (lambda: Tensor([True]) - Tensor([False]), DtypeError, "sub: bools"),
        (lambda: -Tensor([True]), DtypeError, "neg: a bool"),
        (lambda: Tensor([True]) // Tensor([True]), DtypeError, "floor_divide: bools"),
        (lambda: Tensor([2]) ** -1, DtypeError, "negative|to the power -1"),
        (lambda: Tensor([1], dtype="uint8") + 300, DtypeError, "300 does not fit uint8"),
        (lambda: Tensor([1.0]) + "a", DtypeError, "add: an operand is a str"),
        (lambda: Tensor([1.0]).bitcast("int64"), DtypeError, "bitcast: float32 has 32"),
    ],
)
def test_errors(any_device, make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_two_devices_do_not_mix(device):
    if device == "numpy":
        pytest.skip("needs a second device")
    here, there = Tensor([1.0]), Tensor([1.0], device="numpy")
    with pytest.raises(DeviceError, match=rf"{device} and numpy; move one with .to"):
        here + there
    assert (here + there.to(device)).item() == 2.0
    # A constant has no device of its own.
    assert (there + Tensor(1.0)).device == "numpy"


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint64"])
def test_a_negative_mask_has_its_last_bits_for_unsigned_integers(name: str, dtype: str) -> None:
    x = np.array([0, 5, 77, 255], dtype)
    for mask in (-1, -8, -32, ~0x80):
        number = int(np.array(mask).astype(dtype))
        expected = getattr(np, name)(x, np.array(number, dtype))
        found = getattr(Tensor(x), name)(mask)
        assert str(found.dtype) == dtype and np.array_equal(found.numpy(), expected)
    assert (-8 & Tensor(x)).tolist() == (x & np.array(int(np.array(-8).astype(dtype)), dtype)).tolist()
    with pytest.raises(DtypeError, match="does not fit"):
        getattr(Tensor(x), name)(-(2**70))
