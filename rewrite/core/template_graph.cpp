// Graphs with formulas of sizes in the place of sizes, and with what graphs are that at which sizes.
#include "template_graph.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>

namespace rulegrad {

namespace {

// A polynomial: the numbers of the sizes that are multiplied, and the coefficient.
using Terms = std::vector<std::pair<std::vector<uint32_t>, int64_t>>;
// The attribute, the place in its sequence (-1 where it is a number), the formula.
using Hole = std::tuple<std::string, int64_t, Terms>;
// A node that is like it but for what varies, the places of its sources, the numbers of the constant and of the buffer that it is, or -1.
using Given = std::tuple<Handle, std::vector<uint32_t>, int64_t, int64_t, std::vector<Hole>>;
// A size that is a rounded quotient: its number, what is divided, of sizes with lower numbers, and the divisor.
using Quotient = std::tuple<uint32_t, Terms, int64_t>;

Int value_of(const Terms& formula, const std::vector<std::optional<int64_t>>& sizes) {
  Int total = 0;
  for (const auto& [names, factor] : formula) {
    Int term = factor;
    for (uint32_t name : names) term *= *sizes[name];
    total += term;
  }
  return total;
}

// The size that a formula is, if it is one.
std::optional<uint32_t> only_size(const Terms& formula) {
  if (formula.size() != 1 || formula[0].second != 1 || formula[0].first.size() != 1) return std::nullopt;
  return formula[0].first[0];
}

class TemplateGraph {
 public:
  TemplateGraph(const std::vector<Given>& nodes, std::vector<uint32_t> roots, uint32_t sizes, uint32_t scalars, uint32_t buffers,
                std::vector<Quotient> quotients)
      : roots_(std::move(roots)), sizes_(sizes), scalars_(scalars), buffers_(buffers), quotients_(std::move(quotients)) {
    for (const auto& [like, src, scalar, buffer, holes] : nodes) {
      Place place{like.ref, src, scalar, buffer, {}};
      const std::vector<AttributeInfo>& attributes = op_info(like.ref.n->op).attributes;
      for (const auto& [name, position, formula] : holes) {
        auto found = std::find_if(attributes.begin(), attributes.end(), [&](const AttributeInfo& one) { return one.name->text == name; });
        if (found == attributes.end()) throw GraphError(describe(like.ref.n) + " has no attribute " + name);
        place.holes.push_back({uint32_t(found - attributes.begin()), position, formula});
      }
      places_.push_back(std::move(place));
    }
  }

  // The sizes, constants and ids of buffers with which the template is these graphs; None where it is with none.
  nb::object match(const std::vector<Handle>& roots, std::optional<std::vector<int64_t>> given_sizes) const {
    Match found{std::vector<std::optional<int64_t>>(sizes_), std::vector<const Value*>(scalars_), std::vector<int64_t>(buffers_, -1), {}};
    if (given_sizes) std::copy(given_sizes->begin(), given_sizes->end(), found.sizes.begin());
    if (roots.size() != roots_.size() || !matches(roots, found)) return nb::none();
    nb::list sizes, scalars, buffers;
    for (const auto& size : found.sizes) sizes.append(*size);
    for (const Value* value : found.scalars) scalars.append(value ? python_of(*value) : nb::none());
    for (int64_t id : found.buffers) buffers.append(id);
    return nb::make_tuple(nb::tuple(sizes), nb::tuple(scalars), nb::tuple(buffers));
  }

 private:
  struct Varying {
    uint32_t attribute;
    int64_t position;
    Terms formula;
  };
  struct Place {
    Ref like;
    std::vector<uint32_t> src;
    int64_t scalar, buffer;
    std::vector<Varying> holes;
  };
  struct Match {
    std::vector<std::optional<int64_t>> sizes;
    std::vector<const Value*> scalars;
    std::vector<int64_t> buffers;
    std::vector<std::pair<const Terms*, Int>> checks;
  };

  bool matches(const std::vector<Handle>& roots, Match& found) const {
    std::vector<Node*> known(places_.size());
    std::vector<std::pair<uint32_t, Node*>> stack;
    for (size_t k = 0; k < roots.size(); k++) stack.emplace_back(roots_[k], roots[k].ref.n);
    while (!stack.empty()) {
      auto [number, n] = stack.back();
      stack.pop_back();
      if (known[number] && known[number] != n) return false;
      if (known[number]) continue;
      known[number] = n;
      const Place& place = places_[number];
      const Node* like = place.like.n;
      if (like->op != n->op || like->dtype != n->dtype || like->nsrc != n->nsrc || !attributes_match(place, n, found)) return false;
      for (uint32_t k = 0; k < n->nsrc; k++) stack.emplace_back(place.src[k], n->src[k]);
    }
    for (const auto& quotient : quotients_)
      if (!put_quotient(quotient, found.sizes)) return false;
    for (const auto& size : found.sizes)
      if (!size) return false;
    for (const auto& [formula, size] : found.checks)
      if (value_of(*formula, found.sizes) != size) return false;
    std::vector<int64_t> ids = found.buffers;
    std::sort(ids.begin(), ids.end());
    return std::adjacent_find(ids.begin(), ids.end()) == ids.end();
  }

  static bool put_quotient(const Quotient& quotient, std::vector<std::optional<int64_t>>& sizes) {
    const auto& [number, formula, divisor] = quotient;
    for (const auto& [names, factor] : formula)
      for (uint32_t name : names)
        if (!sizes[name]) return false;
    const Int whole = value_of(formula, sizes);
    if (whole < 0 || whole > INT64_MAX) return false;
    const int64_t size = int64_t(whole) / divisor;
    if (sizes[number] && *sizes[number] != size) return false;
    sizes[number] = size;
    return true;
  }

  static bool attributes_match(const Place& place, const Node* n, Match& found) {
    static const int argument = find_op("ARGUMENT");
    static const size_t id = attribute(known_ops.BUFFER, "id"), value = attribute(known_ops.CONST, "value");
    const uint32_t count = n->attrs ? n->attrs->size : 0;
    for (uint32_t k = 0; k < count; k++) {
      const Value& given = n->attrs->items[k];
      if (place.buffer >= 0 && k == id) found.buffers[size_t(place.buffer)] = int64_t(given.i);
      else if (place.scalar >= 0 && k == value) found.scalars[size_t(place.scalar)] = &given;
      else if (int(n->op) == argument) continue;  // a new one in each call
      else if (!attribute_matches(place, k, given, found)) return false;
    }
    return true;
  }

  // An attribute that is the same but for the sizes that vary.
  static bool attribute_matches(const Place& place, uint32_t attribute, const Value& given, Match& found) {
    const Value& wanted = place.like.n->attrs->items[attribute];
    auto hole_at = [&](int64_t position) -> const Varying* {
      for (const Varying& hole : place.holes)
        if (hole.attribute == attribute && hole.position == position) return &hole;
      return nullptr;
    };
    if (given.tag != wanted.tag) return false;
    if (given.tag == Tag::Int)
      if (const Varying* hole = hole_at(-1)) return put(*hole, given, found);
    if (given.tag != Tag::Seq || place.holes.empty()) return identical(wanted, given);
    if (given.q.size != wanted.q.size) return false;
    for (uint32_t k = 0; k < given.q.size; k++) {
      const Varying* hole = hole_at(k);
      if (hole ? !put(*hole, given.q.items[k], found) : !identical(wanted.q.items[k], given.q.items[k])) return false;
    }
    return true;
  }

  static bool put(const Varying& hole, const Value& given, Match& found) {
    if (given.tag != Tag::Int || given.i > INT64_MAX || given.i < INT64_MIN) return false;
    auto size = only_size(hole.formula);
    if (size && !found.sizes[*size]) found.sizes[*size] = int64_t(given.i);
    else found.checks.emplace_back(&hole.formula, given.i);
    return true;
  }

  static size_t attribute(uint32_t op, std::string_view name) {
    const std::vector<AttributeInfo>& all = op_info(op).attributes;
    size_t k = 0;
    while (k < all.size() && all[k].name->text != name) k++;
    return k;
  }

  std::vector<Place> places_;
  std::vector<uint32_t> roots_;
  uint32_t sizes_, scalars_, buffers_;
  std::vector<Quotient> quotients_;
};

// Of an attribute what graphs of one template have in common: of a size that may vary how many numbers it has, of others all.
uint64_t hash_of_common(const Node* n, const AttributeInfo& info, const Value& v, const std::vector<std::string>& sizes) {
  static const uint32_t buffer = uint32_t(find_op("BUFFER")), argument = uint32_t(find_op("ARGUMENT")), constant = uint32_t(find_op("CONST"));
  const std::string& name = info.name->text;
  const bool is_own = n->op == constant ? name == "value" : (n->op == buffer || n->op == argument) && name == "id";
  if (is_own) return 0;
  if (std::find(sizes.begin(), sizes.end(), name) != sizes.end()) return v.tag == Tag::Seq ? v.q.size : 0;
  return hash_value(v);
}

// A number that graphs of one template have in common: a node that occurs twice is as two.
uint64_t template_key(const std::vector<Handle>& roots, const std::vector<std::string>& sizes) {
  static thread_local SideTable<uint64_t> hashes;
  std::vector<Node*> nodes;
  for (auto& h : roots) nodes.push_back(h.ref.n);
  const std::vector<Node*> order = toposort(nodes);
  hashes.begin();
  for (Node* n : order) {
    uint64_t hash = mix(n->op, n->dtype);
    for (uint32_t k = 0; k < n->nsrc; k++) hash = mix(hash, hashes[n->src[k]]);
    const std::vector<AttributeInfo>& attributes = op_info(n->op).attributes;
    for (uint32_t k = 0; n->attrs && k < n->attrs->size; k++) hash = mix(hash, hash_of_common(n, attributes[k], n->attrs->items[k], sizes));
    hashes[n] = hash;
  }
  uint64_t all = nodes.size();
  for (Node* n : nodes) all = mix(all, hashes[n]);
  return all;
}

}  // namespace

void define_template_graph(nb::module_& m) {
  nb::class_<TemplateGraph>(m, "TemplateGraph", "Graphs with formulas of sizes in the place of sizes.")
      .def(nb::init<const std::vector<Given>&, std::vector<uint32_t>, uint32_t, uint32_t, uint32_t, std::vector<Quotient>>(), nb::arg("nodes"),
           nb::arg("roots"), nb::arg("sizes"), nb::arg("scalars"), nb::arg("buffers"), nb::arg("quotients"))
      .def("match", &TemplateGraph::match, nb::arg("roots"), nb::arg("given_sizes").none(),
           "The sizes, constants and ids of buffers with which it is these graphs; None where it is with none.");
  m.def("template_key", &template_key, nb::arg("roots"), nb::arg("sizes"),
        "A number that graphs have in common which differ in constants, buffers, and the numbers of these attributes.");
}

}  // namespace rulegrad
