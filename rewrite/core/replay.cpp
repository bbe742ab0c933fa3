#include "replay.hpp"

#include <string>

#include "interpreter_lock.hpp"
#include "value.hpp"

namespace rulegrad {

namespace {

void* address_of(PyObject* handle) {
  void* address = PyLong_AsVoidPtr(handle);
  if (!address && PyErr_Occurred()) throw nb::python_error();
  return address;
}

}  // namespace

Replay::Replay(const std::vector<std::pair<uintptr_t, std::vector<uint32_t>>>& launches, size_t bound, std::vector<size_t> offsets,
               bool is_short)
    : bound_(bound), offsets_(std::move(offsets)), is_short_(is_short) {
  for (auto& [function, numbers] : launches) {
    for (uint32_t number : numbers)
      if (number >= bound_ + offsets_.size())
        throw GraphError("a launch on buffer " + std::to_string(number) + " of a plan that has " + std::to_string(bound_ + offsets_.size()));
    launches_.push_back({reinterpret_cast<void (*)(void**)>(function), uint32_t(numbers_.size()), uint32_t(numbers.size())});
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
    most_ = std::max(most_, numbers.size());
  }
}

void Replay::bind(nb::handle handles, nb::handle arena, void** table) const {
  nb::object items = nb::steal(PySequence_Fast(handles.ptr(), "the handles are a sequence of addresses"));
  if (!items.is_valid()) throw nb::python_error();
  if (size_t(PySequence_Fast_GET_SIZE(items.ptr())) != bound_)
    throw GraphError("a plan on " + std::to_string(bound_) + " buffers was given " + std::to_string(PySequence_Fast_GET_SIZE(items.ptr())));
  for (size_t k = 0; k < bound_; k++) table[k] = address_of(PySequence_Fast_GET_ITEM(items.ptr(), Py_ssize_t(k)));
  if (offsets_.empty()) return;
  if (arena.is_none()) throw GraphError("a plan with places in an arena was given none");
  char* start = static_cast<char*>(address_of(arena.ptr()));
  for (size_t k = 0; k < offsets_.size(); k++) table[bound_ + k] = start + offsets_[k];
}

void Replay::launch(void** table) const {
  std::vector<void*> buffers(most_);
  for (const Launch& one : launches_) {
    for (uint32_t k = 0; k < one.count; k++) buffers[k] = table[numbers_[one.first + k]];
    one.function(buffers.data());
  }
}

void Replay::run(nb::handle handles, nb::handle arena) const {
  std::vector<void*> table(bound_ + offsets_.size());
  bind(handles, arena, table.data());
  if (is_short_) return launch(table.data());
  WithoutInterpreter released;
  launch(table.data());
}

void define_replay(nb::module_& m) {
  nb::class_<Replay>(m, "Replay", "A plan's launches as one program.")
      .def(nb::init<const std::vector<std::pair<uintptr_t, std::vector<uint32_t>>>&, size_t, std::vector<size_t>, bool>(), nb::arg("launches"),
           nb::arg("bound"), nb::arg("offsets"), nb::arg("is_short"))
      .def("run", &Replay::run, nb::arg("handles"), nb::arg("arena").none())
      .def("__len__", &Replay::size);
}

}  // namespace rulegrad
