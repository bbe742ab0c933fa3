#include "exchange.hpp"

#include <nanobind/stl/array.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "interpreter_lock.hpp"
#include "value.hpp"

namespace rulegrad {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpins = std::chrono::milliseconds(1);  // then Python waits, which gives up the core and looks after the other ranks
constexpr int kTestsOfATurn = 16;                      // then another process that waits for this core has it

uint64_t since(Clock::time_point begin) { return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count()); }

std::vector<char> bytes_of(const nb::bytes& given) { return {given.c_str(), given.c_str() + given.size()}; }

}  // namespace

Carrier::Carrier(uintptr_t start, uintptr_t test, size_t request, size_t status, nb::object settle, nb::object wait)
    : start_(reinterpret_cast<int (*)(int, void*)>(start)),
      test_(reinterpret_cast<int (*)(void*, int*, void*)>(test)),
      request_(request),
      status_(status),
      settle_(std::move(settle)),
      wait_(std::move(wait)) {
  if (!start || !test || !request || !status) throw nb::value_error("a carrier needs functions, and the sizes of what they take");
}

bool Carrier::advance() {
  while (!comparing_.empty()) {
    Exchange& next = *comparing_.front();
    if (!next.has_compared()) return true;
    if (next.state_ != Exchange::State::Running) return false;
    comparing_.pop_front();
  }
  return true;
}

Exchange::Exchange(nb::object carrier, nb::object tally, nb::object about, std::vector<Copy> sources, std::vector<Copy> results)
    : carrier_object_(std::move(carrier)),
      tally_object_(std::move(tally)),
      about_(std::move(about)),
      carrier_(nb::cast<Carrier*>(carrier_object_)),
      tally_(nb::cast<Tally*>(tally_object_)),
      sources_(std::move(sources)),
      results_(std::move(results)) {}

Exchange::~Exchange() { std::erase(carrier_->comparing_, this); }

void Exchange::connect(nb::bytes checks, nb::bytes requests, uintptr_t memory, uintptr_t own, std::vector<uintptr_t> theirs, size_t description) {
  if (!memory || checks.size() % carrier_->request_ || requests.size() % carrier_->request_)
    throw nb::value_error("an exchange needs memory, and whole requests");
  checks_ = bytes_of(checks), requests_ = bytes_of(requests);
  status_.resize(carrier_->status_);
  memory_ = reinterpret_cast<char*>(memory), own_ = reinterpret_cast<const char*>(own), description_ = description;
  for (uintptr_t address : theirs) theirs_.push_back(reinterpret_cast<const char*>(address));
}

size_t Exchange::most_buffer() const {
  size_t most = 0;
  for (const auto* copies : {&sources_, &results_})
    for (const Copy& one : *copies) most = std::max(most, one[0]);
  return most;
}

bool Exchange::begin(std::vector<char>& requests) {
  ended_ = 0;
  return requests.empty() || carrier_->start_(count(requests), requests.data()) == 0;
}

bool Exchange::is_over(std::vector<char>& requests) {
  for (; ended_ < requests.size(); ended_ += carrier_->request_) {
    int done = 0;
    if (carrier_->test_(requests.data() + ended_, &done, status_.data()) != 0) return fail();
    if (!done) return false;
  }
  return true;
}

void Exchange::start(void** table) {
  const auto begun = Clock::now();
  for (auto [number, offset, bytes] : sources_) std::memcpy(memory_ + offset, table[number], bytes);
  tally_->start();
  state_ = State::Comparing;
  carrier_->comparing_.push_back(this);
  if (!begin(checks_)) fail();
  advance();
  tally_->wait(since(begun));
}

bool Exchange::has_compared() {
  if (state_ == State::Comparing && is_over(checks_) && state_ == State::Comparing) {
    const bool same = std::all_of(theirs_.begin(), theirs_.end(), [this](const char* other) { return !std::memcmp(own_, other, description_); });
    state_ = same ? State::Running : State::Differs;
    if (same && !begin(requests_)) fail();
  }
  return state_ != State::Comparing;
}

bool Exchange::advance() {
  if (!carrier_->advance()) return true;
  if (state_ == State::Running && is_over(requests_) && state_ == State::Running) state_ = State::Idle;
  return !is_under_way();
}

void Exchange::finish(void** table) {
  const auto begun = Clock::now();
  for (int tests = 1; !advance(); tests++) {
    if (tests % kTestsOfATurn) continue;
    if (Clock::now() - begun > kSpins) break;
    std::this_thread::yield();
  }
  if (state_ != State::Idle) {
    WithInterpreter taken;
    carrier_->wait_(nb::find(this));
  }
  for (auto [number, offset, bytes] : results_) std::memcpy(table[number], memory_ + offset, bytes);
  tally_->wait(since(begun));
}

void Exchange::prepare(const std::vector<nb::object>& exchanges) {
  const Carrier& carrier = nb::inst_ptr<Exchange>(exchanges[0])->carrier();
  const bool is_ready = std::all_of(exchanges.begin(), exchanges.end(), [](auto& one) { return nb::inst_ptr<Exchange>(one)->is_connected(); });
  if (is_ready && carrier.is_clear) return;
  nb::list all;
  for (const nb::object& one : exchanges) all.append(one);
  carrier.settle_(all);
}

void define_exchange(nb::module_& m) {
  nb::class_<Tally>(m, "Tally", "How often a collective was started, and the time that a program waited for it.")
      .def(nb::init<>())
      .def("start", &Tally::start)
      .def("wait", &Tally::wait, nb::arg("nanoseconds"))
      .def("clear", &Tally::clear)
      .def_prop_ro("calls", &Tally::calls)
      .def_prop_ro("seconds", &Tally::seconds);
  nb::class_<Carrier>(m, "Carrier", "MPI, as far as programs call it without Python.")
      .def(nb::init<uintptr_t, uintptr_t, size_t, size_t, nb::object, nb::object>(), nb::arg("start"), nb::arg("test"), nb::arg("request"),
           nb::arg("status"), nb::arg("settle"), nb::arg("wait"))
      .def_prop_ro(
          "first", [](const Carrier& c) { return c.first(); }, nb::rv_policy::reference, "The exchange that others wait for; None where none does.")
      .def_prop_rw("is_clear", [](const Carrier& c) { return c.is_clear.load(); }, [](Carrier& c, bool is_clear) { c.is_clear = is_clear; });
  nb::class_<Exchange>(m, "Exchange", nb::is_weak_referenceable(), "A collective that programs start again and again, without Python.")
      .def(nb::init<nb::object, nb::object, nb::object, std::vector<Exchange::Copy>, std::vector<Exchange::Copy>>(), nb::arg("carrier"),
           nb::arg("tally"), nb::arg("about"), nb::arg("sources"), nb::arg("results"))
      .def("connect", &Exchange::connect, nb::arg("checks"), nb::arg("requests"), nb::arg("memory"), nb::arg("own"), nb::arg("theirs"),
           nb::arg("description"))
      .def("advance", &Exchange::advance)
      .def_prop_ro("about", &Exchange::about)
      .def_prop_ro("is_connected", &Exchange::is_connected)
      .def_prop_ro("differs", [](const Exchange& e) { return e.state() == Exchange::State::Differs; })
      .def_prop_ro("failed", [](const Exchange& e) { return e.state() == Exchange::State::Failed; });
}

}  // namespace rulegrad
