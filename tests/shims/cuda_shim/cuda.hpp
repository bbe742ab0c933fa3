// Functions of our CUDA C++ kernels, for a C++ compiler of the CPU.
#pragma once
#include "../core.hpp"

#define __global__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

#define threadIdx shim::thread_index
#define blockIdx shim::block_index
#define blockDim shim::block_size
#define gridDim shim::grid_size

#define __syncthreads() shim::wait_at(shim::State::in_block_barrier, __LINE__)
#define __syncwarp(...) shim::wait_at(shim::State::in_warp_barrier, __LINE__)

#define __shfl_xor_sync(threads, x, distance) shim::shuffled(x, distance, __LINE__)
#define __reduce_add_sync(threads, x) shim::total(x, __LINE__)
#define __reduce_max_sync(threads, x) shim::largest(x, __LINE__)
#define __reduce_min_sync(threads, x) shim::smallest(x, __LINE__)
#define __all_sync(threads, x) shim::smallest(int((x) != 0), __LINE__)
#define __any_sync(threads, x) shim::largest(int((x) != 0), __LINE__)

using shim::bits_as;

inline float rounded_to_tf32(float x) { return x != x ? x : bits_as<float>((bits_as<unsigned>(x) + 0x1000) & 0xffffe000); }

inline float fast_exp2(float x) { return x < -126 ? 0 : exp2f(x); }

template <class T>
T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}

// Copies are made at once in order 1. Else they are made when the thread waits for them, as late as they may be: those since the last `pending` waits, and before
// these, later.
struct Copy {
  void* to;
  const void* from;
};
constexpr int most_copies = 64, most_groups = 4;
inline Copy copies[shim::most_threads][most_groups][most_copies];
inline int copies_begun[shim::most_threads][most_groups];  // the last group first

// One side is registers, which are on the stack here, the other is memory, at a multiple of all elements' size.
template <int count, class T>
void copy_vector(T* to, const T* from) {
  const auto may_be = [](const void* place) {
    const size_t here = (size_t)&place, at = (size_t)place;
    return (at > here ? at - here : here - at) < (1 << 14) || at % (count * sizeof(T)) == 0;
  };
  if (!may_be(to) || !may_be(from)) {
    fprintf(stderr, "shim: elements that are accessed at once, and are not at a multiple of their size\n");
    abort();
  }
  memcpy(to, from, count * sizeof(T));
}

inline void copy_16_bytes(void* to, const void* from) {
  int& begun = copies_begun[shim::running][0];
  if (((size_t)to | (size_t)from) % 16 || begun == most_copies) {
    fprintf(stderr, "shim: a copy that is not at a multiple of 16 bytes, or too many at once\n");
    abort();
  }
  if (shim::order.seed == 1) memcpy(to, from, 16);
  else copies[shim::running][0][begun++] = {to, from};
}
inline void copy_16_bytes_or_zeros(void* to, const void* from, bool gate) {
  static const unsigned char zeros[16] __attribute__((aligned(16))) = {};
  if ((size_t)from % 16) {
    fprintf(stderr, "shim: a copy that is not from a multiple of 16 bytes\n");
    abort();
  }
  copy_16_bytes(to, gate ? from : zeros);
}
template <int pending>
void wait_for_copies() {
  static_assert(pending < most_groups - 1, "so many groups of copies are not kept");
  auto& groups = copies[shim::running];
  int* begun = copies_begun[shim::running];
  for (int group = most_groups - 1; group >= pending; group--) {
    for (int k = 0; k < begun[group]; k++) memcpy(groups[group][k].to, groups[group][k].from, 16);
    begun[group] = 0;
  }
  for (int group = pending; group > 0; group--) {
    memcpy(groups[group], groups[group - 1], sizeof(Copy) * begun[group - 1]);
    begun[group] = begun[group - 1];
  }
  begun[0] = 0;
}

// Shared memory of a block: as much as the launch says. It begins with no value of ours, and what lies behind it is nobody's.
constexpr unsigned most_local_bytes = 232448, guard_bytes = 4096;
alignas(1024) inline unsigned char local_memory_0[most_local_bytes + guard_bytes];
inline unsigned local_memory_bytes;

#include "group_matrices.hpp"
#include "tensor_maps.hpp"

template <class Kernel>
int launch_with_local_memory(Kernel kernel, void** a, const unsigned* grid, const unsigned* block, unsigned seed, bool fibers,
                             unsigned bytes) {
  if (bytes > most_local_bytes) {
    snprintf(shim_message, sizeof shim_message, "%u bytes of local memory are more than a block has", bytes);
    return 1;
  }
  local_memory_bytes = bytes;
  memset(local_memory_0 + bytes, 0xcb, guard_bytes);
  shim::before_block = [] {
    memset(local_memory_0, 0xff, local_memory_bytes);
    memset(copies_begun, 0, sizeof copies_begun);  // what the block before did not wait for
    forget_matrices();
    forget_box_copies();
  };
  shim::after_block = box_copies_problem;
  const int failed = shim::launch(kernel, a, grid, block, seed, fibers);
  shim::before_block = nullptr;
  shim::after_block = nullptr;
  for (unsigned k = 0; k < guard_bytes && !failed; k++) {
    if (local_memory_0[bytes + k] == 0xcb) continue;
    snprintf(shim_message, sizeof shim_message, "written behind the %u bytes of local memory", bytes);
    return 1;
  }
  return failed;
}
