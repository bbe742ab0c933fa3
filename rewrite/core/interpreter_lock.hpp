// The interpreter's lock, let go of while rules run and taken again for Python.
#pragma once

#include <Python.h>

#include <chrono>
#include <thread>

namespace rulegrad {

// When the process ends while a daemon thread waits for the lock, CPython before 3.14 ends that thread by unwinding its stack. Frames of
// C++ that must not be unwound (a destructor's, nanobind's) would end the process with an abort, so the thread sleeps until the end instead.
template <class Take>
auto take_interpreter(Take take) {
  try {
    return take();
  } catch (...) {  // the unwinding; nothing else comes out of CPython, and it may not be caught for good
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

class WithoutInterpreter {
 public:
  WithoutInterpreter() : state_(PyEval_SaveThread()) {}
  ~WithoutInterpreter() {
    take_interpreter([&] { PyEval_RestoreThread(state_); });
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;

 private:
  PyThreadState* state_;
};

class WithInterpreter {
 public:
  WithInterpreter() : state_(take_interpreter([] { return PyGILState_Ensure(); })) {}
  ~WithInterpreter() { PyGILState_Release(state_); }
  WithInterpreter(const WithInterpreter&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace rulegrad
