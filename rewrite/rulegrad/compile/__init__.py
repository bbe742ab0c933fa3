"""Drivers: they run the passes that rules/pipeline.rules names, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.compile.kernels import forget_kernels
from rulegrad.compile.realize import compile_graph, realize
from rulegrad.ir import UOp
from rulegrad.lang import engine, watching


def backward(root: UOp, root_gradient: UOp, targets: Sequence[UOp]) -> list[UOp | None]:
    """The gradients of a tensor graph with respect to `targets`, as graphs (None: root does not depend on it).

    root_gradient: of root's shape and dtype. The rules are in rules/gradient.rules. Raises RewriteError at an op that
    has no gradient.
    """
    with watching.part("gradients"):
        return engine.reverse("gradients", root, root_gradient, targets)


__all__ = ["backward", "compile_graph", "forget_kernels", "realize"]
