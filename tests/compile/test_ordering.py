"""The order of steps: what each needs comes before it, and memory is freed early."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rulegrad import Tensor, nn
from rulegrad.compile.ordering import freeing_early, in_order, needed_steps, written_by
from rulegrad.compile.realize import find_plan, plan_memory_of

ROWS, WIDTH = 512, 32
LAYER = ROWS * WIDTH * 4  # bytes of the result of a layer


def gradients(layers: int) -> list[Tensor]:
    """The gradients of a perceptron, those of its first layer first."""
    model = nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh())])
    Tensor.realize(*model.parameters())
    x = Tensor(np.ones((ROWS, WIDTH), np.float32))
    model(x).square().mean().backward()
    return [p.grad for p in model.parameters()]


def test_gradients_of_weights_do_not_wait_for_those_of_the_layers_below() -> None:
    """The results of the layers are in memory, and few values beside them; not all gradients of these too."""
    assert plan_memory_of([x.uop for x in gradients(12)], "c").bound < 16 * LAYER


def test_each_step_comes_after_those_that_it_needs(device: str) -> None:
    wanted = gradients(4)
    plan, _ = find_plan([x.uop for x in wanted], device)
    made = set(range(plan.schedule.inputs))
    for step in plan.schedule.steps:
        assert set(step.buffers) <= made | written_by(step)
        made |= written_by(step)


def test_an_order_is_not_left_for_one_that_needs_more() -> None:
    wanted = gradients(4)
    plan, _ = find_plan([x.uop for x in wanted], wanted[0].device)
    assert freeing_early(plan.schedule).steps == plan.schedule.steps


@pytest.mark.parametrize("seed", range(5))
def test_orders_of_random_needs(seed: int) -> None:
    numbers = random.Random(seed)
    needs = [{numbers.randrange(k) for _ in range(numbers.randrange(3))} if k else set() for k in range(40)]
    urgent = {numbers.randrange(40) for _ in range(5)}
    order = in_order(needs, lambda number: (number not in urgent, number))
    assert sorted(order) == list(range(40))
    assert all(order.index(need) < place for place, number in enumerate(order) for need in needs[number])


def test_what_writes_a_buffer_again_comes_after_those_that_read_it() -> None:
    """A scatter copies its operand into the buffer, then adds to it."""
    x, places = Tensor(np.zeros(8, np.float32)), Tensor([1, 1, 3])
    plan, _ = find_plan([x.scatter_add(0, places, Tensor.ones(3)).uop], "numpy")
    needs = needed_steps(plan.schedule.steps)
    assert len(needs) > 1 and all(any(k < number for k in found) for number, found in enumerate(needs) if number)
