// Built-in functions: facts of a node.
#include "builtins.hpp"

namespace rulegrad {

namespace {

// The lower or the upper end of an integer's interval; none where it is not known.
bool bound(Arguments a, bool upper, Value& r) {
  if (a[0].tag == Tag::Int) {
    r = a[0];
    return true;
  }
  NODE_ARGUMENT(0);
  Kind kind = dtype_info(n->dtype).kind;
  if (kind == Kind::Float || kind == Kind::Void) return false;
  if (is_const(n) && const_value(n).tag == Tag::Int) {
    r = const_value(n);
    return true;
  }
  int64_t low, high;
  interval_of(n, low, high);
  if (upper ? high == kUnboundedHigh : low == kUnboundedLow) return false;
  r = Value::integer(upper ? high : low);
  return true;
}

}  // namespace

bool f_vmin(Machine&, Arguments a, uint32_t, Value& r) { return bound(a, false, r); }

bool f_vmax(Machine&, Arguments a, uint32_t, Value& r) { return bound(a, true, r); }

bool f_dtype(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  r = Value::dtype(n->dtype);
  return true;
}

bool f_shape(Machine& m, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  const Shape* s = shape_of(n);
  Value* items = m.allocate(s->rank);
  for (uint32_t k = 0; k < s->rank; k++) items[k] = Value::integer(s->dims[k]);
  r = Value::seq(items, s->rank);
  return true;
}

bool f_rank(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  r = Value::integer(shape_of(n)->rank);
  return true;
}

bool f_size(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  r = Value::integer(element_count(shape_of(n)));
  return true;
}

bool f_op(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  r = Value::opcode(n->op);
  return true;
}

bool f_op_cost(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  r = Value::integer(op_info(n->op).cost);
  return true;
}

bool f_srcs(Machine& m, Arguments a, uint32_t count, Value& r) {
  Node* n = nullptr;
  if (count == 0) n = m.registers[0].tag == Tag::Node ? m.registers[0].n : nullptr;
  else if (!node_of(a[0], n)) return false;
  if (!n) return false;
  Value* items = m.allocate(n->nsrc);
  for (uint32_t k = 0; k < n->nsrc; k++) items[k] = Value::node(n->src[k]);
  r = Value::seq(items, n->nsrc);
  return true;
}

bool f_src(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  Int k;
  if (!int_of(a[1], k)) return false;
  if (k < 0) k += n->nsrc;
  if (k < 0 || k >= Int(n->nsrc)) return false;
  r = Value::node(n->src[uint32_t(k)]);
  return true;
}

bool f_attr(Machine& m, Arguments a, uint32_t, Value& r) { return a[1].tag == Tag::Str && a[0].tag == Tag::Node && m.member(a[0], a[1].s, r); }

bool f_is_const(Machine&, Arguments a, uint32_t, Value& r) {
  r = Value::boolean(a[0].tag == Tag::Node ? is_const(a[0].n) : a[0].tag != Tag::Seq);
  return true;
}

bool f_value(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag == Tag::Int || a[0].tag == Tag::Float || a[0].tag == Tag::Bool) {
    r = a[0];
    return true;
  }
  NODE_ARGUMENT(0);
  if (!is_const(n)) return false;
  r = const_value(n);
  return true;
}

bool f_is_op(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  if (a[1].tag != Tag::Op) return false;
  r = Value::boolean(n->op == a[1].u);
  return true;
}

bool f_ranges(Machine& m, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  const RangeSet* s = ranges_of(n);
  Value* items = m.allocate(s->size);
  for (uint32_t k = 0; k < s->size; k++) items[k] = Value::node(s->items[k]);
  r = Value::seq(items, s->size);
  return true;
}

// The order of structure that the hash is, which is the same in every run; constants last.
Int key_of(const Node* n) { return (is_const(n) ? Int(1) << 64 : 0) + Int(n->hash); }

bool f_key(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  r = Value::integer(key_of(n));
  return true;
}

bool f_contains(Machine& m, Arguments a, uint32_t count, Value& r) {
  if (a[0].tag != Tag::Op) return false;
  static thread_local SideTable<uint8_t> seen;
  seen.begin();
  OpMask wanted;
  wanted.add(a[0].u);
  std::vector<Node*> stack;
  for (uint32_t k = 1; k < count; k++) {
    if (a[k].tag == Tag::Node) stack.push_back(a[k].n);
    else if (a[k].tag == Tag::Seq)
      for (uint32_t j = 0; j < a[k].q.size; j++)
        if (a[k].q.items[j].tag == Tag::Node) stack.push_back(a[k].q.items[j].n);
  }
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    if (!n->ops.meets(wanted) || seen.has(n)) continue;
    seen[n] = 1;
    m.spend(1);
    if (n->op == a[0].u) {
      r = Value::boolean(true);
      return true;
    }
    stack.insert(stack.end(), n->src, n->src + n->nsrc);
  }
  r = Value::boolean(false);
  return true;
}

bool f_nodes(Machine& m, Arguments a, uint32_t count, Value& r) {
  NODE_ARGUMENT(0);
  OpMask wanted;
  for (uint32_t k = 1; k < count; k++) {
    if (a[k].tag != Tag::Op) return false;
    wanted.add(a[k].u);
  }
  std::vector<Node*> order = count > 1 ? toposort(n, wanted) : toposort(n);
  auto is_other = [&](const Node* x) { return std::none_of(a + 1, a + count, [&](const Value& op) { return op.u == x->op; }); };
  if (count > 1) std::erase_if(order, is_other);
  Value* items = m.allocate(order.size());
  for (size_t k = 0; k < order.size(); k++) items[k] = Value::node(order[k]);
  r = Value::seq(items, uint32_t(order.size()));
  return true;
}

bool f_uses(Machine& m, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  if (!m.uses) return false;
  const Node* asked = n == m.matched ? m.original : n;
  uint32_t* found = m.uses->find(asked);
  r = Value::integer(found ? *found : 0);
  return true;
}

bool f_slot(Machine& m, Arguments a, uint32_t count, Value& r) {
  NODE_ARGUMENT(0);
  static const Str* unnamed = intern("");
  m.is_of_run = true;
  auto& table = m.slots[count > 1 && a[1].tag == Tag::Str ? a[1].s : unnamed];
  auto found = table.number.emplace(n, int64_t(table.order.size()));
  if (found.second) table.order.push_back(n);
  r = Value::integer(found.first->second);
  return true;
}

}  // namespace rulegrad
