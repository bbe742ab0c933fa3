"""The ranks' program in test_agreement.py: what ranks have in common by themselves, and what is refused on one."""

from __future__ import annotations

import sys

import numpy as np

import rulegrad
from rulegrad import Tensor, communication, nn
from rulegrad.distributed import Mesh, data_parallel, shard


def main(what: str) -> None:
    here = communication.world()
    is_other = here.local == (1,)
    if what == "meshes":
        mesh = Mesh({"a": 1, "b": 2} if is_other else {"a": 2, "b": 1})
        mesh = Mesh({"a": 2, "b": 1})
    else:
        mesh = Mesh({"data": 2})
    if what == "seeds":
        rulegrad.manual_seed(here.local[0])
    model = data_parallel(nn.Linear(4, 3), mesh)
    rows = 5 if what == "shapes" and is_other else 6
    x = shard(np.ones((rows, 4), np.float32), mesh, data=0)
    if what == "tensors":
        x = Tensor.ones(5 if is_other else 6, 4).shard(mesh, data=0)
    total = model(x).dropout(0.5, training=True).mean().item()
    sys.stdout.write(f"{total} {Tensor.rand(3).tolist()}\n")  # as one, or ranks mix their lines


if __name__ == "__main__":
    main(sys.argv[1])
