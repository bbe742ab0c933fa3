"""Buffers that share memory: plans against a machine that runs them, their size against the lower bound."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rulegrad import Tensor
from rulegrad.compile import plan_memory_of
from rulegrad.compile.memory_plan import Use, plan_memory, useful_inputs

Case = tuple[list[Use], list[int], int, list[int], list[int], set[tuple[int, int]]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Steps that read what is there and write one or two new buffers, or update one that they made."""
    inputs = draw(st.integers(0, 3))
    sizes = [draw(st.sampled_from([128, 256, 512])) for _ in range(inputs)]
    steps: list[Use] = []
    pairs: set[tuple[int, int]] = set()
    for _ in range(draw(st.integers(1, 9))):
        reads = tuple(sorted(draw(st.sets(st.sampled_from(range(len(sizes))), max_size=3)))) if sizes else ()
        made = range(inputs, len(sizes))
        if made and draw(st.integers(0, 4)) == 0:
            updated = draw(st.sampled_from(made))
            steps.append(Use(tuple(n for n in reads if n != updated), (updated,)))
            continue
        writes = tuple(range(len(sizes), len(sizes) + draw(st.integers(1, 2))))
        sizes += [draw(st.sampled_from([128, 256, 512])) for _ in writes]
        pairs |= {(r, w) for r in reads for w in writes if sizes[r] == sizes[w] and draw(st.booleans())}
        steps.append(Use(reads, writes))
    outputs = draw(st.lists(st.sampled_from(range(len(sizes))), min_size=1, max_size=3, unique=True))
    free = [n for n in useful_inputs(steps, sizes, inputs, outputs, pairs) if draw(st.booleans())]
    return steps, sizes, inputs, outputs, free, pairs


@given(cases(), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=3))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_buffer_that_is_needed_is_overwritten(case: Case, wished: list[tuple[int, int]]) -> None:
    steps, sizes, inputs, outputs, free, pairs = case
    plan = plan_memory(steps, sizes, inputs, outputs, free, pairs, dict(wished))
    blocks = list(plan.blocks)
    place: dict[int, object] = {n: ("input", n) for n in range(inputs)}
    place |= {block.taken: k for k, block in enumerate(blocks) if block.taken is not None}
    place |= {inputs + k: block for k, block in enumerate(plan.block_of)}
    for number in range(inputs, len(sizes)):
        assert blocks[plan.block_of[number - inputs]].nbytes >= sizes[number]
    assert {block.taken for block in blocks if block.taken is not None} == set(free)
    contents = {place[n]: n for n in range(inputs)}  # which buffer's values a place has
    for step, overwritten in zip(steps, plan.overwritten, strict=True):
        for number in step.reads:
            assert contents[place[number]] == number
        for written in step.writes:
            gone = contents.get(place[written])
            if gone in step.reads:
                assert (gone, written) in pairs
                assert (gone, written) in overwritten
        contents |= {place[written]: written for written in step.writes}
        assert all(contents[place[written]] == written for written in step.writes)
    for number in outputs:
        assert contents[place[number]] == number
        if number >= inputs:  # its memory becomes a buffer of its own
            assert blocks[plan.block_of[number - inputs]].nbytes == sizes[number]
    assert plan.nbytes == sum(block.nbytes for block in blocks if block.taken is None)
    assert plan.nbytes <= sum(sizes[inputs:])


def test_chains_of_equal_buffers_need_two() -> None:
    steps = [Use((k,), (k + 1,)) for k in range(50)]
    plan = plan_memory(steps, [256] * 51, 1, [50])
    assert (plan.nbytes, plan.bound) == (512, 512)
    pairs = {(k, k + 1) for k in range(50)}
    assert plan_memory(steps, [256] * 51, 1, [50], (), pairs).nbytes == 256
    assert plan_memory(steps, [256] * 51, 1, [50], (0,), pairs).nbytes == 0


def test_an_input_is_there_from_the_start() -> None:
    steps = [Use((), (1,)), Use((1,), (2,)), Use((0, 2), (3,))]
    plan = plan_memory(steps, [128] * 4, 1, [3], (0,))
    taken = next(k for k, block in enumerate(plan.blocks) if block.taken == 0)
    assert [k for k, block in enumerate(plan.block_of) if block == taken] == []


def test_an_input_that_is_read_later_is_not_overwritten() -> None:
    """Write after read: the second step reads what the first could write over."""
    steps = [Use((0,), (1,)), Use((0,), (2,))]
    plan = plan_memory(steps, [128] * 3, 1, [1, 2], (0,), {(0, 1), (0, 2)})
    assert plan.overwritten == ((), ((0, 2),))
    assert plan.nbytes == 128


def test_a_result_prefers_its_own_place() -> None:
    """Two states that are updated by one step: each new value goes where the old one was."""
    steps = [Use((0, 1), (2, 3))]
    pairs = {(0, 2), (0, 3), (1, 2), (1, 3)}
    for own in ({2: 0, 3: 1}, {2: 1, 3: 0}, {3: 0}):
        plan = plan_memory(steps, [128] * 4, 2, [2, 3], (0, 1), pairs, own)
        assert plan.nbytes == 0
        for result, state in own.items():
            assert plan.blocks[plan.block_of[result - 2]].taken == state


def test_large_plans_take_little_longer() -> None:
    """Each buffer is put into its block by looking at few others: 20,000 steps are planned here."""
    count = 20_000
    steps = [Use((k - 1,) if k else (), (k,)) for k in range(count)]
    plan = plan_memory(steps, [128 * (k * 7919 % 50 + 1) for k in range(count)], 0, [count - 1])
    assert plan.bound <= plan.nbytes < 1.5 * plan.bound
    assert len(plan.blocks) < 10


def test_plans_of_tensors_are_near_the_bound() -> None:
    x = Tensor.zeros(32, 64)
    for width in (64, 32, 128, 16, 64):
        x = (x @ Tensor.zeros(x.shape[1], width)).softmax(1)
    plan = plan_memory_of([x.uop])
    assert plan.bound <= plan.nbytes <= 1.5 * plan.bound


def test_a_plan_says_what_is_overwritten() -> None:
    weight = Tensor(np.zeros((64, 64), np.float32))
    changed = (weight - 0.1 * (weight @ weight)).uop
    kept = plan_memory_of([changed])
    assert kept.nbytes == kept.bound == 64 * 64 * 4
    assert plan_memory_of([(weight * 2).uop], taken=True).nbytes == 0
