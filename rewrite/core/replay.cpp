#include "replay.hpp"

#include <algorithm>
#include <string>

#include "interpreter_lock.hpp"
#include "value.hpp"

namespace rulegrad {

void* address_of(PyObject* handle) {
  void* address = PyLong_AsVoidPtr(handle);
  if (!address && PyErr_Occurred()) throw nb::python_error();
  return address;
}

Replay::Replay(const std::vector<OnBuffers>& launches, size_t bound, std::vector<size_t> offsets, bool is_short, uintptr_t begin, uintptr_t end)
    : bound_(bound),
      offsets_(std::move(offsets)),
      is_short_(is_short),
      begin_(reinterpret_cast<void (*)()>(begin)),
      end_(reinterpret_cast<void (*)()>(end)) {
  for (auto& [function, numbers, before] : launches) {
    if (!before.empty() && before.size() != numbers.size())
      throw GraphError("a launch on places in " + std::to_string(before.size()) + " buffers was given " + std::to_string(numbers.size()));
    launches_.push_back({reinterpret_cast<void (*)(void**)>(function), uint32_t(places_.size()), uint32_t(numbers.size())});
    for (size_t k = 0; k < numbers.size(); k++) {
      if (numbers[k] >= bound_ + offsets_.size())
        throw GraphError("a launch on buffer " + std::to_string(numbers[k]) + " of a plan that has " + std::to_string(bound_ + offsets_.size()));
      places_.push_back({numbers[k], before.empty() ? 0 : before[k]});
    }
    most_ = std::max(most_, numbers.size());
  }
}

Replay::Replay(nb::list steps) : bound_(0), is_short_(false), begin_(nullptr), end_(nullptr) {
  bool is_first = true;
  for (nb::handle step : steps) {
    if (nb::isinstance<Replay>(step)) {
      const auto& other = *nb::inst_ptr<Replay>(step);
      if (is_first) bound_ = other.bound_, offsets_ = other.offsets_;
      if (other.bound_ != bound_ || other.offsets_ != offsets_ || !other.exchanges_.empty())
        throw GraphError("programs that follow each other are on the same buffers, and have no exchanges");
      append(other);
      is_first = false;
      continue;
    }
    nb::object exchange = step[0];
    const auto same = std::find_if(exchanges_.begin(), exchanges_.end(), [&](const nb::object& known) { return known.is(exchange); });
    const auto number = uint32_t(same - exchanges_.begin());
    if (same == exchanges_.end()) exchanges_.push_back(exchange);
    launches_.push_back({nullptr, number, nb::cast<bool>(step[1]) ? 1u : 0u});
  }
  for (const nb::object& one : exchanges_)
    if (nb::cast<Exchange*>(one)->most_buffer() >= bound_ + offsets_.size()) throw GraphError("an exchange of a buffer that its plan has not");
}

Replay::Replay(nb::object queue, nb::list launches, size_t bound, std::vector<size_t> offsets)
    : bound_(bound),
      offsets_(std::move(offsets)),
      is_short_(true),
      begin_(nullptr),
      end_(nullptr),
      cuda_(std::make_shared<CudaProgram>(std::move(queue), std::move(launches))) {
  if (cuda_->size() && cuda_->most_buffer() >= bound_ + offsets_.size())
    throw GraphError("a launch on buffer " + std::to_string(cuda_->most_buffer()) + " of a plan that has " +
                     std::to_string(bound_ + offsets_.size()));
}

void Replay::append(const Replay& other) {
  if (other.cuda_) throw GraphError("launches of a GPU have no exchanges between them");
  for (Launch one : other.launches_) {
    one.first += uint32_t(places_.size());
    launches_.push_back(one);
  }
  places_.insert(places_.end(), other.places_.begin(), other.places_.end());
  most_ = std::max(most_, other.most_);
  if (other.begin_) begin_ = other.begin_, end_ = other.end_;
}

void Replay::exchange(const Launch& one, void** table, std::vector<Exchange*>& under_way) const {
  auto* exchange = nb::inst_ptr<Exchange>(exchanges_[one.first]);
  if (one.count) {
    exchange->start(table);
    under_way.push_back(exchange);
  } else {
    under_way.erase(std::remove(under_way.begin(), under_way.end(), exchange), under_way.end());
    exchange->finish(table);
  }
}

void Replay::launch(void** table) const {
  struct Around {
    explicit Around(const Replay& of) : end(of.end_) {
      if (of.begin_) of.begin_();
    }
    ~Around() {
      if (end) end();
    }
    void (*end)();
  };
  std::vector<void*> buffers(most_);
  std::vector<Exchange*> under_way;
  const Around around(*this);
  for (const Launch& one : launches_) {
    if (!one.function) {
      exchange(one, table, under_way);
      continue;
    }
    for (uint32_t k = 0; k < one.count; k++) {
      const Place& place = places_[one.first + k];
      buffers[k] = static_cast<char*>(table[place.buffer]) + place.offset;
    }
    one.function(buffers.data());
    for (Exchange* other : under_way) other->advance();
  }
}

// The handles, borrowed from the sequence. Throws GraphError where they are not those of the program.
std::vector<PyObject*> Replay::checked(nb::handle items, nb::handle arena) const {
  if (size_t(PySequence_Fast_GET_SIZE(items.ptr())) != bound_)
    throw GraphError("a plan on " + std::to_string(bound_) + " buffers was given " + std::to_string(PySequence_Fast_GET_SIZE(items.ptr())));
  if (arena.is_none() && !offsets_.empty()) throw GraphError("a plan with places in an arena was given none");
  PyObject** first = PySequence_Fast_ITEMS(items.ptr());
  return {first, first + bound_};
}

void Replay::run(nb::handle handles, nb::handle arena) const {
  nb::object items = nb::steal(PySequence_Fast(handles.ptr(), "the handles are a sequence of addresses"));
  if (!items.is_valid()) throw nb::python_error();
  std::vector<void*> table;
  table.reserve(bound_ + offsets_.size());
  for (PyObject* handle : checked(items, arena)) table.push_back(address_of(handle));
  run(table, offsets_.empty() ? nullptr : address_of(arena.ptr()));
}

void Replay::run_beside(uintptr_t beside, size_t parts, nb::handle handles, nb::handle arena) const {
  using Function = void (*)(void**, long long, long long);
  if (!beside || !exchanges_.empty() || cuda_) throw GraphError("programs with exchanges do not run beside each other");
  nb::object items = nb::steal(PySequence_Fast(handles.ptr(), "the handles are a sequence of tuples of addresses"));
  if (!items.is_valid()) throw nb::python_error();
  const auto part_of = [parts](PyObject* handle, size_t part) {
    if (!PyTuple_Check(handle) || size_t(PyTuple_GET_SIZE(handle)) != parts) throw GraphError("a handle has not an address for each part");
    return address_of(PyTuple_GET_ITEM(handle, Py_ssize_t(part)));
  };
  struct Parts {
    const Replay* program;
    std::vector<std::vector<void*>> tables;
  } all{this, std::vector<std::vector<void*>>(parts)};
  const std::vector<PyObject*> given = checked(items, arena);
  for (size_t part = 0; part < parts; part++) {
    std::vector<void*>& table = all.tables[part];
    for (PyObject* handle : given) table.push_back(part_of(handle, part));
    for (size_t offset : offsets_) table.push_back(static_cast<char*>(part_of(arena.ptr(), part)) + offset);
  }
  const Function run_part = [](void** context, long long first, long long last) {
    auto* of = reinterpret_cast<Parts*>(context);
    for (; first < last; first++) of->program->launch(of->tables[size_t(first)].data());
  };
  WithoutInterpreter released;
  reinterpret_cast<void (*)(Function, void**, long long)>(beside)(run_part, reinterpret_cast<void**>(&all), static_cast<long long>(parts));
}

void Replay::run(std::vector<void*>& table, void* arena) const {
  for (size_t offset : offsets_) table.push_back(static_cast<char*>(arena) + offset);
  if (cuda_) return cuda_->run(table);
  if (is_short_) return launch(table.data());
  if (!exchanges_.empty()) Exchange::prepare(exchanges_);
  WithoutInterpreter released;
  std::unique_lock<std::mutex> alone;
  if (!exchanges_.empty()) alone = std::unique_lock(nb::inst_ptr<Exchange>(exchanges_[0])->carrier().running);
  launch(table.data());
}

void define_replay(nb::module_& m) {
  nb::class_<Replay>(m, "Replay", "A plan's launches as one program.")
      .def(nb::init<const std::vector<Replay::OnBuffers>&, size_t, std::vector<size_t>, bool, uintptr_t, uintptr_t>(), nb::arg("launches"),
           nb::arg("bound"), nb::arg("offsets"), nb::arg("is_short"), nb::arg("begin") = 0, nb::arg("end") = 0)
      .def(nb::init<nb::list>(), nb::arg("steps"))
      .def(nb::init<nb::object, nb::list, size_t, std::vector<size_t>>(), nb::arg("queue"), nb::arg("launches"), nb::arg("bound"), nb::arg("offsets"))
      .def_prop_ro("is_of_functions", &Replay::is_of_functions)
      .def("run", nb::overload_cast<nb::handle, nb::handle>(&Replay::run, nb::const_), nb::arg("handles"), nb::arg("arena").none())
      .def("run_beside", &Replay::run_beside, nb::arg("beside"), nb::arg("parts"), nb::arg("handles"), nb::arg("arena").none())
      .def("__len__", &Replay::size);
}

}  // namespace rulegrad
