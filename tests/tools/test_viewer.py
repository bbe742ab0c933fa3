"""The page that a trace is saved as, in a browser."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, find_browser

import rulegrad as rg
from rulegrad import Tensor, UOp, engine
from rulegrad.compile import compile_graph
from rulegrad.errors import RewriteError
from rulegrad.workbench.tracing import Selection, Trace
from rulegrad.workbench.tracing.page import page

SMALL = "viewer.view.panels.map(panel => [...panel.graph.nodes()].length)"
MARKS = "viewer.view.panels.map(panel => [...panel.marks.values()].sort())"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None and os.environ.get("BROWSER_REQUIRED"):
        pytest.fail("BROWSER_REQUIRED is set and there is no browser: install Chromium, or set BROWSER_BINARY")
    if program is None:
        pytest.skip("no Chromium and no Chrome is found; BROWSER_BINARY may name one")
    with Browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A training step: gradients, schedule, two kernels and more."""
    with rg.trace() as trace:
        x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="numpy", requires_grad=True)
        hidden = (x @ x).relu().contiguous()
        loss = hidden.softmax(axis=1).sum()
        loss.backward()
        assert x.grad is not None
        compile_graph([loss.uop, x.grad.uop], "opencl")
    return trace


def address(path: Path) -> str:
    return path.resolve().as_uri()


@pytest.fixture(scope="module")
def saved(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.html"
    trace.save(path, "a <b>title</b>")
    return path


@pytest.fixture
def opened(browser: Browser, saved: Path) -> Iterator[Browser]:
    """The page, newly opened; it must not complain in the test."""
    browser.problems.clear()
    browser.open(address(saved))
    browser.wait("!!window.viewer")
    yield browser
    assert browser.problems == []


def text(browser: Browser, selector: str) -> str:
    found: str = browser.run(f"document.querySelector({json.dumps(selector)}).innerText")
    return found


def place(browser: Browser, selector: str) -> tuple[float, float]:
    """The middle of an element on the page."""
    box = browser.run(f"JSON.stringify(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
    found = json.loads(box)
    return found["x"] + found["width"] / 2, found["y"] + found["height"] / 2


def click(browser: Browser, selector: str) -> None:
    browser.click(*place(browser, selector))


def node_on_page(browser: Browser, node: int) -> tuple[float, float]:
    """Where a node is drawn."""
    x, y = browser.run(
        f"(() => {{ const v = viewer.view, p = v.panels.find(p => p.layout.itemOf.has({node})), q = v.placeOf(p, {node}),"
        " s = v.toScreen(q.x, q.y), box = v.canvas.getBoundingClientRect(); return [s.x + box.x, s.y + box.y]; })()"
    )
    return x, y


def choose(browser: Browser, rule: str) -> dict[str, Any]:
    """Chooses the first firing of a rule; the firing."""
    find = f"viewer.model.firings.find(firing => viewer.model.rule(firing).name === {json.dumps(rule)})"
    browser.run(f"viewer.choose({find})")
    found: dict[str, Any] = json.loads(
        browser.run(f"JSON.stringify({{...{find}, pass: undefined, inside: undefined}})")
    )
    return found


# ---- what is shown ----


def test_passes_and_firings(opened: Browser, trace: Trace) -> None:
    assert text(opened, "#title") == "a <b>title</b>" and opened.run("document.title") == "a <b>title</b>"
    firings = sum(len(one.firings) for one in trace.passes)
    assert f"{len(trace.passes)} passes · {firings} firings · {len(trace.kernels)} kernels" in text(opened, "#summary")
    rows = opened.run("viewer.passes.rows.filter(row => row.pass).map(row => [row.pass.name, row.pass.fired])")
    assert rows == [[one.name, len(one.firings)] for one in trace.passes]
    shown = text(opened, "#passes")
    assert "gradients" in shown and "schedule" in shown and re.search(r"\d (µs|ms|s)\b", shown)
    click(opened, "#fired-only")
    rows = opened.run("viewer.passes.rows.filter(row => row.pass).map(row => row.pass.fired)")
    assert rows == [len(one.firings) for one in trace.passes if one.firings]


def test_a_firing_shows_what_changed(opened: Browser, trace: Trace) -> None:
    firing = choose(opened, "indexing.reduce")
    before, after = opened.run(MARKS)
    shown = opened.run("viewer.view.panels.map(panel => panel.layout.order.map(item => item.node))")
    drawn = [sum(node in shown[side] for node in firing[kind]) for side, kind in enumerate(("removed", "added"))]
    assert before.count("removed") == len(firing["removed"]) and after.count("added") == len(firing["added"])
    assert min(drawn) > 0
    details = text(opened, "#details")
    assert f"#{firing['step']} indexing.reduce" in details and re.search(r"rules/kernel/movement\.rules:\d+", details)
    assert (
        "reduce[f: Reduction]" in details
        and "test_viewer.py:" in details
        and "hidden = (x @ x).relu().contiguous()" in details
    )
    for node in firing["added"]:
        assert f"+ %{node} = " in details
    # The colours are on the canvas: the fill of new nodes, where one is.
    color = opened.run("getComputedStyle(document.documentElement).getPropertyValue('--added-fill')").strip()
    pixel = opened.run(
        "(() => { const v = viewer.view, panel = v.panels[1], node = [...panel.marks.keys()].find(n => panel.layout.itemOf.has(n));"
        " const item = panel.layout.itemOf.get(node), s = v.toScreen(panel.x + item.x + item.width / 2 - 3, panel.y + item.y + item.height / 2 - 3);"
        " v.paint(); return [...v.context.getImageData(s.x, s.y, 1, 1).data].slice(0, 3); })()"
    )
    assert "#" + "".join(f"{part:02x}" for part in pixel) == color


def test_clicking_a_firing(opened: Browser) -> None:
    click(opened, "#firings .row:nth-child(3)")
    assert opened.run("viewer.chosen.firing.number") == 2
    assert opened.run("location.hash") == "#step-3"
    assert "3 / " in text(opened, "#position")


def test_the_whole_graph_before_and_after_a_firing(opened: Browser) -> None:
    firing = choose(opened, "indexing.reduce")
    part = opened.run(SMALL)
    click(opened, "#scope [data-value=whole]")
    whole = opened.run(SMALL)
    assert whole[0] > part[0] and whole[1] > part[1]
    # It is the graph of that step: it has what is there before, and what the rule made, but not yet what comes later.
    assert opened.run(f"viewer.view.panels[0].graph.has({firing['before'][0]})")
    assert not opened.run(f"viewer.view.panels[1].graph.has({firing['before'][0]})")
    assert opened.run(f"viewer.view.panels[1].graph.has({firing['after'][0]})")
    assert "removed" in opened.run(MARKS)[0] and "added" in opened.run(MARKS)[1]


def test_every_pass_can_be_replayed(opened: Browser, trace: Trace) -> None:
    """The page's graph after all firings of a pass is the graph that the pass left."""
    passes = "viewer.model.data.passes.filter(pass => pass.kind !== 'reverse')"
    # of a choose pass the page shows the graphs before and after it
    replayed = f"{passes}.filter(pass => !pass.kind.startsWith('choose'))"
    assert opened.run(f"{replayed}.filter(pass => !viewer.model.replays(pass)).map(pass => pass.name)") == []
    ends = opened.run(f"{passes}.map(pass => viewer.model.graphAfter(pass, pass.fired).roots[0])")
    assert ends == [one.after for one in trace.passes if one.part.pipeline != "gradients"]


def test_a_pass_shows_both_graphs_and_its_rules(opened: Browser) -> None:
    opened.run("viewer.choosePass(viewer.model.data.passes.find(pass => pass.name === 'indexing'))")
    assert "indexing.elementwise" in text(opened, "#details") and "parents first" in text(opened, "#details")
    assert len(opened.run(SMALL)) == 2
    opened.press("1")
    assert opened.run("viewer.view.panels.map(panel => panel.side)") == ["before"]
    opened.press("2")
    assert opened.run("viewer.view.panels.map(panel => panel.side)") == ["after"]


def test_the_source_of_a_kernel(opened: Browser, trace: Trace) -> None:
    opened.run("viewer.chooseKernel(0)")
    source = text(opened, "#source")
    assert source.split() == trace.kernels[0].kernel.source.split()
    assert trace.kernels[0].kernel.name in text(opened, "#details")
    assert opened.run("document.querySelector('#canvas').hidden")
    opened.run("viewer.choose(viewer.model.firings[0])")
    assert not opened.run("document.querySelector('#canvas').hidden")


def test_nodes(opened: Browser) -> None:
    firing = choose(opened, "indexing.reduce")
    node = firing["after"][0]
    opened.click(*node_on_page(opened, node))
    assert opened.run("viewer.view.selected") == node
    details = text(opened, ".node")
    assert (
        "REDUCE" in details
        and "op=ADD" in details
        and "float32" in details
        and f"#{firing['step']} indexing" in details
    )
    opened.press("Escape")
    assert opened.run("viewer.view.selected") is None and not opened.run("!!document.querySelector('.node')")


# ---- search ----


def test_search(opened: Browser) -> None:
    opened.press("/")
    assert opened.run("document.activeElement.id") == "search"
    for letter in "reduce[f":
        opened.press(letter)
    found = opened.run("viewer.results.rows.map(row => viewer.model.rule(row.firing).name)")
    assert "indexing.reduce" in found
    assert opened.run("viewer.search.results('softmax(').every(row => row.firing)")
    assert opened.run("viewer.search.results('get_global_id').some(row => row.line !== undefined)")
    opened.press("Enter")
    assert opened.run("viewer.model.rule(viewer.chosen.firing).text").count("reduce[f") == 1
    assert opened.run("document.querySelector('#results').hidden")


def test_search_in_the_graph(opened: Browser) -> None:
    opened.run("viewer.choosePass(viewer.model.data.passes.find(pass => pass.name === 'indexing'))")
    opened.run("viewer.lookFor('reduce')")
    found = opened.run("[...viewer.view.matches].map(node => viewer.model.label(node).op)")
    assert found and set(found) <= {"REDUCE", "RANGE"}  # the kind of a loop is an attribute
    opened.press("n")
    first = opened.run("viewer.view.selected")
    opened.press("n")
    second = opened.run("viewer.view.selected")
    assert first != second and {first, second} <= set(opened.run("viewer.found"))
    opened.press("N")
    assert opened.run("viewer.view.selected") == first


def test_nothing_is_found(opened: Browser) -> None:
    opened.run("viewer.lookFor('no such thing')")
    assert opened.run("viewer.results.rows.length") == 0 and not opened.run("document.querySelector('#results').hidden")


# ---- moving about ----


def test_keys(opened: Browser) -> None:
    steps = []
    for key in ("j", "j", "ArrowDown", "k", "ArrowUp"):
        opened.press(key)
        steps.append(opened.run("viewer.chosen.firing.step"))
    assert steps == [2, 3, 4, 3, 2]
    opened.press("]")
    first = opened.run("viewer.chosen.pass.name")
    opened.press("[")
    assert first != "gradients" and opened.run("viewer.chosen.pass.name") == "gradients"
    opened.press("g")
    assert opened.run("viewer.scope") == "whole"
    opened.press("?")
    assert "next firing" in text(opened, "#keys")
    opened.run("document.querySelector('#keys').close()")


def test_pan_and_zoom(opened: Browser) -> None:
    opened.press("f")
    x, y = place(opened, "#canvas")
    before = opened.run("viewer.view.camera")
    opened.wheel(x, y, -300)
    closer = opened.run("viewer.view.camera")
    assert closer["scale"] > before["scale"]
    opened.drag((x, y), (x + 50, y + 30))
    moved = opened.run("viewer.view.camera")
    assert moved["x"] == pytest.approx(closer["x"] - 50 / closer["scale"], abs=1)
    assert moved["y"] == pytest.approx(closer["y"] - 30 / closer["scale"], abs=1)


def test_collapse(opened: Browser) -> None:
    opened.run("viewer.choosePass(viewer.model.data.passes.find(pass => pass.name === 'indexing'))")
    opened.press("2")
    drawn = "viewer.view.panels[0].layout.order.length"
    all_nodes = opened.run(drawn)
    node = opened.run("[...viewer.view.panels[0].graph.nodes()].find(node => viewer.model.label(node).op === 'STORE')")
    opened.run(f"viewer.view.center({node})")
    opened.click(*node_on_page(opened, node), count=2)
    collapsed = opened.run(drawn)
    assert 0 < collapsed < all_nodes and not opened.run("document.querySelector('#expand').hidden")
    opened.press("c")  # the node is chosen: it is expanded
    assert opened.run(drawn) == all_nodes
    opened.press("c")
    assert opened.run(drawn) == collapsed
    opened.press("x")
    assert opened.run(drawn) == all_nodes and opened.run("document.querySelector('#expand').hidden")


def test_an_address_with_a_step(browser: Browser, saved: Path) -> None:
    browser.open(address(saved) + "#step-5")
    browser.wait("!!window.viewer")
    assert browser.run("viewer.chosen.firing.step") == 5


def test_light_and_dark(opened: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    opened.theme("light")
    light = opened.run(background)
    opened.theme("dark")
    dark = opened.run(background)
    assert light != dark
    opened.press("t")
    assert opened.run(background) == light
    opened.theme("light")
    opened.press("t")
    assert opened.run(background) == dark


def test_layouts(opened: Browser) -> None:
    """Sources are above what uses them, and no two nodes of a layer overlap."""
    opened.run("viewer.choosePass(viewer.model.data.passes.find(pass => pass.name === 'decompose'))")
    wrong = opened.run(
        "viewer.view.panels.flatMap(({layout}) => [...layout.edges.filter(e => e.from.y + e.from.height / 2 >= e.to.y - e.to.height / 2),"
        " ...layout.layers.flatMap(layer => layer.filter((item, k) => k && item.x - item.width / 2 < layer[k - 1].x + layer[k - 1].width / 2))]).length"
    )
    assert wrong == 0


# ---- large and odd traces ----


def large_graph(leaves: int) -> UOp:
    """A tree over (loop + 0) * 1; two rules fire for each leaf."""
    size = UOp.const(4, "index")
    nodes = [(UOp("RANGE", (size,), id=k, kind="output") + 0) * 1 for k in range(leaves)]
    while len(nodes) > 1:
        pairs = [UOp("MAX", pair) for pair in zip(nodes[::2], nodes[1::2], strict=False)]
        nodes = pairs + nodes[2 * len(pairs) :]
    return nodes[0]


def test_a_graph_of_5000_nodes(browser: Browser, tmp_path: Path) -> None:
    graph = large_graph(1250)
    assert graph.count_nodes() > 5000
    with rg.trace() as trace:
        rg.rewrite(graph, "symbolic")
    trace.save(tmp_path / "large.html")
    browser.problems.clear()
    browser.open(address(tmp_path / "large.html"))
    browser.wait("!!window.viewer")
    assert browser.run("viewer.model.firings.length") == 2500
    assert browser.run("document.querySelectorAll('#firings .row').length") < 100  # only what is visible
    browser.run("viewer.choose(viewer.model.firings[1200])")
    browser.press("g")
    assert sum(browser.run(SMALL)) > 7000
    x, y = node_on_page(browser, browser.run("viewer.chosen.firing.before[0]"))
    left, top, right, bottom = browser.run(
        "(({left, top, right, bottom}) => [left, top, right, bottom])(viewer.view.canvas.getBoundingClientRect())"
    )
    assert left < x < right and top < y < bottom  # what changed is in the window
    browser.press("j")
    assert browser.run("viewer.chosen.firing.step") == 1202
    visible = browser.run("(viewer.view.paint(), viewer.view.drawn)")
    browser.press("f")
    assert 0 < visible < browser.run("(viewer.view.paint(), viewer.view.drawn)")
    browser.run("viewer.lookFor('range')")
    assert len(browser.run("viewer.found")) >= 1250
    browser.run("viewer.choosePass(viewer.model.data.passes[0])")
    assert browser.run(SMALL)[0] > 5000
    assert browser.problems == []


def test_a_deep_graph(browser: Browser, tmp_path: Path) -> None:
    graph = UOp("RANGE", (UOp.const(4, "index"),), id=0, kind="output")
    for _ in range(4000):
        graph = UOp("MAX", (UOp("NEG", (graph,)), UOp.const(1, "index")))
    with rg.trace() as trace:
        rg.rewrite(graph + 0, "symbolic")
    trace.save(tmp_path / "deep.html")
    browser.problems.clear()
    browser.open(address(tmp_path / "deep.html"))
    browser.wait("!!window.viewer")
    browser.press("g")
    assert browser.problems == [] and sum(browser.run(SMALL)) > 8000


HOSTILE = '</script><script>window.broken = 1</script><!-- <img src=x onerror="window.broken = 2"> {{data}} \u2028 & "'


def test_text_in_a_trace_is_no_markup(browser: Browser, tmp_path: Path) -> None:
    graph = UOp("RANGE", (UOp.const(4, "index"),), id=0, kind=HOSTILE)
    with rg.trace() as trace:
        rg.rewrite(graph + 0, "symbolic")
    trace.save(tmp_path / "hostile.html", HOSTILE)
    browser.problems.clear()
    browser.open(address(tmp_path / "hostile.html"))
    browser.wait("!!window.viewer")
    assert browser.run("window.broken") is None
    assert browser.run("document.title") == browser.run("document.querySelector('#title').textContent")
    assert browser.run("viewer.model.data.title") == HOSTILE
    kinds = browser.run("viewer.model.data.labels.filter(label => label.op === 'RANGE').map(label => label.attributes)")
    assert len(kinds) == 1 and "window.broken = 1" in kinds[0]
    assert browser.problems == []


def test_a_trace_of_nothing(browser: Browser, tmp_path: Path) -> None:
    with rg.trace() as trace:
        pass
    trace.save(tmp_path / "nothing.html")
    browser.problems.clear()
    browser.open(address(tmp_path / "nothing.html"))
    browser.wait("!!window.viewer")
    for key in "jk][gf123cxn":
        browser.press(key)
    assert browser.problems == [] and "0 passes" in text(browser, "#summary")


def test_a_selection(browser: Browser, trace: Trace, tmp_path: Path) -> None:
    """Without all firings the graph between them is not known: the pass's graphs stand for it."""
    trace.save(tmp_path / "part.html", selection=Selection(rule="indexing.reduce"))
    browser.problems.clear()
    browser.open(address(tmp_path / "part.html"))
    browser.wait("!!window.viewer")
    assert {"indexing"} == set(browser.run("viewer.model.data.passes.map(pass => pass.name)"))
    browser.press("g")
    assert browser.run("viewer.view.panels[1].graph.roots[0] === viewer.chosen.pass.after")
    assert browser.problems == []


# ---- the file, without a browser ----


def test_the_file_is_alone(saved: Path) -> None:
    """It loads nothing: no address, and a policy that forbids to load."""
    content = saved.read_text(encoding="utf-8")
    assert "default-src 'none'" in content
    frame = content.replace(re.search(r'id="data">(.*?)</script>', content, re.DOTALL)[1], "")  # type: ignore[index]
    assert not re.search(r"https?://|<link|<img|\bsrc=|@import|url\(|innerHTML|\beval\b", frame)
    assert content.count("<script") == content.count("</script>") == 2
    assert "{{" not in re.sub(r"[`(]\{\{|\$\{", "", frame.split("<script>")[0])


def test_data_is_escaped() -> None:
    data = {"title": HOSTILE, "text": HOSTILE}
    content = page(data)
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', content, re.DOTALL)
    assert inside is not None and json.loads(inside[1]) == data
    assert content.count("<script") == 2 and HOSTILE not in content


# ---- what is inside a firing, and passes that fail ----


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of a template, a search, and a pass whose rules lead back."""

    def var(number: int) -> UOp:
        return UOp("BUFFER", (), "int32", id=number, shape=())

    path = tmp_path_factory.mktemp("inside") / "trace.html"
    rules = Path(__file__).parents[1] / "tracing" / "inside.rules"
    with engine.load_rules(rules), rg.trace() as trace:
        rg.rewrite(UOp("ABS", (-var(0),)) + 0, "inside_pull")
        rg.rewrite(-var(9) + var(9), "inside_choose")
        with pytest.raises(RewriteError):
            rg.rewrite(var(1) + 0 - var(2), "inside_pull")
        trace.save(path)
    return path


@pytest.fixture
def opened_inside(browser: Browser, inside: Path) -> Iterator[Browser]:
    browser.problems.clear()
    browser.open(address(inside))
    browser.wait("!!window.viewer")
    yield browser
    assert browser.problems == []


def test_parts_of_templates_are_shown(opened_inside: Browser) -> None:
    choose(opened_inside, "inside_pull.pull")
    assert "rewritten(…, inside_signs)" in text(opened_inside, "#details .inside")
    click(opened_inside, "#details .inside a.count")
    details = text(opened_inside, "#details")
    assert "inside_signs.twice" in details and "inside rewritten(…) of #1" in details
    assert opened_inside.run("viewer.view.panels.map(panel => panel.graph.size)") == [3, 1]
    click(opened_inside, "#scope [data-value=whole]")
    assert opened_inside.run("location.hash") == "#step-1"
    opened_inside.press("j")
    assert opened_inside.run("viewer.model.rule(viewer.chosen.firing).name") == "inside_pull.zero"


def test_candidates_are_shown(opened_inside: Browser) -> None:
    choose(opened_inside, "inside_choose.other")
    shown = text(opened_inside, "#details .inside")
    lines = [line for line in shown.split("\n") if "inside_choose." in line]
    assert "2 examined; the graph costs 20" in shown
    assert lines == ["10, taken: inside_choose.other", "18: inside_choose.less"]


def test_a_pass_that_failed_is_shown(opened_inside: Browser) -> None:
    opened_inside.run("viewer.choosePass(viewer.model.data.passes.find(pass => pass.error))")
    assert "does not end: the rules lead from SUB" in text(opened_inside, "#details .error")
    assert "inside_pull" in text(opened_inside, "#passes .row.failed")
    rows = "[...document.querySelectorAll('#firings .row')].map(row => row.querySelector('b').textContent)"
    assert opened_inside.run(rows) == ["#5", "#6", "#7", "error"]
    opened_inside.run("viewer.choose(viewer.model.firings.at(-1))")
    click(opened_inside, "#scope [data-value=whole]")
    assert opened_inside.run("viewer.view.panels.map(panel => panel.graph.size)") == [3, 3]
    click(opened_inside, "#firings .row:last-child")
    assert opened_inside.run("viewer.chosen.firing") is None
