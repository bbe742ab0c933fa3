// The Python module rulegrad._core: handles on nodes, and compiled programs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <thread>

#include "buffers.hpp"
#include "captured.hpp"
#include "eager.hpp"
#include "exchange.hpp"
#include "graph_function.hpp"
#include "guards.hpp"
#include "interpreter_lock.hpp"
#include "named.hpp"
#include "placing.hpp"
#include "python_trace.hpp"
#include "replay.hpp"
#include "shapes.hpp"
#include "signature.hpp"
#include "template_graph.hpp"

using namespace rulegrad;

namespace {

PyObject* g_graph_error = nullptr;
PyObject* g_rewrite_error = nullptr;
PyObject* g_rule_error = nullptr;

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

class PyProgram {
 public:
  PyProgram(nb::bytes data, bool op_table) {
    if (op_table) {
      Program p;
      load_program(p, reinterpret_cast<const uint8_t*>(data.c_str()), data.size(), true);
      for (uint32_t k = 0; k < op_count(); k++) g_op_names.push_back(PyUnicode_InternFromString(op_info(k).name->text.c_str()));
      for (uint32_t k = 0; k < dtype_count(); k++) g_dtype_names.push_back(PyUnicode_InternFromString(dtype_info(k).name->text.c_str()));
      for (uint32_t k = 0; k < g_op_names.size(); k++) g_op_by_object[g_op_names[k]] = int(k);
      for (uint32_t k = 0; k < g_dtype_names.size(); k++) g_dtype_by_object[g_dtype_names[k]] = int(k);
      name_waiting_dtypes();
    } else {
      need_table();
      load_program(program_, reinterpret_cast<const uint8_t*>(data.c_str()), data.size(), false);
      program_.host = call_host;
    }
  }

  const Pass& pass(const std::string& name) const {
    auto found = program_.pass_names.find(name);
    if (found == program_.pass_names.end()) throw RewriteError("no pass is called " + name);
    return program_.passes[found->second];
  }

  nb::object rewrite_one(const std::string& name, const Handle& root, bool trace, bool check, uint64_t fuel, std::vector<Handle> follow,
                         int64_t limit, const std::string& limited, nb::object failed, uint32_t kept_choices) {
    Options options;
    options.trace = trace;
    options.check_shapes = check;
    options.kept_choices = kept_choices;
    if (fuel) options.fuel = fuel;
    for (auto& h : follow) options.follow.push_back(h.ref.n);
    if (limit >= 0) options.limit = uint64_t(limit);
    for (auto& rule : program_.rules)
      if (!limited.empty()) options.limited.push_back(rule.name->text == limited);
    Outcome out;
    Ref hold = root.ref;
    const Pass& p = pass(name);
    std::exception_ptr error;
    try {
      WithoutInterpreter release;
      rewrite(program_, p, hold.n, options, out);
    } catch (...) { error = std::current_exception(); }
    if (error) {
      if (!failed.is_none()) failed.attr("update")(information(program_, out, true, true));
      std::rethrow_exception(error);
    }
    return nb::make_tuple(nb::cast(Handle{out.root}), information(program_, out, trace));
  }

  // A pass on a graph, watched: what the alternatives of the function `probe` do on each node that the subject's rules are tried on.
  nb::tuple explain(const std::string& name, const std::string& probe, const Handle& root, nb::object watcher, const std::string& function,
                    std::vector<Handle> nodes, nb::object seed, const std::vector<std::string>& inside) {
    const Pass& p = pass(name);
    Explainer explainer = make_explainer(program_, p, probe, function, inside);
    for (auto& h : nodes) explainer.nodes[h.ref.n] = true;
    explainer.report = [&](const Explainer::Attempt& a) {
      WithInterpreter gil;
      nb::list registers;
      for (int k = 0; a.registers && k < kRegisters; k++) registers.append(python_of(a.registers[k]));
      nb::object result = a.done ? python_of(a.result) : nb::none();
      watcher.attr("attempt")(nb::cast(Handle{Ref::share(a.node)}), a.alternative, a.done, a.pc, result, registers, a.error);
    };
    explainer.enter = [&](const Explainer::Entry& e) {
      WithInterpreter gil;
      const Rule* rule = e.rule < program_.rules.size() ? &program_.rules[e.rule] : nullptr;
      watcher.attr("enter")(e.function ? e.function->text : "", rule ? rule->name->text : "", rule ? rule->place->text : "",
                            e.at ? nb::cast(Handle{Ref::share(e.at)}) : nb::none(), nb::cast(Handle{Ref::share(e.graph)}));
    };
    explainer.leave = [&](const Outcome& part, const std::string& problem) {
      WithInterpreter gil;
      watcher.attr("leave")(information(program_, part, true), problem);
    };
    Options options;
    options.trace = true;
    options.explainer = &explainer;
    Outcome out;
    std::string error;
    Node* start = seed.is_none() ? nullptr : nb::cast<Handle&>(seed).ref.n;
    try {
      WithoutInterpreter release;
      if (p.kind == PassKind::Reverse && start) reverse(program_, p, {root.ref.n}, {start}, toposort(root.ref.n), &explainer);
      else rewrite(program_, p, root.ref.n, options, out);
    } catch (const std::runtime_error& e) {  // GraphError, RewriteError
      error = e.what();
    }
    return nb::make_tuple(information(program_, out, true), error);
  }

  // Each root through all the passes, on all cores; what each pass did, over all roots.
  nb::tuple rewrite_many(const std::vector<std::string>& names, std::vector<Handle> roots) {
    struct Work {
      double seconds = 0;
      uint64_t visited = 0, fired = 0;
    };
    std::vector<const Pass*> steps;
    for (auto& name : names) steps.push_back(&pass(name));
    std::vector<std::vector<Work>> works(roots.size(), std::vector<Work>(steps.size()));
    std::vector<std::exception_ptr> errors(roots.size());
    {
      WithoutInterpreter release;
      std::atomic<size_t> next{0};
      auto work = [&] {
        for (size_t k; (k = next.fetch_add(1)) < roots.size();) {
          try {
            for (size_t j = 0; j < steps.size(); j++) {
              auto start = std::chrono::steady_clock::now();
              Outcome out;
              rewrite(program_, *steps[j], roots[k].ref.n, Options{}, out);
              roots[k] = Handle{out.root};
              works[k][j] = {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), out.visited, out.fired};
            }
          } catch (...) { errors[k] = std::current_exception(); }
        }
      };
      std::vector<std::thread> workers;
      size_t count = program_.counts.empty() ? std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), roots.size()) : 1;
      for (size_t k = 1; k < count; k++) workers.emplace_back(work);
      work();
      for (auto& w : workers) w.join();
    }
    for (auto& e : errors)
      if (e) std::rethrow_exception(e);
    nb::list results, did;
    for (auto& root : roots) results.append(nb::cast(root));
    for (size_t j = 0; j < steps.size(); j++) {
      Work sum;
      for (auto& w : works) sum = {sum.seconds + w[j].seconds, sum.visited + w[j].visited, sum.fired + w[j].fired};
      did.append(nb::make_tuple(sum.seconds, sum.visited, sum.fired));
    }
    return nb::make_tuple(results, did);
  }

  nb::list reverse_pass(const std::string& name, const std::vector<Handle>& roots, const std::vector<Handle>& seeds,
                        const std::vector<Handle>& targets, nb::object trace) {
    const Pass& p = pass(name);
    if (p.kind != PassKind::Reverse) throw RewriteError("pass " + name + " is not a reverse pass");
    const auto nodes = [](const std::vector<Handle>& handles) {
      std::vector<Node*> found;
      for (auto& handle : handles) found.push_back(handle.ref.n);
      return found;
    };
    std::vector<Ref> out;
    std::vector<GradientFiring> firings;
    std::exception_ptr error;  // what fired before it is told too
    try {
      WithoutInterpreter release;
      out = reverse(program_, p, nodes(roots), nodes(seeds), nodes(targets), nullptr, trace.is_none() ? nullptr : &firings);
    } catch (...) { error = std::current_exception(); }
    for (auto& f : firings) {
      nb::list sources;
      for (auto& s : f.sources) sources.append(nb::cast(Handle{s}));
      const Rule& rule = program_.rules[f.rule];
      trace.attr("append")(nb::make_tuple(rule.name->text, rule.place->text, nb::cast(Handle{f.node}), nb::cast(Handle{f.gradient}), sources));
    }
    if (error) std::rethrow_exception(error);
    nb::list result;
    for (auto& r : out) {
      if (r.n) result.append(nb::cast(Handle{r}));
      else result.append(nb::none());
    }
    return result;
  }

  // The pass's rules on one node, once, and not below it; None when none fires.
  nb::object apply(const std::string& name, const Handle& root) {
    const Pass& p = pass(name);
    Machine machine(program_);
    Value v;
    if (machine.match(p.dispatch, root.ref.n, nullptr, 0, v) < 0) return nb::none();
    Node* result = machine.lift(v, root.ref.n->dtype);
    if (result == root.ref.n) return nb::none();
    return nb::cast(Handle{Ref::share(result)});
  }

  nb::object call(const std::string& name, nb::args args) {
    Storage storage;
    std::vector<Value> values;
    for (nb::handle a : args) values.push_back(value_of(a, storage, AttributeType::Tuple));
    Machine machine(program_);
    return python_of(call_function(program_, name, values, machine));
  }

  nb::list order(const std::string& name, const Handle& root) {
    std::vector<Line> lines = linearize(pass(name), root.ref.n);
    nb::list result;
    for (auto& l : lines) result.append(nb::make_tuple(nb::cast(Handle{Ref::share(l.node)}), l.closes != nullptr));
    return result;
  }

  nb::tuple source(const std::string& order_pass, const std::string& render_pass, const Handle& root) {
    const Pass &o = pass(order_pass), &r = pass(render_pass);
    Rendered out;
    {
      WithoutInterpreter release;
      out = render(program_, r, linearize(o, root.ref.n));
    }
    nb::list parameters;
    for (auto& [slot, nt] : out.parameters) parameters.append(nb::make_tuple(slot, nt.first, nt.second));
    return nb::make_tuple(out.body, parameters);
  }

  void disable(const std::string& rule, bool off) {
    bool found = false;
    for (size_t k = 0; k < program_.rules.size(); k++) {
      const std::string& full = program_.rules[k].name->text;
      if (full == rule || full.substr(full.find('.') + 1) == rule) {
        program_.disabled[k] = off;
        found = true;
      }
    }
    if (!found) throw RewriteError("no rule is called " + rule);
    renew_stamps(program_);
  }

  void count(bool on) { program_.counts.assign(on ? program_.rules.size() : 0, RuleCount()); }

  nb::list counts() const {
    nb::list found;
    for (size_t k = 0; k < program_.counts.size(); k++)
      if (const RuleCount& c = program_.counts[k]; c.tried)
        found.append(nb::make_tuple(program_.rules[k].name->text, c.tried, c.fired, c.nanoseconds));
    return found;
  }

  void set_extern(const std::string& name, nb::object function) {
    for (size_t k = 0; k < program_.extern_names.size(); k++)
      if (program_.extern_names[k]->text == name) {
        externs_.push_back(function);
        program_.externs[k] = function.ptr();
        return;
      }
    throw RewriteError("no extern is called " + name);
  }

  std::vector<std::pair<std::string, std::string>> rules() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (auto& r : program_.rules) out.emplace_back(r.name->text, r.place->text);
    return out;
  }
  std::vector<std::string> extern_list() const {
    std::vector<std::string> out;
    for (auto& e : program_.extern_names) out.push_back(e->text);
    return out;
  }
  std::vector<std::string> passes() const {
    std::vector<std::string> out;
    for (auto& p : program_.passes) out.push_back(p.name->text);
    return out;
  }

 private:
  Program program_;
  std::vector<nb::object> externs_;
};

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

NB_MODULE(_core, m) {
  m.doc() = "The engine: hash-consed nodes and compiled rules.";
  nb::set_leak_warnings(false);
  nb::module_ errors = nb::module_::import_("rulegrad.errors");
  g_graph_error = nb::object(errors.attr("GraphError")).release().ptr();
  g_rewrite_error = nb::object(errors.attr("RewriteError")).release().ptr();
  g_rule_error = nb::object(errors.attr("RuleError")).release().ptr();
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const GraphError& e) { PyErr_SetString(g_graph_error, e.what()); } catch (const RewriteError& e) {
      PyErr_SetString(g_rewrite_error, e.what());
    } catch (const BytecodeError& e) { PyErr_SetString(g_rule_error, (std::string("malformed compiled rules: ") + e.what()).c_str()); }
  });

  m.attr("NodeHolder") = nb::steal(node_holder());

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

  nb::class_<PyProgram>(m, "Program", "Compiled rules.")
      .def(nb::init<nb::bytes, bool>(), nb::arg("data"), nb::arg("op_table") = false)
      .def("rewrite", &PyProgram::rewrite_one, nb::arg("pass_name"), nb::arg("root"), nb::arg("trace") = false, nb::arg("check") = false,
           nb::arg("fuel") = 0, nb::arg("follow") = nb::list(), nb::arg("limit") = -1, nb::arg("limited") = "", nb::arg("failed") = nb::none(),
           nb::arg("kept_choices") = 1)
      .def("explain", &PyProgram::explain, nb::arg("pass_name"), nb::arg("probe"), nb::arg("root"), nb::arg("watcher"), nb::arg("function") = "",
           nb::arg("nodes") = nb::list(), nb::arg("seed") = nb::none(), nb::arg("inside") = nb::list())
      .def("rewrite_many", &PyProgram::rewrite_many, nb::arg("pass_names"), nb::arg("roots"))
      .def("reverse", &PyProgram::reverse_pass, nb::arg("pass_name"), nb::arg("roots"), nb::arg("seeds"), nb::arg("targets"),
           nb::arg("trace") = nb::none())
      .def("apply", &PyProgram::apply, nb::arg("pass_name"), nb::arg("root"))
      .def("call", &PyProgram::call, nb::arg("function"), nb::arg("arguments"))
      .def("order", &PyProgram::order, nb::arg("pass_name"), nb::arg("root"))
      .def("source", &PyProgram::source, nb::arg("order_pass"), nb::arg("render_pass"), nb::arg("root"))
      .def("disable", &PyProgram::disable, nb::arg("rule"), nb::arg("off") = true)
      .def("count", &PyProgram::count, nb::arg("on"))
      .def_prop_ro("counts", &PyProgram::counts)
      .def("set_extern", &PyProgram::set_extern, nb::arg("name"), nb::arg("function"))
      .def_prop_ro("rules", &PyProgram::rules)
      .def_prop_ro("externs", &PyProgram::extern_list)
      .def_prop_ro("passes", &PyProgram::passes);

  nb::list opcodes, binary, unary;
#define X(name, operands) opcodes.append(nb::make_tuple(#name, operands));
  RULEGRAD_OPCODES(X)
#undef X
#define X(name) binary.append(#name);
  RULEGRAD_BINARY(X)
#undef X
#define X(name) unary.append(#name);
  RULEGRAD_UNARY(X)
#undef X
  m.attr("OPCODES") = opcodes;
  m.attr("BINARY_OPERATORS") = binary;
  m.attr("UNARY_OPERATORS") = unary;
  m.attr("MOST_PARAMETERS") = kMostParameters;
  m.def("live_nodes", &live_nodes, "Number of nodes that are alive.");
  watch_forks();
  define_exchange(m);
  define_cuda(m);
  define_replay(m);
  define_buffers(m);
  define_shapes(m);
  define_eager(m);
  define_graph_function(m);
  define_template_graph(m);
  define_guards(m);
  define_captured(m);
  define_placing(m);
  m.def("table_loaded", &table_loaded);
  m.def("renumbered", &renumbered, nb::arg("like"), nb::arg("number"), "The BUFFER node with another number.");
  m.def("signature", &signature, nb::arg("roots"), "A key of the graphs with their buffers left open, and the buffers' ids in order.");
  m.def("placements", &placements, nb::arg("nodes"), "Of the nodes that are BUFFERs in parts: which they are, their meshes, and how they lie there.");
  m.def("remember", &remember, nb::arg("node"), nb::arg("buffer"), "The buffer holds the value of the node, as long as both live.");
  m.def("resolved", &resolved, nb::arg("roots"), "Graphs on the buffers that hold values of their nodes, and what is named in them.");
  define_values(m);
}
