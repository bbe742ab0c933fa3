#include "firing.hpp"

#include <algorithm>

namespace rulegrad {

namespace {

enum State : uint8_t { kUnseen = 0, kGrey = 1, kDone = 2 };

struct Mark {
  uint8_t state = kUnseen;
  Node* result = nullptr;
};

struct Frame {
  Node* node;      // as it was found
  Node* current;   // with final sources, or as parents-first rules made it
  uint32_t next;   // source to visit
  uint32_t rule;   // that made this node, or kNoRule
  uint32_t chain;  // firings that led here, to this node or to one that it is a source of
  bool waiting;    // for the frame above, whose result is this one's
};

constexpr uint64_t kChainPerNode = 8;  // of the graph that is given

class Rewriter : Firer {
 public:
  Rewriter(const Program& program, const Pass& pass, const Options& options, Outcome& out)
      : Firer(program, pass, options, out), longest_chain_(options.longest_chain), stamp_(stamp_of(pass, options)) {}

  void run(Node* root) {
    root_ = root;
    marks_->begin();
    if (leaps_over(root)) {
      finish(root, root);
    } else if (pass_.kind == PassKind::Walk) {
      walk(root);
    } else {
      enter(root, kNoRule, 0);
      while (!stack_.empty()) {
        if (pass_.kind == PassKind::ChildrenFirst) children_first();
        else parents_first();
      }
    }
    out_.is_of_run = machine_.is_of_run;
    out_.root = Ref::share(result_of(root));
    for (Node* n : options_.follow) {
      Mark* m = marks_->find(n);
      out_.followed.push_back(m && m->state == kDone ? Ref::share(m->result) : Ref());
    }
  }

 private:
  // The stamp on nodes that are in normal form, or 0 in a run whose records show every node, or with rules left out. Only where what a
  // pass does to a node depends on nothing but the node.
  uint32_t stamp_of(const Pass& pass, const Options& o) const {
    return pass.kind == PassKind::ChildrenFirst && is_plain_ ? pass.stamp + o.nested : 0;
  }
  bool is_normal(const Node* n) const { return stamp_ && n->normal.load(std::memory_order_relaxed) == stamp_; }

  Node* result_of(Node* n) { return (*marks_)[n].result; }

  void finish(Node* n, Node* result) {
    Mark& m = (*marks_)[n];
    m.state = kDone;
    m.result = result;
  }

  // n is pending already: the rules lead back to it.
  [[noreturn]] void cycle(Node* n, uint32_t last) {
    size_t from = stack_.size();
    while (from > 0 && stack_[from - 1].node != n && stack_[from - 1].current != n) from--;
    std::vector<uint32_t> rules;
    for (size_t k = from; k < stack_.size(); k++)
      if (stack_[k].rule != kNoRule) rules.push_back(stack_[k].rule);
    if (last != kNoRule) rules.push_back(last);
    throw RewriteError("pass " + pass_.name->text + " does not end: the rules lead from " + brief(n) + " back to it: " + chain_of(rules) +
                       kLookAtAll);
  }

  // The node with final sources: itself when none changed.
  Node* rebuild(Node* n) {
    Node* small[8];
    std::vector<Node*> large;
    Node** src = small;
    if (n->nsrc > 8) {
      large.resize(n->nsrc);
      src = large.data();
    }
    for (uint32_t k = 0; k < n->nsrc; k++) src[k] = result_of(n->src[k]);
    return with_sources(n, src);
  }

  // Finishes the top frame and all frames that wait for it.
  void resolve(Node* result) {
    while (!stack_.empty()) {
      Frame f = stack_.back();
      stack_.pop_back();
      finish(f.node, result);
      if (f.current != f.node) finish(f.current, result);
      if (stack_.empty() || !stack_.back().waiting) return;
    }
  }

  // Pushes a source or a rewritten node; true when it is final already.
  bool enter(Node* n, uint32_t rule, uint32_t chain) {
    Mark& m = (*marks_)[n];
    if (m.state == kDone) return true;
    if (m.state == kGrey) cycle(n, rule);
    if (is_normal(n) || leaps_over(n) || (n->nsrc == 0 && pass_.dispatch.empty(n->op))) {
      m.state = kDone;
      m.result = n;
      return true;
    }
    m.state = kGrey;
    stack_.push_back({n, n, 0, rule, chain, false});
    return false;
  }

  void children_first() {
    Frame& f = stack_.back();
    Node* n = f.node;
    while (f.next < n->nsrc)
      if (!enter(n->src[f.next++], kNoRule, f.chain)) return;  // f is invalid after a push
    Node* m = rebuild(n);
    if (m != n) {
      Mark& mark = (*marks_)[m];
      if (mark.state == kDone) return resolve(mark.result);
      if (mark.state == kGrey) cycle(m, kNoRule);
      mark.state = kGrey;
      f.current = m;
    }
    uint32_t rule = kNoRule;
    Node* r = fire(m, n, rule);
    if (r) return continue_with(r, rule);
    if (stamp_ && !machine_.is_of_run) m->normal.store(stamp_, std::memory_order_relaxed);
    resolve(m);
  }

  void continue_with(Node* r, uint32_t rule) {
    Frame& f = stack_.back();
    uint32_t chain = f.chain + 1;
    if (chain > longest_chain_) need_more(longest_chain_, options_.longest_chain, kChainPerNode, chain);
    f.waiting = true;
    if (enter(r, rule, chain)) {
      stack_.back().waiting = false;
      resolve((*marks_)[r].result);
    }
  }

  void parents_first() {
    Frame& f = stack_.back();
    Node* n = f.node;
    if (f.next == 0) {
      uint32_t rule = kNoRule;
      Node* r = fire(n, n, rule);
      if (r) return continue_with(r, rule);
    }
    while (f.next < n->nsrc)
      if (!enter(n->src[f.next++], kNoRule, f.chain)) return;
    resolve(rebuild(n));
  }

  void walk(Node* root) {
    std::vector<Node*> order = toposort(root);
    Lease<SideTable<uint32_t>> uses;
    uses->begin();
    for (Node* n : order)
      for (uint32_t k = 0; k < n->nsrc; k++) (*uses)[n->src[k]]++;
    machine_.uses = &*uses;
    for (Node* n : order) {
      if (leaps_over(n)) {
        finish(n, n);
        continue;
      }
      Node* m = rebuild(n);
      machine_.original = n;
      machine_.matched = m;
      uint32_t rule = kNoRule;
      Node* r = fire(m, n, rule);
      finish(n, r ? r : m);
    }
  }

  Lease<SideTable<Mark>> marks_;
  uint64_t longest_chain_;
  const uint32_t stamp_;
  std::vector<Frame> stack_;
};

}  // namespace

void renew_stamps(Program& p) {
  static std::atomic<uint32_t> next{2};
  for (auto& pass : p.passes) pass.stamp = next.fetch_add(2);
}

void rewrite(const Program& program, const Pass& pass, Node* root, const Options& options, Outcome& out) {
  if (chooses(pass.kind)) return choose(program, pass, root, options, out);
  if (pass.kind >= PassKind::Collect) return replace(program, pass, root, options, out);
  if (pass.kind > PassKind::Walk) throw RewriteError("pass " + pass.name->text + " does not rewrite graphs");
  Rewriter(program, pass, options, out).run(root);
}

std::vector<Ref> reverse(const Program& program, const Pass& pass, const std::vector<Node*>& roots, const std::vector<Node*>& seeds,
                         const std::vector<Node*>& targets, const Explainer* explainer, std::vector<GradientFiring>* firings) {
  const RuleFunction& f = program.functions[pass.function];
  Machine machine(program);
  machine.explainer = explainer;
  if (f.parameters != 2) throw RewriteError("function " + f.name->text + " must take a node and its gradient");
  if (roots.size() != seeds.size()) throw RewriteError("a reverse pass takes a gradient of each node that it starts from");
  for (size_t k = 0; k < roots.size(); k++) {
    const Shape *given = shape_of(seeds[k]), *result_shape = shape_of(roots[k]);
    if (seeds[k]->dtype != roots[k]->dtype || *given != *result_shape)
      throw RewriteError("the gradient of " + describe(roots[k]) + " that was given has another dtype or shape than the node");
  }
  std::vector<Node*> order = toposort(roots);
  Lease<SideTable<uint8_t>> wanted_nodes;  // tables of their own would be as long as the most nodes that ever were
  Lease<SideTable<Node*>> gradients_of;
  SideTable<uint8_t>& wanted = *wanted_nodes;
  SideTable<Node*>& gradients = *gradients_of;
  wanted.begin();
  gradients.begin();
  for (Node* t : targets) wanted[t] = 1;
  for (Node* n : order)
    for (uint32_t k = 0; k < n->nsrc; k++)
      if (wanted.has(n->src[k])) wanted[n] = 1;
  auto add = [&](Node* n, Node* g) {
    gradients[n] = gradients.has(n) ? machine.build_infix(known_ops.ADD, Value::node(gradients[n]), Value::node(g)) : g;
  };
  for (size_t k = 0; k < roots.size(); k++) add(roots[k], seeds[k]);
  for (size_t k = order.size(); k--;) {
    Node* n = order[k];
    if (!wanted.has(n) || !gradients.has(n)) continue;
    bool needed = false;
    for (uint32_t j = 0; j < n->nsrc; j++) needed |= wanted.has(n->src[j]);
    if (!needed) continue;
    Value d = Value::node(gradients[n]), result;
    CallKey key{uint32_t(pass.function), 2, {Value::node(n), d, {}}};
    result = machine.result_of(key);
    if (result.tag == Tag::Seq && result.q.size != n->nsrc)
      throw RewriteError("function " + f.name->text + " gives " + std::to_string(result.q.size) + " gradients for " + brief(n) + ", which has " +
                         std::to_string(n->nsrc) + " sources: one for each, or none where there is no gradient");
    if (result.tag != Tag::Seq)
      throw RewriteError("function " + f.name->text + " has no rule for " + brief(n) +
                         ": no gradient is defined there; use detach() if none is meant");
    if (firings) firings->push_back({machine.answered, Ref::share(n), Ref::share(d.n), {}});
    for (uint32_t j = 0; j < n->nsrc; j++) {
      if (!wanted.has(n->src[j]) || result.q.items[j].tag == Tag::None) continue;
      Node* g = machine.lift(result.q.items[j], n->src[j]->dtype);
      if (firings) firings->back().sources.push_back(Ref::share(g));
      if (g->dtype != n->src[j]->dtype) throw RewriteError("the gradient of " + brief(n) + " has another dtype than its source");
      const Shape *have = shape_of(g), *want = shape_of(n->src[j]);
      if (*have != *want) throw RewriteError("the gradient of " + brief(n) + " has another shape than its source");
      add(n->src[j], g);
    }
  }
  std::vector<Ref> out;
  for (Node* t : targets) {
    Node** g = gradients.find(t);
    out.push_back(g ? Ref::share(*g) : Ref());
  }
  return out;
}

Value call_function(const Program& program, const std::string& name, const std::vector<Value>& arguments, Machine& machine) {
  for (size_t k = 0; k < program.functions.size(); k++) {
    if (program.functions[k].name->text != name) continue;
    if (arguments.empty() || arguments.size() > kMostParameters)
      throw RewriteError("function " + name + " takes one to " + std::to_string(kMostParameters) + " arguments");
    return machine.result_of(machine.key_of(uint32_t(k), arguments.data(), uint32_t(arguments.size())));
  }
  throw RewriteError("no function is called " + name);
}

}  // namespace rulegrad
