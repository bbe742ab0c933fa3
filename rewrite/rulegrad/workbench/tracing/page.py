"""A trace as one HTML file, which a browser opens without a server: the viewer's own files with the data put in."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

_VIEWER = Path(__file__).parents[1] / "tools" / "viewer"
#: In this order: a file uses what the files before it declare.
SCRIPTS = ("model.js", "layout.js", "list.js", "canvas.js", "details.js", "search.js", "viewer.js")


def page(data: dict[str, Any]) -> str:
    """The page; `data` is what Trace.data gives."""
    parts = {
        "title": html.escape(data["title"] or "trace"),
        "style": _read("viewer.css"),
        "data": escaped(json.dumps(data, separators=(",", ":"))),
        "script": "\n".join(map(_read, SCRIPTS)),
    }
    first, *rest = _read("viewer.html").split("{{")
    # One pass over the frame: what is put in is not looked at again, whatever braces it has.
    return first + "".join(parts[name] + text for name, _, text in (part.partition("}}") for part in rest))


def escaped(text: str) -> str:
    """JSON that may stand in a script element: nothing in it can end the element, and it means the same."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (_VIEWER / name).read_text(encoding="utf-8")
