"""`nn.utils.prune` against PyTorch's: masks, parameters, gradients, and what is left when pruning ends."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import rulegrad as rg
from rulegrad.errors import ModuleError, ShapeError


def pruned(torch: Any) -> dict[str, Any]:
    """The layers' values and names after some methods, in either library."""
    prune, values = importlib.import_module(f"{torch.__name__}.nn.utils.prune"), np.random.default_rng(3)
    found: dict[str, Any] = {}

    def layer() -> Any:
        made = torch.nn.Linear(4, 3)
        made.weight.data = torch.tensor(values.standard_normal((3, 4)).astype(np.float32))
        made.bias.data = torch.tensor(values.standard_normal(3).astype(np.float32))
        return made

    one = prune.l1_unstructured(layer(), "weight", 5)
    prune.ln_structured(one, "weight", 1, n=2, dim=0)
    prune.l1_unstructured(one, "weight", 0.4)
    prune.custom_from_mask(one, "bias", torch.tensor([1.0, 0, 1]))
    x = torch.ones(2, 4)
    one(x).square().sum().backward()
    found["names"] = sorted(one.state_dict()), [name for name, _ in one.named_parameters()], prune.is_pruned(one)
    found["values"] = [one.weight, one.weight_mask, one.weight_orig.grad, one.bias_orig.grad, one(x)]
    prune.remove(one, "weight")
    found["left"] = [one.weight, one(x)]
    found["left names"] = sorted(one.state_dict()), [name for name, _ in one.named_parameters()]
    first, second = layer(), layer()
    prune.global_unstructured([(first, "weight"), (second, "bias")], prune.L1Unstructured, amount=0.5)
    found["global"] = [first.weight, second.bias]
    scored = prune.l1_unstructured(layer(), "bias", 1, importance_scores=torch.tensor([3.0, 1.0, 2.0]))
    found["scored"] = [scored.bias, prune.identity(layer(), "weight").weight_mask]
    free = prune.L1Unstructured(2).prune(torch.tensor([3.0, -1.0, 2.0]))
    return {**found, "free": [free]}


def test_masks_and_what_is_left() -> None:
    torch = pytest.importorskip("torch")
    found, expected = pruned(rg), pruned(torch)
    for key, wanted in expected.items():
        for one, other in zip(found[key], wanted, strict=True):
            if hasattr(other, "detach"):
                assert one.detach().numpy() == pytest.approx(other.detach().numpy(), abs=1e-6), key
            else:
                assert one == other, key


def test_at_random_and_what_cannot_be() -> None:
    prune = rg.nn.utils.prune
    layer = prune.random_structured(prune.random_unstructured(rg.nn.Linear(8, 4), "weight", 0.25), "weight", 1, dim=0)
    rows = layer.weight_mask.sum(1).tolist()
    assert rows.count(0.0) == 1 and sum(rows) <= 24 and len(prune.PruningContainer()) == 0
    for error, wrong in (
        (ModuleError, lambda: prune.remove(rg.nn.Linear(1, 1), "weight")),
        (ModuleError, lambda: prune.l1_unstructured(rg.nn.Linear(1, 1), "weight", 1.5)),
        (ModuleError, lambda: prune.l1_unstructured(rg.nn.Linear(1, 1), "weight", 2)),
        (ShapeError, lambda: prune.l1_unstructured(rg.nn.Linear(1, 1), "weight", 1, rg.Tensor([1.0]))),
    ):
        with pytest.raises(error):
            wrong()
