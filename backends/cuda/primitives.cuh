// Functions for kernels that CUDA C++ has in headers or PTX only: so a program compiles without headers, in a few milliseconds.
// float16 and bfloat16 are structs around their codes; their arithmetic is in halves.cuh.

#ifndef INFINITY  // nvcc includes math.h
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif

// what a block shares: as many bytes as the launch says
extern __shared__ __align__(1024) unsigned char local_memory_0[];

template <class T, class U>
__device__ __forceinline__ T bits_as(U x) {
  static_assert(sizeof(T) == sizeof(U), "the same bits as another type of the same size");
  T y;
  memcpy(&y, &x, sizeof y);
  return y;
}

// Elements that follow each other, by one access of memory, which is at a multiple of their size; the other side is registers.
template <int count, class T>
__device__ __forceinline__ void copy_vector(T* to, const T* from) {
  struct alignas(count * sizeof(T)) vector { T elements[count]; };
  *(vector*)to = *(const vector*)from;
}

typedef unsigned short rg_code;

__device__ __forceinline__ rg_code float16_code(float x) {
  rg_code y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ rg_code float16_code(double x) {
  rg_code y;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y) : "d"(x));
  return y;
}
__device__ __forceinline__ float float16_value(rg_code x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ __forceinline__ rg_code float16_sum(rg_code a, rg_code b) {
  rg_code y;
  asm("add.rn.f16 %0, %1, %2;" : "=h"(y) : "h"(a), "h"(b));
  return y;
}
__device__ __forceinline__ rg_code float16_product(rg_code a, rg_code b) {
  rg_code y;
  asm("mul.rn.f16 %0, %1, %2;" : "=h"(y) : "h"(a), "h"(b));
  return y;
}

__device__ __forceinline__ rg_code bfloat16_code(float x) {
  rg_code y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float bfloat16_value(rg_code x) { return bits_as<float>((unsigned int)x << 16); }
// a * 1 + b and a * b - 0: before compute capability 9.0 there is no other instruction
__device__ __forceinline__ rg_code bfloat16_sum(rg_code a, rg_code b) {
  rg_code y;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(y) : "h"(a), "h"((rg_code)0x3f80), "h"(b));
  return y;
}
__device__ __forceinline__ rg_code bfloat16_product(rg_code a, rg_code b) {
  rg_code y;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(y) : "h"(a), "h"(b), "h"((rg_code)0x8000));
  return y;
}

// float32 with the digits of tf32, to the nearest value, halves away from zero
__device__ __forceinline__ float rounded_to_tf32(float x) {
  unsigned int y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return bits_as<float>(y);
}

// 0 where it would be less than the least normal number
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// nan where one is nan; of float32 one instruction
template <class T>
__device__ __forceinline__ T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
__device__ __forceinline__ T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}
template <>
__device__ __forceinline__ float larger(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
template <>
__device__ __forceinline__ float smaller(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// from global to shared memory, both at multiples of 16 bytes; until the thread waits, nobody may read them
__device__ __forceinline__ void copy_16_bytes(void* to, const void* from) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(place), "l"(from) : "memory");
}
// the same where the gate is true; else it writes zeros, and reads nothing
__device__ __forceinline__ void copy_16_bytes_or_zeros(void* to, const void* from, bool gate) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(place), "l"(from), "r"(gate ? 16 : 0) : "memory");
}
// for all copies but those since the last `pending` calls
template <int pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.commit_group;\ncp.async.wait_group %0;" : : "n"(pending) : "memory");
}
