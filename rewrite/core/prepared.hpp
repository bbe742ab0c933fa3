// Launches of a plan without Python: its launches are a program, and its results are in memory of their own, or in that of inputs.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "buffers.hpp"
#include "replay.hpp"

namespace rulegrad {

// A plan in which some inputs give their memory away: Python's Prepared.
class PreparedPlan {
 public:
  struct Block {
    std::optional<BufferLayout> layout;
    uint32_t taken;  // or the input that it is
  };
  struct Result {
    uint32_t block;
    std::optional<BufferLayout> layout;  // of a result in memory that was an input's
  };

  // parts: what `in_engine` of rulegrad.compile.plans gives. Raises ValueError where they do not fit each other.
  PreparedPlan(nb::dict parts, size_t inputs, size_t results);

  const std::vector<uint32_t>& taken() const { return taken_; }
  const Result& result(size_t k) const { return results_[k]; }
  // The input whose memory a result is in.
  uint32_t taken_for(const Result& result) const { return blocks_[result.block].taken; }
  bool is_of_functions() const { return program_->is_of_functions(); }
  // The buffers of the results. stays: of each result in an input's memory whether it is put into the input's buffer; empty: none is.
  // graphs: for the message about an index that was out of range, a list of what is computed, or None.
  std::vector<nb::object> launch(const std::vector<nb::object>& inputs, const std::vector<bool>& stays,
                                 const std::function<nb::object()>& graphs) const;

 private:
  void run(const std::vector<nb::object>& inputs, std::vector<void*>& table) const;
  nb::object flags() const;
  bool has_passed(const nb::object& flags) const;
  bool checks_indices() const { return !new_flags_.is_none(); }

  std::vector<uint32_t> taken_;
  nb::object holder_;  // keeps the program
  const Replay* program_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> bound_;  // blocks that the program is given, beside the inputs
  std::optional<BufferLayout> arena_;
  std::vector<Result> results_;
  nb::object user_location_;        // a function that gives the line which makes buffers that are large; None where none is
  nb::object new_flags_;            // of kernels that check indices: a function that gives the buffer of flags,
  nb::object tell_checks_;          // and one that lets results wait for it; None where nothing is checked
  size_t visible_flags_;            // words of flags that can be looked at here once the program has run; 0 where somebody has to wait for them
  mutable nb::object clean_flags_;  // those of the last launch, while they are zeros and no other launch has them
};

// One plan, prepared for some choices of the inputs whose memory is taken. A launch keeps its own: another thread may add one meanwhile.
class PreparedPlans {
 public:
  // The one that takes the memory of just these inputs, in order; null where there is none.
  std::shared_ptr<const PreparedPlan> taking(const std::vector<uint32_t>& inputs) const;
  void add(std::shared_ptr<const PreparedPlan> plan) { plans_.push_back(std::move(plan)); }
  size_t size() const { return plans_.size(); }

 private:
  std::vector<std::shared_ptr<const PreparedPlan>> plans_;
};

}  // namespace rulegrad
