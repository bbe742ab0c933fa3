#include "python_values.hpp"

#include <nanobind/stl/string.h>

#include "interpreter_lock.hpp"

namespace rulegrad {

std::vector<PyObject*> g_op_names, g_dtype_names;  // interned, one each
std::unordered_map<PyObject*, int> g_op_by_object, g_dtype_by_object;

std::string_view text_of(nb::handle h, const char* what) {
  Py_ssize_t n;
  const char* s = PyUnicode_Check(h.ptr()) ? PyUnicode_AsUTF8AndSize(h.ptr(), &n) : nullptr;
  if (!s) {
    PyErr_Clear();
    throw GraphError(std::string(what) + " must be given by name, as a str");
  }
  return {s, size_t(n)};
}

PyObject* g_load_table = nullptr;      // loads the op table when an op or a dtype is named for the first time
PyObject* g_waiting_dtypes = nullptr;  // what `name_dtypes` was given before there was a table

void need_table() {
  if (!table_loaded() && g_load_table) nb::borrow<nb::callable>(g_load_table)();
  if (!table_loaded()) throw GraphError("the op table is not loaded; import rulegrad first");
}

// Names that are interned by Python (literals) are found by address.
uint32_t op_of(nb::handle h) {
  auto known = g_op_by_object.find(h.ptr());
  if (known != g_op_by_object.end()) return uint32_t(known->second);
  need_table();
  auto name = text_of(h, "an op");
  int k = find_op(name);
  if (k < 0) throw GraphError("there is no op called " + std::string(name));
  if (PyUnicode_CHECK_INTERNED(h.ptr())) {
    Py_INCREF(h.ptr());
    g_op_by_object[h.ptr()] = k;
  }
  return uint32_t(k);
}

uint32_t dtype_of(nb::handle h) {
  auto known = g_dtype_by_object.find(h.ptr());
  if (known != g_dtype_by_object.end()) return uint32_t(known->second);
  if (!table_loaded()) {
    need_table();
    return dtype_of(h);
  }
  auto name = text_of(h, "a dtype");
  int k = find_dtype(name);
  if (k < 0) throw GraphError("there is no dtype called " + std::string(name));
  if (PyUnicode_CheckExact(h.ptr()) && PyUnicode_CHECK_INTERNED(h.ptr())) {
    Py_INCREF(h.ptr());
    g_dtype_by_object[h.ptr()] = k;
  }
  return uint32_t(k);
}

void name_dtypes(nb::sequence dtypes) {
  if (!table_loaded()) {
    Py_XDECREF(g_waiting_dtypes);
    g_waiting_dtypes = dtypes.inc_ref().ptr();
    return;
  }
  for (nb::handle h : dtypes) {
    uint32_t k = dtype_of(nb::str(h));
    Py_INCREF(h.ptr());  // twice: both tables are never emptied
    Py_INCREF(h.ptr());
    g_dtype_by_object[h.ptr()] = int(k);
    g_dtype_names[k] = h.ptr();
  }
}

void name_waiting_dtypes() {
  if (g_waiting_dtypes) name_dtypes(nb::steal<nb::sequence>(std::exchange(g_waiting_dtypes, nullptr)));
}

Value value_of(nb::handle h, Storage& storage, AttributeType type, int depth) {
  PyObject* o = h.ptr();
  if (PyBool_Check(o)) return Value::boolean(o == Py_True);
  if (PyLong_Check(o)) {
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return Value::integer(v);
    nb::object digits = nb::steal(PyObject_Str(o));
    if (!digits.is_valid()) {  // Python itself refuses to print it
      PyErr_Clear();
      throw GraphError("an integer does not fit in 128 bits");
    }
    Int big = 0;
    std::string s(text_of(digits, "an int"));
    bool negative = s[0] == '-';
    for (char c : s.substr(negative)) {
      try {
        big = checked_add(checked_mul(big, 10), c - '0');
      } catch (const RewriteError&) { throw GraphError("the integer " + s + " does not fit in 128 bits"); }
    }
    return Value::integer(negative ? -big : big);
  }
  if (PyFloat_Check(o)) return Value::number(PyFloat_AS_DOUBLE(o));
  if (PyUnicode_Check(o)) {
    if (type == AttributeType::Op) return Value::opcode(op_of(h));
    if (type == AttributeType::Dtype) return Value::dtype(dtype_of(h));
    return Value::text(intern(text_of(h, "text")));
  }
  if (auto known = g_dtype_by_object.find(o); known != g_dtype_by_object.end()) {
    if (type == AttributeType::Dtype) return Value::dtype(uint32_t(known->second));
    return Value::text(dtype_info(uint32_t(known->second)).name);
  }
  if (PyTuple_Check(o) || PyList_Check(o)) {
    if (depth > 32) throw GraphError("an attribute is nested too deeply");
    std::vector<Value> items;
    for (nb::handle x : nb::borrow<nb::object>(h)) items.push_back(value_of(x, storage, type, depth + 1));
    storage.push_back(std::move(items));
    return Value::seq(storage.back().data(), uint32_t(storage.back().size()));
  }
  if (nb::isinstance<Handle>(h)) return Value::node(nb::cast<Handle&>(h).ref.n);
  if (PyIndex_Check(o)) {
    nb::object i = nb::steal(PyNumber_Index(o));
    if (i.is_valid()) return value_of(i, storage, type, depth + 1);
    PyErr_Clear();  // an array has __index__ too, but only some can use it
  }
  if (PyNumber_Check(o) && !PyComplex_Check(o)) {
    nb::object f = nb::steal(PyNumber_Float(o));
    if (f.is_valid()) return Value::number(PyFloat_AS_DOUBLE(f.ptr()));
    PyErr_Clear();
  }
  throw GraphError("an attribute must be an int, float, bool, str, dtype, op or a tuple of them, not " + std::string(nb::repr(h).c_str()));
}

nb::object wrap(Node* owned) {
  Handle h;
  h.ref = Ref(owned);
  return nb::cast(std::move(h));
}

nb::list nodes_below(Node* root, nb::args ops) {
  std::vector<bool> wanted(op_count(), ops.size() == 0);
  OpMask mask;
  for (nb::handle op : ops)
    if (int number = find_op(text_of(op, "an op")); number >= 0) {
      wanted[size_t(number)] = true;
      mask.add(uint32_t(number));
    }
  nb::list found;
  for (Node* n : ops.size() ? toposort(root, mask) : toposort(root))
    if (wanted[n->op]) found.append(nb::cast(Handle{Ref::share(n)}));
  return found;
}

// Of each source the numbers that nodes of an op below have as an attribute, as bits, the lowest byte first.
nb::list numbers_below(Node* root, const std::string& op, const std::string& attribute) {
  const int wanted = find_op(op);
  if (wanted < 0) throw GraphError("no op is called " + op);
  const auto& attributes = op_info(uint32_t(wanted)).attributes;
  const auto at = std::find_if(attributes.begin(), attributes.end(), [&](const AttributeInfo& a) { return a.name->text == attribute; });
  if (at == attributes.end() || at->type != AttributeType::Int) throw GraphError(op + " has no attribute " + attribute + " that is a number");
  const size_t place = size_t(at - attributes.begin());
  OpMask mask;
  mask.add(uint32_t(wanted));
  const std::vector<Node*> order = toposort(root, mask);
  auto number_of = [&](const Node* n) { return n->op == uint32_t(wanted) && n->attrs->items[place].i >= 0 ? int64_t(n->attrs->items[place].i) : -1; };
  size_t size = 0;  // bytes
  for (const Node* n : order) size = std::max(size, size_t(number_of(n) + 8) / 8);
  std::vector<uint8_t> bits((order.size() + 1) * size);  // the first: of nodes that have none below
  static thread_local SideTable<uint32_t> rows;
  rows.begin();
  for (size_t k = 0; k < order.size(); k++) {
    const Node* n = order[k];
    uint8_t* own = bits.data() + (k + 1) * size;
    rows[n] = uint32_t(k + 1);
    if (const int64_t number = number_of(n); number >= 0) own[number / 8] |= uint8_t(1 << number % 8);
    for (uint32_t j = 0; j < n->nsrc; j++) {
      const uint8_t* below = bits.data() + rows[n->src[j]] * size;
      for (size_t b = 0; b < size; b++) own[b] |= below[b];
    }
  }
  nb::list found;
  for (uint32_t j = 0; j < root->nsrc; j++) found.append(nb::bytes(reinterpret_cast<const char*>(bits.data() + rows[root->src[j]] * size), size));
  return found;
}

nb::set dtypes_below(Node* root) {
  uint32_t found = 0;
  for (Node* n : toposort(root)) found |= uint32_t(1) << n->dtype;
  nb::set dtypes;
  for (size_t k = 0; k < dtype_count(); k++)
    if (found >> k & 1) dtypes.add(nb::borrow(g_dtype_names[k]));
  return dtypes;
}

nb::object python_int(Int v) {
  if (v == (long long)v) return nb::steal(PyLong_FromLongLong((long long)v));
  return nb::steal(PyLong_FromString(show_int(v).c_str(), nullptr, 10));
}

// A named tuple's class for each form of records; as names may be words of Python, the true ones of the fields are its `_record`.
static nb::object python_form(uint16_t form) {
  static auto& classes = *new std::unordered_map<uint16_t, nb::object>();  // never destroyed: the interpreter ends first
  nb::object& found = classes[form];
  if (!found.is_valid()) {
    const RecordForm& record = record_form(form);
    nb::list fields;
    for (const Str* field : record.fields) fields.append(field->text);
    found = nb::module_::import_("collections").attr("namedtuple")("Record", fields, nb::arg("rename") = true);
    found.attr("__name__") = record.name->text;
    found.attr("__qualname__") = record.name->text;
    found.attr("_record") = nb::tuple(fields);
  }
  return found;
}

nb::object python_of(const Value& v) {
  switch (v.tag) {
    case Tag::None: return nb::none();
    case Tag::Bool: return nb::bool_(v.b);
    case Tag::Int: return python_int(v.i);
    case Tag::Float: return nb::float_(v.f);
    case Tag::Str: return nb::str(v.s->text.c_str(), v.s->text.size());
    case Tag::Dtype: return nb::borrow(g_dtype_names[v.u]);
    case Tag::Op: return nb::borrow(g_op_names[v.u]);
    case Tag::Node: retain(v.n); return wrap(v.n);
    case Tag::Seq: {
      nb::object t = nb::steal(PyTuple_New(v.q.size));
      for (uint32_t k = 0; k < v.q.size; k++) PyTuple_SET_ITEM(t.ptr(), k, python_of(v.q.items[k]).release().ptr());
      return v.q.form ? python_form(v.q.form).attr("_make")(t) : t;
    }
  }
  return nb::none();
}

namespace {
// The machine holds the nodes that a host function gave, as long as it runs.
void keep_nodes(const Value& v, Machine& machine) {
  if (v.tag == Tag::Node) {
    retain(v.n);
    machine.keep(v.n);
  } else if (v.tag == Tag::Seq) {
    for (uint32_t k = 0; k < v.q.size; k++) keep_nodes(v.q.items[k], machine);
  }
}
}  // namespace

Value call_host(void* handle, const Value* arguments, uint32_t count, Machine& machine) {
  WithInterpreter gil;
  nb::object args = nb::steal(PyTuple_New(count));
  for (uint32_t k = 0; k < count; k++) PyTuple_SET_ITEM(args.ptr(), k, python_of(arguments[k]).release().ptr());
  nb::object result = nb::steal(PyObject_CallObject(static_cast<PyObject*>(handle), args.ptr()));
  if (!result.is_valid()) {
    nb::python_error e;
    throw RewriteError(std::string(nb::str(e.type().attr("__name__")).c_str()) + ": " + nb::str(e.value()).c_str());
  }
  Storage storage;
  Value v = value_of(result, storage, AttributeType::Tuple);
  keep_nodes(v, machine);
  return machine.persistent(v);
}

void define_values(nb::module_& m) {
  m.def("name_dtypes", &name_dtypes, nb::arg("dtypes"), "The objects that stand for dtypes from now on; str() of each is its name.");
  m.def(
      "load_table_with",
      [](nb::callable load) {
        Py_XDECREF(g_load_table);
        g_load_table = load.inc_ref().ptr();
      },
      nb::arg("load"), "The function that loads the op table when an op or a dtype is named and there is none.");
  m.def(
      "verify",
      [](const Handle& root, const std::string& level) {
        static const std::pair<const char*, uint32_t> levels[] = {{"tensor", 1}, {"kernel", 2}, {"program", 4}};
        for (auto& [name, bit] : levels)
          if (level == name) return verify(root.ref.n, bit);
        throw GraphError("there is no IR level called " + level);
      },
      nb::arg("root"), nb::arg("level"), "What is wrong with a graph at an IR level (tensor, kernel, program); empty when nothing is.");
  m.def(
      "evaluate",
      [](const std::string& op, nb::handle dtype, nb::args args) -> nb::object {
        Storage storage;
        std::vector<Value> values;
        for (nb::handle a : args) values.push_back(value_of(a, storage, AttributeType::Scalar));
        need_table();
        int k = find_op(op);
        if (k < 0) throw GraphError("there is no op " + op);
        Value r;
        uint32_t d = dtype_of(dtype);
        if (!evaluate_op(uint32_t(k), d, values.data(), uint32_t(values.size()), d, r)) return nb::none();
        return python_of(r);
      },
      nb::arg("op"), nb::arg("dtype"), nb::arg("arguments"), "The op table's evaluator on constants; None where it is undefined.");
}

}  // namespace rulegrad
