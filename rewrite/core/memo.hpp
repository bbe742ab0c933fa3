// Results of calls of functions on nodes, in memory that one run after the other uses again.
#pragma once
#include <memory>

#include "value.hpp"

namespace rulegrad {

// Memory that lives until it is reset to a mark.
class Arena {
 public:
  Value* allocate(uint64_t count);
  struct Mark {
    size_t block, used;
  };
  Mark mark() const { return {block_, used_}; }
  void reset(Mark m) {
    block_ = m.block;
    used_ = m.used;
  }
  void trim() {
    if (blocks_.size() > 4) blocks_.resize(4);
  }  // what one large run needed is not kept

 private:
  std::vector<std::pair<std::unique_ptr<Value[]>, size_t>> blocks_;
  size_t block_ = 0, used_ = 0;
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
    uint32_t function, count;
    uint64_t hash;
    State state;
    Value value;
    Value arguments[CallKey::kMost];  // there is room for the first `count`
    CallKey key() const;
  };

  Memo() : slots_(kFewest) {}
  // The entry of a call, which stays where it is: a new one where there is none.
  Entry& at(const CallKey& key);
  // The result of a call, or null.
  const Value* find(const CallKey& key) const;
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
  size_t place_of(const CallKey& key, uint64_t hash) const;  // its slot, or the free one where it belongs
  void grow();

  std::vector<Slot> slots_;  // a power of two of them, at most half of them taken
  size_t size_ = 0;
  uint32_t epoch_ = 1;
  Arena entries_;
};

}  // namespace rulegrad
