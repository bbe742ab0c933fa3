// Nodes in memory: equal nodes are one, kept as long as somebody holds them, and given back afterwards.
#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <thread>

#include "facts.hpp"
#include "named.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace rulegrad {

namespace {

struct SpinLock {
  std::atomic_flag flag = ATOMIC_FLAG_INIT;
  void lock() {
    for (int k = 0; flag.test_and_set(std::memory_order_acquire); k++)
      if (k > 64) std::this_thread::yield();
  }
  void unlock() { flag.clear(std::memory_order_release); }
};

std::atomic<uint32_t> g_id_limit{0};
constexpr uint32_t kIdBatch = 16;

// One of 64 parts of the intern table: a hash table with chains, and the node ids that are free here. Ids are handed out again,
// so that side arrays stay small.
struct alignas(64) Shard {
  SpinLock lock;
  size_t count = 0;
  std::vector<Node*> buckets = std::vector<Node*>(64, nullptr);
  std::vector<uint32_t> ids;

  size_t place(uint64_t hash) const { return (hash >> 6) & (buckets.size() - 1); }
  void resize(size_t size) {
    std::vector<Node*> old(size, nullptr);
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
  void link(Node* n) {
    if (++count > buckets.size()) resize(buckets.size() * 2);
    Node*& head = buckets[place(n->hash)];
    n->chain = head;
    head = n;
  }
  void unlink(Node* n) {
    Node** at = &buckets[place(n->hash)];
    while (*at != n) at = &(*at)->chain;
    *at = n->chain;
    ids.push_back(n->id);
    count--;
    if (buckets.size() > 64 && count * 8 < buckets.size()) resize(buckets.size() / 4);
  }
  uint32_t take_id() {
    if (ids.empty()) {
      uint32_t first = g_id_limit.fetch_add(kIdBatch, std::memory_order_relaxed);
      for (uint32_t k = kIdBatch; k--;) ids.push_back(first + k);
    }
    uint32_t id = ids.back();
    ids.pop_back();
    return id;
  }
};

Shard g_shards[64];
Shard& shard_of(uint64_t hash) { return g_shards[hash & 63]; }

// ---- blocks: a node, its sources and its attributes are one piece of memory ----

constexpr size_t kStep = 32, kClasses = 10;  // blocks of up to 320 bytes are kept for the next node
constexpr uint32_t kMostSpare = 1024;        // of one size, by each thread

struct SpareBlocks {
  void* first[kClasses] = {};
  uint32_t count[kClasses] = {};
  ~SpareBlocks() {
    clear();
    for (uint32_t& c : count) c = kMostSpare;  // what is given back after the thread's end is freed
  }
  void clear() {
    for (size_t k = 0; k < kClasses; k++) {
      while (void* block = first[k]) {
        first[k] = *static_cast<void**>(block);
        ::operator delete(block);
      }
      count[k] = 0;
    }
  }
};
thread_local SpareBlocks t_spare;

void* take_block(size_t size) {
  size_t k = (size - 1) / kStep;
  if (k >= kClasses) return ::operator new(size);
  SpareBlocks& spare = t_spare;
  void* block = spare.first[k];
  if (!block) return ::operator new((k + 1) * kStep);
  spare.first[k] = *static_cast<void**>(block);
  spare.count[k]--;
  return block;
}

void give_block(void* block, size_t size) {
  size_t k = (size - 1) / kStep;
  SpareBlocks& spare = t_spare;
  if (k >= kClasses || spare.count[k] == kMostSpare) {
    ::operator delete(block);
    return;
  }
  *static_cast<void**>(block) = spare.first[k];
  spare.first[k] = block;
  spare.count[k]++;
}

constexpr size_t attributes_at(uint32_t nsrc) { return (sizeof(Node) + nsrc * sizeof(Node*) + 15) / 16 * 16; }
size_t block_size(uint32_t nsrc, uint32_t values) {
  return values ? attributes_at(nsrc) + sizeof(Attrs) + values * sizeof(Value) : sizeof(Node) + nsrc * sizeof(Node*);
}

// Values of an attribute, nested sequences included; they stand behind the attributes.
uint32_t stored_values(const Value& v) {
  if (v.tag != Tag::Seq) return 1;
  uint32_t n = 1;
  for (uint32_t k = 0; k < v.q.size; k++) n += stored_values(v.q.items[k]);
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

bool same(const Node* n, uint64_t hash, uint32_t op, uint32_t dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs) {
  if (n->hash != hash || n->op != op || n->dtype != dtype || n->nsrc != nsrc) return false;
  for (uint32_t k = 0; k < nsrc; k++)
    if (n->src[k] != src[k]) return false;
  if ((n->attrs ? n->attrs->size : 0) != nattrs) return false;
  for (uint32_t k = 0; k < nattrs; k++)
    if (!identical(n->attrs->items[k], attrs[k])) return false;
  return true;
}

uint32_t symbol_of(uint32_t op, const Value* attrs, uint32_t nattrs) {
  if (op != known_ops.CONST || nattrs != 1) return op;
  const Value& v = attrs[0];
  double x = v.tag == Tag::Int ? (v.i == int8_t(v.i) ? double(v.i) : 2.0) : v.tag == Tag::Float ? v.f : double(v.b);
  uint32_t first = uint32_t(op_count());
  return x == 0 ? first : x == 1 ? first + 1 : x == -1 ? first + 2 : op;
}

Node* new_node(uint64_t hash, uint32_t op, uint32_t dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs) {
  uint32_t values = 0;
  for (uint32_t k = 0; k < nattrs; k++) values += stored_values(attrs[k]);
  auto* n = static_cast<Node*>(take_block(block_size(nsrc, values)));
  n->refs.store(1, std::memory_order_relaxed);
  n->hash = hash;
  n->op = uint16_t(op);
  n->dtype = uint8_t(dtype);
  n->facts.store(0, std::memory_order_relaxed);
  n->nsrc = nsrc;
  n->symbol = symbol_of(op, attrs, nattrs);
  n->normal.store(0, std::memory_order_relaxed);
  n->ops = {};
  n->ops.add(op);
  n->attrs = nullptr;
  n->shape.store(nullptr, std::memory_order_relaxed);
  n->ranges.store(nullptr, std::memory_order_relaxed);
  for (uint32_t k = 0; k < nsrc; k++) {
    n->src[k] = src[k];
    n->ops.add(src[k]->ops);
    retain(src[k]);
  }
  if (nattrs) {
    n->attrs = reinterpret_cast<Attrs*>(reinterpret_cast<char*>(n) + attributes_at(nsrc));
    n->attrs->size = nattrs;
    n->attrs->values = values;
    Value* storage = n->attrs->items + nattrs;
    for (uint32_t k = 0; k < nattrs; k++) copy_value(n->attrs->items[k], attrs[k], storage);
  }
  return n;
}

// Gives one reference back; true when nobody can find the node any more and it must be destroyed.
bool drop_reference(Node* n) {
  uint32_t refs = n->refs.load(std::memory_order_relaxed);
  while (refs > 1)
    if (n->refs.compare_exchange_weak(refs, refs - 1, std::memory_order_acq_rel)) return false;
  Shard& shard = shard_of(n->hash);
  std::lock_guard<SpinLock> hold(shard.lock);  // nobody can find the node in the table meanwhile
  if (n->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  shard.unlink(n);
  return true;
}

constexpr size_t kManyNodes = 50'000;

// A large graph is gone: its memory goes back to the system, and small ids come first again.
void tidy() {
  for (Shard& shard : g_shards) {
    std::lock_guard<SpinLock> hold(shard.lock);
    std::sort(shard.ids.begin(), shard.ids.end(), std::greater<>());
  }
  t_spare.clear();
#ifdef __GLIBC__
  malloc_trim(0);  // glibc keeps small free blocks to itself unless it is told to look
#endif
}

// Destroys a node that nobody holds, and its sources as far as nobody holds them either.
void destroy(Node* first) {
  size_t count = 0;
  first->chain = nullptr;
  for (Node* dead = first; dead; count++) {
    Node* n = dead;
    dead = n->chain;
    for (uint32_t k = 0; k < n->nsrc; k++)
      if (drop_reference(n->src[k])) {
        n->src[k]->chain = dead;  // it is in no bucket any more
        dead = n->src[k];
      }
    if (n->facts.load(std::memory_order_relaxed) & kStored) forget(n);
    drop_shape(n->shape.load(std::memory_order_relaxed));
    drop_ranges(n->ranges.load(std::memory_order_relaxed));
    give_block(n, block_size(n->nsrc, n->attrs ? n->attrs->values : 0));
  }
  if (count > kManyNodes) tidy();
}

}  // namespace

void retain(Node* n) { n->refs.fetch_add(1, std::memory_order_relaxed); }

void release(Node* n) {
  if (drop_reference(n)) destroy(n);
}

bool is_source(const Node* n) {
  if (n->refs.load(std::memory_order_relaxed) == 1) return false;  // whoever asks has it
  const auto reads = [n](const Node* other) { return std::find(other->src, other->src + other->nsrc, n) != other->src + other->nsrc; };
  for (Shard& shard : g_shards) {
    std::lock_guard<SpinLock> hold(shard.lock);
    for (const Node* head : shard.buckets)
      for (const Node* other = head; other; other = other->chain)
        if (reads(other)) return true;
  }
  return false;
}

size_t live_nodes() {
  size_t total = 0;
  for (Shard& shard : g_shards) {
    std::lock_guard<SpinLock> hold(shard.lock);
    total += shard.count;
  }
  return total;
}

void lock_nodes() {
  for (Shard& shard : g_shards) shard.lock.lock();
}

void unlock_nodes() {
  for (Shard& shard : g_shards) shard.lock.unlock();
}

uint32_t id_limit() { return g_id_limit.load(std::memory_order_relaxed); }

// Numbers in the bits of a rank, in their order: small ones as they are, of larger ones the length and the first bits.
static uint64_t ranked(uint64_t number) {
  constexpr int kSmall = 15, kFirst = 11;
  if (number >> kSmall == 0) return number;
  int length = std::bit_width(number) - 1;
  uint64_t first = number >> (length - kFirst) & ((1 << kFirst) - 1);
  return std::min<uint64_t>((1 << kSmall) + ((length - kSmall) << kFirst) + first, kMostRank);
}

// Where a loop stands among those of a kernel: loops of different axes as their numbers, the parts of an axis as they nest. A part "outer" stands
// before the loop that it is a part of, any other after it, each at half the distance of the part before.
static uint64_t loop_rank(const Value* attrs, uint32_t nattrs) {
  constexpr Int kParts = 16;
  Int place = kParts / 2;
  if (nattrs > 2 && attrs[2].tag == Tag::Seq) {
    Int step = kParts / 4;
    for (uint32_t k = 1; k < attrs[2].q.size; k++, step /= 2) {
      const Value& part = attrs[2].q.items[k];
      place += part.tag == Tag::Str && part.s->text == "outer" ? -step : step;
    }
  }
  constexpr Int kMostId = Int(1) << 40;
  return ranked(uint64_t(std::min<Int>(attrs[0].i, kMostId) * kParts + place));
}

Node* make_node(uint32_t op, uint32_t dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs) {
  Node* swapped[2];
  const OpInfo& o = op_info(op);
  if (nsrc == 2 && o.commutative && is_const(src[0]) && !is_const(src[1])) {
    swapped[0] = src[1];  // a commutative node keeps its constant last
    swapped[1] = src[0];
    src = swapped;
  }
  uint64_t hash = mix(o.name->hash, dtype), rank = 0;
  for (uint32_t k = 0; k < nsrc; k++) {
    hash = mix(hash, src[k]->hash);
    rank = std::max(rank, src[k]->hash >> kRankShift);
  }
  for (uint32_t k = 0; k < nattrs; k++) hash = mix(hash, hash_value(attrs[k]));
  if (op == known_ops.RANGE && nattrs && attrs[0].i >= 0) rank = loop_rank(attrs, nattrs);
  hash = (hash & ((1ULL << kRankShift) - 1)) | rank << kRankShift;
  Shard& shard = shard_of(hash);
  std::lock_guard<SpinLock> hold(shard.lock);
  for (Node* n = shard.buckets[shard.place(hash)]; n; n = n->chain)
    if (same(n, hash, op, dtype, src, nsrc, attrs, nattrs)) {
      retain(n);
      return n;
    }
  Node* n = new_node(hash, op, dtype, src, nsrc, attrs, nattrs);
  n->id = shard.take_id();
  shard.link(n);
  return n;
}

}  // namespace rulegrad
