#include "program.hpp"

#include <algorithm>

#include "interval.hpp"
#include "machine.hpp"
#include "reader.hpp"

namespace rulegrad {

namespace {

Program g_op_table;

DtypeInfo read_dtype(Reader& r) {
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
  return d;
}

void read_sources(Reader& r, OpInfo& o, size_t dtypes) {
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
  check(o.result_variable < 4 && o.result_dtype < int(dtypes), "a result dtype is out of range");
  for (auto& m : o.variable_masks) m = uint32_t(r.number());
}

// An attribute's default that is an op or a dtype: looked up when all are known.
struct Default {
  uint32_t op, attribute;
  const Str* name;
};

void read_attributes(Reader& r, OpInfo& o, uint32_t op, std::vector<Default>& names) {
  uint32_t attributes = r.count();
  check(attributes <= 16, "an op has too many attributes");
  for (uint32_t j = 0; j < attributes; j++) {
    AttributeInfo a{};
    a.name = r.text();
    int type = r.number();
    check(type >= 0 && type <= int(AttributeType::Tuple), "an unknown attribute type");
    a.type = AttributeType(type);
    a.has_default = r.number() != 0;
    if (a.has_default && (a.type == AttributeType::Op || a.type == AttributeType::Dtype)) names.push_back({op, j, r.text()});
    else if (a.has_default) a.fallback = r.value();
    o.attributes.push_back(a);
  }
}

OpInfo read_op(Reader& r, uint32_t op, size_t dtypes, std::vector<Default>& names) {
  OpInfo o;
  o.name = r.text();
  read_sources(r, o, dtypes);
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
  o.levels = uint32_t(r.number());
  o.cost = r.number();
  check(o.cost >= 0, "an op costs less than nothing");
  read_attributes(r, o, op, names);
  return o;
}

void read_ops(Reader& r) {
  std::vector<DtypeInfo> dtypes;
  uint32_t n = r.count();
  for (uint32_t k = 0; k < n; k++) dtypes.push_back(read_dtype(r));
  check(dtypes.size() <= 32, "more than 32 dtypes");
  std::vector<OpInfo> ops;
  std::vector<Default> names;
  n = r.count();
  check(n >= 1 && n + kConstSymbols <= kMaxOps, "no ops, or too many");
  for (uint32_t k = 0; k < n; k++) ops.push_back(read_op(r, k, dtypes.size(), names));
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

void read_dataflow(Reader& r, Program& p, Pass& pass) {
  uint32_t n = r.count();
  bool flows = pass.kind == PassKind::ConsumersFirst || pass.kind == PassKind::SourcesFirst;
  check(n == 0 || flows || pass.kind == PassKind::Collect, "only collect and flow passes have facts or states");
  for (uint32_t k = 0; k < n; k++) {
    Dataflow d{};
    d.name = r.text();
    d.function = uint32_t(r.number());
    int merge = r.number();
    check(merge >= 0 && merge <= int(Merge::None), "an unknown way to merge");
    d.merge = Merge(merge);
    d.initial = r.value();
    check(d.function < p.functions.size(), "a function is out of range");
    RuleFunction& f = p.functions[d.function];
    check(!f.is_dataflow && f.dispatch.alternatives.empty(), "a fact or a state cannot have rules");
    check(!flows || f.parameters == 1, "the state of a node is a function of the node");
    check((d.merge == Merge::None) == (pass.kind == PassKind::SourcesFirst), "a state along the edges is not joined, all others are");
    f.is_dataflow = true;
    if (!flows && (d.merge == Merge::Sum || d.merge == Merge::Count)) f.missing = Value::integer(0);
    if (d.merge == Merge::All) f.missing = Value::seq(nullptr, 0);
    read_dispatch(r, p, d.dispatch);
    pass.dataflow.push_back(std::move(d));
  }
}

void check_nested(const Program& p) {
  for (auto& f : p.functions) {
    if (f.nested == Nested::No) continue;
    check(f.dispatch.alternatives.empty() && !f.is_dataflow, "a function that rewrites cannot have rules");
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

// Reads the parts of rules: constants, sets of ops, the names of what they call, their own names, and code.
void read_pools(Reader& r, Program& p) {
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
}

void read_functions(Reader& r, Program& p) {
  uint32_t n = r.count();
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
}

void read_pass(Reader& r, Program& p) {
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
  uint32_t n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    Priority q{};
    q.op = r.op();
    q.attribute = r.number();
    q.value = r.value();
    q.priority = r.number();
    pass.priorities.push_back(q);
  }
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    uint32_t op = r.op();
    pass.prefixes.emplace_back(op, r.text());
  }
  read_dataflow(r, p, pass);
  p.pass_names[pass.name->text] = p.passes.size() - 1;
}

void read_target(Reader& r, Program& p) {
  uint32_t n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    uint32_t dtype = r.dtype();
    p.type_names[dtype] = r.text();
  }
  n = r.count();
  for (uint32_t k = 0; k < n; k++) {
    std::string name(r.bytes());
    p.limits[name] = r.value();
  }
}

// By code: how many registers hold something when it starts.
std::vector<uint32_t> inputs_of_codes(const Program& p, bool op_table) {
  std::vector<uint32_t> inputs(p.codes.size(), kRegisters);
  auto runs = [&](int code, size_t count) {
    if (code >= 0) inputs[size_t(code)] = std::min(inputs[size_t(code)], uint32_t(count));
  };
  for (auto& pass : p.passes) {
    for (auto& a : pass.dispatch.alternatives) runs(int(a.code), 1);
    for (auto& d : pass.dataflow)
      for (auto& a : d.dispatch.alternatives) runs(int(a.code), 1);
  }
  for (auto& f : p.functions)
    for (auto& a : f.dispatch.alternatives) runs(int(a.code), f.parameters);
  if (!op_table) return inputs;
  for (size_t k = 0; k < op_count(); k++) {
    const OpInfo& o = op_info(uint32_t(k));
    runs(o.code_shape, 1);
    for (auto& c : o.checks) runs(c.first, 1);
    runs(o.code_eval, o.parameters.size());
    runs(o.code_low, 2 * o.parameters.size());
    runs(o.code_high, 2 * o.parameters.size());
    runs(o.code_identity, 0);
  }
  return inputs;
}

void read_program(Program& p, const uint8_t* bytes, size_t size, bool op_table) {
  Reader r(bytes, size, p);
  check(r.bytes() == "rulegrad 1", "not a compiled rule program of this version");
  check((r.number() != 0) == op_table, "an op table was expected, or was not");
  if (op_table) read_ops(r);
  check(table_loaded(), "no op table is loaded");
  read_pools(r, p);
  read_functions(r, p);
  uint32_t passes = r.count();
  for (uint32_t k = 0; k < passes; k++) read_pass(r, p);
  check_nested(p);
  check_choices(p);
  read_target(r, p);
  check(r.done(), "there is something after the program's end");
  if (op_table) check_op_codes(p);
  const std::vector<uint32_t> inputs = inputs_of_codes(p, op_table);
  for (size_t k = 0; k < p.codes.size(); k++) p.used.push_back(validate(p, p.codes[k], inputs[k]));
  find_folds(p);
  find_root_costs(p);
  renew_stamps(p);
}

bool has_shape_of_shapes(const Program& p, const OpInfo& o) {
  auto sees = [&](int code) { return sees_shapes_alone(p, p.codes[size_t(code)]); };
  return (o.shape_rule != ShapeRule::Code || sees(o.code_shape)) &&
         std::all_of(o.checks.begin(), o.checks.end(), [&](const auto& check) { return sees(check.first); });
}

}  // namespace

const Program& op_table_program() { return g_op_table; }

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
