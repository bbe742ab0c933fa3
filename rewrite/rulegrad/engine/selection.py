"""Rules that settings leave out: RULES_OFF by name or at random, and the rules that may not be left out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

from rulegrad.config import config, random_share
from rulegrad.errors import ConfigError

#: Ends a name in RULES_OFF and RULES_LIMIT: the rule may be in a file that is loaded later.
WHERE_THERE = "?"


class RuleFacts(NamedTuple):
    """Information on a rule for settings and tools; its name is `SET.RULE`."""

    location: str  # file:line
    kind: str  # rule, text, or case (of a function; also of a fact or a state)
    essential: bool
    unsound: bool
    has_extern: bool  # an extern has a part in it

    @property
    def optional(self) -> bool:
        """Whether programs mean the same, and still compile, without it."""
        return self.kind != "case" and not self.essential


def switched_off(rules: Mapping[str, RuleFacts]) -> frozenset[str]:
    """The rules that RULES_OFF leaves out. Raises ConfigError for one that is unknown or essential."""
    found: set[str] = set()
    for entry in config.rules_off:
        if entry.startswith("random"):
            found.update(_share(rules, *random_share(entry)))
        elif not (entry.endswith(WHERE_THERE) and entry[:-1] not in rules):
            found.update(_named(rules, entry.removesuffix(WHERE_THERE)))
    return frozenset(found)


def _share(rules: Mapping[str, RuleFacts], seed: int, share: float) -> list[str]:
    optional = sorted(name for name, facts in rules.items() if facts.optional)
    return random.Random(seed).sample(optional, round(share * len(optional)))


def _named(rules: Mapping[str, RuleFacts], entry: str) -> list[str]:
    """`SET.RULE`, or `RULE` in whatever sets there is one that can be left out."""
    names = [entry] if entry in rules else [name for name in rules if name.partition(".")[2] == entry]
    names = [name for name in names if rules[name].optional] or names
    if not names:
        raise ConfigError(f"RULES_OFF (setting rules_off) names {entry!r}; {unknown_rule(rules, entry)}")
    for name in names:
        if not rules[name].optional:
            what = "a case of a function, a fact or a state" if rules[name].kind == "case" else "essential"
            message = f"RULES_OFF (setting rules_off) names {entry!r}, but {name} ({rules[name].location}) is {what}"
            raise ConfigError(f"{message}; replace it in a rule file of your own instead")
    return names


def check_limited(rules: Mapping[str, RuleFacts], name: str) -> None:
    """Raises ConfigError unless RULES_LIMIT names a rule that is not a case of a function."""
    if name.endswith(WHERE_THERE) and name[:-1] not in rules:
        return
    name = name.removesuffix(WHERE_THERE)
    if name not in rules:
        raise ConfigError(f"RULES_LIMIT (setting rules_limit) names {name!r}; {unknown_rule(rules, name)}")
    if rules[name].kind == "case":
        raise ConfigError(
            f"RULES_LIMIT (setting rules_limit) names {name}, a case of a function, a fact or a state: it has no limit"
        )


def unknown_rule(rules: Mapping[str, RuleFacts], name: str) -> str:
    """The message for a name that no rule has."""
    short = {known.partition(".")[2]: known for known in rules}
    import difflib  # late: only a message needs it

    close = difflib.get_close_matches(name, [*rules, *short], n=1, cutoff=0.6)
    hint = f"did you mean {short.get(close[0], close[0])}?" if close else "a rule is called SET.RULE"
    return f"no rule has this name; {hint}"
