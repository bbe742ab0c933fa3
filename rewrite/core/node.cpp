#include "node.hpp"

#include <algorithm>

#include "lease.hpp"
#include "machine.hpp"

namespace rulegrad {

KnownOps known_ops;
KnownDtypes known_dtypes;

namespace {

std::vector<DtypeInfo> g_dtypes;
std::vector<OpInfo> g_ops;

}  // namespace

const DtypeInfo& dtype_info(uint32_t dtype) { return g_dtypes[dtype]; }
const OpInfo& op_info(uint32_t op) { return g_ops[op]; }
size_t op_count() { return g_ops.size(); }
size_t dtype_count() { return g_dtypes.size(); }
bool table_loaded() { return !g_ops.empty(); }

int find_op(std::string_view name) {
  for (size_t k = 0; k < g_ops.size(); k++)
    if (g_ops[k].name->text == name) return int(k);
  return -1;
}

int find_dtype(std::string_view name) {
  for (size_t k = 0; k < g_dtypes.size(); k++)
    if (g_dtypes[k].name->text == name) return int(k);
  return -1;
}

void install_table(std::vector<DtypeInfo> dtypes, std::vector<OpInfo> ops) {
  if (!g_ops.empty()) throw BytecodeError("the op table is loaded already");
  g_dtypes = std::move(dtypes);
  g_ops = std::move(ops);
  auto need_op = [](const char* name) {
    int k = find_op(name);
    if (k < 0) throw BytecodeError(std::string("the op table lacks ") + name);
    return uint32_t(k);
  };
  known_ops = {need_op("CONST"), need_op("RANGE"), need_op("ADD"),   need_op("MUL"),     need_op("AND"),   need_op("NEG"),
               need_op("CAST"),  need_op("END"),   need_op("AFTER"), need_op("INVALID"), need_op("STORE"), need_op("LOAD"),
               need_op("PARAM"), need_op("SINK"),  need_op("INDEX"), need_op("WHERE"),   need_op("BUFFER")};
  auto need_dtype = [](const char* name) {
    int k = find_dtype(name);
    if (k < 0) throw BytecodeError(std::string("the op table lacks dtype ") + name);
    return uint32_t(k);
  };
  known_dtypes = {need_dtype("void"), need_dtype("bool"), need_dtype("index")};
  // The engine's assumptions on these ops.
  auto first = [](uint32_t op, AttributeType type) { return !g_ops[op].attributes.empty() && g_ops[op].attributes[0].type == type; };
  const OpInfo& constant = g_ops[known_ops.CONST];
  if (!first(known_ops.CONST, AttributeType::Scalar) || constant.attributes.size() != 1 || constant.variadic || constant.max_sources != 0 ||
      constant.result_variable >= 0 || constant.result_dtype >= 0)
    throw BytecodeError("CONST must be CONST[value: scalar]() -> explicit");
  if (!first(known_ops.RANGE, AttributeType::Int) || !first(known_ops.PARAM, AttributeType::Int))
    throw BytecodeError("the first attribute of RANGE and of PARAM must be an int");
  if (g_ops[known_ops.MUL].min_sources != 2) throw BytecodeError("MUL must have two sources");
}

void set_shape_of_shapes(uint32_t op, bool is) { g_ops[op].shape_of_shapes = is; }

void set_intervals(uint32_t op, IntervalCode low, IntervalCode high) {
  g_ops[op].low = std::move(low);
  g_ops[op].high = std::move(high);
}

void remove_table() {
  g_ops.clear();
  g_dtypes.clear();
}

// ---- checked construction ----

namespace {

bool plain(Tag t) { return t == Tag::Int || t == Tag::Float || t == Tag::Bool || t == Tag::Str; }

bool fits_type(const Value& v, AttributeType type) {
  switch (type) {
    case AttributeType::Int: return v.tag == Tag::Int;
    case AttributeType::Float: return v.tag == Tag::Float || v.tag == Tag::Int;
    case AttributeType::Bool: return v.tag == Tag::Bool;
    case AttributeType::Str: return v.tag == Tag::Str;
    case AttributeType::Dtype: return v.tag == Tag::Dtype;
    case AttributeType::Op: return v.tag == Tag::Op;
    case AttributeType::Scalar: return v.tag == Tag::Int || v.tag == Tag::Float || v.tag == Tag::Bool;
    case AttributeType::Tuple:
      if (v.tag != Tag::Seq || v.q.form) return false;
      for (uint32_t k = 0; k < v.q.size; k++)
        if (v.q.items[k].tag == Tag::Seq ? !fits_type(v.q.items[k], type) : !plain(v.q.items[k].tag)) return false;
      return true;
    case AttributeType::Ints:
      if (v.tag != Tag::Seq || v.q.form) return false;
      for (uint32_t k = 0; k < v.q.size; k++)
        if (v.q.items[k].tag != Tag::Int || v.q.items[k].i != int64_t(v.q.items[k].i)) return false;
      return true;
  }
  return false;
}

const char* type_name(AttributeType t) {
  static const char* names[] = {"an int",          "a float",          "a bool",
                                "a str",           "a dtype",          "an op",
                                "a tuple of ints", "a number or bool", "a tuple of numbers, bools, strings and tuples"};
  return names[int(t)];
}

[[noreturn]] void wrong(const OpInfo& o, const std::string& what) { throw GraphError(o.name->text + ": " + what); }

std::string mask_names(uint32_t mask) {
  std::string s;
  for (size_t k = 0; k < g_dtypes.size(); k++)
    if (mask >> k & 1) s += (s.empty() ? "" : ", ") + g_dtypes[k].name->text;
  return s;
}

void check_attrs(const OpInfo& o, const Value* attrs, uint32_t nattrs) {
  if (nattrs != o.attributes.size()) wrong(o, "expected " + std::to_string(o.attributes.size()) + " attributes, got " + std::to_string(nattrs));
  for (uint32_t k = 0; k < nattrs; k++)
    if (!fits_type(attrs[k], o.attributes[k].type))
      wrong(o, "attribute " + o.attributes[k].name->text + " must be " + type_name(o.attributes[k].type) + ", not " + show(attrs[k]));
}

}  // namespace

Node* build_node(uint32_t op, int dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs) {
  const OpInfo& o = g_ops[op];
  if (nsrc < o.min_sources || (!o.variadic && nsrc > o.max_sources))
    wrong(o, std::string("expected ") + (o.variadic ? "at least " : "") + std::to_string(o.min_sources) +
                 (o.variadic || o.min_sources == o.max_sources ? "" : " to " + std::to_string(o.max_sources)) + " sources, got " +
                 std::to_string(nsrc));
  int variables[4] = {-1, -1, -1, -1};
  for (uint32_t k = 0; k < nsrc; k++) {
    const ParameterInfo& p = o.parameters[k < o.parameters.size() ? k : o.parameters.size() - 1];
    uint32_t d = src[k]->dtype, mask = p.variable < 0 ? p.mask : o.variable_masks[p.variable];
    if (!(mask >> d & 1)) wrong(o, "source " + p.name->text + " has dtype " + g_dtypes[d].name->text + ", expected one of " + mask_names(mask));
    if (p.variable >= 0) {
      int& bound = variables[p.variable];
      if (bound >= 0 && bound != int(d))
        wrong(o, "sources have different dtypes, " + g_dtypes[bound].name->text + " and " + g_dtypes[d].name->text + "; cast one of them");
      bound = int(d);
    }
  }
  int result = o.result_dtype >= 0 ? o.result_dtype : o.result_variable >= 0 ? variables[o.result_variable] : dtype;
  if (result < 0) wrong(o, "its dtype must be given");
  if (dtype >= 0 && dtype != result) wrong(o, "has dtype " + g_dtypes[result].name->text + ", not " + g_dtypes[dtype].name->text);
  check_attrs(o, attrs, nattrs);
  if (op == known_ops.CONST) {
    Value v = convert_value(attrs[0], uint32_t(result));
    return make_node(op, uint32_t(result), src, nsrc, &v, 1);
  }
  for (uint32_t k = 0; k < nattrs; k++) {
    if (o.attributes[k].type != AttributeType::Float || attrs[k].tag != Tag::Int) continue;
    std::vector<Value> stored(attrs, attrs + nattrs);  // 1 and 1.0 are one attribute
    for (uint32_t j = k; j < nattrs; j++)
      if (o.attributes[j].type == AttributeType::Float && stored[j].tag == Tag::Int) stored[j] = Value::number(double(stored[j].i));
    return make_node(op, uint32_t(result), src, nsrc, stored.data(), nattrs);
  }
  return make_node(op, uint32_t(result), src, nsrc, attrs, nattrs);
}

Node* make_const(const Value& v, uint32_t dtype) {
  Value stored = convert_value(v, dtype);
  return make_node(known_ops.CONST, dtype, nullptr, 0, &stored, 1);
}

namespace {

struct Visits {
  SideTable<uint8_t> seen;
  std::vector<std::pair<Node*, uint32_t>> stack;  // with the source to visit
};

// `wanted`: the node that is entered where this one is met, or none.
template <typename Wanted>
std::vector<Node*> sorted(Node* const* roots, size_t count, Wanted wanted) {
  Lease<Visits> visits;
  auto& [seen, stack] = *visits;
  seen.begin();
  std::vector<Node*> order;
  order.reserve(32);  // most have few nodes
  auto visit = [&](Node* met) {
    Node* n = wanted(met);
    if (!n) return;
    uint8_t& is_seen = seen[n];
    if (is_seen) return;
    is_seen = 1;
    if (n->nsrc) stack.emplace_back(n, 0);
    else order.push_back(n);
  };
  for (size_t k = 0; k < count; k++) {
    visit(roots[k]);
    while (!stack.empty()) {
      auto& [n, next] = stack.back();
      if (next < n->nsrc) {
        visit(n->src[next++]);
      } else {
        order.push_back(n);
        stack.pop_back();
      }
    }
  }
  return order;
}

}  // namespace

std::vector<Node*> toposort(const std::vector<Node*>& roots) {
  return sorted(roots.data(), roots.size(), [](Node* n) { return n; });
}

std::vector<Node*> toposort(Node* root) {
  return sorted(&root, 1, [](Node* n) { return n; });
}

std::vector<Node*> toposort(const std::vector<Node*>& roots, const Replaced& replaced) {
  static thread_local SideTable<Node*> other;
  other.begin();
  for (auto [node, seen] : replaced) other[node] = seen;
  return sorted(roots.data(), roots.size(), [](Node* n) {
    Node** seen = other.find(n);
    return seen ? *seen : n;
  });
}

std::vector<Node*> toposort(Node* root, const OpMask& ops) {
  return sorted(&root, 1, [&](Node* n) { return n->ops.meets(ops) ? n : nullptr; });
}

std::string verify(Node* root, uint32_t level) {
  for (Node* n : toposort(root)) {
    const OpInfo& o = g_ops[n->op];
    if (!(o.levels & level)) return describe(n) + " may not stand here any more";
    try {
      Ref again(build_node(n->op, n->dtype, n->src, n->nsrc, n->attrs ? n->attrs->items : nullptr, n->attrs ? n->attrs->size : 0));
      if (again.n != n) return describe(n) + " is not in its canonical form";
      shape_of(n);
    } catch (const GraphError& e) { return e.what(); }
  }
  return "";
}

std::string describe(const Node* n) {
  const OpInfo& o = g_ops[n->op];
  std::string s = o.name->text;
  if (n->attrs) {
    s += "[";
    for (uint32_t k = 0; k < n->attrs->size && k < o.attributes.size(); k++)
      s += (k ? ", " : "") + o.attributes[k].name->text + "=" + show(n->attrs->items[k]);
    s += "]";
  }
  return s + ":" + g_dtypes[n->dtype].name->text;
}

constexpr uint32_t kMostShown = 8;  // sources of a node in a message

// Attributes that are not as the op table has them, and sources; `dtype` is given at the top only.
static std::string brief(const Node* n, int depth, bool dtype) {
  if (!dtype && is_const(n)) return show(const_value(n));
  const OpInfo& o = g_ops[n->op];
  std::string attributes, sources;
  for (uint32_t k = 0; n->attrs && k < n->attrs->size; k++) {
    const AttributeInfo& a = o.attributes[k];
    if (a.has_default && identical(a.fallback, n->attrs->items[k])) continue;
    attributes += (attributes.empty() ? "" : ", ") + a.name->text + "=" + show(n->attrs->items[k]);
  }
  for (uint32_t k = 0; k < n->nsrc && k < kMostShown; k++) sources += (k ? ", " : "") + (depth ? brief(n->src[k], depth - 1, false) : "…");
  if (n->nsrc > kMostShown) sources += ", …";
  return o.name->text + (attributes.empty() ? "" : "[" + attributes + "]") + (dtype ? ":" + g_dtypes[n->dtype].name->text : "") +
         (sources.empty() ? "" : "(" + sources + ")");
}

std::string brief(const Node* n) { return brief(n, 2, true); }

}  // namespace rulegrad
