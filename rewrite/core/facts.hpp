// Common parts of the facts of nodes.
#pragma once
#include "machine.hpp"

namespace rulegrad {

// The machine of this thread that runs the op table's code.
Machine& table_machine();

// The interval of a node whose sources' intervals are known, by the op table; kept with the node.
void compute_interval(Node* n);

}  // namespace rulegrad
