// The choices of patterns and clauses: the members of a chain in any order, the items of a sequence, the rows of a table.
#include "machine.hpp"

namespace rulegrad {

bool Machine::chain_of(Node* n, uint32_t op, uint32_t least, uint32_t most, Value& result) {
  constexpr uint32_t kMost = 64;  // sharing can make a chain very long
  Node *open[kMost + 1], *members[kMost];
  uint32_t waiting = 0, count = 0;
  most = most < kMost ? most : kMost;
  open[waiting++] = n;
  while (waiting) {
    Node* x = open[--waiting];
    if (x->op == op && x->nsrc == 2) {
      if (count + waiting + 2 > most) return false;  // each that waits is a member, or has some
      open[waiting++] = x->src[1];
      open[waiting++] = x->src[0];
    } else {
      members[count++] = x;
    }
  }
  if (count < least) return false;
  Value* items = allocate(count);
  for (uint32_t k = 0; k < count; k++) items[k] = Value::node(members[k]);
  result = Value::seq(items, count);
  return true;
}

// counted: how many registers, and the registers, each with the number after the place that it stands for
bool Machine::can_pick(const Value& item, const OpSet* set, uint32_t place, const int32_t* counted) const {
  if (set && (item.tag != Tag::Node || !(*set)[item.n->symbol])) return false;
  for (int32_t k = 0; k < counted[0]; k++) {
    const Value& taken = registers[counted[1 + k]];
    if (taken.tag == Tag::Int && taken.i == Int(place) + 1) return false;
  }
  return true;
}

const Value* find_row(const Value& rows, const Value& key) {
  for (uint32_t k = 0; k < rows.q.size; k++) {
    const Value& row = rows.q.items[k];
    if (row.tag == Tag::Seq && row.q.size && equal(row.q.items[0], key)) return &row;
  }
  return nullptr;
}

}  // namespace rulegrad
