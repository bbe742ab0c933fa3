"""The limits and flags of targets: what rules, test lines and the pages of the documentation have of the one table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import rulegrad as rg
from rulegrad import UOp
from rulegrad.lang import syntax

ROOT = Path(__file__).parents[2]
RULES = """limit wheels: positive = 4
    unit   "wheels"
    tested 6
    doc    "for a test"
flag odd
    doc    "for a test"
function wheels(n):
    any: wheels(_) -> {limit("wheels")}
        test wheels(x:int32) -> {6}
pass wheeled rewrite children_first:
    all: x:int32 + 7 -> x * {wheels(x)}
        needs not flag(odd)
        unsound "a rule for a test"
        test x:int32 + 7 -> x * 6
        test on c x:int32 + 7 -> x * 4
target opencl:
    limit wheels 8
target webgpu:
    flag odd
"""


@pytest.fixture
def reference() -> Any:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "_extensions" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_for_accelerators_has_the_table(reference: Any) -> None:
    page = (ROOT / "docs" / "adding-an-accelerator.md").read_text(encoding="utf-8")
    assert page == reference.with_limits(page), "python docs/_extensions/reference.py writes it"


def test_the_page_of_the_site_has_them_too(reference: Any) -> None:
    page = reference.limits_page()
    for kind in (syntax.Limit, syntax.Flag):
        assert all(f"* - ``{declared.name}``" in page for declared in reference.declared(kind))


def test_a_limit_has_its_default_where_a_target_says_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(RULES)
    x = UOp("PARAM", (), "int32", slot=0, shape=()) + 7
    with rg.load_rules(path):
        found = {target: rg.rewrite(x, "wheeled", target) for target in (None, "c", "opencl", "webgpu")}
    assert {target: node.op for target, node in found.items()} == {
        None: "MUL",
        "c": "MUL",
        "opencl": "MUL",
        "webgpu": "ADD",
    }
    assert [found[target].src[1].attrs["value"] for target in (None, "c", "opencl")] == [4, 4, 8]


def test_test_lines_have_what_is_tested(tmp_path: Path) -> None:
    path = tmp_path / "mine.rules"
    path.write_text(RULES)
    from rulegrad.workbench.tools.test import tried

    assert tried((), [path]).failing == ()
