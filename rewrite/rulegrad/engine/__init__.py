"""Loaded rules: which files there are, the compiled program of each target, and running a named pass.

Compiled programs come with the package, or are cached on disk, so that rules are parsed only when they change.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast, overload

from rulegrad import _core
from rulegrad.config import config
from rulegrad.config import on_change as on_setting
from rulegrad.engine import kept, measured, shipped, sources, watching
from rulegrad.engine.changes import forget, on_change
from rulegrad.engine.selection import WHERE_THERE, RuleFacts, check_limited, switched_off
from rulegrad.engine.sources import Sources
from rulegrad.engine.statistics import Statistics
from rulegrad.engine.watching import Change
from rulegrad.errors import RewriteError, RuleError, RulegradError
from rulegrad.lang.terms import Evaluated
from rulegrad.support import forks

if TYPE_CHECKING:
    from rulegrad.lang import syntax

UOp = _core.UOp
#: A gradient rule that fired: its name and place, the node, the gradient that arrives, the gradients of its sources.
GradientFiring: TypeAlias = tuple[str, str, UOp, UOp, list[UOp]]


class TargetFacts(NamedTuple):
    """The part of a target that the drivers need; the rest is in its compiled rules."""

    render: str  # its render pass; empty for a device that interprets
    templates: dict[str, str]  # kernel, param, separator, value
    dtypes: frozenset[str]  # those that its programs may have values of
    limits: dict[str, int]
    types: dict[str, str]  # what dtypes are called
    computes: frozenset[str]  # those that it computes with; others it only moves


class Firing(NamedTuple):
    """One rule that fired: its name, its file and line, the node before and after."""

    rule: str
    place: str
    before: UOp
    after: UOp


_statistics = Statistics()
_installing = forks.lock()
_counting = False
_limited = 0  # firings so far of the rule that RULES_LIMIT names


class Loaded:
    """Everything that is kept of one set of rule files. earlier: the programs of when they were in force before."""

    __slots__ = ("earlier", "facts", "programs", "sources", "summary", "targets")

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.programs: dict[str | None, _core.Program] = {}
        self.earlier: dict[str | None, _core.Program] = {}
        self.summary: dict[str, Any] | None = None
        self.targets: dict[str, TargetFacts] = {}
        self.facts: dict[str, RuleFacts] | None = None


_MOST_RECENT: Final = 4  # sets of files; a program of one of them is about 2 MB
_loaded: Loaded | None = None
_recent: dict[tuple[object, ...], Loaded] = {}  # the latest last


def loaded() -> Loaded:
    """The rule files as they are now; read once, and again after load_rules."""
    global _loaded
    if _loaded is None:
        _loaded = _as_before(sources.read_sources())
    return _loaded


def _as_before(files: Sources) -> Loaded:
    """What is known of files that were in force a short while ago, under the same settings."""
    key = (files.key, config.rules_off, config.rules_order, bool(config.rules_strict))
    found = _recent[key] = _recent.pop(key) if key in _recent else Loaded(files)
    if len(_recent) > _MOST_RECENT:
        del _recent[next(iter(_recent))]
    return found


def _cached(kind: str, *arguments: Any) -> bytes:
    """Bytes that came with the package or are in the disk cache; else the function `kind` of `compiling` makes them."""
    name, files = kept.name(kind, *arguments), loaded().sources
    found = shipped.get(name, files)
    if found is None:
        found = kept.cache.get(name, files.key)
    if found is None:
        with kept.cache.making("compiled rules", files.key):  # ranks start together
            found = kept.cache.get(name, files.key)
            if found is None:
                from rulegrad.engine import compiling  # late: compiled rules need no parser, and it takes 0.1 s

                found = getattr(compiling, kind)(files, *arguments)
                kept.cache.put(name, files.key, found)
    return found


def install_op_table() -> None:
    """Gives the engine its ops; done once, when the first node is made."""
    with _installing:
        if not _core.table_loaded():
            _core.Program(_cached("op_table"), op_table=True)


def summary() -> dict[str, Any]:
    """The declarations of the loaded files, by name.

    Pipelines (their steps), targets (their facts; one that may have features, without and with all of them), externs
    (their places), passes (their kinds), ops (their classes and flags).
    """
    state = loaded()
    if state.summary is None:
        state.summary = kept.from_bytes(_cached("summary"))
    return state.summary


def target(name: str) -> TargetFacts:
    """A target by name, with the features that stand after `+`. Raises RuleError when no rule file declares it."""
    known = loaded().targets
    if name not in known:
        facts = summary()["targets"].get(name)
        if facts is None:
            facts = kept.from_bytes(_cached("target", name))
        known[name] = TargetFacts(*facts)
    return known[name]


def target_declaration(name: str) -> syntax.Target:
    """The declaration of a target and its features, complete for compiling. Raises RuleError."""
    from rulegrad.engine import compiling  # late: it takes 0.1 s, and only tools ask

    return compiling.target_declaration(loaded().sources, name)


def pipeline(name: str) -> tuple[str, ...]:
    """The passes of a pipeline, in order."""
    pipelines = summary()["pipelines"]
    if name not in pipelines:
        raise RuleError(f"no pipeline is called `{name}`; there are: {', '.join(sorted(pipelines)) or 'none'}")
    steps: tuple[str, ...] = pipelines[name]
    return steps


def rules() -> dict[str, RuleFacts]:
    """Information on each rule, by its name `SET.RULE`."""
    state = loaded()
    if state.facts is None:
        state.facts = {name: RuleFacts(*facts) for name, facts in kept.from_bytes(_cached("rules")).items()}
    return state.facts


def evaluated() -> dict[str, Evaluated]:
    """What each op's `eval` and `identity` lines say, by its name."""
    return {name: Evaluated(*facts) for name, facts in kept.from_bytes(_cached("evaluated")).items()}


def program(target_name: str | None = None) -> _core.Program:
    """The compiled rules for a target (None: no target, nothing is lowered), as the settings choose them."""
    install_op_table()
    state = loaded()
    if target_name not in state.programs:
        found = state.earlier.pop(target_name, None)
        if found is None:
            found = fresh_program(target_name)
        else:
            prepare(found)
        found.count(_counting or config.debug >= 5)
        state.programs[target_name] = found
    return state.programs[target_name]


def fresh_program(target_name: str | None) -> _core.Program:
    """The same as `program`, of one's own: its rules can be switched off and counted."""
    found = _core.Program(_cached("program", target_name, bool(config.rules_strict), config.rules_order))
    prepare(found)
    return found


def prepare(found: _core.Program) -> None:
    """Gives a program its host functions, and switches off what the settings say."""
    for name, (location, file) in summary()["externs"].items():
        if name in found.externs:
            found.set_extern(name, host_function(name, location, file))
    if config.rules_limit is not None:
        check_limited(rules(), config.rules_limit[0])
    if config.rules_off:
        for rule in switched_off(rules()) & {name for name, _ in found.rules}:
            found.disable(rule)


def host_function(name: str, location: str, file: str) -> Any:
    """The function of an extern: "module.function". Raises RuleError where there is none, or its file may call none."""
    if not config.externs and file not in map(sources.shown, sources.files_of_code()):
        raise RuleError(
            f"{file}: the extern `{name}` runs code of this machine, {location}, which was not allowed\n"
            "    hint: where you trust the file, use load_rules(..., externs=True), or the setting RULEGRAD_EXTERNS=1"
        )
    module, _, function = location.rpartition(".")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise RuleError(f"the extern `{name}` is not at {location!r}: {error}") from None


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
    _statistics.add_pass(name, seconds, 1, info["visited"], info["fired"])
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
        _, place, before, after = [firing for firing in info["firings"] if firing[0] == rule][-1]
        made = f"rule {rule} ({place}), firing {limit}, in pass {name}:\n{before}\n->\n{after}"
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
    _statistics.add_pass(name, time.perf_counter() - start)
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
    changes = [Change(rule, place, n, (n, d), tuple(given)) for rule, place, n, d, given in firings or ()]
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
        _statistics.add_pass(name, seconds, len(results), visited, fired)
    return results


def source(root: UOp, order: str, render: str, target: str) -> tuple[str, list[tuple[int, str, str]]]:
    """A kernel's body as text by an order and a render pass, and its parameters: (slot, name, type)."""
    start = time.perf_counter()
    found = program(target).source(order, render, root)
    seconds = time.perf_counter() - start
    _statistics.add_pass(render, seconds)
    for clock in watching.clocks:
        clock(render, start, seconds)
    return found


def count_rules(on: bool) -> None:
    """Counts what each rule does from now on, or no more, for `statistics`; at DEBUG=5 it is counted anyway."""
    global _counting
    _counting = on
    for found in _loaded.programs.values() if _loaded else ():
        found.count(on)


def statistics() -> dict[str, dict[str, dict[str, float]]]:
    """Seconds and counts of each pass (and, while they are counted, of each rule) since the last call."""
    return _statistics.taken(_loaded.programs.values() if _loaded else ())


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
        for name, (location, file) in summary()["externs"].items():
            host_function(name, location, file)
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


def _let_go() -> None:
    global _loaded, _limited
    if _loaded:
        for name, found in _loaded.programs.items():
            _statistics.add_rules(found)
            if not found.externs:  # the host's functions may be others by then
                _loaded.earlier[name] = found
        _loaded.programs = {}
    _loaded, _limited = None, 0


on_change(_let_go)


def _setting_changed(names: frozenset[str]) -> None:
    other_numbers = "cache" in names and (measured.files() or (_loaded and _loaded.sources.measured))
    if other_numbers or names & {"rules", "rules_off", "rules_order", "rules_strict", "rules_limit"}:
        forget()
    elif "debug" in names:
        count_rules(config.debug >= 5)


on_setting(_setting_changed)


__all__ = [
    "Firing",
    "LoadedRules",
    "RewriteError",
    "forget",
    "load_rules",
    "on_change",
    "pipeline",
    "program",
    "rewrite",
    "run",
    "statistics",
    "target",
]
