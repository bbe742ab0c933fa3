"""Invariants of every firing: the dtype and the shape of the node; and a template that can be built at all."""

from __future__ import annotations

from rulegrad._core import verify
from rulegrad.errors import GraphError, RewriteError
from rulegrad.ir import UOp
from rulegrad.workbench.analysis.findings import Findings, one_line
from rulegrad.workbench.analysis.laboratory import Laboratory, Subject


def check_kept(findings: Findings, laboratory: Laboratory) -> None:
    """Fires each rule on its instances, over the dtypes that its pattern admits."""
    for subject in laboratory.subjects.values():
        _check(findings, laboratory, subject)


def _check(findings: Findings, laboratory: Laboratory, subject: Subject) -> None:
    for node in subject.instances:
        try:
            found = laboratory.apply(subject, node)
        except (RewriteError, GraphError) as error:
            note = (f"on {one_line(node)}: {error.problem}",)
            hint = "narrow the pattern, or add a guard"
            message = f"`{subject.rule.name}` matches a node for which its template cannot be built"
            findings.report("failing-template", message, subject.rule.name_span, hint, note)
            return
        if found is not None and _differs(findings, subject, node, found):
            return


def _differs(findings: Findings, subject: Subject, node: UOp, found: UOp) -> bool:
    if found.dtype == node.dtype and found.shape == node.shape:
        return False  # most do: what they are is not written out
    notes = (f"on {one_line(node)}", f"it gives {one_line(found)}")
    span = subject.rule.template.span
    if found.dtype != node.dtype:
        message = f"`{subject.rule.name}` changes the dtype from {node.dtype} to {found.dtype}"
        findings.report("dtype-changed", message, span, "a template must have the dtype of what it replaces", notes)
        return True
    if not _is_same_in_all_lanes(node, found):
        message = f"`{subject.rule.name}` changes the shape from {node.shape} to {found.shape}"
        findings.report("shape-changed", message, span, "a template must have the shape of what it replaces", notes)
        return True
    return False


def _is_same_in_all_lanes(node: UOp, found: UOp) -> bool:
    """Whether a scalar replaces a vector: in a kernel, where shapes are the lanes of vectors."""
    return len(node.shape) == 1 and found.shape == () and bool(verify(node, "tensor"))
