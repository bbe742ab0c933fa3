// Arithmetic of the machine's common cases, in the machine's own code: integers of 64 bits, with no overflow in 128, floats,
// and whether names and the like are the same.
#pragma once
#include <limits>

#include "program.hpp"

namespace rulegrad {

// A Value that is read soon after it was written must be written in the parts in which it is read: one that is made elsewhere and then
// copied waits for its parts to reach memory.
inline bool put(Value& to, Int v) {
  to.tag = Tag::Int;
  to.i = v;
  return true;
}
inline bool put(Value& to, double v) {
  to.tag = Tag::Float;
  to.f = v == v ? v : std::numeric_limits<double>::quiet_NaN();
  return true;
}
inline bool put(Value& to, bool v) {
  to.tag = Tag::Bool;
  to.b = v;
  return true;
}

inline bool quick_integers(int op, int64_t x, int64_t y, Value& result) {
  switch (op) {
    case B_ADD: return put(result, Int(x) + y);
    case B_SUB: return put(result, Int(x) - y);
    case B_MUL: return put(result, Int(x) * y);
    case B_CMPLT: return put(result, x < y);
    case B_CMPLE: return put(result, x <= y);
    case B_CMPEQ: return put(result, x == y);
    case B_CMPNE: return put(result, x != y);
    case B_FLOORDIV: return y > 0 && put(result, Int(x / y - (x % y < 0)));
    case B_FLOORMOD: return y > 0 && put(result, Int(x % y + (x % y < 0 ? y : 0)));
    case B_DIV: return y != 0 && put(result, double(x) / double(y));
    default: return false;
  }
}

inline bool quick_floats(int op, double x, double y, Value& result) {
  switch (op) {
    case B_ADD: return put(result, x + y);
    case B_SUB: return put(result, x - y);
    case B_MUL: return put(result, x * y);
    case B_DIV: return put(result, x / y);
    case B_CMPLT: return put(result, x < y);
    case B_CMPLE: return put(result, x <= y);
    default: return false;
  }
}

// False for other values, and where there is no result.
inline bool quick_binary(int op, const Value& a, const Value& b, Value& result) {
  if (a.tag == Tag::Int && b.tag == Tag::Int) {
    const int64_t x = int64_t(a.i), y = int64_t(b.i);
    return a.i == x && b.i == y && quick_integers(op, x, y, result);
  }
  if (a.tag == Tag::Float && b.tag == Tag::Float) return quick_floats(op, a.f, b.f, result);
  if (a.tag == Tag::Float && b.tag == Tag::Int) return quick_floats(op, a.f, double(b.i), result);
  if (a.tag == Tag::Int && b.tag == Tag::Float) return quick_floats(op, double(a.i), b.f, result);
  if (a.tag != b.tag || (op != B_CMPEQ && op != B_CMPNE)) return false;
  switch (a.tag) {
    case Tag::Bool: return put(result, (a.b == b.b) == (op == B_CMPEQ));
    case Tag::Str: return put(result, (a.s == b.s) == (op == B_CMPEQ));
    case Tag::Dtype:
    case Tag::Op: return put(result, (a.u == b.u) == (op == B_CMPEQ));
    default: return false;
  }
}

}  // namespace rulegrad
