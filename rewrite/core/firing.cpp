#include "firing.hpp"

#include <algorithm>
#include <iterator>

namespace rulegrad {

namespace {
constexpr uint64_t kFuelPerNode = 50;  // of the graph that is given

bool is_plain(const Program& program, const Options& o) {
  const bool plain = !o.trace && !o.check_shapes && !o.explainer && o.follow.empty() && o.limit == kNoLimit && o.kept_choices == 1;
  return plain && program.counts.empty();
}
}  // namespace

Firer::Firer(const Program& program, const Pass& pass, const Options& options, Outcome& out)
    : program_(program), pass_(pass), options_(options), out_(out), machine_(program), fuel_(options.fuel), is_plain_(is_plain(program, options)) {
  machine_.explainer = options.explainer;
  machine_.nested = options.nested;
  machine_.kept_choices = options.kept_choices;
  if (options.trace) {
    recorded_ = std::make_unique<Recorded>();
    machine_.recorded = recorded_.get();
  }
  if (options.limit == kNoLimit) return;
  without_limited_ = program.disabled;
  for (uint32_t k = 0; k < without_limited_.size(); k++)
    if (is_limited(k)) without_limited_[k] = true;
  if (!options.limit) machine_.off = &without_limited_;
}

// Records that belong to no finished call are from before an error.
Firer::~Firer() {
  if (recorded_) std::move(recorded_->latest.begin(), recorded_->latest.end(), std::back_inserter(out_.remaining));
}

Node* Firer::try_rules(Node* n, Node* found, uint32_t& rule) {
  int alternative = -1;
  Node* result = next_firing(n, alternative);
  if (!result) return nullptr;
  const Alternative& a = pass_.dispatch.alternatives[size_t(alternative)];
  rule = a.rule;
  record(rule, n, found, result, inside_of(a, n));
  return result;
}

Node* Firer::next_firing(Node* n, int& alternative) {
  auto mark = machine_.arena.mark();
  Value v;
  Node* result = nullptr;
  alternative = machine_.match(pass_.dispatch, n, nullptr, 0, v, alternative);
  if (alternative >= 0) { result = result_of(pass_.dispatch.alternatives[size_t(alternative)].rule, n, v); }
  machine_.arena.reset(mark);
  return result;
}

Node* Firer::result_of(uint32_t rule, Node* n, const Value& v) {
  if (v.tag == Tag::None || v.tag == Tag::Seq || v.tag == Tag::Str) fail(rule, n, "its template is not a node but " + show(v));
  Node* result = machine_.lift(v, n->dtype);
  if (machine_.plain(result) == n) return nullptr;
  if (result->dtype != n->dtype)
    fail(rule, n, "it changes the dtype from " + dtype_info(n->dtype).name->text + " to " + dtype_info(result->dtype).name->text);
  if (options_.check_shapes) check_shape(rule, n, result);
  return result;
}

std::vector<Node*> Firer::next_firings(Node* n, size_t most, int& alternative) {
  auto mark = machine_.arena.mark();
  std::vector<Node*> made;
  alternative = machine_.match_all(pass_.dispatch, n, most, alternative);
  if (alternative >= 0) {
    const std::vector<Value> results = std::move(machine_.offers.results);
    for (const Value& v : results)
      if (Node* result = result_of(pass_.dispatch.alternatives[size_t(alternative)].rule, n, v)) made.push_back(result);
  }
  machine_.arena.reset(mark);
  return made;
}

std::vector<Inside> Firer::inside_of(const Alternative& a, Node* n) {
  std::vector<Inside> found;
  if (!recorded_ || recorded_->calls.empty()) return found;
  for (const CallKey& key : machine_.recorded_calls(a, n)) {
    const std::vector<Inside>& made = recorded_->calls.at(key);
    found.insert(found.end(), made.begin(), made.end());
  }
  return found;
}

void Firer::record(uint32_t rule, Node* n, Node* found, Node* result, std::vector<Inside> inside) {
  if (options_.trace) out_.firings.push_back({rule, Ref::share(found), Ref::share(n), Ref::share(result), std::move(inside)});
  fired_.push_back(rule);
  if (options_.limit != kNoLimit && is_limited(rule)) out_.fired_limited++;
  stop_limited();
  if (++out_.fired > fuel_) need_more(fuel_, options_.fuel, kFuelPerNode, out_.fired);
}

void Firer::include(Outcome& part) {
  std::move(part.firings.begin(), part.firings.end(), std::back_inserter(out_.firings));
  out_.visited += part.visited;
  out_.fired += part.fired;
  out_.fired_limited += part.fired_limited;
  stop_limited();
}

void Firer::stop_limited() {
  if (options_.limit != kNoLimit && out_.fired_limited >= options_.limit) machine_.off = &without_limited_;
}

Node* Firer::with_sources(Node* n, Node* const* src) {
  if (std::equal(src, src + n->nsrc, n->src)) return n;
  Node* made = rulegrad::with_sources(n, src);
  machine_.kept.push_back(made);
  return made;
}

std::string Firer::with_location(uint32_t rule) const { return program_.rules[rule].name->text + " (" + program_.rules[rule].location->text + ")"; }

std::string Firer::chain_of(const std::vector<uint32_t>& rules) const {
  std::string names;
  for (size_t k = 0; k < rules.size() && k < kLongestChain; k++) names += (k ? " -> " : "") + with_location(rules[k]);
  if (rules.size() > kLongestChain) names += " -> … (" + std::to_string(rules.size()) + " firings)";
  return names;
}

void Firer::fail(uint32_t rule, Node* n, const std::string& what) const {
  throw RewriteError("rule " + with_location(rule) + " on " + brief(n) + ": " + what + look_further(program_.rules[rule], what));
}

// Whether it stands in a kernel, where shapes are the lanes of vectors.
static bool is_of_kernel(Node* n) {
  for (Node* below : toposort(n))
    if (!(op_info(below->op).levels & 1)) return true;
  return false;
}

void Firer::check_shape(uint32_t rule, Node* before, Node* after) const {
  const Shape *a = shape_of(before), *b = shape_of(after);
  if (a->rank == 1 && b->rank == 0 && is_of_kernel(before)) return;  // the same in all lanes
  if (*a != *b) fail(rule, before, "it changes the shape");
}

void Firer::need_more(uint64_t& limit, uint64_t base, uint64_t per_node, uint64_t wanted) {
  limit = base + per_node * toposort(root_).size();
  if (wanted > limit) out_of_fuel();
}

void Firer::out_of_fuel() const {
  std::vector<uint64_t> times(program_.rules.size());
  for (uint32_t rule : fired_) times[rule]++;
  std::vector<uint32_t> order(times.size());
  for (uint32_t k = 0; k < order.size(); k++) order[k] = k;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return times[a] > times[b]; });
  std::string top;
  for (size_t k = 0; k < 3 && k < order.size() && times[order[k]]; k++)
    top += (k ? ", " : "") + with_location(order[k]) + " " + std::to_string(times[order[k]]) + " times";
  throw RewriteError("pass " + pass_.name->text + " did not end after " + std::to_string(out_.fired) + " firings; most often fired: " + top +
                     ". A rule must make progress: see docs/language.md, Passes" + kLookAtAll);
}

}  // namespace rulegrad
