"""Modules: the functions, definitions, views and externs of a rule file are its own, but for those that it exports.

Everything else (ops, classes, dtypes, tables, rule sets, passes, pipelines, targets) is known by name in every file:
edits, settings and errors address it so. Files are merged under names that are unique: where two files declare the same
one, the later is `NAME@2` inside, and messages say NAME.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rulegrad.lang import syntax
from rulegrad.lang.walk import expressions_in, transformed

Own = syntax.Function | syntax.Definition | syntax.View | syntax.Extern
_MARK = re.compile(r"(?<=\w)@\d+")


def plain(text: str) -> str:
    """A text with the names that files gave, in place of the unique ones.

    >>> plain("no case of `lanes@2` holds")
    'no case of `lanes` holds'
    """
    return _MARK.sub("", text) if "@" in text else text


def module_name(path: str) -> str:
    """How `use` names the file that messages call `path`.

    >>> module_name("rules/loops/lanes.rules"), module_name("backends/c/render.rules")
    ('loops/lanes', 'backends/c/render')
    """
    return path.removesuffix(".rules").removeprefix("rules/")


def module_of(file: str, path: str) -> str:
    """The module that `use PATH` means in a file: a path that begins with a dot is relative to the file's own folder.

    >>> module_of("rules/loops/lanes.rules", "kernel/ranges"), module_of("rules/loops/lanes.rules", "./tactics/rows")
    ('kernel/ranges', 'loops/tactics/rows')
    """
    if not path.startswith("."):
        return path
    return posixpath.normpath(posixpath.join(posixpath.dirname(module_name(file)), path))


def used_module(file: syntax.File, use: syntax.Use) -> str:
    """The name of the module that a `use` line means."""
    return module_of(file.path, use.path)


def own_names(file: syntax.File) -> dict[str, Own]:
    """The declarations that are a file's own, by name."""
    return {d.name: d for d in file.declarations if isinstance(d, Own)}


def dataflow_names(declarations: Iterable[syntax.Declaration]) -> Iterator[str]:
    """The facts and states of the passes among these."""
    for declaration in declarations:
        if isinstance(declaration, syntax.Pass):
            yield from (fact.name for fact in declaration.facts)
            yield from (state.name for state in declaration.states)


def resolved(files: Sequence[syntax.File]) -> list[syntax.File]:
    """The files with a name for each function, definition, view and extern that no other file has.

    A function that a file declares and uses from another is an extension of that: they have one name.
    """
    modules = {module_name(file.path): file for file in files}
    dataflow = {name: file.path for file in files for name in dataflow_names(file.declarations)}
    taken: set[str] = set()
    names: dict[str, dict[str, str]] = {}
    for file in files:
        taking = {name for use in file.uses for name, _ in use.names}
        names[file.path] = {
            name: _unique(name, taken, name in dataflow and dataflow[name] != file.path)
            for name in own_names(file)
            if name not in taking
        }
    for file in files:
        for use in file.uses:
            source = modules.get(used_module(file, use))
            for name, _ in use.names if source is not None else ():
                names[file.path][name] = names[source.path].get(name, name) if source is not None else name
    return [_renamed(file, {a: b for a, b in names[file.path].items() if a != b}) for file in files]


def _unique(name: str, taken: set[str], is_dataflow: bool) -> str:
    number, unique = 1, name
    while unique in taken or (is_dataflow and unique == name):
        number += 1
        unique = f"{name}@{number}"
    taken.add(unique)
    return unique


_Names = tuple[tuple[str, str], ...]
#: The latest results of `_renamed`, by the file's identity and the names: one file stays one object.
_renamed_files: dict[tuple[int, _Names], tuple[syntax.File, syntax.File]] = {}
_MOST_RENAMED = 256


class Renamed(NamedTuple):
    """A file, names to change, and the file with these changed: what another process need not do again."""

    file: syntax.File
    names: _Names
    changed: syntax.File


def renamed_files(files: Iterable[syntax.File]) -> list[Renamed]:
    """The renamed forms of these files, as far as they are kept."""
    wanted = set(map(id, files))
    return [Renamed(file, names, new) for (_, names), (file, new) in _renamed_files.items() if id(file) in wanted]


def remember_renamed(found: Iterable[Renamed]) -> None:
    """Keeps what `renamed_files` gave."""
    _renamed_files.update({(id(one.file), one.names): (one.file, one.changed) for one in found})


def _renamed(file: syntax.File, names: Mapping[str, str]) -> syntax.File:
    if not names:
        return file
    key = (id(file), tuple(sorted(names.items())))
    if key not in _renamed_files:
        if len(_renamed_files) >= _MOST_RENAMED:
            _renamed_files.clear()
        changed = replace(file, declarations=tuple(_with_names(d, names) for d in file.declarations))
        _renamed_files[key] = file, changed
    return _renamed_files[key][1]


# the parts of each kind of syntax in which functions are called
_PARTS: Mapping[type, tuple[str, ...]] = {
    syntax.Rule: ("pattern", "template", "clauses", "tests"),
    syntax.Clause: ("expression", "of"),
    syntax.RuleTest: ("left", "right"),
    syntax.ViewCase: ("expression",),
    syntax.Fact: ("keys", "value", "rule"),
    syntax.State: ("initial",),
    syntax.Send: ("rule",),
    syntax.Ruleset: ("rules",),
    syntax.Function: ("rules",),
    syntax.Pass: ("rules", "facts", "states", "sends"),
    syntax.Definition: ("lets", "body"),
    syntax.View: ("cases",),
    syntax.Extern: ("tests",),
}


def _with_names(declaration: syntax.Declaration, names: Mapping[str, str]) -> syntax.Declaration:
    """A declaration with other names for what it declares and calls."""

    def change(x: syntax.Expression) -> syntax.Expression:
        return replace(x, function=names[x.function]) if isinstance(x, syntax.Call) and x.function in names else x

    def of(item: Any) -> Any:
        if isinstance(item, syntax.Expression):
            return transformed(item, change)
        if isinstance(item, tuple):
            return tuple(map(of, item))
        parts = {part: of(getattr(item, part)) for part in _PARTS.get(type(item), ())}
        return replace(item, **parts) if parts else item

    changed = of(declaration)
    if isinstance(declaration, syntax.Pass):
        uses = tuple(names.get(n, n) for n in changed.uses) if changed.kind == "reverse" else changed.uses
        changed = replace(changed, cost=names.get(changed.cost, changed.cost), uses=uses)
    elif isinstance(declaration, Own):
        changed = replace(changed, name=names.get(changed.name, changed.name))
    renamed: syntax.Declaration = changed
    return renamed


def references(declaration: syntax.Declaration) -> Iterator[tuple[str, syntax.Span]]:
    """The functions that a declaration calls, each with its place: op variables and facts are none."""
    own = frozenset(dataflow_names((declaration,)))
    if isinstance(declaration, syntax.Pass):
        named = declaration.uses if declaration.kind == "reverse" else (declaration.cost,) * bool(declaration.cost)
        yield from ((name, declaration.span) for name in named)
    for root, variables in _roots(declaration):
        for x in expressions_in(root):
            if isinstance(x, syntax.Call) and x.function not in own and x.function not in variables:
                at = x.span
                yield x.function, at._replace(end_line=at.line, end_column=at.column + len(plain(x.function)))


def _roots(item: Any, variables: frozenset[str] = frozenset()) -> Iterator[tuple[syntax.Expression, frozenset[str]]]:
    """The expressions of a declaration, with the op variables that they are in the scope of."""
    if isinstance(item, syntax.Expression):
        yield item, variables
    elif isinstance(item, tuple):
        for part in item:
            yield from _roots(part, variables)
    elif item is not None:
        if isinstance(item, syntax.Rule):
            variables = frozenset(generic.name for generic in item.generics)
        for part in _PARTS.get(type(item), ()):
            yield from _roots(getattr(item, part), variables)
