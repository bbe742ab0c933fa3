#include "memo.hpp"

#include <algorithm>
#include <cstddef>
#include <new>

#include "node.hpp"

namespace rulegrad {

Value* Arena::allocate_elsewhere(uint64_t count) {
  constexpr size_t kBlock = 4096;
  while (block_ < blocks_.size() && count > room_) begin(block_ + 1, 0);
  if (block_ == blocks_.size()) {
    size_t size = std::max<size_t>(kBlock, count);
    blocks_.emplace_back(std::make_unique<Value[]>(size), size);
    begin(block_, 0);
  }
  return allocate(count);
}

bool CallKey::operator==(const CallKey& o) const {
  return function == o.function && count == o.count && std::equal(arguments, arguments + count, o.arguments, identical);
}

static uint64_t hash_argument(const Value& v) { return v.tag == Tag::Node ? uint64_t(reinterpret_cast<uintptr_t>(v.n)) : hash_value(v); }

static uint64_t hash_of(uint64_t rest, uint32_t count, const Value* arguments) { return count ? mix(rest, hash_argument(arguments[0])) : rest; }

size_t CallHash::operator()(const CallKey& k) const {
  uint64_t h = k.function;
  for (uint32_t j = 0; j < k.count; j++) h = mix(h, hash_argument(k.arguments[j]));
  return h;
}

CallKey Memo::Entry::key() const {
  CallKey key{function, count, {}};
  std::copy(arguments, arguments + count, key.arguments);
  return key;
}

template <typename Same>
size_t Memo::place_of(uint64_t hash, Same same) const {
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.epoch != epoch_ || (slot.hash == uint32_t(hash >> 32) && same(*slot.entry))) return at;
  }
}

inline size_t Memo::place_of(uint64_t hash, uint64_t rest, uint32_t function, uint32_t count, const Value* arguments) const {
  return place_of(hash, [&](const Entry& e) {
    return e.rest == rest && e.function == function && e.count == count && std::equal(arguments, arguments + count, e.arguments, identical);
  });
}

static uint64_t rest_of(uint32_t function, uint32_t count, const Value* arguments) {
  uint64_t rest = function;
  for (uint32_t k = 1; k < count; k++) rest = mix(rest, hash_argument(arguments[k]));
  return rest;
}

const Memo::Entry* Memo::find(uint32_t function, uint32_t count, const Value* arguments) const {
  const uint64_t rest = rest_of(function, count, arguments);
  const Slot& slot = slots_[place_of(hash_of(rest, count, arguments), rest, function, count, arguments)];
  return slot.epoch == epoch_ ? slot.entry : nullptr;
}

Memo::Entry& Memo::at(uint32_t function, uint32_t count, const Value* arguments) {
  const uint64_t rest = rest_of(function, count, arguments), hash = hash_of(rest, count, arguments);
  const size_t place = place_of(hash, rest, function, count, arguments);
  if (slots_[place].epoch == epoch_) return *slots_[place].entry;
  Entry& made = add(place, hash, rest, function, count);
  for (uint32_t k = 0; k < count; k++) made.arguments[k] = entries_.copy(arguments[k]);
  return made;
}

Memo::Entry& Memo::at(const Entry& call, Node* n) {
  const uint64_t hash = mix(call.rest, reinterpret_cast<uintptr_t>(n));
  const size_t place = place_of(hash, [&](const Entry& e) {
    return e.arguments[0].tag == Tag::Node && e.arguments[0].n == n && e.rest == call.rest && e.function == call.function && e.count == call.count &&
           std::equal(call.arguments + 1, call.arguments + call.count, e.arguments + 1, identical);
  });
  if (slots_[place].epoch == epoch_) return *slots_[place].entry;
  Entry& made = add(place, hash, call.rest, call.function, call.count);
  made.arguments[0] = Value::node(n);
  std::copy(call.arguments + 1, call.arguments + call.count, made.arguments + 1);
  return made;
}

// An entry without its arguments.
Memo::Entry& Memo::add(size_t place, uint64_t hash, uint64_t rest, uint32_t function, uint32_t count) {
  if (++size_ * 2 > slots_.size()) {
    grow();
    place = place_of(hash, [](const Entry&) { return false; });
  }
  const size_t bytes = offsetof(Entry, arguments) + count * sizeof(Value);
  auto* e = reinterpret_cast<Entry*>(entries_.allocate((bytes + sizeof(Value) - 1) / sizeof(Value)));
  e->rest = rest;
  e->function = function;
  e->count = uint16_t(count);
  e->state = State::Absent;
  e->value = Value::none();
  slots_[place] = {epoch_, uint32_t(hash >> 32), e};
  return *e;
}

void Memo::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.epoch != epoch_) continue;
    const uint64_t hash = hash_of(slot.entry->rest, slot.entry->count, slot.entry->arguments);
    slots_[place_of(hash, [](const Entry&) { return false; })] = slot;
  }
}

void Memo::clear() {
  if (slots_.size() > kMany || ++epoch_ == 0) {
    std::vector<Slot>(kFewest).swap(slots_);
    epoch_ = 1;
  }
  size_ = 0;
  entries_.reset({0, 0});
  entries_.trim();
}

}  // namespace rulegrad
