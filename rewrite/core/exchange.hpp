// Collectives of MPI that a program starts again and again: requests that Python made beforehand, on memory of their own.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace nb = nanobind;

namespace rulegrad {

// How often collectives were started, and how long the program did nothing else than start them and wait.
class Tally {
 public:
  void start() { calls_++; }
  void wait(uint64_t nanoseconds) { nanoseconds_ += nanoseconds; }
  void clear() { calls_ = nanoseconds_ = 0; }
  uint64_t calls() const { return calls_; }
  double seconds() const { return double(nanoseconds_) * 1e-9; }

 private:
  std::atomic<uint64_t> calls_ = 0, nanoseconds_ = 0;
};

class Exchange;

// MPI, as far as it is called without Python, and whether nothing else is under way: one for the ranks that a process is connected with.
class Carrier {
 public:
  // start, test: the addresses of MPI_Startall and MPI_Test. request, status: the bytes of one of each. settle(exchanges): called before a
  // program where it is not clear, or an exchange is not connected. wait(exchange): called where one takes long, or failed; both raise.
  Carrier(uintptr_t start, uintptr_t test, size_t request, size_t status, nb::object settle, nb::object wait);

  std::atomic<bool> is_clear{true};
  std::mutex running;  // of programs that exchange, one at a time

  // Begins those that all neighbours have started too, in the order in which they were started: MPI matches what ranks begin by its order, and each
  // hears of its neighbours at another time. Whether none is left that has failed.
  bool advance();
  // The one that the others wait for.
  Exchange* first() const { return comparing_.empty() ? nullptr : comparing_.front(); }

 private:
  friend class Exchange;
  std::deque<Exchange*> comparing_;
  int (*start_)(int, void*);
  int (*test_)(void*, int*, void*);
  size_t request_, status_;
  nb::object settle_, wait_;
};

// One collective of a program. First this rank and its neighbours compare what they are about to start, then it runs.
class Exchange {
 public:
  // Bytes of a buffer of the program, and where they lie in the exchange's memory: the buffer's number, the offset, how many.
  using Copy = std::array<size_t, 3>;
  enum class State { Idle, Comparing, Running, Differs, Failed };

  Exchange(nb::object carrier, nb::object tally, nb::object about, std::vector<Copy> sources, std::vector<Copy> results);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  // own: the bytes that tell neighbours what this is; theirs: where the neighbours' arrive. Addresses, of memory that outlives the exchange.
  void connect(nb::bytes checks, nb::bytes requests, uintptr_t memory, uintptr_t own, std::vector<uintptr_t> theirs, size_t description);
  bool is_connected() const { return memory_ != nullptr; }
  State state() const { return state_; }
  nb::object about() const { return about_; }
  Carrier& carrier() const { return *carrier_; }
  size_t most_buffer() const;

  // Without Python. table: the addresses of the program's buffers.
  void start(void** table);
  // Whether it has ended, or failed, or one has that was started before it.
  bool advance();
  // The same until it has ended. Throws Python's error.
  void finish(void** table);

  // With Python: sees to it that these exchanges can run now. Throws Python's error.
  static void prepare(const std::vector<nb::object>& exchanges);

 private:
  friend class Carrier;
  bool is_under_way() const { return state_ == State::Comparing || state_ == State::Running; }
  // Whether the neighbours have been heard; begins what was compared.
  bool has_compared();
  bool begin(std::vector<char>& requests);
  // Whether all of them have ended, or one has failed.
  bool is_over(std::vector<char>& requests);
  int count(const std::vector<char>& requests) const { return int(requests.size() / carrier_->request_); }
  bool fail() { return state_ = State::Failed, true; }

  nb::object carrier_object_, tally_object_, about_;
  Carrier* carrier_;
  Tally* tally_;
  std::vector<Copy> sources_, results_;
  std::vector<char> checks_, requests_, status_;
  size_t ended_ = 0;  // of the bytes of requests that were started last
  char* memory_ = nullptr;
  const char* own_ = nullptr;
  std::vector<const char*> theirs_;
  size_t description_ = 0;
  State state_ = State::Idle;
};

void define_exchange(nb::module_& m);

}  // namespace rulegrad
