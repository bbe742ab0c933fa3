#include "partition.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <unordered_map>

#include "signature.hpp"

namespace rulegrad {

namespace {

// The step of a loop is found again by what its values are made of, up to this many ops down.
constexpr int kDeepestLook = 8;
// The most elementwise ops between a value and what is in memory, where it is computed again by the subgraphs that read it.
constexpr uint32_t kDeepestAgain = 16;
// The cost of a value in memory at a cut besides its bytes.
constexpr uint64_t kEachValue = 64;

struct Run {
  uint32_t first, gap, times;  // levels first, first + gap, ..., of `times` values that are made alike
  uint32_t levels() const { return gap * (times - 1); }
  uint32_t last() const { return first + levels(); }
  bool meets(const Run& other) const { return other.first <= last() && first <= other.last(); }
};

struct Subgraph {
  std::vector<uint32_t> nodes, reads, outputs, unread;
};

// The graph below some roots, by levels: the longest chain of sources has one node at each, and every other node is computed as late as
// what reads it allows.
class LongGraph {
 public:
  // order: the nodes below the roots, sources first.
  LongGraph(const std::vector<Node*>& roots, std::vector<Node*> order, const std::vector<bool>& free, const std::vector<bool>& elementwise,
            uint32_t most, uint32_t size, uint32_t times)
      : size_(size), times_(times), order_(std::move(order)), is_very_long_(order_.size() > most) {
    static thread_local SideTable<uint32_t> number;
    number.begin();
    for (size_t k = 0; k < order_.size(); k++) {
      Node* n = order_[k];
      number[n] = uint32_t(k);
      begin_.push_back(uint32_t(sources_.size()));
      for (uint32_t j = 0; j < n->nsrc; j++) sources_.push_back(number[n->src[j]]);
    }
    begin_.push_back(uint32_t(sources_.size()));
    is_root_.resize(order_.size());
    for (Node* root : roots) is_root_[number[root]] = true;
    for (size_t k = 0; k < order_.size(); k++) {
      is_free_.push_back(free[order_[k]->op]);
      bool view = order_[k]->nsrc == 0 || is_free_.back();
      for_sources(k, [&](uint32_t s) { view = view && is_view_[s]; });
      is_view_.push_back(view);
    }
    find_slices();
    free_elementwise(elementwise);
  }

  // For each subgraph the outputs of earlier ones that it reads, its outputs, and the outputs that no later subgraph reads; none where nothing
  // recurs.
  nb::list subgraphs() {
    find_levels();
    std::vector<uint32_t> cuts = find_cuts();
    nb::list found;
    if (cuts.empty()) return found;
    for (const Subgraph& one : find_subgraphs(cuts))
      if (!one.outputs.empty()) found.append(nb::make_tuple(handles(one.reads), handles(one.outputs), handles(one.unread)));
    return found;
  }

 private:
  template <class Do>
  void for_sources(size_t node, Do act) const {
    for (uint32_t k = begin_[node]; k < begin_[node + 1]; k++) act(sources_[k]);
  }

  nb::list handles(const std::vector<uint32_t>& numbers) const {
    nb::list found;
    for (uint32_t k : numbers) found.append(Handle{Ref::share(order_[k])});
    return found;
  }

  // Views that are kept in memory: they are made early. Where each step made its own, no two steps would be alike.
  void find_slices() {
    static const int materialize = find_op("MATERIALIZE");
    for (size_t k = 0; k < order_.size(); k++) is_slice_.push_back(int(order_[k]->op) == materialize && is_free_[sources_[begin_[k]]]);
  }

  // What is quickly computed from what is in memory is computed again where it is read: a backward pass reads many such values.
  void free_elementwise(const std::vector<bool>& elementwise) {
    std::vector<uint32_t> depth(order_.size());
    for (size_t k = 0; k < order_.size(); k++) {
      const bool is_elementwise = elementwise[order_[k]->op];
      if (!is_elementwise && !is_free_[k]) continue;
      for_sources(k, [&](uint32_t s) { depth[k] = std::max(depth[k], depth[s] + is_elementwise); });
      depth[k] = std::min(depth[k], kDeepestAgain + 1);  // so deep, to the next op that is not elementwise, none is free
      is_free_[k] = is_free_[k] || depth[k] <= kDeepestAgain;
    }
  }

  void find_levels() {
    std::vector<uint32_t> earliest(order_.size());
    for (size_t k = 0; k < order_.size(); k++) for_sources(k, [&](uint32_t s) { earliest[k] = std::max(earliest[k], earliest[s] + 1); });
    constexpr uint32_t kNotRead = ~0u;
    level_.assign(order_.size(), kNotRead);
    for (size_t k = order_.size(); k-- > 0;) {
      if (level_[k] == kNotRead || is_slice_[k]) level_[k] = earliest[k];
      for_sources(k, [&](uint32_t s) { level_[s] = std::min(level_[s], level_[k] - 1); });
    }
    uint32_t next = uint32_t(std::max_element(earliest.begin(), earliest.end()) - earliest.begin());
    chain_.assign(earliest[next] + 1, next);
    for (uint32_t level = earliest[next]; level-- > 0;) {
      uint32_t source = next;
      for_sources(next, [&](uint32_t s) { source = earliest[s] == level ? s : source; });
      chain_[level] = next = source;
    }
    nodes_to_.assign(chain_.size() + 1, 0);  // how many nodes have a level below this one
    for (uint32_t level : level_) nodes_to_[level + 1]++;
    for (size_t k = 1; k < nodes_to_.size(); k++) nodes_to_[k] += nodes_to_[k - 1];
  }

  // A hash of each node and those below: ops, dtypes and numbers of axes, as sizes and numbers may differ from step to step.
  std::vector<uint64_t> kinds() {
    std::vector<uint64_t> kind(order_.size()), deeper(order_.size());
    auto mixed = [](uint64_t h, uint64_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u ^ (h >> 29); };
    for (size_t k = 0; k < order_.size(); k++) kind[k] = mixed(mixed(order_[k]->op, order_[k]->dtype + 1), shape_of(order_[k])->rank);
    for (int look = 0; look < kDeepestLook; look++) {
      for (size_t k = 0; k < order_.size(); k++) {
        deeper[k] = kind[k];
        for_sources(k, [&](uint32_t s) { deeper[k] = mixed(deeper[k], kind[s]); });
      }
      kind.swap(deeper);
    }
    return kind;
  }

  // Values along the chain that are made alike, at equal distances.
  std::vector<Run> runs() {
    const std::vector<uint64_t> kind = kinds();
    std::unordered_map<uint64_t, std::vector<uint32_t>> levels;
    for (uint32_t level = 0; level < chain_.size(); level++) levels[kind[chain_[level]]].push_back(level);
    std::vector<Run> found;
    for (auto& [_, at] : levels) {
      for (size_t first = 0, last; first + 1 < at.size(); first = last) {
        const uint32_t gap = at[first + 1] - at[first];
        for (last = first + 1; last + 1 < at.size() && at[last + 1] - at[last] == gap;) last++;
        const Run run{at[first], gap, uint32_t(last - first + 1)};
        const bool is_long = nodes_within(run) >= (is_very_long_ ? 2 : run.times - 1) * size_;
        if (run.times >= times_ && is_long) found.push_back(run);
      }
    }
    std::sort(found.begin(), found.end(),
              [](const Run& a, const Run& b) { return a.levels() != b.levels() ? a.levels() > b.levels() : a.first < b.first; });
    return found;
  }

  uint32_t nodes_within(const Run& run) const { return nodes_to_[run.last() + 1] - nodes_to_[run.first + 1]; }

  // For each level how much is kept in memory from it to a later one.
  std::vector<uint64_t> costs_of_cuts() {
    std::vector<uint32_t> read_to(order_.size());  // the last level at which it is read, through views of it
    std::vector<int64_t> change(chain_.size() + 1);
    for (size_t k = order_.size(); k-- > 0;) {
      const uint32_t to = std::max(level_[k], is_free_[k] ? read_to[k] : 0);
      for_sources(k, [&](uint32_t s) { read_to[s] = std::max(read_to[s], to); });
      if (is_free_[k] || is_view_[k] || read_to[k] <= level_[k]) continue;
      const int64_t cost = int64_t(kEachValue) + element_count(shape_of(order_[k])) * dtype_info(order_[k]->dtype).bits / 8;
      change[level_[k]] += cost;
      change[read_to[k]] -= cost;
    }
    std::vector<uint64_t> found;
    int64_t sum = 0;
    for (int64_t by : change) found.push_back(uint64_t(sum += by));
    return found;
  }

  // The levels after which a subgraph ends. The first step of a loop is one of its own: it begins at other values than the others do.
  std::vector<uint32_t> find_cuts() {
    std::vector<uint32_t> cuts;
    std::vector<Run> waiting = runs();
    if (waiting.empty()) return cuts;
    const std::vector<uint64_t> cost = costs_of_cuts();
    auto mean = [&](const Run& run) {
      double sum = 0;
      for (uint32_t level = run.first; level <= run.last(); level += run.gap) sum += double(cost[level]);
      return sum / run.times;
    };
    while (!waiting.empty()) {
      // All values of a step recur alike: of those that do so as often, the one where least is kept.
      const Run longest = waiting.front();
      Run best = longest;
      double least = mean(best);
      for (const Run& run : waiting) {
        if (run.levels() + 2 * run.gap < longest.levels()) break;
        if (run.gap != longest.gap || !longest.meets(run)) continue;
        if (const double cost_of_run = mean(run); cost_of_run < least) best = run, least = cost_of_run;
      }
      const uint32_t steps = std::max(1u, uint32_t(uint64_t(size_) * (best.times - 1) / nodes_within(best)));
      for (uint32_t level = best.first; level <= best.last(); level += best.gap * steps) cuts.push_back(level);
      waiting.erase(std::remove_if(waiting.begin(), waiting.end(), [&](const Run& run) { return best.meets(run); }), waiting.end());
    }
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

  std::vector<Subgraph> find_subgraphs(const std::vector<uint32_t>& cuts) {
    std::vector<uint32_t> home;
    std::vector<Subgraph> found(cuts.size() + 1);
    for (size_t k = 0; k < order_.size(); k++) {
      home.push_back(uint32_t(std::lower_bound(cuts.begin(), cuts.end(), level_[k]) - cuts.begin()));
      found[home[k]].nodes.push_back(uint32_t(k));
    }
    std::vector<uint32_t> last_read(order_.size());  // the last subgraph that reads the value from memory; the first does not
    std::vector<uint32_t> stack;
    for (uint32_t p = 0; p < found.size(); p++) {
      for (uint32_t k : found[p].nodes) {
        for_sources(k, [&](uint32_t s) {
          if (home[s] < p) stack.push_back(s);
        });
        while (!stack.empty()) {
          const uint32_t s = stack.back();
          stack.pop_back();
          if (is_view_[s] || last_read[s] == p) continue;
          last_read[s] = p;
          if (is_free_[s]) for_sources(s, [&](uint32_t below) { stack.push_back(below); });
          else found[p].reads.push_back(s);
        }
      }
    }
    for (uint32_t k = 0; k < order_.size(); k++) {
      const bool is_read = last_read[k] && !is_free_[k];
      if (is_read || is_root_[k]) found[home[k]].outputs.push_back(k);
      if (is_read && !is_root_[k]) found[last_read[k]].unread.push_back(k);
    }
    return found;
  }

  uint32_t size_, times_;
  std::vector<Node*> order_;
  bool is_very_long_;                                         // else it is partitioned only where each step is a subgraph
  std::vector<uint32_t> begin_, sources_;                     // the sources of the node k from begin_[k] to begin_[k + 1]
  std::vector<bool> is_root_, is_free_, is_view_, is_slice_;  // free: computed again where it is read; view: of what is in memory
  std::vector<uint32_t> level_, chain_, nodes_to_;
};

nb::list partition(const std::vector<Handle>& roots, const std::vector<std::string>& free, const std::vector<std::string>& elementwise, uint32_t most,
                   uint32_t size, uint32_t times) {
  std::vector<Node*> nodes;
  for (const Handle& root : roots) nodes.push_back(root.ref.n);
  std::vector<Node*> order = toposort(nodes);
  if (order.size() <= most / 2) return {};
  auto among = [](const std::vector<std::string>& names) {
    std::vector<bool> found(op_count());
    for (const std::string& name : names)
      if (int op = find_op(name); op >= 0) found[size_t(op)] = true;
    return found;
  };
  // An effect happens once, and where it stands; what is not a value cannot be kept; what is to be computed again is not to be kept.
  static const int later = find_op("LATER");
  for (Node* n : order) {
    const Kind kind = dtype_info(n->dtype).kind;
    const bool is_value = kind != Kind::Void && kind != Kind::Index;
    if (!is_value || n->op == known_ops.AFTER || int(n->op) == later || (n->op == known_ops.BUFFER && is_in_parts(n))) return {};
  }
  return LongGraph(nodes, std::move(order), among(free), among(elementwise), most, size, times).subgraphs();
}

}  // namespace

void define_partition(nb::module_& m) {
  m.def("partition", &partition, nb::arg("roots"), nb::arg("free"), nb::arg("elementwise"), nb::arg("most"), nb::arg("size"), nb::arg("times"),
        "Graphs of more than `most` nodes, if a step recurs `times` times in them, or of half as many if a step has `size` nodes, in "
        "subgraphs: for each of about `size` nodes the outputs of others that it reads, its outputs, and the outputs that no later subgraph "
        "reads. Values of the ops `free`, and those of `elementwise` near what is in memory, are computed again where they are read.");
}

}  // namespace rulegrad
