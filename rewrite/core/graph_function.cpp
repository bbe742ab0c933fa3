// A graph with parameters, which is built again and again on other nodes.
#include "graph_function.hpp"

#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "shapes.hpp"
#include "signature.hpp"
#include "tensors.hpp"

namespace rulegrad {

namespace {

class GraphFunction {
 public:
  // Throws GraphError where two parameters are one node.
  GraphFunction(const std::vector<Handle>& roots, const std::vector<Handle>& parameters) : parameters_(parameters.size()) {
    std::unordered_map<Node*, uint32_t> numbers;  // of what is built anew: the parameters, then the steps
    for (const Handle& parameter : parameters) numbers.emplace(parameter.ref.n, uint32_t(numbers.size()));
    if (numbers.size() != parameters_) throw GraphError("two parameters of a graph function are one node");
    std::unordered_map<Node*, bool> seen;
    std::vector<Node*> stack;
    for (const Handle& root : roots) stack.push_back(root.ref.n);
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
    for (const Handle& root : roots) {
      const auto last = numbers.find(root.ref.n);
      roots_.push_back({root.ref, last == numbers.end() ? -1 : int64_t(last->second)});
    }
  }

  // Throws GraphError where there are not as many arguments as parameters.
  nb::list apply(const std::vector<Handle>& arguments) const {
    if (arguments.size() != parameters_)
      throw GraphError("a graph function of " + std::to_string(parameters_) + " parameters was given " + std::to_string(arguments.size()) + " nodes");
    std::vector<Ref> made;
    for (const Handle& argument : arguments) made.push_back(argument.ref);
    nb::list found;
    for (Ref& root : built(std::move(made))) found.append(wrap(std::exchange(root.n, nullptr)));
    return found;
  }

  size_t parameters() const { return parameters_; }
  size_t roots() const { return roots_.size(); }

  // The graphs with these in the places of the parameters.
  std::vector<Ref> built(std::vector<Ref> made) const {
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
    std::vector<Ref> roots;
    for (const Root& root : roots_) roots.push_back(root.number < 0 ? root.node : made[size_t(root.number)]);
    return roots;
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
  struct Root {
    Ref node;
    int64_t number;  // of what is built anew; -1 where no parameter is below it
  };
  std::vector<Root> roots_;
};

// The arguments of a call as text, as far as its graph depends on them, and the tensors among them.
struct ArgumentsKey {
  static constexpr Py_ssize_t kLongest = 64;             // parts of an argument: more are data
  static constexpr Py_ssize_t kLongestOfTensors = 1024;  // of a list that begins with a tensor, as what is stacked
  static constexpr int kDeepest = 3;                     // lists in lists
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
    const bool is_of_tensors = size > 0 && Py_TYPE(PySequence_Fast_GET_ITEM(value, 0)) == g_tensors.type;
    if (size > (is_of_tensors ? kLongestOfTensors : kLongest)) return false;
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
    const std::shared_ptr<const Entry> entry = found->second;  // the table may be emptied by what is freed below
    std::vector<Ref> made = nb::inst_ptr<GraphFunction>(entry->graphs)->built(std::move(nodes));
    nb::list results;
    for (size_t k = 0; k < made.size(); k++) {
      shape_of(made[k].n);
      results.append(new_tensor(wrap(std::exchange(made[k].n, nullptr)), history, device, entry->tracked[k] ? Py_True : Py_False));
    }
    return entry->is_tuple ? nb::object(nb::tuple(results)) : nb::object(results[0]);
  }

  // From now on calls with such arguments are the graphs with their tensors as parameters, a tuple of them or one.
  void keep(nb::tuple arguments, nb::dict more, nb::handle dtypes, int checks, nb::object graphs, std::vector<bool> tracked, bool is_tuple) {
    ArgumentsKey key = empty();
    if (!g_tensors.type || !read(key, arguments, more, dtypes, checks) || key.tensors.empty()) return;
    const auto& function = nb::cast<const GraphFunction&>(graphs);
    if (function.parameters() != key.tensors.size()) return;
    if (function.roots() != tracked.size() || (!is_tuple && tracked.size() != 1)) throw GraphError("as many results as graphs");
    const size_t counted = std::max(size_t(ArgumentsKey::kLongest), key.tensors.size());
    if ((tensors_ += counted) > kMostTensors) known_.clear(), tensors_ = counted;
    auto entry = std::make_shared<Entry>(Entry{std::move(graphs), std::move(tracked), is_tuple, {}});
    for (PyObject* object : key.named) entry->named.push_back(nb::borrow(object));
    known_.insert_or_assign(std::move(key.text), std::move(entry));
  }

 private:
  static constexpr size_t kMostTensors = 64'000;  // of all kinds of arguments, each of which counts as 64 at least
  struct Entry {
    nb::object graphs;
    std::vector<bool> tracked;  // whether a gradient flows through each result
    bool is_tuple;
    std::vector<nb::object> named;
  };

  ArgumentsKey empty() const { return {reinterpret_cast<PyTypeObject*>(dtype_.ptr()), {}, {}, {}}; }

  static bool read(ArgumentsKey& key, nb::tuple arguments, nb::dict more, nb::handle dtypes, int checks) {
    key.put(t_gradients ? 'g' : 'n', checks);
    if (!key.add(dtypes.ptr(), 0)) return false;
    key.put('p', arguments.size());
    for (nb::handle value : arguments)
      if (!key.add(value.ptr(), 0)) return false;
    for (auto [name, value] : more)
      if (!key.add_text(name.ptr()) || !key.add(value.ptr(), 0)) return false;
    return true;
  }

  nb::type_object dtype_;
  std::unordered_map<std::string, std::shared_ptr<const Entry>> known_;
  size_t tensors_ = 0;  // of all that is known
};

// The results of a function of tensors without gradients, by the shapes and dtypes of these.
class ResultsTable {
 public:
  // The results; none where Python has to see to it.
  nb::object of(nb::list tensors) const {
    std::string key;
    if (!nobody_watches() || !read(key, tensors)) return nb::none();
    const auto found = known_.find(key);
    if (found == known_.end()) return nb::none();
    const std::shared_ptr<const Entry> entry = found->second;
    std::vector<Ref> nodes;
    for (nb::handle t : tensors) nodes.push_back(Ref::share(node_of(t.ptr())));
    std::vector<Ref> built = entry->graphs.built(std::move(nodes));
    nb::list results;
    for (size_t k = 0; k < entry->reads.size(); k++) {
      const auto& reads = entry->reads[k];
      nb::object one = reads ? result(std::move(built[k]), *reads, tensors) : nb::borrow(tensors[k]);
      if (!one.is_valid()) return nb::none();
      results.append(one);
    }
    return results;
  }

  // From now on the results for such tensors are the graphs, of which each reads some of them; or the tensor of its place where it is None.
  void keep(nb::list tensors, const std::vector<Handle>& graphs, const std::vector<Handle>& parameters, nb::list reads) {
    std::string key;
    if (!g_tensors.type || !read(key, tensors)) return;
    if (known_.size() >= kMost) known_.clear();
    auto entry = std::make_shared<Entry>(Entry{GraphFunction(graphs, parameters), {}});
    for (nb::handle one : reads) {
      entry->reads.emplace_back();
      if (!one.is_none()) entry->reads.back() = nb::cast<std::vector<uint32_t>>(one);
    }
    if (entry->reads.size() != graphs.size()) throw GraphError("as many graphs as lists of what they read");
    known_.insert_or_assign(std::move(key), std::move(entry));
  }

 private:
  static constexpr size_t kMost = 1000;
  struct Entry {
    GraphFunction graphs;
    std::vector<std::optional<std::vector<uint32_t>>> reads;
  };

  static bool read(std::string& key, nb::list tensors) {
    for (nb::handle t : tensors) {
      if (!is_current(t.ptr()) || is_in_parts(node_of(t.ptr()))) return false;
      const Node* n = node_of(t.ptr());
      const Shape* shape = shape_of(node_of(t.ptr()));
      key += char(n->dtype);
      key.append(reinterpret_cast<const char*>(&shape->rank), sizeof shape->rank);
      key.append(reinterpret_cast<const char*>(shape->dims), shape->rank * sizeof *shape->dims);
    }
    return true;
  }

  // Null where the tensors are on several devices.
  static nb::object result(Ref node, const std::vector<uint32_t>& reads, nb::list tensors) {
    nb::object history = nb::none();
    PyObject* device = g_tensors.no_text;
    for (uint32_t place : reads) {
      PyObject* t = nb::object(tensors[place]).ptr();
      history = joined(history.ptr(), past_of(t));
      device = common_device(device, at(t, g_tensors.device));
      if (!device) return {};
    }
    shape_of(node.n);
    return new_tensor(wrap(std::exchange(node.n, nullptr)), history, device);
  }

  std::unordered_map<std::string, std::shared_ptr<const Entry>> known_;
};

}  // namespace

void define_graph_function(nb::module_& m) {
  nb::class_<GraphFunction>(m, "GraphFunction", "Graphs with parameters, which are built again on other nodes.")
      .def(nb::init<const std::vector<Handle>&, const std::vector<Handle>&>(), nb::arg("roots"), nb::arg("parameters"))
      .def("apply", &GraphFunction::apply, nb::arg("arguments"),
           "The graphs with nodes of the same shapes and dtypes in the places of the parameters.");
  nb::class_<ResultsTable>(m, "ResultsTable", "The results of a function of tensors without gradients, by the shapes and dtypes of these.")
      .def(nb::init<>())
      .def("of", &ResultsTable::of, nb::arg("tensors"), "The results; None where Python has to see to it.")
      .def("keep", &ResultsTable::keep, nb::arg("tensors"), nb::arg("graphs"), nb::arg("parameters"), nb::arg("reads"),
           "From now on the results for such tensors are the graphs, or the tensor of its place where one reads None.");
  nb::class_<GraphTable>(m, "GraphTable", "The graphs of a function of tensors by what of its arguments they depend on.")
      .def(nb::init<nb::type_object>(), nb::arg("dtype"))
      .def("of", &GraphTable::of, nb::arg("arguments"), nb::arg("more"), nb::arg("dtypes").none(), nb::arg("checks"),
           "The result of a call; None where Python has to see to it.")
      .def("keep", &GraphTable::keep, nb::arg("arguments"), nb::arg("more"), nb::arg("dtypes").none(), nb::arg("checks"), nb::arg("graphs"),
           nb::arg("tracked"), nb::arg("is_tuple"), "From now on calls with such arguments are the graphs with their tensors as parameters.");
}

}  // namespace rulegrad
