// TMA and mbarriers, as the PTX manual describes them: copies of boxes with 128-byte swizzle, whose bytes an mbarrier waits for.
//
// A copy is made at any time between its begin and the end of the phase that waits for it. In order 0 that is as late as it may be: when a thread waits for the
// phase, and not before. In order 1 it is at once, in others now late and now at once. What goes wrong is an error of the launch.
#pragma once

#define RG_HAS_TENSOR_MAPS

struct tensor_map;

// what tests/shims/tensor_maps.py makes
struct BoxMap {
  unsigned long long address;
  unsigned mark;
  unsigned short rank, itemsize;
  unsigned long long strides[4];
  unsigned last[5];  // sizes less 1
  unsigned short box[5];
};
struct BoxCopy {
  BoxMap map;
  unsigned to;  // its place in shared memory
  unsigned long long* barrier;
  int begin[5];
};
constexpr int most_box_copies = 64;
inline BoxCopy box_copies[most_box_copies];
inline int box_copies_begun;
inline int mbarriers_unfenced;  // which copies may not find yet

// ---- mbarriers: 64 bits in shared memory. What memory begins with is none. ----

constexpr int most_arrivals = (1 << 20) - 1, most_bytes = (1 << 20) - 1;

struct Mbarrier {
  unsigned long long expected : 20, pending : 20;
  unsigned long long bytes : 21;  // those that are waited for, and most_bytes; more may have come than were said to
  unsigned long long parity : 1, none : 2;
};

inline Mbarrier mbarrier_at(unsigned long long* place) {
  const size_t offset = (unsigned char*)place - local_memory_0;
  if (offset + 8 > local_memory_bytes || offset % 8) shim::fail("an mbarrier that is not in shared memory, or not at a multiple of 8 bytes");
  const Mbarrier found = shim::bits_as<Mbarrier>(*place);
  if (found.none) shim::fail("an mbarrier that no thread has made");
  return found;
}
// Phases end when nothing is waited for any more.
inline void mbarrier_changes(unsigned long long* place, Mbarrier changed, int bytes) {
  const int waited_for = int(changed.bytes) - most_bytes + bytes;
  if (waited_for > most_bytes || waited_for < -most_bytes) shim::fail("an mbarrier waits for more bytes than it can count");
  changed.bytes = waited_for + most_bytes;
  if (!changed.pending && !waited_for) {
    changed.pending = changed.expected;
    changed.parity ^= 1;
  }
  *place = shim::bits_as<unsigned long long>(changed);
  shim::progress++;
}

inline void mbarrier_init(unsigned long long* place, unsigned arrivals) {
  const size_t offset = (unsigned char*)place - local_memory_0;
  if (offset + 8 > local_memory_bytes || offset % 8) shim::fail("an mbarrier that is not in shared memory, or not at a multiple of 8 bytes");
  Mbarrier made = {};
  made.expected = made.pending = arrivals;
  made.bytes = most_bytes;
  *place = shim::bits_as<unsigned long long>(made);
  mbarriers_unfenced++;
}
inline void fence_mbarrier_init() { mbarriers_unfenced = 0; }

inline void mbarrier_arrive_expect_tx(unsigned long long* place, unsigned bytes) {
  Mbarrier changed = mbarrier_at(place);
  if (!changed.pending) shim::fail("more arrivals at an mbarrier than it waits for");
  changed.pending--;
  mbarrier_changes(place, changed, int(bytes));
}

// ---- copies ----

inline void copy_now(const BoxCopy& one) {
  const BoxMap& map = one.map;
  unsigned count = 1;
  for (int axis = 0; axis < map.rank; axis++) count *= map.box[axis];
  for (unsigned k = 0; k < count; k++) {
    const unsigned char* from = (const unsigned char*)map.address;
    bool inside = true;
    for (unsigned axis = 0, left = k; axis < map.rank; left /= map.box[axis++]) {
      const long long at = (long long)one.begin[axis] + left % map.box[axis];
      inside = inside && at >= 0 && at <= map.last[axis];
      from += at * (axis ? (long long)map.strides[axis - 1] : map.itemsize);
    }
    unsigned place = one.to + k * map.itemsize;
    place ^= (place >> 7 & 7) << 4;
    if (inside) memcpy(local_memory_0 + place, from, map.itemsize);
    else memset(local_memory_0 + place, 0, map.itemsize);
  }
  mbarrier_changes(one.barrier, mbarrier_at(one.barrier), -int(count * map.itemsize));
}

template <class... At>
void copy_box(void* to, const tensor_map* map, unsigned long long* barrier, At... begin) {
  BoxCopy one = {};
  memcpy(&one.map, map, sizeof one.map);
  one.barrier = barrier;
  int at[] = {begin...};
  memcpy(one.begin, at, sizeof at);
  if (one.map.mark != 0x7a5eb0c5 || (size_t)map % 64) shim::fail("a copy without a tensor map");
  if (one.map.rank != sizeof...(begin)) shim::fail("a copy with as many coordinates as its tensor map has no axes");
  unsigned bytes = one.map.itemsize;
  for (int axis = 0; axis < one.map.rank; axis++) bytes *= one.map.box[axis];
  const size_t place = (unsigned char*)to - local_memory_0;
  if (place % 128 || place > local_memory_bytes || place + bytes > local_memory_bytes)
    shim::fail("a box that is not in shared memory, or not at a multiple of 128 bytes");
  mbarrier_at(barrier);
  if (mbarriers_unfenced) shim::fail("a copy for an mbarrier that was not fenced when it was made");
  one.to = unsigned(place);
  const bool at_once = shim::order.seed == 1 || (shim::order.seed > 1 && (shim::order.seed >> 8) + box_copies_begun & 1);
  if (at_once) return copy_now(one);
  if (box_copies_begun == most_box_copies) shim::fail("so many copies under way are not kept");
  box_copies[box_copies_begun++] = one;
}

// Whether the phase of this parity is over: that before the one that is going on. Copies that it waits for are made, in any order, until it is.
inline bool mbarrier_try_wait_parity(unsigned long long* place, unsigned parity) {
  if (parity > 1) shim::fail("a parity that is neither 0 nor 1");
  while (mbarrier_at(place).parity == parity) {
    int next = -1;
    for (int k = 0; k < box_copies_begun; k++)
      if (box_copies[k].barrier == place && (next < 0 || shim::order.seed > 1)) next = k;
    if (next < 0) {
      shim::wait_for_progress();
      return false;
    }
    const BoxCopy one = box_copies[next];
    box_copies[next] = box_copies[--box_copies_begun];
    copy_now(one);
  }
  return true;
}

inline void wait_for_mbarrier(unsigned long long* barrier, unsigned parity) {
  while (!mbarrier_try_wait_parity(barrier, parity)) {
  }
  __syncwarp();
}

inline void forget_box_copies() { box_copies_begun = mbarriers_unfenced = 0; }
inline const char* box_copies_problem() { return box_copies_begun ? "a block has ended while boxes were copied to its shared memory" : nullptr; }
