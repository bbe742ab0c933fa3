/* The program that tries a compiler, after pool.c: threads add two arrays of integers in vectors, as kernels do. */
#include <sys/resource.h>

enum { COUNT = 4096 };

static int sums[COUNT], given[COUNT];

static void add(void **buffers, long long first, long long last) {
  int *restrict to = buffers[0], *restrict from = buffers[1];
  for (long long i = first; i < last; i++) to[i] = from[i] + (int)i * 3;
}

/* 1 where a sum is wrong; a processor that lacks an instruction ends the program. */
int main(int count, char **words) {
  struct rlimit none = {0, 0};
  void *buffers[] = {sums, given};
  setrlimit(RLIMIT_CORE, &none);
  rulegrad_set_threads(2);
  for (int i = 0; i < COUNT; i++) given[i] = i * i + count;
  rulegrad_run(add, buffers, COUNT, 1 << 20);
  for (int i = 0; i < COUNT; i++)
    if (sums[i] != i * i + count + i * 3) return 1;
  return 0;
}
