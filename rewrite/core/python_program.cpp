// Compiled programs as Python has them.
#include "python_program.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <thread>

#include "interpreter_lock.hpp"
#include "python_trace.hpp"

namespace rulegrad {

namespace {

class PyProgram {
 public:
  PyProgram(nb::bytes data, bool op_table) {
    if (op_table) {
      Program p;
      load_program(p, reinterpret_cast<const uint8_t*>(data.c_str()), data.size(), true);
      for (uint32_t k = 0; k < op_count(); k++) g_op_names.push_back(PyUnicode_InternFromString(op_info(k).name->text.c_str()));
      for (uint32_t k = 0; k < dtype_count(); k++) g_dtype_names.push_back(PyUnicode_InternFromString(dtype_info(k).name->text.c_str()));
      for (uint32_t k = 0; k < g_op_names.size(); k++) g_op_by_object[g_op_names[k]] = int(k);
      for (uint32_t k = 0; k < g_dtype_names.size(); k++) g_dtype_by_object[g_dtype_names[k]] = int(k);
      name_waiting_dtypes();
    } else {
      need_table();
      load_program(program_, reinterpret_cast<const uint8_t*>(data.c_str()), data.size(), false);
      program_.host = call_host;
    }
  }

  const Pass& pass(const std::string& name) const {
    auto found = program_.pass_names.find(name);
    if (found == program_.pass_names.end()) throw RewriteError("no pass is called " + name);
    return program_.passes[found->second];
  }

  nb::object rewrite_one(const std::string& name, const Handle& root, bool trace, bool check, uint64_t fuel, std::vector<Handle> follow,
                         int64_t limit, const std::string& limited, nb::object failed, uint32_t kept_choices) {
    Options options;
    options.trace = trace;
    options.check_shapes = check;
    options.kept_choices = kept_choices;
    if (fuel) options.fuel = fuel;
    for (auto& h : follow) options.follow.push_back(h.ref.n);
    if (limit >= 0) options.limit = uint64_t(limit);
    for (auto& rule : program_.rules)
      if (!limited.empty()) options.limited.push_back(rule.name->text == limited);
    Outcome out;
    Ref hold = root.ref;
    const Pass& p = pass(name);
    std::exception_ptr error;
    try {
      WithoutInterpreter release;
      rewrite(program_, p, hold.n, options, out);
    } catch (...) { error = std::current_exception(); }
    if (error) {
      if (!failed.is_none()) failed.attr("update")(information(program_, out, true, true));
      std::rethrow_exception(error);
    }
    return nb::make_tuple(nb::cast(Handle{out.root}), information(program_, out, trace));
  }

  // A pass on a graph, watched: what the alternatives of the function `probe` do on each node that the subject's rules are tried on.
  nb::tuple explain(const std::string& name, const std::string& probe, const Handle& root, nb::object watcher, const std::string& function,
                    std::vector<Handle> nodes, nb::object seed, const std::vector<std::string>& inside) {
    const Pass& p = pass(name);
    Explainer explainer = make_explainer(program_, p, probe, function, inside);
    for (auto& h : nodes) explainer.nodes[h.ref.n] = true;
    explainer.report = [&](const Explainer::Attempt& a) {
      WithInterpreter gil;
      nb::list registers;
      for (int k = 0; a.registers && k < kRegisters; k++) registers.append(python_of(a.registers[k]));
      nb::object result = a.done ? python_of(a.result) : nb::none();
      watcher.attr("attempt")(nb::cast(Handle{Ref::share(a.node)}), a.alternative, a.done, a.pc, result, registers, a.error);
    };
    explainer.enter = [&](const Explainer::Entry& e) {
      WithInterpreter gil;
      const Rule* rule = e.rule < program_.rules.size() ? &program_.rules[e.rule] : nullptr;
      watcher.attr("enter")(e.function ? e.function->text : "", rule ? rule->name->text : "", rule ? rule->location->text : "",
                            e.at ? nb::cast(Handle{Ref::share(e.at)}) : nb::none(), nb::cast(Handle{Ref::share(e.graph)}));
    };
    explainer.leave = [&](const Outcome& part, const std::string& problem) {
      WithInterpreter gil;
      watcher.attr("leave")(information(program_, part, true), problem);
    };
    Options options;
    options.trace = true;
    options.explainer = &explainer;
    Outcome out;
    std::string error;
    Node* start = seed.is_none() ? nullptr : nb::cast<Handle&>(seed).ref.n;
    try {
      WithoutInterpreter release;
      if (p.kind == PassKind::Reverse && start) reverse(program_, p, {root.ref.n}, {start}, toposort(root.ref.n), &explainer);
      else rewrite(program_, p, root.ref.n, options, out);
    } catch (const std::runtime_error& e) {  // GraphError, RewriteError
      error = e.what();
    }
    return nb::make_tuple(information(program_, out, true), error);
  }

  // Each root through all the passes, on all cores; what each pass did, over all roots.
  nb::tuple rewrite_many(const std::vector<std::string>& names, std::vector<Handle> roots) {
    struct Work {
      double seconds = 0;
      uint64_t visited = 0, fired = 0;
    };
    std::vector<const Pass*> steps;
    for (auto& name : names) steps.push_back(&pass(name));
    std::vector<std::vector<Work>> works(roots.size(), std::vector<Work>(steps.size()));
    std::vector<std::exception_ptr> errors(roots.size());
    {
      WithoutInterpreter release;
      std::atomic<size_t> next{0};
      auto work = [&] {
        for (size_t k; (k = next.fetch_add(1)) < roots.size();) {
          try {
            for (size_t j = 0; j < steps.size(); j++) {
              auto start = std::chrono::steady_clock::now();
              Outcome out;
              rewrite(program_, *steps[j], roots[k].ref.n, Options{}, out);
              roots[k] = Handle{out.root};
              works[k][j] = {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), out.visited, out.fired};
            }
          } catch (...) { errors[k] = std::current_exception(); }
        }
      };
      std::vector<std::thread> workers;
      size_t count = program_.counts.empty() ? std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), roots.size()) : 1;
      for (size_t k = 1; k < count; k++) workers.emplace_back(work);
      work();
      for (auto& w : workers) w.join();
    }
    for (auto& e : errors)
      if (e) std::rethrow_exception(e);
    nb::list results, did;
    for (auto& root : roots) results.append(nb::cast(root));
    for (size_t j = 0; j < steps.size(); j++) {
      Work sum;
      for (auto& w : works) sum = {sum.seconds + w[j].seconds, sum.visited + w[j].visited, sum.fired + w[j].fired};
      did.append(nb::make_tuple(sum.seconds, sum.visited, sum.fired));
    }
    return nb::make_tuple(results, did);
  }

  nb::list reverse_pass(const std::string& name, const std::vector<Handle>& roots, const std::vector<Handle>& seeds,
                        const std::vector<Handle>& targets, nb::object trace) {
    const Pass& p = pass(name);
    if (p.kind != PassKind::Reverse) throw RewriteError("pass " + name + " is not a reverse pass");
    const auto nodes = [](const std::vector<Handle>& handles) {
      std::vector<Node*> found;
      for (auto& handle : handles) found.push_back(handle.ref.n);
      return found;
    };
    std::vector<Ref> out;
    std::vector<GradientFiring> firings;
    std::exception_ptr error;  // what fired before it is told too
    try {
      WithoutInterpreter release;
      out = reverse(program_, p, nodes(roots), nodes(seeds), nodes(targets), nullptr, trace.is_none() ? nullptr : &firings);
    } catch (...) { error = std::current_exception(); }
    for (auto& f : firings) {
      nb::list sources;
      for (auto& s : f.sources) sources.append(nb::cast(Handle{s}));
      const Rule& rule = program_.rules[f.rule];
      trace.attr("append")(nb::make_tuple(rule.name->text, rule.location->text, nb::cast(Handle{f.node}), nb::cast(Handle{f.gradient}), sources));
    }
    if (error) std::rethrow_exception(error);
    nb::list result;
    for (auto& r : out) {
      if (r.n) result.append(nb::cast(Handle{r}));
      else result.append(nb::none());
    }
    return result;
  }

  // The pass's rules on one node, once, and not below it; None when none fires.
  nb::object apply(const std::string& name, const Handle& root) {
    const Pass& p = pass(name);
    Machine machine(program_);
    Value v;
    if (machine.match(p.dispatch, root.ref.n, nullptr, 0, v) < 0) return nb::none();
    Node* result = machine.lift(v, root.ref.n->dtype);
    if (result == root.ref.n) return nb::none();
    return nb::cast(Handle{Ref::share(result)});
  }

  nb::object call(const std::string& name, nb::args args) {
    Storage storage;
    std::vector<Value> values;
    for (nb::handle a : args) values.push_back(value_of(a, storage, AttributeType::Tuple));
    Machine machine(program_);
    return python_of(call_function(program_, name, values, machine));
  }

  nb::list order(const std::string& name, const Handle& root) {
    std::vector<Line> lines = linearize(pass(name), root.ref.n);
    nb::list result;
    for (auto& l : lines) result.append(nb::make_tuple(nb::cast(Handle{Ref::share(l.node)}), l.closes != nullptr));
    return result;
  }

  nb::tuple source(const std::string& order_pass, const std::string& render_pass, const Handle& root) {
    const Pass &o = pass(order_pass), &r = pass(render_pass);
    Rendered out;
    {
      WithoutInterpreter release;
      out = render(program_, r, linearize(o, root.ref.n));
    }
    nb::list parameters;
    for (auto& [slot, nt] : out.parameters) parameters.append(nb::make_tuple(slot, nt.first, nt.second));
    return nb::make_tuple(out.body, parameters);
  }

  void disable(const std::string& rule, bool off) {
    bool found = false;
    for (size_t k = 0; k < program_.rules.size(); k++) {
      const std::string& full = program_.rules[k].name->text;
      if (full == rule || full.substr(full.find('.') + 1) == rule) {
        program_.disabled[k] = off;
        found = true;
      }
    }
    if (!found) throw RewriteError("no rule is called " + rule);
    renew_stamps(program_);
  }

  void count(bool on) { program_.counts.assign(on ? program_.rules.size() : 0, RuleCount()); }

  nb::list counts() const {
    nb::list found;
    for (size_t k = 0; k < program_.counts.size(); k++)
      if (const RuleCount& c = program_.counts[k]; c.tried)
        found.append(nb::make_tuple(program_.rules[k].name->text, c.tried, c.fired, c.nanoseconds));
    return found;
  }

  void set_extern(const std::string& name, nb::object function) {
    for (size_t k = 0; k < program_.extern_names.size(); k++)
      if (program_.extern_names[k]->text == name) {
        externs_.push_back(function);
        program_.externs[k] = function.ptr();
        return;
      }
    throw RewriteError("no extern is called " + name);
  }

  std::vector<std::pair<std::string, std::string>> rules() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (auto& r : program_.rules) out.emplace_back(r.name->text, r.location->text);
    return out;
  }
  std::vector<std::string> extern_list() const {
    std::vector<std::string> out;
    for (auto& e : program_.extern_names) out.push_back(e->text);
    return out;
  }
  std::vector<std::string> passes() const {
    std::vector<std::string> out;
    for (auto& p : program_.passes) out.push_back(p.name->text);
    return out;
  }

 private:
  Program program_;
  std::vector<nb::object> externs_;
};

}  // namespace

void define_program(nb::module_& m) {
  nb::class_<PyProgram>(m, "Program", "Compiled rules.")
      .def(nb::init<nb::bytes, bool>(), nb::arg("data"), nb::arg("op_table") = false)
      .def("rewrite", &PyProgram::rewrite_one, nb::arg("pass_name"), nb::arg("root"), nb::arg("trace") = false, nb::arg("check") = false,
           nb::arg("fuel") = 0, nb::arg("follow") = nb::list(), nb::arg("limit") = -1, nb::arg("limited") = "", nb::arg("failed") = nb::none(),
           nb::arg("kept_choices") = 1)
      .def("explain", &PyProgram::explain, nb::arg("pass_name"), nb::arg("probe"), nb::arg("root"), nb::arg("watcher"), nb::arg("function") = "",
           nb::arg("nodes") = nb::list(), nb::arg("seed") = nb::none(), nb::arg("inside") = nb::list())
      .def("rewrite_many", &PyProgram::rewrite_many, nb::arg("pass_names"), nb::arg("roots"))
      .def("reverse", &PyProgram::reverse_pass, nb::arg("pass_name"), nb::arg("roots"), nb::arg("seeds"), nb::arg("targets"),
           nb::arg("trace") = nb::none())
      .def("apply", &PyProgram::apply, nb::arg("pass_name"), nb::arg("root"))
      .def("call", &PyProgram::call, nb::arg("function"), nb::arg("arguments"))
      .def("order", &PyProgram::order, nb::arg("pass_name"), nb::arg("root"))
      .def("source", &PyProgram::source, nb::arg("order_pass"), nb::arg("render_pass"), nb::arg("root"))
      .def("disable", &PyProgram::disable, nb::arg("rule"), nb::arg("off") = true)
      .def("count", &PyProgram::count, nb::arg("on"))
      .def_prop_ro("counts", &PyProgram::counts)
      .def("set_extern", &PyProgram::set_extern, nb::arg("name"), nb::arg("function"))
      .def_prop_ro("rules", &PyProgram::rules)
      .def_prop_ro("externs", &PyProgram::extern_list)
      .def_prop_ro("passes", &PyProgram::passes);

  nb::list opcodes, binary, unary;
#define X(name, operands) opcodes.append(nb::make_tuple(#name, operands));
  RULEGRAD_OPCODES(X)
#undef X
#define X(name) binary.append(#name);
  RULEGRAD_BINARY(X)
#undef X
#define X(name) unary.append(#name);
  RULEGRAD_UNARY(X)
#undef X
  m.attr("OPCODES") = opcodes;
  m.attr("BINARY_OPERATORS") = binary;
  m.attr("UNARY_OPERATORS") = unary;
  m.attr("MOST_PARAMETERS") = kMostParameters;
}

}  // namespace rulegrad
