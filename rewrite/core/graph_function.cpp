// A graph with parameters, which is built again and again on other nodes.
#include "graph_function.hpp"

#include <nanobind/stl/vector.h>

#include <string>
#include <unordered_map>

#include "shapes.hpp"
#include "tensors.hpp"

namespace rulegrad {

namespace {

class GraphFunction {
 public:
  // Throws GraphError where two parameters are one node.
  GraphFunction(const Handle& root, const std::vector<Handle>& parameters) : parameters_(parameters.size()) {
    std::unordered_map<Node*, uint32_t> numbers;  // of what is built anew: the parameters, then the steps
    for (const Handle& parameter : parameters) numbers.emplace(parameter.ref.n, uint32_t(numbers.size()));
    if (numbers.size() != parameters_) throw GraphError("two parameters of a graph function are one node");
    std::unordered_map<Node*, bool> seen;
    std::vector<Node*> stack{root.ref.n};
    while (!stack.empty()) {
      Node* n = stack.back();
      auto [found, is_new] = seen.emplace(n, false);
      if (numbers.count(n) || found->second) {
        stack.pop_back();
        continue;
      }
      if (is_new) {
        stack.insert(stack.end(), n->src, n->src + n->nsrc);
        continue;
      }
      stack.pop_back();
      found->second = true;
      add(n, numbers);
    }
    root_ = Ref::share(root.ref.n);
    auto last = numbers.find(root_.n);
    last_ = last == numbers.end() ? -1 : int64_t(last->second);
  }

  // Throws GraphError where there are not as many arguments as parameters.
  nb::object apply(const std::vector<Handle>& arguments) const {
    if (arguments.size() != parameters_)
      throw GraphError("a graph function of " + std::to_string(parameters_) + " parameters was given " + std::to_string(arguments.size()) + " nodes");
    std::vector<Ref> made;
    for (const Handle& argument : arguments) made.push_back(argument.ref);
    return wrap(built(std::move(made)));
  }

  size_t parameters() const { return parameters_; }

  // The graph with these in the places of the parameters, with a reference for the caller.
  Node* built(std::vector<Ref> made) const {
    made.reserve(parameters_ + steps_.size());
    std::vector<Node*> sources;
    for (const Step& step : steps_) {
      Node* n = step.node.n;
      sources.assign(n->src, n->src + n->nsrc);
      bool is_alike = true;  // what was checked of the node is so of the new one
      for (auto [place, number] : step.sources) {
        sources[place] = made[number].n;
        is_alike &= sources[place]->dtype == n->src[place]->dtype;
      }
      made.emplace_back(
          is_alike ? with_sources(n, sources.data())
                   : build_node(n->op, n->dtype, sources.data(), n->nsrc, n->attrs ? n->attrs->items : nullptr, n->attrs ? n->attrs->size : 0));
    }
    Node* root = last_ < 0 ? root_.n : made[size_t(last_)].n;
    retain(root);
    return root;
  }

 private:
  struct Step {
    Ref node;
    std::vector<std::pair<uint32_t, uint32_t>> sources;  // those that are built anew: which source, and the number of what it is
  };

  void add(Node* n, std::unordered_map<Node*, uint32_t>& numbers) {
    std::vector<std::pair<uint32_t, uint32_t>> sources;
    for (uint32_t k = 0; k < n->nsrc; k++)
      if (auto found = numbers.find(n->src[k]); found != numbers.end()) sources.emplace_back(k, found->second);
    if (sources.empty()) return;
    numbers.emplace(n, uint32_t(parameters_ + steps_.size()));
    steps_.push_back({Ref::share(n), std::move(sources)});
  }

  size_t parameters_;
  std::vector<Step> steps_;  // sources first
  Ref root_;
  int64_t last_;  // the number of the root; -1 where no parameter is below it
};

// What of the arguments of a call its graph depends on, as text, and the tensors among them.
struct ArgumentsKey {
  static constexpr Py_ssize_t kLongest = 64;  // parts of an argument: more are data
  static constexpr int kDeepest = 3;          // lists in lists
  PyTypeObject* dtype;
  std::string text;
  std::vector<PyObject*> tensors, named;  // named: objects whose addresses are in the text

  // False where Python has to look.
  bool add(PyObject* value, int depth) {
    PyTypeObject* type = Py_TYPE(value);
    if (type == g_tensors.type) return add_tensor(value);
    if (value == Py_None || value == Py_Ellipsis || type == &PyBool_Type) return put('c', value), true;
    if (type == dtype) return put('d', value), named.push_back(value), true;
    if (type == &PyLong_Type) {
      int overflow;
      const long long v = PyLong_AsLongLongAndOverflow(value, &overflow);
      return !overflow && (put('i', v), true);
    }
    if (type == &PyFloat_Type) return put('f', PyFloat_AS_DOUBLE(value)), true;  // 0.0 is another than -0.0
    if (type == &PyUnicode_Type) return add_text(value);
    if (type == &PySlice_Type) {
      auto* slice = reinterpret_cast<PySliceObject*>(value);
      text += 's';
      for (PyObject* part : {slice->start, slice->stop, slice->step})
        if ((part != Py_None && Py_TYPE(part) != &PyLong_Type) || !add(part, depth)) return false;
      return true;
    }
    const char tag = type == &PyTuple_Type ? '(' : type == &PyList_Type ? '[' : is_size(value) ? 'z' : 0;
    if (!tag || depth == kDeepest) return false;
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    if (size > kLongest) return false;
    put(tag, size);
    for (Py_ssize_t k = 0; k < size; k++)
      if (!add(PySequence_Fast_GET_ITEM(value, k), depth + 1)) return false;
    return true;
  }

  bool add_text(PyObject* value) {
    Py_ssize_t size;
    const char* characters = PyUnicode_AsUTF8AndSize(value, &size);
    if (!characters) return PyErr_Clear(), false;
    put('t', size);
    text.append(characters, size_t(size));
    return true;
  }

  template <class T>
  void put(char tag, T value) {
    text += tag;
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

 private:
  bool add_tensor(PyObject* t) {
    if (!is_current(t)) return false;
    Node* n = node_of(t);
    const Shape* shape = shape_of(n);
    text += at(t, g_tensors.tracked) == Py_True ? 'G' : 'T';
    text += char(n->dtype);
    put('r', shape->rank);
    text.append(reinterpret_cast<const char*>(shape->dims), shape->rank * sizeof *shape->dims);
    tensors.push_back(t);
    return true;
  }
};

// The graphs of a function of tensors by what of its arguments they depend on, for calls that need nothing but the graph.
class GraphTable {
 public:
  explicit GraphTable(nb::type_object dtype) : dtype_(std::move(dtype)) {}

  // The result; none where Python has to see to it.
  nb::object of(nb::tuple arguments, nb::dict more, nb::handle dtypes, int checks) const {
    ArgumentsKey key = empty();
    if (!nobody_watches() || !read(key, arguments, more, dtypes, checks)) return nb::none();
    auto found = known_.find(key.text);
    if (found == known_.end()) return nb::none();
    std::vector<Ref> nodes;
    nb::object history = nb::none();
    PyObject* device = at(key.tensors[0], g_tensors.device);
    for (PyObject* t : key.tensors) {
      nodes.push_back(Ref::share(node_of(t)));
      history = joined(history.ptr(), past_of(t));
      device = common_device(device, at(t, g_tensors.device));
      if (!device) return nb::none();
    }
    const nb::object graph = found->second.graph;  // the table may be emptied by what is freed below
    const nb::object tracked = found->second.tracked;
    Ref made(nb::inst_ptr<GraphFunction>(graph)->built(std::move(nodes)));
    shape_of(made.n);
    return new_tensor(wrap(std::exchange(made.n, nullptr)), history, device, tracked.ptr());
  }

  // From now on calls with such arguments are the graph with their tensors as parameters.
  void keep(nb::tuple arguments, nb::dict more, nb::handle dtypes, int checks, nb::object graph, bool tracked) {
    ArgumentsKey key = empty();
    if (!g_tensors.type || !read(key, arguments, more, dtypes, checks) || key.tensors.empty()) return;
    if (nb::cast<const GraphFunction&>(graph).parameters() != key.tensors.size()) return;
    if (known_.size() >= kMost) known_.clear();
    Entry entry{std::move(graph), nb::bool_(tracked), {}};
    for (PyObject* object : key.named) entry.named.push_back(nb::borrow(object));
    known_.insert_or_assign(std::move(key.text), std::move(entry));
  }

 private:
  static constexpr size_t kMost = 1000;
  struct Entry {
    nb::object graph, tracked;
    std::vector<nb::object> named;
  };

  ArgumentsKey empty() const { return {reinterpret_cast<PyTypeObject*>(dtype_.ptr()), {}, {}, {}}; }

  static bool read(ArgumentsKey& key, nb::tuple arguments, nb::dict more, nb::handle dtypes, int checks) {
    key.put(t_gradients ? 'g' : 'n', checks);
    if (!key.add(dtypes.ptr(), 0)) return false;
    for (nb::handle value : arguments)
      if (!key.add(value.ptr(), 0)) return false;
    for (auto [name, value] : more)
      if (!key.add_text(name.ptr()) || !key.add(value.ptr(), 0)) return false;
    return true;
  }

  nb::type_object dtype_;
  std::unordered_map<std::string, Entry> known_;
};

}  // namespace

void define_graph_function(nb::module_& m) {
  nb::class_<GraphFunction>(m, "GraphFunction", "A graph with parameters, which is built again on other nodes.")
      .def(nb::init<const Handle&, const std::vector<Handle>&>(), nb::arg("root"), nb::arg("parameters"))
      .def("apply", &GraphFunction::apply, nb::arg("arguments"),
           "The graph with nodes of the same shapes and dtypes in the places of the parameters.");
  nb::class_<GraphTable>(m, "GraphTable", "The graphs of a function of tensors by what of its arguments they depend on.")
      .def(nb::init<nb::type_object>(), nb::arg("dtype"))
      .def("of", &GraphTable::of, nb::arg("arguments"), nb::arg("more"), nb::arg("dtypes").none(), nb::arg("checks"),
           "The result of a call; None where Python has to see to it.")
      .def("keep", &GraphTable::keep, nb::arg("arguments"), nb::arg("more"), nb::arg("dtypes").none(), nb::arg("checks"), nb::arg("graph"),
           nb::arg("tracked"), "From now on calls with such arguments are the graph with their tensors as parameters.");
}

}  // namespace rulegrad
