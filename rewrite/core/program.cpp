#include "program.hpp"

#include <algorithm>
#include <map>

#include "interval.hpp"
#include "machine.hpp"
#include "reader.hpp"

namespace rulegrad {

namespace {

const char* kOperands[] = {
#define X(name, operands) operands,
    RULEGRAD_OPCODES(X)
#undef X
};

Program g_op_table;

void check(bool ok, const char* what) {
  if (!ok) throw BytecodeError(what);
}

void read_ops(Reader& r) {
  std::vector<DtypeInfo> dtypes;
  uint32_t n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    DtypeInfo d{};
    d.name = r.text();
    int kind = r.number();
    check(kind >= 0 && kind <= int(Kind::Complex), "an unknown kind of dtype");
    d.kind = Kind(kind);
    d.bits = r.number();
    d.exponent = r.number();
    d.mantissa = r.number();
    bool sized = d.bits == 8 || d.bits == 16 || d.bits == 32 || d.bits == 64 || (d.kind == Kind::Complex && d.bits == 128);
    check(d.kind == Kind::Void || d.kind == Kind::Bool ? d.bits >= 0 && d.bits <= 8 : sized, "a dtype has an odd size");
    check(d.kind != Kind::Index || d.bits == 64, "an index has 64 bits");
    check(d.kind == Kind::Float ? d.exponent >= 2 && d.exponent <= 11 && d.mantissa >= 1 && 1 + d.exponent + d.mantissa == d.bits
                                : d.exponent == 0 && d.mantissa == 0,
          "a float's exponent and mantissa do not fill it");
    dtypes.push_back(d);
  }
  check(dtypes.size() <= 32, "more than 32 dtypes");
  std::vector<OpInfo> ops;
  n = r.count();
  check(n >= 1 && n + kConstSymbols <= kMaxOps, "no ops, or too many");
  struct Default {
    uint32_t op, attribute;
    const Str* name;
  };
  std::vector<Default> names;  // of ops and dtypes, which are looked up when all are known
  for (uint32_t k = 0; k < n; k++) {
    OpInfo o;
    o.name = r.text();
    uint32_t parameters = r.count();
    for (uint32_t j = 0; j < parameters; j++) {
      ParameterInfo p{};
      p.name = r.text();
      p.variable = r.number();
      check(p.variable >= -1 && p.variable < 4, "a dtype variable is out of range");
      p.mask = uint32_t(r.number());
      o.parameters.push_back(p);
    }
    o.min_sources = uint32_t(r.number());
    o.max_sources = uint32_t(r.number());
    o.variadic = r.number() != 0;
    check(parameters <= 64, "an op has too many parameters");
    check(o.variadic || o.max_sources <= o.parameters.size(), "an op has more sources than parameters");
    check(o.min_sources <= o.max_sources, "an op has fewer sources than it must have");
    check(!o.variadic || !o.parameters.empty(), "a variadic op needs a parameter");
    o.result_variable = r.number();
    o.result_dtype = r.number();
    check(o.result_variable < 4 && o.result_dtype < int(dtypes.size()), "a result dtype is out of range");
    for (auto& m : o.variable_masks) m = uint32_t(r.number());
    o.commutative = r.number() != 0;
    check(!o.commutative || o.max_sources == 2, "only ops with two sources commute");
    o.closes = r.number() != 0;
    check(!o.closes || o.variadic, "an op without variadic sources closes no loops");
    int shape = r.number();
    check(shape >= 0 && shape <= int(ShapeRule::Indices), "an unknown shape rule");
    o.shape_rule = ShapeRule(shape);
    o.code_shape = r.number(), o.code_eval = r.number();
    o.code_low = r.number(), o.code_high = r.number();
    o.code_identity = r.number();
    uint32_t checks = r.count();
    for (uint32_t j = 0; j < checks; j++) {
      int code = r.number();
      o.checks.emplace_back(code, r.text());
    }
    o.stages = uint32_t(r.number());
    o.cost = r.number();
    check(o.cost >= 0, "an op costs less than nothing");
    uint32_t attributes = r.count();
    check(attributes <= 16, "an op has too many attributes");
    for (uint32_t j = 0; j < attributes; j++) {
      AttributeInfo a{};
      a.name = r.text();
      int type = r.number();
      check(type >= 0 && type <= int(AttributeType::Tuple), "an unknown attribute type");
      a.type = AttributeType(type);
      a.has_default = r.number() != 0;
      if (a.has_default && (a.type == AttributeType::Op || a.type == AttributeType::Dtype)) names.push_back({k, j, r.text()});
      else if (a.has_default) a.fallback = r.value();
      o.attributes.push_back(a);
    }
    ops.push_back(std::move(o));
  }
  for (const Default& d : names) {
    AttributeInfo& a = ops[d.op].attributes[d.attribute];
    auto place = [&](auto& all) {
      size_t at = 0;
      while (at < all.size() && all[at].name != d.name) at++;
      check(at < all.size(), "an attribute's default is unknown");
      return uint32_t(at);
    };
    a.fallback = a.type == AttributeType::Op ? Value::opcode(place(ops)) : Value::dtype(place(dtypes));
  }
  install_table(std::move(dtypes), std::move(ops));
}

void read_dispatch(Reader& r, Program& p, Dispatch& d) {
  uint32_t n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    Alternative a{};
    a.rule = uint32_t(r.number());
    a.code = uint32_t(r.number());
    a.dtypes = uint32_t(r.number());
    a.min_sources = uint32_t(r.number());
    a.max_sources = uint32_t(r.number());
    a.root = r.number();
    for (auto& c : a.children) c = r.number();
    check(a.rule < p.rules.size() && a.code < p.codes.size(), "a rule or its code is out of range");
    check(a.root >= 0 && a.root < int(p.sets.size()), "an op set is out of range");
    for (int c : a.children) check(c >= -1 && c < int(p.sets.size()), "an op set is out of range");
    d.alternatives.push_back(a);
  }
  d.compile(p.sets, op_count());
}

void read_gatherings(Reader& r, Program& p, Pass& pass) {
  uint32_t n = r.count();
  bool flows = pass.kind == PassKind::ConsumersFirst || pass.kind == PassKind::SourcesFirst;
  check(n == 0 || flows || pass.kind == PassKind::Collect, "only collect and flow passes gather");
  for (uint32_t k = 0; k < n; k++) {
    Gathering g{};
    g.name = r.text();
    g.function = uint32_t(r.number());
    int merge = r.number();
    check(merge >= 0 && merge <= int(Merge::None), "an unknown way to merge");
    g.merge = Merge(merge);
    g.initial = r.value();
    check(g.function < p.functions.size(), "a function is out of range");
    RuleFunction& f = p.functions[g.function];
    check(!f.gathered && f.dispatch.alternatives.empty(), "what is gathered cannot have rules");
    check(!flows || f.parameters == 1, "the state of a node is a function of the node");
    check((g.merge == Merge::None) == (pass.kind == PassKind::SourcesFirst), "a state along the edges is not joined, all others are");
    f.gathered = true;
    if (!flows && (g.merge == Merge::Sum || g.merge == Merge::Count)) f.missing = Value::integer(0);
    if (g.merge == Merge::All) f.missing = Value::seq(nullptr, 0);
    read_dispatch(r, p, g.dispatch);
    pass.gatherings.push_back(std::move(g));
  }
}

void check_nested(const Program& p) {
  for (auto& f : p.functions) {
    if (f.nested == Nested::No) continue;
    check(f.dispatch.alternatives.empty() && !f.gathered, "a function that rewrites cannot have rules");
    check(f.parameters == (f.nested == Nested::Rewritten ? 1 : 2), "a function that rewrites has other parameters");
    check(f.pass >= -1 && f.pass < int(p.passes.size()), "a pass is out of range");
    check(f.pass < 0 || p.passes[size_t(f.pass)].kind <= PassKind::ParentsFirst, "only a rewrite pass can be run on a part");
  }
}

void check_choices(const Program& p) {
  for (auto& pass : p.passes) {
    const size_t normal = size_t(pass.normal);
    check(pass.normal == -1 || (normal < p.passes.size() && p.passes[normal].kind <= PassKind::ParentsFirst), "only a rewrite pass can normalise");
    check(!chooses(pass.kind) || (pass.function >= 0 && p.functions[size_t(pass.function)].parameters == 1),
          "a choose pass needs a function that gives the cost of a node");
  }
}

void check_op_codes(const Program& p) {
  auto valid = [&](int code) { check(code >= -1 && code < int(p.codes.size()), "an op's code is out of range"); };
  for (size_t k = 0; k < op_count(); k++) {
    const OpInfo& o = op_info(uint32_t(k));
    for (int code : {o.code_shape, o.code_eval, o.code_low, o.code_high, o.code_identity}) valid(code);
    for (auto& c : o.checks) valid(c.first);
    check(o.shape_rule != ShapeRule::Code || o.code_shape >= 0, "a shape rule has no code");
  }
}

}  // namespace

const Program& op_table_program() { return g_op_table; }

namespace {

using Registers = std::bitset<kRegisters>;

// One instruction, taken apart and checked against the program's pools.
struct Instruction {
  int32_t opcode = -1;
  std::vector<int32_t> reads, writes;
  int32_t target = -1;  // where it may jump to
};

class Decoder {
 public:
  Decoder(const Program& p, const Code& code) : p_(p), code_(code) {}
  bool more() const { return at_ < code_.size(); }
  size_t at() const { return at_; }

  void take(Instruction& i) {
    i.reads.clear();
    i.writes.clear();
    i.target = -1;
    i.opcode = next();
    check(i.opcode >= 0 && i.opcode < I_COUNT, "an unknown instruction");
    for (const char* o = kOperands[i.opcode]; *o; o++) operand(i, *o);
    if (i.opcode == I_ITERATE || i.opcode == I_PICK || i.opcode == I_LEAST) i.reads.push_back(i.writes[0]);
  }

 private:
  int32_t next() {
    check(at_ < code_.size(), "an instruction is cut off");
    return code_[at_++];
  }
  int32_t below(size_t limit, const char* what) {
    int32_t v = next();
    check(v >= 0 && size_t(v) < limit, what);
    return v;
  }
  int32_t reg(int32_t v) {
    check(v >= 0 && v < kRegisters, "a register is out of range");
    return v;
  }
  void constant(const Instruction& i) {
    int32_t v = below(p_.constants.size(), "a constant is out of range");
    check(i.opcode != I_GET_MEMBER || p_.constants[size_t(v)].tag == Tag::Str, "a member's name must be text");
    check(i.opcode != I_RECORD || (p_.constants[size_t(v)].tag == Tag::Seq && p_.constants[size_t(v)].q.form), "a record has a form");
  }
  void number(const Instruction& i) {
    int32_t v = next();
    if (i.opcode == I_DTYPE_IN) return;  // a mask
    check(v >= 0 && v < 1 << 16, "a number is out of range");
    check(i.opcode != I_UNARY || v < U_COUNT, "an unknown operator");
    check(i.opcode != I_BINARY || v < B_COUNT, "an unknown operator");
  }

  void operand(Instruction& i, char kind) {
    switch (kind) {
      case 'd': i.writes.push_back(reg(next())); break;
      case 'r': i.reads.push_back(reg(next())); break;
      case 'R':
        if (int32_t v = next(); v != -1) i.reads.push_back(reg(v));
        break;
      case 'k': constant(i); break;
      case 'n': number(i); break;
      case 'j': i.target = below(code_.size(), "a jump leads out of the code"); break;
      case 's': below(p_.sets.size(), "an op set is out of range"); break;
      case 'S':
        if (code_.size() > at_ && code_[at_] == -1) next();
        else below(p_.sets.size(), "an op set is out of range");
        break;
      case 'o': below(op_count(), "an op is out of range"); break;
      case 'O':
        if (code_.size() > at_ && code_[at_] == -1) next();
        else below(op_count(), "an op is out of range");
        break;
      case 'b': below(p_.builtins.size(), "a built-in is out of range"); break;
      case 'f': below(p_.functions.size(), "a function is out of range"); break;
      case 'x': below(p_.extern_names.size(), "an extern is out of range"); break;
      case 'v': {
        int32_t n = below(kRegisters, "too many operands");
        check(i.opcode != I_FUNCTION || uint32_t(n) <= kMostParameters, "a function takes too many arguments");
        while (n--) i.reads.push_back(reg(next()));
        break;
      }
      case 'V':
        for (int32_t n = below(kRegisters, "too many operands"); n--;) i.writes.push_back(reg(next()));
        break;
      case 'a':
        for (int32_t n = below(64, "too many attributes"); n--;) {
          below(64, "an attribute is out of range");
          i.reads.push_back(reg(next()));
        }
        break;
      case 'w':
        for (int32_t n = below(kRegisters, "too many sources"); n--;) {
          int32_t v = next();
          i.reads.push_back(reg(v < 0 ? -(v + 1) : v));
        }
        break;
    }
  }

  const Program& p_;
  const Code& code_;
  size_t at_ = 0;
};

}  // namespace

// One pass over the code: what is written before each instruction, on every way to it. A jump back must find at its target no
// more than what it has itself.
uint32_t validate(const Program& p, const Code& code, uint32_t inputs) {
  uint32_t used = std::min(inputs, uint32_t(kRegisters));
  std::vector<bool> starts(code.size(), false);
  std::vector<Registers> before(code.size());
  std::map<size_t, Registers> arriving;
  Registers written;
  for (uint32_t k = 0; k < inputs && k < kRegisters; k++) written.set(k);
  std::vector<size_t> targets;
  bool reached = true;
  Decoder decoder(p, code);
  Instruction i;
  while (decoder.more()) {
    size_t place = decoder.at();
    if (auto found = arriving.find(place); found != arriving.end()) {
      written = reached ? written & found->second : found->second;
      reached = true;
    }
    if (!reached) written.set();  // never run
    starts[place] = true;
    before[place] = written;
    decoder.take(i);
    for (int32_t r : i.reads) check(written[size_t(r)], "a register is read before it is written");
    Registers after = written;
    for (int32_t r : i.writes) {
      after.set(size_t(r));
      used = std::max(used, uint32_t(r) + 1);
    }
    if (i.target >= 0) {
      size_t to = size_t(i.target);
      const Registers& carried = i.opcode == I_ITERATE ? written : after;  // at its end there is no item
      if (to > place) {
        auto [found, first] = arriving.emplace(to, carried);
        if (!first) found->second &= carried;
      } else {
        check(starts[to] && (before[to] & ~carried).none(), "a jump back leads to code that needs more registers");
      }
      targets.push_back(to);
    }
    written = after;
    reached = i.opcode != I_RETURN && i.opcode != I_FAIL && i.opcode != I_JUMP;
  }
  check(!code.empty() && !reached, "the code does not end");
  for (size_t t : targets) check(starts[t], "a jump leads into the middle of an instruction");
  return used;
}

namespace {

// An op, or "CONST 0", "CONST 1", "CONST -1": a constant of that value.
void read_member(std::string_view name, OpSet& set) {
  static const std::string_view constants[kConstSymbols] = {"CONST 0", "CONST 1", "CONST -1"};
  for (size_t k = 0; k < kConstSymbols; k++)
    if (name == constants[k]) {
      set.set(op_count() + k);
      return;
    }
  int op = find_op(name);
  if (op < 0) throw BytecodeError("unknown op " + std::string(name));
  set.set(size_t(op));
  if (uint32_t(op) == known_ops.CONST)
    for (size_t k = 0; k < kConstSymbols; k++) set.set(op_count() + k);
}

void read_program(Program& p, const uint8_t* bytes, size_t size, bool op_table) {
  Reader r(bytes, size, p);
  check(r.bytes() == "rulegrad 1", "not a compiled rule program of this version");
  check((r.number() != 0) == op_table, "an op table was expected, or was not");
  if (op_table) read_ops(r);
  check(table_loaded(), "no op table is loaded");
  uint32_t n = r.count();
  for (uint32_t k = 0; k < n; k++) p.constants.push_back(r.value());
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    OpSet set;
    uint32_t members = r.count();
    for (uint32_t j = 0; j < members; j++) read_member(r.bytes(), set);
    p.sets.push_back(set);
  }
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    auto name = r.bytes();
    int number = find_builtin(name);
    if (number < 0) throw BytecodeError("unknown built-in function " + std::string(name));
    p.builtins.push_back(number);
  }
  n = r.count();
  for (uint32_t k = 0; k < n; k++) p.extern_names.push_back(r.text());
  p.externs.resize(n, nullptr);
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    const Str* name = r.text();
    p.rules.push_back({name, r.text()});
  }
  p.disabled.resize(p.rules.size(), false);
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    Code code(r.count());
    for (auto& word : code) word = r.number();
    p.codes.push_back(std::move(code));
  }
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    RuleFunction f;
    f.name = r.text();
    f.parameters = uint32_t(r.number());
    check(f.parameters <= kMostParameters, "a function takes too many arguments");
    int nested = r.number();
    check(nested >= 0 && nested <= int(Nested::Given), "an unknown kind of function");
    f.nested = Nested(nested);
    f.pass = r.number();
    p.functions.push_back(std::move(f));
  }
  for (auto& f : p.functions) read_dispatch(r, p, f.dispatch);
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    p.passes.emplace_back();
    Pass& pass = p.passes.back();
    pass.name = r.text();
    int kind = r.number();
    check(kind >= 0 && kind <= int(PassKind::ChooseFirst), "an unknown kind of pass");
    pass.kind = PassKind(kind);
    pass.function = r.number();
    check(pass.function >= -1 && pass.function < int(p.functions.size()), "a function is out of range");
    check(pass.kind != PassKind::Reverse || pass.function >= 0, "a reverse pass needs a function");
    pass.normal = r.number();
    pass.fuel = uint32_t(r.number());
    read_dispatch(r, p, pass.dispatch);
    uint32_t m = r.count();
    for (uint32_t j = 0; j < m; j++) {
      Priority q{};
      q.op = r.op();
      q.attribute = r.number();
      q.value = r.value();
      q.priority = r.number();
      pass.priorities.push_back(q);
    }
    m = r.count();
    for (uint32_t j = 0; j < m; j++) {
      uint32_t op = r.op();
      pass.prefixes.emplace_back(op, r.text());
    }
    read_gatherings(r, p, pass);
    p.pass_names[pass.name->text] = k;
  }
  check_nested(p);
  check_choices(p);
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    uint32_t dtype = r.dtype();
    p.type_names[dtype] = r.text();
  }
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    std::string name(r.bytes());
    p.limits[name] = r.value();
  }
  check(r.done(), "there is something after the program's end");
  std::vector<uint32_t> inputs(p.codes.size(), kRegisters);  // by code: how many registers hold something when it starts
  auto runs = [&](int code, size_t count) {
    if (code >= 0) inputs[size_t(code)] = std::min(inputs[size_t(code)], uint32_t(count));
  };
  for (auto& pass : p.passes) {
    for (auto& a : pass.dispatch.alternatives) runs(int(a.code), 1);
    for (auto& g : pass.gatherings)
      for (auto& a : g.dispatch.alternatives) runs(int(a.code), 1);
  }
  for (auto& f : p.functions)
    for (auto& a : f.dispatch.alternatives) runs(int(a.code), f.parameters);
  if (op_table) {
    check_op_codes(p);
    for (size_t k = 0; k < op_count(); k++) {
      const OpInfo& o = op_info(uint32_t(k));
      runs(o.code_shape, 1);
      for (auto& c : o.checks) runs(c.first, 1);
      runs(o.code_eval, o.parameters.size());
      runs(o.code_low, 2 * o.parameters.size());
      runs(o.code_high, 2 * o.parameters.size());
      runs(o.code_identity, 0);
    }
  }
  for (size_t k = 0; k < p.codes.size(); k++) p.used.push_back(validate(p, p.codes[k], inputs[k]));
  find_folds(p);
  find_root_costs(p);
  renew_stamps(p);
}

}  // namespace

// Whether code sees nothing of the sources of its node, which is in the first register, but how many they are, their dtypes and shapes.
static bool sees_shapes_alone(const Program& p, const Code& code) {
  auto is_seen = [&](int builtin) {
    constexpr std::string_view seen[] = {"shape", "rank", "size",   "dtype", "srcs", "len", "prod",
                                         "iota",  "zip",  "sorted", "all",   "any",  "min", "max"};
    return std::any_of(std::begin(seen), std::end(seen), [&](std::string_view name) { return builtin == find_builtin(name); });
  };
  Decoder decoder(p, code);
  Instruction i;
  Registers dtypes;
  while (decoder.more()) {
    const size_t at = decoder.at();
    decoder.take(i);
    for (int32_t k : i.writes) {
      if (k == 0) return false;
      dtypes[size_t(k)] = i.opcode == I_BUILTIN && p.builtins[size_t(code[at + 2])] == find_builtin("dtype");
    }
    switch (i.opcode) {
      case I_GET_ATTR:
        if (i.reads[0] != 0) return false;
        break;
      case I_GET_MEMBER:
        if (!dtypes[size_t(i.reads[0])]) return false;
        break;
      case I_BUILTIN:
        if (!is_seen(p.builtins[size_t(code[at + 2])])) return false;
        break;
      case I_GET_VALUE:
      case I_IS_CONST:
      case I_CONST_IS:
      case I_IS_OP:
      case I_IN_SET:
      case I_GET_OP:
      case I_FUNCTION:
      case I_EXTERN:
      case I_SAME:
      case I_NOT_SAME:
      case I_CHAIN: return false;
      default: break;
    }
  }
  return true;
}

static bool has_shape_of_shapes(const Program& p, const OpInfo& o) {
  auto sees = [&](int code) { return sees_shapes_alone(p, p.codes[size_t(code)]); };
  return (o.shape_rule != ShapeRule::Code || sees(o.code_shape)) &&
         std::all_of(o.checks.begin(), o.checks.end(), [&](const auto& check) { return sees(check.first); });
}

void load_program(Program& p, const uint8_t* bytes, size_t size, bool op_table) {
  if (!op_table) return read_program(p, bytes, size, false);
  if (table_loaded()) throw BytecodeError("the op table is loaded already");
  try {
    read_program(p, bytes, size, true);
  } catch (...) {
    remove_table();
    throw;
  }
  g_op_table = std::move(p);
  for (uint32_t k = 0; k < op_count(); k++) {
    const OpInfo& o = op_info(k);
    set_shape_of_shapes(k, has_shape_of_shapes(g_op_table, o));
    if (o.code_low >= 0 && o.code_high >= 0)
      set_intervals(k, translate_interval(g_op_table, g_op_table.codes[size_t(o.code_low)]),
                    translate_interval(g_op_table, g_op_table.codes[size_t(o.code_high)]));
  }
}

}  // namespace rulegrad
