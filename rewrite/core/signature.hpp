// The structure of graphs with their buffers left open: by it a plan is found again without running a pass.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

// The bytes of a key that a node has at least.
constexpr size_t kLeastOfNode = sizeof(Node::op) + sizeof(Node::dtype) + sizeof(Node::nsrc) + sizeof(uint32_t);

// A key of the graphs with these roots, whose nodes are given in order, sources first, and the ids of their buffers in the order of the graph, each
// once. Two graphs have the same key exactly when they become equal by renaming buffers. It holds in this process only: it has addresses of strings.
// replaced: nodes in whose places BUFFERs are seen, in the order too. Throws GraphError.
void write_signature(const std::vector<Node*>& order, const std::vector<Node*>& roots, std::string& text, std::vector<int64_t>& ids,
                     const Replaced& replaced = {});
nb::tuple signature(const std::vector<Handle>& roots);
// The place of an attribute among those of an op. Throws GraphError.
size_t attribute_of(uint32_t op, std::string_view name);
// The number of a BUFFER.
int64_t buffer_id(const Node* n);
// Whether a node is a BUFFER in parts on a mesh.
bool is_in_parts(const Node* n);
// Whether two BUFFERs lie on a mesh in the same way, or both on no mesh.
bool lie_alike(const Node* a, const Node* b);
// Of the nodes that are, their places in the list, their meshes and how they lie there.
nb::tuple placements(const std::vector<Handle>& nodes);
// A BUFFER node like another one, of another buffer. Throws GraphError.
nb::object renumbered(const Handle& like, int64_t number);

}  // namespace rulegrad
