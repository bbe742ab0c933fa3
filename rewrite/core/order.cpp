// A kernel in linear order. Every RANGE is one loop. A node stands in the innermost loop whose counter it depends on; loops nest as the
// ranges that are still open where they end. Within a loop's body: sources first, then the pass's priorities, then the order of the graph.
#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "rewrite.hpp"

namespace rulegrad {

namespace {

struct Item {
  Node* node;  // of a plain item; the RANGE of a loop
  bool loop;
  int priority;
  size_t place;  // in the graph's order
  std::vector<size_t> followers;
  size_t pending = 0;
};

class Linearizer {
 public:
  Linearizer(const Pass& pass, Node* root) : pass_(pass), root_(root), order_(toposort({root})) {
    for (Node* n : order_) {
      const OpInfo& info = op_info(n->op);
      if (info.closes && n->op != known_ops.END)
        throw RewriteError("pass " + pass.name->text + ": a " + info.name->text + " is left in the kernel; it must be lowered before");
      if (n->op == known_ops.RANGE) ranges_.push_back(n);
    }
  }

  std::vector<Line> run() {
    find_parents();
    make_items();
    connect();
    emit();
    return std::move(lines_);
  }

 private:
  using Set = std::vector<Node*>;  // ranges, sorted by address

  static void merge(Set& into, const Set& from) {
    Set both;
    std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(both));
    into.swap(both);
  }

  // The open ranges of every node, where a RANGE also counts the loops around it.
  void find_open() {
    open_.clear();
    for (Node* n : order_) {
      Set s;
      bool end = n->op == known_ops.END;
      for (uint32_t k = 0; k < (end ? 1u : n->nsrc); k++) merge(s, open_[n->src[k]]);
      if (n->op == known_ops.RANGE) {
        merge(s, Set{n});
        merge(s, outer_[n]);
      }
      if (end)
        for (uint32_t k = 1; k < n->nsrc; k++) {
          if (n->src[k]->op != known_ops.RANGE) throw RewriteError("END closes something that is not a RANGE: " + describe(n->src[k]));
          s.erase(std::remove(s.begin(), s.end(), n->src[k]), s.end());
        }
      open_[n] = s;
    }
  }

  void find_parents() {
    for (size_t round = 0; round <= ranges_.size() + 1; round++) {
      find_open();
      bool changed = false;
      for (Node* n : order_) {
        if (n->op != known_ops.END) continue;
        Set around = open_[n];
        for (uint32_t k = 1; k < n->nsrc; k++) {
          closed_.insert(n->src[k]);
          Set before = outer_[n->src[k]];
          merge(outer_[n->src[k]], around);
          changed |= before != outer_[n->src[k]];
          merge(around, Set{n->src[k]});
        }
      }
      if (!changed) break;
    }
    for (Node* r : ranges_) {
      if (!closed_.count(r)) throw RewriteError("the loop over " + describe(r) + " is never closed by an END");
      if (std::binary_search(outer_[r].begin(), outer_[r].end(), r))
        throw RewriteError("the loop over " + describe(r) + " would stand inside itself");
      for (Node* other : outer_[r])
        if (std::binary_search(outer_[other].begin(), outer_[other].end(), r))
          throw RewriteError("the loops over " + describe(r) + " and " + describe(other) + " would each stand inside the other");
    }
    for (Node* r : ranges_) parent_[r] = innermost(outer_[r], r);
  }

  // The loop of the set that stands inside all others of it.
  Node* innermost(const Set& s, Node* where) {
    Node* best = nullptr;
    for (Node* r : s)
      if (!best || outer_[r].size() > outer_[best].size()) best = r;
    for (Node* r : s)
      if (r != best && !std::binary_search(outer_[best].begin(), outer_[best].end(), r))
        throw RewriteError("the loops over " + describe(r) + " and " + describe(best) + " do not nest, but " + describe(where) + " needs both");
    return best;
  }

  int priority_of(const Node* n) const {
    for (const Priority& p : pass_.priorities)
      if (p.op == n->op && (p.attribute < 0 || (n->attrs && p.attribute < int(n->attrs->size) && equal(n->attrs->items[p.attribute], p.value))))
        return p.priority;
    return 0;
  }

  void make_items() {
    for (size_t k = 0; k < order_.size(); k++) {
      Node* n = order_[k];
      if (n->op == known_ops.END || n == root_) continue;
      bool loop = n->op == known_ops.RANGE;
      Node* block = loop ? parent_[n] : innermost(open_[n], n);
      item_of_[n] = items_.size();
      block_of_[n] = block;
      items_.push_back({n, loop, priority_of(n), k, {}, 0});
      contents_[block].push_back(items_.size() - 1);
    }
  }

  // The item in `block` that holds what stands in `inner`; none when block is not around it.
  bool holder(Node* inner, Node* block, size_t& item) {
    while (inner != block) {
      if (!inner) return false;
      item = item_of_[inner];
      inner = parent_[inner];
    }
    return true;
  }

  void edge(size_t from, size_t to) {
    if (from == to || !edges_.insert({from, to}).second) return;
    items_[from].followers.push_back(to);
    items_[to].pending++;
  }

  void connect() {
    for (Node* n : order_) {
      if (n == root_ || n->op == known_ops.END) continue;
      bool loop = n->op == known_ops.RANGE;
      for (uint32_t k = 0; k < n->nsrc; k++) {
        Node* s = n->src[k];
        std::vector<Node*> ends{s};
        if (s->op == known_ops.RANGE) continue;
        Node* block;
        size_t from;
        if (s->op == known_ops.END) {  // after the outermost loop that it closes
          block = innermost(open_[s], s);
          if (s->nsrc == 1) continue;
          Node* outermost = s->src[1];
          for (uint32_t j = 1; j < s->nsrc; j++)
            if (outer_[s->src[j]].size() < outer_[outermost].size()) outermost = s->src[j];
          block = parent_[outermost];
          from = item_of_[outermost];
        } else {
          block = block_of_[s];
          from = item_of_[s];
        }
        size_t to = item_of_[n];
        Node* at = loop ? parent_[n] : block_of_[n];
        if (!holder(at, block, to)) throw RewriteError(describe(n) + " uses " + describe(s) + " outside the loop that computes it");
        edge(from, to);
      }
    }
    connect_overwritten();
  }

  // The loads of what is overwritten before the stores.
  void connect_overwritten() {
    std::map<Node*, std::pair<Set, Set>> accesses;  // loads and stores
    for (Node* p : overwritten(order_)) accesses[p];
    if (accesses.empty()) return;
    for (Node* n : order_)
      if (auto found = accesses.find(parameter_of(n)); found != accesses.end())
        (n->dtype == known_dtypes.void_ ? found->second.second : found->second.first).push_back(n);
    for (auto& [p, both] : accesses)
      for (Node* load : both.first)
        for (Node* store : both.second) {
          size_t from = item_of_[load];
          if (holder(block_of_[load], block_of_[store], from)) edge(from, item_of_[store]);
        }
  }

  // Bodies are emitted with a stack of their own: (block, its items in order, position).
  void emit() {
    struct Body {
      Node* loop;
      std::vector<size_t> items;
      size_t next;
    };
    std::vector<Body> stack{{nullptr, sorted(nullptr), 0}};
    while (!stack.empty()) {
      Body& b = stack.back();
      if (b.next == b.items.size()) {
        if (b.loop) lines_.push_back({b.loop, b.loop});
        stack.pop_back();
        continue;
      }
      const Item& item = items_[b.items[b.next++]];
      lines_.push_back({item.node, nullptr});
      if (item.loop) {
        Node* loop = item.node;
        stack.push_back({loop, sorted(loop), 0});
      }
    }
  }

  std::vector<size_t> sorted(Node* block) {
    auto later = [&](size_t a, size_t b) {
      const Item &x = items_[a], &y = items_[b];
      return x.priority != y.priority ? x.priority > y.priority : x.place > y.place;
    };
    std::priority_queue<size_t, std::vector<size_t>, decltype(later)> ready(later);
    const std::vector<size_t>& all = contents_[block];
    for (size_t k : all)
      if (items_[k].pending == 0) ready.push(k);
    std::vector<size_t> out;
    while (!ready.empty()) {
      size_t k = ready.top();
      ready.pop();
      out.push_back(k);
      for (size_t f : items_[k].followers)
        if (--items_[f].pending == 0) ready.push(f);
    }
    if (out.size() != all.size()) throw RewriteError("two loops of the kernel need each other's results");
    return out;
  }

  const Pass& pass_;
  Node* root_;
  std::vector<Node*> order_, ranges_;
  std::map<Node*, Set> open_, outer_;
  std::set<Node*> closed_;
  std::map<Node*, Node*> parent_, block_of_;
  std::map<Node*, size_t> item_of_;
  std::vector<Item> items_;
  std::map<Node*, std::vector<size_t>> contents_;
  std::set<std::pair<size_t, size_t>> edges_;
  std::vector<Line> lines_;
};

}  // namespace

Node* parameter_of(const Node* n) {
  if (n->op == known_ops.INDEX) return nullptr;
  for (uint32_t k = 0; k < n->nsrc; k++) {
    Node* at = n->src[k];
    if (at->op != known_ops.INDEX) continue;
    while (at->op == known_ops.INDEX) at = at->src[0];
    if (at->op == known_ops.PARAM) return at;
  }
  return nullptr;
}

std::vector<Node*> overwritten(const std::vector<Node*>& nodes) {
  std::set<Node*> stored, loaded;
  for (const Node* n : nodes)
    if (Node* p = parameter_of(n)) (n->dtype == known_dtypes.void_ ? stored : loaded).insert(p);
  std::vector<Node*> both;
  if (stored.size() > 1) std::set_intersection(stored.begin(), stored.end(), loaded.begin(), loaded.end(), std::back_inserter(both));
  return both;
}

std::vector<Line> linearize(const Pass& pass, Node* root) {
  if (pass.kind != PassKind::Order) throw RewriteError("pass " + pass.name->text + " is not an order pass");
  return Linearizer(pass, root).run();
}

}  // namespace rulegrad
