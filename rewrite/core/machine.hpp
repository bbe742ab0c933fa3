// The register machine that matches patterns, evaluates guards and builds templates.
#pragma once
#include <algorithm>
#include <functional>
#include <unordered_set>

#include "memo.hpp"
#include "number.hpp"
#include "program.hpp"

namespace rulegrad {

// Sequences are what takes memory in a run that does not end.
constexpr uint64_t kValueCost = 4, kNodeCost = 16;

enum class Status : uint8_t { Failed, Done, Need };
// How code is run: to its first result; watched, for someone who asks why; to all of its results.
enum class Mode : uint8_t { Plain, Watched, All };

// Room for values that are written before they are read.
template <size_t size>
struct Room {
  union {
    Value items[size];
  };
  Room() {}
};

constexpr size_t kLongestChain = 16;     // names in a message
constexpr uint32_t kDeepestWithin = 24;  // calls that are made while code runs, on the stack of the processor

// A call that needs another one.
struct Waiting {
  Memo::Entry* entry;
  const uint32_t *alternative = nullptr, *end = nullptr;  // those before have failed
  // The call for this source, whose result is needed; the results of the sources before it, and where they begin.
  const Memo::Entry* asked = nullptr;
  uint32_t source = 0;
  size_t results;
};

// State that is costly to set up: taken from a pool of the thread, for a run on a small graph takes less time than its making.
// Registers keep what an earlier run left; code is verified to read only what it has written.
struct Workspace {
  Value* const registers;  // of code, and above those of code that waits for a call
  Arena arena, persistent;
  Memo memo;
  std::vector<Value> building;  // the sequences under construction, one stack
  std::vector<uint32_t> bottoms;
  std::vector<Waiting> waiting;   // calls, each of which needs the next
  std::vector<Value> of_sources;  // results of calls for the sources of their nodes
  Workspace() : registers(static_cast<Value*>(::operator new(sizeof(Value) * kRegisters * (kDeepestWithin + 1)))) {}
  ~Workspace() { ::operator delete(registers); }
  Workspace(const Workspace&) = delete;
};

// Where code that is watched was, and the furthest place where a test of it failed, with the registers as they were there.
struct Watched {
  int32_t at = 0, failed = -1;
  std::vector<Value> registers;
  std::vector<CallKey> calls;
  void fail(const Value* now) {
    if (at <= failed) return;
    failed = at;
    registers.assign(now, now + kRegisters);
  }
};

// Every way in which code matches: the distinct results, and how many of them are wanted.
struct Offers {
  static constexpr size_t kMostMatches = size_t(1) << 17;  // that are looked at, equal ones too
  size_t most = 0, matches = 0;
  std::vector<Value> results;
  std::unordered_set<const Node*> nodes;  // of the results
};

struct Outcome;
struct Recorded;

// Asked for by someone who wants to know why a rule fires or does not: the rule's alternatives, compiled so that their code
// tests all of the pattern, are tried on every node that the rules of a pass or a function are tried on.
struct Explainer {
  struct Attempt {
    Node* node;
    uint32_t alternative;
    bool done;  // a result was made, else a test failed at pc
    int32_t pc;
    Value result;
    const Value* registers;  // null when the node is not one of `nodes`
    std::string error;       // what the rule did wrong, at pc
  };
  // Rewriting inside the pass begins: of a part of a template, which `rule` asks for at a node, or of its candidate.
  struct Entry {
    const Str* function;  // rewritten or given; null for a candidate
    uint32_t rule;
    Node *at, *graph;  // null where nobody asks
  };
  std::vector<const Dispatch*> subjects;
  const Dispatch* probe = nullptr;
  std::unordered_map<const Node*, bool> nodes;  // whose registers are wanted
  std::function<void(const Attempt&)> report;
  std::function<void(const Entry&)> enter;
  std::function<void(const Outcome&, const std::string& error)> leave;
  bool asks(const Dispatch* d) const { return std::find(subjects.begin(), subjects.end(), d) != subjects.end(); }
};
// The rules of a pass, or of a function or of a fact or a state of the pass, or of the passes `inside` (it, and those that run inside it),
// explained by the rules of the function `probe`.
Explainer make_explainer(const Program& program, const Pass& pass, const std::string& probe, const std::string& function,
                         const std::vector<std::string>& inside);

struct Machine {
  explicit Machine(const Program& program);
  ~Machine();
  Machine(const Machine&) = delete;

  const Program& program;
  const std::vector<bool>* off;  // rules of passes that are left out
  uint32_t kept_choices = 1;     // a LEAST keeps at least so many
  std::unique_ptr<Workspace> workspace;
  Value* registers;
  Arena& arena;
  std::vector<Value>& building;
  std::vector<uint32_t>& bottoms;
  std::vector<Node*> kept;  // nodes made in this run, one reference each
  struct Choice {
    const int32_t* resume;
    size_t building, bottoms;
  };
  std::vector<Choice> choices;  // where to go on when something fails, the last first
  uint32_t like = 0;            // dtype that a bare value takes
  uint32_t current_dtype = 0;   // of the op whose evaluator runs
  uint32_t argument_dtype = 0;
  bool wraps = false;  // that dtype is a fixed-width integer: only the lower bits of a result count
  Memo& memo;
  Memo::Entry* needed = nullptr;  // when run() says Need
  uint32_t answered = 0;          // the rule that gave the last call its result
  struct Slots {
    std::unordered_map<const Node*, int64_t> number;
    std::vector<Node*> order;
  };
  std::unordered_map<const Str*, Slots> slots;
  SideTable<uint32_t>* uses = nullptr;
  const Node* original = nullptr;  // the node of the graph that the rules are tried on in a walk,
  const Node* matched = nullptr;   // and that node with final sources
  const Explainer* explainer = nullptr;
  Recorded* recorded = nullptr;  // of a run that is traced
  struct Asking {
    uint32_t rule;
    Node* node;
  };
  Asking asking{~0u, nullptr};  // of a run that is explained: the rule that calls, and the node it is tried on
  Offers offers;
  bool nested = false;        // it rewrites a part of a template
  bool is_of_run = false;     // something was asked that another run may answer differently: a slot, an extern
  bool simultaneous = false;  // all nodes of the graph, which are those in `uses`, are replaced at once

  // One match or call may not run for ever, whatever its code says: loops, memory and visited nodes are paid for.
  static constexpr int64_t kBudget = int64_t(1) << 26;
  int64_t budget = kBudget;
  void spend(uint64_t work) {
    if ((budget -= int64_t(work)) < 0)
      throw RewriteError("it does more than " + std::to_string(kBudget) + " steps, or makes sequences that are too long");
  }

  // Runs code whose inputs are in the first registers.
  Status run(const Code& code, Value& result);
  // Tries the alternatives in order on n; the index of the one that fired, or -1. Function calls are evaluated on the way.
  // `after`: only those that come after this one.
  int match(const Dispatch& dispatch, Node* n, const Value* extra, uint32_t extra_count, Value& result, int after = -1);
  // The first alternative after this one that gives a result, or -1; all that it gives, in `offers`.
  int match_all(const Dispatch& dispatch, Node* n, size_t most, int after);
  // The calls of an alternative that fired, as far as rewriting inside it is recorded.
  std::vector<CallKey> recorded_calls(const Alternative& a, Node* n);
  const Value& call(Memo::Entry& asked);  // fills memo, never recursive
  // The result of a call that was made, or need not be; null where it must be, by this entry.
  const Value* known_result(uint32_t function, uint32_t count, const Value* arguments, Memo::Entry*& entry) {
    const RuleFunction& f = program.functions[function];
    if (count == f.parameters && arguments[0].tag == Tag::Node && f.leap.passes_over(arguments[0].n))
      if (const Value* found = leapt(f, arguments[0].n)) return found;
    if (f.is_dataflow && count == f.parameters) {  // most nodes have none of most facts: that is not noted for each
      const Memo::Entry* made = memo.find(function, count, arguments);
      return made && made->state == Memo::State::Done ? &made->value : &f.missing;
    }
    entry = &memo.at(function, count, arguments);
    return entry->state == Memo::State::Done ? &entry->value : nullptr;
  }
  Value result_of(const CallKey& key) {
    Memo::Entry* entry;
    const Value* known = known_result(key.function, key.count, key.arguments, entry);
    return known ? *known : call(*entry);
  }
  CallKey key_of(uint32_t function, const Value* arguments, uint32_t count);
  // Puts the arguments of a call as a key has them; how many those are.
  uint32_t packed(Value* arguments, uint32_t count) {
    if (count <= CallKey::kMost) return count;
    arguments[CallKey::kMost - 1] = sequence(arguments + CallKey::kMost - 1, count - CallKey::kMost + 1);
    return CallKey::kMost;
  }
  // All arguments of a call that has those that the function takes.
  static void put_arguments(const RuleFunction& f, uint32_t count, const Value* given, Value* to);

  Value* allocate(uint64_t count);  // values that live until the arena is reset
  Node* keep(Node* owned) {
    kept.push_back(owned);
    return simultaneous && uses->has(owned) && !is_const(owned) ? built(owned) : owned;
  }
  // In a simultaneous replacement a node that a rule builds is not the equal one of the given graph: it is a marked copy.
  Node* plain(Node* n) { return simultaneous ? unmarked(n) : n; }
  Node* lift(const Value& v, uint32_t dtype);
  Value sequence(const Value* items, uint32_t count);
  bool builtin(int number, const Value* a, uint32_t count, Value& result);
  bool binary(int op, bool nodes, const Value& a, const Value& b, Value& result);
  bool unary(int op, bool nodes, const Value& a, Value& result);
  bool member(const Value& owner, const Str* name, Value& result);
  Node* build(uint32_t op, int dtype, const Value* attrs, uint32_t nattrs, const Value* sources, uint32_t count);
  // The instruction BUILD at pc: where the code goes on, or null where it cannot build.
  const int32_t* construct(const int32_t* pc);
  Node* build_infix(uint32_t op, const Value& a, const Value& b);
  // choices.cpp: the members of a chain, in order; and whether an item is in the set and at no place that is counted.
  bool chain_of(Node* n, uint32_t op, uint32_t least, uint32_t most, Value& result);
  bool can_pick(const Value& item, const OpSet* set, uint32_t place, const int32_t* counted) const;
  // The least so far, each with the counted registers, when this value is among them.
  bool least_of(const Value& least, const Value& value, uint32_t most, const int32_t* counted, Value& result);
  Value persistent(const Value& v) { return workspace->persistent.copy(v); }  // sequences copied out of the arena

 private:
  // The result of a call where no rule of the function but the last can match; null where that must be found by its rules.
  const Value* leapt(const RuleFunction& f, Node* n);
  Value itself_, nothing_;  // that it gives
  Node* built(Node* n);
  // Makes a call while code runs that needs it. Null where it must be left to the one who runs the code.
  const Value* call_within(const Code& code, Memo::Entry& asked);
  // nested.cpp: a part of a template, rewritten on its own; none where that is not allowed or gives nothing.
  Value rewritten(const RuleFunction& f, const CallKey& key);
  Node* rewritten(const RuleFunction& f, Node* n);
  Value given(const RuleFunction& f, Node* condition, Node* x);
  Node* unmarked(Node* n);
  template <Mode mode>
  Status try_rule(const Alternative& a, Node* n, Value& result);  // and counts
  template <Mode mode>
  Status run_rule(const Alternative& a, Node* n, Value& result);  // errors name the rule
  template <Mode mode>
  Status execute(const Code& code, Value& result);
  Status run_watched(const Code& code, Value& result);
  Status run_all(const Code& code, Value& result);
  bool offer(const Value& v);  // false when there are enough
  void explain(Node* n, const Value* extra, uint32_t extra_count);
  void explain_calls();
  bool is_watched() const { return explainer || recorded || !program.counts.empty(); }
  void ask(Memo::Entry& entry);
  Status answer(const RuleFunction& f, bool is_watched, Value& value);
  bool knows_sources(const RuleFunction& f, Waiting& waiting);
  bool joined(const Fold& fold, Node* n, const Value* results, Value& value);
  bool rebuilt(Node* n, const Value* sources, Value& value);
  bool collected(const Value* nodes, uint32_t count, Value& value);
  void check_depth(const RuleFunction& f) const;
  [[noreturn]] void needs_itself(const Memo::Entry& asked) const;
  Watched watched;
  std::vector<Waiting>& waiting_;
  std::vector<Value>& of_sources_;
  uint32_t within_ = 0;  // calls that are made while code runs
  std::deque<CallKey> calls_to_explain_;
  bool explaining_calls_ = false;
};

// The first of a sequence of rows whose first item equals the key, or null.
const Value* find_row(const Value& rows, const Value& key);
// The op table's evaluator on constants; false when undefined. The result is as the dtype stores it.
bool evaluate_op(uint32_t op, uint32_t dtype, const Value* arguments, uint32_t count, uint32_t argument_dtype, Value& result);
bool identity_of(uint32_t op, uint32_t dtype, Value& result);

}  // namespace rulegrad
