"""SciPy and scikit-learn in array API mode: what they compute from arrays of rulegrad and of PyTorch, against NumPy.

    python bench/clients.py                         both, on the interpreter
    python bench/clients.py --only signal --device c     one module of them, on another device

A call counts as equal where every number is NumPy's to rounding. --failed lists the calls that are not, with the
reason; those that work with PyTorch's arrays and not with ours are listed always.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported

import numpy as np

from client_calls import SCIPY, SKLEARN
from common import arguments, note

_TOLERANCE = 1e-5
Outcome = str  # "equal", or what was wrong
Library = tuple[Any, Callable[[Any], Any]]  # the namespace, and what makes an array of NumPy's


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--device", default="numpy", help="the device of rulegrad's arrays (default: %(default)s)")
    parser.add_argument("--only", default="", help="the modules whose names contain this")
    parser.add_argument("--failed", action="store_true", help="list all calls that are not equal")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    libraries = {"rulegrad": rulegrad(options.device)}
    if (torch := pytorch()) is not None:
        libraries["torch"] = torch
    print(f"| {'':24} | {'calls':>5} | " + " | ".join(f"{name:>9}" for name in libraries) + " |")
    print(f"|{'-' * 26}|{'-' * 7}|" + "|".join("-" * 11 for _ in libraries) + "|")
    behind = []
    for module, calls in {**SCIPY, **SKLEARN}.items():
        if options.only in module:
            behind += compared(module, calls.strip().splitlines(), libraries, options)
    print("\n".join(["", "calls that work with PyTorch's arrays and not with rulegrad's:", *(behind or ["none"])]))


def compared(module: str, calls: list[str], libraries: Mapping[str, Library], options: argparse.Namespace) -> list[str]:
    """Prints a row of the table; the calls in which rulegrad is behind PyTorch."""
    equal, behind, total = dict.fromkeys(libraries, 0), [], 0
    for call in calls:
        expected = attempted(call, (np, np.asarray))
        if isinstance(expected, Exception):
            note(f"{call}: NumPy's own arrays give {type(expected).__name__}: {first_line(expected)}")
            continue
        total += 1
        found = {name: outcome(attempted(call, library), expected) for name, library in libraries.items()}
        for name, result in found.items():
            equal[name] += result == "equal"
            if result != "equal" and options.failed:
                note(f"{name}: {call}: {result}")
        if found["rulegrad"] != "equal" and found.get("torch") == "equal":
            behind.append(f"{call}: {found['rulegrad']}")
    print(f"| {module:24} | {total:>5} | " + " | ".join(f"{count:>9}" for count in equal.values()) + " |")
    sys.stdout.flush()
    return behind


def rulegrad(device: str) -> Library:
    from rulegrad import Tensor, array_api, config

    config.device = device
    return array_api, lambda values: Tensor(values)


def pytorch() -> Library | None:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    compatible = importlib.import_module("array_api_compat.torch") if has("array_api_compat") else torch
    return compatible, lambda values: torch.asarray(values)


def has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def attempted(call: str, library: Library) -> Any:
    """The result of a call, or the exception that it raised."""
    try:
        return eval(call, {**NAMES, **given(library)})
    except Exception as error:  # whatever a client may raise is what is asked for here
        return error


def given(library: Library) -> dict[str, Any]:
    """The arguments of calls, as arrays of a library; float64, which all have by default or by name."""
    xp, convert = library
    random = np.random.default_rng(7)
    values = {
        "x": random.normal(size=(5, 7)),
        "y": random.normal(size=(5, 7)),
        "p": random.uniform(0.05, 0.95, size=(5, 7)),
        "v": np.linspace(0.1, 1.2, 12),
        "m": random.normal(size=(4, 4)),
        "i": random.normal(size=(24, 30)),
        "f": random.normal(size=(8, 3)),
        "t": random.normal(size=8),
        "c": np.array([0, 1, 1, 0, 1, 0, 0, 1]),
        "q": random.normal(size=(4, 3)),
    }
    values["s"] = values["m"] @ values["m"].T + np.eye(4)
    arrays = {name: convert(array) for name, array in values.items()}
    return {**arrays, "xp": xp, "a": lambda numbers: convert(np.asarray(numbers, np.float64))}


def outcome(found: Any, expected: Any) -> Outcome:
    """Either `equal`, or in a line why not."""
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {first_line(found)}"
    ours, theirs = list(numbers(found)), list(numbers(expected))
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if one.shape != other.shape:
            return f"the shape {one.shape}, not {other.shape}"
        if one.dtype.kind in "biufc" and not np.allclose(one, other, _TOLERANCE, _TOLERANCE, equal_nan=True):
            return f"off by {np.nanmax(np.abs(one - other)):.2g}"
    return "equal"


def numbers(result: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays in a result, whatever they are in."""
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from numbers(part)
    elif isinstance(result, dict):
        for key in sorted(set(result) - {"success", "status", "nfev", "nit", "message", "maxfun"}):
            yield from numbers(result[key])
    elif result is None or isinstance(result, (str, type)):
        return
    elif hasattr(result, "statistic") and hasattr(result, "pvalue"):
        yield from numbers((result.statistic, result.pvalue))
    elif hasattr(result, "__dict__") and not hasattr(result, "shape"):
        yield from numbers({key: value for key, value in vars(result).items() if not key.startswith("_")})
    else:
        # PyTorch keeps some conjugates as they are, and NumPy cannot read those.
        yield np.asarray(result.resolve_conj() if hasattr(result, "resolve_conj") else result)


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:140]


def names() -> dict[str, Any]:
    """The names that calls are written in."""
    import scipy
    import sklearn

    sklearn.set_config(array_api_dispatch=True)
    found: dict[str, Any] = {"np": np}
    for module in (
        "calibration", "decomposition", "discriminant_analysis", "frozen", "kernel_approximation", "linear_model",
        "mixture", "model_selection", "naive_bayes", "preprocessing",
    ):  # fmt: skip
        part = vars(importlib.import_module(f"sklearn.{module}"))
        found |= {name: value for name, value in part.items() if name[0] != "_" and not inspect.ismodule(value)}
    for module in (
        "special", "stats", "signal", "ndimage", "fft", "integrate", "interpolate", "differentiate", "optimize",
        "linalg", "constants", "spatial", "cluster",
    ):  # fmt: skip
        found[module] = importlib.import_module(f"{scipy.__name__}.{module}")
    found["distance"] = importlib.import_module("scipy.spatial.distance")
    found["elementwise"] = importlib.import_module("scipy.optimize.elementwise")
    found |= {name: importlib.import_module(f"scipy.cluster.{name}") for name in ("vq", "hierarchy")}
    transform = importlib.import_module("scipy.spatial.transform")
    found |= {name: getattr(transform, name) for name in ("Rotation", "Slerp", "RigidTransform")}
    found["metrics"] = importlib.import_module("sklearn.metrics")
    found["metrics"].entropy = importlib.import_module("sklearn.metrics.cluster").entropy
    found["pairwise"] = importlib.import_module("sklearn.metrics.pairwise")
    return found


if __name__ == "__main__":
    NAMES = names()
    main()
