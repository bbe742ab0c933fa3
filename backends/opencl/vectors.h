/* Vectors of OpenCL C: what its vectors' types do not do by themselves. Drivers for CPUs compile by clang, whose extensions these are.
   vloadN and floor are functions of the driver's library, which PoCL does not inline; where it does not know the processor, its functions of 16
   elements are even for another one. */
/* in memory only their elements are aligned */
#define VECTOR_AT(T, N, SPACE, p) (((SPACE struct __attribute__((packed, may_alias)) { T##N v; } *)(p))->v)
/* Counts of lanes are of 64 bits: they go to the end of a buffer, which may have more than 2**31 elements at the largest of
   the sizes that vary. */
#define LOAD_FIRST(T, N, SPACE, p, count) ({ \
  SPACE const T *p_ = (p); const long c_ = (count); T##N v_; \
  if (c_ >= N) v_ = VECTOR_AT(T, N, SPACE const, p_); \
  else for (int l_ = 0; l_ < N; l_++) v_[l_] = p_[l_ < c_ ? l_ : c_ - 1]; \
  v_; })
#define LOAD_LANES(T, N, SPACE, p, other, first, last, gate) ({ \
  SPACE const T *p_ = (p); const long f_ = (first), c_ = (gate) ? (last) : 0; T##N v_ = (T)(other); \
  if (f_ <= 0 && c_ >= N) v_ = VECTOR_AT(T, N, SPACE const, p_); \
  else for (int l_ = 0; l_ < N; l_++) if (f_ <= l_ && l_ < c_) v_[l_] = p_[l_]; \
  v_; })
#define STORE_FIRST(T, N, SPACE, p, v, count) ({ \
  SPACE T *p_ = (p); T##N v_ = (v); const long c_ = (count); \
  if (c_ >= N) VECTOR_AT(T, N, SPACE, p_) = v_; \
  else for (int l_ = 0; l_ < c_; l_++) p_[l_] = v_[l_]; })
#if __has_builtin(__builtin_convertvector)
#define CONVERT(T, N, x) __builtin_convertvector(x, T##N)
#else
#define CONVERT(T, N, x) convert_##T##N(x)
#endif
/* m, a mask of type K or a truth value, with lanes as wide as those of a and b */
#define SELECT(T, M, K, N, m, a, b) (CONVERT(M, N, (K##N)(m)) ? (T##N)(a) : (T##N)(b))
#define EACH(T, N, f, x) ({ T##N x_ = (x), r_; for (int l_ = 0; l_ < N; l_++) r_[l_] = f(x_[l_]); r_; })
#define EACH_PAIR(T, N, f, x, y) ({ \
  T##N x_ = (x), y_ = (y), r_; for (int l_ = 0; l_ < N; l_++) r_[l_] = f(x_[l_], y_[l_]); r_; })
/* a function that only the driver has. PoCL's for wide vectors are compiled for the processor; where PoCL's compiler is not, calling one
   ends the process. */
#if !defined(__x86_64__) || defined(__AVX512F__)
#define CALL(T, N, f, x) f((T##N)(x))
#else
#define CALL(T, N, f, x) EACH(T, N, f, x)
#endif
#define SQUARE_ROOT(T, N, x) EACH(T, N, sqrt, x)
#define ROUNDED(T, N, x) EACH(T, N, rint, x)
#if __has_builtin(__builtin_elementwise_floor)
#define FLOOR(T, N, x) __builtin_elementwise_floor((T##N)(x))
#define CEILING(T, N, x) __builtin_elementwise_ceil((T##N)(x))
#define TRUNCATED(T, N, x) __builtin_elementwise_trunc((T##N)(x))
#define MAGNITUDE(T, N, x) __builtin_elementwise_abs((T##N)(x))
#else
#define FLOOR(T, N, x) EACH(T, N, floor, x)
#define CEILING(T, N, x) EACH(T, N, ceil, x)
#define TRUNCATED(T, N, x) EACH(T, N, trunc, x)
#define MAGNITUDE(T, N, x) EACH(T, N, fabs, x)
#endif
