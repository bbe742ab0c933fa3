// Launches by NVIDIA's driver, whose functions are called by their addresses: the engine needs neither its headers nor its library.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <list>
#include <vector>

namespace nb = nanobind;

namespace rulegrad {

// The map of an array whose boxes the kernel copies: where the driver puts it, and the arguments of cuTensorMapEncodeTiled.
struct CudaMap {
  void* place;
  uint32_t slot, rank;
  int kind;
  const void *sizes, *strides, *box, *steps;
  std::array<int, 4> settings;
  void* made_for = nullptr;
};

// A kernel, and how it is launched.
class CudaKernel {
 public:
  // executable: who keeps the kernel's module, and is named by errors. maps: of each a tuple of ints, the members of CudaMap in their order.
  CudaKernel(uintptr_t function, std::array<unsigned, 3> blocks, std::array<unsigned, 3> threads, unsigned local_bytes, nb::list maps,
             nb::object executable);

 private:
  friend class CudaQueue;
  void* function_;
  std::array<unsigned, 3> blocks_, threads_;
  unsigned local_bytes_;
  std::vector<CudaMap> maps_;
  nb::object executable_;
};

class CudaProgram;

// A stream of a device. It is used with the interpreter's lock.
class CudaQueue {
 public:
  // functions: the addresses of those in cuda.cpp, in this order. capturing: a stream on which nothing runs. failed: is called with a status,
  // the function that gave it, and an executable or None, and raises.
  CudaQueue(const std::vector<uintptr_t>& functions, uintptr_t context, uintptr_t stream, uintptr_t capturing, nb::object failed);

  struct Launch {
    CudaKernel* kernel;
    uint32_t first, count;  // of the numbers of buffers
  };
  struct Graph {
    std::vector<void*> table;
    void* made;
  };
  // The programs that have graphs, the one that was used last at the end: of all of them so many graphs are kept.
  std::list<CudaProgram*> programs;
  size_t graphs = 0;
  // Launches on numbered buffers, one after the other.
  void run(const std::vector<Launch>& launches, const std::vector<uint32_t>& numbers, void** table);
  // The same as one launch of a graph, which is made of them; and of one that was made.
  Graph captured(const std::vector<Launch>& launches, const std::vector<uint32_t>& numbers, std::vector<void*> table);
  void run(const Graph& graph);
  void forget(const Graph& graph);
  // Sets the device's context for this thread. Throws Python's error, as all of these do; in a child made by fork too.
  void enter();

 private:
  struct Failure {
    int status = 0;
    const char* function = "";
    PyObject* executable = nullptr;
  };
  Failure start(const std::vector<Launch>& launches, const std::vector<uint32_t>& numbers, void** table, void* stream);
  void check(const Failure& failure) { check(failure.status, failure.function, failure.executable); }
  void check(int status, const char* function, PyObject* executable = nullptr);

  std::vector<uintptr_t> functions_;
  void *context_, *stream_, *capturing_;
  nb::object failed_;
  int64_t process_;
};

// The launches of a plan on a queue: those on buffers that come again are one launch of a graph.
class CudaProgram {
 public:
  CudaProgram(nb::object queue, nb::list launches);
  ~CudaProgram();
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;
  void run(std::vector<void*>& table);
  // Gives up the graph that was used longest ago.
  void forget_one();
  uint32_t most_buffer() const;  // the largest number of a buffer
  size_t size() const { return launches_.size(); }

 private:
  nb::object queue_;
  std::vector<nb::object> kernels_;
  std::vector<CudaQueue::Launch> launches_;
  std::vector<uint32_t> numbers_;
  std::vector<std::vector<void*>> seen_;
  std::vector<CudaQueue::Graph> graphs_;     // the one that was used last is the last
  std::list<CudaProgram*>::iterator place_;  // in the queue's list, where there are graphs
};

void define_cuda(nb::module_& m);

}  // namespace rulegrad
