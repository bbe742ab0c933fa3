// Nodes as Python has them: rulegrad.UOp.
#pragma once
#include <nanobind/nanobind.h>

namespace rulegrad {

void define_nodes(nanobind::module_& m);

}  // namespace rulegrad
