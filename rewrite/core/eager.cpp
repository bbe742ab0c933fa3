#include "eager.hpp"

#include <memory>
#include <optional>
#include <unordered_map>

#include "prepared.hpp"
#include "scalars.hpp"
#include "signature.hpp"
#include "tensors.hpp"

namespace rulegrad {

namespace {

// Whether a tensor is a view whose base nobody else holds: it becomes a tensor of its own.
bool is_alone(PyObject* t) { return nobody_watches() && is_current(t) && base_of(t) != Py_None && Py_REFCNT(base_of(t)) == 1; }

// Whether a tensor's values are those of its node.
bool is_plain(PyObject* t) {
  const Tensors& g = g_tensors;
  if (!is_current(t)) return false;
  if (at(t, g.tracked) == Py_True) return at(t, g.leaf) == Py_False && at(t, g.view) == Py_None;
  return base_of(t) == Py_None || Py_REFCNT(base_of(t)) > 1;
}

constexpr size_t kMostVariants = 4;

// A plan that is known by the signature of its graphs.
struct Known {
  Known(nb::handle inputs, std::vector<uint32_t> takeable, int64_t runs) : takeable(std::move(takeable)), runs(runs) {
    for (nb::handle one : inputs) {
      if (PyLong_Check(one.ptr())) this->inputs.push_back({nb::cast<uint32_t>(one), {}});
      else if (Py_IS_TYPE(one.ptr(), g_tensors.buffer)) this->inputs.push_back({0, nb::borrow(one)});
      else throw GraphError("an input of a plan is the place of a buffer, or a buffer");
    }
    for (uint32_t k : this->takeable)
      if (k >= this->inputs.size()) throw GraphError("a plan may take the memory of its inputs only");
  }
  struct Input {
    uint32_t place;  // in the signature's buffers
    nb::object own;  // or a buffer of the plan's own
  };
  std::vector<Input> inputs;
  std::vector<uint32_t> takeable;  // inputs whose memory results may be put into
  int64_t runs;                    // until Python is asked again; negative: never
  PreparedPlans variants;
};

// The values on the way that tensors stand for, kept or not: places in the order of the nodes.
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

// The default device, as it was when decisions were kept; "" where it is not known.
nb::object* g_default = nullptr;

// Whether a tensor that stands for a node may be given its value, beside another on a device; none where Python has to look.
std::optional<bool> may_be_kept(PyObject* t, Node* n, PyObject* device) {
  const Tensors& g = g_tensors;
  if (!PyObject_TypeCheck(t, g.core) || at(t, g.gradient_of) != g.nothing) return {};
  if (at(t, g.leaf) == Py_True || at(t, g.view) != Py_None || !element_count(shape_of(n))) return false;
  PyObject* own = at(t, g.device);
  if (!PyUnicode_GET_LENGTH(own)) own = g_default->ptr();  // it is wanted there now
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
  explicit Eager(nb::object observers) {
    set_observers(std::move(observers));
    if (!g_default) g_default = new nb::object(nb::str(""));
  }

  // Graphs of this signature are computed by a prepared plan from now on.
  void keep(nb::bytes key, const nb::object& device, nb::list inputs, std::vector<uint32_t> takeable, nb::dict prepared, size_t results,
            const nb::object& default_device, int64_t runs) {
    follow_default(default_device);
    if (known_.size() >= kMostKept) known_.clear();
    most_nodes_ = std::max(most_nodes_, key.size() / kLeastOfNode);
    std::shared_ptr<Known>& plan = known_[keyed(std::string(key.c_str(), key.size()), nb::len(inputs) != 0, device)];
    const bool is_other = !plan || plan->runs >= 0 || runs >= 0 || plan->variants.size() >= kMostVariants;
    if (is_other) plan = std::make_shared<Known>(inputs, std::move(takeable), runs);
    auto variant = std::make_shared<const PreparedPlan>(prepared, plan->inputs.size(), results);
    if (variant->is_of_functions() && !is_of_host(device.ptr())) host_devices_.push_back(device);
    plan->variants.add(std::move(variant));
  }

  // When this tensor is asked for, these values on the way are results too, and these are not kept, though tensors stand for them.
  void decide(nb::handle tensor, const std::vector<Handle>& kept, const std::vector<Handle>& cheap, nb::object default_device) {
    follow_default(default_device);
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

  // The default device may be another one now: "" until it is known.
  void forget_decisions() {
    decided_.clear();
    *g_default = nb::str("");
  }

  void forget() {
    known_.clear();
    forget_decisions();
  }

  // Whether the tensor's values are in a buffer now; false where Python has to see to it.
  bool realize(nb::handle tensor) {
    if (is_alone(tensor.ptr())) prepare(tensor);
    Asked asked{tensor.ptr(), {}, {}, {}, {}, {}};
    if (!is_askable(asked.tensor)) return false;
    asked.root = Ref::share(node_of(asked.tensor));
    if (asked.root.n->op == known_ops.BUFFER) return true;
    if (!read_graph(asked, most_nodes_)) return false;
    static const auto nothing = std::make_shared<const Decision>();
    std::shared_ptr<const Decision> decision = nothing;
    if (!asked.named.empty()) {
      const auto known = decided_.find(asked.text + asked.named);
      if (known == decided_.end()) return false;
      decision = known->second;
      for (uint32_t place : decision->kept) asked.text.append(reinterpret_cast<const char*>(&place), sizeof place);  // a root, too
    }
    const std::shared_ptr<const Known> plan = find(keyed(asked.text, !asked.ids.empty(), nb::borrow(at(tensor.ptr(), g_tensors.device))));
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
    const std::shared_ptr<const Known> plan = ids.empty() ? nullptr : find(text);
    const auto inputs = plan ? inputs_of(*plan, ids) : std::nullopt;
    const auto variant = inputs ? plan->variants.taking({}) : nullptr;
    if (!variant) return nb::none();
    nb::list results;
    for (const nb::object& result : variant->launch(*inputs, {}, [&graphs] { return nb::cast(graphs); })) results.append(result);
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

  nb::object prepare;    // Python's: makes a view ready for its computation
  nb::object read_kept;  // Python's: lets the graph of a tensor begin at buffers with values in it

 private:
  // The plan of graphs with this signature, if the engine is to compute them this time. It may be forgotten while the device is asked for memory.
  std::shared_ptr<const Known> find(const std::string& key) {
    const auto found = known_.find(key);
    if (found == known_.end()) return {};
    const std::shared_ptr<Known> plan = found->second;
    if (plan->runs < 0 || --plan->runs >= 0) return plan;
    known_.erase(found);
    return {};
  }

  void follow_default(const nb::object& device) {
    if (g_default->equal(device)) return;
    forget_decisions();
    *g_default = device;
  }

  // Graphs that read no buffer are of a device all the same.
  static std::string keyed(std::string text, bool has_inputs, nb::object device) {
    if (has_inputs) return text;
    if (!PyUnicode_GET_LENGTH(device.ptr())) device = *g_default;
    return text += text_of(device, "a device");
  }

  // The plan's inputs; none where one of the buffers with these ids has no memory yet, or indices that are to be checked.
  static std::optional<std::vector<nb::object>> inputs_of(const Known& plan, const std::vector<int64_t>& ids) {
    std::vector<nb::object> found;
    for (const Known::Input& one : plan.inputs) {
      BufferBase* s = one.own.is_valid() ? reinterpret_cast<BufferBase*>(one.own.ptr()) : live_buffer(ids[one.place]);
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

  bool launch(const Known& plan, const Asked& asked, const Decision& decision) {
    const auto inputs = inputs_of(plan, asked.ids);
    if (!inputs) return false;
    const nb::object device = nb::borrow(at(asked.tensor, g_tensors.device));
    std::vector<nb::list> kept;
    std::vector<nb::object> tensors;
    if (at(asked.tensor, g_tensors.tracked) == Py_False) tensors.push_back(nb::borrow(asked.tensor));  // others keep what gradients need
    for (uint32_t place : decision.kept) add_kept(tensors, kept.emplace_back(holders_of(asked.order[place])), asked.order[place], device);
    if (asked.others) add_kept(tensors, holders_of(asked.root.n), asked.root.n, device);
    const nb::object before = nb::borrow(uop_of(asked.tensor));
    // of the node the caller's and the UOp's, of the UOp the tensor's and ours
    const bool has_others = asked.root.n->refs.load(std::memory_order_relaxed) > 2 || Py_REFCNT(before.ptr()) > 2;
    const bool lets_go = may_take(plan, *inputs, asked, tensors.size());
    if (lets_go)
      for (const nb::object& t : tensors) put(t.ptr(), g_tensors.history, Py_None);
    const auto variant = plan.variants.taking(lets_go ? free_inputs(plan, *inputs) : std::vector<uint32_t>());
    if (!variant) {
      if (lets_go) take_back(tensors, *inputs);
      return false;
    }
    std::vector<nb::object> results;
    try {
      results = variant->launch(*inputs, {}, [&] { return graphs_of(asked, decision); });
    } catch (...) {
      if (lets_go) take_back(tensors, *inputs);
      throw;
    }
    if (uop_of(asked.tensor) != before.ptr()) return true;  // another thread was faster
    nb::dict settled;
    for (size_t k = 0; k < kept.size(); k++) settle(kept[k], asked.order[decision.kept[k]], device, results[k + 1], settled);
    if (asked.others) settle(holders_of(asked.root.n), asked.root.n, device, results[0], settled);
    if (uop_of(asked.tensor) == before.ptr()) settle_one(asked.tensor, before, results[0], has_others, settled);
    const nb::handle base = base_of(asked.tensor);
    if (!base.is_none()) put(at(asked.tensor, g_tensors.view), g_tensors.root_of_view, uop_of(base.ptr()));  // which may have its value, too
    if (!decision.cheap.empty()) begin_at_kept(asked, decision, settled);
    return true;
  }

  // The tensors that stand for a node, and will stand for its value.
  static void add_kept(std::vector<nb::object>& tensors, nb::list holders, Node* n, const nb::object& device) {
    for (nb::handle holder : holders)
      if (may_be_kept(holder.ptr(), n, device.ptr()).value_or(false)) tensors.push_back(nb::borrow(holder));
  }

  // Whether the memory of an input may be needed by nobody else than the histories of so many tensors, and the list here. The base of a view
  // keeps what the view reads.
  static bool may_take(const Known& plan, const std::vector<nb::object>& inputs, const Asked& asked, size_t tensors) {
    return base_of(asked.tensor) == Py_None &&
           std::any_of(plan.takeable.begin(), plan.takeable.end(), [&](uint32_t k) { return size_t(Py_REFCNT(inputs[k].ptr())) <= 1 + tensors; });
  }

  // Of the inputs whose memory results may be put into, those that only the list has, and whose memory is their own.
  static std::vector<uint32_t> free_inputs(const Known& plan, const std::vector<nb::object>& inputs) {
    std::vector<uint32_t> found;
    for (uint32_t k : plan.takeable) {
      auto* b = reinterpret_cast<BufferBase*>(inputs[k].ptr());
      if (Py_REFCNT(inputs[k].ptr()) == 1 && b->borrowed == Py_False && b->owner == Py_None) found.push_back(k);
    }
    return found;
  }

  // The tensors were not computed, and need these buffers, as far as these have contents.
  static void take_back(const std::vector<nb::object>& tensors, const std::vector<nb::object>& inputs) {
    nb::list found;
    for (const nb::object& input : inputs)
      if (has_values(reinterpret_cast<BufferBase*>(input.ptr()))) found.append(input);
    for (const nb::object& t : tensors) put(t.ptr(), g_tensors.history, nb::tuple(found).ptr());
  }

  // The graphs that were computed, for a message.
  static nb::object graphs_of(const Asked& asked, const Decision& decision) {
    nb::list found;
    found.append(nb::cast(Handle(Ref::share(asked.root.n))));
    for (uint32_t place : decision.kept) found.append(nb::cast(Handle(Ref::share(asked.order[place]))));
    return found;
  }

  // Lets those of the tensors that stand for a node, and may be kept, stand for its value.
  static void settle(nb::list holders, Node* n, const nb::object& device, const nb::object& made, nb::dict settled) {
    for (nb::handle holder : holders) {
      PyObject* t = holder.ptr();
      const nb::object before = nb::borrow(uop_of(t));
      if (node_of(t) == n && may_be_kept(t, n, device.ptr()).value_or(false)) settle_one(t, before, made, true, settled);
    }
  }

  // From where the gradient of a tensor goes on to what it was computed from.
  static nb::object point_of(PyObject* t, const nb::object& before, const BufferBase& result, const nb::object& made) {
    PyObject* arguments[] = {result.uop, made.ptr(), Py_None, before.ptr(), past_of(t)};
    nb::object point = nb::steal(PyObject_Vectorcall(reinterpret_cast<PyObject*>(g_tensors.point), arguments, 5, nullptr));
    if (!point.is_valid()) throw nb::python_error();
    return point;
  }

  static void settle_one(PyObject* t, const nb::object& before, const nb::object& made, bool has_others, nb::dict settled) {
    auto* result = reinterpret_cast<BufferBase*>(made.ptr());
    if (has_others) remember(*nb::inst_ptr<Handle>(before), made);  // who have the node will ask for its value
    const nb::object history = at(t, g_tensors.tracked) == Py_True ? point_of(t, before, *result, made) : made;
    set_uop_of(t, result->uop);
    put(t, g_tensors.history, history.ptr());
    put(t, g_tensors.device, result->device);
    settled[nb::handle(result->id)] = nb::handle(t);
  }

  void begin_at_kept(const Asked& asked, const Decision& decision, nb::dict settled) const {
    for (uint32_t place : decision.cheap)
      for (nb::handle holder : holders_of(asked.order[place]))
        if (may_be_kept(holder.ptr(), asked.order[place], at(asked.tensor, g_tensors.device)).value_or(false)) read_kept(holder, settled);
  }

  std::unordered_map<std::string, std::shared_ptr<Known>> known_;  // by the signature
  std::vector<nb::object> host_devices_;
  size_t most_nodes_ = 0;                                                     // that a known graph may have
  std::unordered_map<std::string, std::shared_ptr<const Decision>> decided_;  // by that of what is asked for, and what is named in it
};

}  // namespace

void define_eager(nb::module_& m) {
  auto cls = nb::class_<Eager>(m, "Eager", "The way of eager computations without Python.");
  cls.def(nb::init<nb::object>(), nb::arg("observers"))
      .def(
          "connect",
          [](Eager&, nb::handle core, nb::handle tensor, nb::handle buffer, nb::handle point, nb::handle view) {
            connect_tensors(core, tensor, buffer, point, view);
          },
          nb::arg("core"), nb::arg("tensor"), nb::arg("buffer"), nb::arg("point"), nb::arg("view"))
      .def("keep", &Eager::keep, nb::arg("key"), nb::arg("device"), nb::arg("inputs"), nb::arg("takeable"), nb::arg("prepared"), nb::arg("results"),
           nb::arg("default_device"), nb::arg("runs") = -1)
      .def("decide", &Eager::decide, nb::arg("tensor"), nb::arg("kept"), nb::arg("cheap"), nb::arg("default_device"))
      .def("forget_decisions", &Eager::forget_decisions)
      .def_prop_rw(
          "prepare", [](Eager& self) { return self.prepare; }, [](Eager& self, nb::object function) { self.prepare = std::move(function); },
          nb::for_setter(nb::arg("function")))
      .def_prop_rw(
          "read_kept", [](Eager& self) { return self.read_kept; }, [](Eager& self, nb::object function) { self.read_kept = std::move(function); },
          nb::for_setter(nb::arg("function")))
      .def("forget", &Eager::forget)
      .def("realize", &Eager::realize, nb::arg("tensor"))
      .def("number", &Eager::number, nb::arg("tensor"))
      .def("compute", &Eager::compute, nb::arg("graphs"), nb::arg("nodes"), nb::arg("buffers"))
      .def_prop_rw("is_off", [](Eager&) { return is_off(); }, [](Eager&, bool off) { set_off(off); });
}

}  // namespace rulegrad
