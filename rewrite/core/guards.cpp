#include "guards.hpp"

#include <utility>
#include <vector>

#include "tensors.hpp"

namespace rulegrad {

namespace {

// ---- structures ----

nb::object checked(PyObject* made) {
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

// The properties shared by tensors that one computation serves, after the place of this one.
nb::object described(PyObject* t, Py_ssize_t place) {
  const Tensors& g = g_tensors;
  const nb::object number = checked(PyLong_FromSsize_t(place));
  if (BufferBase* b = Py_IS_TYPE(t, g.type) ? buffer_of(t) : nullptr; b && PyUnicode_GET_LENGTH(at(t, g.device)))
    return checked(PyTuple_Pack(6, number.ptr(), b->shape, b->dtype, at(t, g.device), at(t, g.tracked), at(t, g.leaf)));
  const nb::handle tensor(t);
  const nb::object node = tensor.attr("uop"), shape = node.attr("shape"), dtype = node.attr("dtype"), device = tensor.attr("device");
  return checked(PyTuple_Pack(6, number.ptr(), shape.ptr(), dtype.ptr(), device.ptr(), at(t, g.tracked), at(t, g.leaf)));
}

class Deeper {
 public:
  Deeper() {
    if (Py_EnterRecursiveCall(" in an argument of a captured function")) throw nb::python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
};

nb::object structure(nb::handle tree, nb::list tensors, nb::list objects, nb::handle unusual) {
  const Deeper deeper;
  PyObject* t = tree.ptr();
  if (PyObject_TypeCheck(t, g_tensors.core)) {
    const Py_ssize_t known = PyList_GET_SIZE(tensors.ptr());
    for (Py_ssize_t k = 0; k < known; k++)
      if (PyList_GET_ITEM(tensors.ptr(), k) == t) return checked(PyLong_FromSsize_t(k));
    tensors.append(tree);
    return described(t, known);
  }
  PyTypeObject* kind = Py_TYPE(t);
  auto* type = reinterpret_cast<PyObject*>(kind);
  if (kind == &PyLong_Type || kind == &PyBool_Type || kind == &PyUnicode_Type || kind == &PyBytes_Type || t == Py_None)
    return checked(PyTuple_Pack(2, type, t));
  if (kind == &PyFloat_Type || kind == &PyComplex_Type) return checked(PyTuple_Pack(2, type, checked(PyObject_Repr(t)).ptr()));
  if (kind == &PyTuple_Type || kind == &PyList_Type) {
    nb::object parts = checked(PyTuple_New(Py_SIZE(t) + 1));
    PyTuple_SET_ITEM(parts.ptr(), 0, Py_NewRef(type));
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(t) && k + 1 < PyTuple_GET_SIZE(parts.ptr()); k++) {
      const nb::object part = nb::borrow(PySequence_Fast_GET_ITEM(t, k));
      PyTuple_SET_ITEM(parts.ptr(), k + 1, structure(part, tensors, objects, unusual).release().ptr());
    }
    return parts;
  }
  if (kind == &PyDict_Type) {
    nb::list parts;
    parts.append(nb::handle(type));
    for (nb::handle item : nb::list(tree.attr("items")()))
      parts.append(nb::make_tuple(nb::borrow(item[0]), structure(nb::object(item[1]), tensors, objects, unusual)));
    return nb::tuple(parts);
  }
  return unusual(tree, tensors, objects);
}

// ---- paths ----

enum class Take : uint8_t { Root, Cell, Global, Default, Keyword, Attribute, Slot, Part };

// The values that the steps of a path lead to, compared with those in a trace. Python's Paths says what differs.
class PathGuard {
  struct Step {
    int32_t above;  // -1: the roots
    Take take;
    nb::object key;
    Py_ssize_t number;
  };

 public:
  PathGuard(nb::list steps, nb::list tensors, nb::list values, nb::list objects, nb::list joins, nb::list keys) {
    for (nb::handle step : steps) {
      Step one{nb::cast<int32_t>(step[0]), Take(nb::cast<uint8_t>(step[1])), nb::object(step[2]), 0};
      if (one.above >= int32_t(steps_.size())) throw nb::value_error("a step starts at a later one");
      if (PyLong_CheckExact(one.key.ptr())) one.number = PyLong_AsSsize_t(one.key.ptr());
      steps_.push_back(std::move(one));
    }
    auto place = [this](nb::handle found) {
      const auto k = nb::cast<uint32_t>(found);
      if (k >= steps_.size()) throw nb::value_error("there is no such step");
      return k;
    };
    for (nb::handle one : tensors) tensors_.emplace_back(place(one[0]), nb::cast<uintptr_t>(one[1]));
    for (nb::handle one : values) values_.push_back({place(one[0]), nb::object(one[1]), nb::object(one[2])});
    for (nb::handle one : objects) objects_.emplace_back(place(one[0]), nb::object(one[1]));
    for (nb::handle one : joins) joins_.emplace_back(place(one[0]), place(one[1]));
    for (nb::handle one : keys) keys_.emplace_back(place(one[0]), nb::object(one[1]));
  }

  // Whether nothing has changed; false also where Python has to look.
  bool holds(nb::tuple roots) const {
    std::vector<nb::object> found;
    found.reserve(steps_.size());
    for (const Step& step : steps_) {
      nb::object next = nb::steal(taken(step, step.above < 0 ? roots.ptr() : found[size_t(step.above)].ptr()));
      if (!next.is_valid()) {
        PyErr_Clear();
        return false;
      }
      found.push_back(std::move(next));
    }
    for (auto& [k, address] : tensors_)
      if (reinterpret_cast<uintptr_t>(found[k].ptr()) != address) return false;
    for (const Expected& one : values_)
      if (!is_equal(found[one.step].ptr(), one)) return false;
    for (auto& [k, reference] : objects_)
      if (!is_referred(reference.ptr(), found[k].ptr())) return false;
    for (auto& [k, first] : joins_)
      if (found[k].ptr() != found[first].ptr()) return false;
    for (auto& [k, keys] : keys_)
      if (!has_keys(found[k].ptr(), keys.ptr())) return false;
    return true;
  }

 private:
  struct Expected {
    uint32_t step;
    nb::object kind, value;
  };

  // A new reference, or null, perhaps with an error.
  static PyObject* taken(const Step& step, PyObject* owner) {
    PyObject* key = step.key.ptr();
    switch (step.take) {
      case Take::Root:
      case Take::Part:
        if (PyTuple_CheckExact(owner) && size_t(step.number) < size_t(PyTuple_GET_SIZE(owner)) && PyLong_CheckExact(key))
          return Py_NewRef(PyTuple_GET_ITEM(owner, step.number));
        return PyObject_GetItem(owner, key);
      case Take::Cell: {
        PyObject* cells = PyFunction_Check(owner) ? PyFunction_GET_CLOSURE(owner) : nullptr;
        if (!cells || size_t(step.number) >= size_t(PyTuple_GET_SIZE(cells))) return nullptr;
        return PyCell_Get(PyTuple_GET_ITEM(cells, step.number));
      }
      case Take::Global: return PyFunction_Check(owner) ? Py_XNewRef(PyDict_GetItemWithError(PyFunction_GET_GLOBALS(owner), key)) : nullptr;
      case Take::Default: {
        PyObject* values = PyFunction_Check(owner) ? PyFunction_GET_DEFAULTS(owner) : nullptr;
        if (!values || size_t(step.number) >= size_t(PyTuple_GET_SIZE(values))) return nullptr;
        return Py_NewRef(PyTuple_GET_ITEM(values, step.number));
      }
      case Take::Keyword: {
        PyObject* values = PyFunction_Check(owner) ? PyFunction_GET_KW_DEFAULTS(owner) : nullptr;
        return values ? Py_XNewRef(PyDict_GetItemWithError(values, key)) : nullptr;
      }
      case Take::Attribute: {
        static PyObject* name = PyUnicode_InternFromString("__dict__");
        PyObject* all = PyObject_GetAttr(owner, name);
        PyObject* found = all ? PyObject_GetItem(all, key) : nullptr;
        Py_XDECREF(all);
        return found;
      }
      case Take::Slot: return PyObject_GetAttr(owner, key);
    }
    return nullptr;
  }

  static bool is_equal(PyObject* now, const Expected& one) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(now)) != one.kind.ptr()) return false;
    if (now == one.value.ptr()) return true;
    const int equal = PyObject_RichCompareBool(now, one.value.ptr(), Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
  }

  static bool is_referred(PyObject* reference, PyObject* now) {
    if (PyWeakref_CheckRef(reference)) return PyWeakref_GetObject(reference) == now;
    nb::object item = nb::steal(PyObject_CallNoArgs(reference));
    if (!item.is_valid()) PyErr_Clear();
    return item.ptr() == now;
  }

  // keys: the number of a list's items, or the keys of a dict in order.
  static bool has_keys(PyObject* container, PyObject* keys) {
    if (PyLong_CheckExact(keys)) return PyList_Check(container) && PyList_GET_SIZE(container) == PyLong_AsSsize_t(keys);
    if (!PyDict_Check(container) || PyDict_GET_SIZE(container) != PyTuple_GET_SIZE(keys)) return false;
    PyObject *key, *value;
    for (Py_ssize_t at = 0, k = 0; PyDict_Next(container, &at, &key, &value); k++)
      if (key != PyTuple_GET_ITEM(keys, k)) return false;
    return true;
  }

  std::vector<Step> steps_;
  std::vector<std::pair<uint32_t, uintptr_t>> tensors_;
  std::vector<Expected> values_;
  std::vector<std::pair<uint32_t, nb::object>> objects_, keys_;
  std::vector<std::pair<uint32_t, uint32_t>> joins_;
};

}  // namespace

void define_guards(nb::module_& m) {
  m.def("structure", &structure, nb::arg("tree").none(), nb::arg("tensors"), nb::arg("objects"), nb::arg("unusual"));
  nb::class_<PathGuard>(m, "PathGuard", "What the steps of a path led to in a trace.")
      .def(nb::init<nb::list, nb::list, nb::list, nb::list, nb::list, nb::list>(), nb::arg("steps"), nb::arg("tensors"), nb::arg("values"),
           nb::arg("objects"), nb::arg("joins"), nb::arg("keys"))
      .def("holds", &PathGuard::holds, nb::arg("roots"));
}

}  // namespace rulegrad
