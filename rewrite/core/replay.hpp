// A plan's launches as one program: no Python for each kernel.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "cuda.hpp"
#include "exchange.hpp"

namespace nb = nanobind;

namespace rulegrad {

// Launches of functions `void launch(void** buffers)`, in order. Buffers are numbered: bound ones first, whose addresses each run is
// given, then those that are places in an arena. It does not change once it is built, so several threads may run it.
class Replay {
 public:
  // A function's address, the numbers of its buffers, and the bytes before what it is given of each, or none for whole buffers.
  using OnBuffers = std::tuple<uintptr_t, std::vector<uint32_t>, std::vector<size_t>>;
  // offsets: the places in the arena. is_short: a run keeps the interpreter's lock, for letting go of it costs as much as the launches. begin,
  // end: addresses of functions `void f(void)` that are called around a run, or 0. Throws GraphError for a number that no buffer has.
  Replay(const std::vector<OnBuffers>& launches, size_t bound, std::vector<size_t> offsets, bool is_short, uintptr_t begin, uintptr_t end);
  // Programs on the same buffers one after the other, and exchanges between them: pairs of one, and whether it is started or waited for.
  // Throws GraphError.
  explicit Replay(nb::list steps);
  // Launches of a GPU: pairs of a CudaKernel and the numbers of its buffers, on a CudaQueue. Throws GraphError.
  Replay(nb::object queue, nb::list launches, size_t bound, std::vector<size_t> offsets);
  // handles: ints, the addresses of the bound buffers. arena: an int, or None where there are no places. Throws GraphError, and Python's
  // error of an exchange, as all runs do.
  void run(nb::handle handles, nb::handle arena) const;
  // The same on each of several parts of a device: a handle is a tuple of addresses, one for each part. beside: the address of a function
  // `void f(void (*)(void**, long long, long long), void**, long long parts)`, which calls another on each of 0 .. parts - 1.
  void run_beside(uintptr_t beside, size_t parts, nb::handle handles, nb::handle arena) const;
  // The same on the addresses of the bound buffers, with room in the table for the places in the arena.
  void run(std::vector<void*>& table, void* arena) const;
  size_t bound() const { return bound_; }
  size_t size() const { return cuda_ ? cuda_->size() : launches_.size(); }
  bool is_of_functions() const { return !cuda_; }

 private:
  struct Launch {
    void (*function)(void**);  // null: an exchange, by its number in `first`; it is started where `count` is 1, else waited for
    uint32_t first, count;     // of the places
  };
  void launch(void** table) const;
  std::vector<PyObject*> checked(nb::handle items, nb::handle arena) const;
  void exchange(const Launch& one, void** table, std::vector<Exchange*>& under_way) const;
  void append(const Replay& other);

  size_t bound_;
  std::vector<size_t> offsets_;
  bool is_short_;
  void (*begin_)();
  void (*end_)();
  std::vector<Launch> launches_;
  struct Place {
    uint32_t buffer;
    size_t offset;
  };
  std::vector<Place> places_;
  size_t most_ = 0;  // buffers of one launch
  std::vector<nb::object> exchanges_;
  std::shared_ptr<CudaProgram> cuda_;
};

// The address that an int is. Throws Python's error.
void* address_of(PyObject* handle);

void define_replay(nb::module_& m);

}  // namespace rulegrad
