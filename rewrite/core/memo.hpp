// Results of calls of functions on nodes, in memory that one run after the other uses again.
#pragma once
#include <algorithm>
#include <memory>

#include "value.hpp"

namespace rulegrad {

// Memory that lives until it is reset to a mark.
class Arena {
 public:
  Value* allocate(uint64_t count) {
    if (count > room_) return allocate_elsewhere(count);
    Value* at = next_;
    next_ += count;
    room_ -= count;
    return at;
  }
  struct Mark {
    size_t block, used;
  };
  Mark mark() const { return {block_, block_ < blocks_.size() ? blocks_[block_].second - room_ : 0}; }
  void reset(Mark m) { begin(m.block, m.used); }
  Value copy(const Value& v) {  // with all that a sequence holds
    if (v.tag != Tag::Seq) return v;
    Value* items = allocate(v.q.size);
    for (uint32_t k = 0; k < v.q.size; k++) items[k] = copy(v.q.items[k]);
    Value made = v;
    made.q.items = items;
    return made;
  }
  void trim() {  // what one large run needed is not kept
    if (blocks_.size() > 4) blocks_.resize(4);
    begin(0, 0);
  }

 private:
  Value* allocate_elsewhere(uint64_t count);
  void begin(size_t block, size_t used) {
    block_ = block;
    next_ = block < blocks_.size() ? blocks_[block].first.get() + used : nullptr;
    room_ = block < blocks_.size() ? blocks_[block].second - used : 0;
  }

  std::vector<std::pair<std::unique_ptr<Value[]>, size_t>> blocks_;
  size_t block_ = 0, room_ = 0;  // the block that is filled, and how much is left of it
  Value* next_ = nullptr;
};

// A call, small because most have one or two arguments: from the third on, those of a function that takes more than three are one
// sequence.
struct CallKey {
  static constexpr uint32_t kMost = 3;
  uint32_t function;
  uint32_t count;
  Value arguments[kMost];
  bool operator==(const CallKey& o) const;
};
struct CallHash {
  size_t operator()(const CallKey& k) const;
};

class Memo {
 public:
  enum class State : uint8_t { Absent, Open, Done };  // not asked for, or given up; being made; made
  struct Entry {
    uint64_t rest;  // hash of all but the first argument
    uint32_t function;
    uint16_t count;
    State state;
    Value value;
    Value arguments[CallKey::kMost];  // there is room for the first `count`
    CallKey key() const;
  };

  Memo() : slots_(kFewest) {}
  // The entry of a call, which stays where it is: a new one, with a copy of the arguments, where there is none.
  Entry& at(uint32_t function, uint32_t count, const Value* arguments);
  Entry& at(const CallKey& key) { return at(key.function, key.count, key.arguments); }
  // The entry of a call, or null where there is none.
  const Entry* find(uint32_t function, uint32_t count, const Value* arguments) const;
  // That of the same call on another node.
  Entry& at(const Entry& call, Node* n);
  void put(const CallKey& key, const Value& value) {
    Entry& e = at(key);
    e.value = value;
    e.state = State::Done;
  }
  size_t size() const { return size_; }
  void clear();

 private:
  static constexpr size_t kFewest = 256, kMany = size_t(1) << 16;
  struct Slot {
    uint32_t epoch = 0, hash = 0;  // of an earlier epoch: free
    Entry* entry = nullptr;
  };
  template <typename Same>
  size_t place_of(uint64_t hash, Same same) const;  // the slot of the entry that is the same, or the free one where it belongs
  size_t place_of(uint64_t hash, uint64_t rest, uint32_t function, uint32_t count, const Value* arguments) const;
  Entry& add(size_t place, uint64_t hash, uint64_t rest, uint32_t function, uint32_t count);
  void grow();

  std::vector<Slot> slots_;  // a power of two of them, at most half of them taken
  size_t size_ = 0;
  uint32_t epoch_ = 1;
  Arena entries_;
};

}  // namespace rulegrad
