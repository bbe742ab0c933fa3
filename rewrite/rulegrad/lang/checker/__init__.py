"""The checker: names, arities, types, duplicates and cycles in a set of rule files."""

from __future__ import annotations

from collections.abc import Sequence

from rulegrad.lang import syntax
from rulegrad.lang.checker.declarations import (
    check_definition,
    check_duplicates,
    check_extern,
    check_function,
    check_pass,
    check_pipeline,
    check_ruleset,
)
from rulegrad.lang.checker.edits import check_edit, check_off
from rulegrad.lang.checker.modules import check_modules
from rulegrad.lang.checker.op_table import check_class, check_dtype, check_op
from rulegrad.lang.checker.targets import check_flag, check_limit, check_target
from rulegrad.lang.checker.views import check_table, check_view
from rulegrad.lang.checker.world import World
from rulegrad.lang.diagnostics import Diagnostic

__all__ = ["check"]


# Declarations that stand for themselves: of the others a file that adds to them can change the meaning.
_ALONE = (syntax.DtypeDeclaration, syntax.ClassDeclaration, syntax.OpDeclaration, syntax.Definition, syntax.View)


def check(
    files: Sequence[syntax.File], only: frozenset[str] | None = None, sound: Sequence[syntax.File] = ()
) -> list[Diagnostic]:
    """The errors and warnings of a set of rule files, by file and place; `only`: of the files with these paths.

    The files are checked together: pass the op table and everything that they refer to. Filter by
    `diagnostic.is_error` for what matters.

    sound: files without an error when they are checked together, which `files` adds to. What both share, as the same
    object, is not checked again: a file that only adds declarations cannot make it wrong.
    """
    world = World(files, sound)
    check_duplicates(world)
    check_modules(world, files, frozenset(file.path for file in sound))
    for declaration in world.declarations:
        is_done = isinstance(declaration, _ALONE) and world.is_sound(declaration)
        if not is_done and (only is None or declaration.span.file in only):
            _check(world, declaration)
    order = {file.path: number for number, file in enumerate(files)}
    return sorted(
        dict.fromkeys(d for d in world.diagnostics if only is None or d.span.file in only),
        key=lambda d: (order.get(d.span.file, 0), d.span.line, d.span.column),
    )


def _check(world: World, declaration: syntax.Declaration) -> None:
    if isinstance(declaration, syntax.DtypeDeclaration):
        check_dtype(world, declaration)
    elif isinstance(declaration, syntax.ClassDeclaration):
        check_class(world, declaration)
    elif isinstance(declaration, syntax.OpDeclaration):
        check_op(world, declaration)
    elif isinstance(declaration, syntax.Ruleset):
        check_ruleset(world, declaration)
    elif isinstance(declaration, syntax.Pass):
        check_pass(world, declaration)
    elif isinstance(declaration, syntax.Function):
        check_function(world, declaration)
    elif isinstance(declaration, syntax.Definition):
        check_definition(world, declaration)
    elif isinstance(declaration, syntax.Extern):
        check_extern(world, declaration)
    elif isinstance(declaration, syntax.View):
        check_view(world, declaration)
    elif isinstance(declaration, syntax.Table):
        check_table(world, declaration)
    elif isinstance(declaration, syntax.Target):
        check_target(world, declaration)
    elif isinstance(declaration, syntax.Limit):
        check_limit(world, declaration)
    elif isinstance(declaration, syntax.Flag):
        check_flag(world, declaration)
    elif isinstance(declaration, syntax.Pipeline):
        check_pipeline(world, declaration)
    elif isinstance(declaration, syntax.PipelineEdit):
        check_edit(world, declaration)
    elif isinstance(declaration, syntax.RulesOff):
        check_off(world, declaration)
