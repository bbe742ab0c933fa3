"""Lines for whoever runs the program, where it goes on and nothing is an error."""

from __future__ import annotations

import sys
from functools import cache


def say(text: str) -> None:
    """Writes a line to the standard error output, which says that it is from rulegrad."""
    print(f"rulegrad: {text}", file=sys.stderr)


#: The same, once for each text in a process.
say_once = cache(say)
