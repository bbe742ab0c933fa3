// Small computations without Python: operators on tensors that need no conversion, and results whose plan is known.
#pragma once
#include <nanobind/nanobind.h>

namespace rulegrad {

void define_eager(nanobind::module_& m);

}  // namespace rulegrad
