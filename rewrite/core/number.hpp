// Exact arithmetic of constants: integers wrap to their dtype, floats are rounded to it.
#pragma once
#include "node.hpp"

namespace rulegrad {

double round_float(double v, const DtypeInfo& d);
uint64_t encode_float(double v, const DtypeInfo& d);
double decode_float(uint64_t bits, const DtypeInfo& d);
Value convert_value(const Value& v, uint32_t dtype);  // the value as the dtype stores it; index out of int64: GraphError
Value bitcast_value(const Value& v, uint32_t from, uint32_t to);

double digamma(double x);
Int checked_add(Int a, Int b);
Int checked_sub(Int a, Int b);
Int checked_mul(Int a, Int b);
Int floor_div(Int a, Int b);
Int floor_mod(Int a, Int b);

}  // namespace rulegrad
