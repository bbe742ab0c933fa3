#include "number.hpp"

#include <cmath>

namespace rulegrad {

Int checked_add(Int a, Int b) {
  Int r;
  if (__builtin_add_overflow(a, b, &r)) throw RewriteError("integer overflow in a computed constant (addition)");
  return r;
}
Int checked_sub(Int a, Int b) {
  Int r;
  if (__builtin_sub_overflow(a, b, &r)) throw RewriteError("integer overflow in a computed constant (subtraction)");
  return r;
}
Int checked_mul(Int a, Int b) {
  if (a == int64_t(a) && b == int64_t(b)) return a * b;  // the product of two int64 always fits
  Int r;
  if (__builtin_mul_overflow(a, b, &r)) throw RewriteError("integer overflow in a computed constant (multiplication)");
  return r;
}
Int floor_div(Int a, Int b) {
  if (b == 0) throw RewriteError("division by zero in a computed constant");
  if (a == int64_t(a) && b == int64_t(b) && b != -1) {
    int64_t x = int64_t(a), y = int64_t(b), q = x / y;
    return q - ((x % y != 0) && ((x < 0) != (y < 0)));
  }
  if (b == -1) return checked_sub(0, a);
  Int q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
Int floor_mod(Int a, Int b) {
  if (b == 0) throw RewriteError("division by zero in a computed constant");
  if (b == -1) return 0;
  return a - floor_div(a, b) * b;
}

// psi(x + 1) = psi(x) + 1 / x up to 10, then the asymptotic series (Abramowitz and Stegun, 6.3.5 and 6.3.18); reflected below 0.
double digamma(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0 && std::floor(x) == x) return NAN;
  if (x < 0) return digamma(1 - x) - M_PI / std::tan(M_PI * std::remainder(x, 1.0));
  double sum = 0;
  for (; x < 10; x++) sum -= 1 / x;
  double z = 1 / (x * x);
  double series = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return sum + std::log(x) - 0.5 / x - (std::isinf(x) ? 0 : series);
}

// Formats with exponent and mantissa bits; e4m3fn has no infinities and one nan (all ones).
static bool finite_only(const DtypeInfo& d) { return d.bits == 8 && d.exponent == 4; }

uint64_t encode_float(double v, const DtypeInfo& d) {
  if (d.bits == 64) {
    uint64_t bits;
    std::memcpy(&bits, &v, 8);
    return bits;
  }
  uint64_t sign = std::signbit(v) ? 1ULL << (d.bits - 1) : 0;
  int bias = (1 << (d.exponent - 1)) - 1;
  uint64_t exponent_mask = (1ULL << d.exponent) - 1, mantissa_mask = (1ULL << d.mantissa) - 1;
  uint64_t infinity = finite_only(d) ? (exponent_mask << d.mantissa) | mantissa_mask : exponent_mask << d.mantissa;
  uint64_t nan = finite_only(d) ? infinity : infinity | (1ULL << (d.mantissa - 1));
  if (std::isnan(v)) return sign | nan;
  double a = std::fabs(v);
  if (std::isinf(a)) return sign | infinity;
  if (a == 0) return sign;
  int e;
  std::frexp(a, &e);  // a = m * 2**e, 0.5 <= m < 1
  int unbiased = e - 1;
  int scale = (unbiased < 1 - bias ? 1 - bias : unbiased) - d.mantissa;  // the unit in the last place is 2**scale
  double units = std::nearbyint(std::ldexp(a, -scale));                  // exact scaling, halves to even
  uint64_t n = uint64_t(units);
  uint64_t bits;
  if (unbiased < 1 - bias) {
    bits = n;  // denormal; a carry gives the smallest normal number
  } else {
    uint64_t biased = uint64_t(unbiased + bias);
    bits = ((biased - 1) << d.mantissa) + n;  // n has the implicit one, a carry moves the exponent up
  }
  if (bits >= infinity) return sign | infinity;
  return sign | bits;
}

double decode_float(uint64_t bits, const DtypeInfo& d) {
  if (d.bits == 64) {
    double v;
    std::memcpy(&v, &bits, 8);
    return v;
  }
  bool negative = bits >> (d.bits - 1) & 1;
  int bias = (1 << (d.exponent - 1)) - 1;
  uint64_t exponent_mask = (1ULL << d.exponent) - 1, mantissa_mask = (1ULL << d.mantissa) - 1;
  uint64_t e = bits >> d.mantissa & exponent_mask, m = bits & mantissa_mask;
  double v;
  if (finite_only(d) ? (e == exponent_mask && m == mantissa_mask) : (e == exponent_mask && m)) {
    v = NAN;
  } else if (!finite_only(d) && e == exponent_mask) {
    v = INFINITY;
  } else if (e == 0) {
    v = std::ldexp(double(m), 1 - bias - d.mantissa);
  } else {
    v = std::ldexp(double(m | (1ULL << d.mantissa)), int(e) - bias - d.mantissa);
  }
  return negative ? -v : v;
}

double round_float(double v, const DtypeInfo& d) {
  if (d.bits == 64) return v;
  if (d.bits == 32) return double(float(v));
  return decode_float(encode_float(v, d), d);
}

static Int wrap_int(Int v, const DtypeInfo& d) {
  if (d.kind == Kind::Index) {
    if (v != int64_t(v)) throw GraphError("the index " + show_int(v) + " does not fit in 64 bits");
    return v;
  }
  uint64_t u = uint64_t(v);
  if (d.kind == Kind::Uint) return d.bits == 64 ? Int(u) : Int(u & ((1ULL << d.bits) - 1));
  switch (d.bits) {
    case 8: return int8_t(u);
    case 16: return int16_t(u);
    case 32: return int32_t(u);
    default: return int64_t(u);
  }
}

// A large integer as a double that any shorter float rounds to what the integer itself rounds to: the bits that are lost are
// kept in the last one.
static double to_odd(Int v) {
  unsigned __int128 u = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
  int shift = 0;
  bool lost = false;
  for (; u >> 53; u >>= 1, shift++) lost |= u & 1;
  double magnitude = std::ldexp(double(uint64_t(u) | lost), shift);
  return v < 0 ? -magnitude : magnitude;
}

Value convert_value(const Value& v, uint32_t dtype) {
  const DtypeInfo& d = dtype_info(dtype);
  if (v.tag != Tag::Float && v.tag != Tag::Int && v.tag != Tag::Bool) throw GraphError("a constant must be a number or a bool, not " + show(v));
  double real = v.tag == Tag::Float ? v.f : v.tag == Tag::Int ? (d.bits < 64 ? to_odd(v.i) : double(v.i)) : double(v.b);
  switch (d.kind) {
    case Kind::Void: throw GraphError("a constant cannot have dtype void");
    case Kind::Complex: throw GraphError("a constant cannot be complex; use COMPLEX of two constants");
    case Kind::Bool: return Value::boolean(v.tag == Tag::Float ? v.f != 0 : v.tag == Tag::Int ? v.i != 0 : v.b);
    case Kind::Float: return Value::number(round_float(real, d));
    default: break;
  }
  if (v.tag == Tag::Float) {
    // Towards zero. What does not fit in 32 bits (and nan) gives the smallest int32, of which smaller ones have the low bits; of uint32 and of
    // 64 bits what does not fit in 64 bits gives the smallest int64.
    const bool is_of_int32 = d.kind != Kind::Index && (d.bits < 32 || (d.bits == 32 && d.kind == Kind::Int));
    if (is_of_int32 && !(real > -2147483649.0 && real < 2147483648.0)) return Value::integer(wrap_int(INT32_MIN, d));
    if (d.kind == Kind::Uint && d.bits == 64 && real >= 9223372036854775808.0 && real < 18446744073709551616.0)
      return Value::integer(Int(uint64_t(real)));
    if (!(real > -9223372036854777856.0 && real < 9223372036854775808.0)) return Value::integer(wrap_int(INT64_MIN, d));
    return Value::integer(wrap_int(Int(real), d));
  }
  return Value::integer(wrap_int(v.tag == Tag::Int ? v.i : Int(v.b), d));
}

Value bitcast_value(const Value& value, uint32_t from, uint32_t to) {
  const DtypeInfo &a = dtype_info(from), &b = dtype_info(to);
  Value v = convert_value(value, from);
  uint64_t bits = a.kind == Kind::Float ? encode_float(v.f, a) : v.tag == Tag::Bool ? uint64_t(v.b) : uint64_t(v.i);
  if (a.bits < 64) bits &= (1ULL << a.bits) - 1;
  if (b.kind == Kind::Float) return Value::number(decode_float(bits, b));
  if (b.kind == Kind::Bool) return Value::boolean(bits != 0);
  return Value::integer(wrap_int(Int(bits), b));
}

}  // namespace rulegrad
