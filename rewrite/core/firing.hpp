// The step of every traversal at a node: tries the rules, and checks what a firing must keep.
#pragma once
#include "lease.hpp"
#include "rewrite.hpp"

namespace rulegrad {

constexpr uint32_t kNoRule = ~0u;

class Firer {
 public:
  Firer(const Program& program, const Pass& pass, const Options& options, Outcome& out);
  ~Firer();
  Firer(const Firer&) = delete;

 protected:
  // Tries the rules on n, which is `found` with final sources; null when none fires. Checks what every firing must keep.
  Node* fire(Node* n, Node* found, uint32_t& rule) {
    out_.visited++;
    return pass_.dispatch.empty(n->op) ? nullptr : try_rules(n, found, rule);
  }
  // The result of the next alternative after this one that fires on n, not recorded yet; null when none does. Checks as `fire` does.
  Node* next_firing(Node* n, int& alternative);
  // All that the next alternative which fires makes of n, up to a number.
  std::vector<Node*> next_firings(Node* n, size_t most, int& alternative);
  void record(uint32_t rule, Node* n, Node* found, Node* result, std::vector<Inside> inside = {});
  std::vector<Inside> inside_of(const Alternative& a, Node* n);  // what was rewritten when an alternative that fires was tried
  void include(Outcome& part);                                   // what another pass did as a part of this one
  // The node with other sources: itself when they are the same.
  Node* with_sources(Node* n, Node* const* src);
  std::string with_location(uint32_t rule) const;
  std::string chain_of(const std::vector<uint32_t>& rules) const;  // their names, as far as a message shows them
  [[noreturn]] void fail(uint32_t rule, Node* n, const std::string& what) const;
  // A limit is reached: is it the one of a graph of this size?
  void need_more(uint64_t& limit, uint64_t base, uint64_t per_node, uint64_t wanted);

  // Whether no rule is for an op that is there or below: in a plain run, that need not be looked at.
  bool leaps_over(const Node* n) const { return is_plain_ && !n->ops.meets(pass_.dispatch.roots()); }

  bool is_limited(uint32_t rule) const { return options_.limited.empty() || options_.limited[rule]; }

  const Program& program_;
  const Pass& pass_;
  const Options& options_;
  Outcome& out_;
  Machine machine_;
  Node* root_ = nullptr;
  uint64_t fuel_;
  const bool is_plain_;  // nobody looks on, and no rule is left out

 private:
  Node* try_rules(Node* n, Node* found, uint32_t& rule);
  Node* result_of(uint32_t rule, Node* n, const Value& v);
  void stop_limited();
  void check_shape(uint32_t rule, Node* before, Node* after) const;
  [[noreturn]] void out_of_fuel() const;

  std::unique_ptr<Recorded> recorded_;
  std::vector<uint32_t> fired_;  // rules, one firing after the other
  std::vector<bool> without_limited_;
};

}  // namespace rulegrad
