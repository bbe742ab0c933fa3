// Operators on tensors that need no conversion: the nodes that Python's methods make, without Python.
#pragma once
#include <optional>

#include "python_values.hpp"

namespace rulegrad {

// Floats of 16 bits or more.
bool is_common_float(uint32_t dtype);
// A constant for a number beside such a float; none for what Python has to look at.
std::optional<Ref> number_of(PyObject* value, uint32_t dtype);

void define_tensor_operators(nb::module_& m);

}  // namespace rulegrad
