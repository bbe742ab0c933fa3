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

bool Machine::least_of(const Value& least, const Value& value, uint32_t most, const int32_t* counted, Value& result) {
  if (least.tag != Tag::Seq || (value.tag != Tag::Int && value.tag != Tag::Float)) return false;
  if (value.tag == Tag::Float && value.f != value.f) return false;
  uint32_t place = least.q.size;
  for (Value below; place; place--) {
    const Value& item = least.q.items[place - 1];
    if (item.tag != Tag::Seq || !item.q.size || !binary(B_CMPLT, false, value, item.q.items[0], below)) return false;
    if (!below.b) break;
  }
  if (place >= most) return false;
  const uint32_t count = uint32_t(counted[0]), size = std::min(least.q.size + 1, most);
  Value* taken = allocate(uint64_t(count) + 1);
  taken[0] = value;
  for (uint32_t k = 0; k < count; k++) taken[1 + k] = registers[counted[1 + k]];
  Value* items = allocate(size);
  std::copy(least.q.items, least.q.items + place, items);
  items[place] = Value::seq(taken, count + 1);
  std::copy(least.q.items + place, least.q.items + size - 1, items + place + 1);
  result = Value::seq(items, size);
  return result.q.depth <= kDeepest;
}

const Value* find_row(const Value& rows, const Value& key) {
  for (uint32_t k = 0; k < rows.q.size; k++) {
    const Value& row = rows.q.items[k];
    if (row.tag == Tag::Seq && row.q.size && equal(row.q.items[0], key)) return &row;
  }
  return nullptr;
}

}  // namespace rulegrad
