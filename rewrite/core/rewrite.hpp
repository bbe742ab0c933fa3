// The traversals: what a pass does to a graph. All decisions are the rules'.
#pragma once
#include "machine.hpp"

namespace rulegrad {

struct Inside;
struct Firing {
  uint32_t rule;
  Ref found, before, after;  // the node as it was found, with the sources that it had when the rule fired, and what became of it
  std::vector<Inside> inside;
};

enum class Verdict : uint8_t { Done, Failed, Given, Taken, Dearer, Costless };
constexpr const char* kVerdicts[] = {"done", "failed", "given", "taken", "not taken", "no cost"};

// Rewriting inside a pass: of a part of a template, or of a candidate of a choose pass. In the round of a choose pass the graph that
// candidates are compared with comes first.
struct Inside {
  const Str* name;  // rewritten or given, and the rules; null in a choose pass
  uint32_t rule;    // the action that gives a candidate
  Verdict verdict;
  Ref before, after;  // null where it failed
  Value cost;
  std::vector<Firing> firings;
  std::vector<Inside> remaining;  // what led to no firing
};

// A traced run's records of the rewriting of parts of templates: by the call, and by the calls that waited for it.
struct Recorded {
  std::unordered_map<CallKey, std::vector<Inside>, CallHash> calls;
  std::vector<Inside> latest;  // of the call that is being made
  template <typename Stack>
  void done(const Stack& stack) {
    if (latest.empty()) return;
    for (const auto& waiting : stack) {
      std::vector<Inside>& made = calls[waiting.entry->key()];
      made.insert(made.end(), latest.begin(), latest.end());
    }
    latest.clear();
  }
};

// One node of a reverse pass: its gradient, and those that the rule gives its sources.
struct GradientFiring {
  uint32_t rule;
  Ref node, gradient;
  std::vector<Ref> sources;  // of the sources that a gradient is wanted of
};

constexpr uint64_t kNoLimit = ~uint64_t(0);

struct Options {
  bool trace = false;
  bool check_shapes = false;
  bool nested = false;        // of a part of a template: may not nest again
  std::vector<Node*> follow;  // nodes of the graph whose results are asked for
  const Explainer* explainer = nullptr;
  // Firings in one run, and firings that lead from one to the next; a large graph may have more of both.
  uint64_t fuel = 2'000'000;
  uint64_t longest_chain = 100'000;
  // After so many firings of the rules in `limited` (by rule; empty: of all), these rules are left out.
  uint64_t limit = kNoLimit;
  std::vector<bool> limited;
  uint32_t kept_choices = 1;  // a `least` line keeps at least so many
};

struct Outcome {
  Ref root;
  std::vector<Firing> firings;
  std::vector<Inside> remaining;  // rewriting inside that led to no firing: before an error, or when a choose pass ends
  std::vector<Ref> followed;      // as Options::follow; null where a node was not visited
  std::vector<std::pair<const Str*, std::vector<Ref>>> numbered;  // nodes that facts of a collect pass numbered, in order
  uint64_t visited = 0, fired = 0;
  uint64_t fired_limited = 0;  // of the rules in Options::limited
  bool is_of_run = false;      // as Machine::is_of_run
};

void rewrite(const Program& program, const Pass& pass, Node* root, const Options& options, Outcome& out);

// A collect or flow pass: facts or states of the graph, then one replacement of all nodes at once.
void replace(const Program& program, const Pass& pass, Node* root, const Options& options, Outcome& out);

// A choose pass: the graph is replaced by what an action leads to, as long as that costs less.
void choose(const Program& program, const Pass& pass, Node* root, const Options& options, Outcome& out);

// Gradients: the function of a reverse pass gives each node's source gradients; consumers first, contributions added up.
// seeds: the gradients of the roots.
std::vector<Ref> reverse(const Program& program, const Pass& pass, const std::vector<Node*>& roots, const std::vector<Node*>& seeds,
                         const std::vector<Node*>& targets, const Explainer* explainer = nullptr, std::vector<GradientFiring>* firings = nullptr);

// The value of a rule-defined function at a node; sequences are copied into `storage`.
Value call_function(const Program& program, const std::string& name, const std::vector<Value>& arguments, Machine& machine);

// A linear order of a kernel: nodes, with each loop's RANGE where it opens and its END where it closes.
struct Line {
  Node* node;
  Node* closes;  // the RANGE that ends here, else null
};
std::vector<Line> linearize(const Pass& pass, Node* root);
// The parameters that a kernel which stores to several of them also loads from, as they were before: each element's loads come before its
// stores, whichever of the stores needs them.
std::vector<Node*> overwritten(const std::vector<Node*>& nodes);
// The parameter that a node loads from, as the kernel found it, and the one that a statement stores to; null where there is none.
Node* loaded_parameter(const Node* n);
Node* stored_parameter(const Node* n);

// Source text of a linear order: statements of the kernel's body, the parameters by slot.
struct Rendered {
  std::string body;
  std::vector<std::pair<int64_t, std::pair<std::string, std::string>>> parameters;  // slot, (name, type)
};
Rendered render(const Program& program, const Pass& pass, const std::vector<Line>& lines);

}  // namespace rulegrad
