#include "python_trace.hpp"

#include <nanobind/stl/string.h>

namespace rulegrad {

namespace {

constexpr size_t kAll = ~size_t(0);

nb::object handle_of(const Ref& r) { return r.n ? nb::cast(Handle{r}) : nb::none(); }

nb::list handles_of(const std::vector<Ref>& refs) {
  nb::list found;
  for (const Ref& r : refs) found.append(handle_of(r));
  return found;
}

class Telling {
 public:
  explicit Telling(const Program& program) : program_(program) {}

  // Into a dictionary: firings, found, inside, remaining, omitted.
  void work(nb::dict& d, const std::vector<Firing>& all, const std::vector<Inside>& remaining, size_t most) {
    nb::list firings, found, inside;
    const size_t half = most / 2, omitted = all.size() > most ? all.size() - most : 0;
    for (size_t k = 0; k < all.size(); k++) {
      if (omitted && k == half) k += omitted;
      const Rule& rule = program_.rules[all[k].rule];
      firings.append(nb::make_tuple(rule.name->text, rule.location->text, handle_of(all[k].before), handle_of(all[k].after)));
      found.append(handle_of(all[k].found));
      inside.append(all[k].inside.empty() ? empty_ : parts(all[k].inside));
    }
    d["firings"] = firings;
    d["found"] = found;
    d["inside"] = inside;
    d["remaining"] = parts(remaining);
    d["omitted"] = nb::make_tuple(omitted ? half : 0, omitted);
  }

 private:
  nb::list parts(const std::vector<Inside>& all) {
    nb::list told;
    for (const Inside& one : all) {
      nb::dict d;
      const bool ruled = one.rule < program_.rules.size();
      d["name"] = one.name ? one.name->text : "";
      d["rule"] = ruled ? program_.rules[one.rule].name->text : "";
      d["location"] = ruled ? program_.rules[one.rule].location->text : "";
      d["verdict"] = kVerdicts[size_t(one.verdict)];
      d["before"] = handle_of(one.before);
      d["after"] = handle_of(one.after);
      d["cost"] = python_of(one.cost);
      work(d, one.firings, one.remaining, one.verdict == Verdict::Failed ? kMostOfFailedPart : kAll);
      told.append(d);
    }
    return told;
  }

  const Program& program_;
  nb::list empty_;
};

}  // namespace

nb::dict information(const Program& program, const Outcome& out, bool traced, bool failed) {
  nb::dict d;
  if (traced) {
    Telling(program).work(d, out.firings, out.remaining, failed ? kMostOfFailed : kAll);
  } else {
    d["firings"] = nb::list();
    d["found"] = nb::list();
  }
  d["followed"] = handles_of(out.followed);
  d["visited"] = out.visited;
  d["fired"] = out.fired;
  d["fired_limited"] = out.fired_limited;
  nb::dict numbered;
  for (auto& [name, nodes] : out.numbered) numbered[name->text.c_str()] = handles_of(nodes);
  d["numbered"] = numbered;
  return d;
}

}  // namespace rulegrad
