// What Metal kernels of ours use, for a C++ compiler of the CPU. Attributes mean nothing to it; the launcher reads them.
#pragma once
#include "../core.hpp"

#define __device__
#define __forceinline__ inline

using shim::bfloat16_code;
using shim::bfloat16_value;
using shim::float16_code;
using shim::float16_value;

typedef unsigned short rg_code;

inline rg_code float16_sum(rg_code a, rg_code b) { return float16_code(float16_value(a) + float16_value(b)); }
inline rg_code float16_product(rg_code a, rg_code b) { return float16_code(float16_value(a) * float16_value(b)); }
inline rg_code bfloat16_sum(rg_code a, rg_code b) { return bfloat16_code(bfloat16_value(a) + bfloat16_value(b)); }
inline rg_code bfloat16_product(rg_code a, rg_code b) { return bfloat16_code(bfloat16_value(a) * bfloat16_value(b)); }
