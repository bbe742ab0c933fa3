"""Loaded rules: running a named pass of them, and adding files. `programs` has what is known of the files."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias, cast, overload

from rulegrad import _core
from rulegrad.config import config
from rulegrad.engine import sources, watching
from rulegrad.engine.changes import forget, on_change
from rulegrad.engine.programs import (
    TargetFacts,
    count_rules,
    evaluated,
    fresh_program,
    host_function,
    install_op_table,
    is_counted,
    loaded,
    pipeline,
    prepare,
    program,
    rules,
    statistics,
    summary,
    target,
    target_declaration,
    work,
)
from rulegrad.engine.selection import WHERE_THERE
from rulegrad.engine.watching import Change
from rulegrad.errors import RewriteError, RuleError, RulegradError

UOp = _core.UOp
#: A gradient rule that fired: its name and location, the node, the gradient that arrives, the gradients of its sources.
GradientFiring: TypeAlias = tuple[str, str, UOp, UOp, list[UOp]]


class Firing(NamedTuple):
    """One rule that fired: its name, its file and line, the node before and after."""

    rule: str
    location: str
    before: UOp
    after: UOp


_limited = 0  # firings so far of the rule that RULES_LIMIT names


@overload
def rewrite(uop: UOp, name: str, target: str | None = None, trace: Literal[False] = False) -> UOp: ...
@overload
def rewrite(uop: UOp, name: str, target: str | None = None, *, trace: Literal[True]) -> tuple[UOp, list[Firing]]: ...
def rewrite(uop: UOp, name: str, target: str | None = None, trace: bool = False) -> UOp | tuple[UOp, list[Firing]]:
    """Runs a named pass (or rule set, children first) on a graph; with `trace`, also every firing in order.

    Raises RewriteError when the pass is unknown, does not end, or a rule breaks what it must keep.

    >>> from rulegrad import UOp, rewrite
    >>> print(rewrite(UOp.const(2, "int32") + 3, "symbolic"))
    %0 = CONST[value=5]:int32()
    """
    result, info = run(uop, name, target, trace=trace)
    if not trace:
        return result
    return result, [Firing(*firing) for firing in info["firings"]]


def run(
    uop: UOp, name: str, target: str | None = None, trace: bool = False, follow: Sequence[UOp] = ()
) -> tuple[UOp, _core.Information]:
    """A pass, and what it did: firings, visited, fired, what was numbered, and what became of the nodes in `follow`."""
    asked = watching.asked(uop)
    start = time.perf_counter()
    failed: dict[str, Any] = {}
    try:
        result, info = _rewritten(uop, name, target, trace or bool(watching.watchers), [*follow, *asked], failed)
    except RulegradError as error:
        if watching.watchers and failed:
            changes, time_taken = watching.changes_of(cast("_core.Information", failed)), time.perf_counter() - start
            watching.tell(
                name, target, (uop, uop), changes, failed["visited"], (start, time_taken), None, error.problem, failed
            )
        raise
    seconds = time.perf_counter() - start
    work.add_pass(name, seconds, 1, info["visited"], info["fired"])
    for clock in watching.clocks:
        clock(name, start, seconds)
    if watching.watchers:
        followed = zip(asked, info["followed"][len(follow) :], strict=True)
        del info["followed"][len(follow) :]
        changes, results = watching.changes_of(info), dict(followed)
        watching.tell(
            name,
            target,
            (uop, result),
            changes,
            info["visited"],
            (start, seconds),
            results,
            "",
            cast(dict[str, Any], info),
        )
    return result, info


def _rewritten(
    uop: UOp, name: str, target: str | None, trace: bool, follow: list[UOp], failed: dict[str, Any]
) -> tuple[UOp, _core.Information]:
    """A pass; a rule that RULES_LIMIT names fires no more when it has fired so often in the whole program.

    failed: gets what was done before an error, where somebody looks on.
    """
    until = failed if watching.watchers else None
    global _limited
    found, check = program(target), config.check >= 1
    if config.rules_limit is None:
        return found.rewrite(name, uop, trace=trace, check=check, follow=follow, failed=until)
    rule, limit = config.rules_limit[0].removesuffix(WHERE_THERE), config.rules_limit[1]
    left = limit - _limited
    result, info = found.rewrite(
        name, uop, trace=True, check=check, follow=follow, limit=left, limited=rule, failed=until
    )
    _limited += info["fired_limited"]
    if config.debug >= 1 and info["fired_limited"] == left > 0:
        _, location, before, after = [firing for firing in info["firings"] if firing[0] == rule][-1]
        made = f"rule {rule} ({location}), firing {limit}, in pass {name}:\n{before}\n->\n{after}"
        print(f"rulegrad: {made}", file=sys.stderr)
    return result, info


def reverse(
    name: str,
    roots: Sequence[UOp],
    gradients: Sequence[UOp],
    targets: Sequence[UOp],
    firings: list[GradientFiring] | None = None,
) -> list[UOp | None]:
    """A reverse pass: gradients with respect to targets, from those of roots; None for one that no root depends on.

    firings: a list that gets the rules that fired.
    """
    start = time.perf_counter()
    firings = [] if firings is None and watching.watchers else firings
    root = roots[0] if len(roots) == 1 else UOp("SINK", tuple(roots))
    try:
        found = program(None).reverse(name, roots, gradients, targets, firings)
    except RulegradError as error:
        _tell_gradients(name, root, root, firings, start, error.problem)
        raise
    work.add_pass(name, time.perf_counter() - start)
    if watching.watchers:
        result = UOp("SINK", tuple(gradient for gradient in found if gradient is not None))
        _tell_gradients(name, root, result, firings, start)
    return found


def _tell_gradients(
    name: str,
    root: UOp,
    result: UOp,
    firings: list[GradientFiring] | None,
    start: float,
    error: str = "",
) -> None:
    changes = [Change(rule, location, n, (n, d), tuple(given)) for rule, location, n, d, given in firings or ()]
    seconds = time.perf_counter() - start
    watching.tell(name, None, (root, result), changes, len(changes), (start, seconds), None, error)


def is_looked_at() -> bool:
    """Whether single passes or firings are looked at: then graphs go through `run`, one by one, and not `run_all`."""
    return config.check != 0 or config.rules_limit is not None or bool(watching.watchers)


def run_all(uops: Sequence[UOp], names: Sequence[str], target: str | None = None) -> list[UOp]:
    """Each graph through all the passes; the graphs are done in parallel, so nothing is traced, checked or limited."""
    if watching.clocks and len(names) > 1:  # a pass has begun when the one before has ended on all
        for name in names:
            uops = run_all(uops, [name], target)
        return list(uops)
    start = time.perf_counter()
    results, did = program(target).rewrite_many(list(names), list(uops))
    for clock in watching.clocks:
        clock(names[0], start, time.perf_counter() - start)
    for name, (seconds, visited, fired) in zip(names, did, strict=True):
        work.add_pass(name, seconds, len(results), visited, fired)
    return results


def source(root: UOp, order: str, render: str, target: str) -> tuple[str, list[tuple[int, str, str]]]:
    """A kernel's body as text by an order and a render pass, and its parameters: (slot, name, type)."""
    start = time.perf_counter()
    found = program(target).source(order, render, root)
    seconds = time.perf_counter() - start
    work.add_pass(render, seconds)
    for clock in watching.clocks:
        clock(render, start, seconds)
    return found


class LoadedRules:
    """Rule files that are in force; as a context manager, until its end.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "mine.rules")
    >>> _ = path.write_text("off algebra.fold_binary")
    >>> with rg.load_rules(path):
    ...     print(rg.rewrite(UOp.const(2.0, "float32") * 3.0, "symbolic").op)
    MUL
    >>> rg.rewrite(UOp.const(2.0, "float32") * 3.0, "symbolic").op
    'CONST'
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)

    def unload(self) -> None:
        """Takes the files out again.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "mine.rules")
        >>> _ = path.write_text("off algebra.fold_binary")
        >>> mine = rg.load_rules(path)
        >>> rg.rewrite(UOp.const(2.0, "float32") * 3.0, "symbolic").op
        'MUL'
        >>> mine.unload()
        >>> rg.rewrite(UOp.const(2.0, "float32") * 3.0, "symbolic").op
        'CONST'
        """
        for path in self._paths:
            if path in sources.loaded_files:
                sources.loaded_files.remove(path)
            sources.allowed_files.discard(path)
        forget()

    def __enter__(self) -> LoadedRules:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unload()


def load_rules(*paths: str | Path, externs: bool = False) -> LoadedRules:
    """Adds rule files: a rule set, function or pass that exists gains their rules; a rule of the same name is replaced.

    `off`, `insert` and `remove` lines in them switch rules off and change pipelines. Returns a context manager that
    takes the files out again. Raises RuleError, with the place of each mistake, or where files disagree; then nothing
    has changed. RULEGRAD_RULES and the entry points of installed packages load files too; a file with ops or dtypes of
    its own can be loaded in no other way.

    externs: whether the files may call functions of Python modules (`extern`). A rule file is code in another way too:
    it can change what kernels compute, and the source that a compiler gets. Load what you would run.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "mine.rules")
    >>> _ = path.write_text("off algebra.fold_binary")
    >>> with rg.load_rules(path):
    ...     print(rg.rewrite(UOp.const(2.0, "float32") * 3.0, "symbolic").op)
    MUL
    """
    found = [Path(p).resolve() for p in paths]
    for path in found:
        if not path.is_file():
            raise RuleError(f"the rule file {path} does not exist")
    before, known = list(sources.loaded_files), set(sources.user_files())
    sources.loaded_files.extend(p for p in found if p not in sources.loaded_files)
    allowed = set(found) - sources.allowed_files if externs else set()
    sources.allowed_files.update(allowed)
    forget()
    try:
        with_ops = {sources.shown(p) for p in found if p not in known and sources.declares_ops(p)}
        if with_ops:
            from rulegrad.engine import compiling  # late: it takes 0.1 s, and few files declare ops

            compiling.refuse_ops(loaded().sources, with_ops)
        program(None)
        for name, (qualified_name, file) in summary()["externs"].items():
            host_function(name, qualified_name, file)
    except BaseException:
        sources.loaded_files[:] = before
        sources.allowed_files.difference_update(allowed)
        forget()
        raise
    return LoadedRules(found)


def load_target(path: Path) -> None:
    """Adds the target file of a backend outside the distribution. Raises RuleError, and then nothing has changed."""
    if path in sources.target_files or path in sources.targets_with_ops():
        return
    if sources.declares_ops(path):
        raise RuleError(
            f"{path} declares ops: they are in force before the first node is made\n"
            f"    hint: name the backend before the program starts: RULEGRAD_BACKENDS={path.parent}, or an entry point"
        )
    sources.target_files.append(path)
    forget()
    try:
        summary()
    except BaseException:
        sources.target_files.remove(path)
        forget()
        raise


def _count_anew() -> None:
    global _limited
    _limited = 0


on_change(_count_anew)


__all__ = [
    "Firing",
    "GradientFiring",
    "LoadedRules",
    "RewriteError",
    "TargetFacts",
    "count_rules",
    "evaluated",
    "forget",
    "fresh_program",
    "host_function",
    "install_op_table",
    "is_counted",
    "is_looked_at",
    "load_rules",
    "load_target",
    "loaded",
    "on_change",
    "pipeline",
    "prepare",
    "program",
    "reverse",
    "rewrite",
    "rules",
    "run",
    "run_all",
    "source",
    "statistics",
    "summary",
    "target",
    "target_declaration",
]
