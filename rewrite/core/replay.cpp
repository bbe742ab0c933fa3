#include "replay.hpp"

#include <string>

#include "interpreter_lock.hpp"
#include "value.hpp"

namespace rulegrad {

void* address_of(PyObject* handle) {
  void* address = PyLong_AsVoidPtr(handle);
  if (!address && PyErr_Occurred()) throw nb::python_error();
  return address;
}

Replay::Replay(const std::vector<std::pair<uintptr_t, std::vector<uint32_t>>>& launches, size_t bound, std::vector<size_t> offsets, bool is_short,
               uintptr_t begin, uintptr_t end)
    : bound_(bound),
      offsets_(std::move(offsets)),
      is_short_(is_short),
      begin_(reinterpret_cast<void (*)()>(begin)),
      end_(reinterpret_cast<void (*)()>(end)) {
  for (auto& [function, numbers] : launches) {
    for (uint32_t number : numbers)
      if (number >= bound_ + offsets_.size())
        throw GraphError("a launch on buffer " + std::to_string(number) + " of a plan that has " + std::to_string(bound_ + offsets_.size()));
    launches_.push_back({reinterpret_cast<void (*)(void**)>(function), uint32_t(numbers_.size()), uint32_t(numbers.size())});
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
    most_ = std::max(most_, numbers.size());
  }
}

void Replay::launch(void** table) const {
  std::vector<void*> buffers(most_);
  if (begin_) begin_();
  for (const Launch& one : launches_) {
    for (uint32_t k = 0; k < one.count; k++) buffers[k] = table[numbers_[one.first + k]];
    one.function(buffers.data());
  }
  if (end_) end_();
}

void Replay::run(nb::handle handles, nb::handle arena) const {
  nb::object items = nb::steal(PySequence_Fast(handles.ptr(), "the handles are a sequence of addresses"));
  if (!items.is_valid()) throw nb::python_error();
  if (size_t(PySequence_Fast_GET_SIZE(items.ptr())) != bound_)
    throw GraphError("a plan on " + std::to_string(bound_) + " buffers was given " + std::to_string(PySequence_Fast_GET_SIZE(items.ptr())));
  if (arena.is_none() && !offsets_.empty()) throw GraphError("a plan with places in an arena was given none");
  std::vector<void*> table;
  table.reserve(bound_ + offsets_.size());
  for (size_t k = 0; k < bound_; k++) table.push_back(address_of(PySequence_Fast_GET_ITEM(items.ptr(), Py_ssize_t(k))));
  run(table, offsets_.empty() ? nullptr : address_of(arena.ptr()));
}

void Replay::run(std::vector<void*>& table, void* arena) const {
  for (size_t offset : offsets_) table.push_back(static_cast<char*>(arena) + offset);
  if (is_short_) return launch(table.data());
  WithoutInterpreter released;
  launch(table.data());
}

void define_replay(nb::module_& m) {
  nb::class_<Replay>(m, "Replay", "A plan's launches as one program.")
      .def(nb::init<const std::vector<std::pair<uintptr_t, std::vector<uint32_t>>>&, size_t, std::vector<size_t>, bool, uintptr_t, uintptr_t>(),
           nb::arg("launches"), nb::arg("bound"), nb::arg("offsets"), nb::arg("is_short"), nb::arg("begin") = 0, nb::arg("end") = 0)
      .def("run", nb::overload_cast<nb::handle, nb::handle>(&Replay::run, nb::const_), nb::arg("handles"), nb::arg("arena").none())
      .def("__len__", &Replay::size);
}

}  // namespace rulegrad
