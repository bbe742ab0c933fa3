"""What the compiler made is kept on disk: other processes run no rules for it, unless something is different."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad import Tensor
from rulegrad.compile import forget_kernels, kernels, varying
from rulegrad.compile.varying import plans
from rulegrad.errors import IndexRangeError
from rulegrad.ir import UOp
from rulegrad.runtime.kernel import Kernel
from rulegrad.workbench.tracing import Trace


@pytest.fixture
def made(cache_with_rules: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An empty cache, and how many kernels the rules made at a time."""
    counts: list[int] = []
    compile_kernels, make_general = kernels._compile, plans._made

    def counted(graphs: Sequence[UOp], *rest: Any) -> list[Kernel]:
        counts.append(len(graphs))
        return compile_kernels(list(graphs), *rest)

    def general(*arguments: Any) -> Any:
        counts.append(0)
        return make_general(*arguments)

    monkeypatch.setattr(kernels, "_compile", counted)
    monkeypatch.setattr(plans, "_made", general)
    with rg.config(cache=cache_with_rules(), general_plans=1):
        forget_kernels()
        yield counts
        forget_kernels()


def values(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


def check(n: int) -> None:
    found = Tensor(values(n), device="c").cumsum(0).flip(0) * 2
    np.testing.assert_allclose(found.numpy(), values(n).cumsum()[::-1] * 2, rtol=1e-6)


def test_the_next_process_runs_no_rules_for_kernels(made: list[int]) -> None:
    check(1000)
    assert made
    made.clear()
    forget_kernels()
    check(1000)
    assert made == []


def test_one_plan_of_all_sizes_is_found_by_other_sizes(made: list[int]) -> None:
    for n in (100, 110):
        check(n)
    assert made[-1] == 0
    for sizes in ((100, 110, 120), (90, 81, 97, 1000)):
        forget_kernels()
        check(sizes[0])
        made.clear()
        for n in sizes[1:]:
            check(n)
        assert made == []


def test_plans_that_check_indices_do_it(made: list[int]) -> None:
    for _ in range(2):
        forget_kernels()
        made.clear()
        for n in (50, 60, 70):
            x, index = Tensor(values(n), device="c"), Tensor(np.int64([n - 1, n]), device="c")
            with pytest.raises(IndexRangeError, match=rf"{n} is out of range for axis 0 of size {n}"):
                x[index].numpy()
    assert made == []


def test_a_refusal_is_found_too(made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_SLOWER", 1)
    monkeypatch.setattr(kernels, "_DEARER", 0)
    for expected in ([True, False, False, True], []):
        forget_kernels()
        made.clear()
        for n in (5, 6):
            x = np.random.default_rng(n).standard_normal((2000, n)).astype(np.float32)
            np.testing.assert_array_equal((Tensor(x, device="c").roll(1, 1) + 1).numpy(), np.roll(x, 1, 1) + 1)
        assert [bool(count) for count in made] == expected
        assert "estimated to take much longer" in varying.reasons()[-1]


def test_what_is_looked_at_or_made_otherwise_is_made(made: list[int]) -> None:
    check(1000)
    counted = len(made)
    with rg.config(rules_off=("dot_products.narrow",)):
        check(1000)
    assert len(made) == 2 * counted
    forget_kernels()
    with Trace():
        check(1000)
    assert len(made) == 3 * counted
