"""Tries an installed wheel: `python tests/installed.py [DEVICE ...]`, from anywhere; numpy and what else works by default.

It is not run by pytest, whose tests are of a checkout: cibuildwheel runs it on each wheel that it builds.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import rulegrad
from rulegrad import Tensor, config, jit, nn, optim
from rulegrad.runtime import devices


def main() -> None:
    package = Path(rulegrad.__file__).parent
    files = {str(file) for file in metadata.files("rulegrad") or ()}
    assert "rulegrad/compiled_rules.bin" in files, "the wheel has no compiled rules"
    assert "rulegrad/rules/ops/ops.rules" in files, "the wheel has no rules"
    assert package.parent in {Path(folder) for folder in sys.path if "packages" in folder}, (
        f"{package} is not installed"
    )
    for device in sys.argv[1:] or dict.fromkeys(("numpy", devices.default())):
        with config(device=device):
            print(f"{rulegrad.__version__}, Python {sys.version.split()[0]}, {device}: loss {trained():.4f}")


def trained() -> float:
    """The loss of a small network after some steps, which is a tenth of the first at most."""
    Tensor.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    x, y = Tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), Tensor([[0.0], [1.0], [1.0], [0.0]])

    @jit
    def step() -> Tensor:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(150)]
    assert losses[-1] < losses[0] / 10, losses
    return float(losses[-1])


main()
