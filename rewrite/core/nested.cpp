// Parts of a template that are rewritten on their own while a rule is tried: `rewritten` and `given`. Such a rewriting does
// not nest: a rule that asks for one inside it has no value there (`given`), or is an error (`rewritten`).
#include <algorithm>
#include <utility>

#include "builtins.hpp"
#include "substitute.hpp"

namespace rulegrad {

namespace {

constexpr uint64_t kNestedFuel = 10'000;

struct Bounds {
  int64_t low = kUnboundedLow, high = kUnboundedHigh;
};

// Bounds that conditions imply for the nodes that they compare.
class Assumptions {
 public:
  explicit Assumptions(Machine& machine) : machine_(machine) {}

  void add(Node* condition) {
    std::vector<std::pair<Node*, bool>> waiting{{condition, true}};
    while (!waiting.empty()) {
      auto [n, holds] = waiting.back();
      waiting.pop_back();
      machine_.spend(1);
      if (n->op == op("NOT")) {
        waiting.emplace_back(n->src[0], !holds);
      } else if (n->op == (holds ? op("AND") : op("OR"))) {
        waiting.emplace_back(n->src[1], holds);
        waiting.emplace_back(n->src[0], holds);
      } else {
        compare(n, holds);
        if (n->op != known_ops.CONST) bounds_[n] = {holds, holds};
      }
    }
  }

  // The ops of the nodes of which more is known.
  OpMask ops() const {
    OpMask found;
    for (const auto& [n, bounds] : bounds_) found.add(n->op);
    return found;
  }
  // Null when nothing more is known of n than its interval says; else its interval.
  const Bounds* find(Node* n) const {
    auto found = bounds_.find(n);
    return found == bounds_.end() ? nullptr : &found->second;
  }
  bool contradictory() const { return contradictory_; }

 private:
  static uint32_t op(const char* name) { return uint32_t(find_op(name)); }

  void compare(Node* n, bool holds) {
    if (n->nsrc != 2) return;
    Node *a = n->src[0], *b = n->src[1];
    if (n->op == (holds ? op("CMPEQ") : op("CMPNE"))) {
      at_most(a, b, 0);
      at_most(b, a, 0);
    } else if (n->op == op("CMPLT")) {
      if (holds) at_most(a, b, 1);
      else at_most(b, a, 0);
    } else if (n->op == op("CMPLE")) {
      if (holds) at_most(a, b, 0);
      else at_most(b, a, 1);
    }
  }

  // a + gap <= b
  void at_most(Node* a, Node* b, int64_t gap) {
    Kind kind = dtype_info(a->dtype).kind;
    if (kind != Kind::Int && kind != Kind::Uint && kind != Kind::Index) return;
    int64_t low, high, ignored, end;
    interval_of(a, low, ignored);
    interval_of(b, ignored, high);
    if (high != kUnboundedHigh && !__builtin_sub_overflow(high, gap, &end)) narrow(a, kUnboundedLow, end);
    if (low != kUnboundedLow && !__builtin_add_overflow(low, gap, &end)) narrow(b, end, kUnboundedHigh);
  }

  // low <= n <= high. An index does not wrap around, so what is known of x + c is known of x, and of x * c.
  void narrow(Node* n, int64_t low, int64_t high) {
    for (;;) {
      record(n, low, high);
      int64_t c;
      if (dtype_info(n->dtype).kind != Kind::Index || n->nsrc != 2 || !constant(n->src[1], c)) return;
      Int a = low == kUnboundedLow ? Int(low) : 0, b = 0;
      if (n->op == known_ops.ADD) {
        a = low == kUnboundedLow ? Int(low) : Int(low) - c;
        b = high == kUnboundedHigh ? Int(high) : Int(high) - c;
      } else if (n->op == known_ops.MUL && c > 0) {
        a = low == kUnboundedLow ? Int(low) : -floor_of(-Int(low), c);
        b = high == kUnboundedHigh ? Int(high) : floor_of(high, c);
      } else {
        return;
      }
      if (a != int64_t(a) || b != int64_t(b)) return;
      low = int64_t(a);
      high = int64_t(b);
      n = n->src[0];
    }
  }

  static Int floor_of(Int a, Int b) { return a / b - (a % b < 0); }
  static bool constant(Node* n, int64_t& c) {
    Int v;
    if (!is_const(n) || !int_of(Value::node(n), v) || v != int64_t(v)) return false;
    c = int64_t(v);
    return true;
  }

  void record(Node* n, int64_t low, int64_t high) {
    if (is_const(n)) return;
    Bounds now;
    interval_of(n, now.low, now.high);
    auto found = bounds_.find(n);
    if (found != bounds_.end()) now = found->second;
    if (low <= now.low && high >= now.high) return;
    Bounds& b = bounds_[n];
    b = {std::max(low, now.low), std::min(high, now.high)};
    contradictory_ |= b.low > b.high;
  }

  Machine& machine_;
  std::unordered_map<Node*, Bounds> bounds_;
  bool contradictory_ = false;
};

}  // namespace

Node* Machine::rewritten(const RuleFunction& f, Node* n) {
  Options options;
  options.nested = true;
  options.fuel = kNestedFuel;
  options.trace = recorded || explainer;
  options.explainer = explainer;
  if (explainer) explainer->enter({f.name, asking.rule, asking.node, n});
  Outcome out;
  auto ended = [&](Verdict verdict, const char* error) {
    if (explainer) explainer->leave(out, error);
    if (recorded && (verdict == Verdict::Failed || !out.firings.empty()))
      recorded->latest.push_back({f.name, ~0u, verdict, Ref::share(n), out.root, {}, std::move(out.firings), std::move(out.remaining)});
  };
  try {
    rewrite(program, program.passes[size_t(f.pass)], n, options, out);
  } catch (const RewriteError& e) {
    ended(Verdict::Failed, e.what());
    throw RewriteError(f.name->text + ": " + e.what());
  }
  ended(Verdict::Done, "");
  is_of_run |= out.is_of_run;
  kept.push_back(out.root.n);
  return std::exchange(out.root.n, nullptr);
}

// x under a condition: nodes that it bounds become BOUNDED nodes of those bounds, the pass simplifies, and they become what they
// were. That counts only where it is simpler than x, so that the pass comes to an end.
Value Machine::given(const RuleFunction& f, Node* condition, Node* x) {
  const int bounded_op = find_op("BOUNDED");
  if (bounded_op < 0) return Value::node(x);
  Assumptions known(*this);
  known.add(condition);
  if (known.contradictory()) return Value::node(x);
  bool any = false;
  auto stand_in = [&](Node* n) -> Node* {
    const Bounds* b = known.find(n);
    if (!b || b->low == kUnboundedLow || b->high == kUnboundedHigh) return nullptr;
    any = true;
    if (b->low == b->high) return keep(make_const(n->dtype == known_dtypes.bool_ ? Value::boolean(b->low != 0) : Value::integer(b->low), n->dtype));
    Node* ends[3] = {n, keep(make_const(Value::integer(b->low), n->dtype)), keep(make_const(Value::integer(b->high), n->dtype))};
    return keep(make_node(uint32_t(bounded_op), n->dtype, ends, 3, nullptr, 0));
  };
  Substitution standing_in(*this), taken_back(*this);
  standing_in.ask_at(known.ops());
  Node* bounded = standing_in.made_of(x, stand_in);
  if (!any) return Value::node(x);
  taken_back.ask_at(uint32_t(bounded_op));
  Node* simple = taken_back.made_of(rewritten(f, bounded), [&](Node* n) { return n->op == uint32_t(bounded_op) ? n->src[0] : nullptr; });
  simple = rewritten(f, simple);
  return Value::node(toposort(simple).size() < toposort(x).size() ? simple : x);
}

Value Machine::rewritten(const RuleFunction& f, const CallKey& key) {
  if (nested && f.nested == Nested::Rewritten) throw RewriteError(f.name->text + " is asked for while a part is rewritten: that does not nest");
  if (nested || f.pass < 0) return Value::none();
  for (uint32_t k = 0; k < key.count; k++)
    if (key.arguments[k].tag != Tag::Node) throw RewriteError(f.name->text + " takes nodes, not " + show(key.arguments[k]));
  budget = kBudget;
  Node* n = key.arguments[0].n;
  return f.nested == Nested::Given ? given(f, n, key.arguments[1].n) : Value::node(rewritten(f, n));
}

}  // namespace rulegrad
