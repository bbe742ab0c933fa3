"""Targets that render, and lack something without which no kernel is rendered."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.optable import OpTable
from rulegrad.lang.targets import missing
from rulegrad.workbench.analysis.asked import Asked
from rulegrad.workbench.analysis.findings import Findings


def check_targets(findings: Findings, files: Sequence[syntax.File], asked: Asked) -> None:
    """Reports what the targets that are asked about do not say; those of an interpreter need neither text nor types."""
    declarations = [d for file in files for d in file.declarations]
    table = OpTable.from_declarations(declarations)
    for target in (d for d in declarations if isinstance(d, syntax.Target) and not d.features):
        is_rendered = bool(target.render or target.templates)
        if is_rendered and (not asked.files or target.name in asked.targets):
            for problem, remedy in missing(target, table):
                message = f"the target `{target.name}` renders kernels, and {problem}"
                findings.report("incomplete-target", message, target.span, remedy, other=problem)
