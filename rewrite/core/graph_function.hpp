// A graph with parameters, which is built again and again on other nodes.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

void define_graph_function(nb::module_& m);

}  // namespace rulegrad
