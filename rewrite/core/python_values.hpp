// Values and nodes between Python and the engine.
#pragma once
#include <nanobind/nanobind.h>

#include "rewrite.hpp"

namespace nb = nanobind;

namespace rulegrad {

struct Handle {
  Ref ref;
};

using Storage = std::deque<std::vector<Value>>;  // of the sequences in a value from Python

extern std::vector<PyObject*> g_op_names, g_dtype_names;  // interned, one each
extern std::unordered_map<PyObject*, int> g_op_by_object, g_dtype_by_object;

std::string_view text_of(nb::handle h, const char* what);
uint32_t op_of(nb::handle h);
uint32_t dtype_of(nb::handle h);
void need_table();           // loads the op table if there is none; throws GraphError
void name_waiting_dtypes();  // once the op table is loaded
// From now on these objects stand for the dtypes that str() of them names. Throws GraphError.
void name_dtypes(nb::sequence dtypes);
// Throws GraphError for what no attribute can be.
Value value_of(nb::handle h, Storage& storage, AttributeType type, int depth = 0);
nb::object wrap(Node* owned);
nb::object python_of(const Value& v);
// The distinct nodes below, sources first, itself included; where ops are named, those of these ops.
nb::list nodes_below(Node* root, nb::args ops);
nb::set dtypes_below(Node* root);
nb::list numbers_below(Node* root, const std::string& op, const std::string& attribute);
// A function of Python's called by rules. Throws RewriteError where it raises.
Value call_host(void* handle, const Value* arguments, uint32_t count, Machine& machine);

void define_values(nb::module_& m);

}  // namespace rulegrad
