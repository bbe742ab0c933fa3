// The Python module rulegrad._core: what it has of each part of the engine, and its errors.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "buffers.hpp"
#include "captured.hpp"
#include "eager.hpp"
#include "exchange.hpp"
#include "graph_function.hpp"
#include "guards.hpp"
#include "named.hpp"
#include "partition.hpp"
#include "placing.hpp"
#include "python_nodes.hpp"
#include "python_program.hpp"
#include "replay.hpp"
#include "shapes.hpp"
#include "signature.hpp"
#include "template_graph.hpp"
#include "tensor_operators.hpp"
#include "views.hpp"

using namespace rulegrad;

namespace {

PyObject* g_graph_error = nullptr;
PyObject* g_rewrite_error = nullptr;
PyObject* g_rule_error = nullptr;

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The engine: hash-consed nodes and compiled rules.";
  nb::set_leak_warnings(false);
  nb::module_ errors = nb::module_::import_("rulegrad.errors");
  g_graph_error = nb::object(errors.attr("GraphError")).release().ptr();
  g_rewrite_error = nb::object(errors.attr("RewriteError")).release().ptr();
  g_rule_error = nb::object(errors.attr("RuleError")).release().ptr();
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const GraphError& e) { PyErr_SetString(g_graph_error, e.what()); } catch (const RewriteError& e) {
      PyErr_SetString(g_rewrite_error, e.what());
    } catch (const BytecodeError& e) { PyErr_SetString(g_rule_error, (std::string("malformed compiled rules: ") + e.what()).c_str()); }
  });

  m.attr("NodeHolder") = nb::steal(node_holder());
  define_nodes(m);
  define_program(m);
  m.def("live_nodes", &live_nodes, "Number of nodes that are alive.");
  m.def(
      "is_source", [](const Handle& node) { return is_source(node.ref.n); }, nb::arg("node"),
      "Whether there is a node that is computed from this one; looks at all nodes.");
  watch_forks();
  define_exchange(m);
  define_cuda(m);
  define_replay(m);
  define_buffers(m);
  define_shapes(m);
  define_tensor_operators(m);
  define_eager(m);
  define_views(m);
  define_graph_function(m);
  define_template_graph(m);
  define_guards(m);
  define_captured(m);
  define_partition(m);
  define_placing(m);
  m.def("table_loaded", &table_loaded);
  m.def("renumbered", &renumbered, nb::arg("like"), nb::arg("number"), "The BUFFER node with another number.");
  m.attr("SIGNATURE_BYTES") = kLeastOfNode;
  m.def("signature", &signature, nb::arg("roots"), "A key of the graphs with their buffers left open, and the buffers' ids in order.");
  m.def("is_in_parts", [](const Handle& node) { return is_in_parts(node.ref.n); }, nb::arg("node"), "Whether it is a BUFFER in parts on a mesh.");
  m.def("placements", &placements, nb::arg("nodes"), "Of the nodes that are BUFFERs in parts: which they are, their meshes, and how they lie there.");
  m.def("remember", &remember, nb::arg("node"), nb::arg("buffer"), "The buffer holds the value of the node, as long as both live.");
  m.def("holders_of_graphs", &holders_of_graphs, "All objects that stand for nodes that are computed from others.");
  m.def("are_above", &are_above, nb::arg("roots"), nb::arg("nodes"), "For each root whether one of the nodes is in its graph.");
  m.def("resolved", &resolved, nb::arg("roots"), "Graphs on the buffers that hold values of their nodes, and what is named in them.");
  define_values(m);
}
