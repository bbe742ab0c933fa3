// Common parts of the built-in functions. A function that cannot answer returns false: the guard or rule does not fire.
#pragma once
#include "machine.hpp"

namespace rulegrad {

using Arguments = const Value*;
using Function = bool (*)(Machine&, Arguments, uint32_t, Value&);

inline bool node_of(const Value& v, Node*& n) {
  if (v.tag != Tag::Node) return false;
  n = v.n;
  return true;
}

inline bool int_of(const Value& v, Int& i) {
  if (v.tag == Tag::Int) i = v.i;
  else if (v.tag == Tag::Bool) i = v.b;
  else if (v.tag == Tag::Node && is_const(v.n)) return int_of(const_value(v.n), i);
  else return false;
  return true;
}

inline bool real_of(const Value& v, double& f) {
  if (v.tag == Tag::Float) f = v.f;
  else if (v.tag == Tag::Int) f = double(v.i);
  else if (v.tag == Tag::Bool) f = v.b;
  else return false;
  return true;
}

#define NODE_ARGUMENT(k) \
  Node* n;               \
  if (!node_of(a[k], n)) return false

Int gcd_of(Int x, Int y);
// The elements combined by an infix operator, from the left; `empty` when there are none.
bool fold(Machine& m, Arguments a, int op, const Value& empty, Value& r);

// The order of nodes: constants last, else by a hash of their structure, which is the same in every run.
Int key_of(const Node* n);

// ---- node_builtins.cpp: facts of a node ----

bool f_vmin(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_vmax(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_dtype(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_shape(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_rank(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_op_cost(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_size(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_op(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_srcs(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_src(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_attr(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_is_const(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_value(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_is_op(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_ranges(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_key(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_contains(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_uses(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_slot(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_nodes(Machine& m, Arguments a, uint32_t count, Value& r);

// ---- sequence_builtins.cpp: sequences of values ----

bool f_iota(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_product(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_total(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_len(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_zip(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_reversed(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_sorted(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_argsort(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_distinct(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_any(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_all(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_strides(Machine& m, Arguments a, uint32_t count, Value& r);

// ---- sums.cpp: chains of one op ----

bool f_sum(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_prod(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_all_of(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_fold(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_const_factor(Machine& m, Arguments a, uint32_t count, Value& r);

// ---- linear.cpp: sums as factor * base + ... + constant ----

bool f_ordered_sum(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_joined_sum(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_quotient_sum(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_split_sum(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_split_sum_below(Machine& m, Arguments a, uint32_t count, Value& r);
bool f_residue(Machine& m, Arguments a, uint32_t count, Value& r);

}  // namespace rulegrad
