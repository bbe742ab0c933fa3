#include "prepared.hpp"

#include <algorithm>
#include <utility>

#include "python_values.hpp"

namespace rulegrad {

PreparedPlan::PreparedPlan(nb::dict parts, size_t inputs, size_t results)
    : taken_(nb::cast<std::vector<uint32_t>>(parts["taken"])),
      holder_(parts["program"]),
      program_(nb::cast<const Replay*>(parts["program"])),
      bound_(nb::cast<std::vector<uint32_t>>(parts["bound"])),
      user_location_(parts["user_location"]),
      new_flags_(parts["new_flags"]),
      tell_checks_(parts["tell_checks"]),
      visible_flags_(nb::cast<size_t>(parts["visible_flags"])) {
  for (nb::handle block : parts["blocks"]) {
    if (PyLong_CheckExact(block.ptr())) {
      blocks_.push_back({{}, nb::cast<uint32_t>(block)});
      if (blocks_.back().taken >= inputs) throw nb::value_error("a block is taken from an input that there is not");
    } else {
      blocks_.push_back({BufferLayout(block), 0});
    }
  }
  if (nb::object arena = parts["arena"]; !arena.is_none()) arena_.emplace(arena);
  for (nb::handle result : parts["results"]) {
    results_.push_back({nb::cast<uint32_t>(result[0]), {}});
    if (nb::object layout = result[1]; !layout.is_none()) results_.back().layout.emplace(layout);
  }
  const auto is_block = [this](uint32_t k) { return k < blocks_.size(); };
  const bool is_sound = std::all_of(bound_.begin(), bound_.end(), [&](uint32_t k) { return is_block(k) && blocks_[k].layout; }) &&
                        std::all_of(results_.begin(), results_.end(),
                                    [&](auto& r) { return is_block(r.block) && r.layout.has_value() != blocks_[r.block].layout.has_value(); });
  if (!is_sound || results_.size() != results || program_->bound() != inputs + bound_.size() + checks_indices())
    throw nb::value_error("the parts of a prepared plan do not fit each other");
}

// The flags of one launch. Where nothing goes wrong, a launch leaves them for the next one.
nb::object PreparedPlan::flags() const {
  if (!checks_indices()) return {};
  nb::object clean = std::move(clean_flags_);
  return clean.is_valid() ? clean : new_flags_();
}

// Whether the program has run and all flags are zeros: then nobody has to be told, and the next launch has them.
bool PreparedPlan::has_passed(const nb::object& flags) const {
  const auto* words = static_cast<const int32_t*>(address_of(reinterpret_cast<BufferBase*>(flags.ptr())->handle));
  if (!visible_flags_ || std::any_of(words, words + visible_flags_, [](int32_t word) { return word != 0; })) return false;
  clean_flags_ = flags;
  return true;
}

// Raises the error of a collective that failed: what was in memory that results are put into is gone then.
void PreparedPlan::run(const std::vector<nb::object>& inputs, std::vector<void*>& table) const {
  nb::object arena = arena_ ? allocated(arena_->device, arena_->bytes) : nb::object();
  const auto give_arena_back = [&] {
    if (arena_) give_back(arena_->device, std::move(arena), arena_->bytes);
  };
  try {
    program_->run(table, arena_ ? address_of(arena.ptr()) : nullptr);
  } catch (nb::python_error&) {
    give_arena_back();
    for (const Block& block : blocks_)
      if (!block.layout) (void)inputs[block.taken].attr("release")();
    throw;
  }
  give_arena_back();
}

std::vector<nb::object> PreparedPlan::launch(const std::vector<nb::object>& inputs, const std::vector<bool>& stays,
                                             const std::function<nb::object()>& graphs) const {
  const auto stays_at = [&stays](size_t k) { return !stays.empty() && stays[k]; };
  const nb::object location = user_location_.is_none() ? nb::none() : user_location_();
  std::vector<nb::object> blocks(blocks_.size());
  std::vector<void*> table;
  for (const nb::object& input : inputs) table.push_back(address_of(reinterpret_cast<BufferBase*>(input.ptr())->handle));
  for (uint32_t k : bound_) {
    blocks[k] = new_buffer(*blocks_[k].layout, true, location);
    table.push_back(address_of(reinterpret_cast<BufferBase*>(blocks[k].ptr())->handle));
  }
  const nb::object flags = this->flags();
  if (flags.is_valid()) table.push_back(address_of(reinterpret_cast<BufferBase*>(flags.ptr())->handle));
  std::vector<nb::object> results;  // before the launch: where there is no memory for one, nothing has happened
  for (size_t k = 0; k < results_.size(); k++) {
    const Result& result = results_[k];
    if (stays_at(k)) {
      results.push_back(inputs[taken_for(result)]);
    } else {
      results.push_back(result.layout ? new_buffer(*result.layout, false, location) : blocks[result.block]);
    }
  }
  run(inputs, table);
  for (size_t k = 0; k < results.size(); k++) {
    if (!results_[k].layout || stays_at(k)) continue;
    std::swap(reinterpret_cast<BufferBase*>(results[k].ptr())->handle, reinterpret_cast<BufferBase*>(inputs[taken_for(results_[k])].ptr())->handle);
  }
  if (flags.is_valid() && !has_passed(flags)) {
    nb::list found;
    for (const nb::object& result : results) found.append(result);
    tell_checks_(found, flags, graphs());
  }
  return results;
}

std::shared_ptr<const PreparedPlan> PreparedPlans::taking(const std::vector<uint32_t>& inputs) const {
  for (const auto& one : plans_)
    if (one->taken() == inputs) return one;
  return {};
}

}  // namespace rulegrad
