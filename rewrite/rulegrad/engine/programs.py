"""The rule files as they are now, and what is known of them: compiled programs of targets, and their declarations.

Compiled programs come with the package, or are cached on disk, so that rules are parsed only when they change.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rulegrad import _core
from rulegrad.config import config
from rulegrad.config import on_change as on_setting
from rulegrad.engine import kept, measured, shipped, sources
from rulegrad.engine.changes import forget, on_change
from rulegrad.engine.selection import RuleFacts, check_limited, switched_off
from rulegrad.engine.sources import Sources
from rulegrad.engine.statistics import Statistics
from rulegrad.errors import RuleError
from rulegrad.lang.terms import Evaluated
from rulegrad.support import forks

if TYPE_CHECKING:
    from rulegrad.lang import syntax


class TargetFacts(NamedTuple):
    """The part of a target that the drivers need; the rest is in its compiled rules."""

    render: str  # its render pass; empty for a device that interprets
    templates: dict[str, str]  # kernel, param, separator, value
    dtypes: frozenset[str]  # those that its programs may have values of
    limits: dict[str, int]
    types: dict[str, str]  # what dtypes are called
    computes: frozenset[str]  # those that it computes with; others it only moves


work: Final = Statistics()  # of passes and rules, since it was last asked for
_installing = forks.lock()
_counting = False


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
    """The data kept of these files if they were in force a short while ago, under the same settings; else new."""
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
    """The `eval` and `identity` lines of each op, by its name."""
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
        found.count(is_counted())
        state.programs[target_name] = found
    return state.programs[target_name]


def fresh_program(target_name: str | None) -> _core.Program:
    """The same as `program`, of one's own: its rules can be switched off and counted."""
    found = _core.Program(_cached("program", target_name, bool(config.rules_strict), config.rules_order))
    prepare(found)
    return found


def prepare(found: _core.Program) -> None:
    """Gives a program its host functions, and switches off what the settings say."""
    for name, (qualified_name, file) in summary()["externs"].items():
        if name in found.externs:
            found.set_extern(name, host_function(name, qualified_name, file))
    if config.rules_limit is not None:
        check_limited(rules(), config.rules_limit[0])
    if config.rules_off:
        for rule in switched_off(rules()) & {name for name, _ in found.rules}:
            found.disable(rule)


def host_function(name: str, qualified_name: str, file: str) -> Any:
    """The function of an extern: "module.function". Raises RuleError where there is none, or its file may call none."""
    if not config.externs and file not in map(sources.shown, sources.files_of_code()):
        raise RuleError(
            f"{file}: the extern `{name}` runs code of this machine, {qualified_name}, which was not allowed\n"
            "    hint: where you trust the file, use load_rules(..., externs=True), or the setting RULEGRAD_EXTERNS=1"
        )
    module, _, function = qualified_name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise RuleError(f"the extern `{name}` is not at {qualified_name!r}: {error}") from None


def is_counted() -> bool:
    """Whether it is counted what each rule does."""
    return _counting or config.debug >= 5


def count_rules(on: bool) -> None:
    """Counts what each rule does from now on, or no more, for `statistics`; at DEBUG=5 it is counted anyway."""
    global _counting
    _counting = on
    for found in _loaded.programs.values() if _loaded else ():
        found.count(on)


def statistics() -> dict[str, dict[str, dict[str, float]]]:
    """Seconds and counts of each pass (and, while they are counted, of each rule) since the last call."""
    return work.taken(_loaded.programs.values() if _loaded else ())


def _let_go() -> None:
    global _loaded
    if _loaded:
        for name, found in _loaded.programs.items():
            work.add_rules(found)
            if not found.externs:  # the host's functions may be others by then
                _loaded.earlier[name] = found
        _loaded.programs = {}
    _loaded = None


on_change(_let_go)


def _setting_changed(names: frozenset[str]) -> None:
    other_numbers = "cache" in names and (measured.files() or (_loaded and _loaded.sources.measured))
    if other_numbers or names & {"rules", "rules_off", "rules_order", "rules_strict", "rules_limit"}:
        forget()
    elif "debug" in names:
        count_rules(config.debug >= 5)


on_setting(_setting_changed)
