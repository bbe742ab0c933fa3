// Nodes: (op, dtype, sources, attributes), immutable and hash-consed, freed when nobody holds them.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "value.hpp"

namespace rulegrad {

enum class Kind : uint8_t { Void, Bool, Int, Uint, Float, Index, Complex };

struct DtypeInfo {
  const Str* name;
  Kind kind;
  int bits, exponent, mantissa;
};

// A source's type: a fixed set of dtypes (mask) or the variable with that number.
struct ParameterInfo {
  const Str* name;
  int variable;  // -1: none
  uint32_t mask;
};

enum class AttributeType : uint8_t { Int, Float, Bool, Str, Dtype, Op, Ints, Scalar, Tuple };

struct AttributeInfo {
  const Str* name;
  AttributeType type;
  bool has_default;
  Value fallback;
};

// How a fact of an op is computed: by a named rule that is common enough to be native, or by code.
enum class ShapeRule : uint8_t { Scalar, Elementwise, Code, Indices };  // Indices: elementwise, but for the first source

// One end of an interval by the op table's code, translated to steps on 64-bit integers (interval.cpp); empty where it cannot be.
struct IntervalCode {
  struct Step {
    uint8_t action, to, a, b;
    int32_t place;
    int64_t value;
  };
  std::vector<Step> steps;
};

struct OpInfo {
  const Str* name;
  std::vector<ParameterInfo> parameters;
  std::vector<AttributeInfo> attributes;
  uint32_t min_sources = 0, max_sources = 0;
  bool variadic = false;     // the last parameter repeats
  int result_variable = -1;  // else result_dtype; both unset: explicit
  int result_dtype = -1;
  std::array<uint32_t, 4> variable_masks{~0u, ~0u, ~0u, ~0u};
  bool commutative = false;
  bool closes = false;  // the variadic sources are RANGEs that it closes in the others
  ShapeRule shape_rule = ShapeRule::Scalar;
  bool shape_of_shapes = true;  // the shape, and whether it is allowed, depend on attributes and on dtypes and shapes of the sources alone
  int code_shape = -1, code_eval = -1, code_low = -1, code_high = -1, code_identity = -1;
  IntervalCode low, high;  // code_low and code_high on 64-bit integers
  std::vector<std::pair<int, const Str*>> checks;
  uint32_t levels = 7;  // IR levels: bit 0 tensor, 1 kernel, 2 program
  int cost = 1;         // additions that take as long
};

// Ops that the engine itself must know, found by name when the table is loaded.
struct KnownOps {
  uint32_t CONST, RANGE, ADD, MUL, AND, NEG, CAST, END, AFTER, INVALID, STORE, LOAD, PARAM, SINK, INDEX, WHERE, BUFFER;
};
struct KnownDtypes {
  uint32_t void_, bool_, index;
};
extern KnownOps known_ops;
extern KnownDtypes known_dtypes;

const DtypeInfo& dtype_info(uint32_t dtype);
const OpInfo& op_info(uint32_t op);
size_t op_count();
size_t dtype_count();
int find_op(std::string_view name);  // -1: no such op
int find_dtype(std::string_view name);
bool table_loaded();
// Set once, when the op table is loaded; extended by targets that declare ops of their own.
void install_table(std::vector<DtypeInfo> dtypes, std::vector<OpInfo> ops);
void set_shape_of_shapes(uint32_t op, bool is);
void set_intervals(uint32_t op, IntervalCode low, IntervalCode high);
void remove_table();  // when the rest of its program turned out to be malformed

struct Shape {
  std::atomic<uint32_t> refs;
  uint32_t rank;
  int64_t dims[];

  bool operator==(const Shape& other) const { return this == &other || (rank == other.rank && std::equal(dims, dims + rank, other.dims)); }
};

struct RangeSet {
  std::atomic<uint32_t> refs;
  uint32_t size;
  Node* items[];  // by RANGE id; held alive by the node that has the set
};

// A node's hash is a total order that does not depend on the run: its first bits are the largest id of the loop counters below
// it, so that in a sorted sum what is constant in the inner loops comes first.
constexpr int kRankShift = 48;
constexpr uint64_t kMostRank = 0xffff;

constexpr int64_t kUnboundedLow = INT64_MIN, kUnboundedHigh = INT64_MAX;

// CONST nodes of the values 0, 1 and -1 have symbols of their own, above the ops.
constexpr size_t kConstSymbols = 3;

// The last two: a tensor stands for the node, its value is in a buffer (named.cpp).
enum Fact : uint8_t { kInterval = 1, kRanges = 2, kNamed = 4, kStored = 8 };

struct Attrs {
  uint32_t size;
  uint32_t values;  // those of nested sequences included
  Value items[];
};

// A set of ops in two words, in which some share a bit: what is not in it is not in the set.
struct OpMask {
  uint64_t words[2] = {};
  void add(uint32_t op) { words[op >> 6 & 1] |= uint64_t(1) << (op & 63); }
  void add(const OpMask& o) {
    words[0] |= o.words[0];
    words[1] |= o.words[1];
  }
  bool has(uint32_t op) const { return (words[op >> 6 & 1] >> (op & 63) & 1) != 0; }
  bool meets(const OpMask& o) const { return ((words[0] & o.words[0]) | (words[1] & o.words[1])) != 0; }
};

struct Node {
  std::atomic<uint32_t> refs;
  uint32_t id;  // dense and recycled: an index into per-run side arrays
  uint64_t hash;
  uint16_t op;
  uint8_t dtype;
  std::atomic<uint8_t> facts;
  uint32_t nsrc;
  uint32_t symbol;               // for the dispatch of rules: the op, or which constant it is
  std::atomic<uint32_t> normal;  // the stamp of a pass that changes nothing here or below: the last one that found so
  OpMask ops;                    // its own, and those of all nodes below
  Node* chain;                   // next in the intern table's bucket
  Attrs* attrs;
  std::atomic<int64_t> low, high;
  std::atomic<Shape*> shape;
  std::atomic<RangeSet*> ranges;
  Node* src[];
};

void drop_shape(Shape* s);
void drop_ranges(RangeSet* s);
void retain(Node* n);
void release(Node* n);

// The node, interned, with a reference for the caller. No checks: the caller has made them.
Node* make_node(uint32_t op, uint32_t dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs);
// The same with every check the op table asks for but shapes; dtype -1: inferred. Throws GraphError.
Node* build_node(uint32_t op, int dtype, Node* const* src, uint32_t nsrc, const Value* attrs, uint32_t nattrs);
// The node with other sources, likewise; its shape is known where it was, and the sources have the dtypes and the shapes that they had.
Node* with_sources(Node* n, Node* const* src);
Node* make_const(const Value& v, uint32_t dtype);
inline bool is_const(const Node* n) { return n->op == known_ops.CONST; }
inline const Value& const_value(const Node* n) { return n->attrs->items[0]; }

// Facts, computed once, never recursively.
const Shape* shape_of(Node* n);  // throws GraphError where the op table's check fails
void interval_of(Node* n, int64_t& low, int64_t& high);
const RangeSet* ranges_of(Node* n);
int64_t element_count(const Shape* s);
void dtype_bounds(uint32_t dtype, int64_t& low, int64_t& high);

std::vector<Node*> toposort(const std::vector<Node*>& roots);
std::vector<Node*> toposort(Node* root);
// Nodes, and what is seen in the place of each.
using Replaced = std::vector<std::pair<Node*, Node*>>;
std::vector<Node*> toposort(const std::vector<Node*>& roots, const Replaced& replaced);
// Those that have an op of these below, or one that shares its bit: where few have, few are looked at.
std::vector<Node*> toposort(Node* root, const OpMask& ops);
// Empty, or what is wrong with the graph below n: shapes, dtypes and the IR level (a bit) that each op may stand at.
std::string verify(Node* root, uint32_t level);
std::string describe(const Node* n);  // one line: op, attributes, dtype
std::string brief(const Node* n);     // one line for messages: with sources, without attributes that are as the op table has them
size_t live_nodes();
// Whether there is a node that is computed from this one; looks at all nodes.
bool is_source(const Node* n);
// Around a fork: no other thread is within the table of nodes.
void lock_nodes();
void unlock_nodes();
void watch_forks();
uint32_t id_limit();  // ids are below this

// Scratch arrays indexed by node id, one set a thread, valid for one run (an epoch).
template <typename T>
struct SideTable {
  struct Entry {
    uint32_t epoch = 0;
    T value;
  };
  std::vector<Entry> entries;
  uint32_t epoch = 0;
  void begin() {
    if (++epoch == 0) {
      entries.clear();
      epoch = 1;
    }
    grow();
  }
  void grow() {
    uint32_t limit = id_limit();
    if (entries.size() < limit) entries.resize(limit + limit / 4 + 1024);
  }
  bool has(const Node* n) { return n->id < entries.size() && entries[n->id].epoch == epoch; }
  T& operator[](const Node* n) {
    if (n->id >= entries.size()) grow();
    Entry& e = entries[n->id];
    if (e.epoch != epoch) {
      e.epoch = epoch;
      e.value = T();
    }
    return e.value;
  }
  // Null when absent.
  T* find(const Node* n) {
    if (n->id >= entries.size()) return nullptr;
    Entry& e = entries[n->id];
    return e.epoch == epoch ? &e.value : nullptr;
  }
};

// A reference that is given back at the end of the scope.
struct Ref {
  Node* n = nullptr;
  Ref() = default;
  explicit Ref(Node* owned) : n(owned) {}
  Ref(const Ref& o) : n(o.n) {
    if (n) retain(n);
  }
  Ref(Ref&& o) noexcept : n(o.n) { o.n = nullptr; }
  Ref& operator=(Ref o) noexcept {
    std::swap(n, o.n);
    return *this;
  }
  ~Ref() {
    if (n) release(n);
  }
  static Ref share(Node* n) {
    retain(n);
    return Ref(n);
  }
};

}  // namespace rulegrad
