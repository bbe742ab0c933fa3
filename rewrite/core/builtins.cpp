// The closed list of built-in functions. A function that cannot answer returns false: the guard or rule does not fire.
#include <charconv>
#include <cmath>

#include "builtins.hpp"
#include "substitute.hpp"

namespace rulegrad {

namespace {

// ---- numbers ----

bool gather(Arguments a, uint32_t count, std::vector<Value>& out) {
  for (uint32_t k = 0; k < count; k++) {
    if (a[k].tag == Tag::Seq) out.insert(out.end(), a[k].q.items, a[k].q.items + a[k].q.size);
    else out.push_back(a[k]);
  }
  return !out.empty();
}

bool f_gcd(Machine&, Arguments a, uint32_t count, Value& r) {
  std::vector<Value> all;
  gather(a, count, all);
  Int g = 0, v;
  for (auto& x : all) {
    if (!int_of(x, v)) return false;
    g = gcd_of(g, v);
  }
  r = Value::integer(g);
  return true;
}

bool f_abs(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag == Tag::Float) r = Value::number(std::fabs(a[0].f));
  else if (a[0].tag == Tag::Int) r = Value::integer(a[0].i < 0 ? checked_sub(0, a[0].i) : a[0].i);
  else return false;
  return true;
}

bool extreme(Arguments a, uint32_t count, bool largest, Value& r) {
  bool first = true;
  auto take = [&](const Value& v) {
    double x = 0, y = 0;
    if (v.tag != Tag::Int && v.tag != Tag::Float && v.tag != Tag::Bool) return false;
    if (first) {
      r = v;
      first = false;
    } else if (v.tag == Tag::Int && r.tag == Tag::Int) {
      if (largest ? v.i > r.i : v.i < r.i) r = v;
    } else {
      real_of(v, x);
      real_of(r, y);
      if (std::isnan(y)) return true;
      if (std::isnan(x) || (largest ? x > y : x < y)) r = v;
    }
    return true;
  };
  for (uint32_t k = 0; k < count; k++) {
    if (a[k].tag == Tag::Seq) {
      for (uint32_t j = 0; j < a[k].q.size; j++)
        if (!take(a[k].q.items[j])) return false;
    } else if (!take(a[k])) {
      return false;
    }
  }
  return !first;
}

bool f_min(Machine&, Arguments a, uint32_t count, Value& r) { return extreme(a, count, false, r); }
bool f_max(Machine&, Arguments a, uint32_t count, Value& r) { return extreme(a, count, true, r); }

template <double (*F)(double)>
bool f_real(Machine&, Arguments a, uint32_t, Value& r) {
  double x;
  if (!real_of(a[0], x)) return false;
  r = Value::number(F(x));
  return true;
}

template <double (*F)(double, double)>
bool f_real2(Machine&, Arguments a, uint32_t, Value& r) {
  double x, y;
  if (!real_of(a[0], x) || !real_of(a[1], y)) return false;
  r = Value::number(F(x, y));
  return true;
}

template <double (*F)(double)>
bool f_round(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag == Tag::Int) {
    r = a[0];
    return true;
  }
  double x;
  if (!real_of(a[0], x)) return false;
  r = Value::number(F(x));
  return true;
}

bool f_ceildiv(Machine&, Arguments a, uint32_t, Value& r) {
  Int x, y;
  if (!int_of(a[0], x) || !int_of(a[1], y) || y == 0) return false;
  r = Value::integer(checked_sub(0, floor_div(checked_sub(0, x), y)));
  return true;
}

bool power_of_two(const Value& v, Int& n) { return int_of(v, n) && n > 0 && (n & (n - 1)) == 0; }

bool f_log2(Machine&, Arguments a, uint32_t, Value& r) {
  Int n;
  if (a[0].tag == Tag::Float) {
    r = Value::number(std::log2(a[0].f));
    return true;
  }
  if (!power_of_two(a[0], n)) return false;
  int k = 0;
  while (n > 1) {
    n >>= 1;
    k++;
  }
  r = Value::integer(k);
  return true;
}

bool f_is_pow2(Machine&, Arguments a, uint32_t, Value& r) {
  Int n;
  int exponent;
  if (a[0].tag == Tag::Float) r = Value::boolean(std::frexp(a[0].f, &exponent) == 0.5);
  else r = Value::boolean(power_of_two(a[0], n));
  return true;
}

bool f_is_int(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag == Tag::Node) return false;
  r = Value::boolean(a[0].tag == Tag::Int || (a[0].tag == Tag::Float && std::isfinite(a[0].f) && a[0].f == std::floor(a[0].f)));
  return true;
}

// ---- dtypes and constants ----

bool f_eval(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Op || a[1].tag != Tag::Dtype || a[2].tag != Tag::Seq || a[2].q.size > 8) return false;
  Value values[8];
  uint32_t from = a[1].u;  // of the arguments, as far as they say
  for (uint32_t k = 0; k < a[2].q.size; k++) {
    values[k] = a[2].q.items[k];
    if (values[k].tag != Tag::Node) continue;
    if (!is_const(values[k].n)) return false;
    from = values[k].n->dtype;
    values[k] = const_value(values[k].n);
  }
  return evaluate_op(a[0].u, a[1].u, values, a[2].q.size, from, r);
}

bool f_convert(Machine& m, Arguments a, uint32_t count, Value& r) {
  if (count == 2 && a[1].tag != Tag::Dtype) return false;
  if (a[0].tag != Tag::Int && a[0].tag != Tag::Float && a[0].tag != Tag::Bool) return false;
  r = convert_value(a[0], count == 2 ? a[1].u : m.current_dtype);
  return true;
}

bool f_bitcast(Machine& m, Arguments a, uint32_t count, Value& r) {
  if (a[0].tag != Tag::Int && a[0].tag != Tag::Float && a[0].tag != Tag::Bool) return false;
  if (count == 1) {
    r = bitcast_value(a[0], m.argument_dtype, m.current_dtype);
    return true;
  }
  if (count != 3 || a[1].tag != Tag::Dtype || a[2].tag != Tag::Dtype) return false;
  r = bitcast_value(a[0], a[1].u, a[2].u);
  return true;
}

bool f_identity(Machine&, Arguments a, uint32_t, Value& r) { return a[0].tag == Tag::Op && a[1].tag == Tag::Dtype && identity_of(a[0].u, a[1].u, r); }

bool f_lossless(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Dtype || a[1].tag != Tag::Dtype) return false;
  const DtypeInfo &x = dtype_info(a[0].u), &y = dtype_info(a[1].u);
  auto answer = [&] {
    if (a[0].u == a[1].u) return true;
    if (x.kind == Kind::Void || y.kind == Kind::Void) return false;
    if (x.kind == Kind::Bool) return y.kind != Kind::Bool;
    if (y.kind == Kind::Index) return x.kind == Kind::Int || (x.kind == Kind::Uint && x.bits < 64);
    if (x.kind == Kind::Index || y.kind == Kind::Bool) return false;
    if (y.kind == Kind::Float) {
      if (x.kind == Kind::Float) return x.exponent <= y.exponent && x.mantissa <= y.mantissa && !(y.bits == 8);
      int digits = x.bits - (x.kind == Kind::Int);
      return digits <= y.mantissa + 1 && digits < (1 << (y.exponent - 1));
    }
    if (x.kind == Kind::Float) return false;
    if (x.kind == y.kind) return x.bits <= y.bits;
    return x.kind == Kind::Uint && x.bits < y.bits;
  };
  r = Value::boolean(answer());
  return true;
}

bool f_fits(Machine&, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  if (a[1].tag != Tag::Dtype) return false;
  Kind kind = dtype_info(n->dtype).kind;
  if (kind == Kind::Float || kind == Kind::Void) return false;
  int64_t low, high, type_low, type_high;
  interval_of(n, low, high);
  dtype_bounds(a[1].u, type_low, type_high);
  r = Value::boolean(a[1].u == n->dtype || (low >= type_low && high <= type_high && low != kUnboundedLow && (high != kUnboundedHigh)));
  return true;
}

template <bool (*F)(const DtypeInfo&)>
bool f_kind(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Dtype) return false;
  r = Value::boolean(F(dtype_info(a[0].u)));
  return true;
}
bool kind_float(const DtypeInfo& d) { return d.kind == Kind::Float; }
bool kind_signed(const DtypeInfo& d) { return d.kind == Kind::Float || d.kind == Kind::Int || d.kind == Kind::Index; }
bool kind_integer(const DtypeInfo& d) { return d.kind == Kind::Int || d.kind == Kind::Uint || d.kind == Kind::Index; }

bool f_subst(Machine& m, Arguments a, uint32_t count, Value& r) {
  Node* e;
  if (!node_of(a[0], e) || count % 2 == 0) return false;
  Substitution substitution(m);
  auto pair = [&](const Value& from, const Value& to) {
    if (from.tag != Tag::Node) return false;
    Node* made = m.lift(to, from.n->dtype);
    if (made->dtype != from.n->dtype)
      throw RewriteError("subst changes the dtype of " + describe(from.n) + " to " + dtype_info(made->dtype).name->text);
    substitution.put(from.n, made);
    return true;
  };
  for (uint32_t k = 1; k < count; k += 2) {
    const Value &from = a[k], &to = a[k + 1];
    if (from.tag != Tag::Seq) {
      if (!pair(from, to)) return false;
      continue;
    }
    if (to.tag != Tag::Seq || to.q.size != from.q.size) return false;
    for (uint32_t j = 0; j < from.q.size; j++)
      if (!pair(from.q.items[j], to.q.items[j])) return false;
  }
  r = Value::node(substitution.made_of(e));
  return true;
}

// ---- target facts ----

bool f_type(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Dtype) return false;
  auto found = m.program.type_names.find(a[0].u);
  if (found == m.program.type_names.end()) throw RewriteError("the target has no type name for " + dtype_info(a[0].u).name->text);
  r = Value::text(found->second);
  return true;
}

// How a target spells a special value: of this dtype, else of any.
std::string special_value(const Program& program, const DtypeInfo& d, const std::string& name, const char* otherwise) {
  return spelling(program, "literal." + d.name->text + " " + name, spelling(program, "literal." + name, otherwise));
}

bool f_literal(Machine& m, Arguments a, uint32_t, Value& r) {
  NODE_ARGUMENT(0);
  if (!is_const(n)) return false;
  const Value& v = const_value(n);
  const DtypeInfo& d = dtype_info(n->dtype);
  std::string s, suffix = spelling(m.program, "suffix." + d.name->text, "");
  if (v.tag == Tag::Bool) {
    s = spelling(m.program, v.b ? "literal.true" : "literal.false", v.b ? "1" : "0");
  } else if (v.tag == Tag::Int) {
    if (v.i == INT64_MIN) s = "(-9223372036854775807" + suffix + " - 1" + suffix + ")";
    else if (v.i == INT32_MIN && d.bits == 32) s = "(-2147483647 - 1)";
    else s = show_int(v.i) + suffix;
  } else if (std::isnan(v.f)) {
    s = special_value(m.program, d, "nan", "NAN");
  } else if (std::isinf(v.f)) {
    s = (v.f < 0 ? "-" : "") + special_value(m.program, d, "inf", "INFINITY");
  } else {
    char buffer[64];
    char* end = d.bits == 64 ? std::to_chars(buffer, buffer + sizeof buffer, v.f).ptr : std::to_chars(buffer, buffer + sizeof buffer, float(v.f)).ptr;
    s.assign(buffer, end);
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
    s += suffix;
  }
  r = Value::text(intern(s));
  return true;
}

bool f_limit(Machine& m, Arguments a, uint32_t, Value& r) {
  if (a[0].tag != Tag::Str) return false;
  auto found = m.program.limits.find(a[0].s->text);
  if (found == m.program.limits.end()) return false;
  r = found->second;
  return true;
}

// ---- the op table's own ----

bool f_dtype_min(Machine& m, Arguments, uint32_t, Value& r) {
  static const Str* name = intern("min");
  const DtypeInfo& d = dtype_info(m.current_dtype);
  if (d.kind == Kind::Float && !std::isnan(round_float(INFINITY, d))) {  // e4m3fn has no infinity
    r = Value::number(-INFINITY);
    return true;
  }
  return m.member(Value::dtype(m.current_dtype), name, r);
}

bool f_dtype_max(Machine& m, Arguments, uint32_t, Value& r) {
  static const Str* name = intern("max");
  const DtypeInfo& d = dtype_info(m.current_dtype);
  if (d.kind == Kind::Float && !std::isnan(round_float(INFINITY, d))) {  // e4m3fn has no infinity
    r = Value::number(INFINITY);
    return true;
  }
  return m.member(Value::dtype(m.current_dtype), name, r);
}

template <int OP>
bool f_bits(Machine& m, Arguments a, uint32_t, Value& r) {
  return a[0].tag != Tag::Node && m.binary(OP, false, a[0], a[1], r);
}

bool f_bit_not(Machine& m, Arguments a, uint32_t, Value& r) { return m.unary(U_NOT, false, a[0], r); }

bool f_shift_left(Machine& m, Arguments a, uint32_t, Value& r) {
  Int x, y;
  if (!int_of(a[0], x) || !int_of(a[1], y)) return false;
  if (y < 0 || y >= dtype_info(m.current_dtype).bits) {
    r = Value::integer(0);
    return true;
  }
  r = Value::integer(Int((unsigned __int128)x << int(y)));  // the caller wraps to the dtype
  return true;
}

bool f_shift_right(Machine&, Arguments a, uint32_t, Value& r) {
  Int x, y;
  if (!int_of(a[0], x) || !int_of(a[1], y) || y < 0) return false;
  r = Value::integer(y > 126 ? (x < 0 ? -1 : 0) : x >> int(y));
  return true;
}

bool f_trunc_div(Machine&, Arguments a, uint32_t, Value& r) {
  Int x, y;
  if (!int_of(a[0], x) || !int_of(a[1], y)) return false;
  r = Value::integer(y == 0 ? 0 : y == -1 ? checked_sub(0, x) : x / y);
  return true;
}

bool f_trunc_mod(Machine&, Arguments a, uint32_t, Value& r) {
  Int x, y;
  if (!int_of(a[0], x) || !int_of(a[1], y)) return false;
  r = Value::integer(y == 0 || y == -1 ? 0 : x % y);
  return true;
}

// Integer powers wrap around, as repeated multiplication does.
bool f_pow(Machine&, Arguments a, uint32_t, Value& r) {
  if (a[0].tag == Tag::Float || a[1].tag == Tag::Float) {
    double x, y;
    if (!real_of(a[0], x) || !real_of(a[1], y)) return false;
    r = Value::number(std::pow(x, y));
    return true;
  }
  Int x, y;
  if (!int_of(a[0], x) || !int_of(a[1], y) || y < 0) return false;
  uint64_t result = 1, power = uint64_t(x);
  for (; y; y >>= 1, power *= power)
    if (y & 1) result *= power;
  r = Value::integer(int64_t(result));
  return true;
}

struct Entry {
  const char* name;
  Function function;
};

// clang-format off
const Entry kBuiltins[] = {
    {"vmin", f_vmin}, {"vmax", f_vmax}, {"dtype", f_dtype}, {"shape", f_shape}, {"rank", f_rank}, {"size", f_size}, {"op", f_op}, {"op_cost", f_op_cost},
    {"srcs", f_srcs}, {"src", f_src}, {"attr", f_attr}, {"is_const", f_is_const}, {"value", f_value}, {"is_op", f_is_op},
    {"ranges", f_ranges}, {"key", f_key}, {"contains", f_contains}, {"uses", f_uses}, {"slot", f_slot}, {"nodes", f_nodes},
    {"sum", f_sum}, {"prod", f_prod}, {"all_of", f_all_of}, {"fold", f_fold},
    {"const_factor", f_const_factor}, {"gcd", f_gcd}, {"ordered_sum", f_ordered_sum},
    {"joined_sum", f_joined_sum}, {"split_sum", f_split_sum}, {"quotient_sum", f_quotient_sum}, {"split_sum_below", f_split_sum_below}, {"residue", f_residue},
    {"abs", f_abs}, {"min", f_min}, {"max", f_max}, {"floor", f_round<std::floor>}, {"ceil", f_round<std::ceil>}, {"ceildiv", f_ceildiv},
    {"log2", f_log2}, {"is_pow2", f_is_pow2}, {"is_int", f_is_int}, {"iota", f_iota}, {"product", f_product},
    {"total", f_total}, {"len", f_len}, {"zip", f_zip}, {"reversed", f_reversed}, {"sorted", f_sorted}, {"argsort", f_argsort}, {"distinct", f_distinct},
    {"any", f_any}, {"all", f_all}, {"strides", f_strides}, {"eval", f_eval}, {"convert", f_convert}, {"identity", f_identity},
    {"lossless", f_lossless}, {"fits", f_fits}, {"is_float", f_kind<kind_float>}, {"is_signed", f_kind<kind_signed>},
    {"is_integer", f_kind<kind_integer>}, {"subst", f_subst}, {"type", f_type}, {"literal", f_literal}, {"limit", f_limit},
    {"dtype_min", f_dtype_min}, {"dtype_max", f_dtype_max}, {"bit_not", f_bit_not}, {"bit_and", f_bits<B_AND>}, {"bit_or", f_bits<B_OR>},
    {"bit_xor", f_bits<B_XOR>}, {"shift_left", f_shift_left}, {"shift_right", f_shift_right}, {"trunc_div", f_trunc_div},
    {"trunc_mod", f_trunc_mod}, {"pow", f_pow}, {"sqrt", f_real<std::sqrt>}, {"exp", f_real<std::exp>}, {"exp2", f_real<std::exp2>},
    {"log", f_real<std::log>}, {"sin", f_real<std::sin>}, {"cos", f_real<std::cos>}, {"tanh", f_real<std::tanh>},
    {"trunc", f_real<std::trunc>}, {"round_even", f_real<std::nearbyint>}, {"bitcast", f_bitcast},
    {"expm1", f_real<std::expm1>}, {"log1p", f_real<std::log1p>}, {"log10", f_real<std::log10>}, {"tan",
    f_real<std::tan>}, {"asin", f_real<std::asin>}, {"acos", f_real<std::acos>}, {"atan", f_real<std::atan>}, {"sinh",
    f_real<std::sinh>}, {"cosh", f_real<std::cosh>}, {"asinh", f_real<std::asinh>}, {"acosh", f_real<std::acosh>},
    {"atanh", f_real<std::atanh>}, {"erf", f_real<std::erf>}, {"erfc", f_real<std::erfc>}, {"lgamma",
    f_real<std::lgamma>}, {"digamma", f_real<digamma>}, {"atan2", f_real2<std::atan2>}, {"hypot", f_real2<std::hypot>},
    {"fmod", f_real2<std::fmod>},
};
// clang-format on

}  // namespace

int find_builtin(std::string_view name) {
  for (size_t k = 0; k < std::size(kBuiltins); k++)
    if (name == kBuiltins[k].name) return int(k);
  return -1;
}

bool Machine::builtin(int number, const Value* a, uint32_t count, Value& result) { return kBuiltins[number].function(*this, a, count, result); }

}  // namespace rulegrad
