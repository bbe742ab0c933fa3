/* The limits of a processor: multiply-adds in registers, bytes a second from each level of memory, handing work to a
   thread. bench/limits.py compiles and calls it. A vector is as wide as the flags allow. */
#include <pthread.h>
#include <time.h>
#if defined(__AVX512VNNI__) || defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { BYTES = 64, CHAINS = 24 }; /* chains: enough to hide the latency, few enough for the registers */
#elif defined(__AVX__)
enum { BYTES = 32, CHAINS = 12 };
#elif defined(__aarch64__)
enum { BYTES = 16, CHAINS = 24 };
#else
enum { BYTES = 16, CHAINS = 12 };
#endif
enum { LANES = BYTES / 4, FEW = 12 /* more and gcc copies them */, MOST_THREADS = 1024, LINE = 16 /* floats */ };
typedef float vector __attribute__((vector_size(BYTES)));

typedef struct {
  int kind, index, threads;
  long turns, floats; /* floats: those of this thread's memory */
  float* memory;
} task;

static volatile float sink, factor = 0.999f, addend = 1e-6f;
static int arrived, opened;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Returns when all threads are here; `round` counts the calls, from 1. */
static void meet(int threads, int round) {
  if (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST) == threads * round) __atomic_store_n(&opened, round, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&opened, __ATOMIC_SEQ_CST) < round) {}
}

static void multiply_adds(long turns) {
  vector x = factor - (vector){}, y = addend - (vector){}, c[CHAINS], sum = {};
  for (int i = 0; i < CHAINS; i++) c[i] = y * (float)i;
  for (long k = 0; k < turns; k++)
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) c[i] = c[i] * x + y;
  for (int i = 0; i < CHAINS; i++) sum += c[i];
  sink = sum[0];
}

#ifdef __AVX512VNNI__
static void byte_products(long turns) {
  __m512i x = _mm512_set1_epi8((char)factor), c[FEW], sum = x;
#pragma GCC unroll 12
  for (int i = 0; i < FEW; i++) c[i] = _mm512_set1_epi32(i);
  for (long k = 0; k < turns; k++)
#pragma GCC unroll 12
    for (int i = 0; i < FEW; i++) c[i] = _mm512_dpbusd_epi32(c[i], x, x);
#pragma GCC unroll 12
  for (int i = 0; i < FEW; i++) sum = _mm512_add_epi32(sum, c[i]);
  sink = _mm512_reduce_add_epi32(sum);
}
#endif

#ifdef __AVX512BF16__
static void bfloat16_products(long turns) {
  __m512 f = _mm512_set1_ps(factor), c[CHAINS], sum = f;
  __m512bh x = _mm512_cvtne2ps_pbh(f, f);
  for (int i = 0; i < CHAINS; i++) c[i] = _mm512_set1_ps(addend * (float)i);
  for (long k = 0; k < turns; k++)
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) c[i] = _mm512_dpbf16_ps(c[i], x, x);
  for (int i = 0; i < CHAINS; i++) sum += c[i];
  sink = sum[0];
}
#endif

static void read_all(const float* a, long floats, long turns) {
  vector c[8] = {};
  for (long k = 0; k < turns; k++) {
    for (long i = 0; i + 8 * LANES <= floats; i += 8 * LANES)
#pragma GCC unroll 8
      for (int j = 0; j < 8; j++) c[j] += *(const vector*)(a + i + j * LANES);
    __asm__ volatile("" ::: "memory"); /* each turn reads again */
  }
  for (int j = 1; j < 8; j++) c[0] += c[j];
  sink = c[0][0];
}

/* The three parts begin in other sets of the cache. */
static void add_parts(float* memory, long floats, long turns) {
  long part = floats / 3 / (4 * LANES) * (4 * LANES) - 20 * LINE;
  const float *a = memory, *b = a + part + 10 * LINE;
  float* c = memory + 2 * (part + 10 * LINE);
  for (long k = 0; k < turns; k++) {
    for (long i = 0; i + 4 * LANES <= part; i += 4 * LANES)
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) *(vector*)(c + i + j * LANES) = *(const vector*)(a + i + j * LANES) + *(const vector*)(b + i + j * LANES);
    __asm__ volatile("" ::: "memory");
  }
}

/* The first thread gives a number, each other one answers with the same. */
static void hand_over(const task* t) {
  static long given, answered[MOST_THREADS][LINE]; /* each in cache lines of its own */
  if (t->index == 0) __atomic_store_n(&given, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&answered[t->index][0], 0, __ATOMIC_SEQ_CST);
  meet(t->threads, 2);
  for (long k = 1; k <= t->turns; k++) {
    if (t->index == 0) {
      __atomic_store_n(&given, k, __ATOMIC_SEQ_CST);
      for (int i = 1; i < t->threads; i++)
        while (__atomic_load_n(&answered[i][0], __ATOMIC_ACQUIRE) < k) {}
    } else {
      while (__atomic_load_n(&given, __ATOMIC_ACQUIRE) < k) {}
      __atomic_store_n(&answered[t->index][0], k, __ATOMIC_RELEASE);
    }
  }
}

enum { FLOAT32, INT8, BFLOAT16, READ, ADD, LAUNCH };

static void work(const task* t) {
  if (t->kind == FLOAT32) multiply_adds(t->turns);
#ifdef __AVX512VNNI__
  if (t->kind == INT8) byte_products(t->turns);
#endif
#ifdef __AVX512BF16__
  if (t->kind == BFLOAT16) bfloat16_products(t->turns);
#endif
  if (t->kind == READ) read_all(t->memory, t->floats, t->turns);
  if (t->kind == ADD) add_parts(t->memory, t->floats, t->turns);
  if (t->kind == LAUNCH) hand_over(t);
}

static void* follow(void* given) {
  const task* t = given;
  meet(t->threads, 1);
  work(t);
  meet(t->threads, t->kind == LAUNCH ? 3 : 2);
  return 0;
}

/* Operations of one turn of a kind on one thread; 0 where the processor has no such instruction. */
__attribute__((visibility("default"))) long operations(int kind) {
  if (kind == FLOAT32) return CHAINS * LANES * 2;
#ifdef __AVX512VNNI__
  if (kind == INT8) return FEW * LANES * 8;
#endif
#ifdef __AVX512BF16__
  if (kind == BFLOAT16) return CHAINS * LANES * 4;
#endif
  return 0;
}

/* Seconds of some turns of a kind of work on each of some threads, which divide the memory; -1: no thread is to be
   had. */
__attribute__((visibility("default"))) double measure(int kind, int threads, long turns, float* memory, long floats) {
  pthread_t started[MOST_THREADS];
  task tasks[MOST_THREADS];
  long each = floats / threads / (8 * LANES) * (8 * LANES);
  arrived = opened = 0;
  for (int i = 0; i < threads; i++) {
    tasks[i] = (task){kind, i, threads, turns, each, memory + i * each};
    if (i > 0 && pthread_create(&started[i], 0, follow, &tasks[i])) {
      __atomic_store_n(&opened, 3, __ATOMIC_SEQ_CST); /* those that were started wait for nobody */
      while (--i > 0) pthread_join(started[i], 0);
      return -1;
    }
  }
  meet(threads, 1);
  double start = now();
  work(&tasks[0]);
  meet(threads, kind == LAUNCH ? 3 : 2);
  double taken = now() - start;
  for (int i = 1; i < threads; i++) pthread_join(started[i], 0);
  return taken;
}
