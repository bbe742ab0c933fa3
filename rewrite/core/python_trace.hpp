// The events of a pass, for Python: firings, and the rewriting inside them.
#pragma once
#include "python_values.hpp"

namespace rulegrad {

// Firings of a pass, or of a part, that failed: the first half of them, and the last.
constexpr size_t kMostOfFailed = 4'000, kMostOfFailedPart = 200;

// The dictionary `Information` of _core.pyi. Of a pass that failed at most so many firings are there, for it may have tried for long.
nb::dict information(const Program& program, const Outcome& out, bool traced, bool failed = false);

}  // namespace rulegrad
