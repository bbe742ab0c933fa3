#include "tensor_operators.hpp"

#include <structmember.h>

#include <cmath>

#include "tensors.hpp"
#include "views.hpp"

namespace rulegrad {

bool is_common_float(uint32_t dtype) {
  const DtypeInfo& info = dtype_info(dtype);
  return info.kind == Kind::Float && info.bits >= 16;
}

std::optional<Ref> number_of(PyObject* value, uint32_t dtype) {
  double v;
  if (PyFloat_CheckExact(value)) {
    v = PyFloat_AS_DOUBLE(value);
  } else if (PyLong_CheckExact(value)) {
    v = PyLong_AsDouble(value);
    if (v == -1.0 && PyErr_Occurred()) {
      PyErr_Clear();
      return {};
    }
  } else {
    return {};
  }
  if (std::isnan(v)) return {};
  return Ref(make_const(Value::number(v), dtype));
}

namespace {

// Whether a tensor's node is what an operation reads, and its gradient is recorded if it has one.
bool is_operand(PyObject* t) { return is_current(t) && (at(t, g_tensors.tracked) == Py_False || t_gradients); }

// The shape that both broadcast to, or none.
std::optional<std::vector<int64_t>> common_shape(Node* a, Node* b) {
  const Shape *x = shape_of(a), *y = shape_of(b);
  if (x->rank < y->rank) std::swap(x, y);
  std::vector<int64_t> dims(x->dims, x->dims + x->rank);
  for (uint32_t k = 0; k < y->rank; k++) {
    int64_t& own = dims[x->rank - y->rank + k];
    if (own == 1) own = y->dims[k];
    else if (y->dims[k] != 1 && y->dims[k] != own) return {};
  }
  return dims;
}

// A node broadcast to a shape, as `expand_to` in tensor/operands.py does it.
Ref expanded(Node* n, const std::vector<int64_t>& dims) {
  const Shape* own = shape_of(n);
  std::vector<int64_t> padded(dims.size() - own->rank, 1);
  padded.insert(padded.end(), own->dims, own->dims + own->rank);
  if (n->op == known_ops.CONST) return Ref::share(n);
  Ref made = own->rank < dims.size() ? with_shape("RESHAPE", n, padded) : Ref::share(n);
  return padded == dims ? made : with_shape("EXPAND", made.n, dims);
}

// `a op b` of tensors of one float dtype, or of such a tensor and a number; otherwise none.
nb::object computed(uint32_t op, bool swapped, PyObject* a, PyObject* b) {
  const Tensors& g = g_tensors;
  if (!nobody_watches() || !is_operand(a)) return {};
  Ref left = Ref::share(node_of(a)), right;
  if (!is_common_float(left.n->dtype)) return {};
  nb::object history = nb::borrow(past_of(a));
  PyObject *device = at(a, g.device), *tracked = at(a, g.tracked);
  if (Py_TYPE(b) == g.type) {
    if (!is_operand(b)) return {};
    right = Ref::share(node_of(b));
    device = common_device(device, at(b, g.device));
    if (!device || right.n->dtype != left.n->dtype) return {};
    if (*shape_of(left.n) != *shape_of(right.n)) {
      const auto dims = common_shape(left.n, right.n);
      if (!dims) return {};
      left = expanded(left.n, *dims), right = expanded(right.n, *dims);
    }
    history = joined(history.ptr(), past_of(b));
    if (at(b, g.tracked) == Py_True) tracked = Py_True;
  } else {
    std::optional<Ref> found = number_of(b, left.n->dtype);
    if (!found) return {};
    right = std::move(*found);
  }
  Node* sources[2] = {swapped ? right.n : left.n, swapped ? left.n : right.n};
  Ref made(build_node(op, -1, sources, 2, nullptr, 0));
  shape_of(made.n);
  const nb::object node = wrap(std::exchange(made.n, nullptr));
  return new_tensor(node, history, device, tracked);
}

// ---- operators ----

// A method of tensors for a Python operator. What it does not compute itself it leaves to a function.
struct Operator {
  PyObject_HEAD vectorcallfunc call;
  PyObject *function, *op;
  int number;  // -1 before the op table is loaded
  bool swapped;
};

PyObject* operate(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
  auto* o = reinterpret_cast<Operator*>(self);
  if (PyVectorcall_NARGS(flags) == 2 && !names && g_tensors.type) {
    try {
      if (o->number < 0) o->number = int(op_of(o->op));
      nb::object found = computed(uint32_t(o->number), o->swapped, arguments[0], arguments[1]);
      if (found.is_valid()) return found.release().ptr();
    } catch (nb::python_error& error) {
      error.restore();
      return nullptr;
    } catch (const std::exception&) {}  // the function says it in its own words
  }
  return PyObject_Vectorcall(o->function, arguments, flags, names);
}

PyObject* operator_get(PyObject* self, PyObject* instance, PyObject*) {
  return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyObject* operator_attribute(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<Operator*>(self)->function, name);
}

void operator_dealloc(PyObject* self) {
  auto* o = reinterpret_cast<Operator*>(self);
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(o->function);
  Py_CLEAR(o->op);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef operator_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Operator, call), READONLY, nullptr},
    {"__wrapped__", T_OBJECT_EX, offsetof(Operator, function), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot operator_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(operator_dealloc)},    {Py_tp_members, operator_members},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},      {Py_tp_descr_get, reinterpret_cast<void*>(operator_get)},
    {Py_tp_getattro, reinterpret_cast<void*>(operator_attribute)}, {0, nullptr},
};
PyType_Spec operator_spec = {"rulegrad._core.Operator", sizeof(Operator), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, operator_slots};

nb::object operator_of(nb::str op, bool swapped, nb::object function) {
  static PyObject* type = PyType_FromSpec(&operator_spec);
  nb::object made = nb::steal(PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0));
  if (!made.is_valid()) throw nb::python_error();
  auto* o = reinterpret_cast<Operator*>(made.ptr());
  o->call = operate;
  o->function = function.release().ptr();
  o->op = op.release().ptr();
  o->number = -1;
  o->swapped = swapped;
  return made;
}

}  // namespace

void define_tensor_operators(nb::module_& m) {
  m.def("gradients_enabled", [] { return t_gradients; }, "False inside `no_grad`, of this thread.");
  m.def(
      "enable_gradients", [](bool enabled) { return std::exchange(t_gradients, enabled); }, nb::arg("enabled"),
      "Whether operations of this thread on tensors with gradients are recorded; what it was before.");
  m.def("operator_of", &operator_of, nb::arg("op"), nb::arg("swapped"), nb::arg("function"), "A method for a Python operator.");
}

}  // namespace rulegrad
