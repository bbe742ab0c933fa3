"""docs/tracing.md: its example prints what stands there, and it names every field of the JSON."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from rulegrad.workbench.tracing import VERSION, Trace

DOCUMENT = (Path(__file__).parents[2] / "docs" / "tracing.md").read_text(encoding="utf-8")


def without_times(text: str) -> str:
    """Times differ from run to run, and the places of rules when a file is edited."""
    return re.sub(r"\.rules:\d+", ".rules:LINE", re.sub(r"\d+\.\d+ ms", "TIME", text)).strip()


def test_the_example() -> None:
    (found,) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", DOCUMENT, re.DOTALL)
    code, expected = found
    output = StringIO()
    with redirect_stdout(output):
        exec(code, {})
    assert without_times(output.getvalue()) == without_times(expected)


def fields(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {name for inner in value.values() for name in fields(inner)}
    return {name for inner in value for name in fields(inner)} if isinstance(value, list) else set()


def test_every_field_is_documented(kernels: Trace) -> None:
    part = DOCUMENT.partition("## JSON")[2]
    named = set(re.findall(r"`(\w+)`", part))
    data = kernels.data()
    assert fields(data) <= named
    assert f"`version` is {VERSION}" in part
    assert {one["kind"] for one in data["passes"]} <= named
