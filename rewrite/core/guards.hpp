// What has to hold before a captured function is replayed: the structure of its arguments, and what it finds outside of them.
#pragma once
#include <nanobind/nanobind.h>

namespace rulegrad {

void define_guards(nanobind::module_& m);

}  // namespace rulegrad
