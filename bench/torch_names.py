"""The names of PyTorch's operator tests: which of them rulegrad has, and which give PyTorch's results on every sample.

    python bench/torch_names.py                          all names, on the interpreter
    python bench/torch_names.py --only linalg. --failed  some of them, with the reason of each that differs
    python bench/torch_names.py --page docs/torch-names.md    write the page that lists them

PyTorch's own tests describe its operators in a table (`torch.testing._internal.common_methods_invocations.op_db`) with
sample inputs for each. The call that a sample makes is recorded by PyTorch's dispatch mode, so that it is judged under
the name that PyTorch's users write: `torch.linalg.det` is looked for as `rulegrad.linalg.det`, `torch.add` and
`torch.Tensor.add` as `rulegrad.add` and then as `Tensor.add`. What it returns must have the shapes, dtypes and values
of what PyTorch returns. Of random functions only shapes and dtypes are compared, and matrix factors that are not
unique are compared by their product. Where elements are sums of many products, what counts is the distance to the
result in float64: it may be four times PyTorch's own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import operator
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode, resolve_name

from common import arguments, note
from torch_names_apart import ELSEWHERE, FACTORS, RANDOM, SUMS, UNDEFINED

SAMPLES = 60  # of one variant of a name; the largest has 1,600
RTOL, ATOL = 2e-5, 1e-5  # of float32; PyTorch's own tests allow 1.3e-6 and 1e-5 between its devices


@dataclass
class Name:
    """The result for one name: how many samples were equal, and why the first of the others was not."""

    name: str
    samples: int = 0
    equal: int = 0
    absent: bool = False
    reasons: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        if self.absent or not self.samples:
            return "absent"
        return "equal" if self.equal == self.samples else "in part" if self.equal else "differs"


@dataclass
class Call:
    """One call of a function of PyTorch, and what it returned."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    function: Any


class Recorder(TorchFunctionMode):
    """Keeps the calls of PyTorch's functions that are made from outside of them, with arguments as they were before."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        before = copied((args, kwargs))
        result = func(*args, **kwargs)
        self.calls.append(Call(resolve_name(func) or getattr(func, "__name__", "?"), *before, result, func))
        return result


class AbsentError(Exception):
    """Rulegrad has nothing of this name."""


# ---- finding and calling ----


def recorded(info: Any, sample: Any) -> Call:
    """The call that a sample makes, as PyTorch's user would write it.

    Where PyTorch's table wraps an operator (it sets a seed, or changes the order of the arguments), that is the call
    of the same name that happens inside; its arguments are those that the user did not give, too.
    """
    torch.manual_seed(0)
    args, kwargs = copied((sample.input, *sample.args)), copied(sample.kwargs)
    with Recorder() as recorder, watched(info.name, recorder.calls):
        result = info.op(sample.input, *sample.args, **sample.kwargs)
    last = info.name.split(".")[-1].rstrip("_")
    inner: list[Call] = [
        call for call in recorder.calls if call.name.split(".")[-1].rstrip("_") in (last, last + "_copy")
    ]
    if getattr(info.op, "__name__", "") == "<lambda>" and inner:
        return inner[-1]
    return Call("torch." + info.name, args, kwargs, result, info.op)


@contextmanager
def watched(name: str, calls: list[Call]) -> Iterator[None]:
    """Keeps the calls of a function of torch that is written in Python and does not tell the mode that it is called."""
    function = getattr(torch, name, None)
    if not isinstance(function, FunctionType):
        yield
        return

    def kept(*args: Any, **kwargs: Any) -> Any:
        before = copied((args, kwargs))
        result = function(*args, **kwargs)
        calls.append(Call("torch." + name, *before, result, function))
        return result

    setattr(torch, name, kept)
    try:
        yield
    finally:
        setattr(torch, name, function)


def found(name: str) -> Callable[..., Any]:
    """rulegrad's function of a PyTorch name."""
    import rulegrad

    path = ELSEWHERE.get(name, name).removeprefix("torch.")
    path = path.removesuffix(".__get__")  # of a property
    short = path.removeprefix("Tensor.").removeprefix("functional.")
    for start, parts in ((rulegrad.Tensor, short), (rulegrad, path)):
        value: Any = start
        for part in parts.split("."):
            value = getattr(value, part, None)
        if isinstance(value, property):
            return operator.attrgetter(parts)
        if callable(value):
            return value  # type: ignore[no-any-return]
    raise AbsentError(name)


def ours(value: Any, device: str) -> Any:
    """Arguments of PyTorch as a user of rulegrad would write them."""
    from rulegrad import Tensor, nn

    if isinstance(value, torch.Tensor):
        return Tensor(value.detach().resolve_conj().resolve_neg().numpy().copy(), device=device)
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device) or value == "cpu":
        return device
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.nn.Module):  # a distance, as an argument
        return getattr(nn, type(value).__name__)()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(ours(v, device) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(ours(v, device) for v in value)
    if isinstance(value, dict):
        return {key: ours(v, device) for key, v in value.items() if not without_meaning(key, v)}
    return value


# Where a result lies and how (rulegrad's tensors have neither strides nor pinned memory), and what PyTorch has kept
# from times gone by or for itself.
WITHOUT_MEANING = {"device", "layout", "memory_format", "pin_memory", "requires_grad", "out"} | {
    "size_average",
    "_stacklevel",
}


def without_meaning(key: str, value: Any) -> bool:
    """`reduce` is the name of a reduction in `scatter`, and a flag of losses that `reduction` has replaced."""
    return key in WITHOUT_MEANING or (key == "reduce" and not isinstance(value, str))


def copied(value: Any) -> Any:
    """Arguments whose tensors no call changes any more."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(copied(v) for v in value) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        return {key: copied(v) for key, v in value.items()}
    return value


# ---- comparing ----


def difference(found: Any, expected: Any, call: Call, name: str) -> str | None:
    """In which way a result is not PyTorch's."""
    if name in FACTORS:
        return FACTORS[name](leaves(found), leaves(expected), call)
    found_leaves, expected_leaves = leaves(found), leaves(expected)
    if len(found_leaves) != len(expected_leaves):
        return f"{len(found_leaves)} results instead of {len(expected_leaves)}"
    compared = name not in RANDOM | UNDEFINED and not call.kwargs.get("dropout_p")
    for number, (one, other) in enumerate(zip(found_leaves, expected_leaves)):
        what = differing(one, other, compared)
        if what is not None and not (name in SUMS and is_rounding(one, other, number, call)):
            return f"result {number}: {what}" if len(found_leaves) > 1 else what
    return None


def leaves(value: Any) -> list[Any]:
    from rulegrad import Tensor

    if isinstance(value, Tensor):
        return [value.numpy() if value.dtype != "bfloat16" else value]
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        return [value.to_dense() if value.layout != torch.strided else value]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in leaves(v)]
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]


def differing(found: Any, expected: Any, values: bool) -> str | None:
    if not isinstance(expected, torch.Tensor):
        same = found == expected or (
            isinstance(expected, float) and np.isclose(found, expected, rtol=RTOL, equal_nan=True)
        )
        return None if same else f"{found!r} instead of {expected!r}"
    if not hasattr(found, "shape") or not hasattr(found, "dtype"):
        return f"{type(found).__name__} instead of a tensor"
    if tuple(found.shape) != tuple(expected.shape):
        return f"shape {tuple(found.shape)} instead of {tuple(expected.shape)}"
    dtype = str(expected.dtype).removeprefix("torch.")
    if str(found.dtype) != dtype:
        return f"{found.dtype} instead of {dtype}"
    if not values or expected.numel() == 0:
        return None
    wanted = expected.float().numpy() if dtype == "bfloat16" else expected.numpy()
    got = np.asarray(found.float().numpy() if dtype == "bfloat16" else found)
    return unequal(got, wanted)


def is_rounding(found: Any, expected: Any, number: int, call: Call) -> bool:
    """Whether a result is as near as PyTorch's to what PyTorch computes in float64 (at most four times as far)."""
    if expected.dtype != torch.float32 or found.dtype != "float32" or found.shape != expected.shape:
        return False
    exact = leaves(call.function(*widened(call.args), **widened(call.kwargs)))[number].numpy()
    ours_off, theirs_off = np.abs(found - exact).max(), np.abs(expected.numpy() - exact).max()
    return bool(ours_off <= 4 * theirs_off)


def widened(value: Any) -> Any:
    """Arguments with tensors of float64 for those of float32."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype == torch.float32 else value.clone()
    if type(value) in (tuple, list):
        return type(value)(widened(v) for v in value)
    return {key: widened(v) for key, v in value.items()} if isinstance(value, dict) else value


def unequal(got: Any, wanted: Any) -> str | None:
    """Where values differ by more than rounding does: two roundings of the largest value, too, as terms may cancel."""
    if got.dtype.kind not in "fc":
        wrong = got != wanted
    else:
        slack = {"float16": 100, "bfloat16": 800}.get(got.dtype.name, 1)
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
        atol = max(ATOL, 2 * float(np.finfo(wanted.dtype).eps) * float(largest))
        wrong = ~np.isclose(got, wanted, rtol=RTOL * slack, atol=atol * slack, equal_nan=True)
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} values, {got[place]!r} instead of {wanted[place]!r} at {place}"


# ---- all names ----


def judged(name: str, infos: Sequence[Any], device: str) -> Name:
    from rulegrad import manual_seed

    row = Name(name)
    for info in infos:
        torch.manual_seed(0)  # the same samples whichever names were judged before
        for sample in limited(info.sample_inputs("cpu", torch.float32, requires_grad=False)):
            try:
                call = recorded(info, sample)
            except Exception as error:  # what PyTorch refuses here is not asked of us
                note(f"{name}: PyTorch: {type(error).__name__}: {first_line(error)}")
                continue
            row.samples += 1
            manual_seed(0)  # what is drawn does not depend on the process
            try:
                args, kwargs = ours(call.args, device), ours(call.kwargs, device)
                what = difference(found(call.name)(*args, **kwargs), call.result, call, name)
            except AbsentError as error:
                row.absent, what = True, f"absent: {error}"
            except Exception as error:  # whatever is raised is what the page says
                what = f"{type(error).__name__}: {first_line(error)}"
            row.equal += what is None
            if what is not None and len(row.reasons) < 5:
                row.reasons.append(f"{written(call)}: {what}")
    return row


def limited(samples: Iterator[Any]) -> list[Any]:
    """At most SAMPLES of them, from all over the list."""
    every = list(samples)
    step = max(1, -(-len(every) // SAMPLES))
    return every[::step]


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:160]


def written(call: Call) -> str:
    """A call in one line, tensors as their dtype and shape."""
    words = [*map(short, call.args), *(f"{key}={short(value)}" for key, value in call.kwargs.items())]
    return f"{call.name.removeprefix('torch.')}({', '.join(words)})"[:200]


def short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(short, value)) + ")"
    return repr(value)


def table() -> dict[str, list[Any]]:
    """The entries of PyTorch's table by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    names: dict[str, list[Any]] = defaultdict(list)
    for info in op_db:
        if torch.float32 in info.dtypes:
            names[info.name].append(info)
    return names


def work(job: tuple[str, str]) -> dict[str, Any]:
    name, device = job
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    return asdict(judged(name, table_once()[name], device))


_TABLE: dict[str, list[Any]] = {}


def table_once() -> dict[str, list[Any]]:
    if not _TABLE:
        _TABLE.update(table())
    return _TABLE


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--device", default="numpy", help="the device of rulegrad's tensors (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=[], help="names that are or begin with one of these")
    parser.add_argument("--failed", action="store_true", help="the reasons for what is not equal")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--page", type=Path, help="write the list of names here, as Markdown")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = sorted(name for name in table_once() if not options.only or name.startswith(tuple(options.only)))
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        rows = [Name(**row) for row in pool.imap(work, [(name, options.device) for name in names], chunksize=4)]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        report(rows, options)
    if options.page:
        options.page.write_text(page(rows), encoding="utf-8")


def report(rows: Sequence[Name], options: argparse.Namespace) -> None:
    if options.failed:
        for row in rows:
            if row.state != "equal":
                print(f"{row.name}: {row.state}, {row.equal} of {row.samples}", *row.reasons, sep="\n    ")
    for state in ("equal", "in part", "differs", "absent"):
        print(f"{state:8} {sum(row.state == state for row in rows):4} of {len(rows)}")
    sys.stdout.flush()


def page(rows: Sequence[Name]) -> str:
    """The names by state, as a page of the documentation."""
    titles = {
        "equal": "Equal on every sample",
        "in part": "Equal on some samples",
        "differs": "Different",
        "absent": "Absent",
    }
    counts = {state: [row for row in rows if row.state == state] for state in titles}
    lines = [
        "# PyTorch's names",
        "",
        f"PyTorch {torch.__version__.split('+')[0]} tests its operators with a table of names and sample inputs. "
        f"{len(rows)} of them take float32. Written by `python bench/torch_names.py --page docs/torch-names.md`, which",
        "calls each on rulegrad under PyTorch's name, with at most "
        f"{SAMPLES} samples of a variant, and compares shapes, dtypes and values.",
        "",
        "| | names |",
        "|---|---|",
        *(f"| {titles[state]} | {len(found)} |" for state, found in counts.items()),
    ]
    for state, found_rows in counts.items():
        lines += ["", f"## {titles[state]}", ""]
        if state in ("equal", "absent"):
            lines += [", ".join(f"`{row.name}`" for row in found_rows) + "."]
        else:
            lines += ["| name | equal | the first that is not |", "|---|---|---|"]
            lines += [f"| `{r.name}` | {r.equal} of {r.samples} | {cell(r.reasons[0])} |" for r in found_rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("`", "'")[:240] + "`"


if __name__ == "__main__":
    main()
