// Why a rule fires or does not: its code is run on a node once more, and watched.
#include <algorithm>

#include "rewrite.hpp"

namespace rulegrad {

Explainer make_explainer(const Program& program, const Pass& pass, const std::string& probe, const std::string& function,
                         const std::vector<std::string>& inside) {
  Explainer made;
  if (function.empty() && inside.empty()) made.subjects.push_back(&pass.dispatch);
  for (auto& f : program.functions) {
    if (!function.empty() && f.name->text == function) made.subjects.push_back(&f.dispatch);
    if (f.name->text == probe) made.probe = &f.dispatch;
  }
  for (auto& g : pass.dataflow)
    if (g.name->text == function) made.subjects = {&g.dispatch};
  for (auto& name : inside) {
    auto found = program.pass_names.find(name);
    if (found == program.pass_names.end()) throw RewriteError("no pass is called " + name);
    made.subjects.push_back(&program.passes[found->second].dispatch);
  }
  if (!made.probe) throw RewriteError("no function is called " + probe);
  return made;
}

// The pass must not see effects of the rule: numbers of `slot` are taken back.
void Machine::explain(Node* n, const Value* extra, uint32_t extra_count) {
  const auto slots_before = slots;
  const auto mark = arena.mark();
  const auto& alternatives = explainer->probe->alternatives;
  for (uint32_t k = 0; k < alternatives.size(); k++) {
    if (!program.sets[size_t(alternatives[k].root)][n->op]) continue;
    Explainer::Attempt attempt{n, k, false, 0, Value::none(), nullptr, ""};
    const Code& code = program.codes[alternatives[k].code];
    for (bool again = true; again;) {
      watched = Watched();
      like = n->dtype;
      std::fill(registers, registers + kRegisters, Value::none());
      registers[0] = Value::node(n);
      for (uint32_t j = 0; j < extra_count; j++) registers[1 + j] = extra[j];
      try {
        Status status = run_watched(code, attempt.result);
        again = status == Status::Need;
        asking = {alternatives[k].rule, n};
        if (again) call(*needed);
        attempt.done = status == Status::Done;
        attempt.pc = attempt.done ? watched.at : watched.failed;
      } catch (const std::runtime_error& e) {
        again = false;
        attempt.error = e.what();
        attempt.pc = watched.at;
      }
    }
    if (explainer->nodes.count(n)) attempt.registers = attempt.done || !attempt.error.empty() ? registers : watched.registers.data();
    explainer->report(attempt);
    arena.reset(mark);
  }
  slots = slots_before;
}

// A rule of a function is explained when all calls that wait are done: what it asks for may be many calls deep.
void Machine::explain_calls() {
  if (explaining_calls_) return;
  explaining_calls_ = true;
  while (!calls_to_explain_.empty()) {
    CallKey key = calls_to_explain_.front();
    calls_to_explain_.pop_front();
    Value arguments[kMostParameters];
    const RuleFunction& f = program.functions[key.function];
    put_arguments(f, key.count, key.arguments, arguments);
    explain(arguments[0].n, arguments + 1, f.parameters - 1);
  }
  explaining_calls_ = false;
}

// The rule is run once more, and watched: what it calls is in memo.
std::vector<CallKey> Machine::recorded_calls(const Alternative& a, Node* n) {
  const auto slots_before = slots;
  const auto mark = arena.mark();
  watched = Watched();
  like = n->dtype;
  registers[0] = Value::node(n);
  Value ignored;
  run_watched(program.codes[a.code], ignored);
  arena.reset(mark);
  slots = slots_before;
  std::vector<CallKey> found;
  for (const CallKey& key : watched.calls)
    if (recorded->calls.count(key) && std::find(found.begin(), found.end(), key) == found.end()) found.push_back(key);
  return found;
}

}  // namespace rulegrad
