// Values: what attributes, constants and registers hold. A closed set, so that everything can be
// compared, hashed, printed and saved.
#pragma once
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rulegrad {

using Int = __int128;  // holds every int64, every uint64 and their products; overflow is an error

struct Node;
struct Value;

enum class Tag : uint8_t { None, Bool, Int, Float, Str, Dtype, Op, Node, Seq };

// An interned string: equal text is the same pointer, and strings are never freed (there are few).
struct Str {
  std::string text;
  uint64_t hash;
};
const Str* intern(std::string_view text);
bool is_utf8(std::string_view text);

// The names of a record and its fields. Equal names are the same form, which is never freed (there are few).
struct RecordForm {
  const Str* name;
  std::vector<const Str*> fields;
};
uint16_t intern_form(const Str* name, const std::vector<const Str*>& fields);  // its number, from 1 on
const RecordForm& record_form(uint16_t number);

// Around a fork: no other thread is within the table of names.
void lock_names();
void unlock_names();

// depth: 1 for a sequence of plain values, one more for each level of nesting. form: of a record, the number of its form, else 0.
struct Seq {
  uint32_t size;
  uint16_t depth, form;
  const Value* items;
};
constexpr uint32_t kDeepest = 64;  // nested sequences are compared, hashed and copied by recursion

struct Value {
  Tag tag = Tag::None;
  union {
    bool b;
    double f;
    const Str* s;
    uint32_t u;  // dtype or op
    Node* n;
    Seq q;
    Int i;
  };
  Value() : i(0) {}
  // clang-format off
  static Value none() { return {}; }
  static Value boolean(bool v) { Value r; r.tag = Tag::Bool; r.b = v; return r; }
  static Value integer(Int v) { Value r; r.tag = Tag::Int; r.i = v; return r; }
  static Value number(double v) { Value r; r.tag = Tag::Float; r.f = v == v ? v : std::numeric_limits<double>::quiet_NaN(); return r; }  // one nan
  static Value text(const Str* v) { Value r; r.tag = Tag::Str; r.s = v; return r; }
  static Value dtype(uint32_t v) { Value r; r.tag = Tag::Dtype; r.u = v; return r; }
  static Value opcode(uint32_t v) { Value r; r.tag = Tag::Op; r.u = v; return r; }
  static Value node(Node* v) { Value r; r.tag = Tag::Node; r.n = v; return r; }
  // clang-format on
  static Value seq(const Value* items, uint32_t size) {
    Value r;
    r.tag = Tag::Seq;
    uint16_t deepest = 0;
    for (uint32_t k = 0; k < size; k++)
      if (items[k].tag == Tag::Seq && items[k].q.depth > deepest) deepest = items[k].q.depth;
    r.q = {size, uint16_t(deepest + 1), 0, items};
    return r;
  }
};

bool identical_values(const Value& a, const Value& b);
bool equal_values(const Value& a, const Value& b);
// Identity: same kind, same value; floats by their bits, so nan equals nan and 0.0 differs from -0.0.
inline bool identical(const Value& a, const Value& b) { return a.tag == b.tag && (a.tag == Tag::Node ? a.n == b.n : identical_values(a, b)); }
// Numeric equality between bool, int and float; identity otherwise.
inline bool equal(const Value& a, const Value& b) { return a.tag == Tag::Node ? b.tag == Tag::Node && a.n == b.n : equal_values(a, b); }
uint64_t hash_value(const Value& v);
std::string show(const Value& v);
std::string show_int(Int v);

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2));
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  return x;
}

// Errors that the host sees as GraphError, RewriteError and RuleError.
struct GraphError : std::runtime_error {
  using runtime_error::runtime_error;
};
struct RewriteError : std::runtime_error {
  using runtime_error::runtime_error;
};
struct BytecodeError : std::runtime_error {
  using runtime_error::runtime_error;
};

}  // namespace rulegrad
