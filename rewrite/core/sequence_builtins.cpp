// The built-in functions on sequences of values.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "builtins.hpp"
#include "lease.hpp"

namespace rulegrad {

namespace {

constexpr Int kLongest = 1 << 20;  // of a sequence that is made of a number

// Nodes with nodes, by key; numbers with numbers.
bool sortable(const Seq& s) {
  bool nodes = s.size && s.items[0].tag == Tag::Node;
  for (uint32_t k = 0; k < s.size; k++) {
    double x;
    if (nodes ? s.items[k].tag != Tag::Node : !real_of(s.items[k], x) || std::isnan(x)) return false;
  }
  return true;
}

bool less(const Value& x, const Value& y) {
  if (x.tag == Tag::Node) return key_of(x.n) < key_of(y.n);
  if (x.tag == Tag::Int && y.tag == Tag::Int) return x.i < y.i;
  double p = 0, q = 0;
  real_of(x, p);
  real_of(y, q);
  return p < q;
}

bool quantify(Arguments a, bool every, Value& r) {
  if (a[0].tag != Tag::Seq) return false;
  bool answer = every;
  for (uint32_t k = 0; k < a[0].q.size; k++) {
    if (a[0].q.items[k].tag != Tag::Bool) return false;
    if (a[0].q.items[k].b != every) answer = !every;
  }
  r = Value::boolean(answer);
  return true;
}

}  // namespace

bool f_iota(Machine& m, Arguments a, uint32_t, Value& r) {
  Int n;
  if (!int_of(a[0], n) || n < 0 || n > kLongest) return false;
  Value* items = m.allocate(uint32_t(n));
  for (uint32_t k = 0; k < uint32_t(n); k++) items[k] = Value::integer(k);
  r = Value::seq(items, uint32_t(n));
  return true;
}

bool f_product(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Seq) return false;
  Int total = 1, v;
  uint32_t rank = a[0].q.size;
  for (uint32_t k = 0; k < rank; k++) {
    if (!int_of(a[0].q.items[k], v) || v < 0 || v > kLongest) return false;
    total *= v;
    if (total * std::max<uint32_t>(rank, 1) > kLongest) return false;
  }
  Value* all = m.allocate(uint32_t(total));
  for (uint32_t k = 0; k < uint32_t(total); k++) {
    Value* index = m.allocate(rank);
    Int rest = k;
    for (uint32_t j = rank; j--;) {
      int_of(a[0].q.items[j], v);
      index[j] = Value::integer(rest % v);
      rest /= v;
    }
    all[k] = Value::seq(index, rank);
  }
  r = Value::seq(all, uint32_t(total));
  return true;
}

bool f_total(Machine& m, Arguments a, uint32_t, Value& r) { return fold(m, a, B_ADD, Value::integer(0), r); }

bool f_len(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Seq) return false;
  r = Value::integer(a[0].q.size);
  return true;
}

bool f_zip(Machine& m, Arguments a, uint32_t count, Value& r) {
  if (count == 0) return false;
  for (uint32_t k = 0; k < count; k++)
    if (a[k].tag != Tag::Seq || a[k].q.size != a[0].q.size) return false;
  uint32_t n = a[0].q.size;
  Value* all = m.allocate(n);
  for (uint32_t j = 0; j < n; j++) {
    Value* tuple = m.allocate(count);
    for (uint32_t k = 0; k < count; k++) tuple[k] = a[k].q.items[j];
    all[j] = Value::seq(tuple, count);
  }
  r = Value::seq(all, n);
  return true;
}

bool f_reversed(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Seq) return false;
  r = m.sequence(a[0].q.items, a[0].q.size);
  std::reverse(const_cast<Value*>(r.q.items), const_cast<Value*>(r.q.items) + r.q.size);
  return true;
}

bool f_sorted(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Seq || !sortable(a[0].q)) return false;
  r = m.sequence(a[0].q.items, a[0].q.size);
  std::stable_sort(const_cast<Value*>(r.q.items), const_cast<Value*>(r.q.items) + r.q.size, less);
  return true;
}

bool f_argsort(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Seq || !sortable(a[0].q)) return false;
  std::vector<uint32_t> order(a[0].q.size);
  std::iota(order.begin(), order.end(), 0u);
  const Value* items = a[0].q.items;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return less(items[x], items[y]); });
  Value* out = m.allocate(a[0].q.size);
  for (uint32_t k = 0; k < order.size(); k++) out[k] = Value::integer(order[k]);
  r = Value::seq(out, a[0].q.size);
  return true;
}

// The items of a sequence of sequences, each once, in the order in which they come first.
bool f_distinct(Machine& m, Arguments a, uint32_t, Value& r) {
  constexpr size_t kFew = 16;  // that are compared one by one
  if (a[0].tag != Tag::Seq) return false;
  uint32_t most = 0, count = 0;
  for (uint32_t k = 0; k < a[0].q.size; k++) {
    if (a[0].q.items[k].tag != Tag::Seq) return false;
    most += a[0].q.items[k].q.size;
  }
  Value* found = m.allocate(most);
  Lease<std::vector<uint32_t>> places;  // of what was found, from 1 on, by hash
  if (most > kFew) places->assign(std::bit_ceil(size_t(most) * 2), 0);
  auto is_new = [&](const Value& x) {
    if (most <= kFew) return std::none_of(found, found + count, [&](const Value& other) { return equal(other, x); });
    const size_t last = places->size() - 1;
    size_t at = hash_value(x) & last;
    for (; (*places)[at]; at = (at + 1) & last)
      if (equal(found[(*places)[at] - 1], x)) return false;
    (*places)[at] = count + 1;
    return true;
  };
  for (uint32_t k = 0; k < a[0].q.size; k++)
    for (uint32_t j = 0; j < a[0].q.items[k].q.size; j++)
      if (const Value& x = a[0].q.items[k].q.items[j]; is_new(x)) found[count++] = x;
  r = Value::seq(found, count);
  return true;
}

bool f_any(Machine&, Arguments a, uint32_t, Value& r) { return quantify(a, false, r); }
bool f_all(Machine&, Arguments a, uint32_t, Value& r) { return quantify(a, true, r); }

bool f_strides(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Seq) return false;
  uint32_t n = a[0].q.size;
  Value* items = m.allocate(n);
  Int stride = 1, v;
  for (uint32_t k = n; k--;) {
    if (!int_of(a[0].q.items[k], v)) return false;
    items[k] = Value::integer(stride);
    stride = checked_mul(stride, v);
  }
  r = Value::seq(items, n);
  return true;
}

}  // namespace rulegrad
