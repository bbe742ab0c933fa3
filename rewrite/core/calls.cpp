// Trying rules on a node, and calling functions on nodes without recursion.
#include "rewrite.hpp"

#include <algorithm>
#include <chrono>

namespace rulegrad {

// Calls of functions that wait for each other, and that are remembered, before they are taken for endless.
constexpr size_t kDeepestCall = 200'000, kMostCalls = 1'000'000, kCallsPerNode = 8;

std::string look_further(const Rule& rule, const std::string& what) {
  if (what.find(kLookFurther) != std::string::npos) return "";
  return kLookFurther + std::string("python -m rulegrad why ") + rule.name->text + " SCRIPT";
}

template <Mode mode>
Status Machine::run_rule(const Alternative& a, Node* n, Value& result) {
  auto blamed = [&](const std::exception& e) {
    const Rule& rule = program.rules[a.rule];
    return RewriteError("rule " + rule.name->text + " (" + rule.location->text + ") on " + brief(n) + ": " + e.what() + look_further(rule, e.what()));
  };
  try {
    if constexpr (mode == Mode::All) return run_all(program.codes[a.code], result);
    else return run(program.codes[a.code], result);
  } catch (const GraphError& e) { throw blamed(e); } catch (const RewriteError& e) {
    throw blamed(e);
  }
}

template <Mode mode>
Status Machine::try_rule(const Alternative& a, Node* n, Value& result) {
  if (program.counts.empty()) return run_rule<mode>(a, n, result);
  auto start = std::chrono::steady_clock::now();
  Status status = run_rule<mode>(a, n, result);
  RuleCount& c = program.counts[a.rule];
  c.nanoseconds += uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
  if (status != Status::Need) c.tried++;  // else it is tried again
  if (mode == Mode::Plain && status == Status::Done && !(result.tag == Tag::Node && result.n == n)) c.fired++;
  return status;
}

// A template that gives the matched node itself is not a result, as in `match`.
bool Machine::offer(const Value& v) {
  auto same = [&](const Value& known) { return equal(known, v); };
  bool is_new = v.tag == Tag::Node ? v.n != registers[0].n && offers.nodes.insert(v.n).second
                                   : std::none_of(offers.results.begin(), offers.results.end(), same);
  if (is_new) offers.results.push_back(v);
  budget = kBudget;
  return ++offers.matches < Offers::kMostMatches && offers.results.size() < offers.most;
}

int Machine::match_all(const Dispatch& dispatch, Node* n, size_t most, int after) {
  if (explainer && explainer->asks(&dispatch) && after < 0) explain(n, nullptr, 0);
  const uint32_t *at, *end;
  dispatch.candidates(n, at, end);
  for (; at != end; at++) {
    const Alternative& a = dispatch.alternatives[*at];
    if (int(*at) <= after || n->nsrc < a.min_sources || n->nsrc > a.max_sources || (*off)[a.rule]) continue;
    Value last;
    for (Status status = Status::Need; status == Status::Need;) {
      offers = {most, 0, {}, {}};
      like = n->dtype;
      registers[0] = Value::node(n);
      status = try_rule<Mode::All>(a, n, last);
      if (status != Status::Need) break;
      if (explainer) asking = {a.rule, n};
      call(*needed);
    }
    if (!offers.results.empty()) return int(*at);
  }
  return -1;
}

int Machine::match(const Dispatch& dispatch, Node* n, const Value* extra, uint32_t extra_count, Value& result, int after) {
  if (explainer && explainer->asks(&dispatch) && after < 0) explain(n, extra, extra_count);
  const uint32_t *at, *end;
  dispatch.candidates(n, at, end);
  if (at == end) return -1;
  auto mark = arena.mark();
  for (; at != end; at++) {
    const Alternative& a = dispatch.alternatives[*at];
    if (int(*at) <= after) continue;
    if (n->nsrc < a.min_sources || n->nsrc > a.max_sources || (*off)[a.rule]) continue;
    for (;;) {
      like = n->dtype;
      registers[0] = Value::node(n);
      for (uint32_t k = 0; k < extra_count; k++) registers[1 + k] = extra[k];
      Status status = try_rule<Mode::Plain>(a, n, result);
      // A template that gives the matched node itself is not a firing: later rules are tried.
      if (status == Status::Done && result.tag == Tag::Node && plain(result.n) == n) status = Status::Failed;
      if (status == Status::Need) {
        if (explainer) asking = {a.rule, n};
        call(*needed);
        arena.reset(mark);
        continue;
      }
      if (status == Status::Done) return int(*at);
      break;
    }
    arena.reset(mark);
  }
  return -1;
}

// The mark is one attribute more than the op has.
Node* Machine::built(Node* n) {
  Value attrs[17];
  uint32_t size = n->attrs ? n->attrs->size : 0;
  if (size) std::copy(n->attrs->items, n->attrs->items + size, attrs);
  attrs[size] = Value::none();
  kept.push_back(make_node(n->op, n->dtype, n->src, n->nsrc, attrs, size + 1));
  return kept.back();
}

Node* Machine::unmarked(Node* n) {
  uint32_t size = uint32_t(op_info(n->op).attributes.size());
  if (!n->attrs || n->attrs->size <= size) return n;
  kept.push_back(make_node(n->op, n->dtype, n->src, n->nsrc, n->attrs->items, size));
  return kept.back();
}

CallKey Machine::key_of(uint32_t function, const Value* arguments, uint32_t count) {
  Value given[kMostParameters];
  std::copy(arguments, arguments + count, given);
  CallKey key{function, packed(given, count), {}};
  std::copy(given, given + key.count, key.arguments);
  return key;
}

// Whether the call has the arguments that the function takes.
static bool takes(const RuleFunction& f, const Memo::Entry& call) {
  constexpr uint32_t most = CallKey::kMost;
  if (call.count != std::min(f.parameters, most) || call.count == 0 || call.arguments[0].tag != Tag::Node) return false;
  const Value& rest = call.arguments[most - 1];
  return f.parameters <= most || (rest.tag == Tag::Seq && rest.q.size == f.parameters - most + 1);
}

void Machine::put_arguments(const RuleFunction& f, uint32_t count, const Value* given, Value* to) {
  for (uint32_t k = 0; k < count; k++) to[k] = given[k];
  if (f.parameters <= CallKey::kMost) return;
  const Seq rest = given[CallKey::kMost - 1].q;
  std::copy(rest.items, rest.items + rest.size, to + CallKey::kMost - 1);
}

// The last call that waits asked for this one, which waits for it.
void Machine::needs_itself(const Memo::Entry& asked) const {
  size_t from = waiting_.size();
  while (from > 0 && waiting_[from - 1].entry != &asked) from--;
  auto shown_as = [&](uint32_t function, const Value& node) { return program.functions[function].name->text + "(" + brief(node.n) + ")"; };
  std::string chain;
  size_t shown = 0;
  for (size_t k = from ? from - 1 : 0; k < waiting_.size() && shown < kLongestChain; k++, shown++)
    chain += shown_as(waiting_[k].entry->function, waiting_[k].entry->arguments[0]) + " -> ";
  throw RewriteError("function " + program.functions[asked.function].name->text + " needs its own result: " + chain +
                     (shown == kLongestChain ? "… -> " : "") + shown_as(asked.function, asked.arguments[0]));
}

// The code that waits keeps its registers, those above are for the call: so a loop over many calls takes as many steps as it has
// calls. Calls that lie deeper are made by `call`, without recursion, and the code is run again from its start. That is also how the
// work of each rule is counted and explained, and how an error is told: once, by the rule that made it.
const Value* Machine::call_within(const Code& code, Memo::Entry& asked) {
  if (within_ >= kDeepestWithin || explainer || recorded || !program.counts.empty()) return nullptr;
  struct Above {  // the registers of others, while the call is made
    Machine& m;
    const uint32_t used, like;
    const int64_t budget;
    Above(Machine& m, uint32_t used) : m(m), used(used), like(m.like), budget(m.budget) {
      m.registers += used;
      m.within_++;
    }
    ~Above() {
      m.registers -= used;
      m.within_--;
      m.like = like;
      m.budget = budget;
    }
  };
  try {
    const Value* result;
    {
      Above above(*this, program.used[size_t(&code - program.codes.data())]);
      result = &call(asked);
    }
    return within_ < kDeepestWithin ? result : nullptr;
  } catch (const std::runtime_error&) {
    within_ = kDeepestWithin;  // it comes again, from where no other rule can be blamed for it
    return nullptr;
  }
}

// Calls that depend on other calls are put on a stack of our own: when the machine says that it needs a result, that call is made
// first and the rule is tried again.
const Value& Machine::call(Memo::Entry& asked) {
  struct Leave {  // however it ends, nothing of it waits any more
    Machine& m;
    size_t bottom, results;
    ~Leave() {
      while (m.waiting_.size() > bottom) {
        m.waiting_.back().entry->state = Memo::State::Absent;
        m.waiting_.pop_back();
      }
      m.of_sources_.resize(results);
    }
  } waiting_calls{*this, waiting_.size(), of_sources_.size()};
  const bool watched_calls = is_watched();
  ask(asked);
  while (waiting_.size() > waiting_calls.bottom) {
    Memo::Entry& entry = *waiting_.back().entry;
    const RuleFunction& f = program.functions[entry.function];
    Value value;
    if (f.nested != Nested::No && entry.count == f.parameters) {
      value = rewritten(f, entry.key());
      if (recorded) recorded->done(waiting_);
    } else if (answer(f, watched_calls, value) == Status::Need) {
      check_depth(f);
      ask(*needed);
      continue;
    } else if (explainer && explainer->asks(&f.dispatch)) {
      calls_to_explain_.push_back(entry.key());
    }
    entry.value = value;
    entry.state = Memo::State::Done;
    of_sources_.resize(waiting_.back().results);
    waiting_.pop_back();
  }
  if (!calls_to_explain_.empty()) explain_calls();
  return asked.value;
}

const Value* Machine::leapt(const RuleFunction& f, Node* n) {
  if (is_watched() || program.disabled[f.leap.rule]) return nullptr;
  if (f.leap.kind == Leap::Constant) return &f.leap.value;
  if (f.leap.kind == Leap::Itself) {
    if (simultaneous) return nullptr;
    itself_ = Value::node(n);
    return &itself_;
  }
  if (nothing_.tag == Tag::None) nothing_ = Value::node(build(known_ops.SINK, -1, nullptr, 0, nullptr, 0));
  return &nothing_;
}

void Machine::ask(Memo::Entry& entry) {
  if (entry.state == Memo::State::Open) needs_itself(entry);
  entry.state = Memo::State::Open;
  Waiting waiting;
  waiting.entry = &entry;
  waiting.results = of_sources_.size();
  waiting_.push_back(waiting);
}

// The result of the last call that waits, by the function's rules: none where no rule matches. When it needs another call first it
// goes on where it was.
Status Machine::answer(const RuleFunction& f, bool is_watched, Value& value) {
  const size_t place = waiting_.size() - 1;
  const Memo::Entry& entry = *waiting_[place].entry;
  Node* n = entry.arguments[0].n;
  if (!waiting_[place].end) {
    if (!takes(f, entry))
      throw RewriteError("function " + f.name->text + " takes " + std::to_string(f.parameters) + " arguments, the first of them a node");
    f.dispatch.candidates(n, waiting_[place].alternative, waiting_[place].end);
  }
  for (; waiting_[place].alternative != waiting_[place].end; waiting_[place].alternative++) {
    const uint32_t k = *waiting_[place].alternative;
    const Alternative& a = f.dispatch.alternatives[k];
    if (n->nsrc < a.min_sources || n->nsrc > a.max_sources || program.disabled[a.rule]) continue;
    if (const Fold& fold = f.folds[k]; fold.kind != Fold::No && !is_watched) {
      if (!knows_sources(f, waiting_[place])) return Status::Need;
      if (fold.kind != Fold::Sources && joined(fold, n, of_sources_.data() + waiting_[place].results, value)) {
        answered = a.rule;
        return Status::Done;
      }
    }
    like = n->dtype;
    put_arguments(f, entry.count, entry.arguments, registers);
    auto mark = arena.mark();
    Value result;
    const Status status = try_rule<Mode::Plain>(a, n, result);
    if (status == Status::Done) {
      answered = a.rule;
      value = persistent(result);
    }
    arena.reset(mark);
    if (status != Status::Failed) return status;
  }
  return Status::Failed;
}

// Whether the results of the function for all sources of the node are there; else the next of these calls is needed.
bool Machine::knows_sources(const RuleFunction& f, Waiting& waiting) {
  const Memo::Entry& call = *waiting.entry;
  const Node* n = call.arguments[0].n;
  if (waiting.asked) {
    of_sources_.push_back(waiting.asked->value);
    waiting.asked = nullptr;
    waiting.source++;
  }
  for (; waiting.source < n->nsrc; waiting.source++) {
    Node* s = n->src[waiting.source];
    const Value* known = f.leap.passes_over(s) && call.count == f.parameters ? leapt(f, s) : nullptr;
    if (!known) {
      Memo::Entry& entry = memo.at(call, s);
      if (entry.state != Memo::State::Done) {
        waiting.asked = needed = &entry;
        return false;
      }
      known = &entry.value;
    }
    of_sources_.push_back(*known);
  }
  return true;
}

namespace {

// Whether some of these are true, or all.
bool quantified(const Value* results, uint32_t count, bool every, Value& value) {
  bool answer = every;
  for (uint32_t k = 0; k < count; k++) {
    if (results[k].tag != Tag::Bool) return false;
    if (results[k].b != every) answer = !every;
  }
  value = Value::boolean(answer);
  return true;
}

// The sequence of nodes that has all elements of all of these, each once: there mostly is one, and the others repeat it.
bool covered(const Value* results, uint32_t count, Value& value) {
  constexpr uint32_t kFew = 16;
  const Value* most = nullptr;
  for (uint32_t k = 0; k < count; k++) {
    if (results[k].tag != Tag::Seq || results[k].q.size > kFew) return false;
    if (results[k].q.size && !most) most = &results[k];
  }
  if (!most) {
    value = Value::seq(nullptr, 0);
    return true;
  }
  const Value *items = most->q.items, *end = items + most->q.size;
  auto is_among = [](const Value& x, const Value* from, const Value* to) {
    return std::any_of(from, to, [&](const Value& other) { return other.n == x.n; });
  };
  for (const Value* x = items; x != end; x++)
    if (x->tag != Tag::Node || is_among(*x, items, x)) return false;
  for (uint32_t k = 0; k < count; k++) {
    const Value& other = results[k];
    if (other.q.items == items) continue;
    for (uint32_t j = 0; j < other.q.size; j++)
      if (other.q.items[j].tag != Tag::Node || !is_among(other.q.items[j], items, end)) return false;
  }
  value = *most;
  return true;
}

}  // namespace

// The value that the rule's code would make of the results for the sources; false where it has to be run.
bool Machine::joined(const Fold& fold, Node* n, const Value* results, Value& value) {
  switch (fold.join) {
    case Fold::ByCall: break;
    case Fold::Any:
    case Fold::All:
      if (quantified(results, n->nsrc, fold.join == Fold::All, value)) return true;
      break;
    case Fold::Distinct:
      if (covered(results, n->nsrc, value)) return true;
      break;
  }
  auto mark = arena.mark();
  budget = kBudget;
  bool done = true, same = true;
  for (uint32_t k = 0; k < n->nsrc && done; k++) {
    done = results[k].tag != Tag::None;
    same &= results[k].tag == Tag::Node && results[k].n == n->src[k];
  }
  if (done && fold.kind == Fold::Rebuild) {
    value = Value::node(n);
    done = same ? !simultaneous : rebuilt(n, results, value);
  } else if (done && fold.kind == Fold::Collect) {
    done = collected(results, n->nsrc, value);
  } else if (done) {
    Value arguments[2] = {fold.first, Value::seq(results, n->nsrc)}, made;
    const uint32_t skip = fold.first.tag == Tag::None;
    done = builtin(fold.builtin, arguments + skip, 2 - skip, made);
    // a sequence that is that of a source need not be copied
    const Value* known =
        done && made.tag == Tag::Seq ? std::find_if(results, results + n->nsrc, [&](const Value& v) { return identical(v, made); }) : nullptr;
    if (done) value = known && known != results + n->nsrc ? *known : persistent(made);
  }
  arena.reset(mark);
  return done;
}

// The node with other sources. False where that is an error, which the rule's code is to tell.
bool Machine::rebuilt(Node* n, const Value* sources, Value& value) {
  const OpInfo& o = op_info(n->op);
  const bool is_explicit = o.result_dtype < 0 && o.result_variable < 0;
  like = n->dtype;
  try {
    value = Value::node(build(n->op, is_explicit ? int(n->dtype) : -1, n->attrs ? n->attrs->items : nullptr,
                              n->attrs ? uint32_t(o.attributes.size()) : 0, sources, n->nsrc));
  } catch (const std::runtime_error&) { return false; }
  return true;
}

// SINK of the sources of these nodes, each once: where that is one of the nodes, it need not be built. False where there are so many
// that they should not be compared one by one.
bool Machine::collected(const Value* nodes, uint32_t count, Value& value) {
  constexpr size_t kFew = 16;
  Room<kFew> found;
  uint32_t size = 0;
  for (uint32_t k = 0; k < count; k++) {
    if (nodes[k].tag != Tag::Node) return false;
    const Node* sink = nodes[k].n;
    for (uint32_t j = 0; j < sink->nsrc; j++) {
      auto is_it = [&](const Value& v) { return v.n == sink->src[j]; };
      if (std::any_of(found.items, found.items + size, is_it)) continue;
      if (size == kFew) return false;
      found.items[size++] = Value::node(sink->src[j]);
    }
  }
  for (uint32_t k = 0; k < count; k++) {
    const Node* sink = nodes[k].n;
    auto is_same = [](const Node* n, const Value& v) { return n == v.n; };
    if (sink->op != known_ops.SINK || !std::equal(sink->src, sink->src + sink->nsrc, found.items, found.items + size, is_same)) continue;
    value = nodes[k];
    return true;
  }
  value = Value::node(build(known_ops.SINK, -1, nullptr, 0, found.items, size));
  return true;
}

// Counting the nodes locks every part of the table: only where a bound without it is passed.
void Machine::check_depth(const RuleFunction& f) const {
  const size_t depth = waiting_.size(), calls = memo.size();
  if (depth <= kDeepestCall && calls <= kMostCalls) return;
  const size_t more = kCallsPerNode * live_nodes();
  if (depth > kDeepestCall + more || calls > kMostCalls + more)
    throw RewriteError("function " + f.name->text + " does not end: " + std::to_string(depth) + " calls wait for each other, " +
                       std::to_string(calls) + " are done");
}

}  // namespace rulegrad
