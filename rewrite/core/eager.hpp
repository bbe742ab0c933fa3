// Eager computations without Python: results whose plan is known.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

void define_eager(nb::module_& m);

}  // namespace rulegrad
