"""Every graph of the corpus gives NumPy's values, computed in float64, on the interpreter and on a compiled device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from corpus import FAMILIES, GRAPHS, Graph, Input
from corpus.with_numpy import Numpy
from corpus.with_rulegrad import Rulegrad
from rulegrad import Tensor
from rulegrad.compile import prepare

DEVICES = ("numpy", "opencl")


@cache
def expected(name: str) -> list[np.ndarray[Any, Any]]:
    library, graph = Numpy(), GRAPHS[name]
    inputs = [library.tensor(array) for array in graph.arrays(small=True)]
    return [np.asarray(result) for result in graph.outputs(library, inputs)]


def lazy_outputs(graph: Graph, device: str) -> list[Tensor]:
    library = Rulegrad(device)
    return graph.outputs(library, [library.tensor(array) for array in graph.arrays(small=True)])


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """A device that has built the kernels of all graphs in one program."""
    name = request.param
    prepare([[output.uop for output in lazy_outputs(graph, name)] for graph in GRAPHS.values()], name)
    yield name


@pytest.mark.each_value
@pytest.mark.parametrize("name", GRAPHS)
def test_values(name: str, device: str) -> None:
    results = lazy_outputs(GRAPHS[name], device)
    Tensor.realize(*results)
    wanted = expected(name)
    assert len(results) == len(wanted)
    for result, values in zip(results, wanted, strict=True):
        found = result.numpy()
        assert found.dtype == ("int32" if values.dtype.kind == "i" else "float32")
        np.testing.assert_allclose(found, values, rtol=2e-4, atol=2e-5)


def test_the_corpus_is_large_and_inputs_are_the_same_in_every_run() -> None:
    assert len(GRAPHS) == sum(len(family.FAMILY.graphs) for family in FAMILIES) >= 60
    for graph in GRAPHS.values():
        first, second = graph.arrays(small=True), graph.arrays(small=True)
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, other)


def test_inputs_are_read_from_their_text() -> None:
    sizes, random = {"rows": 3, "classes": 4}, np.random.default_rng(0)
    floats = Input.parse("rows 2").make(sizes, random)
    assert floats.shape == (3, 2) and floats.dtype == "float32" and (floats < 0).any()
    labels = Input.parse("rows 5 <classes").make(sizes, random)
    assert labels.shape == (3, 5) and labels.dtype == "int32" and 0 <= labels.min() <= labels.max() < 4
    assert (Input.parse("rows classes >0").make(sizes, random) > 0).all()


def test_gradients_of_the_reference_are_those_of_a_known_function() -> None:
    x, y = np.array([1.0, -2.0]), np.array([3.0, 0.5])
    value, (of_x, of_y) = Numpy().value_and_grad(lambda x, y: (x * x * y).sum(), [x, y])
    assert value == 5.0
    np.testing.assert_allclose(of_x, 2 * x * y, atol=1e-8)
    np.testing.assert_allclose(of_y, x * x, atol=1e-8)
