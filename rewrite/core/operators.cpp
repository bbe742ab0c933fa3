// The operators of rule text: they build nodes, or compute on values.
#include "machine.hpp"

#include <algorithm>
#include <cmath>

namespace rulegrad {

// ---- building nodes ----

Node* Machine::lift(const Value& v, uint32_t dtype) {
  if (v.tag == Tag::Node) return v.n;
  if (v.tag == Tag::None && dtype == known_dtypes.void_) return keep(make_node(known_ops.INVALID, dtype, nullptr, 0, nullptr, 0));
  if (v.tag != Tag::Int && v.tag != Tag::Float && v.tag != Tag::Bool) throw RewriteError("a template needs a node here, not " + show(v));
  if (dtype == known_dtypes.void_) {  // the place says nothing about the dtype
    static const uint32_t real = uint32_t(find_dtype("float32"));
    dtype = v.tag == Tag::Bool ? known_dtypes.bool_ : v.tag == Tag::Int ? known_dtypes.index : real;
  }
  return keep(make_const(v, dtype));
}

static int infix_op(int op) {
  static const int ops[] = {
#define X(name) find_op(#name),
      RULEGRAD_BINARY(X)
#undef X
  };
  if (op < 0 || op >= B_IN || ops[op] < 0) throw RewriteError("there is no op for an operator on nodes");
  return ops[op];
}

Node* Machine::build(uint32_t op, int dtype, const Value* attrs, uint32_t nattrs, const Value* sources, uint32_t count) {
  spend(kNodeCost + count);
  Node* small[8];
  std::vector<Node*> large;
  Node** src = small;
  if (count > 8) {
    large.resize(count);
    src = large.data();
  }
  bool bare = false;
  for (uint32_t k = 0; k < count; k++) {
    src[k] = sources[k].tag == Tag::Node ? sources[k].n : nullptr;
    bare |= !src[k];
  }
  if (bare) {
    const OpInfo& o = op_info(op);
    for (uint32_t k = 0; k < count; k++) {
      if (src[k] || o.parameters.empty()) continue;
      const ParameterInfo& p = o.parameters[std::min<size_t>(k, o.parameters.size() - 1)];
      uint32_t wanted = like;
      if (p.variable < 0) {
        if (p.mask && !(p.mask & (p.mask - 1))) wanted = uint32_t(__builtin_ctz(p.mask));
        else if (p.mask != ~0u && (p.mask >> known_dtypes.index & 1)) wanted = known_dtypes.index;
      } else {
        for (uint32_t j = 0; j < count; j++) {
          const ParameterInfo& q = o.parameters[std::min<size_t>(j, o.parameters.size() - 1)];
          if (sources[j].tag == Tag::Node && q.variable == p.variable) {
            wanted = sources[j].n->dtype;
            break;
          }
        }
      }
      src[k] = lift(sources[k], wanted);
    }
  }
  return keep(build_node(op, dtype, src, count, attrs, nattrs));
}

// Its operands: the register of the result, the op or the register of it, the dtype's register, that of the node whose attributes are
// spread, counted attributes, counted sources.
const int32_t* Machine::construct(const int32_t* pc) {
  Value* const r = registers;
  if (pc[2] < 0 && (pc[3] < 0 || r[pc[3]].tag != Tag::Op)) return nullptr;
  const uint32_t op = pc[2] >= 0 ? uint32_t(pc[2]) : r[pc[3]].u;
  const OpInfo& o = op_info(op);
  const Node* spread = pc[5] >= 0 && r[pc[5]].tag == Tag::Node ? r[pc[5]].n : nullptr;
  int dtype = -1;
  if (pc[4] >= 0) {
    if (r[pc[4]].tag != Tag::Dtype) return nullptr;
    dtype = int(r[pc[4]].u);
  } else if (o.result_dtype < 0 && o.result_variable < 0) {
    dtype = int(spread ? spread->dtype : like);
  }
  Room<16> attributes;
  const uint32_t nattrs = uint32_t(o.attributes.size());
  if (nattrs > 16) return nullptr;
  if (spread && spread->op == op && spread->attrs) {
    std::copy(spread->attrs->items, spread->attrs->items + nattrs, attributes.items);
  } else {
    for (uint32_t k = 0; k < nattrs; k++) attributes.items[k] = o.attributes[k].has_default ? o.attributes[k].fallback : Value::none();
  }
  const int32_t* p = pc + 6;
  for (int32_t given = *p++; given > 0; given--, p += 2) {
    if (uint32_t(p[0]) >= nattrs) return nullptr;
    attributes.items[p[0]] = r[p[1]];
  }
  const int32_t n = *p++;
  auto made = [&](const Value* sources, size_t count) {
    r[pc[1]] = Value::node(build(op, dtype, attributes.items, nattrs, sources, uint32_t(count)));
    return p + n;
  };
  if (n <= 8 && std::none_of(p, p + n, [](int32_t source) { return source < 0; })) {
    Room<8> direct;
    for (int32_t k = 0; k < n; k++) direct.items[k] = r[p[k]];
    return made(direct.items, size_t(n));
  }
  std::vector<Value> sources;
  for (int32_t k = 0; k < n; k++) {
    if (p[k] >= 0) {
      sources.push_back(r[p[k]]);
      continue;
    }
    const Value& s = r[-(p[k] + 1)];
    if (s.tag != Tag::Seq) return nullptr;
    spend(uint64_t(s.q.size) * kValueCost);
    sources.insert(sources.end(), s.q.items, s.q.items + s.q.size);
  }
  return made(sources.data(), sources.size());
}

Node* Machine::build_infix(uint32_t op, const Value& a, const Value& b) {
  Value both[2] = {a, b};
  return build(op, -1, nullptr, 0, both, 2);
}

// ---- operators ----

bool Machine::binary(int op, bool nodes, const Value& a, const Value& b, Value& result) {
  if (op == B_IN || op == B_NOT_IN) {
    if (b.tag != Tag::Seq) return false;
    bool found = false;
    spend(b.q.size);
    for (uint32_t k = 0; k < b.q.size && !found; k++) found = equal(a, b.q.items[k]);
    result = Value::boolean(found == (op == B_IN));
    return true;
  }
  bool any_node = a.tag == Tag::Node || b.tag == Tag::Node;
  if (op == B_CMPEQ || op == B_CMPNE) {
    if (a.tag == Tag::None || b.tag == Tag::None) return false;  // an unknown bound equals nothing
    if (!(nodes && any_node)) {
      result = Value::boolean(equal(a, b) == (op == B_CMPEQ));
      return true;
    }
  }
  if (any_node) {
    if (a.tag == Tag::Seq || b.tag == Tag::Seq || a.tag == Tag::None || b.tag == Tag::None) return false;
    result = Value::node(build_infix(uint32_t(infix_op(op)), a, b));
    return true;
  }
  if (a.tag == Tag::Seq && b.tag == Tag::Seq && (op == B_ADD || op == B_SUB)) {
    Value* items = allocate(uint64_t(a.q.size) + b.q.size);
    if (op == B_SUB) spend(uint64_t(a.q.size) * b.q.size);
    uint32_t n = 0;
    for (uint32_t k = 0; k < a.q.size; k++) {
      bool drop = false;
      if (op == B_SUB)
        for (uint32_t j = 0; j < b.q.size && !drop; j++) drop = equal(a.q.items[k], b.q.items[j]);
      if (!drop) items[n++] = a.q.items[k];
    }
    if (op == B_ADD)
      for (uint32_t k = 0; k < b.q.size; k++) items[n++] = b.q.items[k];
    result = Value::seq(items, n);
    return true;
  }
  auto number = [](const Value& v) { return v.tag == Tag::Int || v.tag == Tag::Float || v.tag == Tag::Bool; };
  if (!number(a) || !number(b)) return false;
  if (a.tag == Tag::Bool && b.tag == Tag::Bool) {
    switch (op) {
      case B_AND:
      case B_MUL: result = Value::boolean(a.b && b.b); return true;
      case B_OR: result = Value::boolean(a.b || b.b); return true;
      case B_XOR: result = Value::boolean(a.b != b.b); return true;
      default: break;
    }
  }
  if (a.tag == Tag::Float || b.tag == Tag::Float) {
    double x = a.tag == Tag::Float ? a.f : a.tag == Tag::Int ? double(a.i) : double(a.b);
    double y = b.tag == Tag::Float ? b.f : b.tag == Tag::Int ? double(b.i) : double(b.b);
    switch (op) {
      case B_ADD: result = Value::number(x + y); return true;
      case B_SUB: result = Value::number(x - y); return true;
      case B_MUL: result = Value::number(x * y); return true;
      case B_DIV: result = Value::number(x / y); return true;
      case B_FLOORDIV: result = Value::number(std::floor(x / y)); return y != 0;
      case B_FLOORMOD: result = Value::number(x - std::floor(x / y) * y); return y != 0;
      case B_POW: result = Value::number(std::pow(x, y)); return true;
      case B_CMPLT: result = Value::boolean(x < y); return true;
      case B_CMPLE: result = Value::boolean(x <= y); return true;
      default: return false;
    }
  }
  Int x = a.tag == Tag::Int ? a.i : Int(a.b), y = b.tag == Tag::Int ? b.i : Int(b.b);
  using Bits = unsigned __int128;
  switch (op) {
    case B_ADD: result = Value::integer(wraps ? Int(Bits(x) + Bits(y)) : checked_add(x, y)); return true;
    case B_SUB: result = Value::integer(wraps ? Int(Bits(x) - Bits(y)) : checked_sub(x, y)); return true;
    case B_MUL: result = Value::integer(wraps ? Int(Bits(x) * Bits(y)) : checked_mul(x, y)); return true;
    case B_DIV: result = Value::number(double(x) / double(y)); return y != 0;
    case B_FLOORDIV:
      if (y == 0) return false;
      result = Value::integer(floor_div(x, y));
      return true;
    case B_FLOORMOD:
      if (y == 0) return false;
      result = Value::integer(floor_mod(x, y));
      return true;
    case B_POW: {
      if (y < 0 || y > 127) return false;
      Int r = 1;
      for (Int k = 0; k < y; k++)
        if (__builtin_mul_overflow(r, x, &r)) return false;
      result = Value::integer(r);
      return true;
    }
    case B_AND: result = Value::integer(x & y); return true;
    case B_OR: result = Value::integer(x | y); return true;
    case B_XOR: result = Value::integer(x ^ y); return true;
    case B_SHL: {
      if (y < 0 || y > 126) return false;
      Int exact;
      if (__builtin_mul_overflow(x, Int(1) << int(y), &exact)) return false;
      result = Value::integer(exact);
      return true;
    }
    case B_SHR:
      if (y < 0) return false;
      result = Value::integer(y > 126 ? (x < 0 ? -1 : 0) : x >> int(y));
      return true;
    case B_CMPLT: result = Value::boolean(x < y); return true;
    case B_CMPLE: result = Value::boolean(x <= y); return true;
    default: return false;
  }
}

bool Machine::unary(int op, bool, const Value& a, Value& result) {
  if (a.tag == Tag::Node) {
    if (op == U_LOGICAL_NOT) return false;
    static const int neg = find_op("NEG"), bit_not = find_op("NOT");
    result = Value::node(build(uint32_t(op == U_NEG ? neg : bit_not), -1, nullptr, 0, &a, 1));
    return true;
  }
  switch (op) {
    case U_LOGICAL_NOT:
      if (a.tag != Tag::Bool) return false;
      result = Value::boolean(!a.b);
      return true;
    case U_NOT:
      if (a.tag == Tag::Bool) result = Value::boolean(!a.b);
      else if (a.tag == Tag::Int) result = Value::integer(~a.i);
      else return false;
      return true;
    default:
      if (a.tag == Tag::Float) result = Value::number(-a.f);
      else if (a.tag == Tag::Int) result = Value::integer(checked_sub(0, a.i));
      else if (a.tag == Tag::Bool) result = Value::integer(-Int(a.b));
      else return false;
      return true;
  }
}

bool Machine::member(const Value& owner, const Str* name, Value& result) {
  if (owner.tag == Tag::Seq && owner.q.form) {
    const std::vector<const Str*>& fields = record_form(owner.q.form).fields;
    auto at = std::find(fields.begin(), fields.end(), name);
    if (at == fields.end()) return false;
    result = Value(owner.q.items[at - fields.begin()]);
    return true;
  }
  if (owner.tag == Tag::Dtype) {
    const DtypeInfo& d = dtype_info(owner.u);
    const std::string& t = name->text;
    int64_t low, high;
    if (t == "bits") result = Value::integer(d.bits);
    else if (t == "mantissa") result = Value::integer(d.mantissa);
    else if (t == "exponent") result = Value::integer(d.exponent);
    else if (t == "bias") result = Value::integer((1 << std::max(d.exponent - 1, 0)) - 1);
    else if (t == "min" || t == "max") {
      if (d.kind == Kind::Float) {
        double big = d.bits == 64 ? INFINITY : decode_float(encode_float(INFINITY, d), d);
        if (std::isnan(big)) big = decode_float(encode_float(INFINITY, d) - 1, d);  // no infinity: the largest number
        result = Value::number(t == "min" ? -big : big);
      } else if (d.kind == Kind::Uint && d.bits == 64) {
        result = Value::integer(t == "min" ? Int(0) : (Int(1) << 64) - 1);
      } else if (d.kind == Kind::Int || d.kind == Kind::Index) {
        result = Value::integer(t == "min" ? -(Int(1) << (d.bits - 1)) : (Int(1) << (d.bits - 1)) - 1);
      } else {
        dtype_bounds(owner.u, low, high);
        result = d.kind == Kind::Bool ? Value::boolean(t == "max") : Value::integer(t == "min" ? low : high);
      }
    } else return false;
    return true;
  }
  if (owner.tag == Tag::Node && owner.n->attrs) {
    const OpInfo& o = op_info(owner.n->op);
    for (uint32_t k = 0; k < o.attributes.size(); k++)
      if (o.attributes[k].name == name) {
        result = owner.n->attrs->items[k];
        return true;
      }
  }
  if (owner.tag == Tag::Node && name->text == "dtype") {
    result = Value::dtype(owner.n->dtype);
    return true;
  }
  return false;
}

// ---- the op table's code on constants ----

bool evaluate_op(uint32_t op, uint32_t dtype, const Value* arguments, uint32_t count, uint32_t argument_dtype, Value& result) {
  const OpInfo& o = op_info(op);
  if (o.code_eval < 0 || count < o.min_sources || count > o.max_sources || o.parameters.size() > 8) return false;
  static thread_local Machine machine(op_table_program());
  machine.arena.reset({0, 0});  // of the last run
  for (size_t k = count; k < o.parameters.size(); k++) machine.registers[k] = Value::none();
  for (uint32_t k = 0; k < count; k++) {
    if (arguments[k].tag != Tag::Int && arguments[k].tag != Tag::Float && arguments[k].tag != Tag::Bool) return false;
    machine.registers[k] = arguments[k];
  }
  machine.current_dtype = dtype;
  machine.argument_dtype = argument_dtype;
  machine.wraps = dtype_info(dtype).kind == Kind::Int || dtype_info(dtype).kind == Kind::Uint;
  Value v;
  bool ok = machine.run(op_table_program().codes[o.code_eval], v) == Status::Done;
  if (!ok || v.tag == Tag::None || v.tag == Tag::Seq) return false;
  result = convert_value(v, dtype);
  return true;
}

bool identity_of(uint32_t op, uint32_t dtype, Value& result) {
  const OpInfo& o = op_info(op);
  if (o.code_identity < 0) return false;
  static thread_local Machine machine(op_table_program());
  machine.current_dtype = dtype;
  Value v;
  if (machine.run(op_table_program().codes[o.code_identity], v) != Status::Done) return false;
  result = convert_value(v, dtype);
  return true;
}

}  // namespace rulegrad
