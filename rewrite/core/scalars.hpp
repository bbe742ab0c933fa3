// The values of tensors with one element, read where they lie.
#pragma once
#include <optional>

#include "python_values.hpp"

namespace rulegrad {

// A BUFFER, and which of its elements in C order.
struct Element {
  Node* buffer;
  int64_t place;
};

// The element of a BUFFER that a graph of one element reaches by RESHAPE and SHRINK; none where there is more to it.
std::optional<Element> element_of(Node* n);
// An element in memory as a Python number; none for dtypes that Python has no number for, and floats of fewer than 32 bits.
nb::object number_at(const void* memory, uint32_t dtype, int64_t place);

}  // namespace rulegrad
