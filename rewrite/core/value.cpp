#include "value.hpp"

#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "node.hpp"

namespace rulegrad {

namespace {
std::mutex& names_lock() {
  static std::mutex guard;
  return guard;
}
}  // namespace

void lock_names() { names_lock().lock(); }
void unlock_names() { names_lock().unlock(); }

const Str* intern(std::string_view text) {
  static std::unordered_map<std::string, std::unique_ptr<Str>> table;
  std::lock_guard<std::mutex> lock(names_lock());
  std::string owned(text);
  auto& slot = table[owned];
  if (!slot) {
    uint64_t h = 1469598103934665603ULL;
    for (unsigned char c : owned) h = (h ^ c) * 1099511628211ULL;
    slot = std::make_unique<Str>(Str{owned, h});
  }
  return slot.get();
}

namespace {
constexpr size_t kMostForms = 1 << 14;
std::array<std::atomic<const RecordForm*>, kMostForms> g_forms;  // whoever has a number finds its form without a lock
}  // namespace

uint16_t intern_form(const Str* name, const std::vector<const Str*>& fields) {
  static std::map<std::pair<const Str*, std::vector<const Str*>>, uint16_t> numbers;
  std::lock_guard<std::mutex> lock(names_lock());
  auto [at, is_new] = numbers.try_emplace({name, fields}, uint16_t(numbers.size() + 1));
  if (is_new) {
    if (numbers.size() == kMostForms) {
      numbers.erase(at);
      throw BytecodeError("more than " + std::to_string(kMostForms - 1) + " forms of records");
    }
    g_forms[at->second].store(new RecordForm{name, fields}, std::memory_order_release);
  }
  return at->second;
}

const RecordForm& record_form(uint16_t number) { return *g_forms[number].load(std::memory_order_acquire); }

bool identical_values(const Value& a, const Value& b) {
  if (a.tag != b.tag) return false;
  switch (a.tag) {
    case Tag::None: return true;
    case Tag::Bool: return a.b == b.b;
    case Tag::Int: return a.i == b.i;
    case Tag::Float: return std::memcmp(&a.f, &b.f, sizeof(double)) == 0;
    case Tag::Str: return a.s == b.s;
    case Tag::Dtype:
    case Tag::Op: return a.u == b.u;
    case Tag::Node: return a.n == b.n;
    case Tag::Seq:
      if (a.q.size != b.q.size || a.q.form != b.q.form) return false;
      for (uint32_t k = 0; k < a.q.size; k++)
        if (!identical(a.q.items[k], b.q.items[k])) return false;
      return true;
  }
  return false;
}

static bool numeric(const Value& v) { return v.tag == Tag::Bool || v.tag == Tag::Int || v.tag == Tag::Float; }

bool equal_values(const Value& a, const Value& b) {
  if (a.tag == Tag::Seq && b.tag == Tag::Seq) {
    if (a.q.size != b.q.size || a.q.form != b.q.form) return false;
    for (uint32_t k = 0; k < a.q.size; k++)
      if (!equal(a.q.items[k], b.q.items[k])) return false;
    return true;
  }
  if (!numeric(a) || !numeric(b)) return identical(a, b);
  if (a.tag == Tag::Float && b.tag == Tag::Float) return a.f == b.f;
  auto whole = [](const Value& v) { return v.tag == Tag::Int ? v.i : Int(v.b); };
  if (a.tag != Tag::Float && b.tag != Tag::Float) return whole(a) == whole(b);
  double f = a.tag == Tag::Float ? a.f : b.f;
  Int i = whole(a.tag == Tag::Float ? b : a);
  return std::fabs(f) < 0x1p126 && f == std::trunc(f) && Int(f) == i;  // exact: 2**53 + 1 is not a float64
}

uint64_t hash_value(const Value& v) {
  uint64_t h = uint64_t(v.tag) * 0x9e3779b97f4a7c15ULL;
  switch (v.tag) {
    case Tag::None: return h;
    case Tag::Bool: return mix(h, v.b);
    case Tag::Int: return mix(mix(h, uint64_t(v.i)), uint64_t(v.i >> 64));
    case Tag::Float: {
      uint64_t bits;
      std::memcpy(&bits, &v.f, sizeof bits);
      return mix(h, bits);
    }
    case Tag::Str: return mix(h, v.s->hash);
    case Tag::Dtype:
    case Tag::Op: return mix(h, v.u + 1);
    case Tag::Node: return mix(h, v.n->hash);
    case Tag::Seq:
      for (uint32_t k = 0; k < v.q.size; k++) h = mix(h, hash_value(v.q.items[k]));
      return mix(h, v.q.size);
  }
  return h;
}

std::string show_int(Int v) {
  if (v == 0) return "0";
  bool negative = v < 0;
  unsigned __int128 u = negative ? -(unsigned __int128)v : (unsigned __int128)v;
  std::string s;
  for (; u; u /= 10) s.insert(s.begin(), char('0' + int(u % 10)));
  return negative ? "-" + s : s;
}

static std::string show_float(double f) {
  if (std::isnan(f)) return "nan";
  if (std::isinf(f)) return f > 0 ? "inf" : "-inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, f).ptr;
  std::string s(buffer, end);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

static std::string quote(const std::string& text) {
  std::string s = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    if (c == '\n') {
      s += "\\n";
      continue;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", unsigned(c));
      s += hex;
      continue;
    }
    s += c;
  }
  return s + "\"";
}

std::string show(const Value& v) {
  switch (v.tag) {
    case Tag::None: return "none";
    case Tag::Bool: return v.b ? "true" : "false";
    case Tag::Int: return show_int(v.i);
    case Tag::Float: return show_float(v.f);
    case Tag::Str: return quote(v.s->text);
    case Tag::Dtype: return dtype_info(v.u).name->text;
    case Tag::Op: return op_info(v.u).name->text;
    case Tag::Node: return describe(v.n);
    case Tag::Seq: {
      const RecordForm* form = v.q.form ? &record_form(v.q.form) : nullptr;
      std::string s = form ? form->name->text + "(" : "(";
      for (uint32_t k = 0; k < v.q.size; k++) s += (k ? ", " : "") + (form ? form->fields[k]->text + "=" : "") + show(v.q.items[k]);
      return s + (v.q.size == 1 && !form ? ",)" : ")");
    }
  }
  return "?";
}

bool is_utf8(std::string_view s) {
  for (size_t k = 0; k < s.size();) {
    auto byte = [&](size_t j) { return static_cast<unsigned char>(s[j]); };
    unsigned char c = byte(k);
    size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 4;
    if (more == 4 || k + more >= s.size()) return false;
    for (size_t j = 1; j <= more; j++)
      if ((byte(k + j) & 0xc0) != 0x80) return false;
    if ((c == 0xe0 && byte(k + 1) < 0xa0) || (c == 0xed && byte(k + 1) > 0x9f) || (c == 0xf0 && byte(k + 1) < 0x90) ||
        (c == 0xf4 && byte(k + 1) > 0x8f))
      return false;  // too long, a surrogate, or beyond the last character
    k += more + 1;
  }
  return true;
}

}  // namespace rulegrad
