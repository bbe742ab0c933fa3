/* Threads that share the parts of a kernel. The thread that launches works too, and returns when all parts are done.

   A job is open while its number is not 0. A thread counts itself in, looks whether the job is still open, takes parts
   until none is left, and counts itself out. The launching thread closes the job and waits until nobody is in, so a
   thread that wakes late finds the job closed and nobody waits for it. */
#include <pthread.h>
#include <sched.h>

typedef void (*part_function)(void **buffers, long long first, long long last);

enum { SPINS = 4000, SPINS_IN_PROGRAM = 80000, MOST_THREADS = 1024, PARTS_PER_THREAD = 16, GRAIN = 64 };

static struct {
  part_function function;
  void **buffers;
  long long size, step;
  long long next; /* the first item that nobody has taken */
} job;

static unsigned open_job, numbers;
static unsigned begun; /* programs, whose launches follow each other */
static int running;    /* programs that have not ended */
static int inside, sleepers, wanted, started;
static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER, sleeping = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void take_parts(void) {
  for (;;) {
    long long first = __atomic_fetch_add(&job.next, job.step, __ATOMIC_RELAXED);
    if (first >= job.size) return;
    long long last = job.size - first < job.step ? job.size : first + job.step;
    job.function(job.buffers, first, last);
  }
}

static int is_open(unsigned seen) {
  unsigned number = __atomic_load_n(&open_job, __ATOMIC_SEQ_CST);
  return number != 0 && number != seen;
}

/* Returns when a job other than `seen` is open: spins for a while, longer within a program, then sleeps until there is one or a program
   begins. */
static void await_job(unsigned seen) {
  for (;;) {
    for (int k = 0; k < SPINS || (k < SPINS_IN_PROGRAM && __atomic_load_n(&running, __ATOMIC_RELAXED)); k++) {
      if (is_open(seen)) return;
      relax();
    }
    pthread_mutex_lock(&sleeping);
    __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
    unsigned before = __atomic_load_n(&begun, __ATOMIC_SEQ_CST);
    while (!is_open(seen) && __atomic_load_n(&begun, __ATOMIC_SEQ_CST) == before) pthread_cond_wait(&opened, &sleeping);
    __atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&sleeping);
  }
}

static void wake_sleepers(void) {
  if (!__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) return;
  pthread_mutex_lock(&sleeping);
  pthread_cond_broadcast(&opened);
  pthread_mutex_unlock(&sleeping);
}

/* A program begins, in which several launches are shared, and ends. */
__attribute__((visibility("default"))) void rulegrad_begin(void) {
  __atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
  wake_sleepers();
}

__attribute__((visibility("default"))) void rulegrad_end(void) { __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST); }

static void *work(void *index) {
  unsigned seen = 0;
  for (;;) {
    await_job(seen);
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    unsigned number = __atomic_load_n(&open_job, __ATOMIC_SEQ_CST);
    if (number != 0) {
      seen = number;
      if ((long)index < __atomic_load_n(&wanted, __ATOMIC_RELAXED)) take_parts();
    }
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  }
  return 0;
}

/* A child made by fork has none of the threads: they are started again when they are needed. */
static void after_fork(void) {
  pthread_mutex_init(&launching, 0);
  pthread_mutex_init(&sleeping, 0);
  pthread_cond_init(&opened, 0);
  open_job = 0;
  inside = sleepers = started = running = 0;
}

static void start_threads(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  while (started < wanted - 1) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, work, (void *)(long)(started + 1))) {
      wanted = started + 1; /* the system gives no more */
      break;
    }
    started++;
  }
  pthread_attr_destroy(&attributes);
}

/* How many threads work on a launch, the launching one included. */
__attribute__((visibility("default"))) void rulegrad_set_threads(int count) {
  static int registered;
  pthread_mutex_lock(&launching);
  if (!registered) pthread_atfork(0, 0, after_fork);
  registered = 1;
  __atomic_store_n(&wanted, count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : count, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&launching);
}

/* Calls `function` on parts of 0 .. size - 1 that cover it, at most `most` of them at a time. */
__attribute__((visibility("default"))) void rulegrad_run(part_function function, void **buffers, long long size,
                                                         long long most) {
  /* another thread of the process launches: this one does its own work */
  if (wanted <= 1 || most <= 1 || size <= 1 || pthread_mutex_trylock(&launching)) {
    function(buffers, 0, size);
    return;
  }
  if (started < wanted - 1) start_threads();
  long long parts = (wanted < most ? wanted : most) * PARTS_PER_THREAD;
  long long step = (size + parts - 1) / parts;
  /* neighbours in memory are not written by two threads where there are many items */
  if (step > GRAIN) step = (step + GRAIN - 1) / GRAIN * GRAIN;
  job.function = function;
  job.buffers = buffers;
  job.size = size;
  job.step = step;
  job.next = 0;
  if (++numbers == 0) numbers = 1;
  __atomic_store_n(&open_job, numbers, __ATOMIC_SEQ_CST);
  wake_sleepers();
  take_parts();
  __atomic_store_n(&open_job, 0, __ATOMIC_SEQ_CST);
  for (int k = 0; __atomic_load_n(&inside, __ATOMIC_SEQ_CST); k++)
    if (k < SPINS) relax();
    else sched_yield();
  pthread_mutex_unlock(&launching);
}
