// Built-in functions on chains of one op: sums, products, conjunctions, and divisibility.
#include <algorithm>

#include "builtins.hpp"

namespace rulegrad {

// The leaves of a chain: as many as there are ways to them, so that sharing may make it very long.
static void flatten(Machine& m, Node* n, uint32_t op, std::vector<Node*>& out) {
  std::vector<Node*> stack{n};
  while (!stack.empty()) {
    Node* x = stack.back();
    stack.pop_back();
    m.spend(1);
    if (x->op != op) {
      out.push_back(x);
      continue;
    }
    for (uint32_t k = x->nsrc; k--;) stack.push_back(x->src[k]);
  }
}

bool fold(Machine& m, Arguments a, int op, const Value& empty, Value& r) {
  if (a[0].tag != Tag::Seq) return false;
  if (a[0].q.size == 0) {
    r = empty;
    return true;
  }
  Value total = a[0].q.items[0];
  for (uint32_t k = 1; k < a[0].q.size; k++) {
    Value next;
    if (!m.binary(op, true, total, a[0].q.items[k], next)) return false;
    total = next;
  }
  r = total;
  return true;
}

bool f_sum(Machine& m, Arguments a, uint32_t, Value& r) { return fold(m, a, B_ADD, Value::integer(0), r); }
bool f_prod(Machine& m, Arguments a, uint32_t, Value& r) { return fold(m, a, B_MUL, Value::integer(1), r); }
bool f_all_of(Machine& m, Arguments a, uint32_t, Value& r) { return fold(m, a, B_AND, Value::boolean(true), r); }

// By any op of two sources; of nothing it is the op's identity, as a constant of the matched node's dtype.
bool f_fold(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Op || a[1].tag != Tag::Seq) return false;
  const uint32_t op = a[0].u;
  const Seq& items = a[1].q;
  if (items.size == 0) {
    Value identity;
    if (dtype_info(m.like).kind == Kind::Void || !identity_of(op, m.like, identity)) return false;
    r = Value::node(m.keep(make_const(identity, m.like)));
    return true;
  }
  r = items.items[0];
  for (uint32_t k = 1; k < items.size; k++) {
    const Value& item = items.items[k];
    if (r.tag != Tag::Node && item.tag != Tag::Node) return false;
    r = Value::node(m.build_infix(op, r, item));
  }
  return true;
}

Int gcd_of(Int x, Int y) {
  if (x < 0) x = checked_sub(0, x);
  if (y < 0) y = checked_sub(0, y);
  while (y) {
    Int t = x % y;
    x = y;
    y = t;
  }
  return x;
}

static bool const_int(const Node* n, Int& v) {
  if (!is_const(n) || const_value(n).tag != Tag::Int) return false;
  v = const_value(n).i;
  return true;
}

// The constant of a single term.
static Int term_factor(const Node* n) {
  Int v;
  if (const_int(n, v)) return v;
  if (n->op == known_ops.MUL && const_int(n->src[1], v)) return v;
  return 1;
}

bool f_const_factor(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag == Tag::Int) {
    r = a[0];
    return true;
  }
  NODE_ARGUMENT(0);
  if (n->op != known_ops.ADD) {
    r = Value::integer(term_factor(n));
    return true;
  }
  std::vector<Node*> parts;
  flatten(m, n, known_ops.ADD, parts);
  Int g = 0;
  for (Node* p : parts) g = gcd_of(g, term_factor(p));
  r = Value::integer(g);
  return true;
}

}  // namespace rulegrad
