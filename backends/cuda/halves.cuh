// float16 and bfloat16: every operation is rounded once, to the nearest value, halves to even.
// The parts of a half, its sum and its product are in primitives.cuh.

#define RG_HALF(NAME, FROM_DOUBLE)                                                                                  \
  struct NAME {                                                                                                     \
    rg_code code;                                                                                                   \
    NAME() = default;                                                                                               \
    template <class T>                                                                                              \
    __device__ __forceinline__ explicit NAME(T x) : code(NAME##_code((float)x)) {}                                  \
    __device__ __forceinline__ explicit NAME(double x) : code(NAME##_code((FROM_DOUBLE)x)) {}                       \
    __device__ __forceinline__ operator float() const { return NAME##_value(code); }                                \
  };                                                                                                                \
  __device__ __forceinline__ NAME NAME##_of(rg_code code) {                                                         \
    NAME x;                                                                                                         \
    x.code = code;                                                                                                  \
    return x;                                                                                                       \
  }                                                                                                                 \
  __device__ __forceinline__ NAME operator-(NAME a) { return NAME##_of(a.code ^ 0x8000); }                          \
  __device__ __forceinline__ NAME fabs(NAME a) { return NAME##_of(a.code & 0x7fff); }                               \
  __device__ __forceinline__ NAME operator+(NAME a, NAME b) { return NAME##_of(NAME##_sum(a.code, b.code)); }       \
  __device__ __forceinline__ NAME operator-(NAME a, NAME b) { return a + -b; }                                      \
  __device__ __forceinline__ NAME operator*(NAME a, NAME b) { return NAME##_of(NAME##_product(a.code, b.code)); }   \
  __device__ __forceinline__ bool operator<(NAME a, NAME b) { return (float)a < (float)b; }                         \
  __device__ __forceinline__ bool operator<=(NAME a, NAME b) { return (float)a <= (float)b; }                       \
  __device__ __forceinline__ bool operator==(NAME a, NAME b) { return (float)a == (float)b; }                       \
  __device__ __forceinline__ bool operator!=(NAME a, NAME b) { return (float)a != (float)b; }

RG_HALF(float16, double)
// a float64 is rounded to float32 first, as everywhere
RG_HALF(bfloat16, float)
