// Intervals by the op table: its code on 64-bit integers, as long as they suffice, and on the machine where they do not.
#pragma once
#include "program.hpp"

namespace rulegrad {

enum class Bound : uint8_t { Known, Unknown, Beyond };  // Beyond: what 64-bit integers cannot tell

IntervalCode translate_interval(const Program& table, const Code& code);
// One end of an interval from the ends of the sources, low and high of each, all bounded.
Bound run_interval(const IntervalCode& code, const int64_t* ends, uint32_t count, uint32_t dtype, int64_t& result);
// The same by the machine; INT64_MIN and INT64_MAX stand for an end that is unbounded.
Bound interpret_interval(int code, const int64_t* ends, const bool* truths, uint32_t count, uint32_t parameters, uint32_t dtype, int64_t& result);

}  // namespace rulegrad
