// Compiled programs as bytes: little-endian 32-bit integers, strings and tagged values, written by lang/compiler/assembler.py.
#pragma once
#include "program.hpp"

namespace rulegrad {

inline constexpr Int kLargest = (Int(1) << 126) / 10;  // of the digits so far

// Reads them one after the other; what is not one is an error.
class Reader {
 public:
  Reader(const uint8_t* bytes, size_t size, Program& program) : at_(bytes), end_(bytes + size), program_(program) {}
  int32_t number() {
    need(4);
    int32_t v;
    std::memcpy(&v, at_, 4);
    at_ += 4;
    return v;
  }
  uint32_t count() {
    int32_t v = number();
    if (v < 0 || size_t(v) > size_t(end_ - at_)) throw BytecodeError("a count is out of range");
    return uint32_t(v);
  }
  std::string_view bytes() {
    uint32_t n = count();
    need(n);
    std::string_view s(reinterpret_cast<const char*>(at_), n);
    if (!is_utf8(s)) throw BytecodeError("a text is not UTF-8");
    at_ += n;
    return s;
  }
  const Str* text() { return intern(bytes()); }
  uint32_t op() {
    auto name = bytes();
    int k = find_op(name);
    if (k < 0) throw BytecodeError("unknown op " + std::string(name));
    return uint32_t(k);
  }
  uint32_t dtype() {
    auto name = bytes();
    int k = find_dtype(name);
    if (k < 0) throw BytecodeError("unknown dtype " + std::string(name));
    return uint32_t(k);
  }
  Value value(int depth = 0) {
    if (depth > 32) throw BytecodeError("a constant is nested too deeply");
    switch (number()) {
      case 0: return Value::none();
      case 1: return Value::boolean(number() != 0);
      case 2: {  // decimal text: integers have up to 128 bits
        auto s = bytes();
        bool negative = !s.empty() && s[0] == '-';
        Int v = 0;
        for (char c : s.substr(negative)) {
          if (c < '0' || c > '9' || v > kLargest) throw BytecodeError("a malformed integer");
          v = v * 10 + (c - '0');
        }
        return Value::integer(negative ? -v : v);
      }
      case 3: {
        need(8);
        double f;
        std::memcpy(&f, at_, 8);
        at_ += 8;
        return Value::number(f);
      }
      case 4: return Value::text(text());
      case 5: return Value::dtype(dtype());
      case 6: return Value::opcode(op());
      case 7: {
        uint32_t n = count();
        std::vector<Value> items;
        for (uint32_t k = 0; k < n; k++) items.push_back(value(depth + 1));
        program_.sequences.push_back(std::move(items));
        auto& kept = program_.sequences.back();
        return Value::seq(kept.data(), uint32_t(kept.size()));
      }
      case 8: {  // a record: its form, and its values
        Value form = value(depth + 1), values = value(depth + 1);
        if (form.tag != Tag::Seq || !form.q.size || values.tag != Tag::Seq || values.q.size + 1 != form.q.size)
          throw BytecodeError("a malformed record");
        std::vector<const Str*> names;
        for (uint32_t k = 0; k < form.q.size; k++) {
          if (form.q.items[k].tag != Tag::Str) throw BytecodeError("a malformed record");
          names.push_back(form.q.items[k].s);
        }
        values.q.form = intern_form(names[0], {names.begin() + 1, names.end()});
        return values;
      }
      default: throw BytecodeError("an unknown kind of constant");
    }
  }
  bool done() const { return at_ == end_; }

 private:
  void need(size_t n) const {
    if (size_t(end_ - at_) < n) throw BytecodeError("the program ends too early");
  }
  const uint8_t *at_, *end_;
  Program& program_;
};

}  // namespace rulegrad
