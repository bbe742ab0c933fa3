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

// copies are made when the thread waits for them, as late as they may be
struct Copy {
  void* to;
  const void* from;
};
inline Copy copies[shim::most_threads][256];
inline int copies_begun[shim::most_threads];

inline void copy_16_bytes(void* to, const void* from) {
  if (((size_t)to | (size_t)from) % 16 || copies_begun[shim::running] == 256) {
    fprintf(stderr, "shim: a copy that is not at a multiple of 16 bytes, or too many at once\n");
    abort();
  }
  copies[shim::running][copies_begun[shim::running]++] = {to, from};
}
inline void wait_for_copies() {
  int& begun = copies_begun[shim::running];
  for (int k = 0; k < begun; k++) memcpy(copies[shim::running][k].to, copies[shim::running][k].from, 16);
  begun = 0;
}
