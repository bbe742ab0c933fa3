// Keeps the engine's tables consistent in a child made by fork.
#ifndef _WIN32
#include <pthread.h>
#endif

#include "node.hpp"

namespace rulegrad {

#ifdef _WIN32
void watch_forks() {}
#else
namespace {
void before() {
  lock_names();
  lock_nodes();
}
void after() {
  unlock_nodes();
  unlock_names();
}
}  // namespace

// A child has only the thread that forked: no other one may be within a table then. (Not by hooks in Python: between them another thread
// could get the interpreter's lock, and wait for the tables with it.)
void watch_forks() { pthread_atfork(before, after, after); }
#endif

}  // namespace rulegrad
