"""Writes the compiled rules that come with the package: `ship_rules.py ENGINE FILE`, a step of the build.

ENGINE is the engine's module that was built just now. Nothing has to be installed but Python: rules are compiled
without NumPy.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from pathlib import Path


def main(engine: str, file: str) -> None:
    """Compiles the rules of this checkout with its package and that engine."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    specification = importlib.util.spec_from_file_location("rulegrad._core", engine)
    assert specification is not None and specification.loader is not None
    try:
        sys.modules["rulegrad._core"] = importlib.util.module_from_spec(specification)
    except ImportError as error:
        print(f"the engine is for another machine, so rules are compiled where they are first used: {error}")
        Path(file).write_bytes(b"")
        return
    specification.loader.exec_module(sys.modules["rulegrad._core"])
    with tempfile.TemporaryDirectory() as cache:
        os.environ["RULEGRAD_CACHE"] = cache  # nothing of this user's
        from rulegrad.engine import shipped

        shipped.write(Path(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
