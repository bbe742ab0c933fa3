#include "folds.hpp"

#include "program.hpp"

namespace rulegrad {

namespace {

// Reads code that must stand as it is expected.
class Expected {
 public:
  explicit Expected(const Code& code) : code_(code) {}
  // These words come next; kAny: any word. Nothing is taken where they do not.
  static constexpr int32_t kAny = INT32_MIN;
  bool take(std::initializer_list<int32_t> words) {
    if (code_.size() - at_ < words.size()) return false;
    size_t k = at_;
    for (int32_t word : words)
      if (code_[k++] != word && word != kAny) return false;
    at_ = k;
    return true;
  }
  int32_t back(size_t k) const { return code_[at_ - k]; }  // the k-th last of the words that were taken
  bool at_end() const { return at_ == code_.size(); }
  int32_t at() const { return int32_t(at_); }

 private:
  const Code& code_;
  size_t at_ = 0;
};

Fold find_fold(const Program& program, uint32_t function, const Code& code) {
  constexpr int32_t any = Expected::kAny;
  const int32_t parameters = int32_t(program.functions[function].parameters), srcs = find_builtin("srcs");
  Expected next(code);
  Fold found;
  int32_t first = -1, sources;
  if (next.take({I_CONSTANT, any, any})) {
    first = next.back(2);
    found.first = program.constants[size_t(next.back(1))];
  }
  const bool rebuilds = next.take({I_GET_OP, any, 0, I_SOURCE_SLICE, any, 0, 0, 0});
  const int32_t op = rebuilds ? next.back(7) : -1;
  if (rebuilds) sources = next.back(4);
  if (!next.take({I_BEGIN})) return {};
  if (!rebuilds) {
    if (!next.take({I_BUILTIN, any, any, 1, 0}) || program.builtins[size_t(next.back(3))] != srcs) return {};
    sources = next.back(4);
  }
  if (!next.take({I_CONSTANT, any, any})) return {};
  const Value& zero = program.constants[size_t(next.back(1))];
  if (zero.tag != Tag::Int || zero.i != 0) return {};
  const int32_t counter = next.back(2), loop = next.at();
  if (!next.take({I_ITERATE, counter, any, sources, any})) return {};
  const int32_t item = next.back(3), end = next.back(1);
  if (!next.take({I_FUNCTION, any, int32_t(function), parameters, item})) return {};
  const int32_t each = next.back(4);
  for (int32_t k = 1; k < parameters; k++)
    if (!next.take({k})) return {};
  found.kind = Fold::Sources;
  const bool collects = !rebuilds && first < 0 && next.take({I_BUILTIN, any, any, 1, each}) && program.builtins[size_t(next.back(3))] == srcs;
  const int32_t appended = collects ? next.back(4) : each;
  if (!next.take({I_APPEND, appended, I_JUMP, loop}) || next.at() != end || !next.take({I_FINISH, any})) return found;
  const int32_t all = next.back(1);
  if (rebuilds) {
    const bool plain = next.take({I_BUILD, any, -1, op, -1, 0, 0, 1, -(all + 1)}) && next.take({I_RETURN, next.back(8)}) && next.at_end();
    if (plain) found.kind = Fold::Rebuild;
  } else if (collects) {
    if (!next.take({I_BUILTIN, any, any, 1, all}) || program.builtins[size_t(next.back(3))] != find_builtin("distinct")) return found;
    const int32_t items = next.back(4);
    const bool plain = next.take({I_BUILD, any, int32_t(known_ops.SINK), -1, -1, -1, 0, 1, -(items + 1)}) && next.take({I_RETURN, next.back(8)});
    if (plain && next.at_end()) found.kind = Fold::Collect;
  } else if (first < 0 ? next.take({I_BUILTIN, any, any, 1, all}) : next.take({I_BUILTIN, any, any, 2, first, all})) {
    const int32_t result = next.back(first < 0 ? 4 : 5);
    found.builtin = program.builtins[size_t(next.back(first < 0 ? 3 : 4))];
    if (next.take({I_RETURN, result}) && next.at_end()) found.kind = Fold::Builtin;
    auto is = [&](const char* name) { return found.kind == Fold::Builtin && first < 0 && found.builtin == find_builtin(name); };
    found.join = is("any") ? Fold::Any : is("all") ? Fold::All : is("distinct") ? Fold::Distinct : Fold::ByCall;
  }
  return found;
}

Leap find_leap(const Program& program, const RuleFunction& function) {
  if (function.folds.empty()) return {};
  const Fold& fold = function.folds.back();
  const Alternative& last = function.dispatch.alternatives.back();
  const OpSet& everywhere = program.sets[size_t(last.root)];
  bool is_for_all = last.dtypes == ~0u && last.min_sources == 0 && last.max_sources >= uint32_t(INT32_MAX);
  for (int32_t set : last.children) is_for_all &= set < 0;
  for (size_t op = 0; op < op_count(); op++) is_for_all &= everywhere[op];
  if (!is_for_all) return {};
  Leap found;
  found.rule = last.rule;
  for (size_t k = 0; k + 1 < function.folds.size(); k++)
    for (uint32_t op = 0; op < op_count(); op++)
      if (program.sets[size_t(function.dispatch.alternatives[k].root)][op]) found.ops.add(op);
  if (fold.kind == Fold::Rebuild) found.kind = Leap::Itself;
  if (fold.kind == Fold::Collect) found.kind = Leap::Nothing;
  if (fold.kind != Fold::Builtin) return found;
  const bool has_first = fold.first.tag != Tag::None;
  auto is = [&](const char* name) { return fold.builtin == find_builtin(name); };
  // what these make of nothing they make of any number of it
  if (has_first && (is("min") || is("max"))) found.value = fold.first;
  else if (!has_first && (is("any") || is("all"))) found.value = Value::boolean(is("all"));
  else if (!has_first && is("total")) found.value = Value::integer(0);
  else if (!has_first && is("distinct")) found.value = Value::seq(nullptr, 0);
  else return found;
  found.kind = Leap::Constant;
  return found;
}

// Whether code reads nothing of its node but the op, the dtype, the attributes and how many sources there are.
bool reads_root_alone(const Code& code) {
  for (size_t at = 0; at < code.size();) {
    switch (code[at]) {
      case I_FAIL: at += 1; break;
      case I_GUARD:
      case I_JUMP:
      case I_RETURN: at += 2; break;
      case I_IS_OP:
      case I_IN_SET:
      case I_SOURCES:
      case I_SOURCES_MIN:
      case I_DTYPE_IN:
      case I_EQUALS:
      case I_CONSTANT:
      case I_GET_OP:
      case I_GET_DTYPE:
      case I_JUMP_FALSE:
      case I_JUMP_TRUE: at += 3; break;
      case I_GET_ATTR: at += 4; break;
      default: return false;
    }
  }
  return true;
}

// The ops for which a function on one node reads the node alone.
OpSet read_alone(const Program& program, const RuleFunction& function) {
  OpSet found = OpSet().set();
  for (const Alternative& a : function.dispatch.alternatives) {
    bool is_alone = reads_root_alone(program.codes[a.code]);
    for (int32_t set : a.children) is_alone &= set < 0;
    if (!is_alone) found &= ~program.sets[size_t(a.root)];
  }
  return found;
}

}  // namespace

void find_root_costs(Program& program) {
  for (Pass& pass : program.passes)
    if (chooses(pass.kind) && pass.function >= 0 && pass.normal < 0) pass.costs_root = read_alone(program, program.functions[size_t(pass.function)]);
}

void find_folds(Program& program) {
  for (uint32_t k = 0; k < program.functions.size(); k++) {
    RuleFunction& f = program.functions[k];
    for (const Alternative& a : f.dispatch.alternatives) f.folds.push_back(find_fold(program, k, program.codes[a.code]));
    f.leap = find_leap(program, f);
  }
}

}  // namespace rulegrad
