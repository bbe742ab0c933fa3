"""`python -m rulegrad TOOL`: the tools, each a module of rulegrad.workbench.tools with `main(arguments) -> int`."""

from __future__ import annotations

import difflib
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

import rulegrad.workbench.tools
from rulegrad.errors import RulegradError


def main(arguments: Sequence[str]) -> int:
    """Runs the tool that is named first; returns the exit status."""
    tools = {module.name.replace("_", "-") for module in pkgutil.iter_modules(rulegrad.workbench.tools.__path__)}
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(sorted(tools)))
        return 0
    name, *rest = arguments
    if name not in tools:
        close = difflib.get_close_matches(name, tools, n=1)
        hint = f"did you mean {close[0]}?" if close else "the tools are " + ", ".join(sorted(tools))
        print(f"rulegrad: there is no tool {name!r}; {hint}", file=sys.stderr)
        return 2
    try:
        status: int = _module(name).main(rest)
        if not sys.stdout.closed:  # the language server closes it
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has enough, as `| head`. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell reports the signal SIGPIPE
    except RulegradError as error:
        print(f"rulegrad: {error}", file=sys.stderr)
        return 1
    return status


def _module(tool: str) -> ModuleType:
    return importlib.import_module(f"rulegrad.workbench.tools.{tool.replace('-', '_')}")


def _usage(tools: Sequence[str]) -> str:
    lines = ["usage: python -m rulegrad TOOL [--help] ...", "", "tools:"]
    for tool in tools:
        summary = (_module(tool).__doc__ or "").strip().partition("\n")[0]
        lines.append(f"  {tool:<14} {summary}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
