"""Builds, checks and times rulegrad on an NVIDIA GPU, in one call: a table, and JSON.

    python bench/gpu.py [--json] [--quick] [--skip-tests] [--skip-products] [--device NAME] [NAME...]

It installs nothing. It needs a driver (libcuda.so.1) and `python -m pip install 'rulegrad[cuda]'`; the tests need
pytest, hypothesis and a checkout; the peers (cuBLAS through torch.matmul, torch.compile) need a torch that finds the
GPU. What is missing is said, and left out; without a GPU the exit status is 2.

First products of matrices of many sizes and layouts are computed, in each way that the target has to copy tiles
(bench/gpu_products.py), and the ops and tensors of the test-suite run on the device, in the first way that was right.
Then, each result compared with NumPy's: kernels that are bound by memory beside a copy from device to device (90 % of
its bandwidth is the aim), products and convolutions beside cuBLAS and cuDNN (70 %), attention, softmax and layer norm
of rows beside torch.compile, and an eager operation on 1,000 elements beside torch. Times are the least of several
runs, by the device's own clock but for the last. --quick: small sizes. --device: another device, which has no copy
and no peers. NAME: the cases whose names contain one of these. bench/gpu.sh builds the engine first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import common
import gpu_products
import rulegrad as rg
from rulegrad import Tensor
from rulegrad.errors import DeviceError
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend

RUNS = 10
TESTS = ("tests/rules/test_ops_on_devices.py", "tests/tensor")
#: share of the peer's speed that is aimed at
AIMS = {"copy": 0.9, "cuBLAS": 0.7, "cuDNN": 0.7, "torch": 1.0, "torch.compile": 1.0}


@dataclass
class Case:
    """A measurement: inputs by shape and dtype, and a computation by rulegrad, by NumPy and by torch."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    ours: Callable[..., Any]
    rows: Callable[..., Any]  # of float64 arrays, the first with a few rows only
    peer: str
    torch: Callable[..., Any] | None = None
    operations: int = 0
    tolerance: float = 1e-4
    rules: str = ""  # a rule file, under which it is computed
    is_whole: bool = False  # NumPy needs all rows of the first array


@dataclass
class Result:
    """One line of the table; seconds, bytes that must be moved, operations."""

    name: str
    seconds: float
    nbytes: int
    operations: int
    kernels: int
    peer: str
    peer_seconds: float | None = None
    problem: str = ""
    share: float | None = field(init=False)  # of the peer's speed

    def __post_init__(self) -> None:
        self.share = self.peer_seconds / self.seconds if self.peer_seconds else None


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def normalized(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def layer_norm(x: Tensor) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    return centred / ((centred * centred).mean(1, keepdim=True) + 1e-5).sqrt()


def torch_layer_norm(torch: Any, x: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[1:])


def attended(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


def torch_convolution(torch: Any, x: Any, w: Any) -> Any:
    return torch.nn.functional.conv2d(x, w, padding=1)


def convolution(x: Any, w: Any) -> Any:
    taps = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(0, 0)] * 2 + [(1, 1)] * 2), (3, 3), (2, 3))
    return np.einsum("ncyxij,ocij->noyx", taps, w)


def torch_attention(torch: Any, q: Any, k: Any, v: Any, is_causal: bool = False) -> Any:
    four_axes = [x[None, None] for x in (q, k, v)]
    return torch.nn.functional.scaled_dot_product_attention(*four_axes, is_causal=is_causal)[0, 0]


def attended_before(q: Any, k: Any, v: Any) -> Any:
    """Of a query the keys up to its own."""
    scores = q @ k.T / np.sqrt(q.shape[-1])
    return softmax(np.where(np.arange(len(q))[:, None] >= np.arange(len(k)), scores, -np.inf)) @ v


def cases(n: int, width: int, ways: dict[str, str]) -> list[Case]:
    """The cases for matrices of n rows and columns, and n rows of a width; ways to copy tiles, and their rule files."""
    one, two = ((n, width),), ((n, width),) * 2
    channels, side = (64, 56) if n >= 4096 else (8, 14)
    images, weights = (max(n // 256, 4), channels, side, side), (channels, channels, 3, 3)
    heads, wide_heads = ((n, 64),) * 3, ((n, 128),) * 3
    return [
        Case("x + 1", one, "float32", lambda x: x + 1, lambda x: x + 1, "copy"),
        Case("x + y", two, "float32", lambda x, y: x + y, lambda x, y: x + y[: len(x)], "copy"),
        Case("relu, bfloat16", one, "bfloat16", lambda x: x.relu() * 1.5 + 2, lambda x: x.clip(0) * 1.5 + 2, "copy",
             tolerance=2e-2),
        Case("sums of rows", one, "float32", lambda x: x.sum(1), lambda x: x.sum(1), "copy", tolerance=1e-2),
        Case("sums of columns", one, "float32", lambda x: x.T.sum(1), lambda x: x.T.sum(1), "copy", tolerance=1e-2,
             is_whole=True),
        Case("transposed copy", one, "float32", lambda x: x.T.contiguous(), lambda x: x.T, "copy", is_whole=True),
        *(Case(f"product, bfloat16 {way}".strip(), ((n, n), (n, n)), "bfloat16", lambda a, b: a @ b, lambda a, b: a @ b,
               "cuBLAS", lambda torch, a, b: torch.matmul(a, b), 2 * n**3, 2e-2, rules) for way, rules in ways.items()),
        Case("product, float32", ((n, n), (n, n)), "float32", lambda a, b: a @ b, lambda a, b: a @ b, "cuBLAS",
             lambda torch, a, b: torch.matmul(a, b), 2 * n**3, 1e-2),
        Case("row times matrix", ((4, n), (n, n)), "bfloat16", lambda a, b: a[:1] @ b, lambda a, b: a[:1] @ b, "cuBLAS",
             lambda torch, a, b: torch.matmul(a[:1], b), 2 * n * n, 2e-2),
        *(Case(f"convolution, {dtype}", (images, weights), dtype, lambda x, w: x.conv2d(w, padding=1), convolution,
               "cuDNN", torch_convolution, 18 * images[0] * (channels * side) ** 2, 1e-2 if dtype == "float32" else 0.1)
          for dtype in ("float32", "bfloat16")),
        Case("attention, bfloat16", heads, "bfloat16", lambda q, k, v: q.scaled_dot_product_attention(k, v), attended,
             "torch.compile", torch_attention, 4 * n * n * 64, 5e-2),
        Case("attention of 128 features, float16", wide_heads, "float16",
             lambda q, k, v: q.scaled_dot_product_attention(k, v), attended, "torch.compile", torch_attention,
             4 * n * n * 128, 2e-2),
        Case("causal attention, bfloat16", heads, "bfloat16",
             lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), attended_before, "torch.compile",
             lambda torch, *x: torch_attention(torch, *x, is_causal=True), 2 * n * n * 64, 5e-2),
        Case("softmax of rows", one, "float32", lambda x: x.softmax(axis=1), softmax, "torch.compile",
             lambda torch, x: torch.softmax(x, 1)),
        Case("layer norm of rows", one, "float32", layer_norm, normalized, "torch.compile", torch_layer_norm,
             tolerance=1e-3),
    ]  # fmt: skip


def main() -> int:
    """Prints the table; exit status 1 when something is wrong, 2 when there is no GPU."""
    options = parsed()
    name = options.device or "cuda:0"
    missing = needs(name)
    if missing:
        print(f"bench/gpu.py cannot run here: {missing}", file=sys.stderr)
        return 2
    products = {} if options.skip_products else gpu_products.checked_apart(name, options.quick)
    ways = {
        way: rules for way, rules in gpu_products.ways_of(name).items() if not products.get(way, {}).get("problems")
    }
    tests = {} if options.skip_tests else run_tests(name, next(iter(ways.values()), ""))
    torch = gpu_torch() if name.startswith("cuda") else None
    size = (256, 512) if options.quick else (8192, 8192)
    results = []
    for case in cases(*size, ways):
        if options.names and not any(one in case.name for one in options.names):
            continue
        common.note(case.name)
        with gpu_products.in_way(case.rules):
            results.append(measured(case, name, torch))
    eager = {"rulegrad": eager_microseconds(name, None), "torch": eager_microseconds(name, torch) if torch else None}
    if options.json:
        found = {
            "device": name,
            "tests": tests,
            "products": products,
            "results": [asdict(r) for r in results],
            "eager": eager,
        }
        print(json.dumps(found, indent=2))
    else:
        show(name, tests, products, results, torch is not None)
        print(f"x + y of 1,000 elements, us: {eager}")
    is_wrong = tests.get("failed") or any(one["problems"] for one in products.values())
    return 1 if is_wrong or any(result.problem for result in results) else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of a table")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--skip-tests", action="store_true", help="time only")
    parser.add_argument("--skip-products", action="store_true", help="products are not checked element by element")
    parser.add_argument("--device", default="", help="another device than cuda:0")
    return parser.parse_args()


def needs(name: str) -> str:
    """The missing packages for this device; empty when it can be used."""
    try:
        devices.get(name)
    except DeviceError as error:
        return str(error)
    return ""


def run_tests(name: str, rules: str) -> dict[str, Any]:
    """The test-suite's ops and tensors on the device, under a rule file."""
    environment = {**os.environ, "TEST_DEVICES": name, "RULEGRAD_DEVICE": name, "PYTHONPATH": os.pathsep.join(sys.path)}
    with gpu_products.rule_file(rules) as file:
        if file is not None:
            environment["RULEGRAD_RULES"] = str(file)
        return tests_in(environment)


def tests_in(environment: dict[str, str]) -> dict[str, Any]:
    """The result of the tests in this environment."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *TESTS]
    if importlib.util.find_spec("xdist") is not None:
        command += ["-n", str(max(1, (os.cpu_count() or 2) - 1))]
    done = subprocess.run(
        command, cwd=common.BENCH.parent, env=environment, capture_output=True, text=True, check=False
    )
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["pytest said nothing"]
    return {
        "failed": done.returncode != 0,
        "summary": lines[-1],
        "output": "\n".join(line for line in lines if line.startswith("FAILED")) if done.returncode else "",
    }


def gpu_torch() -> Any:
    """torch, if it is installed and finds a GPU."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def measured(case: Case, device: str, torch: Any) -> Result:
    """Times a case, and compares its first rows with NumPy's answer."""
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape, np.float32) for shape in case.shapes]
    inputs = [Tensor(array, device=device).cast(case.dtype).realize() for array in arrays]
    kernels, seconds = 0, float("inf")
    for _ in range(RUNS):
        with rg.profile() as profile:
            output = case.ours(*inputs).realize()
        kernels, seconds = len(profile.kernels), min(seconds, profile.seconds)
    problem = difference(case, output, inputs)
    nbytes = sum(array.nbytes * size_of(case.dtype) // 4 for array in arrays) + output.nbytes
    peer = None
    if case.peer == "copy" and device.startswith("cuda"):
        peer = copy_seconds(device, nbytes)
    elif case.torch is not None and torch is not None:
        peer = torch_seconds(torch, case, arrays)
    return Result(case.name, seconds, nbytes, case.operations, kernels, case.peer, peer, problem)


def size_of(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else 4


def difference(case: Case, output: Tensor, inputs: list[Tensor]) -> str:
    """How the first rows differ from NumPy's answer; empty when they do not."""
    few = 4
    given = [tensor.cast("float32").numpy().astype(np.float64) for tensor in inputs]
    wanted = case.rows(given[0] if case.is_whole else given[0][:few], *given[1:])[:few]
    found = output[:few].cast("float32").numpy().astype(np.float64)
    error = float(np.max(np.abs(found - wanted) / (1 + np.abs(wanted))))
    return "" if error <= case.tolerance else f"its values differ from NumPy's by {error:.2g}"


def copy_seconds(device: str, nbytes: int) -> float:
    """Of a copy from device to device that reads and writes as many bytes in all."""
    found: Any = devices.get(device)
    driver = sys.modules[f"{backend('cuda').module.__package__}.driver"]
    half = max(nbytes // 2, 1)
    source, target = found.allocate(half), found.allocate(half)
    best = float("inf")
    try:
        with found.entered():
            flags = driver.cuda().CUevent_flags.CU_EVENT_DEFAULT
            before, after = driver.call("cuEventCreate", flags), driver.call("cuEventCreate", flags)
            for _ in range(RUNS):
                driver.call("cuEventRecord", before, found.stream)
                driver.call("cuMemcpyDtoDAsync", target, source, half, found.stream)
                driver.call("cuEventRecord", after, found.stream)
                driver.call("cuEventSynchronize", after)
                best = min(best, driver.call("cuEventElapsedTime", before, after) * 1e-3)
    finally:
        found.free(source)
        found.free(target)
    return best


def torch_seconds(torch: Any, case: Case, arrays: list[Any]) -> float:
    """Of the same computation by torch: cuBLAS, or what torch.compile makes."""
    assert case.torch is not None
    given = [torch.tensor(array, device="cuda", dtype=getattr(torch, case.dtype)) for array in arrays]
    work = case.torch
    compiled = (
        torch.compile(lambda *xs: work(torch, *xs)) if case.peer == "torch.compile" else lambda *xs: work(torch, *xs)
    )
    best = float("inf")
    for _ in range(RUNS + 3):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        compiled(*given)
        after.record()
        torch.cuda.synchronize()
        best = min(best, before.elapsed_time(after) * 1e-3)
    return best


def eager_microseconds(device: str, torch: Any) -> float:
    """Of a sum of two small tensors, made and computed, one after the other; by torch where it is given."""
    array = np.ones(1000, np.float32)
    x = Tensor(array, device=device).realize() if torch is None else torch.tensor(array, device="cuda")
    wait = devices.get(device).synchronize if torch is None else torch.cuda.synchronize
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(100):
            if torch is None:
                (x + x).realize()
            else:
                x + x
        wait()
        best = min(best, (time.perf_counter() - start) * 1e4)
    return best


def show(name: str, tests: dict[str, Any], products: dict[str, Any], results: list[Result], has_torch: bool) -> None:
    """The table."""
    print(f"{name}: {devices.report(backend(name.partition(':')[0])).discovery.devices[0].description}")
    print(f"tests: {tests.get('summary', 'not run')}")
    if tests.get("failed"):
        print(tests["output"])
    for way, found in products.items():
        print(f"products {way}".strip() + f": {found['right']} are right, {len(found['problems'])} wrong")
        for problem in found["problems"]:
            print(f"  {problem}")
    if not has_torch:
        print("torch with a GPU was not found: cuBLAS and torch.compile are left out")
    print(f"\n{'':<22}{'kernels':>8}{'ms':>10}{'GB/s':>9}{'TFLOP/s':>9}   peer")
    for r in results:
        share = f"{r.share:.0%} of {r.peer} (aim {AIMS[r.peer]:.0%})" if r.share else f"no {r.peer}"
        rate = f"{r.operations / r.seconds * 1e-12:9.2f}" if r.operations else " " * 9
        print(f"{r.name:<22}{r.kernels:>8}{r.seconds * 1e3:>10.3f}{r.nbytes / r.seconds * 1e-9:>9.1f}{rate}   {share}"
              + (f"   WRONG: {r.problem}" if r.problem else ""))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
