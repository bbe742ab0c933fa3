// Kernels of a GPU on the CPU: the threads of a block are fibers, which run until they wait at a barrier. One block after the other.
//
// The order in which threads run is a setting, so that a missing barrier shows as a wrong result; threads of a block that wait
// at different barriers, or of which some have ended, are an error.
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

namespace shim {

struct Index {
  unsigned x, y, z;
};

inline Index thread_index, block_index, block_size, grid_size;
}  // namespace shim
extern "C" char shim_message[400];
namespace shim {

constexpr unsigned warp_size = 32, most_threads = 1024, stack_bytes = 1 << 17;

enum class State { ready, in_block_barrier, in_warp_barrier, waits_for_progress, ended };

struct Fiber {
  ucontext_t context;
  jmp_buf place;  // where it waits: later switches are jumps, as those between contexts are system calls
  char* stack = nullptr;
  bool has_begun = false;
  State state = State::ready;
  int line = 0;  // of the barrier
  unsigned long long seen = 0;  // how far others were when it began to wait for their progress
};

inline Fiber fibers[most_threads];
inline ucontext_t scheduler;
inline jmp_buf scheduler_place;
inline unsigned running;  // the thread's number in its block
inline void (*body)();
inline bool uses_fibers;
inline unsigned long long progress;  // counts what threads may wait for that is not a barrier
inline bool has_failed;

inline void wait_at(State state, int line) {
  Fiber& me = fibers[running];
  if (!uses_fibers) {
    fprintf(stderr, "shim: a barrier in a kernel that was said to have none\n");
    abort();
  }
  me.state = state;
  me.line = line;
  if (!_setjmp(me.place)) _longjmp(scheduler_place, 1);
}

// Waits until another thread has made progress.
inline void wait_for_progress() {
  fibers[running].seen = progress;
  wait_at(State::waits_for_progress, 0);
}

// Ends the launch with an error.
[[noreturn]] inline void fail(const char* what) {
  if (!uses_fibers) {
    fprintf(stderr, "shim: %s\n", what);
    abort();
  }
  snprintf(shim_message, sizeof shim_message, "%s, in block (%u, %u, %u)", what, block_index.x, block_index.y, block_index.z);
  has_failed = true;
  _longjmp(scheduler_place, 1);
}

inline void fiber_main() {
  body();
  fibers[running].state = State::ended;
  _longjmp(scheduler_place, 1);
}

// Runs a fiber until it waits or ends.
__attribute__((noinline)) inline void resume(Fiber& fiber) {
  if (_setjmp(scheduler_place)) return;
  if (fiber.has_begun) _longjmp(fiber.place, 1);
  fiber.has_begun = true;
  swapcontext(&scheduler, &fiber.context);
}

inline void select_thread(unsigned number) {
  running = number;
  thread_index = {number % block_size.x, number / block_size.x % block_size.y, number / block_size.x / block_size.y};
}

// ---- the order of threads: 0 forwards, 1 backwards, else at random with this seed ----

struct Order {
  unsigned seed;
  unsigned numbers[most_threads];

  void shuffle(unsigned count) {
    for (unsigned k = 0; k < count; k++) numbers[k] = seed == 1 ? count - 1 - k : k;
    for (unsigned k = count; seed > 1 && k > 1; k--) {
      seed = seed * 1664525u + 1013904223u | 2u;
      const unsigned other = (seed >> 8) % k, kept = numbers[k - 1];
      numbers[k - 1] = numbers[other];
      numbers[other] = kept;
    }
  }
};

inline Order order;

// Lets the threads of a range go on when all that have not ended wait at the same barrier. Whether there were such.
inline bool release(unsigned first, unsigned last, State state, bool all_must_wait) {
  int line = 0;
  for (unsigned k = first; k < last; k++) {
    if (fibers[k].state == State::ended && !all_must_wait) continue;
    if (fibers[k].state != state || (line && fibers[k].line != line)) return false;
    line = fibers[k].line;
  }
  if (!line) return false;
  for (unsigned k = first; k < last; k++)
    if (fibers[k].state == state) fibers[k].state = State::ready;
  return true;
}

inline int divergent(unsigned count) {
  unsigned waiting = 0, ended = 0, polling = 0;
  int lines[2] = {0, 0};
  for (unsigned k = 0; k < count; k++) {
    if (fibers[k].state == State::ended) {
      ended++;
      continue;
    }
    waiting++;
    polling += fibers[k].state == State::waits_for_progress;
    if (!lines[0]) lines[0] = fibers[k].line;
    else if (fibers[k].line != lines[0]) lines[1] = fibers[k].line;
  }
  if (polling) {
    snprintf(shim_message, sizeof shim_message, "in block (%u, %u, %u) %u of %u threads wait for what never comes", block_index.x,
             block_index.y, block_index.z, polling, count);
    return 1;
  }
  snprintf(shim_message, sizeof shim_message,
           "divergent barrier in block (%u, %u, %u): of %u threads %u have ended and %u wait, at line %d%s", block_index.x,
           block_index.y, block_index.z, count, ended, waiting, lines[0], lines[1] ? " and others" : "");
  return 1;
}

inline int run_fibers(unsigned count) {
  for (unsigned k = 0; k < count; k++) {
    Fiber& fiber = fibers[k];
    if (!fiber.stack) fiber.stack = static_cast<char*>(malloc(stack_bytes));
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
    fiber.state = State::ready;
    fiber.has_begun = false;
  }
  while (true) {
    order.shuffle(count);
    bool any_ran = false;
    for (unsigned first = 0, last = 0; first < count; first = last) {
      // neighbours in the order that are of one warp run as far as they can, while other warps have not begun
      const unsigned warp = order.numbers[first] / warp_size * warp_size;
      while (last < count && order.numbers[last] / warp_size * warp_size == warp) last++;
      do {
        for (unsigned k = first; k < last; k++) {
          Fiber& fiber = fibers[order.numbers[k]];
          const bool goes_on = fiber.state == State::waits_for_progress && fiber.seen != progress;
          if (fiber.state != State::ready && !goes_on) continue;
          fiber.state = State::ready;
          select_thread(order.numbers[k]);
          resume(fiber);
          if (has_failed) return 1;
          any_ran = true;
        }
      } while (release(warp, warp + warp_size < count ? warp + warp_size : count, State::in_warp_barrier, false));
    }
    if (any_ran) {
      release(0, count, State::in_block_barrier, true);
      continue;
    }
    for (unsigned k = 0; k < count; k++)
      if (fibers[k].state != State::ended) return divergent(count);
    return 0;
  }
}

inline void (*before_block)();
inline const char* (*after_block)();  // what is wrong then, or nothing

inline int run_block(unsigned count) {
  if (before_block) before_block();
  if (uses_fibers) {
    if (const int failed = run_fibers(count)) return failed;
    const char* problem = after_block ? after_block() : nullptr;
    if (problem) snprintf(shim_message, sizeof shim_message, "%s", problem);
    return problem != nullptr;
  }
  order.shuffle(count);
  for (unsigned k = 0; k < count; k++) {
    select_thread(order.numbers[k]);
    body();
  }
  return 0;
}

// Runs `call` for every thread; 0, or 1 with `shim_message` set.
template <class Call>
int run(const unsigned* grid, const unsigned* block, unsigned seed, bool with_fibers, Call call) {
  static Call* kept;
  kept = &call;
  body = [] { (*kept)(); };
  uses_fibers = with_fibers;
  has_failed = false;
  order.seed = seed;
  grid_size = {grid[0], grid[1], grid[2]};
  block_size = {block[0], block[1], block[2]};
  const unsigned long long blocks = (unsigned long long)grid[0] * grid[1] * grid[2];
  for (unsigned long long k = 0; k < blocks; k++) {
    const unsigned long long number = seed == 1 ? blocks - 1 - k : k;
    block_index = {unsigned(number % grid[0]), unsigned(number / grid[0] % grid[1]), unsigned(number / grid[0] / grid[1])};
    if (const int failed = run_block(block[0] * block[1] * block[2])) return failed;
  }
  return 0;
}

// ---- a launch with arguments as pointers, as drivers take them ----

template <int... k>
struct Sequence {};
template <int n, int... k>
struct Make : Make<n - 1, n - 1, k...> {};
template <int... k>
struct Make<0, k...> {
  using type = Sequence<k...>;
};

// An argument is a pointer, or what a pointer leads to.
template <class P>
struct Argument {
  static const P& of(void* given) { return *static_cast<const P*>(given); }
};
template <class T>
struct Argument<T*> {
  static T* of(void* given) { return static_cast<T*>(given); }
};

template <class... P, int... k>
int launch_with(void (*kernel)(P...), Sequence<k...>, void** arguments, const unsigned* grid, const unsigned* block,
                unsigned seed, bool with_fibers) {
  return run(grid, block, seed, with_fibers, [&] { kernel(Argument<P>::of(arguments[k])...); });
}
template <class... P>
int launch(void (*kernel)(P...), void** arguments, const unsigned* grid, const unsigned* block, unsigned seed, bool with_fibers) {
  return launch_with(kernel, typename Make<sizeof...(P)>::type(), arguments, grid, block, seed, with_fibers);
}

// ---- small floats, by their codes ----

template <class T, class U>
T bits_as(U x) {
  static_assert(sizeof(T) == sizeof(U), "the same bits as another type of the same size");
  T y;
  memcpy(&y, &x, sizeof y);
  return y;
}

inline unsigned short bfloat16_code(float x) {
  const unsigned b = bits_as<unsigned>(x);
  return (b & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
inline float bfloat16_value(unsigned short code) { return bits_as<float>((unsigned)code << 16); }

inline float float16_value(unsigned short code) {
  const int exponent = code >> 10 & 31, digits = code & 1023;
  const float size = exponent == 31 ? (digits ? NAN : INFINITY)
                                    : exponent ? ldexpf(float(digits | 1024), exponent - 25) : ldexpf(float(digits), -24);
  return code >> 15 ? -size : size;
}
inline float float8_e5m2_value(unsigned char code) { return float16_value(code << 8); }
inline float float8_e4m3fn_value(unsigned char code) {
  const int exponent = code >> 3 & 15, digits = code & 7;
  const float size = (code & 127) == 127 ? NAN : exponent ? ldexpf(float(digits | 8), exponent - 10) : ldexpf(float(digits), -9);
  return code >> 7 ? -size : size;
}
// every float32 is a float64, so one function rounds both
inline unsigned short float16_code(double x) {
  const unsigned short sign = signbit(x) ? 0x8000 : 0;
  const double size = fabs(x);
  if (size != size) return 0x7e00;
  if (size == 0) return sign;
  if (size >= 65520.0) return sign | 0x7c00;
  int exponent;
  frexp(size, &exponent);
  const int unit = exponent - 11 < -24 ? -24 : exponent - 11;
  const int digits = int(nearbyint(ldexp(size, -unit)));  // 2048 carries into the exponent
  return sign | (((unit + 24) << 10) + digits);
}

// ---- what the threads of a warp have together ----

inline unsigned char shown[most_threads][8];

template <class T>
T shown_by(unsigned thread) {
  T x;
  memcpy(&x, shown[thread], sizeof x);
  return x;
}
// All threads of a whole warp call it, each with its value; `see` is given the first one's number, and may look at what all have shown.
template <class T, class See>
T in_warp(T x, int line, See see) {
  static_assert(sizeof(T) <= sizeof shown[0], "what a thread shows is at most 64 bits");
  const unsigned first = running / warp_size * warp_size;
  if (first + warp_size > block_size.x * block_size.y * block_size.z) {
    fprintf(stderr, "shim: the last warp of a block is not whole\n");
    abort();
  }
  memcpy(shown[running], &x, sizeof x);
  wait_at(State::in_warp_barrier, line);
  const T found = see(first);
  wait_at(State::in_warp_barrier, line);
  return found;
}
template <class T>
T shuffled(T x, unsigned distance, int line) {
  return in_warp(x, line, [&](unsigned) { return shown_by<T>(running ^ distance); });
}
template <class T, class Function>
T reduced(T x, int line, Function function) {
  return in_warp(x, line, [&](unsigned first) {
    T all = shown_by<T>(first);
    for (unsigned k = 1; k < warp_size; k++) all = function(all, shown_by<T>(first + k));
    return all;
  });
}
template <class T>
T largest(T x, int line) {
  return reduced(x, line, [](T a, T b) { return a < b ? b : a; });
}
template <class T>
T smallest(T x, int line) {
  return reduced(x, line, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
T total(T x, int line) {
  return reduced(x, line, [](T a, T b) { return T(a + b); });
}

// ---- matrix instructions, by the layouts of their rows: the position of element e of thread t is the sum of the numbers of the set bits ----

constexpr int most_elements = 64;  // that a thread has of a matrix

struct Layout {
  int elements;  // of a thread
  int positions[warp_size][most_elements];
  struct {
    int thread, element;
  } owners[most_elements * warp_size];  // by position

  Layout(const int* numbers, int count) : elements((1 << count) / int(warp_size)) {
    for (int t = 0; t < int(warp_size); t++)
      for (int e = 0; e < elements; e++) {
        int position = 0;
        for (int k = 0; k < count; k++) position += ((k < 5 ? t >> k : e >> (k - 5)) & 1) * numbers[k];
        positions[t][e] = position;
        owners[position] = {t, e};
      }
  }
};

// what an operand is worth; bfloat16 may be held as its code
template <class Result, class Operand>
Result value_of(const Operand& x) {
  return Result(x);
}
template <>
inline float value_of(const unsigned short& code) {
  return bfloat16_value(code);
}

inline const void* held[most_threads][2];  // the fragments of each thread's operands

// All threads of a warp call it; nobody changes a fragment before all have read it. `value` says what an operand is worth.
template <class Result, class Operand, class Value>
void matrix_mulacc(Result* c, const Operand* a, const Operand* b, int columns, int depth, const Layout& left, const Layout& right,
                   const Layout& result, int line, Value value) {
  const unsigned first = running / warp_size * warp_size;
  held[running][0] = a;
  held[running][1] = b;
  wait_at(State::in_warp_barrier, line);
  Result sums[most_elements];
  for (int e = 0; e < result.elements; e++) {
    const int position = result.positions[running - first][e], row = position / columns, column = position % columns;
    sums[e] = c[e];
    for (int k = 0; k < depth; k++) {
      const auto& x = left.owners[row * depth + k];
      const auto& y = right.owners[k * columns + column];
      const Operand* xs = static_cast<const Operand*>(held[first + x.thread][0]);
      const Operand* ys = static_cast<const Operand*>(held[first + y.thread][1]);
      sums[e] += value(xs[x.element]) * value(ys[y.element]);
    }
  }
  wait_at(State::in_warp_barrier, line);
  for (int e = 0; e < result.elements; e++) c[e] = sums[e];
}

// Each thread of a warp gives the place of a line of so many elements; the layout says which of them a thread gets.
template <class T>
void load_lines(T* to, const T* from, int line, const Layout& layout, int source_line) {
  if ((size_t)from % 16) {
    fprintf(stderr, "shim: a line that is not at a multiple of 16 bytes\n");
    abort();
  }
  const unsigned first = running / warp_size * warp_size;
  held[running][0] = from;
  wait_at(State::in_warp_barrier, source_line);
  T found[most_elements];
  for (int e = 0; e < layout.elements; e++) {
    const int position = layout.positions[running - first][e];
    found[e] = static_cast<const T*>(held[first + position / line][0])[position % line];
  }
  wait_at(State::in_warp_barrier, source_line);
  for (int e = 0; e < layout.elements; e++) to[e] = found[e];
}

}  // namespace shim

// ---- what halves.cuh needs of a compiler: halves are on every simulator what they are in CUDA ----

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
