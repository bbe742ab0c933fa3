"""Rule text in Markdown documents: the blocks that are fenced as `rules`."""

from __future__ import annotations

import re

from rulegrad.workbench.formatter import format_text

_BLOCK = re.compile(r"^```rules\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def format_document(text: str, path: str = "") -> str:
    """The document with its rule blocks in the one form.

    Raises RuleError, with places in the document, for a block that cannot be parsed.
    """

    def formatted(match: re.Match[str]) -> str:
        above = "\n" * text[: match.start(1)].count("\n")  # so that problems have the lines of the document
        return f"```rules\n{format_text(above + match.group(1), path)}```"

    return _BLOCK.sub(formatted, text)
