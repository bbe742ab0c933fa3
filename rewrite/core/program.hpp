// Compiled rules: constants, code, rules, functions and passes, loaded from bytes and validated, so that
// nothing that a program says can make the machine leave its registers or its code.
#pragma once
#include <bitset>
#include <deque>
#include <memory>
#include <unordered_map>

#include "folds.hpp"
#include "node.hpp"

namespace rulegrad {

constexpr int kRegisters = 250;
constexpr uint32_t kMostParameters = 8;  // of a function on nodes
constexpr size_t kMaxOps = 512;

// X(name, operands). Operands: d destination register, r register, R register or -1, k constant, n number, j jump
// target, s op set, S op set or -1, o op, O op or -1, b built-in, f function, x extern, v counted registers, V counted destination registers,
// a counted (attribute, register) pairs, w counted registers of which those written as -(r+1) are spliced.
// TRY: when something fails later, go on at j (once; the last TRY first). CUT drops the TRYs since a MARK.
// CHAIN: the members of a chain of op o, if there are n to n of them. PICK: the next item of a sequence, in s and at none of the places
// counted before; when something fails later, the one after it. LEFT: the items that the counted places leave over. FIND: the row
// whose first item is equal. LEAST: of a number with the counted registers, those n that are least so far, in order; of equal ones the
// first. RECORD: a sequence with the form of a record.
// clang-format off
#define RULEGRAD_OPCODES(X)                                                                                       \
  X(IS_OP, "ro") X(IN_SET, "rs") X(SOURCES, "rn") X(SOURCES_MIN, "rn") X(SOURCE, "drn") X(SOURCE_END, "drn")      \
  X(SOURCE_SLICE, "drnn") X(DTYPE_IN, "rn") X(IS_CONST, "r") X(CONST_IS, "rk") X(SAME, "rr") X(EQUALS, "rk")      \
  X(GET_DTYPE, "dr") X(GET_OP, "dr") X(GET_ATTR, "drn") X(GET_VALUE, "dr") X(GET_MEMBER, "drk")                   \
  X(CONSTANT, "dk") X(MOVE, "dr") X(JUMP, "j") X(JUMP_FALSE, "rj") X(JUMP_TRUE, "rj") X(GUARD, "r") X(FAIL, "")   \
  X(RETURN, "r") X(BEGIN, "") X(APPEND, "r") X(EXTEND, "r") X(FINISH, "d") X(ITERATE, "ddrj") X(UNPACK, "rV")     \
  X(SUBSCRIPT, "drr") X(SLICE, "drRR") X(UNARY, "dnr") X(BINARY, "dnnrr") X(BUILTIN, "dbv") X(FUNCTION, "dfv")    \
  X(EXTERN, "dxv") X(BUILD, "dORRRaw") X(NOT_SAME, "rr")                                                  \
  X(TRY, "j") X(MARK, "d") X(CUT, "r") X(CHAIN, "dronn") X(PICK, "ddrSv") X(LEFT, "drv") X(FIND, "drr")          \
  X(LEAST, "drnv") X(RECORD, "drk")
// clang-format on

enum Opcode : int32_t {
#define X(name, operands) I_##name,
  RULEGRAD_OPCODES(X)
#undef X
      I_COUNT
};

// Operators of BINARY and UNARY, by number.
#define RULEGRAD_BINARY(X) \
  X(ADD) X(SUB) X(MUL) X(DIV) X(FLOORDIV) X(FLOORMOD) X(POW) X(AND) X(OR) X(XOR) X(SHL) X(SHR) X(CMPLT) X(CMPLE) X(CMPEQ) X(CMPNE) X(IN) X(NOT_IN)
#define RULEGRAD_UNARY(X) X(NEG) X(NOT) X(LOGICAL_NOT)

enum BinaryOperator : int32_t {
#define X(name) B_##name,
  RULEGRAD_BINARY(X)
#undef X
      B_COUNT
};
enum UnaryOperator : int32_t {
#define X(name) U_##name,
  RULEGRAD_UNARY(X)
#undef X
      U_COUNT
};

using Code = std::vector<int32_t>;
using OpSet = std::bitset<kMaxOps>;  // of ops, and above them of symbols of constants

struct Alternative {
  uint32_t rule, code;
  uint32_t dtypes;  // mask
  uint32_t min_sources, max_sources;
  int32_t root;         // op set
  int32_t children[3];  // op sets, -1: any
};

struct Rule {
  const Str* name;      // set.rule
  const Str* location;  // file:line
};

// The end of an error after `what`: how to learn more, once.
constexpr const char *kLookFurther = "\n    look further: ", *kLookAtAll = "\n    look further: python -m rulegrad trace SCRIPT";
std::string look_further(const Rule& rule, const std::string& what);

// The alternatives that are left for a node, in order, by its op and dtype and by the symbols of its first three sources.
class Dispatch {
 public:
  std::vector<Alternative> alternatives;

  void compile(const std::vector<OpSet>& sets, size_t op_count);
  bool empty(uint32_t op) const { return empty_[op]; }
  const OpMask& roots() const { return roots_; }  // the ops with alternatives
  void candidates(const Node* n, const uint32_t*& begin, const uint32_t*& end) const {
    const Table& t = tables_[of_op_[n->op]];
    size_t at = t.of_dtype[n->dtype];
    for (uint32_t k = 0; k < 3; k++)
      if (t.counts[k] > 1) at = at * t.counts[k] + t.of_symbol[k][k < n->nsrc ? n->src[k]->symbol : symbols_];
    begin = lists_.data() + t.spans[at].begin;
    end = lists_.data() + t.spans[at].end;
  }

 private:
  struct Span {
    uint32_t begin, end;
  };  // in lists_
  // Symbols (and dtypes) that admit the same alternatives are of one class; the last symbol is: no such source.
  struct Table {
    uint8_t of_dtype[32];
    std::vector<uint8_t> of_symbol[3];
    uint32_t counts[3] = {1, 1, 1};
    std::vector<Span> spans;
  };
  Table table(const std::vector<OpSet>& sets, const std::vector<uint32_t>& mine);

  std::vector<Table> tables_;
  std::vector<uint32_t> of_op_, lists_;
  std::vector<bool> empty_;
  OpMask roots_;
  size_t symbols_ = 0;
};

// Functions without rules that rewrite an argument on its own: by a rule set; by a pass, under conditions that hold; by a pass, and
// only where nothing new comes out.
enum class Nested : uint8_t { No, Rewritten, Given };

struct RuleFunction {
  const Str* name;
  uint32_t parameters;
  Nested nested = Nested::No;
  int pass = -1;  // that rewrites; none where rules stand in no pass
  Dispatch dispatch;
  std::vector<Fold> folds;  // of the dispatch's alternatives
  Leap leap;
  bool is_dataflow = false;  // a fact or a state
  Value missing;             // of a fact that has no value for a key; none: it has none either
};

struct Priority {
  uint32_t op;
  int attribute;  // -1: none
  Value value;
  int priority;
};

enum class PassKind : uint8_t {
  ChildrenFirst,
  ParentsFirst,
  Walk,
  Order,
  Render,
  Reverse,
  Collect,
  ConsumersFirst,
  SourcesFirst,
  ChooseBest,
  ChooseFirst
};
inline bool chooses(PassKind kind) { return kind == PassKind::ChooseBest || kind == PassKind::ChooseFirst; }

// How the values for one key become one; the state of a node in a flow along the edges has no joining.
enum class Merge : uint8_t { First, Min, Max, Sum, Count, All, Number, Any, Every, Union, None };

// A fact of a collect pass, or a state of a flow: a function without rules, whose values the pass finds.
struct Dataflow {
  const Str* name;
  uint32_t function;
  Merge merge;
  Value initial;      // of the state of a node that nothing is sent to
  Dispatch dispatch;  // facts: (keys..., value); states: what a node sends
};

struct Pass {
  const Str* name;
  PassKind kind;
  Dispatch dispatch;
  std::vector<Priority> priorities;
  std::vector<std::pair<uint32_t, const Str*>> prefixes;
  int function = -1;  // reverse: that gives gradients; choose: that gives costs
  int normal = -1;    // choose: the pass that normalises candidates
  uint32_t fuel = 0;  // choose: candidates examined at most
  OpSet costs_root;   // choose: ops of roots whose cost is the same whatever is below
  std::vector<Dataflow> dataflow;
  uint32_t stamp = 0;  // on nodes that it leaves as they are; the next one where it is run within a rule
};

// The work of a rule; nanoseconds are those of its own tests and template, without the functions that it calls.
struct RuleCount {
  uint64_t tried = 0, fired = 0, nanoseconds = 0;
};

// A function of the host, called with the GIL held; throws on failure.
using HostFunction = Value (*)(void* handle, const Value* arguments, uint32_t count, struct Machine& machine);

struct Program {
  std::vector<Value> constants;
  std::deque<std::vector<Value>> sequences;  // storage of constant sequences
  std::vector<Code> codes;
  std::vector<uint32_t> used;  // by code: how many registers
  std::vector<OpSet> sets;
  std::vector<Rule> rules;
  std::vector<int> builtins;  // as named by the program -> our numbers
  std::vector<RuleFunction> functions;
  std::vector<const Str*> extern_names;
  std::vector<void*> externs;
  HostFunction host = nullptr;
  std::deque<Pass> passes;
  std::unordered_map<std::string, size_t> pass_names;
  std::unordered_map<uint32_t, const Str*> type_names;  // dtype -> the target's name
  std::unordered_map<std::string, Value> limits;        // limits, literal spellings, memory types, templates
  std::vector<bool> disabled;                           // by rule
  mutable std::vector<RuleCount> counts;                // by rule, while somebody counts: then only one thread rewrites
};

// New stamps for the passes: what they leave as it is has to be found again.
void renew_stamps(Program& p);
// Throws BytecodeError with what is wrong unless a condition on a compiled program holds.
inline void check(bool ok, const char* what) {
  if (!ok) throw BytecodeError(what);
}
// instructions.cpp: how many registers the code uses. Throws BytecodeError when it is malformed: it may only read registers that are written before,
// of which the first `inputs` are when it starts.
uint32_t validate(const Program& p, const Code& code, uint32_t inputs);
// Whether code sees nothing of the sources of its node, which is in the first register, but how many they are, their dtypes and shapes.
bool sees_shapes_alone(const Program& p, const Code& code);
void load_program(Program& p, const uint8_t* bytes, size_t size, bool op_table);
const Program& op_table_program();

int find_builtin(std::string_view name);
// A spelling of the target: of `literal.nan`, `suffix.int64`, `memory.int8`, `template.value`.
std::string spelling(const Program& p, const std::string& key, const std::string& otherwise);

}  // namespace rulegrad
