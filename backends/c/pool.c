/* Threads that share the parts of a kernel. The thread that launches works too, and returns when all parts are done.

   A job is open while its number is not 0. A thread counts itself in, looks whether the job is still open, takes parts
   until none is left, and counts itself out. The launching thread closes the job and waits until nobody is in, so a
   thread that wakes late finds the job closed and nobody waits for it. */
#include <pthread.h>
#include <sched.h>

typedef void (*part_function)(void **buffers, long long first, long long last);

enum { SPINS = 4000, SPINS_IN_PROGRAM = 80000, MOST_THREADS = 1024, MOST_PARTS = 64, PARTS_PER_THREAD = 16, LEAST_PART = 32, GRAIN = 64 };

typedef struct {
  part_function function;
  void **buffers;
  long long size, step;
  long long next; /* the first item that nobody has taken */
  unsigned open_job, numbers;
  unsigned begun; /* programs, whose launches follow each other */
  int running;    /* programs that have not ended */
  int inside, sleepers, wanted, started, arrived;
  pthread_mutex_t launching, sleeping;
  pthread_cond_t opened;
} pool;

#define NEW_POOL {.launching = PTHREAD_MUTEX_INITIALIZER, .sleeping = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER}

/* Parts of a device that run beside each other have a pool each, of their share of the threads. */
static pool everyone = NEW_POOL, shares[MOST_PARTS] = {[0 ... MOST_PARTS - 1] = NEW_POOL};
static __thread pool *own; /* that of the part which this thread runs; 0: everyone */

static pool *mine(void) { return own ? own : &everyone; }

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void take_parts(pool *p) {
  for (;;) {
    long long first = __atomic_fetch_add(&p->next, p->step, __ATOMIC_RELAXED);
    if (first >= p->size) return;
    long long last = p->size - first < p->step ? p->size : first + p->step;
    p->function(p->buffers, first, last);
  }
}

static int is_open(pool *p, unsigned seen) {
  unsigned number = __atomic_load_n(&p->open_job, __ATOMIC_SEQ_CST);
  return number != 0 && number != seen;
}

/* Returns when a job other than `seen` is open: spins for a while, longer within a program, then sleeps until there is one or a program
   begins. */
static void await_job(pool *p, unsigned seen) {
  for (;;) {
    for (int k = 0; k < SPINS || (k < SPINS_IN_PROGRAM && __atomic_load_n(&p->running, __ATOMIC_RELAXED)); k++) {
      if (is_open(p, seen)) return;
      relax();
    }
    pthread_mutex_lock(&p->sleeping);
    __atomic_add_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
    unsigned before = __atomic_load_n(&p->begun, __ATOMIC_SEQ_CST);
    while (!is_open(p, seen) && __atomic_load_n(&p->begun, __ATOMIC_SEQ_CST) == before) pthread_cond_wait(&p->opened, &p->sleeping);
    __atomic_sub_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&p->sleeping);
  }
}

static void wake_sleepers(pool *p) {
  if (!__atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST)) return;
  pthread_mutex_lock(&p->sleeping);
  pthread_cond_broadcast(&p->opened);
  pthread_mutex_unlock(&p->sleeping);
}

/* A program begins, in which several launches are shared, and ends. */
__attribute__((visibility("default"))) void rulegrad_begin(void) {
  pool *p = mine();
  __atomic_add_fetch(&p->running, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&p->begun, 1, __ATOMIC_SEQ_CST);
  wake_sleepers(p);
}

__attribute__((visibility("default"))) void rulegrad_end(void) {
  __atomic_sub_fetch(&mine()->running, 1, __ATOMIC_SEQ_CST);
}

static void *work(void *of) {
  pool *p = of;
  const int index = __atomic_add_fetch(&p->arrived, 1, __ATOMIC_SEQ_CST);
  unsigned seen = 0;
  for (;;) {
    await_job(p, seen);
    __atomic_add_fetch(&p->inside, 1, __ATOMIC_SEQ_CST);
    unsigned number = __atomic_load_n(&p->open_job, __ATOMIC_SEQ_CST);
    if (number != 0) {
      seen = number;
      if (index < __atomic_load_n(&p->wanted, __ATOMIC_RELAXED)) take_parts(p);
    }
    __atomic_sub_fetch(&p->inside, 1, __ATOMIC_SEQ_CST);
  }
  return 0;
}

/* A child made by fork has none of the threads: they are started again when they are needed. */
static void forget_threads(pool *p) {
  pthread_mutex_init(&p->launching, 0);
  pthread_mutex_init(&p->sleeping, 0);
  pthread_cond_init(&p->opened, 0);
  p->open_job = 0;
  p->inside = p->sleepers = p->started = p->arrived = p->running = 0;
}

static void after_fork(void) {
  own = 0;
  forget_threads(&everyone);
  for (int k = 0; k < MOST_PARTS; k++) forget_threads(&shares[k]);
}

static void start_threads(pool *p) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  while (p->started < p->wanted - 1) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, work, p)) {
      p->wanted = p->started + 1; /* the system gives no more */
      break;
    }
    p->started++;
  }
  pthread_attr_destroy(&attributes);
}

/* How many threads work on a launch, the launching one included. */
__attribute__((visibility("default"))) void rulegrad_set_threads(int count) {
  static int registered;
  pool *p = &everyone;
  pthread_mutex_lock(&p->launching);
  if (!registered) pthread_atfork(0, 0, after_fork);
  registered = 1;
  __atomic_store_n(&p->wanted, count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : count, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&p->launching);
}

/* Calls `function` on parts of 0 .. size - 1 that cover it, at most `most` of them at a time. */
__attribute__((visibility("default"))) void rulegrad_run(part_function function, void **buffers, long long size,
                                                         long long most) {
  pool *p = mine();
  /* another thread of the process launches: this one does its own work */
  if (p->wanted <= 1 || most <= 1 || size <= 1 || pthread_mutex_trylock(&p->launching)) {
    function(buffers, 0, size);
    return;
  }
  if (p->started < p->wanted - 1) start_threads(p);
  const long long threads = p->wanted < most ? p->wanted : most;
  /* the memory that a part reads comes slowly at first: parts are long, and of those that are few each thread has as many */
  long long each = most / LEAST_PART / threads;
  long long parts = threads * (each < 1 ? 1 : each > PARTS_PER_THREAD ? PARTS_PER_THREAD : each);
  long long step = (size + parts - 1) / parts;
  /* neighbours in memory are not written by two threads where there are many items */
  if (step > 8 * GRAIN) step = (step + GRAIN - 1) / GRAIN * GRAIN;
  p->function = function;
  p->buffers = buffers;
  p->size = size;
  p->step = step;
  p->next = 0;
  if (++p->numbers == 0) p->numbers = 1;
  __atomic_store_n(&p->open_job, p->numbers, __ATOMIC_SEQ_CST);
  wake_sleepers(p);
  take_parts(p);
  __atomic_store_n(&p->open_job, 0, __ATOMIC_SEQ_CST);
  for (int k = 0; __atomic_load_n(&p->inside, __ATOMIC_SEQ_CST); k++)
    if (k < SPINS) relax();
    else sched_yield();
  pthread_mutex_unlock(&p->launching);
}

typedef struct {
  part_function function;
  void **buffers;
  long long parts;
  int threads;
} beside;

static void run_parts(void **given, long long first, long long last) {
  const beside *all = (const beside *)given;
  for (long long k = first; k < last; k++) {
    own = &shares[k % MOST_PARTS];
    __atomic_store_n(&own->wanted, (int)(all->threads * (k + 1) / all->parts - all->threads * k / all->parts), __ATOMIC_RELAXED);
    all->function(all->buffers, k, k + 1);
    own = 0;
  }
}

/* Calls `function` on each of 0 .. parts - 1 by itself, as many beside each other as there are threads. What one of them launches is shared
   by its share of the threads only. */
__attribute__((visibility("default"))) void rulegrad_beside(part_function function, void **buffers, long long parts) {
  beside all = {function, buffers, parts, everyone.wanted};
  rulegrad_run(run_parts, (void **)&all, parts, parts);
}
