#include "tensors.hpp"

#include <structmember.h>

#include <string>

#include "value.hpp"

namespace rulegrad {

Tensors g_tensors;
thread_local bool t_gradients = true;

namespace {

nb::object* g_observers = nullptr;  // nobody, most of the time
bool g_is_off = true;               // until the settings were looked at

Py_ssize_t offset_of(nb::handle type, const char* slot) {
  nb::object member = type.attr("__dict__")[slot];
  if (!Py_IS_TYPE(member.ptr(), &PyMemberDescr_Type)) throw GraphError(std::string("a tensor has no slot ") + slot);
  return reinterpret_cast<PyMemberDescrObject*>(member.ptr())->d_member->offset;
}

PyTypeObject* type_of(nb::handle type) { return reinterpret_cast<PyTypeObject*>(Py_NewRef(type.ptr())); }

}  // namespace

void connect_tensors(nb::handle core, nb::handle tensor, nb::handle buffer, nb::handle point, nb::handle view) {
  Tensors& g = g_tensors;
  g.history = offset_of(core, "_history"), g.view = offset_of(core, "_view"), g.changes = offset_of(core, "_changes");
  g.device = offset_of(core, "_device"), g.tracked = offset_of(core, "_requires_grad"), g.leaf = offset_of(core, "_leaf");
  g.gradient_of = offset_of(core, "_gradient_of"), g.grad = offset_of(core, "grad");
  g.buffer_of_point = offset_of(point, "buffer");
  g.base_of_view = offset_of(view, "base"), g.root_of_view = offset_of(view, "root");
  g.steps_of_view = offset_of(view, "steps"), g.detached_of_view = offset_of(view, "detached"), g.obstacle_of_view = offset_of(view, "obstacle");
  g.changes_of_view = offset_of(view, "changes"), g.of_leaf_of_view = offset_of(view, "of_leaf"), g.shape_of_view = offset_of(view, "shape"),
  g.moved_of_view = offset_of(view, "moved"), g.written_of_view = offset_of(view, "written");
  g.name = PyUnicode_InternFromString("_uop");
  g.nothing = PyTuple_New(0);
  g.zero = PyLong_FromLong(0);
  g.one = PyLong_FromLong(1);
  g.no_text = PyUnicode_InternFromString("");
  g.core = type_of(core), g.buffer = type_of(buffer), g.point = type_of(point), g.type = type_of(tensor), g.view_type = type_of(view);
  g.watched = _PyType_Lookup(g.type, g.name);
}

void set_observers(nb::object lists) {
  delete g_observers;
  g_observers = new nb::object(std::move(lists));
}

void set_off(bool off) { g_is_off = off; }
bool is_off() { return g_is_off; }

bool nobody_watches() {
  if (g_is_off || !g_tensors.type || _PyType_Lookup(g_tensors.type, g_tensors.name) != g_tensors.watched) return false;
  for (nb::handle list : *g_observers)
    if (PyList_GET_SIZE(list.ptr())) return false;
  return true;
}

namespace {

// Whether a tensor is not a leaf that waits for a buffer of its own.
bool is_settled(PyObject* t) {
  const Tensors& g = g_tensors;
  return at(t, g.leaf) == Py_False || (Py_IS_TYPE(at(t, g.history), g.point) && node_of(t)->op == known_ops.BUFFER);
}

}  // namespace

PyObject* base_of(PyObject* t) {
  PyObject* view = at(t, g_tensors.view);
  return view == Py_None ? Py_None : at(view, g_tensors.base_of_view);
}

bool is_current(PyObject* t) {
  const Tensors& g = g_tensors;
  if (Py_TYPE(t) != g.type || !uop_of(t) || !is_settled(t)) return false;
  PyObject* base = base_of(t);
  if (base == Py_None) return true;
  // The base is not a view itself, and has the node that this one was made from.
  return Py_TYPE(base) == g.type && uop_of(base) == at(at(t, g.view), g.root_of_view) && at(base, g.view) == Py_None && is_settled(base);
}

PyObject* past_of(PyObject* t) {
  const Tensors& g = g_tensors;
  PyObject *own = at(t, g.history), *base = base_of(t);
  PyObject* found = own == Py_None && base != Py_None ? at(base, g.history) : own;
  if (at(t, g.tracked) == Py_True || !Py_IS_TYPE(found, g.point)) return found;
  PyObject* buffer = at(found, g.buffer_of_point);  // no gradient goes back: what it was computed from is not kept
  return buffer == Py_None ? found : buffer;
}

nb::object joined(PyObject* first, PyObject* second) {
  if (second == Py_None || second == first) return nb::borrow(first);
  if (first == Py_None) return nb::borrow(second);
  return nb::steal(PyTuple_Pack(2, first, second));
}

PyObject* common_device(PyObject* first, PyObject* second) {
  if (first == second || !PyUnicode_GET_LENGTH(second)) return first;
  if (!PyUnicode_GET_LENGTH(first)) return second;
  return PyUnicode_Compare(first, second) == 0 ? first : nullptr;
}

nb::object new_tensor(nb::handle uop, nb::handle history, PyObject* device, PyObject* tracked) {
  const Tensors& g = g_tensors;
  nb::object made = nb::steal(g.type->tp_alloc(g.type, 0));
  if (!made.is_valid()) throw nb::python_error();
  PyObject* t = made.ptr();
  put(t, g.history, history.ptr());
  put(t, g.view, Py_None);
  put(t, g.changes, g.zero);
  put(t, g.device, device);
  put(t, g.tracked, tracked);
  put(t, g.leaf, Py_False);
  put(t, g.gradient_of, g.nothing);
  put(t, g.grad, Py_None);
  set_uop_of(t, uop);
  return made;
}

BufferBase* buffer_of(PyObject* t) {
  const Tensors& g = g_tensors;
  if (at(t, g.view) != Py_None) return nullptr;
  PyObject* found = at(t, g.history);
  const bool is_point = Py_IS_TYPE(found, g.point);
  if (is_point) found = at(found, g.buffer_of_point);
  // A leaf that shares its buffer with others gets one of its own first.
  if (!found || !Py_IS_TYPE(found, g.buffer) || (at(t, g.leaf) == Py_True && !is_point)) return nullptr;
  auto* buffer = reinterpret_cast<BufferBase*>(found);
  return buffer->uop == uop_of(t) ? buffer : nullptr;
}

}  // namespace rulegrad
