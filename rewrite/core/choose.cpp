// Choose passes: every firing of an action at one node makes a candidate, the graph with that node replaced and then normalised. One
// that costs less takes the graph's place, until none does or enough of them were examined.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "firing.hpp"

namespace rulegrad {

namespace {

struct Candidate {
  Node *at = nullptr, *made = nullptr, *graph = nullptr;
  uint32_t rule = kNoRule;
  Value cost;
  Outcome normalised;
  std::vector<Node*> followed;
  size_t noted = 0;  // its place in the round, from 1
};

class Chooser : Firer {
 public:
  Chooser(const Program& program, const Pass& pass, const Options& options, Outcome& out)
      : Firer(program, pass, options, out), followed_(options.follow) {}

  void run(Node* root) {
    root_ = graph_ = root;
    cost_ = cost_of(root);
    if (!is_number(cost_))
      throw RewriteError("pass " + pass_.name->text + " cannot start: the cost of " + brief(root) + " by " + cost_name() + " must be a number, not " +
                         show(cost_) + kLookAtAll);
    seen_.insert(root);
    try {
      while (improve()) {}
    } catch (...) {
      out_.remaining = std::move(round_);
      throw;
    }
    out_.remaining = std::move(round_);
    out_.root = Ref::share(graph_);
    for (Node* n : followed_) out_.followed.push_back(n ? Ref::share(n) : Ref());
  }

 private:
  static bool is_number(const Value& v) { return v.tag == Tag::Int || v.tag == Tag::Float; }
  const std::string& cost_name() const { return program_.functions[size_t(pass_.function)].name->text; }

  Value cost_of(Node* graph) {
    CallKey key{uint32_t(pass_.function), 1, {Value::node(graph), {}, {}}};
    machine_.budget = Machine::kBudget;
    return machine_.result_of(key);
  }

  bool less(const Value& a, const Value& b) {
    Value below;
    return machine_.binary(B_CMPLT, false, a, b, below) && below.tag == Tag::Bool && below.b;
  }

  // One round over the graph; false when nothing costs less, as far as was examined.
  bool improve() {
    order_ = toposort(graph_);
    members_->begin();
    for (Node* n : order_) (*members_)[n] = 1;
    Candidate best;
    best.cost = cost_;
    round_.clear();
    if (options_.trace) round_.push_back({nullptr, kNoRule, Verdict::Given, Ref::share(graph_), Ref::share(graph_), cost_, {}, {}});
    const bool is_root_alone = pass_.costs_root[graph_->op] && !options_.trace && !options_.explainer;
    for (Node* n : order_) {
      if (examined_ >= pass_.fuel) break;
      if (is_root_alone && n != graph_) continue;
      out_.visited++;
      if (pass_.dispatch.empty(n->op)) continue;
      int alternative = -1;
      above_.clear();
      while (examined_ < pass_.fuel) {
        const std::vector<Node*> results = next_firings(n, pass_.fuel - examined_, alternative);
        if (alternative < 0) break;
        for (size_t k = 0; k < results.size() && examined_ < pass_.fuel; k++) {
          examine(n, results[k], pass_.dispatch.alternatives[size_t(alternative)], best);
          if (best.made && pass_.kind == PassKind::ChooseFirst) return accept(best);
        }
      }
    }
    return best.made && accept(best);
  }

  // The candidate becomes the best one if it costs less.
  void examine(Node* n, Node* made, const Alternative& alternative, Candidate& best) {
    const uint32_t rule = alternative.rule;
    Candidate c;
    c.at = n;
    c.made = made;
    c.rule = rule;
    place(c);
    if (!seen_.insert(c.graph).second) return;  // what was examined before does not cost less now
    examined_++;
    try {
      if (pass_.normal >= 0) normalise(c);
      c.cost = cost_of(c.graph);
    } catch (const RewriteError& e) {
      note(c, alternative, Verdict::Failed);
      fail(rule, n, std::string("its candidate cannot be judged: ") + e.what());
    }
    note(c, alternative, c.cost.tag == Tag::None ? Verdict::Costless : is_number(c.cost) ? Verdict::Dearer : Verdict::Failed);
    if (c.cost.tag == Tag::None) return;
    if (!is_number(c.cost)) fail(rule, n, "the cost of its candidate by " + cost_name() + " must be a number, not " + show(c.cost));
    if (!less(c.cost, best.cost)) return;
    c.noted = round_.size();
    best = std::move(c);
  }

  // Writes a candidate down for those who trace the pass.
  void note(const Candidate& c, const Alternative& alternative, Verdict verdict) {
    if (!options_.trace) return;
    std::vector<Inside> remaining = inside_of(alternative, c.at);
    remaining.insert(remaining.end(), c.normalised.remaining.begin(), c.normalised.remaining.end());
    round_.push_back({nullptr, c.rule, verdict, Ref::share(c.at), verdict == Verdict::Failed ? Ref() : Ref::share(c.made),
                      is_number(c.cost) ? c.cost : Value(), c.normalised.firings, std::move(remaining)});
  }

  // The nodes of the graph, sources first, that a node is below: they change with it, the others stay.
  void find_above(Node* at) {
    placed_->begin();
    (*placed_)[at] = at;
    above_ = {at};
    for (Node* n : order_) {
      if (n == at || std::none_of(n->src, n->src + n->nsrc, [&](Node* s) { return placed_->has(s); })) continue;
      (*placed_)[n] = n;
      above_.push_back(n);
    }
  }

  Node* placed(Node* n) {
    Node** found = placed_->find(n);
    return found ? *found : n;
  }

  // The graph with one node replaced; what stands in its place is not looked into.
  void place(Candidate& c) {
    if (above_.empty()) find_above(c.at);
    placed_->begin();
    (*placed_)[c.at] = c.made;
    for (size_t k = 1; k < above_.size(); k++) {
      Node* n = above_[k];
      if (sources_.size() < n->nsrc) sources_.resize(n->nsrc);
      for (uint32_t j = 0; j < n->nsrc; j++) sources_[j] = placed(n->src[j]);
      (*placed_)[n] = with_sources(n, sources_.data());
    }
    c.graph = placed(graph_);
    for (Node* n : followed_) c.followed.push_back(n && members_->has(n) ? placed(n) : nullptr);
  }

  void normalise(Candidate& c) {
    Options options = options_;
    const Explainer* explainer = options.explainer;
    if (options.limit != kNoLimit) options.limit -= std::min(options.limit, out_.fired_limited + is_limited(c.rule));
    for (size_t k = 0; k < c.followed.size(); k++) options.follow[k] = c.followed[k] ? c.followed[k] : c.graph;
    if (explainer) explainer->enter({nullptr, c.rule, c.at, c.graph});
    try {
      rewrite(program_, program_.passes[size_t(pass_.normal)], c.graph, options, c.normalised);
    } catch (const std::exception& e) {
      if (explainer) explainer->leave(c.normalised, e.what());
      throw;
    }
    if (explainer) explainer->leave(c.normalised, "");
    c.graph = held(c.normalised.root);
    for (size_t k = 0; k < c.followed.size(); k++)
      if (c.followed[k]) c.followed[k] = held(c.normalised.followed[k]);
  }

  // The node, which lives until the pass ends.
  Node* held(Ref& r) {
    if (!r.n) return nullptr;
    machine_.kept.push_back(r.n);
    return std::exchange(r.n, nullptr);
  }

  bool accept(Candidate& c) {
    if (!program_.counts.empty()) program_.counts[c.rule].fired++;
    if (c.noted) {
      round_[c.noted - 1].verdict = Verdict::Taken;
      round_[c.noted - 1].firings.clear();  // they are the pass's own
    }
    record(c.rule, c.at, c.at, c.made, std::move(round_));
    round_.clear();
    include(c.normalised);
    graph_ = c.graph;
    cost_ = c.cost;
    followed_ = std::move(c.followed);
    return true;
  }

  Node* graph_ = nullptr;
  Value cost_;
  uint64_t examined_ = 0;
  std::vector<Inside> round_;    // what was examined since the last firing
  std::vector<Node*> followed_;  // what became of Options::follow; null where nothing did
  std::vector<Node*> order_, sources_, above_;
  Lease<SideTable<Node*>> placed_;
  Lease<SideTable<uint8_t>> members_;  // the nodes of the graph
  std::unordered_set<Node*> seen_;     // all are kept, so no other takes the place of one
};

}  // namespace

void choose(const Program& program, const Pass& pass, Node* root, const Options& options, Outcome& out) {
  Chooser(program, pass, options, out).run(root);
}

}  // namespace rulegrad
