// Built-in functions on integer sums: canonical order, joining of quotient and remainder, splitting by a divisor.
#include <algorithm>
#include "builtins.hpp"

#include "linear.hpp"

namespace rulegrad {

namespace {

bool int64_of(const Value& v, int64_t& out) {
  Int i;
  if (!int_of(v, i) || i != int64_t(i)) return false;
  out = int64_t(i);
  return true;
}

// x op c with a positive constant c.
bool by_constant(const Node* n, uint32_t op, int64_t& c) {
  return n->op == op && is_const(n->src[1]) && int64_of(const_value(n->src[1]), c) && c > 0;
}

uint32_t op_floordiv() {
  static const uint32_t k = uint32_t(find_op("FLOORDIV"));
  return k;
}
uint32_t op_floormod() {
  static const uint32_t k = uint32_t(find_op("FLOORMOD"));
  return k;
}

void drop(Linear& x, uint32_t k) {
  std::copy(x.terms + k + 1, x.terms + x.size, x.terms + k);
  x.size--;
}

// b as numerator // denominator: of y // e + z it is (y + e z) // e.
bool as_quotient(Node* b, Linear& numerator, int64_t& denominator) {
  denominator = 1;
  if (!read_linear(b, numerator)) return false;
  for (uint32_t k = 0; k < numerator.size; k++) {
    int64_t e;
    if (numerator.terms[k].factor != 1 || !by_constant(numerator.terms[k].base, op_floordiv(), e)) continue;
    Node* y = numerator.terms[k].base->src[0];
    drop(numerator, k);
    for (uint32_t j = 0; j < numerator.size; j++)
      if (__builtin_mul_overflow(numerator.terms[j].factor, e, &numerator.terms[j].factor)) return false;
    if (__builtin_mul_overflow(numerator.constant, e, &numerator.constant)) return false;
    denominator = e;
    return read_linear(y, 1, numerator);
  }
  return true;
}

// a - b when every factor of it is a multiple of d, divided by e.
bool multiple_between(const Linear& a, const Linear& b, int64_t d, int64_t e, uint32_t dtype, Linear& out) {
  out = a;
  if (a.size + b.size > kMostTerms) return false;
  for (uint32_t k = 0; k < b.size; k++) out.terms[out.size++] = {b.terms[k].base, -b.terms[k].factor};
  out.constant -= b.constant;
  collect(out, dtype);
  if (out.constant % d) return false;
  out.constant /= e;
  for (uint32_t k = 0; k < out.size; k++) {
    if (out.terms[k].factor % d) return false;
    out.terms[k].factor /= e;
  }
  return true;
}

// Reduces x modulo c: factors below c, and y where y % m stood. False where it is too long; `changed`: it was not reduced before.
bool reduce(Linear& x, int64_t c, bool& changed) {
  changed |= x.constant < 0 || x.constant >= c;
  x.constant = floor_rest(x.constant, c);
  for (uint32_t k = 0; k < x.size; k++) {
    int64_t f = x.terms[k].factor % c, inner, scaled;
    changed |= f != x.terms[k].factor;
    x.terms[k].factor = f;
    // f (y % m) and f y are congruent modulo c when c divides f m
    if (f && by_constant(x.terms[k].base, op_floormod(), inner) && !__builtin_mul_overflow(f, inner, &scaled) && scaled % c == 0) {
      Node* y = x.terms[k].base->src[0];
      drop(x, k--);
      if (!read_linear(y, f, x)) return false;
      changed = true;
    } else if (f == 0) {
      drop(x, k--);
    }
  }
  return true;
}

bool are_congruent(Linear a, Linear b, int64_t c, uint32_t dtype) {
  bool changed = false;
  Linear between;
  return reduce(a, c, changed) && reduce(b, c, changed) && changed && multiple_between(a, b, c, 1, dtype, between);
}

// Joins the remainder at term i with its quotient, if the sum has it.
bool join(Machine& m, Linear& sum, uint32_t i, uint32_t dtype) {
  Node* mod = sum.terms[i].base;
  int64_t c, scale, f = sum.terms[i].factor;
  if (!by_constant(mod, op_floormod(), c) || __builtin_mul_overflow(f, c, &scale)) return false;
  bool candidate = false;
  for (uint32_t j = 0; j < sum.size && !candidate; j++) candidate = j != i && sum.terms[j].factor == scale;
  if (!candidate) return false;
  Linear base;
  int64_t e, whole;
  if (!as_quotient(mod->src[0], base, e) || __builtin_mul_overflow(e, c, &whole)) return false;
  for (uint32_t j = 0; j < sum.size; j++) {
    if (j == i || sum.terms[j].factor != scale) continue;
    Node* q = sum.terms[j].base;
    int64_t h = 0, d;
    if (by_constant(q, op_floormod(), h)) q = q->src[0];
    Linear other, between, joined;
    if (!as_quotient(q, other, d) || d != whole) continue;
    if (multiple_between(other, base, whole, e, dtype, between)) {
      if (!read_linear(mod->src[0], 1, between)) return false;
    } else if (e == 1 && are_congruent(other, base, c, dtype)) {
      between = other;
    } else {
      continue;
    }
    collect(between, dtype);
    joined = sum;
    drop(joined, std::max(i, j));
    drop(joined, std::min(i, j));
    if (h) {
      int64_t wide;
      if (__builtin_mul_overflow(c, h, &wide)) return false;
      Node* src[2] = {build_linear(m, between, dtype), m.keep(make_const(Value::integer(wide), dtype))};
      joined.terms[joined.size++] = {m.keep(make_node(op_floormod(), dtype, src, 2, nullptr, 0)), f};
    } else {
      if (joined.size + between.size > kMostTerms) return false;
      for (uint32_t k = 0; k < between.size; k++) {
        Term t = between.terms[k];
        if (__builtin_mul_overflow(t.factor, f, &t.factor)) return false;
        joined.terms[joined.size++] = t;
      }
      int64_t constant;
      if (__builtin_mul_overflow(between.constant, f, &constant) || __builtin_add_overflow(joined.constant, constant, &joined.constant)) return false;
    }
    collect(joined, dtype);
    sum = joined;
    return true;
  }
  return false;
}

Value node_value(Machine& m, const Linear& x, uint32_t dtype) { return Value::node(build_linear(m, x, dtype)); }

// (divisor, quotient, rest) of a sum that is split at a constant, or the first `count` of them.
bool split_parts(Machine& m, Arguments a, bool (*split)(const Linear&, int64_t, Split&), uint32_t count, Value& r) {
  NODE_ARGUMENT(0);
  int64_t c;
  Linear x;
  Split s;
  if (!int64_of(a[1], c) || !read_linear(n, x) || !split(x, c, s)) return false;
  Value parts[3] = {Value::integer(s.divisor), node_value(m, s.quotient, n->dtype), Value::none()};
  if (count > 2) parts[2] = node_value(m, s.rest, n->dtype);
  r = m.sequence(parts, count);
  return true;
}

}  // namespace

bool f_ordered_sum(Machine& m, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  r = a[0];
  if (is_canonical(n)) return true;
  Linear x;
  if (!read_linear(n, x)) return true;
  collect(x, n->dtype);
  r = node_value(m, x, n->dtype);
  return true;
}

bool f_joined_sum(Machine& m, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  r = a[0];
  bool has_remainder = false;
  for (Node* x = n; x && !has_remainder; x = x->op == known_ops.ADD ? x->src[0] : nullptr) {
    Node* t = x->op == known_ops.ADD ? x->src[1] : x;
    if (t->op == known_ops.MUL) t = t->src[0];
    has_remainder = t->op == op_floormod() || t->op == known_ops.ADD;
  }
  if (!has_remainder) return true;
  Linear x;
  if (!read_linear(n, x)) return true;
  bool changed = false;
  for (uint32_t i = 0; i < x.size; i++)
    if (join(m, x, i, n->dtype)) {
      changed = true;
      i = ~0u;  // start again
    }
  if (changed) r = node_value(m, x, n->dtype);
  return true;
}

bool f_quotient_sum(Machine& m, Arguments a, uint32_t, Value& r) { return split_parts(m, a, split_by, 2, r); }

bool f_split_sum(Machine& m, Arguments a, uint32_t, Value& r) { return split_parts(m, a, split_by, 3, r); }

bool f_split_sum_below(Machine& m, Arguments a, uint32_t, Value& r) { return split_parts(m, a, split_below, 3, r); }

bool f_residue(Machine& m, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  int64_t c;
  Linear x;
  if (!int64_of(a[1], c) || c < 1 || !read_linear(n, x)) return false;
  bool changed = false;
  if (!reduce(x, c, changed)) return false;
  if (!changed) return false;
  collect(x, n->dtype);
  r = node_value(m, x, n->dtype);
  return true;
}

}  // namespace rulegrad
