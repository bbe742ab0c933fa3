// Rules of functions that ask for the function of each source: found in their code when a program is loaded, so that the sources come
// first, one after the other, however deep the graph is, and the usual ways to join their results need no code to run.
#pragma once
#include "node.hpp"

namespace rulegrad {

struct Program;

struct Fold {
  // Sources: they are asked for first, then the code runs. Collect: SINK of the sources of all results, each once.
  enum Kind : uint8_t { No, Sources, Builtin, Rebuild, Collect } kind = No;
  // How a builtin's result is told without calling it, where the results are as usual.
  enum Join : uint8_t { ByCall, Any, All, Distinct } join = ByCall;
  int builtin = 0;  // that gets the results as one sequence, after `first` if that is a value
  Value first;
};

// The result of a function where only its last rule, a fold, stands for ops that are there or below: such nodes need not be looked at.
struct Leap {
  // Constant: the value. Itself: the node. Nothing: SINK of nothing.
  enum Kind : uint8_t { No, Constant, Itself, Nothing } kind = No;
  OpMask ops;  // with rules of their own
  uint32_t rule = 0;
  Value value;
  bool passes_over(const Node* n) const { return kind != No && !n->ops.meets(ops); }
};

void find_folds(Program& program);  // and leaps, of all its functions
// Of choose passes without a normal form: where the cost is read off the root, so that nothing below it can make it less.
void find_root_costs(Program& program);

}  // namespace rulegrad
