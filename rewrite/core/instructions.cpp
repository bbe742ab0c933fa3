// Code taken apart into its instructions: whether a program may be run, and what its code looks at.
#include <algorithm>
#include <map>

#include "program.hpp"

namespace rulegrad {

namespace {

const char* kOperands[] = {
#define X(name, operands) operands,
    RULEGRAD_OPCODES(X)
#undef X
};

using Registers = std::bitset<kRegisters>;

// One instruction, taken apart and checked against the program's pools.
struct Instruction {
  int32_t opcode = -1;
  std::vector<int32_t> reads, writes;
  int32_t target = -1;  // where it may jump to
};

class Decoder {
 public:
  Decoder(const Program& p, const Code& code) : p_(p), code_(code) {}
  bool more() const { return at_ < code_.size(); }
  size_t at() const { return at_; }

  void take(Instruction& i) {
    i.reads.clear();
    i.writes.clear();
    i.target = -1;
    i.opcode = next();
    check(i.opcode >= 0 && i.opcode < I_COUNT, "an unknown instruction");
    for (const char* o = kOperands[i.opcode]; *o; o++) operand(i, *o);
    if (i.opcode == I_ITERATE || i.opcode == I_PICK || i.opcode == I_LEAST) i.reads.push_back(i.writes[0]);
  }

 private:
  int32_t next() {
    check(at_ < code_.size(), "an instruction is cut off");
    return code_[at_++];
  }
  int32_t below(size_t limit, const char* what) {
    int32_t v = next();
    check(v >= 0 && size_t(v) < limit, what);
    return v;
  }
  int32_t reg(int32_t v) {
    check(v >= 0 && v < kRegisters, "a register is out of range");
    return v;
  }
  void constant(const Instruction& i) {
    int32_t v = below(p_.constants.size(), "a constant is out of range");
    check(i.opcode != I_GET_MEMBER || p_.constants[size_t(v)].tag == Tag::Str, "a member's name must be text");
    check(i.opcode != I_RECORD || (p_.constants[size_t(v)].tag == Tag::Seq && p_.constants[size_t(v)].q.form), "a record has a form");
  }
  void number(const Instruction& i) {
    int32_t v = next();
    if (i.opcode == I_DTYPE_IN) return;  // a mask
    check(v >= 0 && v < 1 << 16, "a number is out of range");
    check(i.opcode != I_UNARY || v < U_COUNT, "an unknown operator");
    check(i.opcode != I_BINARY || v < B_COUNT, "an unknown operator");
  }

  void operand(Instruction& i, char kind) {
    switch (kind) {
      case 'd': i.writes.push_back(reg(next())); break;
      case 'r': i.reads.push_back(reg(next())); break;
      case 'R':
        if (int32_t v = next(); v != -1) i.reads.push_back(reg(v));
        break;
      case 'k': constant(i); break;
      case 'n': number(i); break;
      case 'j': i.target = below(code_.size(), "a jump leads out of the code"); break;
      case 's': below(p_.sets.size(), "an op set is out of range"); break;
      case 'S':
        if (code_.size() > at_ && code_[at_] == -1) next();
        else below(p_.sets.size(), "an op set is out of range");
        break;
      case 'o': below(op_count(), "an op is out of range"); break;
      case 'O':
        if (code_.size() > at_ && code_[at_] == -1) next();
        else below(op_count(), "an op is out of range");
        break;
      case 'b': below(p_.builtins.size(), "a built-in is out of range"); break;
      case 'f': below(p_.functions.size(), "a function is out of range"); break;
      case 'x': below(p_.extern_names.size(), "an extern is out of range"); break;
      case 'v': {
        int32_t n = below(kRegisters, "too many operands");
        check(i.opcode != I_FUNCTION || uint32_t(n) <= kMostParameters, "a function takes too many arguments");
        while (n--) i.reads.push_back(reg(next()));
        break;
      }
      case 'V':
        for (int32_t n = below(kRegisters, "too many operands"); n--;) i.writes.push_back(reg(next()));
        break;
      case 'a':
        for (int32_t n = below(64, "too many attributes"); n--;) {
          below(64, "an attribute is out of range");
          i.reads.push_back(reg(next()));
        }
        break;
      case 'w':
        for (int32_t n = below(kRegisters, "too many sources"); n--;) {
          int32_t v = next();
          i.reads.push_back(reg(v < 0 ? -(v + 1) : v));
        }
        break;
    }
  }

  const Program& p_;
  const Code& code_;
  size_t at_ = 0;
};

}  // namespace

// One pass over the code: what is written before each instruction, on every way to it. A jump back must find at its target no
// more than what it has itself.
uint32_t validate(const Program& p, const Code& code, uint32_t inputs) {
  uint32_t used = std::min(inputs, uint32_t(kRegisters));
  std::vector<bool> starts(code.size(), false);
  std::vector<Registers> before(code.size());
  std::map<size_t, Registers> arriving;
  Registers written;
  for (uint32_t k = 0; k < inputs && k < kRegisters; k++) written.set(k);
  std::vector<size_t> targets;
  bool reached = true;
  Decoder decoder(p, code);
  Instruction i;
  while (decoder.more()) {
    size_t place = decoder.at();
    if (auto found = arriving.find(place); found != arriving.end()) {
      written = reached ? written & found->second : found->second;
      reached = true;
    }
    if (!reached) written.set();  // never run
    starts[place] = true;
    before[place] = written;
    decoder.take(i);
    for (int32_t r : i.reads) check(written[size_t(r)], "a register is read before it is written");
    Registers after = written;
    for (int32_t r : i.writes) {
      after.set(size_t(r));
      used = std::max(used, uint32_t(r) + 1);
    }
    if (i.target >= 0) {
      size_t to = size_t(i.target);
      const Registers& carried = i.opcode == I_ITERATE ? written : after;  // at its end there is no item
      if (to > place) {
        auto [found, first] = arriving.emplace(to, carried);
        if (!first) found->second &= carried;
      } else {
        check(starts[to] && (before[to] & ~carried).none(), "a jump back leads to code that needs more registers");
      }
      targets.push_back(to);
    }
    written = after;
    reached = i.opcode != I_RETURN && i.opcode != I_FAIL && i.opcode != I_JUMP;
  }
  check(!code.empty() && !reached, "the code does not end");
  for (size_t t : targets) check(starts[t], "a jump leads into the middle of an instruction");
  return used;
}

bool sees_shapes_alone(const Program& p, const Code& code) {
  auto is_seen = [&](int builtin) {
    constexpr std::string_view seen[] = {"shape", "rank", "size",   "dtype", "srcs", "len", "prod",
                                         "iota",  "zip",  "sorted", "all",   "any",  "min", "max"};
    return std::any_of(std::begin(seen), std::end(seen), [&](std::string_view name) { return builtin == find_builtin(name); });
  };
  Decoder decoder(p, code);
  Instruction i;
  Registers dtypes;
  while (decoder.more()) {
    const size_t at = decoder.at();
    decoder.take(i);
    for (int32_t k : i.writes) {
      if (k == 0) return false;
      dtypes[size_t(k)] = i.opcode == I_BUILTIN && p.builtins[size_t(code[at + 2])] == find_builtin("dtype");
    }
    switch (i.opcode) {
      case I_GET_ATTR:
        if (i.reads[0] != 0) return false;
        break;
      case I_GET_MEMBER:
        if (!dtypes[size_t(i.reads[0])]) return false;
        break;
      case I_BUILTIN:
        if (!is_seen(p.builtins[size_t(code[at + 2])])) return false;
        break;
      case I_GET_VALUE:
      case I_IS_CONST:
      case I_CONST_IS:
      case I_IS_OP:
      case I_IN_SET:
      case I_GET_OP:
      case I_FUNCTION:
      case I_EXTERN:
      case I_SAME:
      case I_NOT_SAME:
      case I_CHAIN: return false;
      default: break;
    }
  }
  return true;
}

}  // namespace rulegrad
