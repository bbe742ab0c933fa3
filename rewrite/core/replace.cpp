// Collect and flow passes: facts or states are computed on the graph as it is given, rules are tried on its nodes, and all
// replacements are made at once. Nodes of the graph that a template uses are replaced by their own results; what the rule built
// itself is not, even where it is equal to a node of the graph.
#include <algorithm>

#include "dataflow.hpp"
#include "firing.hpp"

namespace rulegrad {

namespace {

enum Progress : uint8_t { kWaiting = 0, kOpen = 1, kFinal = 2 };

struct Place {
  Node* made = nullptr;  // by the rule that fired
  uint32_t rule = kNoRule;
  Progress progress = kWaiting;
  Node* result = nullptr;
};

// A node whose sources are looked at. context: the node of the graph whose template it is a part of, or null for a node of the
// graph; the node itself, within its own template, is itself with final sources.
struct ReplaceFrame {
  Node* node;
  Node* context;
  uint32_t next = 0;
};

struct PairHash {
  size_t operator()(const std::pair<Node*, Node*>& p) const {
    return mix(reinterpret_cast<uintptr_t>(p.first), reinterpret_cast<uintptr_t>(p.second));
  }
};

class Replacer : Firer {
 public:
  Replacer(const Program& program, const Pass& pass, const Options& options, Outcome& out) : Firer(program, pass, options, out) {}

  void run(Node* root) {
    root_ = root;
    if (leaps_over(root) && !numbers()) {
      out_.root = Ref::share(root);
      return;
    }
    order_ = toposort(root);
    look_around();
    if (pass_.kind == PassKind::Collect) collect();
    else flow();
    places_->begin();
    for (Node* n : order_) try_at(n);
    for (Node* n : order_) {
      Place& p = (*places_)[n];
      if (p.made) settle(n);
      else if (p.progress != kFinal) p = {nullptr, kNoRule, kFinal, with_final_sources(n)};
    }
    report();
  }

 private:
  // Whether a fact is of use to others than the rules.
  bool numbers() const {
    return std::any_of(pass_.dataflow.begin(), pass_.dataflow.end(), [](const Dataflow& d) { return d.merge == Merge::Number; });
  }

  void look_around() {
    uses_->begin();
    for (Node* n : order_) {
      (*uses_)[n];
      for (uint32_t k = 0; k < n->nsrc; k++) (*uses_)[n->src[k]]++;
    }
    machine_.uses = &*uses_;
    machine_.simultaneous = true;
  }

  // ---- facts and states ----

  // The first line of a fact or state that matches: its value; false when none does.
  bool ask(const Dataflow& d, Node* n, Value& value, uint32_t& rule) {
    if (d.dispatch.empty(n->op)) return false;
    machine_.original = machine_.matched = n;
    int which = machine_.match(d.dispatch, n, nullptr, 0, value);
    if (which < 0) return false;
    rule = d.dispatch.alternatives[size_t(which)].rule;
    return true;
  }

  void add(DataflowValues& values, const CallKey& key, const Value& value, uint32_t rule, Node* n) {
    try {
      values.add(key, value);
    } catch (const std::runtime_error& e) { fail(rule, n, e.what()); }
  }

  void collect() {
    for (const Dataflow& d : pass_.dataflow) {
      DataflowValues values(machine_, d);
      const uint32_t keys = program_.functions[d.function].parameters;
      for (Node* n : order_) {
        auto mark = machine_.arena.mark();
        Value v;
        uint32_t rule;
        if (ask(d, n, v, rule)) {
          if (v.tag != Tag::Seq || v.q.size != keys + 1) fail(rule, n, "a fact is its keys and a value");
          CallKey key{d.function, keys, {}};
          for (uint32_t k = 0; k < keys; k++) {
            key.arguments[k] = machine_.persistent(v.q.items[k]);
            if (key.arguments[k].tag == Tag::Node) key.arguments[k].n = machine_.plain(key.arguments[k].n);
          }
          add(values, key, machine_.persistent(v.q.items[keys]), rule, n);
        }
        machine_.arena.reset(mark);
      }
      values.publish();
      if (d.merge == Merge::Number && keys == 1) number(d, values);
    }
  }

  void number(const Dataflow& d, const DataflowValues& values) {
    out_.numbered.emplace_back(d.name, std::vector<Ref>());
    for (const CallKey& key : values.keys())
      if (key.arguments[0].tag == Tag::Node) out_.numbered.back().second.push_back(Ref::share(key.arguments[0].n));
  }

  void flow() {
    if (pass_.kind == PassKind::SourcesFirst) {
      for (Node* n : order_)
        for (const Dataflow& d : pass_.dataflow) know(d, n);
      return;
    }
    std::deque<DataflowValues> sent;
    for (const Dataflow& d : pass_.dataflow) sent.emplace_back(machine_, d);
    for (size_t at = order_.size(); at--;) {
      Node* n = order_[at];
      for (size_t k = 0; k < sent.size(); k++) {
        Value state;
        if (!sent[k].find(state_of(pass_.dataflow[k], n), state)) state = pass_.dataflow[k].initial;
        machine_.memo.put(state_of(pass_.dataflow[k], n), state);
      }
      for (size_t k = 0; k < sent.size(); k++) send(pass_.dataflow[k], sent[k], n);
    }
  }

  static CallKey state_of(const Dataflow& d, Node* n) { return {d.function, 1, {Value::node(n), {}, {}}}; }

  // Along the edges: what a node sends is its own state.
  void know(const Dataflow& d, Node* n) {
    auto mark = machine_.arena.mark();
    Value v;
    uint32_t rule;
    if (!ask(d, n, v, rule)) v = d.initial;
    machine_.memo.put(state_of(d, n), machine_.persistent(v));
    machine_.arena.reset(mark);
  }

  // Against the edges: a value for each source.
  void send(const Dataflow& d, DataflowValues& sent, Node* n) {
    auto mark = machine_.arena.mark();
    Value v;
    uint32_t rule;
    if (ask(d, n, v, rule)) {
      if (v.tag != Tag::Seq || v.q.size != n->nsrc)
        fail(rule, n, "it must send one value to each of the " + std::to_string(n->nsrc) + " sources, not " + show(v));
      for (uint32_t k = 0; k < n->nsrc; k++)
        if (v.q.items[k].tag != Tag::None) add(sent, state_of(d, n->src[k]), machine_.persistent(v.q.items[k]), rule, n);
    }
    machine_.arena.reset(mark);
  }

  // ---- the replacement ----

  void try_at(Node* n) {
    Place& p = (*places_)[n];
    machine_.original = machine_.matched = n;
    p.made = fire(n, n, p.rule);
  }

  // The result of a node that a frame needs, if it is known. Leaves of a template are results.
  Node* known(Node* n, Node* context) {
    if (n == context || !uses_->has(n)) {
      if (auto found = parts_.find({n, nullptr}); found != parts_.end()) return found->second;
      if (auto found = parts_.find({n, context}); found != parts_.end()) return found->second;
      return n->nsrc == 0 ? machine_.plain(n) : nullptr;
    }
    const Place& p = (*places_)[n];
    return p.progress == kFinal ? p.result : nullptr;
  }

  void push(Node* n, Node* context) {
    if (n == context || !uses_->has(n)) {
      stack_.push_back({n, context});
      return;
    }
    Place& p = (*places_)[n];
    if (p.progress == kOpen) circle(n);
    p.progress = kOpen;
    stack_.push_back({n, nullptr});
  }

  // Finishes a node of the graph, and everything that it needs.
  void settle(Node* n) {
    if ((*places_)[n].progress == kFinal) return;
    push(n, nullptr);
    while (!stack_.empty()) step();
  }

  void step() {
    ReplaceFrame& f = stack_.back();
    Node* n = f.node;
    if (!f.context) {
      Place& p = (*places_)[n];
      if (p.made) {
        Node* result = known(p.made, n);
        if (!result) return push(p.made, n);
        return finish(result);
      }
    }
    // The sources of a node of the graph are nodes of the graph, whatever they stand in.
    Node* context = f.context == n ? nullptr : f.context;
    while (f.next < n->nsrc) {
      if (!known(n->src[f.next], context)) return push(n->src[f.next], context);
      f.next++;
    }
    if (sources_.size() < n->nsrc) sources_.resize(n->nsrc);
    for (uint32_t k = 0; k < n->nsrc; k++) sources_[k] = known(n->src[k], context);
    finish(with_sources(machine_.plain(n), sources_.data()));
  }

  Node* with_final_sources(Node* n) {
    if (sources_.size() < n->nsrc) sources_.resize(n->nsrc);
    for (uint32_t k = 0; k < n->nsrc; k++) sources_[k] = (*places_)[n->src[k]].result;
    return with_sources(n, sources_.data());
  }

  void finish(Node* result) {
    ReplaceFrame f = stack_.back();
    stack_.pop_back();
    if (!f.context) {
      Place& p = (*places_)[f.node];
      p.progress = kFinal;
      p.result = result;
    } else {
      parts_[{f.node, holds(f.node, f.context) ? f.context : nullptr}] = result;
    }
  }

  // Whether a part of a template holds the node that it replaces: then its result is of no use in another template.
  bool holds(Node* part, Node* context) {
    if (part == context) return true;
    for (uint32_t k = 0; k < part->nsrc; k++) {
      Node* s = part->src[k];
      if (s == context || (!uses_->has(s) && parts_.count({s, context}))) return true;
    }
    return false;
  }

  // The result of n is needed for itself.
  [[noreturn]] void circle(Node* n) {
    size_t from = stack_.size();
    while (from > 0 && (stack_[from - 1].node != n || stack_[from - 1].context)) from--;
    std::vector<uint32_t> rules;
    for (size_t k = from ? from - 1 : 0; k < stack_.size(); k++)
      if (!stack_[k].context && (*places_)[stack_[k].node].made) rules.push_back((*places_)[stack_[k].node].rule);
    throw RewriteError("pass " + pass_.name->text + " cannot replace " + brief(n) + ": what takes its place needs its result: " + chain_of(rules) +
                       kLookAtAll);
  }

  void report() {
    out_.root = Ref::share((*places_)[root_].result);
    for (Node* n : options_.follow) out_.followed.push_back(uses_->has(n) ? Ref::share((*places_)[n].result) : Ref());
    for (Firing& f : out_.firings) f.after = Ref::share((*places_)[f.before.n].result);
  }

  std::vector<Node*> order_;
  Lease<SideTable<uint32_t>> uses_;  // of the nodes of the graph
  Lease<SideTable<Place>> places_;
  std::unordered_map<std::pair<Node*, Node*>, Node*, PairHash> parts_;  // of templates; second null: the same in each
  std::vector<ReplaceFrame> stack_;
  std::vector<Node*> sources_;
};

}  // namespace

void replace(const Program& program, const Pass& pass, Node* root, const Options& options, Outcome& out) {
  Replacer(program, pass, options, out).run(root);
}

}  // namespace rulegrad
