#include "eager.hpp"

#include <structmember.h>

#include <cmath>
#include <memory>
#include <optional>
#include <unordered_map>

#include "replay.hpp"
#include "scalars.hpp"
#include "signature.hpp"
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

// Whether a tensor's values are those of its node, and no gradient flows to it. A view whose base nobody else holds becomes a tensor of
// its own in Python.
bool is_plain(PyObject* t) { return is_current(t) && at(t, g_tensors.tracked) == Py_False && (base_of(t) == Py_None || Py_REFCNT(base_of(t)) > 1); }

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

// ---- results ----

constexpr int64_t kLittle = 4096;  // bytes of a result that is not worth to look for memory that it could take

// A plan whose results are in memory of their own, and whose launches are a program.
struct Small {
  Small(nb::object holder, const Replay* program, nb::handle inputs, std::vector<uint32_t> takeable, nb::handle layouts,
        std::vector<uint32_t> outputs, int64_t arena, int64_t runs)
      : holder(std::move(holder)), program(program), takeable(std::move(takeable)), outputs(std::move(outputs)), arena(arena), runs(runs) {
    for (nb::handle one : inputs) {
      if (PyLong_Check(one.ptr())) this->inputs.push_back({nb::cast<uint32_t>(one), {}});
      else if (Py_IS_TYPE(one.ptr(), g_tensors.buffer)) this->inputs.push_back({0, nb::borrow(one)});
      else throw GraphError("an input of a plan is the place of a buffer, or a buffer");
    }
    for (nb::handle one : layouts) this->layouts.emplace_back(one);
    if (program->bound() != this->inputs.size() + this->layouts.size()) throw GraphError("a plan binds its inputs and its results");
  }
  bool is_little() const {
    return std::all_of(layouts.begin(), layouts.end(), [](const BufferLayout& one) { return one.bytes <= kLittle; });
  }
  struct Input {
    uint32_t place;  // in the signature's buffers
    nb::object own;  // or a buffer of the plan's own
  };
  nb::object holder;  // keeps the program
  const Replay* program;
  std::vector<Input> inputs;
  std::vector<uint32_t> takeable;
  std::vector<BufferLayout> layouts;  // of what is bound behind the inputs
  std::vector<uint32_t> outputs;      // of each root, which of these it is
  int64_t arena;
  mutable int64_t runs;  // until Python is asked again; negative: never
};

// What is kept, and what is not, of the values on the way that tensors stand for: places in the order of the nodes.
struct Decision {
  std::vector<uint32_t> kept, cheap;
};

// A tensor that is asked for, and what is known of its graph.
struct Asked {
  PyObject* tensor;
  Ref root;
  std::vector<Node*> order;
  std::string text;  // the signature
  std::vector<int64_t> ids;
  std::string named;  // places of nodes that tensors stand for, and whether these may be kept
  size_t others = 0;  // tensors that stand for the root, and get its value too
};

// The default device, as it was when decisions were kept.
nb::object* g_default = nullptr;

// Whether a tensor that stands for a node may be given its value, beside another on a device; none where Python has to look.
std::optional<bool> may_be_kept(PyObject* t, Node* n, PyObject* device) {
  const Tensors& g = g_tensors;
  if (!PyObject_TypeCheck(t, g.core) || at(t, g.gradient_of) != g.nothing) return {};
  if (at(t, g.leaf) == Py_True || at(t, g.view) != Py_None || !element_count(shape_of(n))) return false;
  PyObject* own = at(t, g.device);
  if (!PyUnicode_GET_LENGTH(own) && g_default) own = g_default->ptr();  // it is wanted there now
  if (own != device && PyUnicode_Compare(own, device) != 0) return false;
  if (at(t, g.tracked) == Py_True) return {};
  return true;
}

// False where Python has to see to it, as for more nodes than any known graph has.
bool read_graph(Asked& asked, size_t most) {
  asked.order = toposort(asked.root.n);
  if (asked.order.size() > most) return false;
  PyObject* device = at(asked.tensor, g_tensors.device);
  for (size_t k = 0; k < asked.order.size(); k++) {
    Node* n = asked.order[k];
    const uint8_t facts = n->facts.load(std::memory_order_relaxed);
    if (facts & kStored) return false;
    if (!(facts & kNamed) || (n == asked.root.n && stands_alone(asked.tensor))) continue;
    if (!PyUnicode_GET_LENGTH(device)) return false;
    bool is_candidate = false;
    for (nb::handle holder : holders_of(n)) {
      if (holder.ptr() == asked.tensor) continue;
      const std::optional<bool> may = may_be_kept(holder.ptr(), n, device);
      if (!may) return false;
      is_candidate |= *may;
      asked.others += *may && n == asked.root.n;
    }
    if (n == asked.root.n) continue;
    const auto place = uint32_t(k);
    asked.named.append(reinterpret_cast<const char*>(&place), sizeof place);
    asked.named += is_candidate ? 'k' : 'n';
  }
  write_signature(asked.order, {asked.root.n}, asked.text, asked.ids);
  return true;
}

constexpr size_t kMostKept = 1 << 14;

class Eager {
 public:
  explicit Eager(nb::object observers) { set_observers(std::move(observers)); }

  void keep(nb::bytes key, nb::object program, nb::list inputs, std::vector<uint32_t> takeable, nb::handle layouts, std::vector<uint32_t> outputs,
            int64_t arena, int64_t runs) {
    const Replay* replay = nb::cast<const Replay*>(program);
    if (known_.size() >= kMostKept) known_.clear();
    most_nodes_ = std::max(most_nodes_, key.size() / kLeastOfNode);
    auto plan = std::make_shared<const Small>(program, replay, inputs, std::move(takeable), layouts, std::move(outputs), arena, runs);
    if (replay->is_of_functions() && !is_of_host(plan->layouts[0].device.ptr())) host_devices_.push_back(plan->layouts[0].device);
    known_.insert_or_assign(std::string(key.c_str(), key.size()), std::move(plan));
  }

  // When this tensor is asked for, these values on the way are results too, and these are not kept, though tensors stand for them.
  void decide(nb::handle tensor, const std::vector<Handle>& kept, const std::vector<Handle>& cheap, nb::object default_device) {
    if (!g_default) g_default = new nb::object(default_device);
    else if (!g_default->equal(default_device)) {
      forget_decisions();
      *g_default = default_device;
    }
    Asked asked{tensor.ptr(), {}, {}, {}, {}, {}};
    if (!is_askable(asked.tensor)) return;
    asked.root = Ref::share(node_of(asked.tensor));
    if (!read_graph(asked, most_nodes_) || asked.named.empty()) return;
    Decision decision;
    for (auto [nodes, places] : {std::pair(&kept, &decision.kept), std::pair(&cheap, &decision.cheap)})
      for (const Handle& one : *nodes) {
        const auto found = std::find(asked.order.begin(), asked.order.end(), one.ref.n);
        if (found == asked.order.end()) return;
        places->push_back(uint32_t(found - asked.order.begin()));
      }
    if (decided_.size() >= kMostKept) decided_.clear();
    decided_.insert_or_assign(asked.text + asked.named, std::make_shared<const Decision>(std::move(decision)));
  }

  void forget_decisions() { decided_.clear(); }

  void forget() {
    known_.clear();
    forget_decisions();
  }

  // Whether the tensor's values are in a buffer now; false where Python has to see to it.
  bool realize(nb::handle tensor) {
    Asked asked{tensor.ptr(), {}, {}, {}, {}, {}};
    if (!is_askable(asked.tensor)) return false;
    asked.root = Ref::share(node_of(asked.tensor));
    if (asked.root.n->op == known_ops.BUFFER) return true;
    if (!asked.root.n->nsrc || !read_graph(asked, most_nodes_)) return false;
    static const auto nothing = std::make_shared<const Decision>();
    std::shared_ptr<const Decision> decision = nothing;
    if (!asked.named.empty()) {
      const auto known = decided_.find(asked.text + asked.named);
      if (known == decided_.end()) return false;
      decision = known->second;
      for (uint32_t place : decision->kept) asked.text.append(reinterpret_cast<const char*>(&place), sizeof place);  // a root, too
    }
    const std::shared_ptr<const Small> plan = find(asked.text);
    return plan && launch(*plan, asked, *decision);
  }

  // The buffers of graphs that read these buffers in the places of nodes; None where Python has to see to it.
  nb::object compute(const std::vector<Handle>& graphs, const std::vector<Handle>& nodes, nb::list buffers) {
    if (!nobody_watches()) return nb::none();
    if (nodes.size() != buffers.size()) throw GraphError("each node has one buffer in its place");
    Replaced replaced;
    for (size_t k = 0; k < nodes.size(); k++) {
      nb::handle buffer = buffers[k];
      if (!Py_IS_TYPE(buffer.ptr(), g_tensors.buffer)) throw GraphError("in the place of a node is a buffer");
      replaced.emplace_back(nodes[k].ref.n, nb::inst_ptr<Handle>(reinterpret_cast<BufferBase*>(buffer.ptr())->uop)->ref.n);
    }
    std::vector<Node*> roots;
    for (const Handle& graph : graphs) roots.push_back(graph.ref.n);
    std::string text;
    std::vector<int64_t> ids;
    write_signature(toposort(roots, replaced), roots, text, ids, replaced);
    const std::shared_ptr<const Small> plan = find(text);
    const auto inputs = plan ? inputs_of(ids) : std::nullopt;
    if (!inputs) return nb::none();
    const std::vector<nb::object> made = run(*plan, *inputs);
    nb::list results;
    for (uint32_t place : plan->outputs) results.append(made[place]);
    return results;
  }

  // The value of a tensor with one element that is in memory, or whose plan is known; None where Python has to see to it.
  nb::object number(nb::handle tensor) {
    PyObject* t = tensor.ptr();
    if (!nobody_watches() || !is_current(t) || element_count(shape_of(node_of(t))) != 1) return nb::none();
    std::optional<Element> element = element_of(node_of(t));
    if (!element && realize(tensor)) element = element_of(node_of(t));
    BufferBase* buffer = element ? live_buffer(buffer_id(element->buffer)) : nullptr;
    if (!buffer || !has_values(buffer) || !is_of_host(buffer->device)) return nb::none();
    const nb::object found = number_at(address_of(buffer->handle), element->buffer->dtype, element->place);
    return found.is_valid() ? found : nb::none();
  }

  nb::object read_kept;  // Python's: lets the graph of a tensor begin at buffers with values in it

 private:
  // The plan of graphs with this signature, if the engine is to compute them this time. It may be forgotten while the device is asked for memory.
  std::shared_ptr<const Small> find(const std::string& text) {
    const auto found = known_.find(text);
    if (found == known_.end()) return {};
    const std::shared_ptr<const Small> plan = found->second;
    if (plan->runs < 0 || --plan->runs >= 0) return plan;
    known_.erase(found);
    return {};
  }

  // The buffers with these ids; none where one has no memory yet, or indices that are to be checked.
  static std::optional<std::vector<nb::object>> inputs_of(const std::vector<int64_t>& ids) {
    std::vector<nb::object> found;
    for (int64_t id : ids) {
      BufferBase* s = live_buffer(id);
      if (!s || !has_values(s)) return {};
      found.push_back(nb::borrow(reinterpret_cast<PyObject*>(s)));
    }
    return found;
  }

  static bool has_values(const BufferBase* s) { return s->handle && s->handle != Py_None && !PyTuple_GET_SIZE(s->checks); }

  // Whether the host reads a device's memory at its addresses: programs of functions ran there, and a run returns when it has ended.
  bool is_of_host(PyObject* device) const {
    return std::any_of(host_devices_.begin(), host_devices_.end(),
                       [&](const nb::object& one) { return one.ptr() == device || PyUnicode_Compare(one.ptr(), device) == 0; });
  }

  // Whether a tensor's value may be computed without Python.
  static bool is_askable(PyObject* t) { return nobody_watches() && is_plain(t) && at(t, g_tensors.gradient_of) == g_tensors.nothing; }

  bool launch(const Small& plan, const Asked& asked, const Decision& decision) {
    const auto found = inputs_of(asked.ids);
    if (!found) return false;
    const std::vector<nb::object>& inputs = *found;
    std::vector<nb::list> kept;
    size_t tensors = 1 + asked.others;
    for (uint32_t place : decision.kept) tensors += nb::len(kept.emplace_back(holders_of(asked.order[place])));
    if (!plan.is_little() && base_of(asked.tensor) == Py_None)  // the base of a view keeps what the view reads
      for (uint32_t k : plan.takeable)                          // the tensors' histories and the list here: nobody else may need the memory
        if (size_t(Py_REFCNT(inputs[k].ptr())) <= 1 + tensors) return false;
    const nb::object before = nb::borrow(uop_of(asked.tensor));
    // of the node the caller's and the UOp's, of the UOp the tensor's and ours
    const bool has_others = asked.root.n->refs.load(std::memory_order_relaxed) > 2 || Py_REFCNT(before.ptr()) > 2;
    const std::vector<nb::object> results = run(plan, inputs);
    if (uop_of(asked.tensor) != before.ptr()) return true;  // another thread was faster
    nb::dict settled;
    const nb::object device = nb::borrow(at(asked.tensor, g_tensors.device));
    for (size_t k = 0; k < kept.size(); k++) settle(kept[k], asked.order[decision.kept[k]], device, results[plan.outputs[k + 1]], settled);
    if (asked.others) settle(holders_of(asked.root.n), asked.root.n, device, results[plan.outputs[0]], settled);
    if (uop_of(asked.tensor) == before.ptr()) settle_one(asked.tensor, before, results[plan.outputs[0]], has_others, settled);
    const nb::handle base = base_of(asked.tensor);
    if (!base.is_none()) put(at(asked.tensor, g_tensors.view), g_tensors.root_of_view, uop_of(base.ptr()));  // which may have its value, too
    if (!decision.cheap.empty()) begin_at_kept(asked, decision, settled);
    return true;
  }

  // The results of a plan, in the order in which they are bound.
  static std::vector<nb::object> run(const Small& plan, const std::vector<nb::object>& inputs) {
    std::vector<void*> table;
    std::vector<nb::object> results;
    for (const Small::Input& one : plan.inputs)
      table.push_back(address_of(reinterpret_cast<BufferBase*>(one.own.is_valid() ? one.own.ptr() : inputs[one.place].ptr())->handle));
    for (const BufferLayout& layout : plan.layouts) {
      results.push_back(new_buffer(layout, true, nb::none()));
      table.push_back(address_of(reinterpret_cast<BufferBase*>(results.back().ptr())->handle));
    }
    const int64_t bytes = plan.arena;
    if (!bytes) {
      plan.program->run(table, nullptr);
      return results;
    }
    const nb::object& device = plan.layouts[0].device;
    nb::object arena = allocated(device, bytes);
    try {
      plan.program->run(table, address_of(arena.ptr()));
    } catch (...) {
      give_back(device, std::move(arena), bytes);
      throw;
    }
    give_back(device, std::move(arena), bytes);
    return results;
  }

  // Lets those of the tensors that stand for a node, and may be kept, stand for its value.
  static void settle(nb::list holders, Node* n, const nb::object& device, const nb::object& made, nb::dict settled) {
    for (nb::handle holder : holders) {
      PyObject* t = holder.ptr();
      const nb::object before = nb::borrow(uop_of(t));
      if (node_of(t) == n && may_be_kept(t, n, device.ptr()).value_or(false)) settle_one(t, before, made, true, settled);
    }
  }

  static void settle_one(PyObject* t, const nb::object& before, const nb::object& made, bool has_others, nb::dict settled) {
    auto* result = reinterpret_cast<BufferBase*>(made.ptr());
    if (has_others) remember(*nb::inst_ptr<Handle>(before), made);  // who have the node will ask for its value
    set_uop_of(t, result->uop);
    put(t, g_tensors.history, made.ptr());
    put(t, g_tensors.device, result->device);
    settled[nb::handle(result->id)] = nb::handle(t);
  }

  void begin_at_kept(const Asked& asked, const Decision& decision, nb::dict settled) const {
    for (uint32_t place : decision.cheap)
      for (nb::handle holder : holders_of(asked.order[place]))
        if (may_be_kept(holder.ptr(), asked.order[place], at(asked.tensor, g_tensors.device)).value_or(false)) read_kept(holder, settled);
  }

  std::unordered_map<std::string, std::shared_ptr<const Small>> known_;  // by the signature
  std::vector<nb::object> host_devices_;
  size_t most_nodes_ = 0;                                                     // that a known graph may have
  std::unordered_map<std::string, std::shared_ptr<const Decision>> decided_;  // by that of what is asked for, and what is named in it
};

}  // namespace

void define_eager(nb::module_& m) {
  auto cls = nb::class_<Eager>(m, "Eager", "The way of small computations without Python.");
  cls.attr("LITTLE") = kLittle;
  cls.def(nb::init<nb::object>(), nb::arg("observers"))
      .def(
          "connect",
          [](Eager&, nb::handle core, nb::handle tensor, nb::handle buffer, nb::handle point, nb::handle view) {
            connect_tensors(core, tensor, buffer, point, view);
          },
          nb::arg("core"), nb::arg("tensor"), nb::arg("buffer"), nb::arg("point"), nb::arg("view"))
      .def("keep", &Eager::keep, nb::arg("key"), nb::arg("program"), nb::arg("inputs"), nb::arg("takeable"), nb::arg("layouts"), nb::arg("outputs"),
           nb::arg("arena"), nb::arg("runs") = -1)
      .def("decide", &Eager::decide, nb::arg("tensor"), nb::arg("kept"), nb::arg("cheap"), nb::arg("default_device"))
      .def("forget_decisions", &Eager::forget_decisions)
      .def_prop_rw(
          "read_kept", [](Eager& self) { return self.read_kept; }, [](Eager& self, nb::object function) { self.read_kept = std::move(function); },
          nb::for_setter(nb::arg("function")))
      .def("forget", &Eager::forget)
      .def("realize", &Eager::realize, nb::arg("tensor"))
      .def("number", &Eager::number, nb::arg("tensor"))
      .def("compute", &Eager::compute, nb::arg("graphs"), nb::arg("nodes"), nb::arg("buffers"))
      .def_prop_rw("is_off", [](Eager&) { return is_off(); }, [](Eager&, bool off) { set_off(off); });
  m.def("gradients_enabled", [] { return t_gradients; }, "False inside `no_grad`, of this thread.");
  m.def(
      "enable_gradients", [](bool enabled) { return std::exchange(t_gradients, enabled); }, nb::arg("enabled"),
      "Whether operations of this thread on tensors with gradients are recorded; what it was before.");
  m.def("operator_of", &operator_of, nb::arg("op"), nb::arg("swapped"), nb::arg("function"), "A method for a Python operator.");
}

}  // namespace rulegrad
