#pragma once

#include <Python.h>

namespace rulegrad {

// A new reference to the type BufferProvider; null with an error set when it cannot be made.
PyObject* buffer_provider();

}  // namespace rulegrad
