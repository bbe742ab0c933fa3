// Buffers of a schedule in blocks of memory: rulegrad/compile/memory_plan.py says what is placed, and in which orders.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

void define_placing(nb::module_& m);

}  // namespace rulegrad
