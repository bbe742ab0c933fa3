// Small computations without Python: operators on tensors that need no conversion, and results whose plan is known.
#pragma once
#include <optional>

#include "python_values.hpp"

namespace rulegrad {

// Floats of 16 bits or more.
bool is_common_float(uint32_t dtype);
// A constant for a number beside such a float; none for what Python has to look at.
std::optional<Ref> number_of(PyObject* value, uint32_t dtype);

void define_eager(nb::module_& m);

}  // namespace rulegrad
