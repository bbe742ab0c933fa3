"""Whole models of ONNX files beside onnxruntime: answers, first call, steady state."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import onnx
import rulegrad as rg
from rulegrad import Tensor


def inputs_for(model: Any, path: Path) -> dict[str, Any]:
    """Random inputs of sizes that the models of OCR and speech take."""
    random, found = np.random.default_rng(0), {}
    initializers = {one.name for one in model.graph.initializer}
    for one in model.graph.input:
        if one.name in initializers:
            continue
        tensor = one.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        sizes = [axis.dim_value for axis in tensor.shape.dim]
        if one.name == "sr":
            found[one.name] = np.array(16000, dtype)
            continue
        if len(sizes) == 4:  # an image
            height, width = {"det": (320, 320), "rec": (48, 320), "cls": (48, 192)}.get(kind(path), (64, 64))
            sizes = [1, sizes[1] or 3, height, width]
        elif one.name == "input" and len(sizes) == 2:  # speech: 64 samples of before, and 512
            sizes = [4 if "sequence" in path.name else 1, 576]
        else:
            sizes = [size if size > 0 else 1 for size in sizes]
        found[one.name] = (random.standard_normal(sizes) * 0.1).astype(dtype)
    return found


def kind(path: Path) -> str:
    return next((name for name in ("det", "rec", "cls") if f"_{name}_" in path.name), "")


def median(call: Callable[[], Any], count: int = 10) -> float:
    """Milliseconds of a call."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def compare(folder: Path, device: str, only: str | None, threads: int | None) -> None:
    """One row for each file below the folder."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    if threads:
        settings.intra_op_num_threads = threads
        rg.config.threads = threads
    print(f"{'file':38} {'difference':>10} {'load':>7} {'first':>8} {'jit':>8} {'eager':>8} {'onnxruntime':>11}  ms")
    for path in sorted(folder.rglob("*.onnx")):
        if only and only not in path.name:
            continue
        inputs = inputs_for(onnx.load(path), path)
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        try:
            right = session.run(None, inputs)
        except Exception as error:
            print(f"{path.name:38} onnxruntime: {str(error).partition(chr(10))[0][:120]}")
            continue
        theirs = median(lambda s=session, i=inputs: s.run(None, i))
        try:
            print(f"{path.name:38} {row(path, inputs, right, device)} {theirs:11.2f}", flush=True)
        except Exception as error:
            print(f"{path.name:38} {type(error).__name__}: {str(error)[:600]}", flush=True)


def row(path: Path, inputs: dict[str, Any], right: list[Any], device: str) -> str:
    """The largest difference, and the times of loading, of the first call, and of later ones."""
    start = time.perf_counter()
    model = rg.onnx.load(path, device=device).eval()
    loaded = time.perf_counter()
    given = {name: one if name == "sr" else Tensor(one, device=device) for name, one in inputs.items()}
    found = values(model(**given))
    first = time.perf_counter()
    differs = max(
        float(np.abs(a.astype(np.float64) - b).max()) / max(1.0, float(np.abs(b).max())) for a, b in zip(found, right)
    )
    fixed = {name: one for name, one in given.items() if not isinstance(one, Tensor)}
    moving = {name: one for name, one in given.items() if isinstance(one, Tensor)}
    captured = rg.jit(lambda **named: model(**named, **fixed))
    values(captured(**moving))
    again = values(captured(**moving))
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(found, again))
    jit = median(lambda: values(captured(**moving)))
    eager = median(lambda: values(model(**given)), 3)
    load, call = 1000 * (loaded - start), 1000 * (first - loaded)
    return f"{differs:10.1e} {load:7.0f} {call:8.0f} {jit:8.2f} {eager:8.2f}"


def values(found: Any) -> list[Any]:
    return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]
