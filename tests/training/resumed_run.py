"""A run of training that a test kills: `python resumed_run.py CHECKPOINT WEIGHTS WORKERS CAPTURED`.

It has all that there is to save: dropout, running statistics, Adam's moments, a schedule, a scale of float16, averages,
an order of samples, random augmentation, early stopping.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

import rulegrad as rg
from rulegrad import Tensor, amp, data, nn, optim, training

STEPS = 24


class Noisy(data.Dataset[Any]):
    """Points with labels; each time they are read with other noise."""

    def __init__(self) -> None:
        self.points = np.random.default_rng(1).standard_normal((20, 6)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> Any:
        noise = np.random.standard_normal(6) + random.random() + Tensor.rand(6).numpy()
        return self.points[index] + 0.1 * noise.astype(np.float32), int(self.points[index, 0] > 0)


def main(checkpoint_path: str, weights_path: str, workers: int, captured: bool) -> None:
    rg.manual_seed(4)
    random.seed(4)
    np.random.seed(4)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
    averaged = optim.swa_utils.AveragedModel(model, avg_fn=optim.swa_utils.get_ema_avg_fn(0.9))
    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    scaler = amp.GradScaler(init_scale=256.0, growth_interval=5)
    stopping = training.EarlyStopping(patience=100)
    loader = data.DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=workers)
    checkpoint = training.Checkpoint(
        checkpoint_path,
        model=model,
        averaged=averaged,
        optimizer=optimizer,
        scheduler=scheduler,
        scaler=scaler,
        stopping=stopping,
        loader=loader,
    )

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        with rg.autocast(dtype="float16"):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    run = rg.jit(step) if captured else step
    done = checkpoint.load().get("step", 0)
    while done < STEPS:
        for x, y in loader:
            loss = run(x, y)
            scheduler.step()
            averaged.update_parameters(model)
            stopping.step(loss)
            done += 1
            checkpoint.save(step=done)
            print(done, flush=True)
            if done == STEPS:
                break
    state = {**model.state_dict(), **averaged.state_dict(), "best": Tensor(stopping.best), "drawn": Tensor.rand(2)}
    nn.state.safe_save(state, weights_path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "captured")
