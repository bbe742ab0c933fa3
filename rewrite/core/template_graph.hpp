// Graphs with formulas of sizes in the place of sizes, and with what graphs are that at which sizes.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

void define_template_graph(nb::module_& m);

}  // namespace rulegrad
