"""Imports between rule files: `use` lines, names that are taken without one, cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rulegrad.lang import syntax
from rulegrad.lang.builtins import BUILTINS
from rulegrad.lang.checker.world import World, first_declared
from rulegrad.lang.diagnostics import did_you_mean
from rulegrad.lang.modules import dataflow_names, module_name, own_names, plain, references, used_module
from rulegrad.lang.walk import dataflow_rules


def check_modules(world: World, files: Sequence[syntax.File], sound: frozenset[str] = frozenset()) -> None:
    """`use` lines name files and what these export, all that is taken is used, and no file needs itself.

    sound: the paths of files that take from each other only, and rightly.
    """
    modules = {module_name(file.path): file for file in files}
    owners = {plain(name): file for file in reversed(files) for name in own_names(file)}
    needed = _needed(world, sound)
    used_of: dict[str, set[str]] = defaultdict(set)  # of each module: names that others use
    for file in files:
        own = {plain(name) for name in own_names(file)}
        taken: dict[str, syntax.Span] = {}
        for use in file.uses:
            used_of[used_module(file, use)].update(name for name, _ in use.names)
        if file.path in sound:
            continue
        for use in file.uses:
            _check_use(world, file, use, modules)
            for name, span in use.names:
                _check_name(world, file, name, span, own, taken)
                if name not in needed[file.path]:
                    world.report("unused-use", f"`{name}` is not needed here", span, "leave it out")
        for name, span in needed[file.path].items():
            if name in owners and name not in own and name not in taken and name not in BUILTINS:
                owner = owners[name]
                world.report("missing-use", f"`{name}` is a name of another file", span, _missing(world, owner, name))
        _check_extensions(world, file, files, taken)
    _check_cycles(world, files, modules)
    for file in files:
        if file.path.startswith("rules/"):
            _check_exports(world, file, used_of[module_name(file.path)])


def _needed(world: World, sound: frozenset[str]) -> dict[str, dict[str, syntax.Span]]:
    """Of each file: the names of functions that it calls or extends, each with its first place.

    Files in `sound` may be left out. What extends something stands in the declaration that it extends.
    """
    found: dict[str, dict[str, syntax.Span]] = defaultdict(dict)
    for declaration in world.declarations:
        if world.is_sound(declaration) or _files_of(declaration) <= sound:
            continue
        for name, span in references(declaration):
            found[span.file].setdefault(plain(name), span)
        if isinstance(declaration, syntax.Function):
            for rule in declaration.rules:
                if rule.span.file != declaration.span.file:
                    found[rule.span.file].setdefault(plain(declaration.name), rule.span)
    return found


def _files_of(declaration: syntax.Declaration) -> set[str]:
    """The paths of the files that a declaration, and the rules that extend it, stand in."""
    rules = (*getattr(declaration, "rules", ()), *dataflow_rules(declaration))
    return {declaration.span.file, *(rule.span.file for rule in rules)}


def _check_use(world: World, file: syntax.File, use: syntax.Use, modules: Mapping[str, syntax.File]) -> None:
    """The file is there, and exports what is taken from it."""
    path = used_module(file, use)
    if path not in modules:
        hint = did_you_mean(path, [name for name in modules if not name.startswith("/")])
        if use.path.startswith("."):
            hint = "a path that begins with a dot is relative to this file, and the other must be loaded too"
        world.report("unknown-file", f"there is no rule file `{use.path}`", use.path_span, hint)
        return
    source = modules[path]
    for name, span in use.names:
        if name in source.exports:
            continue
        if name in {plain(own) for own in own_names(source)}:
            hint = "write `export` before its declaration there, or a function of your own here"
            world.report("private-name", f"`{name}` is private to {use.path}", span, hint)
        else:
            world.report("private-name", f"{use.path} declares no `{name}`", span, _elsewhere(name, source, modules))


def _elsewhere(name: str, source: syntax.File, modules: Mapping[str, syntax.File]) -> str:
    """What to write for a name that its `use` asks of the wrong file."""
    if any(getattr(d, "name", "") == name for d in source.declarations):
        return "leave it out: its name needs no `use`"
    exporting = sorted(path for path, file in modules.items() if name in file.exports)
    return f"{exporting[0]} exports it" if exporting else did_you_mean(name, source.exports)


def _check_name(
    world: World, file: syntax.File, name: str, span: syntax.Span, own: set[str], taken: dict[str, syntax.Span]
) -> None:
    """A name that is taken is declared here only to extend it, and taken once."""
    if name in taken:
        world.report("duplicate-declaration", f"`{name}` is taken already", span, notes=first_declared(taken[name]))
    elif name in own or name in dataflow_names(file.declarations):
        message = f"`{name}` is taken from another file and declared in this one"
        world.report("duplicate-declaration", message, span, "a function can be extended so; take another name here")
    taken.setdefault(name, span)


def _check_extensions(
    world: World, file: syntax.File, files: Sequence[syntax.File], taken: Mapping[str, syntax.Span]
) -> None:
    """A function that nothing in its file calls, and that another file exports, was meant to add rules to that one."""
    for declaration in file.declarations:
        if not isinstance(declaration, syntax.Function) or (name := plain(declaration.name)) in taken:
            continue
        owner = next((f for f in files if f is not file and _exports_like(f, declaration)), None)
        if owner is None or name in file.exports:
            continue
        others = (d for d in file.declarations if d is not declaration)
        if not any(plain(called) == name for d in others for called, _ in references(d)):
            message = f"`{name}` of {module_name(owner.path)} is another function: nothing calls this one"
            hint = f"add `use {module_name(owner.path)}: {name}` to add rules to that one"
            world.report("unused-function", message, declaration.span, hint)


def _exports_like(file: syntax.File, function: syntax.Function) -> bool:
    """Whether a file exports a function of this name and of as many parameters."""
    name = plain(function.name)
    found = own_names(file).get(name) if name in file.exports else None
    return isinstance(found, syntax.Function) and len(found.parameters) == len(function.parameters)


def _missing(world: World, owner: syntax.File, name: str) -> str:
    module = module_name(owner.path)
    if name in owner.exports:
        return f"`{name}` is exported by {module}: add `use {module}: {name}`"
    return f"`{name}` of {module} is private to that file: write a function of your own"


def _check_cycles(world: World, files: Sequence[syntax.File], modules: Mapping[str, syntax.File]) -> None:
    """Reports each chain of files that leads back to its start once, at the first of its `use` lines."""
    after = {module_name(file.path): {used_module(file, use): use for use in reversed(file.uses)} for file in files}
    done: set[str] = set()
    for start in after:
        chain: list[str] = []
        waiting: list[tuple[str, int]] = [(start, 0)]
        while waiting:
            name, depth = waiting.pop()
            del chain[depth:]
            if name in chain:
                cycle = [*chain[chain.index(name) :], name]
                message = f"rule files use each other: {' -> '.join(cycle)}"
                hint = "move what both need to a file of its own"
                world.report("cyclic-use", message, after[cycle[0]][cycle[1]].path_span, hint)
            elif name not in done and name in modules:
                done.add(name)
                chain.append(name)
                waiting.extend((other, len(chain)) for other in after[name])
    return


def _check_exports(world: World, file: syntax.File, used: set[str]) -> None:
    """Ours export what others use, and what a pass is made of, which users may extend."""
    own = {plain(name): declaration for name, declaration in own_names(file).items()}
    passes = [d for d in file.declarations if isinstance(d, syntax.Pass)]
    roots = {plain(name) for d in passes for name in (d.cost, *(d.uses if d.kind == "reverse" else ()))}
    for name in sorted(file.exports - used - roots):
        if name in own:
            world.report("unused-export", f"no other file uses `{name}`", own[name].span, "leave `export` out")
