"""Pipelines: the time of micro-batches that go through stages, one forward and one backward in turn."""

from __future__ import annotations


def one_forward_one_backward(stages: int, micro_batches: int, forward: float, backward: float, send: float) -> float:
    """Seconds until the first stage has done the last backward pass (Narayanan et al., "PipeDream", 2019).

    A stage does as many forward passes as there are stages behind it, then forward and backward passes in turn.
    forward, backward: seconds of a micro-batch on a stage. send: seconds until the next stage has what one has sent,
    which does not hold up the sender. Without it this is (m + p - 1)(forward + backward): a bubble of (p - 1) / m.

    >>> one_forward_one_backward(4, 8, 1.0, 2.0, 0.0)
    33.0
    """
    if stages == 1:
        return micro_batches * (forward + backward)
    orders = [_order(stage, stages, micro_batches) for stage in range(stages)]
    done: dict[tuple[bool, int, int], float] = {}  # by direction, stage, and micro-batch
    free, at = [0.0] * stages, [0] * stages
    waiting = list(range(stages))
    while waiting:
        moved = False
        for stage in waiting:
            while at[stage] < len(orders[stage]):
                is_forward, number = orders[stage][at[stage]]
                ready = _ready(done, is_forward, stage, number, stages, send)
                if ready is None:
                    break
                free[stage] = max(free[stage], ready) + (forward if is_forward else backward)
                done[is_forward, stage, number] = free[stage]
                at[stage] += 1
                moved = True
        assert moved  # the order of the stages has no cycle
        waiting = [stage for stage in waiting if at[stage] < len(orders[stage])]
    return max(free)


def _order(stage: int, stages: int, micro_batches: int) -> list[tuple[bool, int]]:
    """The passes of a stage in order: whether each is a forward pass, and the number of its micro-batch."""
    ahead = min(stages - stage - 1, micro_batches)
    found = [(True, number) for number in range(ahead)]
    for number in range(micro_batches):
        if number + ahead < micro_batches:
            found.append((True, number + ahead))
        found.append((False, number))
    return found


def _ready(
    done: dict[tuple[bool, int, int], float], is_forward: bool, stage: int, number: int, stages: int, send: float
) -> float | None:
    """When a pass can begin; None while what it needs has no time yet."""
    if is_forward:
        return 0.0 if stage == 0 else _plus(done.get((True, stage - 1, number)), send)
    if stage == stages - 1:
        return done.get((True, stage, number))
    return _plus(done.get((False, stage + 1, number)), send)


def _plus(time: float | None, send: float) -> float | None:
    return None if time is None else time + send
