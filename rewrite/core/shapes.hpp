#pragma once

#include <nanobind/nanobind.h>

#include "node.hpp"

namespace rulegrad {

/// Adds the type Size to the module.
void define_shapes(nanobind::module_& m);

/// Whether an object is a Size.
bool is_size(PyObject* object);

/// The extents of a node's axes as a Size.
nanobind::object size_of(Node* n);

}  // namespace rulegrad
