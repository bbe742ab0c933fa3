#include "cuda.hpp"

#ifndef _WIN32
#include <unistd.h>
#endif

#include <algorithm>
#include <string>

#include "value.hpp"

namespace rulegrad {

namespace {

enum Function {
  kSetContext,
  kLaunch,
  kBeginCapture,
  kEndCapture,
  kInstantiate,
  kLaunchGraph,
  kDestroyExecutable,
  kDestroyGraph,
  kEncode,
  kFunctions
};

constexpr size_t kWorthIt = 3;                      // launches: of fewer a graph saves nothing
constexpr size_t kMostGraphs = 16, kMostSeen = 16;  // of a program: what comes round in turns is all graphs, or none
constexpr size_t kMostOfQueue = 256;
constexpr int kThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

int64_t this_process() {
#ifdef _WIN32
  return 0;
#else
  return getpid();
#endif
}

template <class T>
T as(uintptr_t address) {
  return reinterpret_cast<T>(address);
}

CudaMap map_of(nb::handle described) {
  const auto n = nb::cast<std::vector<int64_t>>(described);
  if (n.size() != 12) throw GraphError("a tensor map is described by 12 numbers");
  const auto memory = [&](size_t k) { return as<void*>(uintptr_t(n[k])); };
  return {memory(0), uint32_t(n[1]), uint32_t(n[2]),
          int(n[3]), memory(4),      memory(5),
          memory(6), memory(7),      {int(n[8]), int(n[9]), int(n[10]), int(n[11])}};
}

}  // namespace

CudaKernel::CudaKernel(uintptr_t function, std::array<unsigned, 3> blocks, std::array<unsigned, 3> threads, unsigned local_bytes, nb::list maps,
                       nb::object executable)
    : function_(as<void*>(function)), blocks_(blocks), threads_(threads), local_bytes_(local_bytes), executable_(std::move(executable)) {
  for (nb::handle one : maps) maps_.push_back(map_of(one));
}

CudaQueue::CudaQueue(const std::vector<uintptr_t>& functions, uintptr_t context, uintptr_t stream, uintptr_t capturing, nb::object failed)
    : functions_(functions),
      context_(as<void*>(context)),
      stream_(as<void*>(stream)),
      capturing_(as<void*>(capturing)),
      failed_(std::move(failed)),
      process_(this_process()) {
  if (functions_.size() != kFunctions) throw GraphError("a queue needs " + std::to_string(kFunctions) + " functions of the driver");
}

void CudaQueue::check(int status, const char* function, PyObject* executable) {
  if (!status) return;
  failed_(status, function, executable ? nb::borrow(executable) : nb::none());
  throw GraphError(std::string(function) + " failed, and nobody said why");
}

void CudaQueue::enter() {
  if (process_ != this_process()) check(-1, "fork");
  check(as<int (*)(void*)>(functions_[kSetContext])(context_), "cuCtxSetCurrent");
}

CudaQueue::Failure CudaQueue::start(const std::vector<Launch>& launches, const std::vector<uint32_t>& numbers, void** table, void* stream) {
  using LaunchKernel = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  using Encode = int (*)(void*, int, uint32_t, void*, const void*, const void*, const void*, const void*, int, int, int, int);
  std::vector<void*> arguments;
  for (const Launch& one : launches) {
    CudaKernel& kernel = *one.kernel;
    arguments.clear();
    for (uint32_t k = 0; k < one.count; k++) arguments.push_back(&table[numbers[one.first + k]]);
    for (CudaMap& map : kernel.maps_) {
      void* memory = table[numbers[one.first + map.slot]];
      if (map.made_for != memory) {
        map.made_for = nullptr;
        const int status = as<Encode>(functions_[kEncode])(map.place, map.kind, map.rank, memory, map.sizes, map.strides, map.box, map.steps,
                                                           map.settings[0], map.settings[1], map.settings[2], map.settings[3]);
        if (status) return {status, "cuTensorMapEncodeTiled", kernel.executable_.ptr()};
        map.made_for = memory;
      }
      arguments.push_back(map.place);
    }
    const int status =
        as<LaunchKernel>(functions_[kLaunch])(kernel.function_, kernel.blocks_[0], kernel.blocks_[1], kernel.blocks_[2], kernel.threads_[0],
                                              kernel.threads_[1], kernel.threads_[2], kernel.local_bytes_, stream, arguments.data(), nullptr);
    if (status) return {status, "cuLaunchKernel", kernel.executable_.ptr()};
  }
  return {};
}

void CudaQueue::run(const std::vector<Launch>& launches, const std::vector<uint32_t>& numbers, void** table) {
  check(start(launches, numbers, table, stream_));
}

// Nothing runs while they are captured, on a stream of their own: what other threads put on the queue meanwhile is not part of the graph. The
// interpreter, which may let another thread go on, is not asked before the capture has ended.
CudaQueue::Graph CudaQueue::captured(const std::vector<Launch>& launches, const std::vector<uint32_t>& numbers, std::vector<void*> table) {
  check(as<int (*)(void*, int)>(functions_[kBeginCapture])(capturing_, kThreadLocal), "cuStreamBeginCapture");
  void *graph = nullptr, *made = nullptr;
  Failure failure = start(launches, numbers, table.data(), capturing_);
  const int ended = as<int (*)(void*, void**)>(functions_[kEndCapture])(capturing_, &graph);
  if (!failure.status && ended) failure = {ended, "cuStreamEndCapture"};
  if (!failure.status)
    failure = {as<int (*)(void**, void*, unsigned long long)>(functions_[kInstantiate])(&made, graph, 0), "cuGraphInstantiateWithFlags"};
  if (!ended && graph) as<int (*)(void*)>(functions_[kDestroyGraph])(graph);
  check(failure);
  return {std::move(table), made};
}

void CudaQueue::run(const Graph& graph) { check(as<int (*)(void*, void*)>(functions_[kLaunchGraph])(graph.made, stream_), "cuGraphLaunch"); }

void CudaQueue::forget(const Graph& graph) {
  if (process_ == this_process()) as<int (*)(void*)>(functions_[kDestroyExecutable])(graph.made);
}

CudaProgram::CudaProgram(nb::object queue, nb::list launches) : queue_(std::move(queue)) {
  nb::cast<CudaQueue*>(queue_);
  for (nb::handle one : launches) {
    kernels_.push_back(one[0]);
    const auto numbers = nb::cast<std::vector<uint32_t>>(one[1]);
    launches_.push_back({nb::cast<CudaKernel*>(kernels_.back()), uint32_t(numbers_.size()), uint32_t(numbers.size())});
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  }
}

CudaProgram::~CudaProgram() {
  while (!graphs_.empty()) forget_one();
}

void CudaProgram::forget_one() {
  auto& queue = *nb::inst_ptr<CudaQueue>(queue_);
  queue.forget(graphs_.front());
  graphs_.erase(graphs_.begin());
  queue.graphs--;
  if (graphs_.empty()) queue.programs.erase(place_);
}

uint32_t CudaProgram::most_buffer() const { return numbers_.empty() ? 0 : *std::max_element(numbers_.begin(), numbers_.end()); }

void CudaProgram::run(std::vector<void*>& table) {
  auto& queue = *nb::inst_ptr<CudaQueue>(queue_);
  queue.enter();
  if (launches_.size() < kWorthIt) return queue.run(launches_, numbers_, table.data());
  auto known = std::find_if(graphs_.rbegin(), graphs_.rend(), [&](const CudaQueue::Graph& one) { return one.table == table; });
  if (known != graphs_.rend()) {
    std::rotate(known.base() - 1, known.base(), graphs_.end());
    queue.programs.splice(queue.programs.end(), queue.programs, place_);
    return queue.run(graphs_.back());
  }
  auto before = std::find(seen_.begin(), seen_.end(), table);
  if (before == seen_.end()) {
    if (seen_.size() == kMostSeen) seen_.erase(seen_.begin());
    seen_.push_back(table);
    return queue.run(launches_, numbers_, table.data());
  }
  seen_.erase(before);
  CudaQueue::Graph made = queue.captured(launches_, numbers_, table);
  if (graphs_.size() == kMostGraphs) forget_one();
  if (graphs_.empty()) place_ = queue.programs.insert(queue.programs.end(), this);
  else queue.programs.splice(queue.programs.end(), queue.programs, place_);
  graphs_.push_back(std::move(made));
  if (++queue.graphs > kMostOfQueue) queue.programs.front()->forget_one();
  queue.run(graphs_.back());
}

void define_cuda(nb::module_& m) {
  nb::class_<CudaKernel>(m, "CudaKernel", "A kernel, and how it is launched.")
      .def(nb::init<uintptr_t, std::array<unsigned, 3>, std::array<unsigned, 3>, unsigned, nb::list, nb::object>(), nb::arg("function"),
           nb::arg("blocks"), nb::arg("threads"), nb::arg("local_bytes"), nb::arg("maps"), nb::arg("executable"));
  nb::class_<CudaQueue>(m, "CudaQueue", "A stream of a device.")
      .def(nb::init<const std::vector<uintptr_t>&, uintptr_t, uintptr_t, uintptr_t, nb::object>(), nb::arg("functions"), nb::arg("context"),
           nb::arg("stream"), nb::arg("capturing"), nb::arg("failed"));
}

}  // namespace rulegrad
