#include "interval.hpp"

#include <algorithm>

#include "facts.hpp"

namespace rulegrad {

namespace {

enum Action : uint8_t {
  kConstant,
  kMove,
  kJump,
  kJumpFalse,
  kJumpTrue,
  kReturn,
  kFail,
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kFloorMod,
  kLess,
  kAtMost,
  kEqual,
  kUnequal,
  kNegate,
  kLogicalNot,
  kMin,
  kMax,
  kBitNot,
  kDtypeMin,
  kDtypeMax,
  kShiftRight,
  kTruncDiv,
  kAbs,
  kNone
};

constexpr int32_t kSlots = 64, kScratch = kSlots - 1;

uint8_t binary_action(int32_t op) {
  switch (op) {
    case B_ADD: return kAdd;
    case B_SUB: return kSub;
    case B_MUL: return kMul;
    case B_FLOORDIV: return kFloorDiv;
    case B_FLOORMOD: return kFloorMod;
    case B_CMPLT: return kLess;
    case B_CMPLE: return kAtMost;
    case B_CMPEQ: return kEqual;
    case B_CMPNE: return kUnequal;
    default: return kNone;
  }
}

uint8_t builtin_action(int number) {
  static const std::pair<const char*, uint8_t> table[] = {{"min", kMin},
                                                          {"max", kMax},
                                                          {"bit_not", kBitNot},
                                                          {"dtype_min", kDtypeMin},
                                                          {"dtype_max", kDtypeMax},
                                                          {"shift_right", kShiftRight},
                                                          {"trunc_div", kTruncDiv},
                                                          {"abs", kAbs}};
  for (auto& [name, action] : table)
    if (find_builtin(name) == number) return action;
  return kNone;
}

int64_t quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}

int64_t remainder(int64_t a, int64_t b) {  // with the divisor's sign
  int64_t r = a % b;
  return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}

}  // namespace

IntervalCode translate_interval(const Program& table, const Code& code) {
  IntervalCode out;
  std::vector<int32_t> places(code.size() + 1, -1);  // of instructions among the steps
  auto emit = [&](uint8_t action, int32_t to, int32_t a, int32_t b = 0, int64_t value = 0, int32_t place = 0) {
    out.steps.push_back({action, uint8_t(to), uint8_t(a), uint8_t(b), place, value});
  };
  auto slot = [](int32_t r) { return r >= 0 && r < kScratch; };
  for (size_t at = 0; at < code.size();) {
    const int32_t* c = &code[at];
    places[at] = int32_t(out.steps.size());
    switch (c[0]) {
      case I_CONSTANT: {
        const Value& v = table.constants[size_t(c[2])];
        bool fits = v.tag == Tag::Bool || (v.tag == Tag::Int && v.i == int64_t(v.i));
        if (!slot(c[1]) || !fits) return {};
        emit(kConstant, c[1], 0, 0, v.tag == Tag::Bool ? v.b : int64_t(v.i));
        at += 3;
        break;
      }
      case I_MOVE:
        if (!slot(c[1]) || !slot(c[2])) return {};
        emit(kMove, c[1], c[2]);
        at += 3;
        break;
      case I_JUMP:
        emit(kJump, 0, 0, 0, 0, c[1]);
        at += 2;
        break;
      case I_JUMP_FALSE:
      case I_JUMP_TRUE:
        if (!slot(c[1])) return {};
        emit(c[0] == I_JUMP_FALSE ? kJumpFalse : kJumpTrue, 0, c[1], 0, 0, c[2]);
        at += 3;
        break;
      case I_RETURN:
        if (!slot(c[1])) return {};
        emit(kReturn, 0, c[1]);
        at += 2;
        break;
      case I_FAIL:
        emit(kFail, 0, 0);
        at += 1;
        break;
      case I_UNARY: {
        uint8_t action = c[2] == U_NEG ? kNegate : c[2] == U_LOGICAL_NOT ? kLogicalNot : kNone;
        if (action == kNone || !slot(c[1]) || !slot(c[3])) return {};
        emit(action, c[1], c[3]);
        at += 4;
        break;
      }
      case I_BINARY: {
        uint8_t action = binary_action(c[2]);
        if (action == kNone || !slot(c[1]) || !slot(c[4]) || !slot(c[5])) return {};
        emit(action, c[1], c[4], c[5]);
        at += 6;
        break;
      }
      case I_BUILTIN: {
        uint8_t action = builtin_action(table.builtins[size_t(c[2])]);
        int32_t n = c[3];
        bool fits = slot(c[1]);
        for (int32_t k = 0; k < n; k++) fits &= slot(c[4 + k]);
        if (action == kNone || !fits) return {};
        if (action == kMin || action == kMax) {  // of any number of arguments: two at a time
          if (n < 1) return {};
          emit(kMove, kScratch, c[4]);
          for (int32_t k = 1; k < n; k++) emit(action, kScratch, kScratch, c[4 + k]);
          emit(kMove, c[1], kScratch);
        } else {
          int32_t wanted = action == kDtypeMin || action == kDtypeMax ? 0 : action == kShiftRight || action == kTruncDiv ? 2 : 1;
          if (n != wanted) return {};
          emit(action, c[1], n > 0 ? c[4] : 0, n > 1 ? c[5] : 0);
        }
        at += size_t(4 + n);
        break;
      }
      default: return {};
    }
  }
  for (auto& s : out.steps)
    if (s.action == kJump || s.action == kJumpFalse || s.action == kJumpTrue) s.place = places[size_t(s.place)];
  return out;
}

Bound run_interval(const IntervalCode& code, const int64_t* ends, uint32_t count, uint32_t dtype, int64_t& result) {
  int64_t r[kSlots];
  std::copy(ends, ends + count, r);
  const DtypeInfo& d = dtype_info(dtype);
  for (const IntervalCode::Step* s = code.steps.data();;) {
    const IntervalCode::Step& x = *s++;
    switch (x.action) {
      case kConstant: r[x.to] = x.value; break;
      case kMove: r[x.to] = r[x.a]; break;
      case kJump: s = &code.steps[size_t(x.place)]; break;
      case kJumpFalse:
        if (!r[x.a]) s = &code.steps[size_t(x.place)];
        break;
      case kJumpTrue:
        if (r[x.a]) s = &code.steps[size_t(x.place)];
        break;
      case kReturn: result = r[x.a]; return result == kUnboundedLow || result == kUnboundedHigh ? Bound::Unknown : Bound::Known;
      case kFail: return Bound::Unknown;
      case kAdd:
        if (__builtin_add_overflow(r[x.a], r[x.b], &r[x.to])) return Bound::Beyond;
        break;
      case kSub:
        if (__builtin_sub_overflow(r[x.a], r[x.b], &r[x.to])) return Bound::Beyond;
        break;
      case kMul:
        if (__builtin_mul_overflow(r[x.a], r[x.b], &r[x.to])) return Bound::Beyond;
        break;
      case kFloorDiv:
        if (r[x.b] == 0) return Bound::Unknown;
        if (r[x.b] == -1 && r[x.a] == INT64_MIN) return Bound::Beyond;
        r[x.to] = quotient(r[x.a], r[x.b]);
        break;
      case kFloorMod:
        if (r[x.b] == 0) return Bound::Unknown;
        r[x.to] = r[x.b] == -1 ? 0 : remainder(r[x.a], r[x.b]);
        break;
      case kLess: r[x.to] = r[x.a] < r[x.b]; break;
      case kAtMost: r[x.to] = r[x.a] <= r[x.b]; break;
      case kEqual: r[x.to] = r[x.a] == r[x.b]; break;
      case kUnequal: r[x.to] = r[x.a] != r[x.b]; break;
      case kNegate:
        if (__builtin_sub_overflow(int64_t(0), r[x.a], &r[x.to])) return Bound::Beyond;
        break;
      case kLogicalNot: r[x.to] = !r[x.a]; break;
      case kMin: r[x.to] = std::min(r[x.a], r[x.b]); break;
      case kMax: r[x.to] = std::max(r[x.a], r[x.b]); break;
      case kBitNot: r[x.to] = d.kind == Kind::Bool ? !r[x.a] : ~r[x.a]; break;
      case kDtypeMin:
      case kDtypeMax: {
        if (d.kind == Kind::Float || (d.kind == Kind::Uint && d.bits == 64)) return Bound::Beyond;
        int64_t low, high;
        dtype_bounds(dtype, low, high);
        r[x.to] = x.action == kDtypeMin ? low : high;
        break;
      }
      case kShiftRight:
        if (r[x.b] < 0) return Bound::Unknown;
        r[x.to] = r[x.a] >> std::min<int64_t>(r[x.b], 63);
        break;
      case kTruncDiv:
        if (r[x.b] == -1 && r[x.a] == INT64_MIN) return Bound::Beyond;
        r[x.to] = r[x.b] == 0 ? 0 : r[x.a] / r[x.b];
        break;
      case kAbs:
        if (r[x.a] == INT64_MIN) return Bound::Beyond;
        r[x.to] = r[x.a] < 0 ? -r[x.a] : r[x.a];
        break;
      default: return Bound::Beyond;
    }
  }
}

Bound interpret_interval(int code, const int64_t* ends, const bool* truths, uint32_t count, uint32_t parameters, uint32_t dtype, int64_t& result) {
  Machine& m = table_machine();
  auto mark = m.arena.mark();
  for (uint32_t k = 0; k < parameters; k++) {
    for (uint32_t end = 0; end < 2; end++) {
      int64_t v = k < count ? ends[2 * k + end] : end ? kUnboundedHigh : kUnboundedLow;
      bool unbounded = v == (end ? kUnboundedHigh : kUnboundedLow);
      m.registers[2 * k + end] = unbounded ? Value::none() : truths[k] ? Value::boolean(v) : Value::integer(v);
    }
  }
  m.current_dtype = dtype;
  Value v;
  Status status = m.run(op_table_program().codes[size_t(code)], v);
  m.arena.reset(mark);
  if (status != Status::Done) return Bound::Unknown;
  if (v.tag == Tag::Bool) v = Value::integer(v.b);
  if (v.tag != Tag::Int || v.i <= kUnboundedLow || v.i >= kUnboundedHigh) return Bound::Unknown;
  result = int64_t(v.i);
  return Bound::Known;
}

namespace {

struct Ends {
  int64_t values[2 * 8];
  bool truths[8] = {};
  bool bounded = true;  // every end is known
  bool real = true;     // every source is a float: nothing is known
  uint32_t count;
};

Ends ends_of(const Node* n) {
  Ends e;
  e.count = std::min<uint32_t>(n->nsrc, 8);
  for (uint32_t k = 0; k < e.count; k++) {
    const Node* s = n->src[k];
    bool known = s->facts.load(std::memory_order_acquire) & kInterval;
    e.values[2 * k] = known ? s->low.load(std::memory_order_relaxed) : kUnboundedLow;
    e.values[2 * k + 1] = known ? s->high.load(std::memory_order_relaxed) : kUnboundedHigh;
    e.truths[k] = s->dtype == known_dtypes.bool_;
    e.bounded &= e.values[2 * k] != kUnboundedLow && e.values[2 * k + 1] != kUnboundedHigh;
    e.real &= dtype_info(s->dtype).kind == Kind::Float;
  }
  return e;
}

// Whether ends that are not known may stand in it as infinite ones: the smaller of such an end and 9 is at most 9.
bool takes_unbounded(const IntervalCode& code) {
  return std::all_of(code.steps.begin(), code.steps.end(), [](const IntervalCode::Step& s) {
    return s.action == kConstant || s.action == kMove || s.action == kMin || s.action == kMax || s.action == kReturn;
  });
}

// Whether n is one of its sources, or between them: it does not leave their dtype, whichever ends are known.
bool is_chosen(const Node* n, const OpInfo& o) {
  if (o.low.steps.empty() || o.high.steps.empty() || !takes_unbounded(o.low) || !takes_unbounded(o.high)) return false;
  return std::all_of(n->src, n->src + n->nsrc, [n](const Node* s) { return s->dtype == n->dtype || s->dtype == known_dtypes.bool_; });
}

bool bound(const OpInfo& o, const IntervalCode& fast, int code, const Ends& e, uint32_t dtype, int64_t& result) {
  Bound found = Bound::Beyond;
  if (!fast.steps.empty() && e.count == o.parameters.size() && (e.bounded || takes_unbounded(fast)))
    found = run_interval(fast, e.values, 2 * e.count, dtype, result);
  if (found == Bound::Beyond) found = interpret_interval(code, e.values, e.truths, e.count, uint32_t(o.parameters.size()), dtype, result);
  return found == Bound::Known;
}

}  // namespace

void compute_interval(Node* n) {
  int64_t low, high;
  dtype_bounds(n->dtype, low, high);
  const int64_t type_low = low, type_high = high;
  const OpInfo& o = op_info(n->op);
  Kind kind = dtype_info(n->dtype).kind;
  if (is_const(n)) {
    const Value& v = const_value(n);
    if (v.tag == Tag::Bool) low = high = v.b;
    if (v.tag == Tag::Int && v.i == int64_t(v.i)) low = high = int64_t(v.i);
  } else if (n->op == known_ops.CAST && kind == Kind::Bool) {  // a != 0
    int64_t a = n->src[0]->low.load(std::memory_order_relaxed), b = n->src[0]->high.load(std::memory_order_relaxed);
    Kind source = dtype_info(n->src[0]->dtype).kind;
    if (source != Kind::Float && (a > 0 || b < 0)) low = 1;
    if (source != Kind::Float && a == 0 && b == 0) high = 0;
  } else if (o.code_low >= 0 && kind != Kind::Float && kind != Kind::Void) {
    Ends e = ends_of(n);
    if (!e.real) {
      int64_t a = low, b = high;
      bool has_low = bound(o, o.low, o.code_low, e, n->dtype, a), has_high = bound(o, o.high, o.code_high, e, n->dtype, b);
      // A fixed-width result that may leave its dtype may wrap: then nothing is known.
      bool wraps = kind != Kind::Index && kind != Kind::Bool && (((!has_low || !has_high) && !is_chosen(n, o)) || a < type_low || b > type_high);
      if (!wraps && has_low) low = a;
      if (!wraps && has_high) high = b;
      if (kind == Kind::Bool) {
        low = std::max<int64_t>(low, 0);
        high = std::min<int64_t>(high, 1);
      }
      if (low > high) {
        low = type_low;
        high = type_high;
      }  // an empty range: a loop that does not run
    }
  }
  n->low.store(low, std::memory_order_relaxed);
  n->high.store(high, std::memory_order_relaxed);
  n->facts.fetch_or(kInterval, std::memory_order_release);
}

}  // namespace rulegrad
