// What CUDA C++ kernels of ours use, for a C++ compiler of the CPU.
#pragma once
#include "../core.hpp"

#define __global__
#define __device__
#define __forceinline__ inline
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
using shim::bfloat16_code;
using shim::bfloat16_value;
using shim::float16_code;
using shim::float16_value;

typedef unsigned short rg_code;

inline rg_code float16_sum(rg_code a, rg_code b) { return float16_code(float16_value(a) + float16_value(b)); }
inline rg_code float16_product(rg_code a, rg_code b) { return float16_code(float16_value(a) * float16_value(b)); }
inline rg_code bfloat16_sum(rg_code a, rg_code b) { return bfloat16_code(bfloat16_value(a) + bfloat16_value(b)); }
inline rg_code bfloat16_product(rg_code a, rg_code b) { return bfloat16_code(bfloat16_value(a) * bfloat16_value(b)); }
