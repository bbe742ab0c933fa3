// Dispatch: the rules that can match a node, by its op, its dtype and its first sources: compiled when a program is loaded.
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

// For each alternative whether it is admitted, as bits.
using Admitted = std::vector<uint64_t>;

void admit(Admitted& admitted, size_t k) { admitted[k / 64] |= uint64_t(1) << (k % 64); }

}  // namespace

void Dispatch::compile(const std::vector<OpSet>& sets, size_t op_count) {
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
  roots_ = {};
  std::map<std::vector<uint32_t>, uint32_t> known;  // ops with the same alternatives share a table
  for (size_t op = 0; op < op_count; op++) {
    empty_[op] = mine[op].empty();
    if (!mine[op].empty()) roots_.add(uint32_t(op));
    auto [found, first] = known.emplace(mine[op], uint32_t(tables_.size()));
    if (first) tables_.push_back(table(sets, mine[op]));
    of_op_[op] = found->second;
  }
}

Dispatch::Table Dispatch::table(const std::vector<OpSet>& sets, const std::vector<uint32_t>& mine) {
  Table t;
  const size_t words = mine.size() / 64 + 1;
  Classes<Admitted> kinds[4];
  for (size_t dtype = 0; dtype < 32; dtype++) {
    Admitted admitted(words);
    for (size_t k = 0; k < mine.size(); k++)
      if (alternatives[mine[k]].dtypes >> dtype & 1) admit(admitted, k);
    t.of_dtype[dtype] = kinds[0].number(admitted);
  }
  for (size_t position = 0; position < 3; position++) {
    std::map<int32_t, Admitted> by_set;  // the alternatives that want a source of the set; -1: any
    for (size_t k = 0; k < mine.size(); k++) admit(by_set.try_emplace(alternatives[mine[k]].children[position], words).first->second, k);
    const Admitted always = by_set.count(-1) ? by_set[-1] : Admitted(words);
    by_set.erase(-1);
    Classes<Admitted>& classes = kinds[1 + position];
    if (by_set.empty()) {
      classes.number(always);
    } else {
      std::vector<uint64_t> of_symbol;
      for (size_t symbol = 0; symbol <= symbols_; symbol++) of_symbol.insert(of_symbol.end(), always.begin(), always.end());
      for (auto& [set, wanted] : by_set)
        for (size_t symbol = 0; symbol < symbols_; symbol++)
          if (sets[size_t(set)][symbol])
            for (size_t k = 0; k < words; k++) of_symbol[symbol * words + k] |= wanted[k];
      Admitted admitted(words);
      for (size_t symbol = 0; symbol <= symbols_; symbol++) {
        const uint64_t* here = of_symbol.data() + symbol * words;
        const bool again = symbol && std::equal(here, here + words, here - words);  // most are like the one before
        if (!again) admitted.assign(here, here + words);
        t.of_symbol[position].push_back(again ? t.of_symbol[position].back() : classes.number(admitted));
      }
    }
    t.counts[position] = uint32_t(classes.signatures.size());
  }
  std::map<Admitted, Span> shared;
  Admitted both(words);
  for (auto& a : kinds[0].signatures)
    for (auto& b : kinds[1].signatures)
      for (auto& c : kinds[2].signatures)
        for (auto& d : kinds[3].signatures) {
          for (size_t k = 0; k < words; k++) both[k] = a[k] & b[k] & c[k] & d[k];
          auto [found, first] = shared.try_emplace(both);
          if (first) {
            found->second.begin = uint32_t(lists_.size());
            for (size_t k = 0; k < mine.size(); k++)
              if (both[k / 64] >> (k % 64) & 1) lists_.push_back(mine[k]);
            found->second.end = uint32_t(lists_.size());
          }
          t.spans.push_back(found->second);
        }
  return t;
}

}  // namespace rulegrad
