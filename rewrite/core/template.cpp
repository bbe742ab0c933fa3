// A graph that is built again and again, on other nodes each time.
#include "template.hpp"

#include <nanobind/stl/vector.h>

#include <unordered_map>

namespace rulegrad {

namespace {

class Template {
 public:
  // Throws GraphError where a name stands for nothing.
  Template(const Handle& root, const std::vector<Handle>& names) : names_(names.size()) {
    std::unordered_map<Node*, uint32_t> numbers;  // of what is built anew: the names, then the steps
    for (const Handle& name : names) numbers.emplace(name.ref.n, uint32_t(numbers.size()));
    if (numbers.size() != names_) throw GraphError("two names of a template are one node");
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

  // Throws GraphError where there are not as many values as names.
  nb::object of(const std::vector<Handle>& values) const {
    if (values.size() != names_) throw GraphError("a template of " + std::to_string(names_) + " names was given " + std::to_string(values.size()) + " nodes");
    std::vector<Ref> made;
    made.reserve(names_ + steps_.size());
    for (const Handle& value : values) made.push_back(value.ref);
    std::vector<Node*> sources;
    for (const Step& step : steps_) {
      Node* n = step.node.n;
      sources.assign(n->src, n->src + n->nsrc);
      for (auto [place, number] : step.sources) sources[place] = made[number].n;
      const OpInfo& info = op_info(n->op);
      const bool is_explicit = info.result_dtype < 0 && info.result_variable < 0;
      made.emplace_back(build_node(
          n->op, is_explicit ? int(n->dtype) : -1, sources.data(), n->nsrc, n->attrs ? n->attrs->items : nullptr, n->attrs ? n->attrs->size : 0));
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
    numbers.emplace(n, uint32_t(names_ + steps_.size()));
    steps_.push_back({Ref::share(n), std::move(sources)});
  }

  size_t names_;
  std::vector<Step> steps_;  // sources first
  Ref root_;
  int64_t last_;  // the number of the root; -1 where no name is below it
};

}  // namespace

void define_template(nb::module_& m) {
  nb::class_<Template>(m, "Template", "A graph that is built again on other nodes, in the places of some.")
      .def(nb::init<const Handle&, const std::vector<Handle>&>(), nb::arg("root"), nb::arg("names"))
      .def("of", &Template::of, nb::arg("values"), "The graph with these nodes in the places of the names, which have their shapes and dtypes.");
}

}  // namespace rulegrad
