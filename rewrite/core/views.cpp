#include "views.hpp"

#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "python_nodes.hpp"
#include "shapes.hpp"
#include "signature.hpp"
#include "tensor_operators.hpp"
#include "tensors.hpp"

namespace rulegrad {

namespace {

using Dims = std::vector<int64_t>;

Dims dims_of(Node* n) {
  const Shape* s = shape_of(n);
  return Dims(s->dims, s->dims + s->rank);
}

Value sequence(const Dims& dims, std::vector<Value>& items) {
  items.clear();
  for (int64_t dim : dims) items.push_back(Value::integer(dim));
  return Value::seq(items.data(), uint32_t(items.size()));
}

// The node by a movement of two attributes, SHRINK or PAD.
Ref with_bounds(int op, const char* low, const char* high, Node* n, const Dims& first, const Dims& second) {
  std::vector<Value> items[2];
  Value attributes[2];
  attributes[attribute_of(uint32_t(op), low)] = sequence(first, items[0]);
  attributes[attribute_of(uint32_t(op), high)] = sequence(second, items[1]);
  Ref made(build_node(uint32_t(op), -1, &n, 1, attributes, 2));
  shape_of(made.n);
  return made;
}

Ref shrunk(Node* n, const Dims& begin, const Dims& end) {
  static const int op = find_op("SHRINK");
  return with_bounds(op, "begin", "end", n, begin, end);
}

Ref padded(Node* n, const Dims& before, const Dims& after) {
  static const int op = find_op("PAD");
  return with_bounds(op, "before", "after", n, before, after);
}

// A number without axes, everywhere in a shape, as `spread` in tensor/constants.py does it.
Ref filled(Ref number, const Dims& dims) {
  if (dims.empty()) return number;
  return with_shape("EXPAND", with_shape("RESHAPE", number.n, Dims(dims.size(), 1)).n, dims);
}

// ---- views ----

nb::object tuple_of(const Dims& dims) {
  nb::object made = nb::steal(PyTuple_New(Py_ssize_t(dims.size())));
  for (size_t k = 0; k < dims.size(); k++) PyTuple_SET_ITEM(made.ptr(), Py_ssize_t(k), PyLong_FromLongLong(dims[k]));
  return made;
}

// A movement as views remember it: its op, no dtype, its attributes.
nb::object step_of(uint32_t op, nb::handle attributes) { return nb::steal(PyTuple_Pack(3, g_op_names[op], Py_None, attributes.ptr())); }

nb::object step_of(const char* op, nb::handle attributes) { return step_of(uint32_t(find_op(op)), attributes); }

nb::object step_of(const char* op, std::initializer_list<std::pair<const char*, const Dims*>> attributes) {
  nb::dict given;
  for (auto [name, dims] : attributes) given[name] = tuple_of(*dims);
  return step_of(op, given);
}

// Whether a view of a tensor is made without Python: a trace and lines want to see it, and it may become a tensor of its own first.
bool is_viewable(PyObject* t, bool is_detached = false) {
  if (!nobody_watches() || !is_current(t) || (at(t, g_tensors.tracked) == Py_True && !t_gradients && !is_detached)) return false;
  PyObject* base = base_of(t);
  return base == Py_None || Py_REFCNT(base) > 1;
}

// The view of a viewable tensor by a node of it, as `attach` in tensor/aliasing.py makes it.
nb::object view_of(PyObject* t, Ref node, nb::object steps, bool is_detached = false, PyObject* obstacle = nullptr) {
  const Tensors& g = g_tensors;
  PyObject *base = t, *link = at(t, g.view);
  nb::object shape;
  if (link != Py_None && base_of(t) != Py_None && at(link, g.detached_of_view) == Py_False && !PyUnicode_GET_LENGTH(at(link, g.obstacle_of_view))) {
    base = base_of(t);
    shape = nb::borrow(at(link, g.shape_of_view));
    if (PyTuple_GET_SIZE(at(link, g.steps_of_view))) steps = nb::steal(PySequence_Concat(at(link, g.steps_of_view), steps.ptr()));
  } else {
    shape = size_of(node_of(t));
  }
  if (!steps.is_valid()) throw nb::python_error();
  nb::object made = nb::steal(g.view_type->tp_alloc(g.view_type, 0));
  if (!made.is_valid()) throw nb::python_error();
  PyObject* v = made.ptr();
  put(v, g.base_of_view, base);
  put(v, g.steps_of_view, steps.ptr());
  put(v, g.detached_of_view, is_detached ? Py_True : Py_False);
  put(v, g.obstacle_of_view, obstacle ? obstacle : g.no_text);
  put(v, g.root_of_view, uop_of(base));
  put(v, g.changes_of_view, at(base, g.changes));
  put(v, g.of_leaf_of_view, at(base, g.leaf));
  put(v, g.shape_of_view, shape.ptr());
  put(v, g.moved_of_view, Py_None);
  put(v, g.written_of_view, Py_None);
  const nb::object history = nb::borrow(base == t ? Py_None : at(t, g.history));
  nb::object view = new_tensor(wrap(std::exchange(node.n, nullptr)), history, at(t, g.device), is_detached ? Py_False : at(t, g.tracked));
  put(view.ptr(), g.view, v);
  return view;
}

// A way from a tensor to a view of it: the node, and the movements.
class Path {
 public:
  explicit Path(PyObject* tensor) : tensor_(tensor), node_(Ref::share(node_of(tensor))) {}

  void shrink(const Dims& begin, const Dims& end) {
    if (dims_of(node_.n) == end && std::all_of(begin.begin(), begin.end(), [](int64_t k) { return !k; })) return;
    node_ = shrunk(node_.n, begin, end);
    steps_.append(step_of("SHRINK", {{"begin", &begin}, {"end", &end}}));
  }

  void reshape(const Dims& shape) { move("RESHAPE", "shape", shape, dims_of(node_.n) == shape); }
  void permute(const Dims& order) { move("PERMUTE", "order", order, std::is_sorted(order.begin(), order.end())); }
  void flip(const Dims& axes) { move("FLIP", "axes", axes, axes.empty()); }

  // Each k-th element of the axes, from the last one for a negative k, as `_every` in tensor/indexing.py takes it.
  void every(const Dims& steps) {
    Dims backwards;
    for (size_t k = 0; k < steps.size(); k++)
      if (steps[k] < 0) backwards.push_back(int64_t(k));
    flip(backwards);
    const Dims dims = dims_of(node_.n);
    for (size_t k = steps.size(); k-- > 0;)
      if (std::abs(steps[k]) > 1 && dims[k]) windows_of_one(int64_t(k), std::abs(steps[k]));
  }

  nb::object end() { return view_of(tensor_, std::move(node_), nb::tuple(steps_)); }

 private:
  void move(const char* op, const char* attribute, const Dims& given, bool is_nothing) {
    if (is_nothing) return;
    node_ = with_shape(op, node_.n, given);
    steps_.append(step_of(op, {{attribute, &given}}));
  }

  // Windows of one element, which have one more axis behind the one that they are along.
  void windows_of_one(int64_t axis, int64_t step) {
    nb::dict attributes;
    attributes["axis"] = axis, attributes["size"] = 1, attributes["step"] = step, attributes["dilation"] = 1;
    node_ = Ref(build_from_python(nb::str("UNFOLD"), nb::make_tuple(wrap(std::exchange(node_.n, nullptr))), nb::none(), attributes));
    steps_.append(step_of("UNFOLD", attributes));
  }

  PyObject* tensor_;
  Ref node_;
  nb::list steps_;
};

// ---- indices ----

// Where a view is along each axis of a tensor, and its shape.
struct Box {
  Dims begin, end, steps, shape;

  // False where Python has to look.
  bool add(PyObject* item, int64_t extent) {
    if (PyLong_CheckExact(item)) {
      int overflow;
      int64_t place = PyLong_AsLongLongAndOverflow(item, &overflow);
      if (overflow || place < -extent || place >= extent) return false;
      if (place < 0) place += extent;
      begin.push_back(place), end.push_back(place + 1), steps.push_back(1);
      return true;
    }
    if (!PySlice_Check(item)) return false;
    auto* slice = reinterpret_cast<PySliceObject*>(item);
    for (PyObject* bound : {slice->start, slice->stop, slice->step})
      if (bound != Py_None && !PyLong_CheckExact(bound)) return false;
    Py_ssize_t first, last, step;
    if (PySlice_Unpack(item, &first, &last, &step) < 0) return PyErr_Clear(), false;
    const Py_ssize_t count = PySlice_AdjustIndices(Py_ssize_t(extent), &first, &last, step);
    if (step < 0) std::swap(++first, ++last);  // the same elements from the other end
    begin.push_back(count ? first : 0), end.push_back(count ? last : 0), steps.push_back(count ? step : 1);
    shape.push_back(count);
    return true;
  }

  bool is_dense() const {
    return std::all_of(steps.begin(), steps.end(), [](int64_t k) { return k == 1; });
  }

  bool add_whole(int64_t extent) {
    begin.push_back(0), end.push_back(extent), steps.push_back(1), shape.push_back(extent);
    return true;
  }
};

std::optional<Box> box_of(PyObject* index, const Shape* own) {
  const bool are_several = PyTuple_CheckExact(index);
  PyObject* const* items = are_several ? PySequence_Fast_ITEMS(index) : &index;
  const Py_ssize_t count = are_several ? PyTuple_GET_SIZE(index) : 1;
  size_t named = 0;
  for (Py_ssize_t k = 0; k < count; k++) named += items[k] != Py_None && items[k] != Py_Ellipsis;
  if (named > own->rank) return {};
  Box box;
  bool is_completed = false;
  const auto complete = [&] {
    for (size_t k = named; k < own->rank; k++) box.add_whole(own->dims[box.begin.size()]);
    return !std::exchange(is_completed, true);
  };
  for (Py_ssize_t k = 0; k < count; k++) {
    if (items[k] == Py_None) box.shape.push_back(1);
    else if (items[k] == Py_Ellipsis ? !complete() : !box.add(items[k], own->dims[box.begin.size()])) return {};
  }
  if (!is_completed) complete();
  return box;
}

// The view at an index of integers, slices, None and an Ellipsis; None where Python has to look.
nb::object view_at(nb::handle tensor, nb::handle index) {
  PyObject* t = tensor.ptr();
  if (!is_viewable(t)) return nb::none();
  const std::optional<Box> box = box_of(index.ptr(), shape_of(node_of(t)));
  if (!box) return nb::none();
  Path path(t);
  path.shrink(box->begin, box->end);
  if (!box->is_dense()) path.every(box->steps);
  path.reshape(box->shape);
  return path.end();
}

nb::object part_of(nb::handle tensor, const Dims& begin, const Dims& end, const Dims& shape) {
  if (!is_viewable(tensor.ptr())) return nb::none();
  Path path(tensor.ptr());
  path.shrink(begin, end);
  path.reshape(shape);
  return path.end();
}

nb::object viewed(nb::handle tensor, nb::handle op, nb::dict attributes, nb::str obstacle) {
  PyObject* t = tensor.ptr();
  if (!is_viewable(t)) return nb::none();
  Ref node(build_from_python(op, nb::make_tuple(nb::handle(uop_of(t))), nb::none(), attributes));
  const nb::object steps = nb::make_tuple(step_of(op_of(op), attributes));
  return view_of(t, std::move(node), steps, false, obstacle.ptr());
}

// The integers that a method was given, one by one or as one sequence; none where Python has to look.
std::optional<Dims> integers_of(nb::tuple given) {
  PyObject* items = given.ptr();
  if (PyTuple_GET_SIZE(items) == 1) {
    PyObject* only = PyTuple_GET_ITEM(items, 0);
    if (PyTuple_CheckExact(only) || PyList_CheckExact(only) || is_size(only)) items = only;
  }
  Dims found;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items); k++) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, k);
    int overflow = 0;
    if (!PyLong_CheckExact(item)) return {};
    found.push_back(PyLong_AsLongLongAndOverflow(item, &overflow));
    if (overflow) return {};
  }
  return found;
}

// The view in a shape of as many elements, of which one extent may be -1; None where Python has to look.
nb::object reshaped(nb::handle tensor, nb::tuple extents) {
  PyObject* t = tensor.ptr();
  if (!is_viewable(t)) return nb::none();
  std::optional<Dims> dims = integers_of(extents);
  const int64_t size = element_count(shape_of(node_of(t)));
  if (!dims || !size) return nb::none();
  int64_t known = 1, *unknown = nullptr;
  for (int64_t& dim : *dims) {
    if (dim == -1 && !unknown) unknown = &dim;
    else if (dim <= 0 || dim > size) return nb::none();
    else if ((known *= dim) > size) return nb::none();
  }
  if (unknown ? size % known != 0 : known != size) return nb::none();
  if (unknown) *unknown = size / known;
  Path path(t);
  path.reshape(*dims);
  return path.end();
}

// The view with the axes in another order; None where Python has to look.
nb::object permuted(nb::handle tensor, nb::tuple order) {
  PyObject* t = tensor.ptr();
  if (!is_viewable(t)) return nb::none();
  std::optional<Dims> axes = integers_of(order);
  const auto rank = int64_t(shape_of(node_of(t))->rank);
  if (!axes || int64_t(axes->size()) != rank) return nb::none();
  std::vector<bool> seen(axes->size());
  for (int64_t& axis : *axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || seen[size_t(axis)]) return nb::none();
    seen[size_t(axis)] = true;
  }
  Path path(t);
  path.permute(*axes);
  return path.end();
}

nb::object detached(nb::handle tensor) {
  PyObject* t = tensor.ptr();
  if (!is_viewable(t, true)) return nb::none();
  static const int op = find_op("DETACH");
  Ref node = Ref::share(node_of(t));
  if (at(t, g_tensors.tracked) == Py_True) node = Ref(build_node(uint32_t(op), -1, &node.n, 1, nullptr, 0));
  shape_of(node.n);
  return view_of(t, std::move(node), nb::tuple(), true);
}

// ---- what is put at an index ----

// Whether a tensor changes without Python: it is neither a view nor a leaf, and no gradient is hidden.
bool is_changeable(PyObject* t) {
  const Tensors& g = g_tensors;
  if (!nobody_watches() || !is_current(t) || at(t, g.leaf) == Py_True || at(t, g.view) != Py_None) return false;
  return (at(t, g.tracked) == Py_False || t_gradients) && !is_in_parts(node_of(t));
}

// A constant for a number that fits the dtype as it is; none for what Python has to look at.
std::optional<Ref> constant_of(PyObject* value, uint32_t dtype) {
  if (is_common_float(dtype)) return number_of(value, dtype);
  const Kind kind = dtype_info(dtype).kind;
  if ((kind != Kind::Int && kind != Kind::Uint) || !PyLong_CheckExact(value)) return {};
  int overflow;
  const int64_t v = PyLong_AsLongLongAndOverflow(value, &overflow);
  int64_t low, high;
  dtype_bounds(dtype, low, high);
  if (overflow || v < low || v > high) return {};
  return Ref(make_const(Value::integer(v), dtype));
}

// A value that is put into a tensor.
struct PutValue {
  Ref node;
  PyObject *history = Py_None, *device = nullptr, *tracked = Py_False;

  // False where Python has to look: it is converted, or a part of the tensor.
  bool read(PyObject* t, PyObject* value) {
    const Tensors& g = g_tensors;
    const uint32_t dtype = node_of(t)->dtype;
    device = at(t, g.device);
    if (Py_TYPE(value) != g.type) {
      std::optional<Ref> found = constant_of(value, dtype);
      if (found) node = std::move(*found);
      return found.has_value();
    }
    if (!is_current(value) || base_of(value) == t || (at(value, g.tracked) == Py_True && !t_gradients)) return false;
    node = Ref::share(node_of(value));
    history = past_of(value), tracked = at(value, g.tracked);
    device = common_device(device, at(value, g.device));
    return device && node.n->dtype == dtype;
  }

  // Broadcast to the shape of its place.
  bool spread(const Dims& dims) {
    const Shape* own = shape_of(node.n);
    if (!own->rank) return node = filled(std::move(node), dims), true;
    return own->rank == dims.size() && std::equal(own->dims, own->dims + own->rank, dims.begin());
  }
};

// Gives a tensor another value.
void change(PyObject* t, Ref node, nb::handle history, nb::handle device, PyObject* tracked) {
  const Tensors& g = g_tensors;
  const nb::object changes = nb::steal(PyNumber_Add(at(t, g.changes), g.one));
  if (!changes.is_valid()) throw nb::python_error();
  put(t, g.tracked, tracked);
  set_uop_of(t, wrap(std::exchange(node.n, nullptr)));
  put(t, g.history, history.ptr());
  put(t, g.device, device.ptr());
  put(t, g.changes, changes.ptr());
}

// Gives a tensor the value of another, without a gradient; whether it did, or Python has to.
bool assign(nb::handle tensor, nb::handle value) {
  PyObject *t = tensor.ptr(), *v = value.ptr();
  if (!is_changeable(t) || !is_current(v) || at(t, g_tensors.tracked) == Py_True || at(v, g_tensors.tracked) == Py_True) return false;
  Ref node = Ref::share(node_of(v));
  PyObject* device = at(v, g_tensors.device);
  if (node.n->dtype != node_of(t)->dtype || *shape_of(node.n) != *shape_of(node_of(t)) || !PyUnicode_GET_LENGTH(device)) return false;
  change(t, std::move(node), nb::borrow(past_of(v)), nb::borrow(device), Py_False);
  return true;
}

// Puts a value at an index like those of `view_at`, without steps; whether it did, or Python has to.
bool put_at(nb::handle tensor, nb::handle index, nb::handle value) {
  const Tensors& g = g_tensors;
  PyObject* t = tensor.ptr();
  PutValue given;
  if (!is_changeable(t) || !given.read(t, value.ptr())) return false;
  const Ref before = Ref::share(node_of(t));
  const std::optional<Box> box = box_of(index.ptr(), shape_of(before.n));
  if (!box || !box->is_dense() || !given.spread(box->shape)) return false;
  const Dims dims = dims_of(before.n);
  Dims counts, after;
  for (size_t k = 0; k < dims.size(); k++) counts.push_back(box->end[k] - box->begin[k]), after.push_back(dims[k] - box->end[k]);
  if (counts == dims || std::find(counts.begin(), counts.end(), 0) != counts.end()) return false;
  if (counts != box->shape) given.node = with_shape("RESHAPE", given.node.n, counts);
  const Ref values = padded(given.node.n, box->begin, after);
  const Ref inside = padded(filled(Ref(make_const(Value::boolean(true), known_dtypes.bool_)), counts).n, box->begin, after);
  Node* sources[3] = {inside.n, values.n, before.n};
  Ref made(build_node(known_ops.WHERE, -1, sources, 3, nullptr, 0));
  shape_of(made.n);
  const nb::object history = joined(past_of(t), given.history), device = nb::borrow(given.device);
  change(t, std::move(made), history, device, given.tracked == Py_True ? Py_True : at(t, g.tracked));
  put(t, g.gradient_of, g.nothing);
  return true;
}

}  // namespace

Ref with_shape(const char* op, Node* n, const Dims& dims) {
  std::vector<Value> items;
  const Value attribute = sequence(dims, items);
  Ref made(build_node(uint32_t(find_op(op)), -1, &n, 1, &attribute, 1));
  shape_of(made.n);
  return made;
}

void define_views(nb::module_& m) {
  m.def("view_at", &view_at, nb::arg("tensor"), nb::arg("index").none(),
        "The view at integers, slices, None and an Ellipsis; None where Python has to make it.");
  m.def("part_of", &part_of, nb::arg("tensor"), nb::arg("begin"), nb::arg("end"), nb::arg("shape"),
        "The view from `begin` to `end` of each axis, in a shape of as many elements; None where Python has to make it.");
  m.def("viewed", &viewed, nb::arg("tensor"), nb::arg("op"), nb::arg("attributes"), nb::arg("obstacle"),
        "The view by one movement; None where Python has to make it.");
  m.def("reshaped", &reshaped, nb::arg("tensor"), nb::arg("extents"),
        "The view in a shape that `reshape` is given, one extent may be -1; None where Python has to make it.");
  m.def("permuted", &permuted, nb::arg("tensor"), nb::arg("order"), "The view with its axes in another order; None where Python has to make it.");
  m.def("detached", &detached, nb::arg("tensor"), "The view without a gradient; None where Python has to make it.");
  m.def("assign", &assign, nb::arg("tensor"), nb::arg("value"), "Gives a tensor the value of another; False where Python has to do it.");
  m.def("put_at", &put_at, nb::arg("tensor"), nb::arg("index").none(), nb::arg("value").none(),
        "Puts a value at an index like those of `view_at`, without steps; False where Python has to do it.");
}

}  // namespace rulegrad
