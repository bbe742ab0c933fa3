// The page: what is chosen, what is shown for it, and the keys.

const KEYS = [
  ["j, ↓", "next firing"], ["k, ↑", "firing before"], ["], J", "next pass"], ["[, K", "pass before"],
  ["1, 2, 3", "before, after, both"], ["g", "only the change, or the whole graph"], ["f", "fit into the window"],
  ["+, -", "larger, smaller"], ["c, double click", "collapse a node, or expand it"], ["x", "expand all"],
  ["/", "search"], ["n, N", "next node that is found, the one before"], ["t", "light or dark"], ["Esc", "let go of the search or the node"],
];
const byId = (id) => document.getElementById(id);

class Viewer {
  constructor(data) {
    this.model = new Model(data);
    this.chosen = null; // {pass, firing} or {kernel}
    this.scope = "changed";
    this.side = "both";
    this.found = [];
    this.view = new GraphView(byId("canvas"), this.model);
    this.view.onSelect = (found) => this.chooseNode(found ? found.node : null, false);
    this.view.onCollapse = () => { byId("expand").hidden = !this.view.collapsed.size; };
    this.details = new Details(byId("details"), this.model, this);
    this.search = new Search(this.model);
    this.passes = new List(byId("passes"), 26, (row, element) => this.fillPass(row, element), (row) => this.choosePassRow(row));
    this.firings = new List(byId("firings"), 40, (firing, element) => this.fillFiring(firing, element), (firing) => (firing.error ? this.choosePass(firing.pass) : this.choose(firing)));
    this.results = new List(byId("results"), 40, (row, element) => element.append(make("b", "", row.title), make("small", "", row.detail)), (row) => this.chooseResult(row));
    byId("title").textContent = data.title || "trace";
    byId("summary").textContent = [
      counted(data.passes.length, "pass"), counted(this.model.firings.length, "firing"), counted(data.kernels.length, "kernel"), counted(data.nodes.length, "node"),
    ].join(" · ");
    this.slowest = Math.max(...data.passes.map((pass) => pass.seconds), 1e-9);
    this.listPasses();
    this.listen();
    this.chooseFirst();
  }

  // ---- lists ----

  listPasses() {
    const rows = [], firedOnly = byId("fired-only").checked;
    for (const group of this.model.groups) {
      const passes = group.passes.filter((pass) => !firedOnly || pass.fired || pass.error);
      if (passes.length) rows.push({ group }, ...passes.map((pass) => ({ pass })));
    }
    if (this.model.data.kernels.length) rows.push({ group: { title: "source of the kernels", kernel: null } });
    for (const kernel of this.model.data.kernels.keys()) rows.push({ kernel });
    this.passes.show(rows);
    this.markLists();
  }

  fillPass(row, element) {
    if (row.group) {
      const { kernel, title } = row.group;
      element.classList.add("group");
      element.append(make("span", "name", title));
      const line = kernel === null ? null : this.model.line(this.model.data.kernels[kernel].line);
      if (line) element.append(make("small", "", `${line.file.split("/").at(-1)}:${line.line}`));
    } else if (row.pass) {
      const { pass } = row;
      element.classList.toggle("idle", !pass.fired && !pass.error);
      element.classList.toggle("failed", !!pass.error);
      const bar = make("i", "bar");
      bar.style.width = Math.max(1, 60 * Math.sqrt(pass.seconds / this.slowest)) + "px";
      element.append(make("span", "name", pass.name), make("b", "", pass.fired ? String(pass.fired) : ""), make("small", "", duration(pass.seconds)), bar);
    } else {
      element.append(make("span", "name", this.model.data.kernels[row.kernel].name), make("small", "", this.model.data.kernels[row.kernel].target));
    }
  }

  fillFiring(firing, element) {
    if (firing.error) {
      element.classList.add("failed");
      element.append(make("b", "", "error"), make("span", "name", "the pass failed"), make("small", "", firing.error));
      return;
    }
    const line = this.model.line(firing.line);
    element.append(
      make("b", "", `#${firing.step}`), make("span", "name", this.model.rule(firing).name),
      make("small", "", line ? `${line.file.split("/").at(-1)}:${line.line}  ${line.text}` : this.model.label(firing.before[0]).op));
  }

  markLists() {
    const { pass, firing, kernel } = this.chosen || {};
    this.passes.mark(this.passes.rows.findIndex((row) => (kernel !== undefined ? row.kernel === kernel : pass && row.pass === pass)));
    const listed = firing && firing.number >= pass.first;
    this.firings.mark(listed ? firing.number - pass.first : pass?.error && !firing ? pass.firings.length : -1);
    byId("position").textContent = pass && pass.firings.length ? `${listed ? firing.number - pass.first + 1 : "–"} / ${pass.firings.length}` : "";
  }

  // ---- choosing ----

  chooseFirst() {
    const [, kind, number] = location.hash.match(/^#(step|pass|kernel)-(\d+)$/) || [];
    const firing = kind === "step" && this.model.firings.find((one) => one.step === Number(number));
    if (firing) this.choose(firing);
    else if (kind === "kernel" && this.model.data.kernels[number]) this.chooseKernel(Number(number));
    else if (kind === "pass" && this.model.data.passes[number]) this.choosePass(this.model.data.passes[number]);
    else if (this.model.firings.length) this.choose(this.model.firings[0]);
    else if (this.model.data.passes.length) this.choosePass(this.model.data.passes[0]);
  }

  choose(firing) { this.change({ pass: firing.pass, firing }, `step-${firing.step}`); }
  choosePass(pass) { this.change({ pass }, `pass-${pass.number}`); }
  chooseKernel(kernel) { this.change({ kernel }, `kernel-${kernel}`); }

  choosePassRow(row) {
    if (row.pass) this.choosePass(row.pass);
    else if (row.kernel !== undefined) this.chooseKernel(row.kernel);
    else if (row.group.kernel !== null) this.chooseKernel(row.group.kernel);
  }

  chooseResult(row) {
    byId("results").hidden = true;
    if (row.firing) this.choose(row.firing);
    else {
      this.chooseKernel(row.kernel);
      if (row.line !== undefined) byId("source").children[row.line]?.scrollIntoView({ block: "center" });
    }
  }

  change(chosen, hash) {
    const before = this.chosen;
    this.chosen = chosen;
    history.replaceState(null, "", "#" + hash);
    if (before?.pass !== chosen.pass || !before) {
      byId("firings-title").textContent = chosen.pass ? `Firings of ${chosen.pass.name}` : "Firings";
      this.firings.show(chosen.pass ? this.rowsOf(chosen.pass) : []);
    }
    this.markLists();
    this.show(before?.pass === chosen.pass && this.scope === "whole");
  }

  /** The firings of a pass; what it failed with stands last. */
  rowsOf(pass) {
    return pass.error ? [...pass.firings, { error: pass.error, pass }] : pass.firings;
  }

  /** A firing inside another one: what it changed. */
  chooseInside(firing) {
    this.scope = "changed";
    this.change({ pass: firing.pass, firing }, firing.step === null ? `pass-${firing.pass.number}` : `step-${firing.step}`);
  }

  /** The next or an earlier firing of all, or of what is listed. */
  step(by) {
    const { firing, pass } = this.chosen || {};
    let number = firing ? firing.number + by : !pass ? 0 : by > 0 ? pass.first : pass.first - 1;
    number = Math.min(Math.max(number, 0), this.model.firings.length - 1);
    if (this.model.firings[number]) this.choose(this.model.firings[number]);
  }

  stepPass(by) {
    const rows = this.passes.rows;
    for (let place = this.passes.current + by; place >= 0 && place < rows.length; place += by)
      if (!rows[place].group) return this.choosePassRow(rows[place]);
  }

  /** Shows a node's facts; `center` brings it into the middle. */
  chooseNode(node, center = true) {
    this.view.selected = node;
    if (node !== null && center && !this.view.center(node) && this.scope === "changed" && this.chosen?.pass) {
      this.scope = "whole";
      this.show(false);
      this.view.selected = node;
      this.view.center(node);
    }
    this.describe();
    this.view.draw();
  }

  // ---- showing ----

  show(keep) {
    this.model.forget();
    this.view.selected = null;
    const { kernel } = this.chosen;
    byId("source").hidden = kernel === undefined;
    byId("canvas").hidden = kernel !== undefined;
    byId("toolbar").hidden = kernel !== undefined;
    if (kernel === undefined) {
      this.view.resize();
      const panels = this.panels();
      this.view.show(panels.filter((panel) => this.side === "both" || panel.side === this.side), keep);
      if (keep && this.chosen.firing) this.view.focus();
    } else {
      const { source } = this.model.data.kernels[kernel];
      byId("source").replaceChildren(...colored(source || "This kernel has no source: its device interprets the graph.", SOURCE_TOKENS, "").children);
    }
    byId("scope").classList.toggle("off", !this.chosen.firing);
    for (const button of document.querySelectorAll("#scope button")) button.classList.toggle("on", button.dataset.value === this.scope);
    for (const button of document.querySelectorAll("#side button")) button.classList.toggle("on", button.dataset.value === this.side);
    this.findNodes();
    this.describe();
  }

  /** The graphs before and after what is chosen. */
  panels() {
    const { pass, firing } = this.chosen;
    const [before, after] = this.graphs(pass, firing);
    const marks = [new Map(), new Map()];
    const { removed, added } = firing && this.scope === "changed" ? { removed: firing.removed, added: firing.added } : compare(before, after);
    for (const node of removed) marks[0].set(node, "removed");
    for (const node of added) marks[1].set(node, "added");
    if (firing) {
      const matched = before.has(firing.before[0]) ? firing.before[0] : before.withOrigin(firing.found);
      for (const [side, graph, node] of [[0, before, matched], [1, after, firing.after[0]]])
        if (graph.has(node) && !marks[side].has(node)) marks[side].set(node, "found");
    }
    return [
      { side: "before", title: `before · ${counted(before.size, "node")}`, graph: before, marks: marks[0] },
      { side: "after", title: `after · ${counted(after.size, "node")}`, graph: after, marks: marks[1] },
    ];
  }

  graphs(pass, firing) {
    const { model } = this;
    if (!firing) return [model.graph(pass.before), model.graphAfter(pass, pass.fired)];
    if (this.scope === "changed") return [model.part(firing.before, firing.removed), model.part(firing.after, firing.added)];
    const place = firing.number - pass.first;
    return [model.graphAfter(pass, place), model.graphAfter(pass, place + 1)];
  }

  describe() {
    const { pass, firing, kernel } = this.chosen || {};
    const { details, view } = this;
    const main = kernel !== undefined ? details.kernel(this.model.data.kernels[kernel]) : firing ? details.firing(firing) : pass && details.pass(pass);
    const panel = view.selected !== null && view.panels.find((one) => one.graph.has(view.selected));
    details.show(main, panel && details.node(view.selected, panel.graph));
  }

  // ---- search ----

  lookFor(text) {
    this.query = text.trim().toLowerCase();
    const rows = this.query ? this.search.results(this.query) : [];
    byId("results").hidden = !this.query;
    byId("results").classList.toggle("empty", !rows.length);
    byId("results").style.height = Math.min(rows.length * 40, 400) + "px";
    this.results.show(rows);
    this.findNodes();
  }

  findNodes() {
    this.found = this.query ? this.search.nodes(this.view.panels, this.query) : [];
    this.view.matches = new Set(this.found);
    this.view.draw();
  }

  nextFound(by) {
    if (!this.found.length) return;
    const at = this.found.indexOf(this.view.selected);
    this.chooseNode(this.found[(at + by + this.found.length + (at < 0 && by < 0 ? 1 : 0)) % this.found.length]);
  }

  // ---- keys and buttons ----

  listen() {
    const search = byId("search");
    search.addEventListener("input", () => this.lookFor(search.value));
    search.addEventListener("focus", () => this.lookFor(search.value));
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.results.rows.length) { this.chooseResult(this.results.rows[0]); search.blur(); }
      if (event.key === "Escape") { search.value = ""; this.lookFor(""); search.blur(); }
      event.stopPropagation();
    });
    document.addEventListener("pointerdown", (event) => { if (!byId("searching").contains(event.target)) byId("results").hidden = true; });
    byId("scope").addEventListener("click", (event) => this.set("scope", event.target.dataset.value));
    byId("side").addEventListener("click", (event) => this.set("side", event.target.dataset.value));
    byId("fit").addEventListener("click", () => this.view.fit());
    byId("expand").addEventListener("click", () => this.view.expandAll());
    byId("fired-only").addEventListener("change", () => this.listPasses());
    byId("theme").addEventListener("click", () => this.changeTheme());
    byId("help").addEventListener("click", () => byId("keys").showModal());
    for (const [key, meaning] of KEYS) byId("keys").lastElementChild.append(make("dt", "", key), make("dd", "", meaning));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.view.readColors(); this.view.draw(); });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  set(name, value) {
    if (!value) return;
    this[name] = value;
    if (this.chosen?.pass) this.show(false);
  }

  changeTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    this.view.readColors();
    this.view.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const actions = {
      j: () => this.step(1), ArrowDown: () => this.step(1), k: () => this.step(-1), ArrowUp: () => this.step(-1),
      "]": () => this.stepPass(1), J: () => this.stepPass(1), "[": () => this.stepPass(-1), K: () => this.stepPass(-1),
      1: () => this.set("side", "before"), 2: () => this.set("side", "after"), 3: () => this.set("side", "both"),
      g: () => this.set("scope", this.scope === "whole" ? "changed" : "whole"),
      f: () => this.view.fit(), "+": () => this.view.zoom(1.25), "=": () => this.view.zoom(1.25), "-": () => this.view.zoom(0.8),
      c: () => this.collapse(), x: () => this.view.expandAll(), "/": () => byId("search").focus(),
      n: () => this.nextFound(1), N: () => this.nextFound(-1), t: () => this.changeTheme(), "?": () => byId("keys").showModal(),
      Escape: () => this.chooseNode(null),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  }

  collapse() {
    const panel = this.view.panels.find((one) => one.layout.itemOf.has(this.view.selected));
    if (panel) this.view.toggle(panel, this.view.selected);
  }
}

/** `1 pass`, `2 passes`. */
function counted(number, thing) {
  return `${number} ${number === 1 ? thing : thing + (thing.endsWith("s") ? "es" : "s")}`;
}

window.viewer = new Viewer(JSON.parse(byId("data").textContent));
