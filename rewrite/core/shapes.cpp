// Shapes as programs see them: a tuple that knows how many elements there are. It is made here because a class in
// Python would make each look at a shape several times as slow.

#include "shapes.hpp"

#include "facts.hpp"

namespace rulegrad {

namespace nb = nanobind;

namespace {

PyTypeObject* g_size = nullptr;

// The items of a tuple as a Size; takes what it is given.
PyObject* as_size(PyObject* found) {
  if (!found || !PyTuple_CheckExact(found)) return found;
  const Py_ssize_t rank = PyTuple_GET_SIZE(found);
  PyObject* size = g_size->tp_alloc(g_size, rank);
  for (Py_ssize_t k = 0; size && k < rank; k++) PyTuple_SET_ITEM(size, k, Py_NewRef(PyTuple_GET_ITEM(found, k)));
  Py_DECREF(found);
  return size;
}

PyObject* subscript(PyObject* self, PyObject* key) {
  PyObject* found = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
  return PySlice_Check(key) ? as_size(found) : found;
}

PyObject* concatenated(PyObject* self, PyObject* other) { return as_size(PyTuple_Type.tp_as_sequence->sq_concat(self, other)); }

// A tuple and a size, or a size and a tuple.
PyObject* added(PyObject* left, PyObject* right) {
  if (!PyTuple_Check(left) || !PyTuple_Check(right)) Py_RETURN_NOTIMPLEMENTED;
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(left, right));
}

PyObject* repeated(PyObject* self, Py_ssize_t count) { return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(self, count)); }

PyObject* numel(PyObject* self, PyObject*) {
  PyObject* product = PyLong_FromLong(1);
  for (Py_ssize_t k = 0; product && k < PyTuple_GET_SIZE(self); k++) {
    PyObject* next = PyNumber_Multiply(product, PyTuple_GET_ITEM(self, k));
    Py_DECREF(product);
    product = next;
  }
  return product;
}

// In a file, or sent to another process, it is a tuple.
PyObject* reduced(PyObject* self, PyObject*) {
  PyObject* plain = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
  if (!plain) return nullptr;
  return Py_BuildValue("(O(N))", reinterpret_cast<PyObject*>(&PyTuple_Type), plain);
}

constexpr char kDoc[] =
    "The shape of a tensor: a tuple, with the number of elements in `numel()`, as in PyTorch.\n\n"
    ">>> import rulegrad\n"
    ">>> shape = rulegrad.Tensor.ones(2, 3, 4).shape\n"
    ">>> shape, shape.numel(), shape[1:].numel(), shape == (2, 3, 4)\n"
    "((2, 3, 4), 24, 12, True)\n";
constexpr char kNumel[] =
    "The number of elements.\n\n"
    ">>> import rulegrad\n"
    ">>> rulegrad.Size([2, 3]).numel()\n"
    "6\n";

PyObject* itself(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyMethodDef methods[] = {
    {"numel", numel, METH_NOARGS, kNumel},
    {"__reduce__", reduced, METH_NOARGS, "In a file it is a tuple."},
    {"__copy__", itself, METH_NOARGS, "It never changes."},
    {"__deepcopy__", itself, METH_O, "It never changes."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_methods, methods},
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_sq_concat, reinterpret_cast<void*>(concatenated)},
    {Py_sq_repeat, reinterpret_cast<void*>(repeated)},
    {Py_nb_add, reinterpret_cast<void*>(added)},
    {Py_tp_doc, const_cast<char*>(kDoc)},
    {0, nullptr},
};
PyType_Spec spec = {"rulegrad.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

bool is_size(PyObject* object) { return Py_IS_TYPE(object, g_size); }

nb::object size_of(Node* n) {
  const Shape* s = shape_of(n);
  nb::object size = nb::steal(g_size->tp_alloc(g_size, s->rank));
  if (!size.is_valid()) throw nb::python_error();
  for (uint32_t k = 0; k < s->rank; k++) PyTuple_SET_ITEM(size.ptr(), k, PyLong_FromLongLong(s->dims[k]));
  return size;
}

void define_shapes(nb::module_& m) {
  nb::object bases = nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyTuple_Type)));
  nb::object type = nb::steal(PyType_FromSpecWithBases(&spec, bases.ptr()));
  if (!type.is_valid()) throw nb::python_error();
  g_size = reinterpret_cast<PyTypeObject*>(type.ptr());
  m.attr("Size") = type;
}

}  // namespace rulegrad
