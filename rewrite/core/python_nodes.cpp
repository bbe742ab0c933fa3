// Nodes as Python has them: rulegrad.UOp.
#include "python_nodes.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python_values.hpp"
#include "shapes.hpp"

namespace rulegrad {

namespace {

// An attribute's name as Python has it, made once.
PyObject* name_object(const Str* name) {
  static std::unordered_map<const Str*, PyObject*> known;
  PyObject*& found = known[name];
  if (!found) found = PyUnicode_InternFromString(name->text.c_str());
  return found;
}

void fill_attributes(const OpInfo& o, nb::handle given, Value* attrs, Storage& storage) {
  size_t used = 0;
  for (size_t k = 0; k < o.attributes.size(); k++) {
    PyObject* v = given.ptr() ? PyDict_GetItem(given.ptr(), name_object(o.attributes[k].name)) : nullptr;
    if (v) {
      attrs[k] = value_of(v, storage, o.attributes[k].type);
      if (o.attributes[k].type == AttributeType::Float && attrs[k].tag == Tag::Int) attrs[k] = Value::number(double(attrs[k].i));
      used++;
    } else if (o.attributes[k].has_default) {
      attrs[k] = o.attributes[k].fallback;
    } else {
      throw GraphError(o.name->text + ": attribute " + o.attributes[k].name->text + " is missing");
    }
  }
  if (given.ptr() && size_t(PyDict_Size(given.ptr())) != used)
    for (auto item : nb::borrow<nb::dict>(given)) {
      std::string name(text_of(item.first, "an attribute"));
      bool known = false;
      for (auto& a : o.attributes) known |= a.name->text == name;
      if (!known) throw GraphError(o.name->text + " has no attribute " + name);
    }
}

// The other operand of an operator: a node, or a number that takes the node's dtype.
Ref operand(nb::handle h, Node* like) {
  Handle* other;
  if (nb::try_cast<Handle*>(h, other) && other) return other->ref;
  Storage storage;
  return Ref(make_const(value_of(h, storage, AttributeType::Scalar), like->dtype));
}

nb::object infix(uint32_t op, Node* a, nb::handle b, bool swapped) {
  Ref other = operand(b, a);
  Node* src[2] = {swapped ? other.n : a, swapped ? a : other.n};
  Ref made(build_node(op, -1, src, 2, nullptr, 0));
  shape_of(made.n);
  return nb::cast(Handle{made});
}

// An operator's op, looked up once: the table is loaded before the first node exists.
#define OP_NUMBER(name)                                \
  [] {                                                 \
    static const uint32_t k = uint32_t(find_op(name)); \
    return k;                                          \
  }()

nb::tuple shape_tuple(Node* n) {
  const Shape* s = shape_of(n);
  nb::object t = nb::steal(PyTuple_New(s->rank));
  for (uint32_t k = 0; k < s->rank; k++) PyTuple_SET_ITEM(t.ptr(), k, PyLong_FromLongLong(s->dims[k]));
  return nb::borrow<nb::tuple>(t);
}

nb::object bound(Node* n, bool upper) {
  Value v;
  Machine machine(op_table_program());
  static const int low = find_builtin("vmin"), high = find_builtin("vmax");
  Value a = Value::node(n);
  if (!machine.builtin(upper ? high : low, &a, 1, v)) return nb::none();
  return python_of(v);
}

Node* replaced(Node* n, nb::object src, nb::kwargs attributes) {
  const OpInfo& o = op_info(n->op);
  std::vector<Node*> nodes(n->src, n->src + n->nsrc);
  if (!src.is_none()) {
    src = nb::tuple(src);  // holds what an iterator gives
    nodes.clear();
    for (nb::handle h : src) {
      Handle* source;
      if (!nb::try_cast<Handle*>(h, source) || !source) throw GraphError(o.name->text + ": source " + std::to_string(nodes.size()) + " is not a UOp");
      nodes.push_back(source->ref.n);
    }
  }
  Value attrs[16];
  Storage storage;
  if (n->attrs) std::copy(n->attrs->items, n->attrs->items + o.attributes.size(), attrs);
  for (auto item : attributes) {
    std::string name(text_of(item.first, "an attribute"));
    bool known = false;
    for (size_t k = 0; k < o.attributes.size(); k++)
      if (o.attributes[k].name->text == name) {
        attrs[k] = value_of(item.second, storage, o.attributes[k].type);
        known = true;
      }
    if (!known) throw GraphError(o.name->text + " has no attribute " + name);
  }
  bool is_explicit = o.result_dtype < 0 && o.result_variable < 0;
  Ref made(build_node(n->op, is_explicit ? int(n->dtype) : -1, nodes.data(), uint32_t(nodes.size()), attrs, uint32_t(o.attributes.size())));
  shape_of(made.n);
  return std::exchange(made.n, nullptr);
}

}  // namespace

Node* build_from_python(nb::handle op, nb::handle src, nb::handle dtype, nb::handle attributes) {
  uint32_t k = op_of(op);
  const OpInfo& o = op_info(k);
  PyObject* items = src.ptr();
  nb::object owned;
  if (!PyTuple_Check(items)) {
    owned = nb::steal(PySequence_Tuple(items));
    if (!owned.is_valid()) {
      PyErr_Clear();
      throw GraphError(o.name->text + ": the sources must be a tuple of UOps");
    }
    items = owned.ptr();
  }
  size_t n = size_t(PyTuple_GET_SIZE(items));
  Node* small[8];
  std::vector<Node*> large;
  Node** nodes = small;
  if (n > 8) {
    large.resize(n);
    nodes = large.data();
  }
  for (size_t j = 0; j < n; j++) {
    Handle* h;
    if (!nb::try_cast<Handle*>(nb::handle(PyTuple_GET_ITEM(items, j)), h) || !h)
      throw GraphError(o.name->text + ": source " + std::to_string(j) + " is not a UOp");
    nodes[j] = h->ref.n;
  }
  Value attrs[16];
  Storage storage;
  if (o.attributes.size() > 16) throw GraphError(o.name->text + " has too many attributes");
  if (!o.attributes.empty() || (attributes.ptr() && PyDict_Size(attributes.ptr()))) fill_attributes(o, attributes, attrs, storage);
  Ref made(build_node(k, dtype.is_none() ? -1 : int(dtype_of(dtype)), nodes, uint32_t(n), attrs, uint32_t(o.attributes.size())));
  shape_of(made.n);  // so that a wrong shape is the fault of the line that made the node
  Node* result = made.n;
  made.n = nullptr;
  return result;
}

void define_nodes(nb::module_& m) {
  auto cls = nb::class_<Handle>(m, "UOp", R"doc(An immutable node: op, dtype, sources, attributes. Equal nodes are the same node.

>>> x = UOp("PARAM", (), "float32", slot=0, shape=(4,))
>>> (x + x).op, (x + x).shape, (x + x).src == (x, x), x + x == x + x
('ADD', (4,), True, True)
)doc");
  // Positional op, src, dtype; by name dtype and the attributes (an attribute may be called op).
  cls.def(
      "__init__",
      [](Handle* self, nb::args args, nb::kwargs attributes) {
        size_t n = args.size();
        if (n < 1 || n > 3) throw GraphError("UOp(op, src=(), dtype=None, **attributes) takes an op, sources and a dtype");
        nb::object src = n > 1 ? nb::object(args[1]) : nb::object(nb::make_tuple()), dtype = n > 2 ? nb::object(args[2]) : nb::none();
        if (attributes.contains("dtype")) {
          dtype = attributes["dtype"];
          nb::del(attributes["dtype"]);
        }
        new (self) Handle{Ref(build_from_python(args[0], src, dtype, attributes))};
      },
      nb::arg("args"), nb::arg("attributes"));
  cls.def_static(
      "const",
      [](nb::handle value, nb::handle dtype) {
        Storage storage;
        return Handle{Ref(make_const(value_of(value, storage, AttributeType::Scalar), dtype_of(dtype)))};
      },
      nb::arg("value"), nb::arg("dtype"), "A CONST of that dtype; integers wrap, floats are rounded.");
  cls.def_prop_ro("op", [](const Handle& h) { return nb::borrow(g_op_names[h.ref.n->op]); });
  cls.def_prop_ro("dtype", [](const Handle& h) { return nb::borrow(g_dtype_names[h.ref.n->dtype]); });
  cls.def_prop_ro("src", [](const Handle& h) {
    Node* n = h.ref.n;
    nb::object t = nb::steal(PyTuple_New(n->nsrc));
    for (uint32_t k = 0; k < n->nsrc; k++) PyTuple_SET_ITEM(t.ptr(), k, nb::cast(Handle{Ref::share(n->src[k])}).release().ptr());
    return t;
  });
  cls.def_prop_ro("attrs", [](const Handle& h) {
    Node* n = h.ref.n;
    nb::dict d;
    const OpInfo& o = op_info(n->op);
    for (uint32_t k = 0; n->attrs && k < std::min<size_t>(n->attrs->size, o.attributes.size()); k++)
      d[o.attributes[k].name->text.c_str()] = python_of(n->attrs->items[k]);
    return d;
  });
  cls.def_prop_ro("shape", [](const Handle& h) { return shape_tuple(h.ref.n); });
  cls.def_prop_ro("size", [](const Handle& h) { return size_of(h.ref.n); });
  cls.def_prop_ro("vmin", [](const Handle& h) { return bound(h.ref.n, false); });
  cls.def_prop_ro("vmax", [](const Handle& h) { return bound(h.ref.n, true); });
  cls.def_prop_ro("key", [](const Handle& h) { return h.ref.n->hash; });
  cls.def_prop_ro("ranges", [](const Handle& h) {
    const RangeSet* s = ranges_of(h.ref.n);
    nb::list l;
    for (uint32_t k = 0; k < s->size; k++) l.append(nb::cast(Handle{Ref::share(s->items[k])}));
    return l;
  });
  cls.def("toposort", [](const Handle& h, nb::args ops) { return nodes_below(h.ref.n, ops); });
  cls.def("numbers_below",
          [](const Handle& h, const std::string& op, const std::string& attribute) { return numbers_below(h.ref.n, op, attribute); });
  cls.def("dtypes", [](const Handle& h) { return dtypes_below(h.ref.n); });
  cls.def("count_nodes", [](const Handle& h) { return toposort(h.ref.n).size(); }, "Number of distinct nodes below, itself included.");
  cls.def(
      "replace", [](const Handle& h, nb::object src, nb::kwargs attributes) { return wrap(replaced(h.ref.n, src, attributes)); },
      nb::arg("src") = nb::none(), nb::arg("attributes"));
  cls.def("describe", [](const Handle& h) { return describe(h.ref.n); }, "One line: op, attributes, dtype.");
  cls.def(
      "__eq__",
      [](const Handle& a, nb::handle b) {
        Handle* other;
        return nb::try_cast<Handle*>(b, other) && other && other->ref.n == a.ref.n;
      },
      nb::arg("other").none());
  cls.def("__hash__", [](const Handle& h) { return Py_hash_t(h.ref.n->hash); });  // the same in every process
#define INFIX(python, op)                                                                                                              \
  cls.def("__" python "__", [](const Handle& a, nb::handle b) { return infix(OP_NUMBER(op), a.ref.n, b, false); }, nb::is_operator()); \
  cls.def("__r" python "__", [](const Handle& a, nb::handle b) { return infix(OP_NUMBER(op), a.ref.n, b, true); }, nb::is_operator());
  // clang-format off
  INFIX("add", "ADD") INFIX("sub", "SUB") INFIX("mul", "MUL") INFIX("truediv", "DIV") INFIX("floordiv", "FLOORDIV") INFIX("mod", "FLOORMOD")
  INFIX("and", "AND") INFIX("or", "OR") INFIX("xor", "XOR") INFIX("lshift", "SHL") INFIX("rshift", "SHR") INFIX("pow", "POW")
      // clang-format on
      cls.def("__lt__", [](const Handle& a, nb::handle b) { return infix(OP_NUMBER("CMPLT"), a.ref.n, b, false); });
  cls.def("__le__", [](const Handle& a, nb::handle b) { return infix(OP_NUMBER("CMPLE"), a.ref.n, b, false); });
  cls.def("__gt__", [](const Handle& a, nb::handle b) { return infix(OP_NUMBER("CMPLT"), a.ref.n, b, true); });
  cls.def("__ge__", [](const Handle& a, nb::handle b) { return infix(OP_NUMBER("CMPLE"), a.ref.n, b, true); });
  cls.def("__neg__", [](const Handle& a) {
    Node* n = a.ref.n;
    return wrap(build_node(uint32_t(find_op("NEG")), -1, &n, 1, nullptr, 0));
  });
  cls.def("__invert__", [](const Handle& a) {
    Node* n = a.ref.n;
    return wrap(build_node(uint32_t(find_op("NOT")), -1, &n, 1, nullptr, 0));
  });
}

}  // namespace rulegrad
