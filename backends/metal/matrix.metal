// The matrix instructions that metal.rules has rows for: one call of each by all threads of a SIMD-group, with their fragments.
// Operands are multiplied as float; a thread's two elements are those that thread_elements() names.

inline float rg_value(float x) { return x; }
inline float rg_value(half x) { return x; }
inline float rg_value(ushort code) { return as_type<float>(uint(code) << 16); }  // bfloat16

template <typename T>
inline void simdgroup_8x8(thread float* c, thread const T* a, thread const T* b) {
  simdgroup_float8x8 left, right, sums;
  for (int k = 0; k < 2; k++) {
    left.thread_elements()[k] = rg_value(a[k]);
    right.thread_elements()[k] = rg_value(b[k]);
    sums.thread_elements()[k] = c[k];
  }
  simdgroup_multiply_accumulate(sums, left, right, sums);
  for (int k = 0; k < 2; k++) c[k] = sums.thread_elements()[k];
}
