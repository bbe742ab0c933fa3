// A graph with parameters, which is built again and again on other nodes.
#include "graph_function.hpp"

#include <nanobind/stl/vector.h>

#include <unordered_map>

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
    made.reserve(parameters_ + steps_.size());
    for (const Handle& argument : arguments) made.push_back(argument.ref);
    std::vector<Node*> sources;
    for (const Step& step : steps_) {
      Node* n = step.node.n;
      sources.assign(n->src, n->src + n->nsrc);
      for (auto [place, number] : step.sources) sources[place] = made[number].n;
      made.emplace_back(build_node(n->op, n->dtype, sources.data(), n->nsrc, n->attrs ? n->attrs->items : nullptr, n->attrs ? n->attrs->size : 0));
    }
    Node* root = last_ < 0 ? root_.n : made[size_t(last_)].n;
    retain(root);
    return wrap(root);
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

}  // namespace

void define_graph_function(nb::module_& m) {
  nb::class_<GraphFunction>(m, "GraphFunction", "A graph with parameters, which is built again on other nodes.")
      .def(nb::init<const Handle&, const std::vector<Handle>&>(), nb::arg("root"), nb::arg("parameters"))
      .def("apply", &GraphFunction::apply, nb::arg("arguments"),
           "The graph with nodes of the same shapes and dtypes in the places of the parameters.");
}

}  // namespace rulegrad
