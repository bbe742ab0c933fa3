// The replay of a captured function without Python, where nothing unusual is asked of it.
#pragma once
#include <nanobind/nanobind.h>

namespace rulegrad {

void define_captured(nanobind::module_& m);

}  // namespace rulegrad
