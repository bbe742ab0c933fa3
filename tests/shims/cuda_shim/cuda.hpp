// What CUDA C++ kernels of ours use, for a C++ compiler of the CPU.
#pragma once
#include "../core.hpp"

#define __global__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx shim::thread_index
#define blockIdx shim::block_index
#define blockDim shim::block_size
#define gridDim shim::grid_size

#define __syncthreads() shim::wait_at(shim::State::in_block_barrier, __LINE__)
#define __syncwarp(...) shim::wait_at(shim::State::in_warp_barrier, __LINE__)

using shim::bits_as;

inline float rounded_to_tf32(float x) { return x != x ? x : bits_as<float>((bits_as<unsigned>(x) + 0x1000) & 0xffffe000); }

// Copies are made when the thread waits for them, as late as they may be: those since the last `pending` waits, and before these, later.
struct Copy {
  void* to;
  const void* from;
};
constexpr int most_copies = 64, most_groups = 4;
inline Copy copies[shim::most_threads][most_groups][most_copies];
inline int copies_begun[shim::most_threads][most_groups];  // the last group first

inline void copy_16_bytes(void* to, const void* from) {
  int& begun = copies_begun[shim::running][0];
  if (((size_t)to | (size_t)from) % 16 || begun == most_copies) {
    fprintf(stderr, "shim: a copy that is not at a multiple of 16 bytes, or too many at once\n");
    abort();
  }
  copies[shim::running][0][begun++] = {to, from};
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
