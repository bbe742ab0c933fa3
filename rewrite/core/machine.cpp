#include "machine.hpp"

#include <chrono>
#include <cmath>
#include <unordered_set>

namespace rulegrad {

// ---- memory ----

Value* Arena::allocate(uint64_t count) {
  constexpr size_t kBlock = 4096;
  while (block_ < blocks_.size() && used_ + count > blocks_[block_].second) {
    block_++;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    size_t size = std::max<size_t>(kBlock, count);
    blocks_.emplace_back(std::make_unique<Value[]>(size), size);
    used_ = 0;
  }
  Value* at = blocks_[block_].first.get() + used_;
  used_ += count;
  return at;
}

bool CallKey::operator==(const CallKey& o) const {
  if (function != o.function || count != o.count) return false;
  for (uint32_t k = 0; k < count; k++)
    if (!identical(arguments[k], o.arguments[k])) return false;
  return true;
}

size_t CallHash::operator()(const CallKey& k) const {
  uint64_t h = k.function;
  for (uint32_t j = 0; j < k.count; j++) {
    const Value& v = k.arguments[j];
    h = mix(h, v.tag == Tag::Node ? uint64_t(reinterpret_cast<uintptr_t>(v.n)) : hash_value(v));
  }
  return h;
}

// Sequences are what takes memory in a run that does not end.
constexpr uint64_t kValueCost = 4, kNodeCost = 16;
// Calls of functions that wait for each other, and that are remembered, before they are taken for endless.
constexpr size_t kDeepestCall = 2'000'000, kMostCalls = 2'000'000;

Value* Machine::allocate(uint64_t count) {
  spend(count * kValueCost);
  return arena.allocate(count);
}

Machine::~Machine() {
  for (Node* n : kept) release(n);
}

Value Machine::sequence(const Value* items, uint32_t count) {
  Value* copy = allocate(count);
  std::copy(items, items + count, copy);
  return Value::seq(copy, count);
}

Value Machine::persistent(const Value& v) {
  if (v.tag != Tag::Seq) return v;
  std::vector<Value> items;
  for (uint32_t k = 0; k < v.q.size; k++) items.push_back(persistent(v.q.items[k]));
  persistent_.push_back(std::move(items));
  return Value::seq(persistent_.back().data(), uint32_t(persistent_.back().size()));
}

// ---- building nodes ----

Node* Machine::lift(const Value& v, uint32_t dtype) {
  if (v.tag == Tag::Node) return v.n;
  if (v.tag == Tag::None && dtype == known_dtypes.void_) return keep(make_node(known_ops.INVALID, dtype, nullptr, 0, nullptr, 0));
  if (v.tag != Tag::Int && v.tag != Tag::Float && v.tag != Tag::Bool)
    throw RewriteError("a template needs a node here, not " + show(v));
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
          if (sources[j].tag == Tag::Node && q.variable == p.variable) { wanted = sources[j].n->dtype; break; }
        }
      }
      src[k] = lift(sources[k], wanted);
    }
  }
  return keep(build_node(op, dtype, src, count, attrs, nattrs));
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
      case B_AND: case B_MUL: result = Value::boolean(a.b && b.b); return true;
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
  switch (op) {
    case B_ADD: result = Value::integer(checked_add(x, y)); return true;
    case B_SUB: result = Value::integer(checked_sub(x, y)); return true;
    case B_MUL: result = Value::integer(checked_mul(x, y)); return true;
    case B_DIV: result = Value::number(double(x) / double(y)); return y != 0;
    case B_FLOORDIV: if (y == 0) return false; result = Value::integer(floor_div(x, y)); return true;
    case B_FLOORMOD: if (y == 0) return false; result = Value::integer(floor_mod(x, y)); return true;
    case B_POW: {
      if (y < 0 || y > 127) return false;
      Int r = 1;
      for (Int k = 0; k < y; k++) r = checked_mul(r, x);
      result = Value::integer(r);
      return true;
    }
    case B_AND: result = Value::integer(x & y); return true;
    case B_OR: result = Value::integer(x | y); return true;
    case B_XOR: result = Value::integer(x ^ y); return true;
    case B_SHL: {
      if (y < 0 || y > 126) return false;
      result = Value::integer(checked_mul(x, Int(1) << int(y)));
      return true;
    }
    case B_SHR: if (y < 0) return false; result = Value::integer(y > 126 ? (x < 0 ? -1 : 0) : x >> int(y)); return true;
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

// ---- the machine ----

Status Machine::run(const Code& code, Value& result) {
  const int32_t* const base = code.data();
  const int32_t* pc = base;
  Value* const r = registers;
  budget = kBudget;
  const size_t bottom = bottoms.size();
  struct Leave {  // sequences that were not finished are dropped, however the code ends
    Machine& m;
    size_t bottom, height;
    ~Leave() {
      m.bottoms.resize(bottom);
      m.building.resize(height);
    }
  } leave{*this, bottom, building.size()};
  auto jump = [&](int32_t to) {
    if (base + to <= pc) spend(1);
    pc = base + to;
  };
#define NODE(k) (r[k].tag == Tag::Node ? r[k].n : nullptr)
#define REQUIRE(condition) \
  if (!(condition)) goto failed
  for (;;) {
    switch (*pc) {
      case I_IS_OP: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && int(n->op) == pc[2]);
        pc += 3;
        break;
      }
      case I_IN_SET: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && program.sets[pc[2]][n->op]);
        pc += 3;
        break;
      }
      case I_SOURCES: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && int(n->nsrc) == pc[2]);
        pc += 3;
        break;
      }
      case I_SOURCES_MIN: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && int(n->nsrc) >= pc[2]);
        pc += 3;
        break;
      }
      case I_SOURCE: {
        Node* n = NODE(pc[2]);
        REQUIRE(n && pc[3] < int(n->nsrc));
        r[pc[1]] = Value::node(n->src[pc[3]]);
        pc += 4;
        break;
      }
      case I_SOURCE_END: {
        Node* n = NODE(pc[2]);
        REQUIRE(n && pc[3] >= 1 && pc[3] <= int(n->nsrc));
        r[pc[1]] = Value::node(n->src[n->nsrc - pc[3]]);
        pc += 4;
        break;
      }
      case I_SOURCE_SLICE: {
        Node* n = NODE(pc[2]);
        REQUIRE(n && pc[3] + pc[4] <= int(n->nsrc));
        uint32_t count = n->nsrc - uint32_t(pc[3] + pc[4]);
        Value* items = allocate(count);
        for (uint32_t k = 0; k < count; k++) items[k] = Value::node(n->src[pc[3] + k]);
        r[pc[1]] = Value::seq(items, count);
        pc += 5;
        break;
      }
      case I_DTYPE_IN: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && (uint32_t(pc[2]) >> n->dtype & 1));
        pc += 3;
        break;
      }
      case I_IS_CONST: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && is_const(n));
        pc += 2;
        break;
      }
      case I_CONST_IS: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && is_const(n));
        const Value &v = const_value(n), &k = program.constants[pc[2]];
        if (v.tag == Tag::Int && k.tag == Tag::Int) {
          REQUIRE(v.i == k.i);
        } else {
          REQUIRE(equal(v, k));
        }
        pc += 3;
        break;
      }
      case I_SAME:
        REQUIRE(r[pc[1]].tag == Tag::Node && r[pc[2]].tag == Tag::Node ? r[pc[1]].n == r[pc[2]].n : equal(r[pc[1]], r[pc[2]]));
        pc += 3;
        break;
      case I_NOT_SAME:
        REQUIRE(!equal(r[pc[1]], r[pc[2]]));
        pc += 3;
        break;
      case I_EQUALS:
        REQUIRE(equal(r[pc[1]], program.constants[pc[2]]));
        pc += 3;
        break;
      case I_GET_DTYPE: {
        Node* n = NODE(pc[2]);
        REQUIRE(n);
        r[pc[1]] = Value::dtype(n->dtype);
        pc += 3;
        break;
      }
      case I_GET_OP: {
        Node* n = NODE(pc[2]);
        REQUIRE(n);
        r[pc[1]] = Value::opcode(n->op);
        pc += 3;
        break;
      }
      case I_GET_ATTR: {
        Node* n = NODE(pc[2]);
        REQUIRE(n && n->attrs && pc[3] < int(n->attrs->size));
        r[pc[1]] = n->attrs->items[pc[3]];
        pc += 4;
        break;
      }
      case I_GET_VALUE: {
        if (r[pc[2]].tag == Tag::Seq) {
          Value s = r[pc[2]];
          Value* items = allocate(s.q.size);
          for (uint32_t k = 0; k < s.q.size; k++) {
            REQUIRE(s.q.items[k].tag == Tag::Node && is_const(s.q.items[k].n));
            items[k] = const_value(s.q.items[k].n);
          }
          r[pc[1]] = Value::seq(items, s.q.size);
        } else {
          Node* n = NODE(pc[2]);
          REQUIRE(n && is_const(n));
          r[pc[1]] = const_value(n);
        }
        pc += 3;
        break;
      }
      case I_GET_MEMBER: {
        Value v;
        REQUIRE(member(r[pc[2]], program.constants[pc[3]].s, v));
        r[pc[1]] = v;
        pc += 4;
        break;
      }
      case I_CONSTANT:
        r[pc[1]] = program.constants[pc[2]];
        pc += 3;
        break;
      case I_MOVE:
        r[pc[1]] = r[pc[2]];
        pc += 3;
        break;
      case I_JUMP:
        jump(pc[1]);
        break;
      case I_JUMP_FALSE:
        REQUIRE(r[pc[1]].tag == Tag::Bool);
        if (r[pc[1]].b) pc += 3;
        else jump(pc[2]);
        break;
      case I_JUMP_TRUE:
        REQUIRE(r[pc[1]].tag == Tag::Bool);
        if (r[pc[1]].b) jump(pc[2]);
        else pc += 3;
        break;
      case I_GUARD:
        REQUIRE(r[pc[1]].tag == Tag::Bool && r[pc[1]].b);
        pc += 2;
        break;
      case I_FAIL:
        goto failed;
      case I_RETURN:
        result = r[pc[1]];
        return Status::Done;
      case I_BEGIN:
        spend(1);
        bottoms.push_back(uint32_t(building.size()));
        pc += 1;
        break;
      case I_APPEND:
        REQUIRE(bottoms.size() > bottom);
        spend(kValueCost);
        building.push_back(r[pc[1]]);
        pc += 2;
        break;
      case I_EXTEND: {
        const Value& s = r[pc[1]];
        REQUIRE(s.tag == Tag::Seq && bottoms.size() > bottom);
        spend(uint64_t(s.q.size) * kValueCost);
        building.insert(building.end(), s.q.items, s.q.items + s.q.size);
        pc += 2;
        break;
      }
      case I_FINISH: {
        REQUIRE(bottoms.size() > bottom);
        uint32_t from = bottoms.back();
        bottoms.pop_back();
        Value made = sequence(building.data() + from, uint32_t(building.size() - from));
        building.resize(from);
        REQUIRE(made.q.depth <= kDeepest);
        r[pc[1]] = made;
        pc += 2;
        break;
      }
      case I_ITERATE: {
        Value &at = r[pc[1]], &s = r[pc[3]];
        REQUIRE(at.tag == Tag::Int && s.tag == Tag::Seq && at.i >= 0);
        if (at.i >= Int(s.q.size)) {
          jump(pc[4]);
        } else {
          Value item = s.q.items[uint32_t(at.i)];
          at.i += 1;
          r[pc[2]] = item;
          pc += 5;
        }
        break;
      }
      case I_UNPACK: {
        Value s = r[pc[1]];
        int32_t n = pc[2];
        REQUIRE(s.tag == Tag::Seq && s.q.size == uint32_t(n));
        for (int32_t k = 0; k < n; k++) r[pc[3 + k]] = s.q.items[k];
        pc += 3 + n;
        break;
      }
      case I_SUBSCRIPT: {
        const Value &s = r[pc[2]], &i = r[pc[3]];
        REQUIRE(s.tag == Tag::Seq && i.tag == Tag::Int);
        Int k = i.i < 0 ? i.i + s.q.size : i.i;
        REQUIRE(k >= 0 && k < Int(s.q.size));
        Value item = s.q.items[uint32_t(k)];
        r[pc[1]] = item;
        pc += 4;
        break;
      }
      case I_SLICE: {
        Value s = r[pc[2]];
        REQUIRE(s.tag == Tag::Seq);
        auto end_of = [&](int32_t reg, Int missing, Int& v) {
          if (reg < 0) { v = missing; return true; }
          if (r[reg].tag != Tag::Int) return false;
          v = r[reg].i < 0 ? r[reg].i + s.q.size : r[reg].i;
          v = v < 0 ? 0 : v > Int(s.q.size) ? Int(s.q.size) : v;
          return true;
        };
        Int from, to;
        REQUIRE(end_of(pc[3], 0, from) && end_of(pc[4], s.q.size, to));
        r[pc[1]] = Value::seq(s.q.items + uint32_t(from), to > from ? uint32_t(to - from) : 0);
        pc += 5;
        break;
      }
      case I_UNARY: {
        Value v;
        REQUIRE(unary(pc[2], true, r[pc[3]], v));
        r[pc[1]] = v;
        pc += 4;
        break;
      }
      case I_BINARY: {
        const Value &a = r[pc[4]], &b = r[pc[5]];
        Value v;
        int64_t x, y;
        if (a.tag == Tag::Int && b.tag == Tag::Int && a.i == (x = int64_t(a.i)) && b.i == (y = int64_t(b.i))) {
          // The common case, two integers of 64 bits: no overflow in 128.
          switch (pc[2]) {
            case B_ADD: v = Value::integer(a.i + b.i); goto stored;
            case B_SUB: v = Value::integer(a.i - b.i); goto stored;
            case B_MUL: v = Value::integer(a.i * b.i); goto stored;
            case B_CMPLT: v = Value::boolean(x < y); goto stored;
            case B_CMPLE: v = Value::boolean(x <= y); goto stored;
            case B_CMPEQ: v = Value::boolean(x == y); goto stored;
            case B_CMPNE: v = Value::boolean(x != y); goto stored;
            default: break;
          }
        }
        REQUIRE(binary(pc[2], pc[3] != 0, a, b, v));
      stored:
        r[pc[1]] = v;
        pc += 6;
        break;
      }
      case I_BUILTIN: {
        int32_t n = pc[3];
        Value arguments[16];
        REQUIRE(n <= 16);
        for (int32_t k = 0; k < n; k++) arguments[k] = r[pc[4 + k]];
        Value v;
        REQUIRE(builtin(program.builtins[pc[2]], arguments, uint32_t(n), v) && (v.tag != Tag::Seq || v.q.depth <= kDeepest));
        r[pc[1]] = v;
        pc += 4 + n;
        break;
      }
      case I_FUNCTION: {
        CallKey key;
        key.function = uint32_t(pc[2]);
        key.count = uint32_t(pc[3]);
        for (uint32_t k = 0; k < key.count; k++) key.arguments[k] = r[pc[4 + k]];
        auto found = memo.find(key);
        if (found == memo.end()) {
          for (uint32_t k = 0; k < key.count; k++) key.arguments[k] = persistent(key.arguments[k]);
          needed = key;
          return Status::Need;
        }
        REQUIRE(found->second.tag != Tag::None);
        r[pc[1]] = found->second;
        pc += 4 + key.count;
        break;
      }
      case I_EXTERN: {
        int32_t n = pc[3];
        Value arguments[16];
        REQUIRE(n <= 16);
        for (int32_t k = 0; k < n; k++) arguments[k] = r[pc[4 + k]];
        if (!program.externs[pc[2]] || !program.host) throw RewriteError("the extern " + program.extern_names[pc[2]]->text + " has no implementation");
        r[pc[1]] = program.host(program.externs[pc[2]], arguments, uint32_t(n), *this);
        pc += 4 + n;
        break;
      }
      case I_BUILD: {
        int32_t d = pc[1];
        uint32_t op;
        if (pc[2] >= 0) {
          op = uint32_t(pc[2]);
        } else {
          REQUIRE(pc[3] >= 0 && r[pc[3]].tag == Tag::Op);
          op = r[pc[3]].u;
        }
        const OpInfo& o = op_info(op);
        int dtype = -1;
        Node* spread = pc[5] >= 0 ? NODE(pc[5]) : nullptr;
        bool explicit_result = o.result_dtype < 0 && o.result_variable < 0;
        if (pc[4] >= 0) {
          REQUIRE(r[pc[4]].tag == Tag::Dtype);
          dtype = int(r[pc[4]].u);
        } else if (spread && explicit_result) {
          dtype = spread->dtype;
        } else if (explicit_result) {
          dtype = int(like);
        }
        Value attrs[16];
        uint32_t nattrs = uint32_t(o.attributes.size());
        REQUIRE(nattrs <= 16);
        if (spread && spread->op == op && spread->attrs) {
          std::copy(spread->attrs->items, spread->attrs->items + spread->attrs->size, attrs);
        } else {
          for (uint32_t k = 0; k < nattrs; k++)
            if (o.attributes[k].has_default) attrs[k] = o.attributes[k].fallback;
        }
        const int32_t* p = pc + 6;
        int32_t given = *p++;
        for (int32_t k = 0; k < given; k++, p += 2) {
          REQUIRE(uint32_t(p[0]) < nattrs);
          attrs[p[0]] = r[p[1]];
        }
        int32_t n = *p++;
        if (n <= 8) {
          Value direct[8];
          bool splice = false;
          for (int32_t k = 0; k < n; k++) {
            if (p[k] < 0) { splice = true; break; }
            direct[k] = r[p[k]];
          }
          if (!splice) {
            r[d] = Value::node(build(op, dtype, attrs, nattrs, direct, uint32_t(n)));
            pc = p + n;
            break;
          }
        }
        std::vector<Value> sources;
        for (int32_t k = 0; k < n; k++) {
          if (p[k] >= 0) { sources.push_back(r[p[k]]); continue; }
          const Value& s = r[-(p[k] + 1)];
          REQUIRE(s.tag == Tag::Seq);
          spend(uint64_t(s.q.size) * kValueCost);
          sources.insert(sources.end(), s.q.items, s.q.items + s.q.size);
        }
        r[d] = Value::node(build(op, dtype, attrs, nattrs, sources.data(), uint32_t(sources.size())));
        pc = p + n;
        break;
      }
      default:
        throw BytecodeError("an unknown instruction");
    }
  }
failed:
  return Status::Failed;
#undef NODE
#undef REQUIRE
}

Status Machine::run_rule(const Alternative& a, Node* n, Value& result) {
  auto blamed = [&](const std::exception& e) {
    const Rule& rule = program.rules[a.rule];
    return RewriteError("rule " + rule.name->text + " (" + rule.place->text + ") on " + describe(n) + ": " + e.what());
  };
  try {
    return run(program.codes[a.code], result);
  } catch (const GraphError& e) {
    throw blamed(e);
  } catch (const RewriteError& e) {
    throw blamed(e);
  }
}

int Machine::match(const Dispatch& dispatch, Node* n, const Value* extra, uint32_t extra_count, Value& result, std::vector<RuleCount>* counts) {
  const uint32_t *at, *end;
  dispatch.candidates(n, at, end);
  if (at == end) return -1;
  auto mark = arena.mark();
  for (; at != end; at++) {
    const Alternative& a = dispatch.alternatives[*at];
    if (!(a.dtypes >> n->dtype & 1) || n->nsrc < a.min_sources || n->nsrc > a.max_sources) continue;
    if (program.disabled[a.rule]) continue;
    std::chrono::steady_clock::time_point start;
    if (counts) start = std::chrono::steady_clock::now();
    for (;;) {
      like = n->dtype;
      registers[0] = Value::node(n);
      for (uint32_t k = 0; k < extra_count; k++) registers[1 + k] = extra[k];
      Status status = run_rule(a, n, result);
      // A template that gives the matched node itself is no firing: later rules have their turn.
      if (status == Status::Done && result.tag == Tag::Node && result.n == n) status = Status::Failed;
      if (status == Status::Need) {
        CallKey key = needed;
        call(key);
        arena.reset(mark);
        continue;
      }
      if (counts) {
        auto& c = (*counts)[a.rule];
        c.tried++;
        c.nanoseconds += uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
        if (status == Status::Done) c.fired++;
      }
      if (status == Status::Done) return int(*at);
      break;
    }
    arena.reset(mark);
  }
  return -1;
}

// The last call of the stack asked for `needed`, which waits for it.
void Machine::needs_itself(const std::vector<CallKey>& stack) const {
  size_t from = stack.size();
  while (from > 0 && !(stack[from - 1] == needed)) from--;
  std::string chain;
  size_t shown = 0;
  for (size_t k = from ? from - 1 : 0; k < stack.size() && shown < kLongestChain; k++, shown++)
    chain += program.functions[stack[k].function].name->text + "(" + describe(stack[k].arguments[0].n) + ") -> ";
  throw RewriteError("function " + program.functions[needed.function].name->text + " needs its own result: " + chain +
                     (shown == kLongestChain ? "… -> " : "") + program.functions[needed.function].name->text + "(" + describe(needed.arguments[0].n) + ")");
}

// Calls that depend on other calls are put on a stack of our own: when the machine says that it needs a result, that call is made
// first and the rule is tried again.
void Machine::call(const CallKey& first) {
  std::vector<CallKey> stack{first};
  std::unordered_set<CallKey, CallHash> open{first};
  while (!stack.empty()) {
    CallKey key = stack.back();
    const RuleFunction& f = program.functions[key.function];
    if (key.count != f.parameters || key.arguments[0].tag != Tag::Node)
      throw RewriteError("function " + f.name->text + " takes a node and " + std::to_string(f.parameters - 1) + " more arguments");
    Node* n = key.arguments[0].n;
    auto mark = arena.mark();
    const uint32_t *at, *end;
    f.dispatch.candidates(n, at, end);
    Value result;
    bool waiting = false, done = false;
    for (; at != end && !done && !waiting; at++) {
      const Alternative& a = f.dispatch.alternatives[*at];
      if (!(a.dtypes >> n->dtype & 1) || n->nsrc < a.min_sources || n->nsrc > a.max_sources || program.disabled[a.rule]) continue;
      like = n->dtype;
      for (uint32_t k = 0; k < key.count; k++) registers[k] = key.arguments[k];
      Status status = run_rule(a, n, result);
      done = status == Status::Done;
      waiting = status == Status::Need;
    }
    if (waiting) {
      if (!open.insert(needed).second) needs_itself(stack);
      if (stack.size() > kDeepestCall || memo.size() > kMostCalls + 8 * live_nodes())
        throw RewriteError("function " + f.name->text + " does not end: " + std::to_string(stack.size()) + " calls wait for each other, " +
                           std::to_string(memo.size()) + " are done");
      stack.push_back(needed);
    } else {
      memo[key] = done ? persistent(result) : Value::none();
      open.erase(key);
      stack.pop_back();
    }
    arena.reset(mark);
  }
}

}  // namespace rulegrad
