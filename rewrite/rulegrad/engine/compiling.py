"""From rule text to what is cached of it: files are parsed, checked and merged, and compiled for a target.

The one part of the seam that needs the language; a program whose rules are in the cache does not load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final

from rulegrad.engine import kept, shipped, trees
from rulegrad.engine.selection import RuleFacts
from rulegrad.engine.sources import Sources
from rulegrad.errors import RuleError
from rulegrad.lang import syntax, targets
from rulegrad.lang.checker import check
from rulegrad.lang.compiler import compile_op_table, compile_program, library_of
from rulegrad.lang.compiler.reuse import known, remember
from rulegrad.lang.conflicts import conflicts, each_once
from rulegrad.lang.diagnostics import report
from rulegrad.lang.evaluated import evaluated as values_of
from rulegrad.lang.externs import with_externs
from rulegrad.lang.merging import edited, merge, with_bases
from rulegrad.lang.modules import plain, remember_renamed, renamed_files, resolved
from rulegrad.lang.optable import OpTable
from rulegrad.lang.parser import parse_file
from rulegrad.lang.walk import dataflow_rules, has_clause
from rulegrad.support.garbage import uncollected

_sound: set[str] = set()  # keys of our files, of which this process knows that they have no error
_ADVICE: Final = "`python -m rulegrad devices --forget` removes measured numbers"


@uncollected()
def checked_files(sources: Sources) -> list[syntax.File]:
    """The syntax trees of all files; measured numbers and user files are merged into ours, and edits made.

    Where ours were found without an error before, they are not checked again. Raises RuleError.
    """
    measured, user = sources.measured, sources.user
    files = [(_measured if path in measured else parsed_file)(text, path) for path, text in sources.texts]
    parsed, sound = resolved(files), sound_files(sources, files)
    merged = merge(merge(parsed, measured), user)
    # numbers of a target that is not there now are for later
    merged = [file for file in merged if file.path not in measured or targets.adds_to_targets(file, merged)]
    errors = tuple(d for d in each_once(conflicts(parsed, user), check(merged, sound=sound)) if d.is_error)
    if errors:
        raise RuleError(report(list(errors)), errors)
    return with_bases(edited(merged))


def sound_files(sources: Sources, files: Sequence[syntax.File]) -> list[syntax.File]:
    """Ours of these files, if there is no error in them.

    The file that comes with the package, and the cache on disk, know of files that were checked before.
    """
    ours, alone = resolved([file for file in files if sources.is_ours(file.path)]), sources.ours_alone()
    key = alone.key
    if key in _sound or shipped.get("sound", alone) is not None or kept.cache.get("sound", key) is not None:
        return ours
    if any(found.is_error for found in check(merge(ours, frozenset()))):
        return []
    _sound.add(key)
    kept.cache.put("sound", key, b"")
    return ours


@lru_cache(maxsize=256)
def parsed_file(text: str, path: str) -> syntax.File:
    """The tree of a file: of one of ours as it came with the package; of one that has not changed, the same again.

    Raises RuleError with all problems found.
    """
    ours = _shipped_trees().get(path)
    return ours if ours is not None and ours.text == text else parse_file(text, path)


@cache
def _shipped_trees() -> dict[str, syntax.File]:
    """Our files, by path, as they were parsed when the package was built; what they were compiled to is known then."""
    data = shipped.trees()
    if data is None:
        return {}
    found = trees.from_bytes(data)
    remember_renamed(found.renamed)
    remember(found.compiled)
    return {file.path: file for file in found.files}


def known_trees(sources: Sources) -> trees.Trees:
    """The files as they are parsed, and what this process has made of them."""
    files = [parsed_file(text, path) for path, text in sources.texts]
    return trees.Trees(files, renamed_files(files), known(library_of(sources.files)))


def _measured(text: str, path: str) -> syntax.File:
    """A file of measured numbers. Raises RuleError for one that says anything else, and for a limit of 0 or less."""
    try:
        found = parse_file(text, path)
    except RuleError as error:
        raise RuleError(f"{error}\n    hint: {_ADVICE}", error.diagnostics) from None
    for declaration in found.declarations:
        name, line = getattr(declaration, "name", ""), declaration.span.line
        if not isinstance(declaration, syntax.Target) or replace(declaration, spans={}) != syntax.Target(
            name, declaration.span, limits=declaration.limits
        ):
            raise RuleError(f"{path}:{line}: only the limits of a target can be measured numbers\n    hint: {_ADVICE}")
        for limit, number in declaration.limits.items():
            if number <= 0:
                problem = f"the limit `{limit}` of target `{name}` is {number}, and a measured number is positive"
                raise RuleError(f"{path}:{line}: {problem}\n    hint: {_ADVICE}")
    return found


def target_declaration(sources: Sources, name: str) -> syntax.Target:
    """The declaration of a target with its features, all that compiling for it needs. Raises RuleError."""
    return targets.find(sources.declarations(), name)


def op_table(sources: Sources) -> bytes:
    """The op table, compiled."""
    return compile_op_table(sources.files)


@uncollected()
def program(sources: Sources, target: str | None, strict: bool, seed: int | None) -> bytes:
    """All passes and functions, compiled for a target."""
    return compile_program(sources.files, target_declaration(sources, target) if target else None, strict, seed)


def target(sources: Sources, name: str) -> bytes:
    """The fields of a target's TargetFacts."""
    return kept.to_bytes(_target_facts(sources, target_declaration(sources, name)))


def summary(sources: Sources) -> bytes:
    """The declarations of the files, by name: see `engine.summary`."""
    found: dict[str, dict[str, Any]] = {"pipelines": {}, "targets": {}, "externs": {}, "passes": {}, "ops": {}}
    for one in targets.examples(sources.declarations()):
        found["targets"][one.name] = _target_facts(sources, one)
    for declaration in sources.declarations():
        if isinstance(declaration, syntax.Pipeline):
            found["pipelines"][declaration.name] = declaration.steps
        elif isinstance(declaration, syntax.Extern):
            found["externs"][declaration.name] = (declaration.qualified_name, declaration.span.file)
        elif isinstance(declaration, syntax.Pass):
            kind = declaration.direction if declaration.kind == "rewrite" else declaration.kind
            found["passes"][declaration.name] = kind
        elif isinstance(declaration, syntax.OpDeclaration):
            found["ops"][declaration.name] = (declaration.classes, declaration.flags)
    forms = OpTable.from_declarations(sources.declarations()).forms
    found["steps"] = {word: tuple(form) for word, form in forms.items()}
    return kept.to_bytes(found)


def rules(sources: Sources) -> bytes:
    """The fields of each rule's RuleFacts, by its name."""
    return kept.to_bytes({name: tuple(known) for name, known in _rule_facts(sources.declarations()).items()})


def evaluated(sources: Sources) -> bytes:
    """The fields of each op's Evaluated, by its name."""
    ops = [d for d in sources.declarations() if isinstance(d, syntax.OpDeclaration)]
    return kept.to_bytes({op.name: tuple(values_of(op)) for op in ops})


def _target_facts(sources: Sources, declared: syntax.Target) -> tuple[Any, ...]:
    dtypes, limits = declared.dtypes | declared.types.keys(), targets.limits(sources.declarations(), declared)
    return declared.render, declared.templates, dtypes, limits, declared.types, declared.dtypes


def _rule_facts(declarations: Iterable[syntax.Declaration]) -> Mapping[str, RuleFacts]:
    everything = list(declarations)
    external = with_externs(everything)
    found: dict[str, RuleFacts] = {}
    for owner in everything:
        if isinstance(owner, syntax.OpDeclaration) and owner.spelling is not None:
            location = f"{owner.span.file}:{owner.span.line}"  # tried last in each render pass; there is no other text
            found[f"ops.{owner.name}"] = RuleFacts(location, "text", True, False, False)
        if not isinstance(owner, syntax.Ruleset | syntax.Pass | syntax.Function):
            continue
        for rule in (*owner.rules, *dataflow_rules(owner)):
            name = f"{owner.name}.{rule.name}"
            is_text = isinstance(rule.template, syntax.Text)
            is_case = isinstance(owner, syntax.Function) or rule not in owner.rules
            kind = "case" if is_case else "text" if is_text else "rule"
            essential, unsound = has_clause(rule, "essential"), has_clause(rule, "unsound")
            location = f"{rule.span.file}:{rule.span.line}"
            found.setdefault(plain(name), RuleFacts(location, kind, essential, unsound, name in external))
    return found


def refuse_ops(sources: Sources, paths: AbstractSet[str]) -> None:
    """Raises RuleError when one of these files declares ops or dtypes: the table is in force before the first node."""
    for declaration in sources.declarations():
        if isinstance(declaration, syntax.OpDeclaration | syntax.DtypeDeclaration) and declaration.span.file in paths:
            span = declaration.span
            raise RuleError(
                f"{span.file}:{span.line}: `{declaration.name}` cannot be declared by a file that is loaded now: "
                "ops and dtypes are in force before the first node is made\n"
                f"    hint: name the file before the program starts: RULEGRAD_RULES={span.file}, or an entry point"
            )
