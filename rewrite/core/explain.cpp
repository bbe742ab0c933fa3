// Why a rule fires or does not: its code is run on a node once more, and watched.
#include <algorithm>

#include "machine.hpp"

namespace rulegrad {

Explainer make_explainer(const Program& program, const Pass& pass, const std::string& probe, const std::string& function) {
  Explainer made;
  made.subject = &pass.dispatch;
  for (auto& f : program.functions) {
    if (f.name->text == function) made.subject = &f.dispatch;
    if (f.name->text == probe) made.probe = &f.dispatch;
  }
  for (auto& g : pass.gatherings)
    if (g.name->text == function) made.subject = &g.dispatch;
  if (!made.probe) throw RewriteError("no function is called " + probe);
  return made;
}

// What the rule does must not be seen by the pass: numbers of `slot` are taken back.
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
        if (again) call(CallKey(needed));
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
    explain(key.arguments[0].n, key.arguments + 1, key.count - 1);
  }
  explaining_calls_ = false;
}

}  // namespace rulegrad
