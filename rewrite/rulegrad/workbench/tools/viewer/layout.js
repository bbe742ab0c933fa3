// A layered layout: sources above what uses them, few crossings, short edges.
//
// 1. A node's layer is its longest way down to a root. 2. Edges that skip layers get a bend in each. 3. Layers are ordered by
// the mean place of neighbours. 4. Each layer is placed as near to its neighbours as the order and the widths allow.

const LAYER_GAP = 46, NODE_GAP = 22, BEND_GAP = 12;
const LONGEST_BENT = 12; // an edge over more layers than that is drawn in one stroke
const EFFORT = [[400, 12], [2500, 5], [Infinity, 2]]; // up to so many items, so many sweeps

class Layout {
  /** `sources(node)` gives the drawn sources of a node, `size(node)` its {width, height}. */
  constructor(roots, sources, size) {
    this.items = []; // nodes and bends: {node or null, layer, width, height, above: [], below: [], x, y}
    this.itemOf = new Map();
    this.order = [];
    this.walk(roots, sources, size);
    this.assignLayers(sources);
    this.edges = this.connect(sources);
    const sweeps = EFFORT.find(([most]) => this.items.length <= most)[1];
    this.orderLayers(sweeps);
    this.placeLayers(sweeps);
    this.bounds();
  }

  /** All nodes, sources first. */
  walk(roots, sources, size) {
    const stack = roots.map((root) => [root, 0]), entered = new Set(roots);
    while (stack.length) {
      const frame = stack.at(-1), below = sources(frame[0]);
      const next = below[frame[1]++];
      if (next === undefined) {
        const item = { node: frame[0], layer: 0, ...size(frame[0]), above: [], below: [], x: 0, y: 0, place: 0 };
        this.itemOf.set(frame[0], item);
        this.order.push(item);
        stack.pop();
      } else if (!entered.has(next)) {
        entered.add(next);
        stack.push([next, 0]);
      }
    }
  }

  assignLayers(sources) {
    let deepest = 0;
    for (const item of this.order.toReversed())
      for (const source of sources(item.node)) {
        const above = this.itemOf.get(source);
        above.layer = Math.max(above.layer, item.layer + 1);
        deepest = Math.max(deepest, above.layer);
      }
    this.layers = Array.from({ length: deepest + 1 }, () => []);
    for (const item of this.order) {
      item.layer = deepest - item.layer; // from the top
      this.add(item);
    }
  }

  add(item) {
    item.place = this.layers[item.layer].push(item) - 1;
    this.items.push(item);
  }

  /** The edges, each with the items that it passes: source, bends, consumer. */
  connect(sources) {
    const edges = [];
    for (const item of this.order) {
      const below = sources(item.node);
      for (const [port, source] of below.entries()) {
        const from = this.itemOf.get(source);
        const path = [from];
        if (item.layer - from.layer <= LONGEST_BENT)
          for (let layer = from.layer + 1; layer < item.layer; layer++) {
            const bend = { node: null, layer, width: 2, height: 0, above: [], below: [], x: 0, y: 0, place: 0 };
            this.add(bend);
            path.push(bend);
          }
        path.push(item);
        for (let k = 1; k < path.length; k++) {
          path[k - 1].below.push(path[k]);
          path[k].above.push(path[k - 1]);
        }
        edges.push({ from, to: item, path, port: below.length > 1 ? (port + 1) / (below.length + 1) - 0.5 : 0 });
      }
    }
    return edges;
  }

  orderLayers(sweeps) {
    for (let sweep = 0; sweep < sweeps; sweep++) {
      const down = sweep % 2 === 0;
      for (const layer of down ? this.layers : this.layers.toReversed()) {
        for (const item of layer) {
          const near = down ? item.above : item.below;
          item.key = near.length ? near.reduce((sum, other) => sum + other.place / this.layers[other.layer].length, 0) / near.length : item.place / layer.length;
        }
        layer.sort((a, b) => a.key - b.key || a.place - b.place);
        layer.forEach((item, place) => { item.place = place; });
      }
    }
  }

  placeLayers(sweeps) {
    let y = 0;
    for (const layer of this.layers) {
      const height = Math.max(...layer.map((item) => item.height), 0);
      let x = 0;
      for (const item of layer) {
        item.y = y + height / 2;
        item.x = x + item.width / 2;
        x += item.width + gapAfter(item);
      }
      for (const item of layer) item.x -= x / 2;
      y += height + LAYER_GAP;
    }
    for (let sweep = 0; sweep < sweeps; sweep++)
      for (const layer of sweep % 2 === 0 ? this.layers : this.layers.toReversed())
        placeLayer(layer, (item) => (sweep === sweeps - 1 ? [...item.above, ...item.below] : sweep % 2 === 0 ? item.above : item.below));
  }

  bounds() {
    let left = Infinity, right = -Infinity, bottom = 0;
    for (const item of this.items) {
      left = Math.min(left, item.x - item.width / 2);
      right = Math.max(right, item.x + item.width / 2);
      bottom = Math.max(bottom, item.y + item.height / 2);
    }
    for (const item of this.items) item.x -= left;
    this.width = Math.max(right - left, 0);
    this.height = bottom;
  }
}

function gapAfter(item) { return item.node === null ? BEND_GAP : NODE_GAP; }

/** Puts each item at the mean of its neighbours, as near as the items beside it allow (pool adjacent violators). */
function placeLayer(layer, neighbours) {
  const blocks = []; // {sum, count, items}: items that touch, and the mean of where their first item wants to be
  let offset = 0;
  const offsets = [];
  for (const [k, item] of layer.entries()) {
    if (k) offset += (layer[k - 1].width + item.width) / 2 + gapAfter(layer[k - 1]);
    offsets.push(offset);
    const near = neighbours(item);
    const wanted = near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : item.x;
    let block = { sum: wanted - offset, count: 1, last: k };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).count >= block.sum / block.count) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, count: before.count + block.count, last: k };
    }
    blocks.push(block);
  }
  let k = 0;
  for (const block of blocks)
    for (; k <= block.last; k++) layer[k].x = block.sum / block.count + offsets[k];
}
