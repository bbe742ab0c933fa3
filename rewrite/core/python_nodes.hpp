// Nodes as Python has them: rulegrad.UOp.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

// A node with every check, as UOp(...) makes it, with a reference for the caller. attributes: a dict, or null. Throws GraphError.
Node* build_from_python(nb::handle op, nb::handle src, nb::handle dtype, nb::handle attributes);

void define_nodes(nb::module_& m);

}  // namespace rulegrad
