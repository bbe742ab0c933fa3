// Guards of a captured function, checked before each replay: the structure of its arguments, and the state that it finds outside of them.
#pragma once
#include <nanobind/nanobind.h>

namespace rulegrad {

void define_guards(nanobind::module_& m);

}  // namespace rulegrad
