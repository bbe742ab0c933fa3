// The reductions of warps that cuda.rules names in rows `subgroup_reductions`: each function is called by all 32 threads of a warp, and gives each of them the result.

template <class T>
constexpr bool rg_is_word = sizeof(T) <= 4 && T(1) / T(2) == T(0);  // integers of at most 32 bits, which one instruction reduces

template <class T, class Function>
__device__ __forceinline__ T reduced_by_halves(T x, Function function) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = function(x, (T)__shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}
template <class T>
__device__ __forceinline__ T warp_sum(T x) {
  if constexpr (rg_is_word<T>) return __reduce_add_sync(0xffffffffu, x);
  else return reduced_by_halves(x, [](T a, T b) { return a + b; });
}
template <class T>
__device__ __forceinline__ T warp_max(T x) {
  if constexpr (rg_is_word<T>) return __reduce_max_sync(0xffffffffu, x);
  else return reduced_by_halves(x, [](T a, T b) { return a < b ? b : a; });
}
template <class T>
__device__ __forceinline__ T warp_min(T x) {
  if constexpr (rg_is_word<T>) return __reduce_min_sync(0xffffffffu, x);
  else return reduced_by_halves(x, [](T a, T b) { return b < a ? b : a; });
}
__device__ __forceinline__ unsigned char warp_all(unsigned char x) { return __all_sync(0xffffffffu, x); }
__device__ __forceinline__ unsigned char warp_any(unsigned char x) { return __any_sync(0xffffffffu, x); }
