// Facts of nodes: shape, interval, open ranges. Computed when first asked for, sources first, and kept with the node.
#include <algorithm>

#include "facts.hpp"

namespace rulegrad {

Machine& table_machine() {
  static thread_local Machine machine(op_table_program());
  return machine;
}

void drop_shape(Shape* s) {
  if (s && s->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) ::operator delete(s);
}

void drop_ranges(RangeSet* s) {
  if (s && s->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) ::operator delete(s);
}

namespace {

Shape* new_shape(uint32_t rank) {
  auto* s = static_cast<Shape*>(::operator new(sizeof(Shape) + rank * sizeof(int64_t)));
  s->refs.store(1, std::memory_order_relaxed);
  s->rank = rank;
  return s;
}

Shape* scalar_shape() {
  static Shape* s = new_shape(0);
  s->refs.fetch_add(1, std::memory_order_relaxed);
  return s;
}

// Runs code of the op table on a node; what it allocates is given back at the end of the scope.
class TableRun {
 public:
  TableRun(Node* n, int code) : machine_(table_machine()), mark_(machine_.arena.mark()) {
    machine_.registers[0] = Value::node(n);
    machine_.current_dtype = n->dtype;
    try {
      done = machine_.run(op_table_program().codes[size_t(code)], value) == Status::Done;
    } catch (const RewriteError& e) {
      machine_.arena.reset(mark_);
      throw GraphError(describe(n) + ": " + e.what());
    }
  }
  ~TableRun() { machine_.arena.reset(mark_); }
  TableRun(const TableRun&) = delete;
  bool done = false;
  Value value;

 private:
  Machine& machine_;
  Arena::Mark mark_;
};

std::string show_shape(const Shape* s) {
  std::string t = "(";
  for (uint32_t k = 0; k < s->rank; k++) t += (k ? ", " : "") + std::to_string(s->dims[k]);
  return t + (s->rank == 1 ? ",)" : ")");
}

Shape* compute_shape(Node* n) {
  const OpInfo& o = op_info(n->op);
  if (!o.checks.empty()) {
    for (auto& [code, message] : o.checks) {
      TableRun check(n, code);
      if (!check.done || check.value.tag != Tag::Bool || !check.value.b) {
        std::string shapes;
        for (uint32_t k = 0; k < n->nsrc; k++) shapes += (k ? ", " : "") + show_shape(n->src[k]->shape.load());
        throw GraphError(describe(n) + ": " + message->text + (n->nsrc ? "; source shapes: " + shapes : ""));
      }
    }
  }
  if (o.shape_rule == ShapeRule::Scalar) return scalar_shape();
  if (o.shape_rule != ShapeRule::Code) {
    Shape* found = nullptr;
    for (uint32_t k = o.shape_rule == ShapeRule::Indices; k < n->nsrc; k++) {
      Shape* s = n->src[k]->shape.load(std::memory_order_acquire);
      if (s->rank == 0) continue;
      if (found && *found != *s)
        throw GraphError(o.name->text + ": source shapes " + show_shape(found) + " and " + show_shape(s) + " differ; expand one of them");
      found = s;
    }
    if (!found) return scalar_shape();
    found->refs.fetch_add(1, std::memory_order_relaxed);
    return found;
  }
  TableRun run(n, o.code_shape);
  const Value& v = run.value;
  bool ok = run.done && v.tag == Tag::Seq;
  for (uint32_t k = 0; ok && k < v.q.size; k++) ok = v.q.items[k].tag == Tag::Int && v.q.items[k].i >= 0 && v.q.items[k].i == int64_t(v.q.items[k].i);
  if (!ok) {
    throw GraphError(describe(n) + ": its shape cannot be computed; a size is negative or too large, or the attributes do not fit the source");
  }
  Shape* s = new_shape(v.q.size);
  for (uint32_t k = 0; k < v.q.size; k++) s->dims[k] = int64_t(v.q.items[k].i);
  return s;
}

RangeSet* new_ranges(uint32_t size) {
  auto* s = static_cast<RangeSet*>(::operator new(sizeof(RangeSet) + size * sizeof(Node*)));
  s->refs.store(1, std::memory_order_relaxed);
  s->size = size;
  return s;
}

bool range_before(const Node* a, const Node* b) {
  if (a == b) return false;
  Int x = a->attrs->items[0].i, y = b->attrs->items[0].i;
  return x != y ? x < y : a->hash < b->hash;
}

RangeSet* compute_ranges(Node* n) {
  static RangeSet* empty = new_ranges(0);
  auto share = [](RangeSet* s) {
    s->refs.fetch_add(1, std::memory_order_relaxed);
    return s;
  };
  if (n->op == known_ops.RANGE) {
    RangeSet* s = new_ranges(1);
    s->items[0] = n;
    return s;
  }
  // The variadic sources of a reduction or END are the ranges that it closes.
  const OpInfo& info = op_info(n->op);
  const bool closes = info.closes;
  const uint32_t open = closes ? std::min<uint32_t>(n->nsrc, uint32_t(info.parameters.size()) - 1) : n->nsrc;
  RangeSet* all = nullptr;
  std::vector<Node*> merged;
  bool several = false;
  for (uint32_t k = 0; k < open; k++) {
    RangeSet* s = n->src[k]->ranges.load(std::memory_order_acquire);
    if (s->size == 0 || s == all) continue;
    if (!all) {
      all = s;
      continue;
    }
    if (!several) merged.assign(all->items, all->items + all->size);
    several = true;
    std::vector<Node*> both;
    std::set_union(merged.begin(), merged.end(), s->items, s->items + s->size, std::back_inserter(both), range_before);
    merged.swap(both);
  }
  if (!all) return share(empty);
  if (!several && !closes) return share(all);
  if (!several) merged.assign(all->items, all->items + all->size);
  if (closes)
    for (uint32_t k = open; k < n->nsrc; k++) merged.erase(std::remove(merged.begin(), merged.end(), n->src[k]), merged.end());
  if (merged.size() == all->size && std::equal(merged.begin(), merged.end(), all->items)) return share(all);
  RangeSet* s = new_ranges(uint32_t(merged.size()));
  std::copy(merged.begin(), merged.end(), s->items);
  return s;
}

// Computes a fact for n after its sources', with a stack of its own.
template <typename Known, typename Compute>
void settle(Node* n, Known known, Compute compute) {
  if (known(n)) return;
  bool ready = true;
  for (uint32_t k = 0; k < n->nsrc && ready; k++) ready = known(n->src[k]);
  if (ready) {
    compute(n);
    return;
  }
  std::vector<std::pair<Node*, uint32_t>> stack{{n, 0}};
  while (!stack.empty()) {
    auto& [at, next] = stack.back();
    if (next == at->nsrc) {
      if (!known(at)) compute(at);
      stack.pop_back();
      continue;
    }
    Node* s = at->src[next++];
    if (!known(s)) stack.emplace_back(s, 0);
  }
}

}  // namespace

const Shape* shape_of(Node* n) {
  settle(
      n, [](Node* x) { return x->shape.load(std::memory_order_acquire) != nullptr; },
      [](Node* x) {
        Shape* s = compute_shape(x);
        Shape* expected = nullptr;
        if (!x->shape.compare_exchange_strong(expected, s, std::memory_order_acq_rel)) drop_shape(s);
      });
  return n->shape.load(std::memory_order_acquire);
}

static bool have_same_shape(const Node* a, const Node* b) {
  if (a == b) return true;
  if (a->dtype != b->dtype) return false;
  const Shape *s = a->shape.load(std::memory_order_acquire), *t = b->shape.load(std::memory_order_acquire);
  return s && t && *s == *t;
}

Node* with_sources(Node* n, Node* const* src) {
  Node* made = make_node(n->op, n->dtype, src, n->nsrc, n->attrs ? n->attrs->items : nullptr, n->attrs ? n->attrs->size : 0);
  Shape* known = n->shape.load(std::memory_order_acquire);
  if (!known || made->shape.load(std::memory_order_relaxed) || !op_info(n->op).shape_of_shapes) return made;
  for (uint32_t k = 0; k < n->nsrc; k++)
    if (!have_same_shape(n->src[k], src[k])) return made;
  known->refs.fetch_add(1, std::memory_order_relaxed);
  Shape* expected = nullptr;
  if (!made->shape.compare_exchange_strong(expected, known, std::memory_order_acq_rel)) drop_shape(known);
  return made;
}

void interval_of(Node* n, int64_t& low, int64_t& high) {
  settle(n, [](Node* x) { return (x->facts.load(std::memory_order_acquire) & kInterval) != 0; }, [](Node* x) { compute_interval(x); });
  low = n->low.load(std::memory_order_relaxed);
  high = n->high.load(std::memory_order_relaxed);
}

const RangeSet* ranges_of(Node* n) {
  settle(
      n, [](Node* x) { return x->ranges.load(std::memory_order_acquire) != nullptr; },
      [](Node* x) {
        RangeSet* s = compute_ranges(x);
        RangeSet* expected = nullptr;
        if (!x->ranges.compare_exchange_strong(expected, s, std::memory_order_acq_rel)) drop_ranges(s);
      });
  return n->ranges.load(std::memory_order_acquire);
}

int64_t element_count(const Shape* s) {
  Int n = 1;
  for (uint32_t k = 0; k < s->rank; k++) {
    n *= s->dims[k];
    if (n != int64_t(n)) throw GraphError("a shape has more than 2**63 elements");
  }
  return int64_t(n);
}

void dtype_bounds(uint32_t dtype, int64_t& low, int64_t& high) {
  const DtypeInfo& d = dtype_info(dtype);
  low = kUnboundedLow;
  high = kUnboundedHigh;
  if (d.kind == Kind::Bool) {
    low = 0;
    high = 1;
  }
  if (d.kind == Kind::Int && d.bits < 64) {
    low = -(1LL << (d.bits - 1));
    high = (1LL << (d.bits - 1)) - 1;
  }
  if (d.kind == Kind::Uint) {
    low = 0;
    if (d.bits < 64) high = (1LL << d.bits) - 1;
  }
}

}  // namespace rulegrad
