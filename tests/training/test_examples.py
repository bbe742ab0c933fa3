"""The examples of training: the small GPT beside the same source on PyTorch, and runs that go on."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulegrad import Tensor, nn, optim

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES = {"characters": 17, "block_size": 12, "width": 16, "heads": 2, "layers": 2, "dropout": 0.0}


def example(path: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A program of the examples as a module."""
    file = EXAMPLES / path
    monkeypatch.syspath_prepend(str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    return module


def test_fifty_steps_of_the_gpt_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    source = (EXAMPLES / "nanogpt" / "model.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(source.replace("from rulegrad import nn", "from torch import nn").replace("rulegrad.nn", "torch.nn"), names)
    ours, theirs = example("nanogpt/model.py", monkeypatch).GPT(**SIZES), names["GPT"](**SIZES)
    theirs.load_state_dict({name: torch.tensor(value.numpy()) for name, value in ours.state_dict().items()})
    mine = optim.AdamW(ours.parameters(), lr=0.01)
    other = torch.optim.AdamW(theirs.parameters(), lr=0.01)
    random = np.random.default_rng(0)
    text = np.cumsum(random.integers(1, 3, 400)) % SIZES["characters"]
    found, expected = [], []
    for _ in range(50):
        starts = random.integers(0, len(text) - 13, 4)
        x, y = (np.stack([text[s + k : s + k + 12] for s in starts]) for k in (0, 1))
        mine.zero_grad()
        loss = nn.functional.cross_entropy(ours(Tensor(x)).reshape(-1, 17), Tensor(y).reshape(-1)).backward()
        mine.step()
        found.append(loss.item())
        other.zero_grad()
        scores = theirs(torch.tensor(x)).reshape(-1, 17)
        reference = torch.nn.functional.cross_entropy(scores, torch.tensor(y).reshape(-1))
        reference.backward()
        other.step()
        expected.append(reference.item())
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    np.testing.assert_allclose(found[:10], expected[:10], rtol=1e-5)
    assert found[-1] < 0.6 * found[0]


@pytest.mark.long_run
def test_the_gpt_goes_on_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = example("nanogpt/train.py", monkeypatch)
    (tmp_path / "text.txt").write_text("so it goes, and so it went. " * 40, encoding="utf-8")

    def losses(name: str, is_stopped: bool = False) -> list[list[str]]:
        paths = ["--checkpoint", str(tmp_path / name), "--metrics", str(tmp_path / f"{name}.csv")]
        sizes = ["--length", "8", "--width", "8", "--heads", "2", "--layers", "1", "--batch", "4", "--write", "4"]
        options = ["--text", str(tmp_path / "text.txt"), "--steps", "60", "--dropout", "0.1", "--quiet", *sizes, *paths]
        with monkeypatch.context() as patch:
            if is_stopped:
                save = program.training.Checkpoint.save

                def stopped(checkpoint: Any, **values: Any) -> None:
                    save(checkpoint, **values)
                    raise KeyboardInterrupt

                patch.setattr(program.training.Checkpoint, "save", stopped)
                with pytest.raises(KeyboardInterrupt):
                    program.main(options)
            else:
                program.main(options)
        with (tmp_path / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    whole = losses("whole")
    first = losses("parts", is_stopped=True)
    assert len(first) == 51 and first == whole[:51]
    assert losses("parts") == whole and len(whole) == 61


def test_pictures_differ_each_time_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    program = example("shapes.py", monkeypatch)
    pictures = program.Pictures(8, 1, augment=True)
    first, second = (np.stack([pictures[k][0] for k in range(8)]) for _ in range(2))
    assert first.shape == (8, 3, 32, 32) and first.dtype == np.float32 and not np.array_equal(first, second)
    np.testing.assert_array_equal(pictures.kinds, program.Pictures(8, 1, augment=False).kinds)
