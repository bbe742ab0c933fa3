#include "captured.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "prepared.hpp"
#include "signature.hpp"
#include "tensors.hpp"

namespace rulegrad {

namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
constexpr uint32_t kNone = ~0u;
constexpr size_t kMostVariants = 8;

template <class T>
std::vector<T> listed(nb::handle items) {
  std::vector<T> found;
  for (nb::handle item : items) found.push_back(nb::cast<T>(item));
  return found;
}

uint32_t number_or_none(nb::handle item) { return item.is_none() ? kNone : nb::cast<uint32_t>(item); }

// An input of the plan: Python's Source. Tensors and gradients are numbers of tensors, the arguments first.
struct Input {
  enum Kind { Tensor, Gradient, Call, Constant } kind;
  uint32_t which = 0, item = 0;  // item: of the tensors of a call
  nb::object constant;
};

struct State {
  uint32_t tensor;  // its number
  uint32_t output;
};

class CapturedCall {
 public:
  explicit CapturedCall(nb::dict parts)
      : arguments_(nb::cast<size_t>(parts["arguments"])),
        outside_(listed<nb::object>(parts["outside"])),
        takeable_(listed<uint32_t>(parts["takeable"])),
        outputs_(listed<uint32_t>(parts["outputs"])),
        new_(listed<uint32_t>(parts["new"])),
        tracked_(listed<uint32_t>(parts["tracked"])),
        paths_(parts["paths"]),
        module_(nb::cast<nb::dict>(parts["module"])),
        generation_(parts["generation"]),
        rebuild_(parts["rebuild"]),
        write_leaf_(parts["write_leaf"]),
        end_gradients_(parts["end_gradients"]) {
    for (nb::handle source : parts["inputs"]) {
      const auto kind = Input::Kind(nb::cast<int>(source[0]));
      Input one{kind, 0, 0, {}};
      if (kind == Input::Constant) {
        one.constant = source[1];
      } else {
        one.which = nb::cast<uint32_t>(source[1]), one.item = nb::cast<uint32_t>(source[2]);
      }
      inputs_.push_back(std::move(one));
    }
    for (nb::handle node : parts["nodes"]) nodes_.push_back(nb::borrow(node));
    for (nb::handle flag : parts["flags"])
      flags_.push_back({nb::cast<uint32_t>(flag[0]), nb::cast<bool>(flag[1]), nb::cast<bool>(flag[2]), nb::object(flag[3])});
    for (nb::handle gradient : parts["gradients"]) gradients_.push_back({nb::cast<uint32_t>(gradient[0]), nb::object(gradient[1])});
    for (nb::handle value : parts["values"]) values_.push_back({nb::object(value[0]), nb::object(value[1]), nb::object(value[2])});
    for (nb::handle same : parts["same"]) same_.emplace_back(nb::cast<uint32_t>(same[0]), nb::object(same[1]));
    for (nb::handle write : parts["writes"]) writes_.push_back({nb::cast<uint32_t>(write[0]), nb::cast<uint32_t>(write[1])});
    for (nb::handle write : parts["gradient_writes"]) gradient_writes_.push_back({nb::cast<uint32_t>(write[0]), number_or_none(write[1])});
    for (nb::handle recipe : parts["recipes"]) recipes_.emplace_back(nb::cast<bool>(recipe[0]), nb::cast<uint32_t>(recipe[1]));
    check();
  }

  // From now on a replay may take the memory of these inputs. prepared: a dict of PreparedPlan's parts.
  void learn(nb::dict prepared) {
    auto plan = std::make_shared<const PreparedPlan>(prepared, inputs_.size(), outputs_.size());
    if (variants_.size() < kMostVariants) variants_.add(std::move(plan));
  }

  // Whether a replay for these arguments is the call; false also where Python has to look.
  bool holds(nb::list arguments, nb::tuple roots) const {
    const Tensors& g = g_tensors;
    if (!nobody_watches() || PyDict_GetItemString(module_.ptr(), "generation") != generation_.ptr()) return false;
    if (!nb::cast<bool>(paths_.attr("holds")(roots))) return false;
    std::vector<PyObject*> tensors;
    if (!found(arguments, tensors)) return false;
    for (const Flag& flag : flags_) {
      PyObject* t = tensors[flag.tensor];
      if (at(t, g.tracked) != boolean(flag.tracked) || at(t, g.leaf) != boolean(flag.leaf)) return false;
      if (at(t, g.device) != flag.device.ptr() && PyUnicode_Compare(at(t, g.device), flag.device.ptr()) != 0) return false;
    }
    for (auto& [number, kind] : gradients_) {
      PyObject* gradient = at(tensors[number], g.grad);
      if (gradient == Py_None || kind.is_none()) {
        if (gradient != kind.ptr()) return false;
      } else if (!is_of(gradient, kind)) {
        return false;
      }
    }
    for (size_t k = 0; k < inputs_.size(); k++)
      if (!lies_as_before(inputs_[k], nodes_[k], tensors)) return false;
    for (const Value& value : values_)
      if (!is_as_before(value)) return false;
    for (auto& [number, reference] : same_)
      if (PyWeakref_GetObject(reference.ptr()) != tensors[number]) return false;
    return true;
  }

  // The result of the function, once it has done to tensors what it does; NotImplemented, with nothing done, for what Python has to do.
  // called: what its `each_call`s made, a list of tensors for each.
  nb::object replay(nb::list arguments, nb::handle called) const {
    const nb::object not_now = nb::borrow(Py_NotImplemented);
    std::vector<PyObject*> tensors;
    if (!found(arguments, tensors)) return not_now;
    std::vector<nb::object> held;
    for (PyObject* t : tensors) held.push_back(nb::borrow(t));
    std::vector<nb::object> inputs(inputs_.size());
    for (size_t k = 0; k < inputs_.size(); k++) {
      BufferBase* b = bound(inputs_[k], tensors, called);
      if (!b || !b->handle || b->handle == Py_None || PyTuple_GET_SIZE(b->checks)) return not_now;
      inputs[k] = nb::borrow(reinterpret_cast<PyObject*>(b));
    }
    const std::shared_ptr<const PreparedPlan> variant = fitting(tensors, inputs);
    if (!variant) return not_now;
    const std::vector<bool> stays = staying(*variant, tensors, inputs);
    std::vector<bool> stays_at(outputs_.size());  // by the place of the result
    for (size_t k = 0; k < outputs_.size(); k++) stays_at[k] = stays[outputs_[k]];
    std::vector<nb::object> results = variant->launch(inputs, stays_at, [] { return nb::none(); });
    std::vector<nb::object> made(outputs_.size());
    for (size_t k = 0; k < outputs_.size(); k++) made[outputs_[k]] = std::move(results[k]);
    return settled(tensors, made, stays);
  }

 private:
  struct Flag {
    uint32_t tensor;
    bool tracked, leaf;
    nb::object device;
  };
  struct Value {
    nb::object owner, name, value;  // owner: a weak reference
  };

  static PyObject* boolean(bool value) { return value ? Py_True : Py_False; }

  void check() const {
    const size_t count = arguments_ + outside_.size();
    const auto is_tensor = [count](uint32_t k) { return k < count; };
    const auto is_output = [this](uint32_t k) { return k < outputs_.size(); };
    const auto is_new = [this](uint32_t k) { return std::find(new_.begin(), new_.end(), k) != new_.end(); };
    bool is_sound = std::all_of(tracked_.begin(), tracked_.end(), is_new) && std::all_of(outputs_.begin(), outputs_.end(), is_output) &&
                    std::all_of(new_.begin(), new_.end(), is_output) &&
                    std::all_of(takeable_.begin(), takeable_.end(), [this](uint32_t k) { return k < inputs_.size(); });
    is_sound &= nodes_.size() == inputs_.size();
    for (const Input& one : inputs_) is_sound &= one.kind == Input::Constant || one.kind == Input::Call || is_tensor(one.which);
    for (const Flag& one : flags_) is_sound &= is_tensor(one.tensor);
    for (auto& [number, kind] : gradients_) is_sound &= is_tensor(number);
    for (auto& [number, reference] : same_) is_sound &= number < arguments_ && PyWeakref_CheckRef(reference.ptr());
    for (const State& one : writes_) is_sound &= is_tensor(one.tensor) && is_output(one.output);
    for (const State& one : gradient_writes_) is_sound &= is_tensor(one.tensor) && (one.output == kNone || is_output(one.output));
    for (auto& [is_made, number] : recipes_) is_sound &= is_made ? is_output(number) : is_tensor(number);
    if (!is_sound) throw nb::value_error("the parts of a captured call do not fit each other");
  }

  // The tensors by number, borrowed; whether all are there and can be looked into.
  bool found(nb::list arguments, std::vector<PyObject*>& tensors) const {
    if (nb::len(arguments) != arguments_) return false;
    tensors.reserve(arguments_ + outside_.size());
    for (nb::handle t : arguments) tensors.push_back(t.ptr());
    for (const nb::object& reference : outside_) tensors.push_back(PyWeakref_GetObject(reference.ptr()));
    for (PyObject* t : tensors)
      if (!Py_IS_TYPE(t, g_tensors.type)) return false;
    for (size_t k = 0; k < arguments_; k++)
      if (!buffer_of(tensors[k])) return false;  // a view, or not computed yet
    return true;
  }

  // Whether a tensor is in a buffer of this kind: shape, dtype and device.
  static bool is_of(PyObject* tensor, nb::handle kind) {
    BufferBase* b = Py_IS_TYPE(tensor, g_tensors.type) ? buffer_of(tensor) : nullptr;
    if (!b) return false;
    const nb::object dtype = nb::str(nb::handle(b->dtype));
    return PyObject_RichCompareBool(b->shape, PyTuple_GET_ITEM(kind.ptr(), 0), Py_EQ) == 1 &&
           PyUnicode_Compare(dtype.ptr(), PyTuple_GET_ITEM(kind.ptr(), 1)) == 0 && PyUnicode_Compare(b->device, PyTuple_GET_ITEM(kind.ptr(), 2)) == 0;
  }

  // Whether what is read lies on the devices of a mesh as the plan has it; false also where it has to be computed first.
  static bool lies_as_before(const Input& input, const nb::object& node, const std::vector<PyObject*>& tensors) {
    if (input.kind == Input::Call || input.kind == Input::Constant) return true;
    const BufferBase* b = bound(input, tensors, nb::handle());
    const Node* planned = nb::inst_ptr<Handle>(node)->ref.n;
    if (!b || b->uop == Py_None) return b && !is_in_parts(planned);
    return lie_alike(nb::inst_ptr<Handle>(b->uop)->ref.n, planned);
  }

  static bool is_as_before(const Value& value) {
    nb::object now = nb::steal(PyObject_GetAttr(PyWeakref_GetObject(value.owner.ptr()), value.name.ptr()));
    const int same = now.is_valid() ? PyObject_RichCompareBool(now.ptr(), value.value.ptr(), Py_EQ) : -1;
    if (same < 0) PyErr_Clear();
    return same == 1;
  }

  static BufferBase* bound(const Input& input, const std::vector<PyObject*>& tensors, nb::handle called) {
    PyObject* t = nullptr;
    switch (input.kind) {
      case Input::Constant: return reinterpret_cast<BufferBase*>(input.constant.ptr());
      case Input::Tensor: t = tensors[input.which]; break;
      case Input::Gradient: t = at(tensors[input.which], g_tensors.grad); break;
      case Input::Call: {
        const nb::object made = called[input.which];
        t = nb::object(made[input.item]).ptr();  // the list keeps it
        break;
      }
    }
    return Py_IS_TYPE(t, g_tensors.type) ? buffer_of(t) : nullptr;
  }

  // Whether the memory is this input's alone: nobody else has the buffer, and the tensor is given other values anyway.
  bool is_free(const Input& input, const std::vector<PyObject*>& tensors, const nb::object& buffer) const {
    const Tensors& g = g_tensors;
    auto* b = reinterpret_cast<BufferBase*>(buffer.ptr());
    if (b->borrowed != Py_False || b->owner != Py_None || Py_REFCNT(buffer.ptr()) != 2) return false;  // the history and the list
    PyObject* t = tensors[input.which];
    if (input.kind == Input::Gradient) {
      t = at(t, g.grad);
      if (Py_REFCNT(t) != 1) return false;  // another tensor is the gradient afterwards: this one may be somebody's
    } else if (at(t, g.leaf) != Py_True && at(t, g.tracked) == Py_True) {
      return false;
    }
    PyObject* history = at(t, g.history);
    return Py_IS_TYPE(history, g.buffer) || Py_REFCNT(history) == 1;
  }

  std::shared_ptr<const PreparedPlan> fitting(const std::vector<PyObject*>& tensors, const std::vector<nb::object>& inputs) const {
    std::vector<uint32_t> taken;
    for (uint32_t k : takeable_)
      if (is_free(inputs_[k], tensors, inputs[k])) taken.push_back(k);
    return variants_.taking(taken);
  }

  // Of each output whether it is a new value of a tensor in the memory of the old one, and nobody else knows that buffer: it stays.
  std::vector<bool> staying(const PreparedPlan& variant, const std::vector<PyObject*>& tensors, const std::vector<nb::object>& inputs) const {
    std::vector<bool> found(outputs_.size());
    for (const State& write : writes_) {
      const auto place = size_t(std::find(outputs_.begin(), outputs_.end(), write.output) - outputs_.begin());
      const PreparedPlan::Result& result = variant.result(place);
      if (!result.layout) continue;
      const uint32_t old = variant.taken_for(result);
      if (inputs_[old].kind == Input::Tensor && inputs_[old].which == write.tensor)
        found[write.output] = is_unnamed(tensors[write.tensor], inputs[old]);
    }
    return found;
  }

  // Whether no graph has the node of a tensor's buffer: one that did would read the new values.
  static bool is_unnamed(PyObject* t, const nb::object& buffer) {
    PyObject* node = reinterpret_cast<BufferBase*>(buffer.ptr())->uop;
    // The buffer and the tensor have it; of a leaf its point too, and the table of points twice.
    const Py_ssize_t own = Py_IS_TYPE(at(t, g_tensors.history), g_tensors.point) ? 5 : 2;
    return Py_REFCNT(node) == own && nb::inst_ptr<Handle>(node)->ref.n->refs.load(std::memory_order_relaxed) == 1;
  }

  static void count_change(PyObject* t) {
    const nb::object changes = nb::steal(PyNumber_Add(at(t, g_tensors.changes), nb::int_(1).ptr()));
    put(t, g_tensors.changes, changes.ptr());
  }

  nb::object settled(const std::vector<PyObject*>& tensors, const std::vector<nb::object>& made, const std::vector<bool>& stays) const {
    const Tensors& g = g_tensors;
    for (const State& write : writes_) {
      PyObject* t = tensors[write.tensor];
      if (stays[write.output]) {
        count_change(t);
        put(t, g.gradient_of, g.nothing);
        continue;
      }
      auto* b = reinterpret_cast<BufferBase*>(made[write.output].ptr());
      if (at(t, g.leaf) == Py_True) {
        write_leaf_(nb::handle(t), made[write.output]);
        continue;
      }
      count_change(t);
      put(t, g.gradient_of, g.nothing);
      put(t, g.device, b->device);
      set_uop_of(t, b->uop);
      put(t, g.history, made[write.output].ptr());
      put(t, g.tracked, Py_False);
    }
    std::vector<nb::object> new_ones(made.size());
    for (uint32_t k : new_) {
      auto* b = reinterpret_cast<BufferBase*>(made[k].ptr());
      new_ones[k] = new_tensor(b->uop, made[k], b->device);
    }
    for (uint32_t k : tracked_) end_gradients_(new_ones[k], made[k]);
    for (const State& write : gradient_writes_) put(tensors[write.tensor], g.grad, write.output == kNone ? Py_None : new_ones[write.output].ptr());
    nb::list leaves;
    for (auto& [is_made, number] : recipes_) leaves.append(is_made ? new_ones[number] : nb::borrow(tensors[number]));
    return nb::object(rebuild_(leaves)[0]);
  }

  size_t arguments_;
  std::vector<nb::object> outside_;  // weak references
  std::vector<Input> inputs_;
  std::vector<nb::object> nodes_;   // what stands for the inputs in the graphs
  std::vector<uint32_t> takeable_;  // inputs whose memory results may be put into
  std::vector<uint32_t> outputs_;   // the numbers of the plan's results
  std::vector<uint32_t> new_;       // results that become tensors
  std::vector<uint32_t> tracked_;   // of these, those that require a gradient, which does not go on
  std::vector<State> writes_, gradient_writes_;
  std::vector<std::pair<bool, uint32_t>> recipes_;  // of the result: an output, or a tensor from outside
  std::vector<Flag> flags_;
  std::vector<std::pair<uint32_t, nb::object>> gradients_, same_;
  std::vector<Value> values_;
  nb::object paths_;
  nb::dict module_;  // where the generation of kernels is
  nb::object generation_, rebuild_, write_leaf_, end_gradients_;
  PreparedPlans variants_;
};

}  // namespace

void define_captured(nb::module_& m) {
  nb::class_<CapturedCall>(m, "CapturedCall", "A captured function's replay, as far as it needs no Python.")
      .def(nb::init<nb::dict>(), nb::arg("parts"))
      .def("learn", &CapturedCall::learn, nb::arg("prepared"))
      .def("holds", &CapturedCall::holds, nb::arg("arguments"), nb::arg("roots"))
      .def("replay", &CapturedCall::replay, nb::arg("arguments"), nb::arg("called"));
}

}  // namespace rulegrad
