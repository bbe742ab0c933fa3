// The memory behind tensors: what buffers and allocators do for every small result.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace nb = nanobind;

namespace rulegrad {

// The base of Python's Buffer. Every field is a Python object. When the last one lets go of it, its memory waits for others.
struct BufferBase {
  PyObject_HEAD PyObject *id, *handle, *borrowed, *owner, *is_lent, *uop, *checks, *shape, *dtype, *device, *nbytes, *made_at;
};

// Blocks of a device's memory that wait for reuse, by size, and how much is in use: the base of Python's Allocator, which gets new ones.
class Blocks {
 public:
  static int64_t rounded(int64_t nbytes) { return nbytes > kGrain ? (nbytes + kGrain - 1) / kGrain * kGrain : kGrain; }
  // A block that waits, counted as in use; null where none of this size waits.
  nb::object take(int64_t nbytes);
  void give(nb::object handle, int64_t nbytes);
  void count(int64_t nbytes);
  // One of the blocks of the size that has waited longest, which is the caller's from now on; null where none waits.
  nb::object oldest();

  int64_t in_use = 0, most_in_use = 0, waiting = 0, most_kept = 0;

 private:
  static constexpr int64_t kGrain = 128;
  struct Size {
    std::vector<nb::object> handles;
    uint64_t freed = 0;  // when the last of them was
  };
  std::unordered_map<int64_t, Size> sizes_;
  uint64_t clock_ = 0;
};

// All buffers by number, as weak references, and the allocators by the names of their devices: dicts that Python uses too.
nb::dict live_buffers();
nb::dict allocators();
// The buffer of a number, borrowed; null when nobody holds it.
BufferBase* live_buffer(int64_t number);
// The properties that the buffers at one position of a plan share: Python's Layout.
struct BufferLayout {
  explicit BufferLayout(nb::handle layout);
  nb::object shape, dtype, device, nbytes, uop;
  int64_t bytes;
};
// A new buffer with memory, or without. Raises OutOfMemoryError.
nb::object new_buffer(const BufferLayout& layout, bool has_memory, nb::handle made_at);

// Memory for so many bytes on a device. Raises OutOfMemoryError.
nb::object allocated(nb::handle device, int64_t nbytes);
void give_back(nb::handle device, nb::object handle, int64_t nbytes);

void define_buffers(nb::module_& m);

}  // namespace rulegrad
