// Python's tensors, whose slots are read and written where they lie.
#pragma once
#include <nanobind/nanobind.h>

#include "buffers.hpp"
#include "named.hpp"

namespace rulegrad {

// The class of tensors, a NodeHolder, and its slots.
struct Tensors {
  PyTypeObject *type = nullptr, *core = nullptr;  // core: the class that it derives from
  PyTypeObject *buffer = nullptr, *point = nullptr, *view_type = nullptr;
  PyObject* watched = nullptr;  // the descriptor of `_uop`; a trace puts another one over it
  PyObject *name = nullptr, *zero = nullptr, *one = nullptr, *nothing = nullptr, *no_text = nullptr;
  Py_ssize_t history, view, changes, device, tracked, leaf, gradient_of, grad;
  Py_ssize_t buffer_of_point, base_of_view, root_of_view, steps_of_view, detached_of_view, obstacle_of_view, changes_of_view, of_leaf_of_view,
      shape_of_view, moved_of_view, written_of_view;
};

extern Tensors g_tensors;

inline PyObject*& at(PyObject* owner, Py_ssize_t offset) { return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) + offset); }
inline void put(PyObject* owner, Py_ssize_t offset, PyObject* value) { Py_XSETREF(at(owner, offset), Py_NewRef(value)); }
inline Node* node_of(PyObject* tensor) { return nb::inst_ptr<Handle>(uop_of(tensor))->ref.n; }

// From now on tensors are of this class, whose slots are those of `core`. Throws GraphError.
void connect_tensors(nb::handle core, nb::handle tensor, nb::handle buffer, nb::handle point, nb::handle view);
// Lists of those who want to see each operation and launch.
void set_observers(nb::object lists);
void set_off(bool off);
bool is_off();
// Whether operations and launches may go unseen.
bool nobody_watches();
// Whether results of tensors with gradients have gradients, in this thread.
extern thread_local bool t_gradients;
// The tensor that a view is a part of, borrowed; None for any other.
PyObject* base_of(PyObject* tensor);
// Whether what a tensor holds is its node: it is not a leaf that waits for a buffer, nor a view that has to be made again.
bool is_current(PyObject* tensor);
// The history behind the graph, as `_past` has it.
PyObject* past_of(PyObject* tensor);
// The history of a result of two operands.
nb::object joined(PyObject* first, PyObject* second);
// The text of both names, or null when they are different devices.
PyObject* common_device(PyObject* first, PyObject* second);
// A new tensor for a node.
nb::object new_tensor(nb::handle uop, nb::handle history, PyObject* device, PyObject* tracked = Py_False);
// The buffer in which a tensor's values are, borrowed; null where they are not in one, or where Python has to look.
BufferBase* buffer_of(PyObject* tensor);

}  // namespace rulegrad
