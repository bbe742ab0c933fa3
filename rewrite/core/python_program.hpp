// Compiled programs as Python has them, and the names of their instructions and operators.
#pragma once
#include <nanobind/nanobind.h>

namespace rulegrad {

void define_program(nanobind::module_& m);

}  // namespace rulegrad
