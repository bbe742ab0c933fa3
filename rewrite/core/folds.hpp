// Rules of functions that ask for the function of each source: found in their code when a program is loaded, so that the sources come
// first, one after the other, however deep the graph is, and the usual ways to join their results need no code to run.
#pragma once
#include "value.hpp"

namespace rulegrad {

struct Program;
struct RuleFunction;

struct Fold {
  // Sources: they are asked for first, then the code runs. Collect: SINK of the sources of all results, each once.
  enum Kind : uint8_t { No, Sources, Builtin, Rebuild, Collect } kind = No;
  int builtin = 0;                                                  // that gets the results as one sequence, after `first` if that is a value
  Value first;
};

Fold find_fold(const Program& program, uint32_t function, const std::vector<int32_t>& code);

}  // namespace rulegrad
