#include "signature.hpp"

namespace rulegrad {

namespace {

template <typename T>
void append_raw(std::string& text, T v) {
  text.append(reinterpret_cast<const char*>(&v), sizeof v);
}

void put_value(std::string& text, const Value& v) {
  append_raw(text, v.tag);
  switch (v.tag) {
    case Tag::None: break;
    case Tag::Bool: append_raw(text, v.b); break;
    case Tag::Int: append_raw(text, v.i); break;
    case Tag::Float: append_raw(text, v.f); break;
    case Tag::Str: append_raw(text, v.s); break;
    case Tag::Dtype:
    case Tag::Op: append_raw(text, v.u); break;
    case Tag::Node: throw GraphError("an attribute of a graph is a node");
    case Tag::Seq:
      append_raw(text, v.q.size);
      for (uint32_t k = 0; k < v.q.size; k++) put_value(text, v.q.items[k]);
  }
}

size_t buffer_attribute(const char* name) { return attribute_of(known_ops.BUFFER, name); }

// The place of the attribute that names a BUFFER.
size_t buffer_id_place() {
  static const size_t place = buffer_attribute("id");
  return place;
}

}  // namespace

size_t attribute_of(uint32_t op, std::string_view name) {
  const auto& attributes = op_info(op).attributes;
  for (size_t k = 0; k < attributes.size(); k++)
    if (attributes[k].name->text == name) return k;
  throw GraphError(op_info(op).name->text + " has no attribute " + std::string(name));
}

int64_t buffer_id(const Node* n) { return int64_t(n->attrs->items[buffer_id_place()].i); }

void write_signature(const std::vector<Node*>& order, const std::vector<Node*>& roots, std::string& text, std::vector<int64_t>& ids,
                     const Replaced& replaced) {
  static thread_local SideTable<uint32_t> places;
  const size_t id = buffer_id_place();
  // ARGUMENT is its source under a name that is new in each call of a function's gradient
  static const int argument = find_op("ARGUMENT");
  text.reserve(order.size() * 48);
  places.begin();
  for (size_t k = 0; k < order.size(); k++) places[order[k]] = uint32_t(k);
  for (auto [node, seen] : replaced)
    if (const uint32_t* place = places.find(seen)) places[node] = *place;
  for (Node* n : order) {
    const uint32_t attributes = n->attrs && int(n->op) != argument ? n->attrs->size : 0;
    const bool is_buffer = n->op == known_ops.BUFFER;
    append_raw(text, n->op);
    append_raw(text, n->dtype);
    append_raw(text, n->nsrc);
    append_raw(text, attributes);
    for (uint32_t j = 0; j < n->nsrc; j++) append_raw(text, *places.find(n->src[j]));
    for (uint32_t j = 0; j < attributes; j++) {
      if (is_buffer && j == id) ids.push_back(int64_t(n->attrs->items[j].i));
      else put_value(text, n->attrs->items[j]);
    }
  }
  for (Node* root : roots) append_raw(text, *places.find(root));
}

nb::tuple signature(const std::vector<Handle>& roots) {
  std::vector<Node*> nodes;
  for (auto& h : roots) nodes.push_back(h.ref.n);
  std::string text;
  std::vector<int64_t> numbers;
  write_signature(toposort(nodes), nodes, text, numbers);
  nb::list ids;
  for (int64_t number : numbers) ids.append(number);
  return nb::make_tuple(nb::bytes(text.data(), text.size()), ids);
}

bool is_in_parts(const Node* n) {
  static const size_t mesh = buffer_attribute("mesh");
  return n->op == known_ops.BUFFER && n->attrs->items[mesh].q.size > 0;
}

bool lie_alike(const Node* a, const Node* b) {
  static const size_t mesh = buffer_attribute("mesh"), placement = buffer_attribute("placement");
  if (!is_in_parts(a) || !is_in_parts(b)) return is_in_parts(a) == is_in_parts(b);
  return equal(a->attrs->items[mesh], b->attrs->items[mesh]) && equal(a->attrs->items[placement], b->attrs->items[placement]);
}

nb::tuple placements(const std::vector<Handle>& nodes) {
  nb::list found;
  for (size_t k = 0; k < nodes.size(); k++) {
    const Node* n = nodes[k].ref.n;
    if (!is_in_parts(n)) continue;
    const Value* all = n->attrs->items;
    found.append(nb::make_tuple(k, python_of(all[buffer_attribute("mesh")]), python_of(all[buffer_attribute("placement")])));
  }
  return nb::tuple(found);
}

nb::object renumbered(const Handle& like, int64_t number) {
  Node* n = like.ref.n;
  if (n->op != known_ops.BUFFER) throw GraphError(describe(n) + " is not a buffer");
  std::vector<Value> attrs(n->attrs->items, n->attrs->items + n->attrs->size);
  attrs[buffer_id_place()] = Value::integer(number);
  return wrap(make_node(n->op, n->dtype, nullptr, 0, attrs.data(), uint32_t(attrs.size())));
}

}  // namespace rulegrad
