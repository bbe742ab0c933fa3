/* What stands before the kernels of a program: vectors and memory as gcc and clang share them, and how a launch is
   shared among threads. */
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#define VECTORIZED _Pragma("clang loop vectorize(enable)")
#else
#define UNROLLED _Pragma("GCC unroll 64")
#define VECTORIZED
#endif
void *aligned_alloc(__SIZE_TYPE__ alignment, __SIZE_TYPE__ size);
void free(void *memory);
_Noreturn void abort(void);
static inline void *memory_for(__SIZE_TYPE__ bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!memory) abort();
  return memory;
}
static inline void free_at(void **variable) { free(*variable); }
#define FREED __attribute__((cleanup(free_at)))
/* Versions of gcc (12.2 is one) lay vectors at places of the stack that are not aligned, in functions that call no others
   and know these places by a register alone. One that might call abort is none of these. */
#if defined(__x86_64__) && !defined(__clang__)
#define ALIGNED_STACK() ({ int none_ = 0; __asm__("" : "+r"(none_)); if (none_) abort(); })
#else
#define ALIGNED_STACK()
#endif
#define IS_FLOAT(T) ((T)0.5 != 0)
/* Vectors are the compilers' own types, which gcc and clang share. In memory only their elements are aligned. */
#define VECTOR(T, N) T __attribute__((vector_size((N) * sizeof(T))))
#define VECTOR_AT(T, N, p) (((struct __attribute__((packed, may_alias)) { VECTOR(T, N) v; } *)(p))->v)
#define HALF(T, N, v, k) (((union { VECTOR(T, 2 * (N)) whole; VECTOR(T, N) halves[2]; }){v}).halves[k])
/* gcc 12 has an internal error where it would compare these lanes before they are widened. */
#ifdef __clang__
#define DOUBLES(N, x) __builtin_convertvector(x, VECTOR(double, N))
#else
#define DOUBLES(N, x) ({ \
  VECTOR(double, N) d_ = __builtin_convertvector(x, VECTOR(double, N)); __asm__("" : "+m"(d_)); d_; })
#endif
/* gcc converts bytes to floats, and floats to bytes, lane by lane, unless it is by way of int; it also does so where it knows that the bytes come from memory. */
#if defined(__x86_64__) && !defined(__clang__)
#define IN_REGISTER(x) ({ __auto_type x_ = (x); __asm__("" : "+x"(x_)); x_; })
#else
#define IN_REGISTER(x) (x)
#endif
#define FROM_BYTES(T, N, x) __builtin_convertvector(__builtin_convertvector(IN_REGISTER(x), VECTOR(int, N)), VECTOR(T, N))
#define TO_BYTES(T, N, x) __builtin_convertvector(__builtin_convertvector(x, VECTOR(int, N)), VECTOR(T, N))
/* How many of n lanes a count means. Counts are of 64 bits: they go to the end of a buffer, which may have more than
   2**31 elements at the largest of the sizes that vary. */
static inline __attribute__((always_inline)) int lanes_of(long long count, int n) {
  return count < 0 ? 0 : count < n ? (int)count : n;
}
/* The lanes first <= k < last of 16 with four or two bytes each, or of 8 with eight, are read and written by one
   instruction where there is one: integers by that of integers, as clang 19 cannot widen those that were loaded as floats. */
#ifdef __AVX512F__
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define HAS_MASKED_HALVES 1
#define LOAD_HALVES(v, p, lanes) (VECTOR(short, 16))__builtin_ia32_loaddquhi256_mask(p, v, lanes)
#define STORE_HALVES(p, v, lanes) __builtin_ia32_storedquhi256_mask(p, v, lanes)
#else
#define HAS_MASKED_HALVES 0
#define LOAD_HALVES(v, p, lanes) (v)
#define STORE_HALVES(p, v, lanes)
#endif
#define IS_MASKED(T, N) ((N) == 16 ? sizeof(T) == 4 || (sizeof(T) == 2 && HAS_MASKED_HALVES) : \
  (N) == 8 && sizeof(T) == 8)
static inline unsigned below(int count) { return count <= 0 ? 0 : count >= 16 ? 0xffff : (1u << count) - 1; }
static inline __attribute__((always_inline)) void load_masked(
    void *v, const void *p, int first, int last, int bytes, int floats) {
  unsigned lanes = below(last) & ~below(first);
  p = lanes ? p : v; /* a load of no lanes at a place that is no memory is slow */
  if (bytes == 8 && floats) *(VECTOR(double, 8) *)v = __builtin_ia32_loadupd512_mask(p, *(VECTOR(double, 8) *)v, lanes);
  else if (bytes == 8) *(VECTOR(long long, 8) *)v = __builtin_ia32_loaddqudi512_mask(p, *(VECTOR(long long, 8) *)v, lanes);
  else if (bytes == 2) *(VECTOR(short, 16) *)v = LOAD_HALVES(*(VECTOR(short, 16) *)v, p, lanes);
  else if (floats) *(VECTOR(float, 16) *)v = __builtin_ia32_loadups512_mask(p, *(VECTOR(float, 16) *)v, lanes);
  else *(VECTOR(int, 16) *)v = __builtin_ia32_loaddqusi512_mask(p, *(VECTOR(int, 16) *)v, lanes);
}
static inline __attribute__((always_inline)) void store_masked(
    void *p, const void *v, int last, int bytes, int floats) {
  if (bytes == 8 && floats) __builtin_ia32_storeupd512_mask(p, *(VECTOR(double, 8) *)v, below(last));
  else if (bytes == 8) __builtin_ia32_storedqudi512_mask(p, *(VECTOR(long long, 8) *)v, below(last));
  else if (bytes == 2) STORE_HALVES(p, *(VECTOR(short, 16) *)v, below(last));
  else if (floats) __builtin_ia32_storeups512_mask(p, *(VECTOR(float, 16) *)v, below(last));
  else __builtin_ia32_storedqusi512_mask(p, *(VECTOR(int, 16) *)v, below(last));
}
#elif defined(__AVX2__)
#define IS_MASKED(T, N) ((N) == 8 && sizeof(T) == 4)
/* Their stores of some lanes take longer than those of one element after the other on some processors. */
#define STORES_MASKED(T, N) 0
static inline __attribute__((always_inline)) void load_masked(
    void *v, const void *p, int first, int last, int bytes, int floats) {
  const VECTOR(int, 8) l = {0, 1, 2, 3, 4, 5, 6, 7}, m = (first <= l) & (l < last);
  VECTOR(int, 8) *w = (VECTOR(int, 8) *)v;
  p = first < last && first < 8 && last > 0 ? p : v; /* a load of no lanes at a place that is no memory is slow */
  *w = (*w & ~m) | __builtin_ia32_maskloadd256((const VECTOR(int, 8) *)p, m);
}
static inline void store_masked(void *p, const void *v, int last, int bytes, int floats) {}
#else
#define IS_MASKED(T, N) 0
static inline void load_masked(void *v, const void *p, int first, int last, int bytes, int floats) {}
static inline void store_masked(void *p, const void *v, int last, int bytes, int floats) {}
#endif
#ifndef STORES_MASKED
#define STORES_MASKED(T, N) IS_MASKED(T, N)
#endif
#define LOAD_FIRST(T, N, p, count) ({ \
  const T *p_ = (p); const long long c_ = (count); VECTOR(T, N) v_; \
  if (c_ >= N) v_ = VECTOR_AT(T, N, p_); \
  else if (IS_MASKED(T, N)) { \
    v_ = p_[c_ - 1] - (VECTOR(T, N)){}; load_masked(&v_, p_, 0, lanes_of(c_, N), sizeof(T), IS_FLOAT(T)); } \
  else for (int l_ = 0; l_ < N; l_++) v_[l_] = p_[l_ < c_ ? l_ : c_ - 1]; \
  v_; })
#define LOAD_LANES(T, N, p, other, first, last, gate) ({ \
  const T *p_ = (p); int f_ = lanes_of(first, N), c_ = (gate) ? lanes_of(last, N) : 0; VECTOR(T, N) v_ = (T)(other) - (VECTOR(T, N)){}; \
  if (IS_MASKED(T, N) && N > 8) load_masked(&v_, p_, f_, c_, sizeof(T), IS_FLOAT(T)); \
  else if (f_ <= 0 && c_ >= N) v_ = VECTOR_AT(T, N, p_); \
  else if (IS_MASKED(T, N)) load_masked(&v_, p_, f_, c_, sizeof(T), IS_FLOAT(T)); \
  else for (int l_ = 0; l_ < N; l_++) if (f_ <= l_ && l_ < c_) v_[l_] = p_[l_]; \
  v_; })
#define STORE_FIRST(T, N, p, v, count) ({ \
  T *p_ = (p); VECTOR(T, N) v_ = (v) - (VECTOR(T, N)){}; int c_ = lanes_of(count, N); \
  if (c_ >= N) VECTOR_AT(T, N, p_) = v_; \
  else if (STORES_MASKED(T, N)) store_masked(p_, &v_, c_, sizeof(T), IS_FLOAT(T)); \
  else for (int l_ = 0; l_ < c_; l_++) p_[l_] = v_[l_]; })
/* A line of 64 bytes past the caches, if it is one. Who stores so waits for these stores at the end of its part. */
#if defined(__clang__)
#define STREAMED(T, N, p, v) __builtin_nontemporal_store(v, (VECTOR(T, N) *)(p))
#elif defined(__AVX512F__)
#define STREAMED(T, N, p, v) __builtin_ia32_movntps512((float *)(p), (VECTOR(float, 16))(v))
#endif
#define STREAM(T, N, p, v) ({ \
  T *p_ = (p); VECTOR(T, N) v_ = (v); \
  if ((unsigned long long)p_ % 64) VECTOR_AT(T, N, p_) = v_; else STREAMED(T, N, p_, v_); })
#define STREAM_FIRST(T, N, p, v, count) ({ \
  T *f_ = (p); VECTOR(T, N) w_ = (v); int n_ = lanes_of(count, N); \
  if (n_ < N) STORE_FIRST(T, N, f_, w_, n_); else STREAM(T, N, f_, w_); })
#if defined(__x86_64__)
#define AFTER_STREAMS() __builtin_ia32_sfence()
#else
#define AFTER_STREAMS() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
/* Its sum is a lane's own, the words of x and y are not changed. */
#define DOT(T, instruction, c, x, y) ({ \
  VECTOR(T, 16) c_ = (c) - (VECTOR(T, 16)){}; \
  VECTOR(unsigned, 16) x_ = (x) - (VECTOR(unsigned, 16)){}, y_ = (y) - (VECTOR(unsigned, 16)){}; \
  __asm__(#instruction " %2, %1, %0" : "+v"(c_) : "v"(x_), "v"(y_)); c_; })
/* y * 2**n, by parts of a register. */
#define SCALED(T, instruction, y, n) ({ \
  T y_ = (y), n_ = (n), s_; __asm__(#instruction " %2, %1, %0" : "=v"(s_) : "v"(y_), "v"(n_)); s_; })
#define SCALED_VECTOR(T, M, N, instruction, y, n) ({ \
  enum { B_ = N * sizeof(T), P_ = (B_ > 64 ? 64 : B_ < 16 ? 16 : B_) / sizeof(T), C_ = (N + P_ - 1) / P_ }; \
  union { VECTOR(T, N) all; VECTOR(T, P_) parts[C_]; } y_, n_; \
  y_.all = (y) - (VECTOR(T, N)){}; \
  n_.all = __builtin_convertvector((n) - (VECTOR(M, N)){}, VECTOR(T, N)); \
  for (int p_ = 0; p_ < C_; p_++) \
    __asm__(#instruction " %1, %0, %0" : "+v"(y_.parts[p_]) : "v"(n_.parts[p_])); \
  y_.all; })
/* A square of memory, transposed: its rows are exchanged in pairs by 1, 2, 4 and 8 lanes. Written out, for gcc keeps in
   registers only rows that no loop counts. */
#define LOWER(N, h, k) ((k) & (h) ? (N) + (k) - (h) : (k))
#define UPPER(N, h, k) ((k) & (h) ? (N) + (k) : (k) + (h))
#define LANES2(f, N, h) f(N, h, 0), f(N, h, 1)
#define LANES4(f, N, h) LANES2(f, N, h), f(N, h, 2), f(N, h, 3)
#define LANES8(f, N, h) LANES4(f, N, h), f(N, h, 4), f(N, h, 5), f(N, h, 6), f(N, h, 7)
#define LANES16(f, N, h) LANES8(f, N, h), f(N, h, 8), f(N, h, 9), f(N, h, 10), f(N, h, 11), f(N, h, 12), f(N, h, 13), \
  f(N, h, 14), f(N, h, 15)
#define ROWS4(f, N, h, j) f(N, h, j) f(N, h, j + 1) f(N, h, j + 2) f(N, h, j + 3)
#define ROWS(f, N, h) ROWS4(f, N, h, 0) ROWS4(f, N, h, 4) ROWS4(f, N, h, 8) ROWS4(f, N, h, 12)
/* gcc has one function for it until version 11, and clang's from 12 on. */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define LIKE(x) __typeof__(__builtin_choose_expr(sizeof((x)[0]) == 4, 0, 0ll)) /* integers as wide as its lanes */
#define SHUFFLED(x, y, ...) __builtin_shuffle(x, y, (VECTOR(LIKE(x), sizeof(x) / sizeof((x)[0]))){__VA_ARGS__})
#endif
#define OPPOSITE(N, h, k) ((N) - 1 - (k))
#define REVERSE_LANES(N, v) ({ const __auto_type v_ = (v); SHUFFLED(v_, v_, LANES##N(OPPOSITE, N, 0)); })
/* Each of N / c lanes c times. */
#define REPEATED(N, c, k) ((k) / (c))
#define REPEATED_LANE(N, c, k) v_[(k) / (c)]
#if defined(__clang__) || __GNUC__ >= 12
#define REPEAT_LANES(T, N, c, v) ({ const __auto_type v_ = (v); __builtin_shufflevector(v_, v_, LANES##N(REPEATED, N, c)); })
#else
#define REPEAT_LANES(T, N, c, v) ({ const __auto_type v_ = (v); (VECTOR(T, N)){LANES##N(REPEATED_LANE, N, c)}; })
#endif
/* Every second, third or fourth element. No vector is read beyond the last of them, which the last vector ends with. */
#define SECONDS(N, s, k) (2 * (k) < (N) ? 2 * (k) : 2 * (k) + 1)
#define THIRDS(N, s, k) (3 * (k) < 2 * (N) ? 3 * (k) : 0)
#define LAST_THIRDS(N, s, k) (3 * (k) < 2 * (N) ? (k) : 3 * (k) + 2 - (N))
#define FOURTHS(N, s, k) (2 * (k) < (N) ? 4 * (k) : 0)
#define LAST_FOURTHS(N, s, k) (2 * (k) < (N) ? 0 : 4 * (k) < 3 * (N) ? 4 * (k) - 2 * (N) : 4 * (k) + 3 - 2 * (N))
#define HALVES(N, s, k) (2 * (k) < (N) ? (k) : (N) + (k))
#define AT_PART(T, N, s, k) VECTOR_AT(T, N, s_ + (k) * (N) - ((k) == (s) - 1 ? (k) : 0))
#define STRIDED2(T, N, part) ({ \
  VECTOR(T, N) a_ = part(T, N, 2, 0), b_ = part(T, N, 2, 1); SHUFFLED(a_, b_, LANES##N(SECONDS, N, 2)); })
#define STRIDED3(T, N, part) ({ \
  VECTOR(T, N) a_ = part(T, N, 3, 0), b_ = part(T, N, 3, 1), c_ = part(T, N, 3, 2); \
  a_ = SHUFFLED(a_, b_, LANES##N(THIRDS, N, 3)); SHUFFLED(a_, c_, LANES##N(LAST_THIRDS, N, 3)); })
#define STRIDED4(T, N, part) ({ \
  VECTOR(T, N) a_ = part(T, N, 4, 0), b_ = part(T, N, 4, 1), c_ = part(T, N, 4, 2), d_ = part(T, N, 4, 3); \
  a_ = SHUFFLED(a_, b_, LANES##N(FOURTHS, N, 4)); c_ = SHUFFLED(c_, d_, LANES##N(LAST_FOURTHS, N, 4)); \
  SHUFFLED(a_, c_, LANES##N(HALVES, N, 4)); })
#define LOAD_STRIDED(T, N, S, p) ({ const T *s_ = (p); STRIDED##S(T, N, AT_PART); })
/* In the lanes from the first one to that before the last one, where a vector is read by masks. */
#define MASKED_PART(T, N, s, k) ({ \
  const int o_ = (k) * (N) - ((k) == (s) - 1 ? (k) : 0); VECTOR(T, N) v_ = x_ - (VECTOR(T, N)){}; \
  const int b_ = (s) * f_ - o_, e_ = (s) * (l_ - 1) + 1 - o_; \
  if (IS_MASKED(T, N)) load_masked(&v_, s_ + o_, b_, e_, sizeof(T), IS_FLOAT(T)); \
  else for (int j_ = 0; j_ < N; j_++) if (b_ <= j_ && j_ < e_) v_[j_] = s_[o_ + j_]; \
  v_; })
#define LOAD_LANES_STRIDED(T, N, S, p, other, first, last, gate) ({ \
  const T *s_ = (p), x_ = (other); const int f_ = lanes_of(first, N), l_ = (gate) ? lanes_of(last, N) : 0; \
  VECTOR(T, N) w_; \
  if (N <= 8 && f_ <= 0 && l_ >= N) w_ = STRIDED##S(T, N, AT_PART); else w_ = STRIDED##S(T, N, MASKED_PART); \
  w_; })
#define LOAD_STRIDED_FIRST(T, N, S, p, count) ({ \
  const T *t_ = (p); const long long n_ = (count); VECTOR(T, N) w_; \
  if (n_ >= N) w_ = LOAD_STRIDED(T, N, S, t_); \
  else for (int l_ = 0; l_ < N; l_++) w_[l_] = t_[(l_ < n_ ? l_ : n_ - 1) * S]; \
  w_; })
#define LOAD_ROW(N, h, j) if (j < N) rows_[(j) % N] = VECTOR_AT(__typeof__(*p_), N, p_ + (j) * s_);
#define LOAD_ROW_FIRST(N, h, j) if (j < N) rows_[(j) % N] = VECTOR_AT(__typeof__(*p_), N, p_ + ((j) < c_ ? (j) : c_ - 1) * s_);
#define EXCHANGE_ROWS(N, h, j) if (h < N && j < N && !((j) & (h))) { \
  const __auto_type x_ = rows_[(j) % N]; const __auto_type y_ = rows_[((j) + (h)) % N]; \
  rows_[(j) % N] = SHUFFLED(x_, y_, LANES##N(LOWER, N, (h) % N)); \
  rows_[((j) + (h)) % N] = SHUFFLED(x_, y_, LANES##N(UPPER, N, (h) % N)); }
#define STORE_ROW(N, h, j) if (j < N) VECTOR_AT(__typeof__(*p_), N, to_ + (j) * N) = rows_[(j) % N];
#define STORE_ROWS_TRANSPOSED(T, N, to, p, stride, count, load) do { \
  VECTOR(T, N) rows_[N]; T *to_ = (to), *p_ = (T *)(p); const long long s_ = (stride), c_ = (count); \
  ROWS(load, N, 0) ROWS(EXCHANGE_ROWS, N, 1) ROWS(EXCHANGE_ROWS, N, 2) ROWS(EXCHANGE_ROWS, N, 4) \
  ROWS(EXCHANGE_ROWS, N, 8) ROWS(STORE_ROW, N, 0) } while (0)
#define STORE_TRANSPOSED(T, N, to, p, stride) STORE_ROWS_TRANSPOSED(T, N, to, p, stride, N, LOAD_ROW)
/* Rows behind the last one, of so many that may be negative, are it. */
#define STORE_TRANSPOSED_FIRST(T, N, to, p, stride, count) do { \
  const long long n_ = (count); \
  if (n_ >= N) STORE_TRANSPOSED(T, N, to, p, stride); \
  else STORE_ROWS_TRANSPOSED(T, N, to, p, stride, n_, LOAD_ROW_FIRST); } while (0)
#define STORE_TRANSPOSED_IF(T, N, to, p, stride, gate) do { \
  if (gate) STORE_TRANSPOSED(T, N, to, p, stride); else __builtin_memset(to, 0, sizeof(T) * N * N); } while (0)
#define TRANSPOSED_IF(T, N, p, stride, gate) ({ \
  union { VECTOR(T, N * N) all; T numbers[N * N]; } b_; STORE_TRANSPOSED_IF(T, N, b_.numbers, p, stride, gate); b_.all; })
#define TRANSPOSED(T, N, p, stride) TRANSPOSED_IF(T, N, p, stride, 1)
#define TRANSPOSED_FIRST(T, N, p, stride, count) ({ \
  union { VECTOR(T, N * N) all; T numbers[N * N]; } b_; \
  STORE_TRANSPOSED_FIRST(T, N, b_.numbers, p, stride, count); b_.all; })
#define TRUTHS(N, m) (__builtin_convertvector(m, VECTOR(unsigned char, N)) & 1)
#define EACH(T, N, f, x) ({ \
  VECTOR(T, N) x_ = (x), r_; for (int l_ = 0; l_ < N; l_++) r_[l_] = f(x_[l_]); r_; })
#define EACH_PAIR(T, N, f, x, y) ({ \
  VECTOR(T, N) x_ = (x) - (VECTOR(T, N)){}, y_ = (y) - (VECTOR(T, N)){}, r_; \
  for (int l_ = 0; l_ < N; l_++) r_[l_] = f(x_[l_], y_[l_]); r_; })
/* Remainders, and whether all quotients are below 2**24. A product that is added without a rounding makes the remainder of a
   quotient exact, also of one that was rounded up to the next integer, to which the divisor is added again. */
#if defined(__x86_64__) && defined(__FMA__)
#ifdef __AVX512F__
#define REMAINDERS_OF 16
#define ALL_LESS(a, b) (__builtin_ia32_cmpps512_mask(a, b, 17, 0xffff, 4) == 0xffff)
#else
#define REMAINDERS_OF 8
#define ALL_LESS(a, b) (__builtin_ia32_movmskps256((VECTOR(float, 8))((a) < (b))) == 0xff)
#endif
typedef VECTOR(float, REMAINDERS_OF) floats_of_remainders;
typedef VECTOR(int, REMAINDERS_OF) bits_of_remainders;
static inline int remainders(const floats_of_remainders *x, const floats_of_remainders *y, floats_of_remainders *r) {
  const floats_of_remainders a = (floats_of_remainders)((bits_of_remainders)*x & 0x7fffffff);
  const floats_of_remainders b = (floats_of_remainders)((bits_of_remainders)*y & 0x7fffffff);
  const floats_of_remainders q = __builtin_convertvector(__builtin_convertvector(a / b, bits_of_remainders), floats_of_remainders);
  floats_of_remainders e = a;
  __asm__("vfnmadd231ps %2, %1, %0" : "+v"(e) : "v"(q), "v"(b));
  e += (floats_of_remainders)((bits_of_remainders)b & (e < 0.0f));
  *r = (floats_of_remainders)(((bits_of_remainders)e & 0x7fffffff) | ((bits_of_remainders)*x & ~0x7fffffff));
  return ALL_LESS(a, b * 0x1p24f + (b - b)); /* an infinite divisor is for the library's function, too */
}
#else
#define REMAINDERS_OF 1
typedef float floats_of_remainders;
/* a double has the digits of a product of the divisor and a quotient below 2**24 */
static inline int remainders(const float *x, const float *y, float *r) {
  const double a = *x, b = *y, m = __builtin_fabs(b);
  const int fits = (__builtin_fabs(a) < m * 0x1p24) & (m < 0x1p128);
  *r = __builtin_copysignf((float)(a - (int)(fits ? a / b : 0.0) * b), *x);
  return fits;
}
#endif
/* What else there is, a library's function does. */
#define REMAINDERS(N, x, y) ({ \
  enum { P_ = (N + REMAINDERS_OF - 1) / REMAINDERS_OF }; int fits_ = 1; \
  union { VECTOR(float, N) all; float lanes[N]; floats_of_remainders parts[P_]; } x_ = {.parts = {}}, y_ = x_, r_; \
  x_.all = (x) - (VECTOR(float, N)){}; y_.all = (y) - (VECTOR(float, N)){}; \
  if (N % REMAINDERS_OF) for (int l_ = N; l_ < P_ * REMAINDERS_OF; l_++) ((float *)&y_)[l_] = 1.0f; \
  for (int l_ = 0; l_ < P_; l_++) fits_ &= remainders(&x_.parts[l_], &y_.parts[l_], &r_.parts[l_]); \
  if (!fits_) { __asm__ volatile(""); for (int l_ = 0; l_ < N; l_++) r_.lanes[l_] = __builtin_fmodf(x_.lanes[l_], y_.lanes[l_]); } \
  r_.all; })
#define SELECT(T, M, N, m, a, b) ({ \
  VECTOR(M, N) m_ = __builtin_convertvector(m, VECTOR(M, N)); \
  VECTOR(T, N) a_ = (a) - (VECTOR(T, N)){}, b_ = (b) - (VECTOR(T, N)){}; \
  (VECTOR(T, N))(((VECTOR(M, N))a_ & m_) | ((VECTOR(M, N))b_ & ~m_)); })
static inline __attribute__((always_inline)) int all_lanes(const int *mask, int count) {
#ifdef __AVX512F__
  if (count == 16) return !__builtin_ia32_cmpd512_mask(*(const VECTOR(int, 16) *)mask, (VECTOR(int, 16)){}, 0, 0xffff);
#endif
#ifdef __AVX__
  if (count == 8) return __builtin_ia32_movmskps256(*(const VECTOR(float, 8) *)mask) == 0xff;
  if (count == 4) return __builtin_ia32_movmskps(*(const VECTOR(float, 4) *)mask) == 0xf;
#endif
  int all = -1;
  for (int l = 0; l < count; l++) all &= mask[l];
  return all;
}
/* Where the mask holds for all lanes b is not computed: compilers move what only it needs into the branch. */
#define LIKELY(T, M, N, m, a, b) ({ \
  const VECTOR(int, N) holds_ = __builtin_convertvector(m, VECTOR(int, N)); VECTOR(T, N) y_ = (a) - (VECTOR(T, N)){}; \
  if (__builtin_expect(!all_lanes((const int *)&holds_, N), 0)) y_ = SELECT(T, M, N, holds_, y_, b); \
  y_; })
typedef void (*part_function)(void **, long long, long long);
static void (*rulegrad_run)(part_function, void **, long long, long long);
__attribute__((visibility("default"))) void rulegrad_connect(void *run) { rulegrad_run = run; }
