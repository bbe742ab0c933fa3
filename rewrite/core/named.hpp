// Associations of nodes outside of graphs: the tensors that stand for them, and the buffers that hold their values.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

// A new reference to the type NodeHolder; null with an error set when it cannot be made.
PyObject* node_holder();

// Of an object that is a NodeHolder: its node, as Python has it, borrowed; null where it has none.
PyObject* uop_of(PyObject* holder);
// Gives a NodeHolder another node, a UOp. Throws Python's error.
void set_uop_of(PyObject* holder, nb::handle uop);
// Those that stand for a node that has the fact kNamed.
nb::list holders_of(Node* n);
// All that stand for nodes that are computed from others.
nb::list holders_of_graphs();
// Whether nobody else stands for its node.
bool stands_alone(PyObject* holder);

// From now on the buffer holds the value of the node, as long as both live. A node that reads no buffer is not remembered.
void remember(const Handle& node, nb::handle buffer);

// Graphs with the nodes whose values are in buffers replaced by these, and the buffers; then what somebody stands for below
// them, sources first: (node, the same with NAMED around what is named below, holders). A node that is a source of nothing else
// in the graphs is named too.
nb::tuple resolved(const std::vector<Handle>& roots);

// For each root whether one of the nodes is in its graph.
std::vector<bool> are_above(const std::vector<Handle>& roots, const std::vector<Handle>& nodes);

// The node is destroyed; called without the GIL too.
void forget(Node* n);

}  // namespace rulegrad
