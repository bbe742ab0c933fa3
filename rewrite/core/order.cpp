// A kernel in linear order. Every RANGE is one loop. A node stands in the innermost loop whose counter it depends on; loops nest as the
// ranges that are still open where they end. Within a loop's body: sources first, then the pass's priorities, then the order of the graph.
#include <algorithm>
#include <bit>
#include <queue>
#include <set>

#include "firing.hpp"

namespace rulegrad {

namespace {

constexpr uint32_t kNoRange = ~0u;

// Nodes are known by their places in the graph's order, loops by the numbers of their ranges; a set of loops is some words of bits.
class Linearizer {
 public:
  Linearizer(const Pass& pass, Node* root) : pass_(pass), root_(root), order_(toposort(root)) {
    place_->begin();
    range_.assign(order_.size(), kNoRange);
    for (uint32_t k = 0; k < order_.size(); k++) {
      Node* n = order_[k];
      (*place_)[n] = k;
      const OpInfo& info = op_info(n->op);
      if (info.closes && n->op != known_ops.END)
        throw RewriteError("pass " + pass.name->text + ": a " + info.name->text + " is left in the kernel; it must be lowered before");
      if (n->op == known_ops.RANGE) {
        range_[k] = uint32_t(ranges_.size());
        ranges_.push_back(n);
      }
    }
    words_ = ranges_.size() / 64 + 1;
    open_.resize(order_.size() * words_);
    outer_.resize(ranges_.size() * words_);
  }

  std::vector<Line> run() {
    find_parents();
    make_items();
    connect();
    emit();
    return std::move(lines_);
  }

 private:
  using Set = uint64_t*;

  Set open(uint32_t place) { return open_.data() + place * words_; }
  Set outer(uint32_t range) { return outer_.data() + range * words_; }
  bool has(const uint64_t* set, uint32_t range) const { return set[range / 64] >> (range % 64) & 1; }
  void add(Set set, uint32_t range) { set[range / 64] |= uint64_t(1) << (range % 64); }
  // Whether the set grows.
  bool merge(Set into, const uint64_t* from) {
    bool grown = false;
    for (size_t k = 0; k < words_; k++) {
      grown |= (from[k] & ~into[k]) != 0;
      into[k] |= from[k];
    }
    return grown;
  }
  size_t size(const uint64_t* set) const {
    size_t count = 0;
    for (size_t k = 0; k < words_; k++) count += size_t(std::popcount(set[k]));
    return count;
  }
  template <typename F>
  void each(const uint64_t* set, F f) const {
    for (size_t k = 0; k < words_; k++)
      for (uint64_t word = set[k]; word; word &= word - 1) f(uint32_t(k * 64 + size_t(std::countr_zero(word))));
  }
  uint32_t place_of(Node* n) { return (*place_)[n]; }
  uint32_t range_of(Node* n) { return range_[place_of(n)]; }

  // The open ranges of every node, where a RANGE also counts the loops around it.
  void find_open() {
    for (uint32_t place = 0; place < order_.size(); place++) {
      Node* n = order_[place];
      Set s = open(place);
      const bool end = n->op == known_ops.END;
      std::fill(s, s + words_, 0);
      for (uint32_t k = 0; k < (end ? 1u : n->nsrc); k++) merge(s, open(place_of(n->src[k])));
      if (n->op == known_ops.RANGE) {
        add(s, range_[place]);
        merge(s, outer(range_[place]));
      }
      if (!end) continue;
      for (uint32_t k = 1; k < n->nsrc; k++) {
        if (n->src[k]->op != known_ops.RANGE) throw RewriteError("END closes something that is not a RANGE: " + describe(n->src[k]));
        const uint32_t range = range_of(n->src[k]);
        s[range / 64] &= ~(uint64_t(1) << (range % 64));
      }
    }
  }

  void find_parents() {
    std::vector<bool> closed(ranges_.size());
    std::vector<uint64_t> around(words_);
    for (size_t round = 0; round <= ranges_.size() + 1; round++) {
      find_open();
      bool changed = false;
      for (uint32_t place = 0; place < order_.size(); place++) {
        Node* n = order_[place];
        if (n->op != known_ops.END) continue;
        std::copy(open(place), open(place) + words_, around.begin());
        for (uint32_t k = 1; k < n->nsrc; k++) {
          const uint32_t range = range_of(n->src[k]);
          closed[range] = true;
          changed |= merge(outer(range), around.data());
          add(around.data(), range);
        }
      }
      if (!changed) break;
    }
    for (uint32_t r = 0; r < ranges_.size(); r++) {
      if (!closed[r]) throw RewriteError("the loop over " + describe(ranges_[r]) + " is never closed by an END");
      if (has(outer(r), r)) throw RewriteError("the loop over " + describe(ranges_[r]) + " would stand inside itself");
      each(outer(r), [&](uint32_t other) {
        if (has(outer(other), r))
          throw RewriteError("the loops over " + describe(ranges_[r]) + " and " + describe(ranges_[other]) + " would each stand inside the other");
      });
    }
    for (uint32_t r = 0; r < ranges_.size(); r++) parent_.push_back(innermost(outer(r), ranges_[r]));
  }

  // The loop of the set that stands inside all others of it.
  uint32_t innermost(const uint64_t* set, Node* where) {
    uint32_t best = kNoRange;
    each(set, [&](uint32_t r) {
      if (best == kNoRange || size(outer(r)) > size(outer(best))) best = r;
    });
    each(set, [&](uint32_t r) {
      if (r != best && !has(outer(best), r))
        throw RewriteError("the loops over " + describe(ranges_[r]) + " and " + describe(ranges_[best]) + " do not nest, but " + describe(where) +
                           " needs both");
    });
    return best;
  }

  int priority_of(const Node* n) const {
    for (const Priority& p : pass_.priorities)
      if (p.op == n->op && (p.attribute < 0 || (n->attrs && p.attribute < int(n->attrs->size) && equal(n->attrs->items[p.attribute], p.value))))
        return p.priority;
    return 0;
  }

  bool is_item(Node* n) const { return n != root_ && n->op != known_ops.END; }
  // The contents of a block; the last block is that outside all loops.
  std::vector<uint32_t>& contents(uint32_t block) { return contents_[block == kNoRange ? ranges_.size() : block]; }

  void make_items() {
    contents_.resize(ranges_.size() + 1);
    block_.assign(order_.size(), kNoRange);
    priority_.assign(order_.size(), 0);
    for (uint32_t place = 0; place < order_.size(); place++) {
      Node* n = order_[place];
      if (!is_item(n)) continue;
      block_[place] = n->op == known_ops.RANGE ? parent_[range_[place]] : innermost(open(place), n);
      priority_[place] = priority_of(n);
      contents(block_[place]).push_back(place);
    }
  }

  // The item in `block` that holds what stands in `inner`; false when block is not around it.
  bool holder(uint32_t inner, uint32_t block, uint32_t& item) {
    while (inner != block) {
      if (inner == kNoRange) return false;
      item = place_of(ranges_[inner]);
      inner = parent_[inner];
    }
    return true;
  }

  using Edges = std::vector<std::pair<uint32_t, uint32_t>>;

  // The loads of what is overwritten before the stores.
  void connect_overwritten(Edges& edges) {
    for (Node* p : overwritten(order_)) {
      std::vector<uint32_t> loads, stores;
      for (uint32_t place = 0; place < order_.size(); place++) {
        if (stored_parameter(order_[place]) == p) stores.push_back(place);
        else if (loaded_parameter(order_[place]) == p) loads.push_back(place);
      }
      for (uint32_t load : loads)
        for (uint32_t store : stores) {
          uint32_t from = load;
          if (holder(block_[load], block_[store], from) && from != store) edges.emplace_back(from, store);
        }
    }
  }

  void connect() {
    Edges edges;
    for (uint32_t place = 0; place < order_.size(); place++) {
      Node* n = order_[place];
      if (!is_item(n)) continue;
      for (uint32_t k = 0; k < n->nsrc; k++) {
        Node* s = n->src[k];
        if (s->op == known_ops.RANGE) continue;
        uint32_t from = place_of(s), block = block_[from];
        if (s->op == known_ops.END) {  // after the outermost loop that it closes
          innermost(open(from), s);
          if (s->nsrc == 1) continue;
          uint32_t outermost = range_of(s->src[1]);
          for (uint32_t j = 1; j < s->nsrc; j++)
            if (size(outer(range_of(s->src[j]))) < size(outer(outermost))) outermost = range_of(s->src[j]);
          block = parent_[outermost];
          from = place_of(ranges_[outermost]);
        }
        uint32_t to = place;
        if (!holder(block_[place], block, to)) throw RewriteError(describe(n) + " uses " + describe(s) + " outside the loop that computes it");
        if (from != to) edges.emplace_back(from, to);
      }
    }
    connect_overwritten(edges);
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    pending_.assign(order_.size(), 0);
    first_.assign(order_.size() + 1, 0);
    for (auto [from, to] : edges) {
      first_[from + 1]++;
      pending_[to]++;
      followers_.push_back(to);
    }
    for (size_t k = 0; k < order_.size(); k++) first_[k + 1] += first_[k];
  }

  // Bodies are emitted with a stack of their own: (block, its items in order, position).
  void emit() {
    struct Body {
      Node* loop;
      std::vector<uint32_t> items;
      size_t next;
    };
    std::vector<Body> stack{{nullptr, sorted(kNoRange), 0}};
    while (!stack.empty()) {
      Body& b = stack.back();
      if (b.next == b.items.size()) {
        if (b.loop) lines_.push_back({b.loop, b.loop});
        stack.pop_back();
        continue;
      }
      const uint32_t item = b.items[b.next++];
      lines_.push_back({order_[item], nullptr});
      if (range_[item] != kNoRange) stack.push_back({order_[item], sorted(range_[item]), 0});
    }
  }

  std::vector<uint32_t> sorted(uint32_t block) {
    auto later = [&](uint32_t a, uint32_t b) { return priority_[a] != priority_[b] ? priority_[a] > priority_[b] : a > b; };
    std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(later)> ready(later);
    const std::vector<uint32_t>& all = contents(block);
    for (uint32_t k : all)
      if (pending_[k] == 0) ready.push(k);
    std::vector<uint32_t> out;
    while (!ready.empty()) {
      const uint32_t k = ready.top();
      ready.pop();
      out.push_back(k);
      for (uint32_t j = first_[k]; j < first_[k + 1]; j++)
        if (--pending_[followers_[j]] == 0) ready.push(followers_[j]);
    }
    if (out.size() != all.size()) throw RewriteError("two loops of the kernel need each other's results");
    return out;
  }

  const Pass& pass_;
  Node* root_;
  std::vector<Node*> order_, ranges_;
  Lease<SideTable<uint32_t>> place_;
  size_t words_ = 0;                         // of a set
  std::vector<uint64_t> open_, outer_;       // sets: of nodes, of loops
  std::vector<uint32_t> range_, block_;      // of nodes
  std::vector<uint32_t> parent_;             // of loops
  std::vector<int> priority_;                // of nodes
  std::vector<uint32_t> pending_;            // how many items a node waits for
  std::vector<uint32_t> first_, followers_;  // of each node, from its first to that of the next
  std::vector<std::vector<uint32_t>> contents_;
  std::vector<Line> lines_;
};

}  // namespace

namespace {

// Memory in a loop, which is there so that what is done with it stands in the loop: no store comes before.
bool is_in_loop(const Node* n) {
  return n->op == known_ops.AFTER && std::all_of(n->src + 1, n->src + n->nsrc, [](const Node* s) { return s->op == known_ops.RANGE; });
}

Node* parameter_at(Node* at) {
  while (at->op == known_ops.INDEX || is_in_loop(at)) at = at->src[0];
  return at->op == known_ops.PARAM ? at : nullptr;
}

}  // namespace

Node* loaded_parameter(const Node* n) {
  if (n->op == known_ops.INDEX) return nullptr;
  // a statement stores at the first of its places, and loads from others, as copies do
  for (uint32_t k = n->dtype == known_dtypes.void_ ? 1 : 0; k < n->nsrc; k++)
    if (n->src[k]->op == known_ops.INDEX)
      if (Node* p = parameter_at(n->src[k])) return p;
  return nullptr;
}

Node* stored_parameter(const Node* n) {
  return n->dtype == known_dtypes.void_ && n->nsrc && n->src[0]->op == known_ops.INDEX ? parameter_at(n->src[0]) : nullptr;
}

std::vector<Node*> overwritten(const std::vector<Node*>& nodes) {
  std::set<Node*> stored, loaded;
  for (const Node* n : nodes) {
    if (Node* p = stored_parameter(n)) stored.insert(p);
    if (Node* p = loaded_parameter(n)) loaded.insert(p);
  }
  std::vector<Node*> both;
  if (stored.size() > 1) std::set_intersection(stored.begin(), stored.end(), loaded.begin(), loaded.end(), std::back_inserter(both));
  return both;
}

std::vector<Line> linearize(const Pass& pass, Node* root) {
  if (pass.kind != PassKind::Order) throw RewriteError("pass " + pass.name->text + " is not an order pass");
  return Linearizer(pass, root).run();
}

}  // namespace rulegrad
