// Integer sums as linear forms, factor * base + ... + constant, and how they are split by a divisor.
#pragma once
#include "machine.hpp"

namespace rulegrad {

struct Term {
  Node* base;      // neither a sum nor a constant multiple
  int64_t factor;  // never 0
};

// Longer sums are left alone: the work on a sum grows with the square of its length.
constexpr uint32_t kMostTerms = 64;

struct Linear {
  uint32_t size;
  int64_t constant;
  Term terms[kMostTerms];
};

// Reads x * factor, added to `out`; false when there are too many terms or a factor leaves 64 bits.
bool read_linear(Node* x, int64_t factor, Linear& out);
inline bool read_linear(Node* x, Linear& out) {
  out.size = 0;
  out.constant = 0;
  return read_linear(x, 1, out);
}
// Sorts by base and adds like terms up.
void collect(Linear& x, uint32_t dtype);
// The canonical node of a collected form: terms of one factor are one product, terms in the order of their bases, the
// constant last.
Node* build_linear(Machine& m, const Linear& x, uint32_t dtype);
// Whether a node that is a sum, or a sum times a constant, is canonical.
bool is_canonical(const Node* n);

// x = divisor * quotient + rest
struct Split {
  int64_t divisor;
  Linear quotient, rest;
};

// The largest divisor d > 1 of c for which x // d and x % d are sums without a division.
bool split_by(const Linear& x, int64_t c, Split& out);
// A divisor d > 1 for which x < c says no more than quotient < ceil((c - rest) / d).
bool split_below(const Linear& x, int64_t c, Split& out);

inline int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
inline int64_t floor_rest(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r + ((r != 0) & ((r < 0) != (b < 0)) ? b : 0);
}

}  // namespace rulegrad
