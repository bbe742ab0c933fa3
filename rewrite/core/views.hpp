// Views of tensors, and what is put at the place of one.
#pragma once
#include <string_view>

#include "python_values.hpp"

namespace rulegrad {

// The node by a movement whose only attribute is this shape.
Ref with_shape(const char* op, Node* n, const std::vector<int64_t>& dims);

void define_views(nb::module_& m);

}  // namespace rulegrad
