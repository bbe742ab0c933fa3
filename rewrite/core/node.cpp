#include "node.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <mutex>
#include <thread>

#include "machine.hpp"

namespace rulegrad {

KnownOps known_ops;
KnownDtypes known_dtypes;

namespace {

std::vector<DtypeInfo> g_dtypes;
std::vector<OpInfo> g_ops;

// ---- intern table: 64 shards, each a hash table with chains behind a spin lock ----

struct SpinLock {
  std::atomic_flag flag = ATOMIC_FLAG_INIT;
  void lock() {
    for (int k = 0; flag.test_and_set(std::memory_order_acquire); k++)
      if (k > 64) std::this_thread::yield();
  }
  void unlock() { flag.clear(std::memory_order_release); }
};

struct Shard {
  SpinLock lock;
  std::vector<Node*> buckets = std::vector<Node*>(64, nullptr);
  size_t count = 0;
  size_t place(uint64_t hash) const { return (hash >> 6) & (buckets.size() - 1); }
  void grow() {
    std::vector<Node*> old(buckets.size() * 2, nullptr);
    old.swap(buckets);
    for (Node* n : old)
      while (n) {
        Node* rest = n->chain;
        Node*& head = buckets[place(n->hash)];
        n->chain = head;
        head = n;
        n = rest;
      }
  }
  void unlink(Node* n) {
    Node** at = &buckets[place(n->hash)];
    while (*at != n) at = &(*at)->chain;
    *at = n->chain;
    count--;
    if (buckets.size() > 64 && count * 8 < buckets.size()) shrink();
  }
  void shrink() {
    std::vector<Node*> old(buckets.size() / 4, nullptr);
    old.swap(buckets);
    for (Node* n : old)
      while (n) {
        Node* rest = n->chain;
        Node*& head = buckets[place(n->hash)];
        n->chain = head;
        head = n;
        n = rest;
      }
  }
};

Shard g_shards[64];
std::atomic<size_t> g_live{0};

// Ids are dense: freed ones are handed out again, so that side arrays stay small.
struct IdPool {
  SpinLock lock;
  std::vector<uint32_t> free;
  std::atomic<uint32_t> limit{0};
  uint32_t take() {
    std::lock_guard<SpinLock> hold(lock);
    if (!free.empty()) {
      uint32_t id = free.back();
      free.pop_back();
      return id;
    }
    return limit.fetch_add(1, std::memory_order_relaxed);
  }
  void give(const std::vector<uint32_t>& ids) {
    std::lock_guard<SpinLock> hold(lock);
    free.insert(free.end(), ids.begin(), ids.end());
    if (free.size() == limit) {  // nothing is alive: give the memory back
      free.clear();
      free.shrink_to_fit();
      limit = 0;
    }
  }
} g_ids;

constexpr size_t kManyNodes = 50'000;

// ---- attributes: one allocation, nested sequences behind the items ----

size_t nested_items(const Value& v) {
  if (v.tag != Tag::Seq) return 0;
  size_t n = v.q.size;
  for (uint32_t k = 0; k < v.q.size; k++) n += nested_items(v.q.items[k]);
  return n;
}

void copy_value(Value& to, const Value& from, Value*& storage) {
  to = from;
  if (from.tag != Tag::Seq) return;
  Value* items = storage;
  storage += from.q.size;
  for (uint32_t k = 0; k < from.q.size; k++) copy_value(items[k], from.q.items[k], storage);
  to.q.items = items;
}

Attrs* copy_attrs(const Value* items, uint32_t size) {
  if (size == 0) return nullptr;
  size_t total = size;
  for (uint32_t k = 0; k < size; k++) total += nested_items(items[k]);
  auto* a = static_cast<Attrs*>(::operator new(sizeof(Attrs) + total * sizeof(Value) + 16, std::align_val_t(16)));
  a->size = size;
  Value* storage = a->items + size;
  for (uint32_t k = 0; k < size; k++) copy_value(a->items[k], items[k], storage);
  return a;
}

bool same(const Node* n, uint64_t hash, uint32_t op, uint32_t dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs) {
  if (n->hash != hash || n->op != op || n->dtype != dtype || n->nsrc != nsrc) return false;
  for (uint32_t k = 0; k < nsrc; k++)
    if (n->src[k] != src[k]) return false;
  if ((n->attrs ? n->attrs->size : 0) != nattrs) return false;
  for (uint32_t k = 0; k < nattrs; k++)
    if (!identical(n->attrs->items[k], attrs[k])) return false;
  return true;
}


void destroy(Node* n) {
  if (n->attrs) ::operator delete(n->attrs, std::align_val_t(16));
  drop_shape(n->shape.load(std::memory_order_relaxed));
  drop_ranges(n->ranges.load(std::memory_order_relaxed));
  ::operator delete(n);
}

// Gives one reference back; true when the node is now unlinked and must be destroyed.
bool drop_reference(Node* n) {
  uint32_t refs = n->refs.load(std::memory_order_relaxed);
  while (refs > 1)
    if (n->refs.compare_exchange_weak(refs, refs - 1, std::memory_order_acq_rel)) return false;
  Shard& shard = g_shards[n->hash & 63];
  std::lock_guard<SpinLock> hold(shard.lock);  // nobody can find the node in the table meanwhile
  if (n->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  shard.unlink(n);
  return true;
}

}  // namespace

void drop_shape(Shape* s) {
  if (s && s->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) ::operator delete(s);
}
void drop_ranges(RangeSet* s) {
  if (s && s->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) ::operator delete(s);
}

const DtypeInfo& dtype_info(uint32_t dtype) { return g_dtypes[dtype]; }
const OpInfo& op_info(uint32_t op) { return g_ops[op]; }
size_t op_count() { return g_ops.size(); }
size_t dtype_count() { return g_dtypes.size(); }
bool table_loaded() { return !g_ops.empty(); }

int find_op(std::string_view name) {
  for (size_t k = 0; k < g_ops.size(); k++)
    if (g_ops[k].name->text == name) return int(k);
  return -1;
}

int find_dtype(std::string_view name) {
  for (size_t k = 0; k < g_dtypes.size(); k++)
    if (g_dtypes[k].name->text == name) return int(k);
  return -1;
}

void install_table(std::vector<DtypeInfo> dtypes, std::vector<OpInfo> ops) {
  if (!g_ops.empty()) throw BytecodeError("the op table is loaded already");
  g_dtypes = std::move(dtypes);
  g_ops = std::move(ops);
  auto need_op = [](const char* name) {
    int k = find_op(name);
    if (k < 0) throw BytecodeError(std::string("the op table lacks ") + name);
    return uint32_t(k);
  };
  known_ops = {need_op("CONST"), need_op("RANGE"), need_op("ADD"),   need_op("MUL"),   need_op("AND"),  need_op("NEG"),
               need_op("CAST"),  need_op("END"),   need_op("AFTER"), need_op("INVALID"), need_op("STORE"), need_op("LOAD"),
               need_op("PARAM"), need_op("SINK"),  need_op("INDEX"), need_op("WHERE"), need_op("BUFFER")};
  auto need_dtype = [](const char* name) {
    int k = find_dtype(name);
    if (k < 0) throw BytecodeError(std::string("the op table lacks dtype ") + name);
    return uint32_t(k);
  };
  known_dtypes = {need_dtype("void"), need_dtype("bool"), need_dtype("index")};
  // What the engine takes for granted of these ops.
  auto first = [](uint32_t op, AttributeType type) { return !g_ops[op].attributes.empty() && g_ops[op].attributes[0].type == type; };
  const OpInfo& constant = g_ops[known_ops.CONST];
  if (!first(known_ops.CONST, AttributeType::Scalar) || constant.attributes.size() != 1 || constant.variadic || constant.max_sources != 0 ||
      constant.result_variable >= 0 || constant.result_dtype >= 0)
    throw BytecodeError("CONST must be CONST[value: scalar]() -> explicit");
  if (!first(known_ops.RANGE, AttributeType::Int) || !first(known_ops.PARAM, AttributeType::Int))
    throw BytecodeError("the first attribute of RANGE and of PARAM must be an int");
  if (g_ops[known_ops.MUL].min_sources != 2) throw BytecodeError("MUL must have two sources");
}

void remove_table() {
  g_ops.clear();
  g_dtypes.clear();
}

void retain(Node* n) { n->refs.fetch_add(1, std::memory_order_relaxed); }

void release(Node* n) {
  if (!drop_reference(n)) return;
  std::vector<Node*> dead{n};
  std::vector<uint32_t> ids;
  while (!dead.empty()) {
    Node* d = dead.back();
    dead.pop_back();
    for (uint32_t k = 0; k < d->nsrc; k++)
      if (drop_reference(d->src[k])) dead.push_back(d->src[k]);
    ids.push_back(d->id);
    destroy(d);
  }
  g_live.fetch_sub(ids.size(), std::memory_order_relaxed);
  g_ids.give(ids);
#ifdef __GLIBC__
  // A large graph is gone: glibc keeps small free blocks to itself unless it is told to look.
  if (ids.size() > kManyNodes) malloc_trim(0);
#endif
}

size_t live_nodes() { return g_live.load(); }
uint32_t id_limit() { return g_ids.limit.load(); }

Node* make_node(uint32_t op, uint32_t dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs) {
  Node* swapped[2];
  if (nsrc == 2 && g_ops[op].commutative && is_const(src[0]) && !is_const(src[1])) {
    swapped[0] = src[1];  // a commutative node keeps its constant last
    swapped[1] = src[0];
    src = swapped;
  }
  uint64_t hash = mix(g_ops[op].name->hash, dtype), rank = 0;
  for (uint32_t k = 0; k < nsrc; k++) {
    hash = mix(hash, src[k]->hash);
    rank = std::max(rank, src[k]->hash >> kRankShift);
  }
  for (uint32_t k = 0; k < nattrs; k++) hash = mix(hash, hash_value(attrs[k]));
  if (op == known_ops.RANGE && nattrs && attrs[0].i >= 0) rank = uint64_t(std::min<Int>(attrs[0].i + 1, kMostRank));
  hash = (hash & ((1ULL << kRankShift) - 1)) | rank << kRankShift;
  Shard& shard = g_shards[hash & 63];
  std::lock_guard<SpinLock> hold(shard.lock);
  for (Node* n = shard.buckets[shard.place(hash)]; n; n = n->chain)
    if (same(n, hash, op, dtype, src, nsrc, attrs, nattrs)) {
      retain(n);
      return n;
    }
  auto* n = static_cast<Node*>(::operator new(sizeof(Node) + nsrc * sizeof(Node*)));
  n->refs.store(1, std::memory_order_relaxed);
  n->id = g_ids.take();
  n->hash = hash;
  n->op = uint16_t(op);
  n->dtype = uint8_t(dtype);
  n->facts.store(0, std::memory_order_relaxed);
  n->nsrc = nsrc;
  n->attrs = copy_attrs(attrs, nattrs);
  n->shape.store(nullptr, std::memory_order_relaxed);
  n->ranges.store(nullptr, std::memory_order_relaxed);
  for (uint32_t k = 0; k < nsrc; k++) {
    n->src[k] = src[k];
    retain(src[k]);
  }
  if (++shard.count > shard.buckets.size()) shard.grow();
  Node*& head = shard.buckets[shard.place(hash)];
  n->chain = head;
  head = n;
  g_live.fetch_add(1, std::memory_order_relaxed);
  return n;
}

// ---- checked construction ----

namespace {

bool plain(Tag t) { return t == Tag::Int || t == Tag::Float || t == Tag::Bool || t == Tag::Str; }

bool fits_type(const Value& v, AttributeType type) {
  switch (type) {
    case AttributeType::Int: return v.tag == Tag::Int;
    case AttributeType::Float: return v.tag == Tag::Float || v.tag == Tag::Int;
    case AttributeType::Bool: return v.tag == Tag::Bool;
    case AttributeType::Str: return v.tag == Tag::Str;
    case AttributeType::Dtype: return v.tag == Tag::Dtype;
    case AttributeType::Op: return v.tag == Tag::Op;
    case AttributeType::Scalar: return v.tag == Tag::Int || v.tag == Tag::Float || v.tag == Tag::Bool;
    case AttributeType::Tuple:
      if (v.tag != Tag::Seq) return false;
      for (uint32_t k = 0; k < v.q.size; k++)
        if (v.q.items[k].tag == Tag::Seq ? !fits_type(v.q.items[k], type) : !plain(v.q.items[k].tag)) return false;
      return true;
    case AttributeType::Ints:
      if (v.tag != Tag::Seq) return false;
      for (uint32_t k = 0; k < v.q.size; k++)
        if (v.q.items[k].tag != Tag::Int || v.q.items[k].i != int64_t(v.q.items[k].i)) return false;
      return true;
  }
  return false;
}

const char* type_name(AttributeType t) {
  static const char* names[] = {"an int", "a float", "a bool", "a str", "a dtype", "an op", "a tuple of ints", "a number or bool", "a tuple of numbers, bools, strings and tuples"};
  return names[int(t)];
}

[[noreturn]] void wrong(const OpInfo& o, const std::string& what) { throw GraphError(o.name->text + ": " + what); }

std::string mask_names(uint32_t mask) {
  std::string s;
  for (size_t k = 0; k < g_dtypes.size(); k++)
    if (mask >> k & 1) s += (s.empty() ? "" : ", ") + g_dtypes[k].name->text;
  return s;
}

void check_attrs(const OpInfo& o, const Value* attrs, uint32_t nattrs) {
  if (nattrs != o.attributes.size())
    wrong(o, "expected " + std::to_string(o.attributes.size()) + " attributes, got " + std::to_string(nattrs));
  for (uint32_t k = 0; k < nattrs; k++)
    if (!fits_type(attrs[k], o.attributes[k].type))
      wrong(o, "attribute " + o.attributes[k].name->text + " must be " + type_name(o.attributes[k].type) + ", not " + show(attrs[k]));
}

}  // namespace

Node* build_node(uint32_t op, int dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs) {
  const OpInfo& o = g_ops[op];
  if (nsrc < o.min_sources || (!o.variadic && nsrc > o.max_sources))
    wrong(o, std::string("expected ") + (o.variadic ? "at least " : "") + std::to_string(o.min_sources) +
                 (o.variadic || o.min_sources == o.max_sources ? "" : " to " + std::to_string(o.max_sources)) + " sources, got " + std::to_string(nsrc));
  int variables[4] = {-1, -1, -1, -1};
  for (uint32_t k = 0; k < nsrc; k++) {
    const ParameterInfo& p = o.parameters[k < o.parameters.size() ? k : o.parameters.size() - 1];
    uint32_t d = src[k]->dtype, mask = p.variable < 0 ? p.mask : o.variable_masks[p.variable];
    if (!(mask >> d & 1))
      wrong(o, "source " + p.name->text + " has dtype " + g_dtypes[d].name->text + ", expected one of " + mask_names(mask));
    if (p.variable >= 0) {
      int& bound = variables[p.variable];
      if (bound >= 0 && bound != int(d))
        wrong(o, "sources have different dtypes, " + g_dtypes[bound].name->text + " and " + g_dtypes[d].name->text + "; cast one of them");
      bound = int(d);
    }
  }
  int result = o.result_dtype >= 0 ? o.result_dtype : o.result_variable >= 0 ? variables[o.result_variable] : dtype;
  if (result < 0) wrong(o, "its dtype must be given");
  if (dtype >= 0 && dtype != result)
    wrong(o, "has dtype " + g_dtypes[result].name->text + ", not " + g_dtypes[dtype].name->text);
  check_attrs(o, attrs, nattrs);
  if (op == known_ops.CONST) {
    Value v = convert_value(attrs[0], uint32_t(result));
    return make_node(op, uint32_t(result), src, nsrc, &v, 1);
  }
  for (uint32_t k = 0; k < nattrs; k++) {
    if (o.attributes[k].type != AttributeType::Float || attrs[k].tag != Tag::Int) continue;
    std::vector<Value> stored(attrs, attrs + nattrs);  // 1 and 1.0 are one attribute
    for (uint32_t j = k; j < nattrs; j++)
      if (o.attributes[j].type == AttributeType::Float && stored[j].tag == Tag::Int) stored[j] = Value::number(double(stored[j].i));
    return make_node(op, uint32_t(result), src, nsrc, stored.data(), nattrs);
  }
  return make_node(op, uint32_t(result), src, nsrc, attrs, nattrs);
}

Node* make_const(const Value& v, uint32_t dtype) {
  Value stored = convert_value(v, dtype);
  return make_node(known_ops.CONST, dtype, nullptr, 0, &stored, 1);
}

std::vector<Node*> toposort(const std::vector<Node*>& roots) {
  static thread_local SideTable<uint8_t> seen;
  seen.begin();
  std::vector<Node*> order;
  std::vector<std::pair<Node*, uint32_t>> stack;
  for (Node* root : roots) {
    if (seen.has(root)) continue;
    seen[root] = 1;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [n, next] = stack.back();
      if (next == n->nsrc) {
        order.push_back(n);
        stack.pop_back();
        continue;
      }
      Node* s = n->src[next++];
      if (seen.has(s)) continue;
      seen[s] = 1;
      stack.emplace_back(s, 0);
    }
  }
  return order;
}

std::string verify(Node* root, uint32_t stage) {
  for (Node* n : toposort({root})) {
    const OpInfo& o = g_ops[n->op];
    if (!(o.stages & stage)) return describe(n) + " may not stand here any more";
    try {
      Ref again(build_node(n->op, n->dtype, n->src, n->nsrc, n->attrs ? n->attrs->items : nullptr, n->attrs ? n->attrs->size : 0));
      if (again.n != n) return describe(n) + " is not in its canonical form";
      shape_of(n);
    } catch (const GraphError& e) {
      return e.what();
    }
  }
  return "";
}

std::string describe(const Node* n) {
  const OpInfo& o = g_ops[n->op];
  std::string s = o.name->text;
  if (n->attrs) {
    s += "[";
    for (uint32_t k = 0; k < n->attrs->size; k++)
      s += (k ? ", " : "") + o.attributes[k].name->text + "=" + show(n->attrs->items[k]);
    s += "]";
  }
  return s + ":" + g_dtypes[n->dtype].name->text;
}

}  // namespace rulegrad
