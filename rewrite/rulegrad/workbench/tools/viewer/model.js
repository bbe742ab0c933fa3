// The trace as the page uses it: passes in groups, firings in one row, and the graph at any step.
//
// Nodes are numbers of one table; equal nodes are one number. A graph is the number of its root. The graph between two
// firings is in no table: it is put together by doing what the pass did, up to that firing.

// Kinds of passes that put one node in the place of another, so that the graph between two firings can be had. What a rule
// made is looked at again in those of the first line, and final in those of the second.
const KINDS_THAT_GO_ON = new Set(["children_first", "parents_first"]);
const KINDS_THAT_END = new Set(["walk", "collect", "flow"]);

const MOST_ADDED = 200_000, MOST_GRAPHS = 16;

class Model {
  constructor(data) {
    this.data = data;
    this.nodes = data.nodes;
    this.firings = [];
    this.groups = [];
    for (const [number, pass] of data.passes.entries()) {
      pass.number = number;
      pass.first = this.firings.length;
      for (const firing of pass.firings) {
        firing.pass = pass;
        firing.number = this.firings.length;
        this.firings.push(firing);
        this.goInside(firing.inside, firing);
      }
      this.goInside(pass.inside, { pass, number: this.firings.length - 1, step: null });
      this.groupOf(pass).passes.push(pass);
    }
    this.known = this.nodes.length;
    this.byKey = null;
    this.ofPass = new WeakMap();
    this.graphs = new Map(); // between firings, by pass and firing
    this.exact = new Map(); // pass -> whether its replay ends with the graph that the pass left
  }

  /** Firings inside another one, or after the last of a pass, stand at its place. */
  goInside(parts, outer) {
    for (const part of parts || []) {
      for (const firing of part.firings) {
        Object.assign(firing, { pass: outer.pass, number: outer.number, step: outer.step, part });
        this.goInside(firing.inside, outer);
      }
      this.goInside(part.inside, outer);
    }
  }

  groupOf(pass) {
    const last = this.groups.at(-1);
    if (last && last.kernel === pass.kernel && (pass.kernel !== null || last.pipeline === pass.pipeline)) return last;
    const kernel = pass.kernel === null ? null : this.data.kernels[pass.kernel];
    const group = { title: kernel ? kernel.name : pass.pipeline || "passes", kernel: pass.kernel, pipeline: pass.pipeline, passes: [] };
    this.groups.push(group);
    return group;
  }

  // ---- nodes ----

  label(node) { return this.data.labels[this.nodes[node][0]]; }
  sources(node) { return this.nodes[node][1]; }
  shape(node) { return this.data.shapes[this.nodes[node][2]]; }
  line(index) { return index === null ? null : this.data.lines[index]; }
  isConstant(node) { return this.label(node).op === "CONST"; }

  /** `%12`; the value of a constant; a dot for a node between two firings, which has no number. */
  name(node) {
    if (this.isConstant(node)) return this.label(node).attributes.replace(/^value=/, "");
    return node < this.known ? "%" + node : "·";
  }

  /** The node as a line of the text form, in which constants stand in place. */
  text(node) {
    const { op, attributes, dtype } = this.label(node);
    const inside = attributes ? `[${attributes}]` : "";
    return `${op}${inside}:${dtype}(${this.sources(node).map((source) => this.name(source)).join(", ")})`;
  }

  rule(firing) { return this.data.rules[firing.rule]; }

  // ---- graphs ----

  /** The graph of a root as it stands in the table. */
  graph(root) {
    const graph = new Graph(this, [root]);
    for (const node of this.below([root])) graph.set(node, this.sources(node), node);
    return graph;
  }

  /** A few nodes, and their sources for context. */
  part(roots, members) {
    const graph = new Graph(this, roots);
    const inside = new Set([...roots, ...members]);
    for (const node of inside) graph.set(node, this.sources(node), node);
    for (const node of inside)
      for (const source of this.sources(node))
        if (!inside.has(source)) { graph.set(source, [], source); graph.context.add(source); }
    return graph;
  }

  below(roots) {
    const seen = new Set(roots), stack = [...roots];
    while (stack.length)
      for (const source of this.sources(stack.pop()))
        if (!seen.has(source)) { seen.add(source); stack.push(source); }
    return seen;
  }

  /** Whether the graph between the firings of a pass can be put together. */
  replays(pass) {
    if (!this.exact.has(pass)) {
      const complete = pass.firings.length === pass.fired && (KINDS_THAT_GO_ON.has(pass.kind) || KINDS_THAT_END.has(pass.kind));
      // a pass that failed on its way has left no graph
      const stopped = pass.error && pass.before === pass.after;
      this.exact.set(pass, complete && (stopped || new Replay(this, pass, pass.fired).result(pass.before) === pass.after));
    }
    return this.exact.get(pass);
  }

  /** The graph when the first `count` rules of a pass have fired. */
  graphAfter(pass, count) {
    if (!this.replays(pass)) return this.graph(count === 0 ? pass.before : pass.after);
    const key = pass.number + ":" + count;
    if (!this.graphs.has(key)) this.graphs.set(key, new Replay(this, pass, count).run());
    return this.graphs.get(key);
  }

  /** The node with the label of another, and these sources: one that `prefer` has, if any. A new one is added to the table. */
  node(like, sources, prefer) {
    const key = this.key(this.nodes[like][0], sources);
    if (!this.byKey) {
      this.byKey = new Map();
      for (const [node, [label, of]] of this.nodes.entries()) this.note(this.key(label, of), node);
    }
    const known = this.byKey.get(key);
    if (known) return known.find((node) => prefer.has(node)) ?? known[0];
    const [label, , shape, line] = this.nodes[like];
    const added = this.nodes.push([label, sources, shape, line]) - 1;
    this.note(key, added);
    return added;
  }

  note(key, node) {
    if (this.byKey.has(key)) this.byKey.get(key).push(node);
    else this.byKey.set(key, [node]);
  }

  /** The same for equal nodes. When sources change, those of a commutative op may change places. */
  key(label, sources) {
    return label + ":" + (this.data.labels[label].commutative ? sources.toSorted((a, b) => a - b) : sources);
  }

  /** Lets go of earlier graphs, and of the nodes that were added for them, when there are many. */
  forget() {
    if (this.nodes.length - this.known < MOST_ADDED && this.graphs.size < MOST_GRAPHS) return;
    this.graphs.clear();
    while (this.nodes.length > this.known) {
      const [label, sources] = this.nodes.pop();
      this.byKey.delete(this.key(label, sources));
    }
  }

  /** The nodes that a pass has left, or that its rules fired on. */
  nodesOf(pass) {
    if (!this.ofPass.has(pass))
      this.ofPass.set(pass, new Set([...this.below([pass.after]), ...pass.firings.flatMap((firing) => firing.before)]));
    return this.ofPass.get(pass);
  }
}

/** A graph to look at. A node's origin is the node that it was when the pass began, or when a rule made it. */
class Graph {
  constructor(model, roots) {
    this.model = model;
    this.roots = roots;
    this.sourcesOf = new Map();
    this.originOf = new Map();
    this.context = new Set(); // nodes that are shown only to say what others are made of
  }

  set(node, sources, origin) {
    this.sourcesOf.set(node, sources);
    this.originOf.set(node, origin);
  }

  get size() { return this.sourcesOf.size; }
  has(node) { return this.sourcesOf.has(node); }
  nodes() { return this.sourcesOf.keys(); }
  sources(node) { return this.sourcesOf.get(node); }
  withOrigin(origin) { for (const [node, one] of this.originOf) if (one === origin) return node; }
  origins() { return new Set(this.originOf.values()); }

  consumers(node) {
    if (!this.consumersOf) {
      this.consumersOf = new Map();
      for (const [consumer, sources] of this.sourcesOf)
        for (const source of new Set(sources)) {
          if (!this.consumersOf.has(source)) this.consumersOf.set(source, []);
          this.consumersOf.get(source).push(consumer);
        }
    }
    return this.consumersOf.get(node) || [];
  }
}

/** Does what a pass did, up to a firing. No recursion: graphs may be deep. */
class Replay {
  constructor(model, pass, count) {
    this.model = model;
    this.pass = pass;
    this.goesOn = KINDS_THAT_GO_ON.has(pass.kind);
    this.byFound = new Map();
    this.byBefore = new Map();
    for (const firing of pass.firings.slice(0, count)) {
      this.byFound.set(firing.found, firing.after[0]);
      if (pass.kind === "children_first") this.byBefore.set(firing.before[0], firing.after[0]);
    }
    this.results = new Map(); // node as found -> node as it is now
    this.origins = new Map();
  }

  run() {
    const root = this.result(this.pass.before);
    const graph = new Graph(this.model, [root]);
    for (const node of this.model.below([root])) graph.set(node, this.model.sources(node), this.origins.get(node) ?? node);
    return graph;
  }

  result(root) {
    const stack = [root], open = new Set();
    while (stack.length) {
      const node = stack.at(-1);
      if (this.results.has(node)) { stack.pop(); continue; }
      open.add(node);
      if (!this.forward(node, this.byFound.get(node), stack, open)) continue;
      stack.pop();
      open.delete(node);
    }
    return this.results.get(root);
  }

  /** Takes the node to what it became; false when something else must be done first. */
  forward(node, after, stack, open) {
    if (after === undefined || open.has(after)) {
      const waiting = this.model.sources(node).filter((source) => !this.results.has(source) && !open.has(source));
      if (waiting.length) { stack.push(...waiting); return false; }
      const rebuilt = this.rebuild(node);
      after = rebuilt === node ? undefined : this.byBefore.get(rebuilt);
      if (after === undefined || open.has(after)) { this.results.set(node, rebuilt); return true; }
    }
    if (!this.goesOn) { this.results.set(node, after); return true; }
    if (!this.results.has(after)) { stack.push(after); return false; }
    this.results.set(node, this.results.get(after));
    return true;
  }

  /** The node with sources as they are now. */
  rebuild(node) {
    const before = this.model.sources(node);
    const sources = before.map((source) => this.results.get(source) ?? source);
    if (sources.every((source, place) => source === before[place])) return node;
    const rebuilt = this.model.node(node, sources, this.model.nodesOf(this.pass));
    if (!this.origins.has(rebuilt)) this.origins.set(rebuilt, this.origins.get(node) ?? node);
    return rebuilt;
  }
}

/** What is gone and what is new between two graphs: nodes by origin, so that one with new sources is the same. */
function compare(before, after) {
  const had = before.origins(), has = after.origins();
  const removed = new Set(), added = new Set();
  for (const node of before.nodes()) if (!has.has(before.originOf.get(node))) removed.add(node);
  for (const node of after.nodes()) if (!had.has(after.originOf.get(node))) added.add(node);
  return { removed, added };
}
