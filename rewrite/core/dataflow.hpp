// Values by key, joined as they come: the facts of collect passes, the states of flow passes.
#pragma once
#include <unordered_set>

#include "machine.hpp"

namespace rulegrad {

class DataflowValues {
 public:
  DataflowValues(Machine& machine, const Dataflow& dataflow) : machine_(machine), dataflow_(dataflow) {}

  // Throws RewriteError where the value is not of the kind that is joined.
  void add(const CallKey& key, const Value& value);
  // The merged value of a key; false when there is none.
  bool find(const CallKey& key, Value& value);
  // Makes all of it known to the machine, as results of the fact.
  void publish();
  const std::vector<CallKey>& keys() const { return order_; }  // in the order in which they came

 private:
  struct Hash {
    size_t operator()(const Value& v) const;
  };
  struct Same {
    bool operator()(const Value& a, const Value& b) const { return identical(a, b); }
  };
  struct Entry {
    Value value;
    std::vector<Value> items;  // all, union: the distinct values
    std::unordered_set<Value, Hash, Same> seen;
  };
  void join(Entry& e, const Value& value);
  void include(Entry& e, const Value& value);

  Machine& machine_;
  const Dataflow& dataflow_;
  std::unordered_map<CallKey, Entry, CallHash> entries_;
  std::vector<CallKey> order_;
};

}  // namespace rulegrad
