"""Tells editors about rule files, over the standard input and output, by the Language Server Protocol."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rulegrad.errors import RulegradError


def main(arguments: Sequence[str]) -> int:
    """Serves one editor until it says that it is done."""
    parser = argparse.ArgumentParser("python -m rulegrad language-server", description=__doc__)
    parser.add_argument(
        "--stdio", action="store_true", help="for editors that give this option; nothing else is served"
    )
    parser.parse_args(arguments)
    try:
        from rulegrad.workbench.editing.server import make_server  # late: it needs pygls, which is optional
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise RulegradError('the language server needs pygls: pip install "rulegrad[editors]"') from None
    make_server().start_io()
    return 0
