"""The elementwise functions that are made from rows: their signatures, and the examples that are made for them."""

from __future__ import annotations

import doctest
import inspect
import pickle

import pytest

from rulegrad import array_api as xp
from rulegrad.array_api import elementwise
from rulegrad.errors import DtypeError

ROWS = [name for name in elementwise.__all__ if name not in ("clip", "imag", "real")]


@pytest.mark.parametrize("name", ROWS)
def test_a_row(name: str) -> None:
    function = getattr(xp, name)
    assert function.__name__ == name and pickle.loads(pickle.dumps(function)) is function
    parameters = inspect.signature(function).parameters
    assert list(parameters) in (["x"], ["x1", "x2"])
    assert all(one.kind is one.POSITIONAL_ONLY for one in parameters.values())
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, module=False, globs={})
    assert len(example.examples) == 3 and doctest.DocTestRunner().run(example).failed == 0
    with pytest.raises(DtypeError, match=f"^{name}: "):
        function(*[None] * len(parameters))


def test_the_namespace_shows_its_functions_only() -> None:
    assert dir(xp) == sorted(xp.__all__) and len(set(xp.__all__)) == len(xp.__all__) > 160
    assert not {"elementwise", "operands", "sorting", "utility"} & set(dir(xp))
