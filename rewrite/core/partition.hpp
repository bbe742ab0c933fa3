// Long graphs, as loops of users' programs build them, partitioned into subgraphs that are computed one after the other.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

void define_partition(nb::module_& m);

}  // namespace rulegrad
