// Which rules can match a node, by its op, its dtype and its first sources: compiled when a program is loaded.
#include <algorithm>
#include <map>

#include "program.hpp"

namespace rulegrad {

namespace {

// Numbers for things that are told apart: equal signatures get the same number.
template <typename Signature>
class Classes {
 public:
  uint8_t number(const Signature& s) {
    auto found = numbers_.find(s);
    if (found == numbers_.end()) {
      if (numbers_.size() == 255) throw BytecodeError("too many kinds of sources for one op");
      found = numbers_.emplace(s, uint8_t(numbers_.size())).first;
      signatures.push_back(s);
    }
    return found->second;
  }
  std::vector<Signature> signatures;

 private:
  std::map<Signature, uint8_t> numbers_;
};

// For each alternative whether it is admitted.
using Admitted = std::vector<bool>;

}  // namespace

void Dispatch::compile(const std::deque<OpSet>& sets, size_t op_count) {
  symbols_ = op_count + kConstSymbols;
  std::vector<std::vector<uint32_t>> mine(op_count);
  for (uint32_t k = 0; k < alternatives.size(); k++) {
    const OpSet& root = sets[size_t(alternatives[k].root)];
    for (size_t op = 0; op < op_count; op++)
      if (root[op]) mine[op].push_back(k);
  }
  tables_.clear();
  lists_.clear();
  of_op_.assign(op_count, 0);
  empty_.assign(op_count, true);
  std::map<std::vector<uint32_t>, uint32_t> known;  // ops with the same alternatives share a table
  for (size_t op = 0; op < op_count; op++) {
    empty_[op] = mine[op].empty();
    auto [found, first] = known.emplace(mine[op], uint32_t(tables_.size()));
    if (first) tables_.push_back(table(sets, mine[op]));
    of_op_[op] = found->second;
  }
}

Dispatch::Table Dispatch::table(const std::deque<OpSet>& sets, const std::vector<uint32_t>& mine) {
  Table t;
  Classes<Admitted> kinds[4];
  for (size_t dtype = 0; dtype < 32; dtype++) {
    Admitted admitted(mine.size());
    for (size_t k = 0; k < mine.size(); k++) admitted[k] = alternatives[mine[k]].dtypes >> dtype & 1;
    t.of_dtype[dtype] = kinds[0].number(admitted);
  }
  for (size_t position = 0; position < 3; position++) {
    // Symbols that are in the same sets need not be looked at twice.
    std::vector<int32_t> used;
    for (uint32_t k : mine) {
      int32_t set = alternatives[k].children[position];
      if (set >= 0 && std::find(used.begin(), used.end(), set) == used.end()) used.push_back(set);
    }
    t.of_symbol[position].resize(symbols_ + 1);
    std::map<std::vector<bool>, uint8_t> by_sets;
    for (size_t symbol = 0; symbol <= symbols_; symbol++) {
      bool missing = symbol == symbols_;
      std::vector<bool> in(used.size());
      for (size_t j = 0; j < used.size(); j++) in[j] = !missing && sets[size_t(used[j])][symbol];
      auto found = by_sets.find(in);
      if (found == by_sets.end()) {
        Admitted admitted(mine.size());
        for (size_t k = 0; k < mine.size(); k++) {
          int32_t set = alternatives[mine[k]].children[position];
          admitted[k] = set < 0 || (!missing && sets[size_t(set)][symbol]);
        }
        found = by_sets.emplace(in, kinds[1 + position].number(admitted)).first;
      }
      t.of_symbol[position][symbol] = found->second;
    }
    t.counts[position] = uint32_t(kinds[1 + position].signatures.size());
  }
  std::map<std::vector<uint32_t>, Span> shared;
  for (auto& a : kinds[0].signatures)
    for (auto& b : kinds[1].signatures)
      for (auto& c : kinds[2].signatures)
        for (auto& d : kinds[3].signatures) {
          std::vector<uint32_t> list;
          for (size_t k = 0; k < mine.size(); k++)
            if (a[k] && b[k] && c[k] && d[k]) list.push_back(mine[k]);
          auto found = shared.find(list);
          if (found == shared.end()) {
            Span span{uint32_t(lists_.size()), uint32_t(lists_.size() + list.size())};
            lists_.insert(lists_.end(), list.begin(), list.end());
            found = shared.emplace(std::move(list), span).first;
          }
          t.spans.push_back(found->second);
        }
  return t;
}

}  // namespace rulegrad
