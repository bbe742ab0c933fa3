// The details beside the graph: the rule with its place, the user's line, the nodes that went and came, and the chosen node.

const RULE_TOKENS = /(#.*)|("(?:[^"\\]|\\.)*")|\b(if|let|for|in|else|where|with|needs|unsound|before|after|fallback|essential|assumes|decreases|maybe|must|subst|fresh|not|and|or)\b|\b([A-Z][A-Z0-9_]+)\b|(->)|\b(\d[\w.]*)\b/g;
const SOURCE_TOKENS = /(\/\/.*)|("(?:[^"\\]|\\.)*")|\b(__kernel|__global|__local|const|restrict|void|for|if|else|return|int|uint|long|ulong|short|ushort|char|uchar|float|double|half|bool|unsigned)\b|\b(get_\w+_id|barrier|[a-z]+\d*(?=\())\b|(->)|\b(\d[\w.]*)\b/g;
const TOKEN_CLASSES = ["comment", "string", "keyword", "op", "arrow", "number"];

class Details {
  /** `viewer` is asked to show firings and nodes when the user clicks them. */
  constructor(element, model, viewer) {
    this.element = element;
    this.model = model;
    this.viewer = viewer;
    this.madeBy = new Map();
    this.replacedBy = new Map();
    for (const firing of model.firings) {
      for (const node of [...firing.added, ...firing.after]) if (!this.madeBy.has(node) && firing.added.includes(node)) this.madeBy.set(node, firing);
      for (const node of new Set([firing.found, firing.before[0]])) if (!this.replacedBy.has(node)) this.replacedBy.set(node, firing);
    }
  }

  show(...parts) {
    this.element.replaceChildren(...parts.filter(Boolean));
  }

  firing(firing) {
    const rule = this.model.rule(firing), { pass } = firing;
    const where = pass.kernel === null ? pass.pipeline : this.model.data.kernels[pass.kernel].name;
    return section("",
      make("h2", "", firing.part ? rule.name : `#${firing.step} ${rule.name}`),
      make("p", "faint", firing.part ? this.place(firing) : `${pass.name}, firing ${pass.firings.indexOf(firing) + 1} of ${pass.fired}${where ? " · " + where : ""}`),
      make("p", "location", rule.location),
      colored(rule.text, RULE_TOKENS, "rule"),
      this.line(firing.line),
      this.difference(firing),
      this.inside(firing));
  }

  /** Where a firing inside another one belongs. */
  place(firing) {
    const what = firing.part.kind === "candidate" ? "a candidate" : `${firing.part.kind}(…)`;
    return `${firing.pass.name}, inside ${what}${firing.step === null ? ", which led to no firing" : " of #" + firing.step}`;
  }

  /** Parts that were rewritten, with their firings; candidates of a search, with their costs. */
  inside(owner) {
    if (!owner.inside?.length) return null;
    const box = make("div", "inside");
    const judged = owner.inside.filter((part) => part.kind === "candidate");
    const rank = (part) => [["taken", "failed"].includes(part.verdict) ? 0 : 1, part.cost ?? Infinity];
    judged.sort((a, b) => rank(a)[0] - rank(b)[0] || rank(a)[1] - rank(b)[1]);
    for (const part of owner.inside) {
      if (part.kind === "graph") box.append(make("h3", "", `Candidates: ${owner.examined} examined; the graph costs ${part.cost}`));
      else if (part.kind !== "candidate") box.append(this.part(part, part.kind === "rewritten" ? `rewritten(…, ${part.runs})` : `${part.kind}(…) by ${part.runs}`));
    }
    for (const part of judged) {
      const cost = part.verdict === "failed" ? "failed" : part.cost === null ? "no cost" : part.verdict === "taken" ? `${part.cost}, taken` : String(part.cost);
      box.append(this.part(part, `${cost}: ${this.model.data.rules[part.rule].name}`));
    }
    if (owner.examined > judged.length) box.append(make("p", "faint", `and ${owner.examined - judged.length} that cost no less`));
    return box;
  }

  part(part, title) {
    const box = make("details", "part " + part.verdict.replace(" ", "-"), "", make("summary", "", title));
    box.open = part.verdict === "failed" || part.kind !== "candidate";
    const after = part.after === null ? "failed" : this.model.name(part.after);
    box.append(this.linked(`${this.model.name(part.before)} → ${after}`, "line"));
    for (const [place, firing] of part.firings.entries()) {
      if (part.omitted[1] && place === part.omitted[0]) box.append(make("p", "faint", `… ${counted(part.omitted[1], "firing")} more`));
      const link = make("a", "count", this.model.rule(firing).name);
      link.addEventListener("click", () => this.viewer.chooseInside(firing));
      box.append(link);
    }
    const inner = this.inside(part);
    if (inner) box.append(inner);
    return box;
  }

  error(pass) {
    return pass.error && make("pre", "error", pass.error);
  }

  difference(firing) {
    const box = make("pre", "difference");
    const before = firing.before.map((node) => this.model.name(node)).join(", ");
    const after = firing.after.map((node) => this.model.name(node)).join(", ") || "nothing";
    for (const [sign, nodes, kind] of [["-", firing.removed, "removed"], ["+", firing.added, "added"]])
      for (const node of nodes.toReversed()) box.append(this.linked(`${sign} %${node} = ${this.model.text(node)}`, "line " + kind));
    box.append(this.linked(`${before} → ${after}`, "line"));
    if (!firing.complete) box.append(make("span", "line faint", "and more nodes below these"));
    return box;
  }

  /** A line of text in which `%12` is a link to the node. */
  linked(text, className) {
    const line = make("span", className);
    for (const part of text.split(/(%\d+)/)) {
      if (!/^%\d+$/.test(part)) { line.append(part); continue; }
      const link = make("a", "", part);
      link.addEventListener("click", () => this.viewer.chooseNode(Number(part.slice(1))));
      line.append(link);
    }
    return line;
  }

  line(index) {
    const line = this.model.line(index);
    return line && make("div", "user", "", make("span", "location", `${line.file}:${line.line}`), make("code", "", line.text));
  }

  pass(pass) {
    const counts = new Map();
    for (const firing of pass.firings) counts.set(firing.rule, (counts.get(firing.rule) || 0) + 1);
    const rules = make("div", "counts");
    for (const [rule, count] of [...counts].sort((a, b) => b[1] - a[1])) {
      const row = make("a", "count", "", make("b", "", String(count)), make("span", "", this.model.data.rules[rule].name));
      row.title = this.model.data.rules[rule].location;
      row.addEventListener("click", () => this.viewer.choose(pass.firings.find((firing) => firing.rule === rule)));
      rules.append(row);
    }
    const sizes = [pass.before, pass.after].map((root) => this.model.below([root]).size);
    return section("",
      make("h2", "", pass.name),
      this.error(pass),
      facts({
        pipeline: pass.pipeline, kernel: pass.kernel === null ? "" : this.model.data.kernels[pass.kernel].name, target: pass.target,
        kind: pass.kind.replace("_", " "), nodes: `${sizes[0]} → ${sizes[1]}`, visited: pass.visited, firings: pass.fired,
        time: duration(pass.seconds), runs: pass.runs,
      }),
      counts.size ? make("h3", "", "Rules that fired") : make("p", "faint", "No rule fired."),
      rules,
      this.inside(pass));
  }

  kernel(kernel) {
    return section("",
      make("h2", "", kernel.name),
      facts({
        target: kernel.target, grid: kernel.grid.join(" × "), operations: kernel.flops, bytes: kernel.nbytes, launches: kernel.launches,
        "time in launches": kernel.launches ? duration(kernel.seconds) : "",
      }),
      this.line(kernel.line));
  }

  node(node, graph) {
    const { op, attributes, dtype } = this.model.label(node), shape = this.model.shape(node);
    const box = section("node",
      make("h3", "", `${op === "CONST" ? "CONST " + this.model.name(node) : op}`),
      facts({ number: node < this.model.known ? "%" + node : "", dtype, shape: shape ? `(${shape.join(", ")})` : "", attributes }));
    box.append(this.neighbours("from", graph.sources(node) || []), this.neighbours("used by", graph.consumers(node)));
    for (const [title, firing] of [["made by", this.madeBy.get(node)], ["replaced by", this.replacedBy.get(node)]]) {
      if (!firing) continue;
      const link = make("a", "", `#${firing.step} ${this.model.rule(firing).name}`);
      link.addEventListener("click", () => this.viewer.choose(firing));
      box.append(make("p", "", title + " ", link));
    }
    const line = this.line(this.model.nodes[node][3]);
    if (line) box.append(line);
    return box;
  }

  neighbours(title, nodes) {
    const box = make("p", "neighbours");
    if (!nodes.length) return box;
    box.append(title + " ");
    for (const node of nodes.slice(0, 40)) {
      const link = make("a", "", this.model.isConstant(node) ? this.model.name(node) : this.model.label(node).op);
      link.title = this.model.text(node);
      link.addEventListener("click", () => this.viewer.chooseNode(node));
      box.append(link, " ");
    }
    if (nodes.length > 40) box.append(`and ${nodes.length - 40} more`);
    return box;
  }
}

function section(className, ...parts) {
  return make("section", className, "", ...parts.filter(Boolean));
}

/** Names and values, without those that say nothing. */
function facts(values) {
  const list = make("dl");
  for (const [name, value] of Object.entries(values))
    if (value !== "" && value !== null && value !== undefined) list.append(make("dt", "", name), make("dd", "", String(value)));
  return list;
}

/** Text in a <pre>, each line an element, with its tokens in spans. */
function colored(text, tokens, className) {
  const box = make("pre", className);
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const element = make("span", "line");
    let at = 0;
    for (const match of line.matchAll(tokens)) {
      if (!match[0]) continue;
      element.append(line.slice(at, match.index), make("span", TOKEN_CLASSES[match.slice(1).findIndex(Boolean)], match[0]));
      at = match.index + match[0].length;
    }
    element.append(line.slice(at));
    box.append(element);
  }
  return box;
}

function duration(seconds) {
  return seconds >= 1 ? seconds.toFixed(2) + " s" : seconds >= 1e-3 ? (seconds * 1e3).toFixed(1) + " ms" : (seconds * 1e6).toFixed(0) + " µs";
}
