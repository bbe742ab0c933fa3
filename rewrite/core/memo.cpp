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

size_t CallHash::operator()(const CallKey& k) const {
  uint64_t h = k.function;
  for (uint32_t j = 0; j < k.count; j++) {
    const Value& v = k.arguments[j];
    h = mix(h, v.tag == Tag::Node ? uint64_t(reinterpret_cast<uintptr_t>(v.n)) : hash_value(v));
  }
  return h;
}

CallKey Memo::Entry::key() const {
  CallKey key{function, count, {}};
  std::copy(arguments, arguments + count, key.arguments);
  return key;
}

size_t Memo::place_of(const CallKey& key, uint64_t hash) const {
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.epoch != epoch_) return at;
    if (slot.hash != uint32_t(hash >> 32)) continue;
    const Entry& e = *slot.entry;
    if (e.function == key.function && e.count == key.count && std::equal(key.arguments, key.arguments + key.count, e.arguments, identical)) return at;
  }
}

const Value* Memo::find(const CallKey& key) const {
  const Slot& slot = slots_[place_of(key, CallHash()(key))];
  return slot.epoch == epoch_ && slot.entry->state == State::Done ? &slot.entry->value : nullptr;
}

Memo::Entry& Memo::at(const CallKey& key) {
  const uint64_t hash = CallHash()(key);
  size_t place = place_of(key, hash);
  if (slots_[place].epoch == epoch_) return *slots_[place].entry;
  if (++size_ * 2 > slots_.size()) {
    grow();
    place = place_of(key, hash);
  }
  const size_t bytes = offsetof(Entry, arguments) + key.count * sizeof(Value);
  auto* e = reinterpret_cast<Entry*>(entries_.allocate((bytes + sizeof(Value) - 1) / sizeof(Value)));
  e->function = key.function;
  e->count = key.count;
  e->hash = hash;
  e->state = State::Absent;
  e->value = Value::none();
  std::copy(key.arguments, key.arguments + key.count, e->arguments);
  slots_[place] = {epoch_, uint32_t(hash >> 32), e};
  return *e;
}

void Memo::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.epoch != epoch_) continue;
    size_t at = slot.entry->hash & (slots_.size() - 1);
    while (slots_[at].epoch == epoch_) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
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
