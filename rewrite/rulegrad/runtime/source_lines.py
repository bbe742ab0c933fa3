"""The user's source lines: which line of a program made a node. Kept only while somebody reads them.

They are for `DEBUG=2`, `profile()` and `trace()`, which say what line a kernel or a node comes from; those of a
captured function are kept at its one trace, for a profile of later calls. The table is outside the nodes: it changes
neither their identity nor what is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rulegrad.config import config
from rulegrad.ir import UOp
from rulegrad.ir.substitution import substituted
from rulegrad.runtime import profile
from rulegrad.support.locations import Stack, shown, user_location, user_stack

_MOST: Final = 100_000

_stacks: dict[int, Stack] = {}
_gradient_rules: dict[int, str] = {}  # the rule that made a node of the backward pass
_traces = 0  # of captured functions, in all threads: their lines may be read later


def recording() -> bool:
    """Whether lines are kept: somebody reads them, a function is captured, or the setting detect_nan is on."""
    return anybody_traces() or config.detect_nan > 0 or reading()


def reading() -> bool:
    """Whether somebody reads lines now."""
    return config.debug >= 2 or bool(profile._active)


def count_traces(more: int) -> None:
    """A trace of a captured function has begun (1) or ended (-1). The caller holds the lock of traces."""
    global _traces
    _traces += more


def anybody_traces() -> bool:
    """Whether values wait for the end of a trace, in any thread."""
    return _traces > 0


def note(uop: UOp) -> None:
    """Remember the user's line for `uop`; the first line that made a node stays."""
    key = uop.key
    if key in _stacks:
        return
    if len(_stacks) >= _MOST:
        _stacks.clear()
    stack = user_stack()
    if stack:
        _stacks[key] = stack


def note_gradients(firings: Sequence[tuple[str, str, UOp, UOp, Sequence[UOp]]], roots: Sequence[UOp]) -> None:
    """Remember of the nodes that gradient rules made the line of the node that each is the gradient of, and the rule.

    firings: rule, location, node, the gradient that arrives, gradients of the node's sources.
    """
    lines = inherited(roots)
    for rule, _, node, arrived, given in firings:
        stack = lines.get(node, ())
        waiting = [gradient for gradient in given if gradient != arrived]
        while waiting:
            made = waiting.pop()
            if made.key in _gradient_rules or made in lines or made == arrived:
                continue
            _gradient_rules[made.key] = rule
            if stack:
                _stacks.setdefault(made.key, stack)
            waiting.extend(made.src)


def carry(old: UOp, new: UOp) -> None:
    """Remember for a graph, in which leaves are in the places of some nodes, the lines of the graph before."""
    carry_nodes(changed_nodes(old, new))


def carry_nodes(pairs: Iterable[tuple[UOp, UOp]]) -> None:
    """Remember for nodes the lines of what they were before: pairs (after, before), of which the first counts."""
    for after, before in pairs:
        if before.key in _stacks:
            _stacks.setdefault(after.key, _stacks[before.key])
        if before.key in _gradient_rules:
            _gradient_rules.setdefault(after.key, _gradient_rules[before.key])


def changed_nodes(old: UOp, new: UOp) -> Iterator[tuple[UOp, UOp]]:
    """The nodes of a graph in which leaves are in the places of some nodes, each above them with what it was before."""
    seen: set[UOp] = set()
    waiting = [(old, new)]
    while waiting:
        before, after = waiting.pop()
        if before == after or after in seen or before.op != after.op or len(before.src) != len(after.src):
            continue
        seen.add(after)
        yield after, before
        waiting.extend(zip(before.src, after.src, strict=True))


def with_others(graph: UOp, nodes: Mapping[UOp, UOp]) -> UOp:
    """The graph with other nodes in the places of some, and with its lines."""
    new = substituted(graph, nodes)
    carry(graph, new)
    return new


def gradient_rule_of(uop: UOp) -> str:
    """The rule by which the backward pass made `uop`; "" where it did not, or nobody recorded it."""
    return _gradient_rules.get(uop.key, "")


def inherited(graphs: Sequence[UOp]) -> dict[UOp, Stack]:
    """The user's frames of the nodes of graphs: what an operation is made of has those of the first that uses it."""
    nodes = UOp("SINK", tuple(graphs)).toposort()
    found = {node: stack for node in nodes if (stack := stack_of(node))}
    below: dict[UOp, Stack] = {}
    for node in reversed(nodes):
        if stack := found.get(node, below.get(node, ())):
            below.update((source, stack) for source in node.src if source not in found)
    return {**below, **found}


def line_of(uop: UOp) -> str:
    """`file.py:12` of the user's line that made `uop`; "" when it was not recorded."""
    return shown(location_of(uop))


def location_of(uop: UOp) -> tuple[str, int] | None:
    """The file, in full, and line of the user's program that made `uop`; None when it was not recorded."""
    stack = _stacks.get(uop.key)
    return stack[-1][:2] if stack else None


def stack_of(uop: UOp) -> Stack:
    """The user's frames when `uop` was made, the outermost first; () when they were not recorded."""
    return _stacks.get(uop.key, ())


def user_line() -> str:
    """`file.py:12` of the innermost frame outside rulegrad; "" when there is none."""
    return shown(user_location())
