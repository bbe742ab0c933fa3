#include "placing.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace rulegrad {

namespace {

constexpr int64_t kAbsent = -1;
constexpr size_t kMostTried = 256;  // blocks that are looked at for one buffer, so that placing stays close to linear

using Life = std::pair<int64_t, int64_t>;  // first and last step
using Numbers = std::vector<int64_t>;
using Pairs = std::vector<std::pair<int64_t, int64_t>>;
using Block = std::tuple<int64_t, int64_t, std::optional<int64_t>>;  // bytes, the largest buffer in it, the input whose memory it was

struct Room {
  int64_t nbytes, largest;
  bool taken;
  bool ends = false;                                   // a result is in it
  std::vector<std::pair<int64_t, int64_t>> occupants;  // (first step, buffer), by first steps
};

// One attempt: rooms by size, and the room of each buffer.
class Placing {
 public:
  Placing(const Numbers& sizes, const std::vector<Life>& lives, const Pairs& pairs) : sizes_(sizes), lives_(lives), room_of_(sizes.size(), kAbsent) {
    sources_.resize(sizes.size());
    for (auto [read, written] : pairs) sources_.at(size_t(written)).push_back(read);
    for (Numbers& s : sources_) std::sort(s.begin(), s.end());
  }

  int64_t nbytes = 0;  // that are allocated

  // A new room, with its first buffer.
  void add(int64_t number, bool taken, bool ends) {
    const int64_t nbytes_here = size(number);
    by_size_.insert(of_more_than(nbytes_here), rooms_.size());
    rooms_.push_back({nbytes_here, number, taken, false, {}});
    if (!taken) nbytes += nbytes_here;
    put(number, rooms_.size() - 1, ends);
  }

  // Each result has a room to itself from its first step on: one of just its size.
  void place_results(const Numbers& numbers, const Pairs& own) {
    Numbers owned(sizes_.size(), kAbsent);
    for (auto [result, input] : own)
      if (is_buffer(result) && is_buffer(input)) owned[size_t(result)] = input;
    const Numbers waiting = place_in(numbers, [&](int64_t n) { return owned[size_t(n)] == kAbsent ? kAbsent : room_of(owned[size_t(n)]); });
    // what may overwrite an input goes there before others do
    for (int64_t n : place_in(waiting, [&](int64_t n) { return overwritable(n); })) {
      const size_t start = size_t(of_at_least(size(n)) - by_size_.begin());
      const size_t stop = std::min(size_t(of_more_than(size(n)) - by_size_.begin()), start + kMostTried);
      size_t at = start;
      while (at < stop && !(rooms_[by_size_[at]].taken && suits(rooms_[by_size_[at]], n))) at++;
      if (at < stop) put(n, by_size_[at], true);
      else add(n, false, true);
    }
  }

  // Each in the smallest room that is large enough and free, or a new one. Given up when it takes as much as `most` bytes.
  void place(const Numbers& numbers, std::optional<int64_t> most) {
    for (int64_t n : numbers) {
      if (most && nbytes >= *most) return;
      int64_t found = overwritable(n);
      if (found == kAbsent || room(found).nbytes < size(n) || !is_free(room(found), n)) found = smallest_free(n);
      if (found == kAbsent) add(n, false, false);
      else put(n, size_t(found), false);
    }
  }

  std::vector<Block> blocks() const {
    std::vector<Block> found;
    for (const Room& r : rooms_) found.emplace_back(r.nbytes, r.largest, r.taken ? std::optional(r.largest) : std::nullopt);
    return found;
  }
  const Numbers& room_of() const { return room_of_; }

 private:
  bool is_buffer(int64_t n) const { return n >= 0 && size_t(n) < sizes_.size(); }
  int64_t size(int64_t n) const { return sizes_[size_t(n)]; }
  int64_t room_of(int64_t n) const { return room_of_[size_t(n)]; }
  const Room& room(int64_t at) const { return rooms_[size_t(at)]; }
  const Life& life(int64_t n) const { return lives_[size_t(n)]; }

  // The first of the rooms by size that has so many bytes, or more.
  std::vector<size_t>::iterator of_at_least(int64_t nbytes) {
    return std::partition_point(by_size_.begin(), by_size_.end(), [&](size_t r) { return rooms_[r].nbytes < nbytes; });
  }
  std::vector<size_t>::iterator of_more_than(int64_t nbytes) {
    return std::partition_point(by_size_.begin(), by_size_.end(), [&](size_t r) { return rooms_[r].nbytes <= nbytes; });
  }

  // Places results in the rooms of inputs that are theirs, where these suit; returns the other results.
  template <typename RoomOf>
  Numbers place_in(const Numbers& numbers, RoomOf room_of) {
    Numbers waiting;
    for (int64_t n : numbers) {
      const int64_t found = room_of(n);
      if (found != kAbsent && room(found).taken && suits(room(found), n)) put(n, size_t(found), true);
      else waiting.push_back(n);
    }
    return waiting;
  }

  bool suits(const Room& r, int64_t n) const { return !r.ends && r.nbytes == size(n) && is_free(r, n); }

  int64_t smallest_free(int64_t n) {
    const size_t start = size_t(of_at_least(size(n)) - by_size_.begin());
    for (size_t k = start; k < std::min(by_size_.size(), start + kMostTried); k++)
      if (is_free(rooms_[by_size_[k]], n)) return int64_t(by_size_[k]);
    return kAbsent;
  }

  int64_t overwritable(int64_t n) const {
    for (int64_t source : sources_[size_t(n)])
      if (const int64_t found = room_of(source); found != kAbsent && is_free(room(found), n)) return found;
    return kAbsent;
  }

  // Occupants do not meet each other, so only the neighbours in time can meet a new one.
  bool is_free(const Room& r, int64_t n) const {
    const auto [first, last] = life(n);
    const auto begin = r.occupants.begin(), end = r.occupants.end();
    const auto at = std::lower_bound(begin, end, std::pair(first, kAbsent));
    for (auto near = at == begin ? at : at - 1; near != end && near < at + 2; near++) {
      const int64_t other = near->second;
      if (!(life(other).second < first || last < life(other).first || may_follow(other, n) || may_follow(n, other))) return false;
    }
    return true;
  }

  // Whether one buffer ends in the step that writes the other, which may write over it.
  bool may_follow(int64_t earlier, int64_t later) const {
    const Numbers& sources = sources_[size_t(later)];
    return life(earlier).second == life(later).first && std::find(sources.begin(), sources.end(), earlier) != sources.end();
  }

  void put(int64_t n, size_t at, bool ends) {
    Room& r = rooms_[at];
    const std::pair<int64_t, int64_t> here{life(n).first, n};
    r.occupants.insert(std::upper_bound(r.occupants.begin(), r.occupants.end(), here), here);
    r.ends |= ends;
    room_of_[size_t(n)] = int64_t(at);
  }

  const Numbers& sizes_;
  const std::vector<Life>& lives_;
  std::vector<Numbers> sources_;  // of each buffer, those that it may be written over
  std::vector<Room> rooms_;
  std::vector<size_t> by_size_;  // rooms; of one size, as they were made
  Numbers room_of_;
};

// The blocks, the block of each buffer, -1 where it has none, and the bytes that are allocated.
std::tuple<std::vector<Block>, Numbers, int64_t> place_buffers(const Numbers& sizes, const std::vector<Life>& lives, const Pairs& pairs,
                                                               const Numbers& taken, const Numbers& results, const Pairs& own, const Numbers& inner,
                                                               std::optional<int64_t> most) {
  Placing placing(sizes, lives, pairs);
  for (int64_t n : taken) placing.add(n, true, false);
  placing.place_results(results, own);
  placing.place(inner, most);
  return {placing.blocks(), placing.room_of(), placing.nbytes};
}

}  // namespace

void define_placing(nb::module_& m) {
  m.def("place_buffers", &place_buffers, nb::arg("sizes"), nb::arg("lives"), nb::arg("pairs"), nb::arg("taken"), nb::arg("results"), nb::arg("own"),
        nb::arg("inner"), nb::arg("most").none(),
        "Places the buffers of a schedule in blocks of memory: (bytes, largest buffer, taken input) of each, the block of each buffer, all bytes.");
}

}  // namespace rulegrad
