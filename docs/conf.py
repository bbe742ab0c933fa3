"""The documentation as a site: `pip install ".[docs]" && sphinx-build -W docs build/site`, which needs no network."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

project = "rulegrad"
copyright = "rulegrad contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "rules_lexer", "reference"]
exclude_patterns = ["_extensions"]
default_role = "code"
nitpicky = False
html_theme = "furo"
html_title = "rulegrad"

# Headings of other pages can be linked to; `(a) (b)` are not dashes and quotation marks in code that is read aloud.
myst_heading_anchors = 4
smartquotes = False

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
