"""`insert`, `remove` and `off`: what they name exists, and may be changed."""

from __future__ import annotations

from rulegrad.lang import syntax
from rulegrad.lang.checker.world import World
from rulegrad.lang.merging import edited_steps
from rulegrad.lang.walk import has_clause


def check_edit(world: World, edit: syntax.PipelineEdit) -> None:
    """The pipeline, the step and the pass of an edit."""
    pipeline = world.pipelines.get(edit.pipeline)
    if edit.edit != "remove" and edit.name not in world.passes:
        span = world.locate(edit.span, edit.name)
        world.report_unknown("unknown-pass", "pass", edit.name, span, world.passes)
    if pipeline is None:
        span = world.locate(edit.span, edit.pipeline)
        world.report_unknown("unknown-pipeline", "pipeline", edit.pipeline, span, world.pipelines)
        return
    edits = [d for d in world.declarations if isinstance(d, syntax.PipelineEdit) and d.edit != "remove"]
    steps = edited_steps(pipeline, edits)
    step = edit.name if edit.edit == "remove" else edit.step
    if step not in steps:
        span = world.locate(edit.span, step)
        world.report_unknown("unknown-step", f"step of `{edit.pipeline}` called", step, span, steps)


def check_off(world: World, off: syntax.RulesOff) -> None:
    """Each rule exists, is not essential, and no case of a function."""
    owners = [d for d in world.declarations if isinstance(d, syntax.Ruleset | syntax.Pass | syntax.Function)]
    rules = {f"{owner.name}.{rule.name}": (owner, rule) for owner in owners for rule in owner.rules}
    for name in off.names:
        span = world.locate(off.span, name)
        if name not in rules:
            world.report_unknown("unknown-rule", "rule", name, span, rules)
            continue
        owner, rule = rules[name]
        if isinstance(owner, syntax.Function):
            message, hint = f"`{name}` is a case of a function", "replace it: declare a case of the same name"
            world.report("essential-rule", message, span, hint)
        elif has_clause(rule, "essential"):
            message, hint = f"`{name}` is essential: programs do not compile without it", "replace it instead"
            world.report("essential-rule", message, span, hint)
