"""The order of a schedule's steps: which others each needs, and orders that keep to that."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any

from rulegrad.compile.estimate import nbytes
from rulegrad.runtime.kernel import stored_into, stores_of

if TYPE_CHECKING:
    from rulegrad.compile.schedule import Schedule, Step


def needed_steps(steps: Sequence[Step]) -> list[set[int]]:
    """For each step the earlier ones that write what it uses, or use what it writes."""
    writer: dict[int, int] = {}
    users: dict[int, set[int]] = {}
    found: list[set[int]] = []
    for number, (step, written) in enumerate(zip(steps, writes_of(steps), strict=True)):
        needs = {writer[buffer] for buffer in step.buffers if buffer in writer}
        for buffer in written:
            needs |= users.get(buffer, set())
        needs.discard(number)
        found.append(needs)
        for buffer in step.buffers:
            users.setdefault(buffer, set()).add(number)
        for buffer in written:
            writer[buffer] = number
    return found


def writes_of(steps: Sequence[Step]) -> list[set[int]]:
    """Of each step the numbers of the buffers that it writes. Equal kernels are looked at once."""
    slots = {
        graph: [stored_into(store).attrs["slot"] for store in stores_of(graph.src)]
        for graph in {step.graph for step in steps}
    }
    return [{step.buffers[slot] for slot in slots[step.graph]} for step in steps]


def written_by(step: Step) -> set[int]:
    """The numbers of the buffers that a step writes."""
    return writes_of([step])[0]


def in_order(
    needs: Sequence[Set[int]],
    priority: Callable[[int], Any],
    changed: Callable[[int], Iterable[int]] = lambda number: (),
) -> list[int]:
    """The numbers of steps: each after those that it needs, and of those that are ready the one of least priority.

    changed: called with each step when its turn has come; other steps whose priority is less from then on.

    >>> in_order([set(), {0}, {0}, {1, 2}], lambda number: -number)
    [0, 2, 1, 3]
    """
    waiting = [len(found) for found in needs]
    users = _users(needs)
    ready = [(priority(k), k) for k, left in enumerate(waiting) if not left]
    heapq.heapify(ready)
    order: list[int] = []
    done = [False] * len(waiting)
    while ready:
        _, number = heapq.heappop(ready)
        if done[number]:
            continue
        done[number] = True
        order.append(number)
        for user in users[number]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (priority(user), user))
        for other in changed(number):
            if not waiting[other] and not done[other]:
                heapq.heappush(ready, (priority(other), other))
    return order


def copying_last(schedule: Schedule) -> Schedule:
    """The same steps in an order in which a buffer is copied once all others have read it.

    Where nobody else needs the buffer then, the copy lies in its place and is not a kernel.
    """
    copied = {number: step.buffers for number, step in enumerate(schedule.steps) if is_copy(step)}
    if not copied:
        return schedule
    needs = needed_steps(schedule.steps)
    for number, buffers in copied.items():
        written = written_by(schedule.steps[number])
        later = _waiting_for(number, needs)
        needs[number].update(
            other
            for other, step in enumerate(schedule.steps)
            if other not in later and any(buffer in step.buffers for buffer in buffers if buffer not in written)
        )
    order = in_order(needs, lambda number: number)
    return schedule._replace(steps=tuple(schedule.steps[number] for number in order))


def is_copy(step: Step) -> bool:
    """Whether a step copies buffers and does nothing else."""
    return all(store.op == "STORE" and store.src[1].op == "PARAM" for store in step.graph.src)


def _waiting_for(number: int, needs: Sequence[Set[int]]) -> set[int]:
    """A step, and those that need what it does."""
    users = _users(needs)
    waiting, found = [number], {number}
    while waiting:
        new = [user for user in users[waiting.pop()] if user not in found]
        found.update(new)
        waiting.extend(new)
    return found


def _users(needs: Sequence[Set[int]]) -> list[list[int]]:
    """Of each step, those that need it."""
    users: list[list[int]] = [[] for _ in needs]
    for number, found in enumerate(needs):
        for k in found:
            users[k].append(number)
    return users


def freeing_early(schedule: Schedule) -> Schedule:
    """The same steps in an order in which memory is freed early: what needs less than it frees does not wait.

    So the gradient of a layer's weights, the last that reads its input, is computed before the gradients of the layers
    below it. A schedule of which that needs more memory at some moment stays as it is.
    """
    if len(schedule.steps) < 3:
        return schedule
    memory = _Memory(schedule)
    before = memory.most_as_it_is()
    order = in_order(needed_steps(schedule.steps), memory.priority, memory.ran)
    if memory.most >= before:
        return schedule
    return schedule._replace(steps=tuple(schedule.steps[number] for number in order))


class _Memory:
    """The memory that is in use while the steps of a schedule run in some order."""

    def __init__(self, schedule: Schedule) -> None:
        self._inputs = schedule.inputs
        self._bytes = [nbytes(shape, dtype) for shape, dtype in schedule.made]
        self._inner = [self._inputs + k not in schedule.outputs for k in range(len(schedule.made))]
        #: of each step, the places of the buffers that are made here
        self._buffers = [
            [number - self._inputs for number in set(step.buffers) if number >= self._inputs] for step in schedule.steps
        ]
        self._users: list[set[int]] = [set() for _ in schedule.made]  # steps that have not run
        for number, buffers in enumerate(self._buffers):
            for place in buffers:
                self._users[place].add(number)
        self._is_made = [False] * len(schedule.made)
        self._used = self.most = 0

    def most_as_it_is(self) -> int:
        """The bytes that are in use at the largest moment, in the order that the schedule has."""
        change = [0] * (len(self._buffers) + 1)
        for place, users in enumerate(self._users):
            if users:
                change[min(users)] += self._bytes[place]
                change[max(users) + 1 if self._inner[place] else -1] -= self._bytes[place]
        return max(itertools.accumulate(change))

    def priority(self, number: int) -> tuple[bool, int]:
        """Steps that need no more memory than they free come first; else the order stays."""
        new = freed = 0
        for place in self._buffers[number]:
            if not self._is_made[place]:
                new += self._bytes[place]
            if self._inner[place] and len(self._users[place]) == 1:
                freed += self._bytes[place]
        return new > freed, number

    def ran(self, number: int) -> list[int]:
        """Notes that a step has run: the steps that are now the last ones that use a buffer."""
        last: list[int] = []
        for place in self._buffers[number]:
            if not self._is_made[place]:
                self._is_made[place] = True
                self._used += self._bytes[place]
        self.most = max(self.most, self._used)
        for place in self._buffers[number]:
            users = self._users[place]
            users.discard(number)
            if self._inner[place]:
                if not users:
                    self._used -= self._bytes[place]
                elif len(users) == 1:
                    last.extend(users)
        return last
