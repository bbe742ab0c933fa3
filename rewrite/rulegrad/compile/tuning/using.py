"""The schedule that was found for a kernel, if one was."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from rulegrad import engine
from rulegrad.compile.tuning.entries import Entry, Key, tuned_file
from rulegrad.config import config
from rulegrad.engine.schedules import candidates, parse_schedule
from rulegrad.errors import RuleError
from rulegrad.ir import UOp
from rulegrad.runtime import devices
from rulegrad.runtime.backends import backend
from rulegrad.support.messages import say_once


class Place(NamedTuple):
    """Where kernels run, and by which rules they are made."""

    target: str
    device: str  # its name
    description: str  # as in a Key
    rules: str

    @classmethod
    def of(cls, target: str, device: str) -> Place:
        """The device as it is now, with the rules in force."""
        return cls(target, device, described_device(device), rules_key())

    def key(self, named: UOp) -> Key:
        """Under which the schedule of a kernel is kept whose loops have names."""
        kernel = hashlib.sha256(str(named).encode()).hexdigest()[:32]
        return Key(kernel, self.target, self.description, self.rules)


def rules_key() -> str:
    """Changes with the rules in force."""
    text = f"{engine.loaded().sources.text_key} {config.rules_off} {config.rules_order} {config.rules_strict}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def described_device(name: str) -> str:
    """The properties of a device that decide which schedule is fast: backend, description, threads that it may use."""
    owner = backend(devices.canonical(name).partition(":")[0])
    known = devices.report(owner)
    found = next(one for one in known.discovery.devices if known.name(one) == devices.canonical(name))
    threads = f", {config.threads} threads" if config.threads else ""
    return f"{owner.name}: {found.description}{threads}"


def found_schedule(named: UOp, place: Place) -> UOp | None:
    """The kernel with the schedule that was found for it; None where none was, or it is none for this kernel.

    Raises FileError for a broken file.
    """
    entry = tuned_file().get(place.key(named))
    if entry is None:
        return None
    scheduled, problem = _applied(entry, named, place.target)
    if problem:
        say_once(f"{tuned_file().path}: the schedule of {entry.name} is not used: {problem}; the rules choose")
    return scheduled


def _applied(entry: Entry, named: UOp, target: str) -> tuple[UOp | None, str]:
    """The kernel as the tactic has it, with the steps; or why not."""
    proposed = candidates(named, target)
    like = next((one.scheduled for one in proposed if one.tactic == entry.tactic), None)
    if like is None:
        return None, f"no tactic `{entry.tactic}` proposes one for this kernel"
    try:
        steps = parse_schedule(entry.steps) if entry.steps else []
    except RuleError as error:
        return None, str(error)
    return UOp("SCHEDULED", (like.src[0], *steps), **like.attrs), ""
