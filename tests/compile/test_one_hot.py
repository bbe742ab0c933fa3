"""Products with one-hot vectors read one element, and masks by counters are vectors."""

from __future__ import annotations

import numpy as np
import pytest

from rulegrad import Tensor
from rulegrad.compile import compile_graph

LABELS = [3, 0, 8, -1, 9, 100, -(2**40), 2**40]


def chosen(labels: Tensor, values: Tensor) -> Tensor:
    """For each label the element at its place; 0 where there is none."""
    places = Tensor.arange(values.shape[0], device=values.device)
    return (labels.unsqueeze(1) == places).where(values, 0).sum(1)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8", "uint64"])
def test_values(dtype: str, device: str) -> None:
    limits = np.iinfo(dtype)
    labels = np.array([label for label in LABELS if limits.min <= label <= limits.max], dtype)
    values = np.arange(1, 10, dtype=np.float32)
    found = chosen(Tensor(labels, device=device), Tensor(values, device=device)).numpy()
    wanted = [values[label] if 0 <= label < 9 else 0 for label in labels.tolist()]
    assert found.tolist() == wanted


def test_the_loop_is_gone() -> None:
    labels, values = Tensor(np.arange(40), device="c"), Tensor(np.arange(1000, dtype=np.float32), device="c")
    (kernel,) = compile_graph([chosen(labels.realize(), values.realize()).uop], "c")
    assert "1000; i" not in kernel.source and kernel.source.count("for (") == 1


@pytest.mark.parametrize("bound", [5, -(2**40), 2**40])
def test_comparisons_with_numbers_that_are_far(bound: int, device: str) -> None:
    places, far = Tensor.arange(40, device=device), Tensor([bound], device=device).realize()
    counters = np.arange(40)
    for found, wanted in (
        (places < far, counters < bound),
        (places <= far, counters <= bound),
        (places == far, counters == bound),
        (places != far, counters != bound),
        (places > far, counters > bound),
        (places >= far, counters >= bound),
    ):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_masks_by_counters_are_vectors() -> None:
    x = Tensor(np.ones((8, 64), np.float32), device="c").realize()
    limits = Tensor(np.arange(8).reshape(8, 1), device="c").realize()
    places = Tensor.arange(64, device="c")
    for condition in (places % 2 < 1, places < limits, places == limits, limits == places, limits <= places):
        (kernel,) = compile_graph([condition.where(x, 0).uop], "c")
        assert kernel.schedule.startswith("elementwise")


def test_numbers_that_are_near_after_all(device: str) -> None:
    """Minima, remainders and quotients of numbers of 64 bits fit into 32, and the numbers do not."""
    counters = np.arange(40)
    far, bound = counters * 2**33 + 7, counters % 9
    numbers, ends = Tensor.arange(40, device=device) * 2**33 + 7, Tensor.arange(40, device=device) % 9
    np.testing.assert_array_equal((numbers.minimum(5) > ends).numpy(), np.minimum(far, 5) > bound)
    np.testing.assert_array_equal((numbers % 11 > ends).numpy(), far % 11 > bound)
    np.testing.assert_array_equal((numbers // 2**32 > ends).numpy(), far // 2**32 > bound)
