#include "linear.hpp"

#include <algorithm>

namespace rulegrad {

namespace {

int64_t gcd64(int64_t x, int64_t y) {
  x = x < 0 ? -x : x;
  y = y < 0 ? -y : y;
  while (y) {
    int64_t t = x % y;
    x = y;
    y = t;
  }
  return x;
}

bool factor_of(const Node* n, int64_t& factor) {
  if (n->op != known_ops.MUL || !is_const(n->src[1])) return false;
  const Value& v = const_value(n->src[1]);
  if (v.tag != Tag::Int) return false;
  factor = int64_t(v.i);
  return true;
}

bool before(const Term& a, const Term& b) { return a.base->hash < b.base->hash; }

// Constants of fixed-width integers wrap around.
int64_t wrapped(int64_t v, uint32_t dtype) {
  const DtypeInfo& d = dtype_info(dtype);
  if (d.kind == Kind::Index || d.bits == 64) return v;
  return int64_t(convert_value(Value::integer(v), dtype).i);
}

Node* product(Machine& m, Node* base, int64_t factor, uint32_t dtype) {
  if (factor == 1) return base;
  Node* src[2] = {base, m.keep(make_const(Value::integer(factor), dtype))};
  return m.keep(make_node(known_ops.MUL, dtype, src, 2, nullptr, 0));
}

Node* chain(Machine& m, const Term* terms, uint32_t count, bool factors, uint32_t dtype) {
  Node* total = nullptr;
  for (uint32_t k = 0; k < count; k++) {
    Node* term = factors ? product(m, terms[k].base, terms[k].factor, dtype) : terms[k].base;
    if (!total) {
      total = term;
      continue;
    }
    Node* src[2] = {total, term};
    total = m.keep(make_node(known_ops.ADD, dtype, src, 2, nullptr, 0));
  }
  return total;
}

}  // namespace

bool read_linear(Node* x, int64_t factor, Linear& out) {
  struct Open {
    Node* node;
    int64_t factor;
  } stack[kMostTerms + 2];
  uint32_t open = 0;
  stack[open++] = {x, factor};
  while (open) {
    Open at = stack[--open];
    int64_t f;
    if (at.node->op == known_ops.ADD) {
      if (open + 2 > kMostTerms + 2) return false;
      stack[open++] = {at.node->src[1], at.factor};
      stack[open++] = {at.node->src[0], at.factor};
    } else if (is_const(at.node)) {
      const Value& v = const_value(at.node);
      int64_t product;
      if (v.tag != Tag::Int || v.i != int64_t(v.i) || __builtin_mul_overflow(int64_t(v.i), at.factor, &product) ||
          __builtin_add_overflow(out.constant, product, &out.constant))
        return false;
    } else if (factor_of(at.node, f)) {
      if (__builtin_mul_overflow(at.factor, f, &f)) return false;
      stack[open++] = {at.node->src[0], f};
    } else {
      if (out.size == kMostTerms) return false;
      if (at.factor) out.terms[out.size++] = {at.node, at.factor};
    }
  }
  return true;
}

void collect(Linear& x, uint32_t dtype) {
  bool sorted = true;
  for (uint32_t k = 1; k < x.size && sorted; k++) sorted = before(x.terms[k - 1], x.terms[k]);
  if (!sorted) std::stable_sort(x.terms, x.terms + x.size, before);
  uint32_t n = 0;
  for (uint32_t k = 0; k < x.size; k++) {
    if (n && x.terms[n - 1].base == x.terms[k].base) {
      x.terms[n - 1].factor = int64_t(uint64_t(x.terms[n - 1].factor) + uint64_t(x.terms[k].factor));
    } else {
      if (n && wrapped(x.terms[n - 1].factor, dtype) == 0) n--;
      x.terms[n++] = x.terms[k];
    }
  }
  if (n && wrapped(x.terms[n - 1].factor, dtype) == 0) n--;
  x.size = n;
  for (uint32_t k = 0; k < n; k++) x.terms[k].factor = wrapped(x.terms[k].factor, dtype);
  x.constant = wrapped(x.constant, dtype);
}

Node* build_linear(Machine& m, const Linear& x, uint32_t dtype) {
  Term grouped[kMostTerms];
  uint32_t n = 0;
  bool taken[kMostTerms] = {};
  bool regrouped = false;
  for (uint32_t k = 0; k < x.size; k++) {
    if (taken[k]) continue;
    Term members[kMostTerms];
    uint32_t count = 0;
    members[count++] = x.terms[k];
    if (x.terms[k].factor != 1)
      for (uint32_t j = k + 1; j < x.size; j++)
        if (x.terms[j].factor == x.terms[k].factor) {
          members[count++] = x.terms[j];
          taken[j] = true;
        }
    regrouped |= count > 1;
    grouped[n++] = count == 1 ? x.terms[k] : Term{chain(m, members, count, false, dtype), x.terms[k].factor};
  }
  if (regrouped) std::stable_sort(grouped, grouped + n, before);
  Node* total = chain(m, grouped, n, true, dtype);
  if (!total) return m.keep(make_const(Value::integer(x.constant), dtype));
  if (x.constant == 0) return total;
  Node* src[2] = {total, m.keep(make_const(Value::integer(x.constant), dtype))};
  return m.keep(make_node(known_ops.ADD, dtype, src, 2, nullptr, 0));
}

bool is_canonical(const Node* n) {
  // The addends from the last to the first; of a product, its base and factor.
  Term seen[kMostTerms];
  uint32_t count = 0;
  bool groups = false;
  const Node* rest = n;
  bool last = true;
  while (rest) {
    const Node* addend = rest->op == known_ops.ADD ? rest->src[1] : rest;
    rest = rest->op == known_ops.ADD ? rest->src[0] : nullptr;
    if (is_const(addend)) {
      if (!last || !rest || const_value(addend).i == 0) return false;
      last = false;
      continue;
    }
    last = false;
    int64_t factor = 1;
    Node* base = const_cast<Node*>(addend);
    if (factor_of(addend, factor)) {
      base = addend->src[0];
      int64_t inner;
      if (factor == 1 || factor == 0 || is_const(base) || factor_of(base, inner)) return false;
      if (base->op == known_ops.ADD) {
        groups = true;
        for (const Node* x = base; x; x = x->op == known_ops.ADD ? x->src[0] : nullptr) {
          const Node* member = x->op == known_ops.ADD ? x->src[1] : x;
          if (member->op == known_ops.ADD || is_const(member) || factor_of(member, inner)) return false;
        }
        if (!is_canonical(base)) return false;
      }
    } else if (addend->op == known_ops.ADD) {
      return false;
    }
    if (count == kMostTerms) return true;
    if (count && seen[count - 1].base->hash <= base->hash) return false;
    if (factor != 1)
      for (uint32_t k = 0; k < count; k++)
        if (seen[k].factor == factor) return false;
    seen[count++] = {base, factor};
  }
  if (!groups) return true;
  // A member of a product must not be a term of its own as well, nor a member of another product.
  Linear all;
  if (!read_linear(const_cast<Node*>(n), all)) return true;
  for (uint32_t k = 0; k < all.size; k++)
    for (uint32_t j = 0; j < k; j++)
      if (all.terms[k].base == all.terms[j].base) return false;
  return true;
}

// ---- splitting ----

namespace {

struct Bounds {
  int64_t low, high;
  bool known;
};

Bounds bounds_of(Node* n) {
  Bounds b;
  interval_of(n, b.low, b.high);
  b.known = b.low != kUnboundedLow && b.high != kUnboundedHigh && b.low > -(1LL << 62) && b.high < (1LL << 62);
  return b;
}

// Tries to give each term of x a factor congruent to its own modulo d such that the sum stays in one period of d, and says in
// which.
bool one_period(const Linear& x, const Bounds* bounds, int64_t d, int64_t* rest, int64_t& period) {
  Int width = 0;
  uint32_t flexible[4], choices = 0;
  uint32_t inexact = 0;
  for (uint32_t k = 0; k < x.size; k++) {
    int64_t r = floor_rest(x.terms[k].factor, d);
    rest[k] = r;
    if (r == 0) continue;
    inexact++;
    if (!bounds[k].known) return false;
    if (r > d - r) rest[k] = r - d;
    Int spread = Int(bounds[k].high) - bounds[k].low;
    width += spread * (rest[k] < 0 ? -rest[k] : rest[k]);
    if (width >= d) return false;
    if (r == d - r && choices < 4) flexible[choices++] = k;
  }
  if (inexact == 1 && choices == 0)  // a lone term may have either sign
    for (uint32_t k = 0; k < x.size; k++)
      if (rest[k] != 0) {
        int64_t other = rest[k] < 0 ? rest[k] + d : rest[k] - d;
        if ((Int(bounds[k].high) - bounds[k].low) * (other < 0 ? -other : other) < d) flexible[choices++] = k;
      }
  int64_t constant = floor_rest(x.constant, d);
  for (uint32_t choice = 0;; choice++) {
    Int low = constant, high = constant;
    for (uint32_t k = 0; k < x.size; k++) {
      if (rest[k] == 0) continue;
      low += Int(rest[k]) * (rest[k] > 0 ? bounds[k].low : bounds[k].high);
      high += Int(rest[k]) * (rest[k] > 0 ? bounds[k].high : bounds[k].low);
    }
    Int at = floor_div(low, d);
    if (at == floor_div(high, d) && at == int32_t(at)) {
      period = int64_t(at);
      return true;
    }
    if (choice + 1 == 1u << choices) return false;
    for (uint32_t j = 0; j < choices; j++)  // count in binary: the sign of each flexible term is a digit
      if ((choice ^ (choice + 1)) >> j & 1) rest[flexible[j]] += rest[flexible[j]] < 0 ? d : -d;
  }
}

uint32_t candidates(const Linear& x, int64_t c, int64_t* out) {
  uint32_t n = 0;
  auto add = [&](int64_t d) {
    if (d <= 1 || n == kMostTerms) return;
    for (uint32_t k = 0; k < n; k++)
      if (out[k] == d) return;
    out[n++] = d;
  };
  if (c) add(c);
  for (uint32_t k = 0; k < x.size; k++) add(gcd64(x.terms[k].factor, c));
  for (uint32_t k = 0, known = n; k < known; k++)
    for (uint32_t j = 0; j < k; j++) add(gcd64(out[k], out[j]));
  std::sort(out, out + n, [](int64_t a, int64_t b) { return a > b; });
  return n;
}

void divide(const Linear& x, const int64_t* rest, int64_t d, Split& out) {
  out.divisor = d;
  out.quotient.size = out.rest.size = 0;
  out.rest.constant = floor_rest(x.constant, d);
  out.quotient.constant = floor_quotient(x.constant, d);
  for (uint32_t k = 0; k < x.size; k++) {
    if (rest[k]) out.rest.terms[out.rest.size++] = {x.terms[k].base, rest[k]};
    int64_t q = (x.terms[k].factor - rest[k]) / d;
    if (q) out.quotient.terms[out.quotient.size++] = {x.terms[k].base, q};
  }
}

}  // namespace

bool split_by(const Linear& x, int64_t c, Split& out) {
  if (c <= 1) return false;
  Bounds bounds[kMostTerms];
  for (uint32_t k = 0; k < x.size; k++) bounds[k] = bounds_of(x.terms[k].base);
  int64_t divisors[kMostTerms], rest[kMostTerms], period;
  uint32_t n = candidates(x, c, divisors);
  for (uint32_t j = 0; j < n; j++) {
    if (!one_period(x, bounds, divisors[j], rest, period)) continue;
    divide(x, rest, divisors[j], out);
    // From the period in which the rest lies to 0 <= rest < d.
    if (__builtin_add_overflow(out.quotient.constant, period, &out.quotient.constant)) return false;
    out.rest.constant -= period * divisors[j];
    if (out.quotient.size || out.quotient.constant) return true;
  }
  return false;
}

bool split_below(const Linear& x, int64_t c, Split& out) {
  Bounds bounds[kMostTerms];
  for (uint32_t k = 0; k < x.size; k++) bounds[k] = bounds_of(x.terms[k].base);
  int64_t divisors[kMostTerms];
  uint32_t n = candidates(x, 0, divisors);
  for (uint32_t j = 0; j < n; j++) {
    int64_t d = divisors[j], rest[kMostTerms];
    Int low = x.constant, high = x.constant;
    bool known = true;
    for (uint32_t k = 0; k < x.size; k++) {
      rest[k] = x.terms[k].factor % d ? x.terms[k].factor : 0;
      if (!rest[k]) continue;
      known &= bounds[k].known;
      if (!known) break;
      low += Int(rest[k]) * (rest[k] > 0 ? bounds[k].low : bounds[k].high);
      high += Int(rest[k]) * (rest[k] > 0 ? bounds[k].high : bounds[k].low);
    }
    if (!known || floor_div(low - c, d) != floor_div(high - c, d)) continue;
    divide(x, rest, d, out);
    // The constant stays whole: the rest is compared with c.
    out.rest.constant = x.constant;
    out.quotient.constant = 0;
    return true;
  }
  return false;
}

}  // namespace rulegrad
