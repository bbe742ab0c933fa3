// The words of Metal, after everything that is C++. Attributes mean nothing to a C++ compiler; the launcher reads them.
#pragma once

typedef float16 half;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef shim::Index uint3;

template <class T, class U>
T as_type(U x) {
  return shim::bits_as<T>(x);
}

namespace shim {
inline Index thread_position_in_grid() {
  return {block_index.x * block_size.x + thread_index.x, block_index.y * block_size.y + thread_index.y,
          block_index.z * block_size.z + thread_index.z};
}
inline Index thread_position_in_threadgroup() { return thread_index; }
inline Index threadgroup_position_in_grid() { return block_index; }
}  // namespace shim

enum class mem_flags { mem_none, mem_device, mem_threadgroup };
#define threadgroup_barrier(flags) shim::wait_at(shim::State::in_block_barrier, __LINE__)
#define simdgroup_barrier(flags) shim::wait_at(shim::State::in_warp_barrier, __LINE__)

#define simd_sum(x) shim::total(x, __LINE__)
#define simd_max(x) shim::largest(x, __LINE__)
#define simd_min(x) shim::smallest(x, __LINE__)
#define simd_all(x) shim::smallest(bool(x), __LINE__)
#define simd_any(x) shim::largest(bool(x), __LINE__)
#define simd_shuffle_xor(x, mask) shim::shuffled(x, mask, __LINE__)

namespace fast {
inline float exp2(float x) { return x < -126 ? 0 : exp2f(x); }
}  // namespace fast

#define kernel
#define device
#define constant const
#define threadgroup static
