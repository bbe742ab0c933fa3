// Draws graphs on a canvas: what is in the window, at the detail that its scale has room for.

const ROW = 15, PADDING = 9, STRIPE = 4, MOST_WIDTH = 250, LEAST_WIDTH = 84, PANEL_GAP = 90, TITLE_ROOM = 34;
const FULL_TEXT = 0.4, ONLY_OP = 0.16; // scales from which all rows, and the op, are drawn
const LEAST_SCALE = 0.002, READABLE = 0.6; // the least scale that a graph is opened with
const FONT = "ui-sans-serif, system-ui, sans-serif", MONO = "ui-monospace, Menlo, Consolas, monospace";

class GraphView {
  constructor(canvas, model) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.model = model;
    this.panels = [];
    this.camera = { x: 0, y: 0, scale: 1 };
    this.collapsed = new Set(); // origins of nodes whose sources are not shown
    this.matches = new Set();
    this.selected = null;
    this.hovered = null;
    this.onSelect = () => {};
    this.onCollapse = () => {};
    this.sizes = new Map();
    this.layouts = new WeakMap(); // of graphs, with what is collapsed now
    this.readColors();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.resize();
  }

  // ---- what is shown ----

  /** `panels`: {title, graph, marks: node -> "removed", "added" or "found"}, from left to right. */
  show(panels, keep) {
    this.panels = panels;
    this.arrange();
    if (!keep) this.open();
    this.draw();
  }

  arrange() {
    for (const panel of this.panels) {
      if (!this.layouts.has(panel.graph))
        this.layouts.set(panel.graph, new Layout(panel.graph.roots, (node) => this.drawnSources(panel.graph, node), (node) => this.sizeOf(panel, node)));
      panel.layout = this.layouts.get(panel.graph);
    }
    const widths = this.panels.map((panel) => Math.max(panel.layout.width, 160)), heights = this.panels.map((panel) => panel.layout.height);
    const beside = [total(widths), Math.max(...heights)], below = [Math.max(...widths), total(heights)];
    const isBeside = this.fittingScale(...beside) >= this.fittingScale(...below);
    [this.width, this.height] = isBeside ? beside : below;
    let along = 0;
    for (const [k, panel] of this.panels.entries()) {
      // Beside each other, the roots are in one line: what did not change below them is too.
      [panel.x, panel.y] = isBeside ? [along, this.height - heights[k]] : [0, along];
      along += (isBeside ? widths : heights)[k] + PANEL_GAP;
    }
    this.hovered = null;
  }

  /** Constants stand in the node that uses them, unless they are what a rule fired on. */
  drawnSources(graph, node) {
    if (this.collapsed.has(graph.originOf.get(node))) return [];
    return graph.sources(node).filter((source) => !this.model.isConstant(source) || graph.roots.includes(source));
  }

  /** Collapses a node of the graph, or shows again what is above it. */
  toggle(panel, node) {
    const origin = panel.graph.originOf.get(node);
    if (!this.collapsed.delete(origin)) {
      if (!this.drawnSources(panel.graph, node).length) return;
      this.collapsed.add(origin);
    }
    const before = this.placeOf(panel, node);
    this.layouts = new WeakMap();
    this.arrange();
    const after = this.placeOf(panel, node);
    this.camera.x += after.x - before.x; // the node stays where it was on the screen
    this.camera.y += after.y - before.y;
    this.onCollapse();
    this.draw();
  }

  placeOf(panel, node) {
    const item = panel.layout.itemOf.get(node);
    return { x: panel.x + item.x, y: panel.y + item.y };
  }

  expandAll() {
    this.collapsed.clear();
    this.layouts = new WeakMap();
    this.arrange();
    this.onCollapse();
    this.fit();
  }

  /** How many nodes of a graph are hidden because this one is collapsed. */
  hidden(panel, node) {
    let count = 0;
    const seen = new Set(), stack = [...panel.graph.sources(node)];
    while (stack.length) {
      const source = stack.pop();
      if (seen.has(source)) continue;
      seen.add(source);
      if (!panel.layout.itemOf.has(source) && !this.model.isConstant(source)) count++;
      stack.push(...panel.graph.sources(source));
    }
    return count;
  }

  rowsOf(panel, node) {
    const { op, attributes, dtype } = this.model.label(node);
    const shape = this.model.shape(node);
    const rows = [op === "CONST" ? this.model.name(node) : op, shape && shape.length ? `${dtype} (${shape.join(", ")})` : dtype];
    if (attributes && op !== "CONST") rows.push(attributes);
    const sources = panel.graph.sources(node);
    if (sources.some((source) => this.model.isConstant(source))) rows.push(`(${sources.map((source) => this.model.name(source)).join(", ")})`);
    if (this.collapsed.has(panel.graph.originOf.get(node))) rows.push("▸ collapsed");
    return rows;
  }

  sizeOf(panel, node) {
    const rows = this.rowsOf(panel, node);
    const key = rows.join("\n");
    if (!this.sizes.has(key)) {
      const [op, ...others] = rows;
      this.context.font = `600 12.5px ${FONT}`;
      let width = this.context.measureText(op).width + 46;
      this.context.font = `11px ${MONO}`;
      this.letter = this.context.measureText("m").width;
      for (const row of others) width = Math.max(width, row.length * this.letter + 1);
      this.sizes.set(key, { width: Math.min(Math.max(width + 2 * PADDING + STRIPE, LEAST_WIDTH), MOST_WIDTH), height: rows.length * ROW + 2 * PADDING - 4 });
    }
    return this.sizes.get(key);
  }

  // ---- the window ----

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = clientWidth * ratio;
    this.canvas.height = clientHeight * ratio;
    this.draw();
  }

  fit() {
    const scale = this.fittingScale(this.width, this.height);
    this.camera = { x: this.width / 2, y: this.height / 2 - TITLE_ROOM / 2 / scale, scale };
    this.draw();
  }

  fittingScale(width, height) {
    const { clientWidth, clientHeight } = this.canvas;
    const scale = Math.min((clientWidth - 60) / width, (clientHeight - 70 - TITLE_ROOM) / Math.max(height, 1), 1.25);
    return Math.max(scale, LEAST_SCALE);
  }

  /** All of it if it can be read then, else what changed first, or the roots, in a size that can be read. */
  open() {
    this.fit();
    if (this.camera.scale < READABLE) this.focus();
  }

  /** Brings what changed into the middle: that of all graphs if they are near enough, else that of the first one. */
  focus() {
    const places = [];
    for (const panel of this.panels) {
      const changed = [...panel.marks.keys()].find((node) => panel.layout.itemOf.has(node));
      if (changed !== undefined) places.push(this.placeOf(panel, changed));
    }
    if (!places.length) places.push(...this.panels.slice(-1).map((panel) => this.placeOf(panel, panel.graph.roots[0])));
    const scale = Math.max(this.camera.scale, READABLE), [first] = places;
    const isNear = places.every((one) => Math.abs(one.x - first.x) * scale < this.canvas.clientWidth * 0.8 && Math.abs(one.y - first.y) * scale < this.canvas.clientHeight * 0.8);
    const [x, y] = ["x", "y"].map((axis) => (isNear ? places.reduce((sum, one) => sum + one[axis], 0) / places.length : first[axis]));
    this.camera = { x, y, scale };
    this.draw();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const before = this.toWorld(x, y);
    this.camera.scale = Math.min(Math.max(this.camera.scale * factor, LEAST_SCALE), 4);
    const after = this.toWorld(x, y);
    this.camera.x += before.x - after.x;
    this.camera.y += before.y - after.y;
    this.draw();
  }

  /** Brings a node into the middle. */
  center(node) {
    for (const panel of this.panels) {
      const item = panel.layout.itemOf.get(node);
      if (!item) continue;
      this.camera = { ...this.placeOf(panel, node), scale: Math.max(this.camera.scale, READABLE) };
      this.draw();
      return true;
    }
    return false;
  }

  toWorld(x, y) {
    const { clientWidth, clientHeight } = this.canvas;
    return { x: (x - clientWidth / 2) / this.camera.scale + this.camera.x, y: (y - clientHeight / 2) / this.camera.scale + this.camera.y };
  }

  toScreen(x, y) {
    const { clientWidth, clientHeight } = this.canvas;
    return { x: (x - this.camera.x) * this.camera.scale + clientWidth / 2, y: (y - this.camera.y) * this.camera.scale + clientHeight / 2 };
  }

  /** The node at a place of the canvas: {panel, node}, or null. */
  at(x, y) {
    const world = this.toWorld(x, y);
    for (const panel of this.panels)
      for (const item of panel.layout.order)
        if (Math.abs(world.x - panel.x - item.x) <= item.width / 2 && Math.abs(world.y - panel.y - item.y) <= item.height / 2) return { panel, node: item.node };
    return null;
  }

  listen() {
    let drag = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.offsetX, y: event.offsetY, camera: { ...this.camera }, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!drag) {
        const found = this.at(event.offsetX, event.offsetY);
        if (found?.node !== this.hovered?.node || found?.panel !== this.hovered?.panel) { this.hovered = found; this.draw(); }
        this.canvas.style.cursor = found ? "pointer" : "grab";
        return;
      }
      const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
      if (Math.hypot(dx, dy) > 3) drag.moved = true;
      if (!drag.moved) return;
      this.camera.x = drag.camera.x - dx / this.camera.scale;
      this.camera.y = drag.camera.y - dy / this.camera.scale;
      this.canvas.style.cursor = "grabbing";
      this.draw();
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) this.onSelect(this.at(event.offsetX, event.offsetY));
      drag = null;
    });
    this.canvas.addEventListener("dblclick", (event) => {
      const found = this.at(event.offsetX, event.offsetY);
      if (found) this.toggle(found.panel, found.node);
    });
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
  }

  // ---- drawing ----

  readColors() {
    const style = getComputedStyle(document.documentElement);
    this.color = (name) => style.getPropertyValue("--" + name).trim();
    this.palette = {};
    for (const name of ["canvas", "node", "ink", "faint", "edge", "border", "accent", "removed", "added", "removed-fill", "added-fill", "match", "elementwise", "movement", "leaf", "other"])
      this.palette[name] = this.color(name);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    const ratio = window.devicePixelRatio || 1, { scale } = this.camera;
    const { clientWidth, clientHeight } = this.canvas;
    const context = this.context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.palette.canvas;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const corner = this.toWorld(0, 0), end = this.toWorld(clientWidth, clientHeight);
    this.drawn = 0;
    for (const panel of this.panels) {
      const origin = this.toScreen(panel.x, panel.y);
      context.setTransform(scale * ratio, 0, 0, scale * ratio, origin.x * ratio, origin.y * ratio);
      const window_ = { left: corner.x - panel.x, right: end.x - panel.x, top: corner.y - panel.y, bottom: end.y - panel.y };
      this.paintEdges(panel, window_);
      for (const item of panel.layout.order)
        if (item.x + item.width / 2 >= window_.left && item.x - item.width / 2 <= window_.right && item.y + item.height / 2 >= window_.top && item.y - item.height / 2 <= window_.bottom)
          this.paintNode(panel, item);
      this.paintTitle(panel, origin, ratio);
    }
  }

  paintTitle(panel, origin, ratio) {
    if (!panel.title) return;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = `600 12px ${FONT}`;
    this.context.textAlign = "left";
    const { width } = this.context.measureText(panel.title), x = Math.max(origin.x, 12), y = Math.max(origin.y - 16, 20);
    const right = origin.x + (panel.layout.width + PANEL_GAP * 0.8) * this.camera.scale;
    if (this.panels.length > 1 && x + width > right && this.panels[0].y === this.panels[1].y) return;
    this.context.fillStyle = this.palette.canvas;
    this.context.fillRect(x - 5, y - 13, width + 10, 18);
    this.context.fillStyle = this.palette.faint;
    this.context.fillText(panel.title, x, y);
  }

  paintEdges(panel, { left, right, top, bottom }) {
    const context = this.context, chosen = [];
    context.lineWidth = Math.max(1, 0.6 / this.camera.scale);
    context.strokeStyle = this.palette.edge;
    context.beginPath();
    for (const edge of panel.layout.edges) {
      let low = Infinity, high = -Infinity;
      for (const item of edge.path) { low = Math.min(low, item.x); high = Math.max(high, item.x); }
      if (high < left || low > right || edge.to.y < top || edge.from.y > bottom) continue;
      if (this.isNear(panel, edge)) chosen.push(edge);
      else this.trace(edge);
    }
    context.stroke();
    context.strokeStyle = this.palette.accent;
    context.lineWidth *= 1.8;
    context.beginPath();
    for (const edge of chosen) this.trace(edge);
    context.stroke();
  }

  /** Whether an edge belongs to the node that the user points at or has chosen. */
  isNear(panel, edge) {
    const nodes = [this.selected, this.hovered?.panel === panel ? this.hovered.node : null];
    return nodes.includes(edge.from.node) || nodes.includes(edge.to.node);
  }

  trace(edge) {
    const context = this.context;
    let x = edge.from.x, y = edge.from.y + edge.from.height / 2;
    context.moveTo(x, y);
    for (const item of edge.path.slice(1)) {
      const isEnd = item === edge.to;
      const toX = isEnd ? item.x + edge.port * item.width * 0.6 : item.x, toY = isEnd ? item.y - item.height / 2 : item.y;
      const middle = (y + toY) / 2;
      context.bezierCurveTo(x, middle, toX, middle, toX, toY);
      x = toX;
      y = toY;
    }
    if (this.camera.scale < ONLY_OP) return;
    context.moveTo(x - 3.5, y - 6);
    context.lineTo(x, y);
    context.lineTo(x + 3.5, y - 6);
  }

  paintNode(panel, item) {
    const { context, palette } = this, { scale } = this.camera;
    const { node, width, height } = item;
    const left = item.x - width / 2, top = item.y - height / 2, mark = panel.marks.get(node);
    this.drawn++;
    context.globalAlpha = panel.graph.context.has(node) ? 0.55 : 1;
    context.beginPath();
    context.roundRect(left, top, width, height, 6);
    context.fillStyle = mark === "removed" ? palette["removed-fill"] : mark === "added" ? palette["added-fill"] : palette.node;
    context.fill();
    context.lineWidth = Math.max(mark ? 1.6 : 1, (mark ? 2 : 0.7) / scale);
    context.strokeStyle = mark === "removed" ? palette.removed : mark === "added" ? palette.added : mark === "found" ? palette.accent : palette.border;
    context.stroke();
    context.fillStyle = this.classColor(node);
    context.fillRect(left + 1, top + 6, STRIPE, height - 12);
    if (scale >= ONLY_OP) this.paintText(panel, node, left + STRIPE + PADDING, top + PADDING + 9, width - STRIPE - 2 * PADDING, item.y);
    context.globalAlpha = 1;
    const ring = node === this.selected ? palette.accent : this.matches.has(node) ? palette.match : this.hovered?.node === node && this.hovered.panel === panel ? palette.faint : null;
    if (!ring) return;
    context.beginPath();
    context.roundRect(left - 3, top - 3, width + 6, height + 6, 8);
    context.lineWidth = Math.max(2, 2 / scale);
    context.strokeStyle = ring;
    context.stroke();
  }

  paintText(panel, node, x, y, room, middle) {
    const { context, palette } = this;
    const [op, ...rows] = this.rowsOf(panel, node);
    context.textAlign = "left";
    context.fillStyle = palette.ink;
    if (this.camera.scale < FULL_TEXT) {
      context.font = `600 16px ${FONT}`;
      context.fillText(clipped(op, room, 9.5), x, middle + 6);
      return;
    }
    context.font = `600 12.5px ${FONT}`;
    context.fillText(clipped(op, room, 8), x, y);
    context.font = `11px ${MONO}`;
    context.fillStyle = palette.faint;
    for (const [k, row] of rows.entries()) context.fillText(clipped(row, room, this.letter), x, y + (k + 1) * ROW);
    context.textAlign = "right";
    if (node < this.model.known) context.fillText("%" + node, x + room, y);
  }

  classColor(node) {
    const name = this.model.label(node).class.toLowerCase();
    return this.palette[["elementwise", "movement", "leaf"].includes(name) ? name : "other"];
  }
}

/** The room that sizes take one after another. */
function total(sizes) {
  return sizes.reduce((sum, size) => sum + size, 0) + PANEL_GAP * (sizes.length - 1);
}

/** A text that fits, by the mean width of a letter. */
function clipped(text, room, letter) {
  const most = Math.max(1, Math.floor(room / letter));
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}
