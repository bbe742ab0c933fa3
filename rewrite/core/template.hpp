// A graph that is built again and again, on other nodes each time.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

void define_template(nb::module_& m);

}  // namespace rulegrad
