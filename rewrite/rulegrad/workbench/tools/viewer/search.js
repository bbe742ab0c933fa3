// Search over firings (rule, rule text, ops, user's line), kernels' sources, and the nodes of the graph that is shown.

const MOST_RESULTS = 1000;

class Search {
  constructor(model) {
    this.model = model;
    this.rules = model.data.rules.map((rule) => `${rule.name} ${rule.location}\n${rule.text}`.toLowerCase());
    this.lines = model.data.lines.map((line) => `${line.file}:${line.line} ${line.text}`.toLowerCase());
    this.labels = model.data.labels.map((label) => `${label.op}[${label.attributes}]:${label.dtype}`.toLowerCase());
  }

  /** Rows to choose from: {title, detail, firing} or {title, detail, kernel, line}. */
  results(query) {
    const found = [];
    for (const [kernel, { name, source }] of this.model.data.kernels.entries()) {
      if (name.toLowerCase().includes(query)) found.push({ title: name, detail: "kernel", kernel });
      for (const [line, text] of source.split("\n").entries())
        if (text.toLowerCase().includes(query)) found.push({ title: text.trim(), detail: `line ${line + 1} of ${name}`, kernel, line });
    }
    const firings = [];
    for (const firing of this.model.firings) {
      if (!this.isIn(firing, query)) continue;
      const rule = this.model.rule(firing), line = this.model.line(firing.line);
      firings.push({ title: `#${firing.step} ${rule.name}`, detail: `${firing.pass.name}${line ? ` · ${line.file}:${line.line}` : ""}`, firing });
      if (firings.length === MOST_RESULTS) break;
    }
    return [...firings, ...found.slice(0, MOST_RESULTS)];
  }

  isIn(firing, query) {
    return this.rules[firing.rule].includes(query) || (firing.line !== null && this.lines[firing.line].includes(query)) ||
      firing.removed.some((node) => this.nodeIsIn(node, query)) || firing.added.some((node) => this.nodeIsIn(node, query));
  }

  nodeIsIn(node, query) {
    return query.startsWith("%") ? query === "%" + node : this.labels[this.model.nodes[node][0]].includes(query);
  }

  /** The nodes of the shown graphs that have the query in their op, attributes or dtype. */
  nodes(panels, query) {
    const found = new Set();
    for (const panel of panels) for (const node of panel.graph.nodes()) if (this.nodeIsIn(node, query)) found.add(node);
    return [...found];
  }
}
