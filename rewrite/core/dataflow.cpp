#include "dataflow.hpp"

#include <algorithm>

namespace rulegrad {

size_t DataflowValues::Hash::operator()(const Value& v) const { return v.tag == Tag::Node ? reinterpret_cast<uintptr_t>(v.n) : hash_value(v); }

void DataflowValues::include(Entry& e, const Value& value) {
  constexpr size_t kFew = 16;  // that are compared one by one
  if (e.items.size() < kFew) {
    if (std::any_of(e.items.begin(), e.items.end(), [&](const Value& known) { return Same()(known, value); })) return;
  } else {
    if (e.seen.empty()) e.seen.insert(e.items.begin(), e.items.end());
    if (!e.seen.insert(value).second) return;
  }
  e.items.push_back(value);
}

void DataflowValues::join(Entry& e, const Value& value) {
  auto wrong = [&](const char* kind) { return RewriteError("`" + dataflow_.name->text + "` joins " + kind + ", not " + show(value)); };
  machine_.budget = Machine::kBudget;
  switch (dataflow_.merge) {
    case Merge::Min:
    case Merge::Max: {
      const bool least = dataflow_.merge == Merge::Min;
      Value below;
      if (!machine_.binary(B_CMPLT, false, least ? value : e.value, least ? e.value : value, below) || below.tag != Tag::Bool) throw wrong("numbers");
      if (below.b) e.value = value;
      break;
    }
    case Merge::Sum: {
      Value sum;
      if (!machine_.binary(B_ADD, true, e.value, value, sum)) throw wrong("numbers or nodes");
      e.value = machine_.persistent(sum);
      break;
    }
    case Merge::Any:
    case Merge::Every:
      if (value.tag != Tag::Bool || e.value.tag != Tag::Bool) throw wrong("true and false");
      e.value.b = dataflow_.merge == Merge::Any ? e.value.b || value.b : e.value.b && value.b;
      break;
    case Merge::Union:
      if (value.tag != Tag::Seq) throw wrong("sequences");
      for (uint32_t k = 0; k < value.q.size; k++) include(e, value.q.items[k]);
      break;
    case Merge::All: include(e, value); break;
    case Merge::Count: e.value.i += 1; break;
    case Merge::First:
    case Merge::Number:
    case Merge::None: break;
  }
}

void DataflowValues::add(const CallKey& key, const Value& value) {
  auto [found, first] = entries_.try_emplace(key);
  Entry& e = found->second;
  if (first) {
    order_.push_back(key);
    e.value = dataflow_.merge == Merge::Number ? Value::integer(Int(order_.size() - 1)) : dataflow_.merge == Merge::Count ? Value::integer(0) : value;
    if (dataflow_.merge == Merge::First || dataflow_.merge == Merge::Sum || dataflow_.merge == Merge::Number) return;
  }
  join(e, value);
}

bool DataflowValues::find(const CallKey& key, Value& value) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  Entry& e = found->second;
  const bool sequence = dataflow_.merge == Merge::All || dataflow_.merge == Merge::Union;
  value = sequence ? machine_.persistent(Value::seq(e.items.data(), uint32_t(e.items.size()))) : e.value;
  if (value.tag == Tag::Seq && value.q.depth > kDeepest)
    throw RewriteError("`" + dataflow_.name->text + "` holds sequences that are nested too deeply");
  return true;
}

void DataflowValues::publish() {
  for (const CallKey& key : order_) {
    Value value;
    find(key, value);
    machine_.memo.put(key, value);
  }
}

}  // namespace rulegrad
