#include "machine.hpp"
#include "quick.hpp"

#include <cmath>

namespace rulegrad {

// ---- memory ----

Value* Machine::allocate(uint64_t count) {
  spend(count * kValueCost);
  return arena.allocate(count);
}

static std::vector<std::unique_ptr<Workspace>>& workspaces() {
  static thread_local std::vector<std::unique_ptr<Workspace>> pool;
  return pool;
}

static std::unique_ptr<Workspace> take_workspace() {
  auto& pool = workspaces();
  if (pool.empty()) return std::make_unique<Workspace>();
  auto w = std::move(pool.back());
  pool.pop_back();
  return w;
}

Machine::Machine(const Program& program)
    : program(program),
      off(&program.disabled),
      workspace(take_workspace()),
      registers(workspace->registers),
      arena(workspace->arena),
      building(workspace->building),
      bottoms(workspace->bottoms),
      memo(workspace->memo),
      waiting_(workspace->waiting),
      of_sources_(workspace->of_sources) {}

Machine::~Machine() {
  for (Node* n : kept) release(n);
  for (Arena* a : {&arena, &workspace->persistent}) {
    a->reset({0, 0});
    a->trim();
  }
  memo.clear();
  workspaces().push_back(std::move(workspace));
}

Value Machine::sequence(const Value* items, uint32_t count) {
  Value* copy = allocate(count);
  std::copy(items, items + count, copy);
  return Value::seq(copy, count);
}

// ---- the machine ----

Status Machine::run(const Code& code, Value& result) { return execute<Mode::Plain>(code, result); }
Status Machine::run_watched(const Code& code, Value& result) { return execute<Mode::Watched>(code, result); }
Status Machine::run_all(const Code& code, Value& result) { return execute<Mode::All>(code, result); }

template <Mode mode>
Status Machine::execute(const Code& code, Value& result) {
  const int32_t* const base = code.data();
  const int32_t* pc = base;
  Value* const r = registers;
  budget = kBudget;
  const size_t bottom = bottoms.size(), first_choice = choices.size();
  struct Leave {  // sequences that were not finished and choices that are left are dropped, however the code ends
    Machine& m;
    size_t bottom, height, choices;
    ~Leave() {
      m.bottoms.resize(bottom);
      if (m.building.size() != height) m.building.resize(height);
      if (m.choices.size() != choices) m.choices.resize(choices);
    }
  } leave{*this, bottom, building.size(), first_choice};
  auto jump = [&](int32_t to) {
    if (base + to <= pc) spend(1);
    pc = base + to;
  };
#define NODE(k) (r[k].tag == Tag::Node ? r[k].n : nullptr)
#define REQUIRE(condition) \
  if (!(condition)) goto failed
  for (;;) {
    if constexpr (mode == Mode::Watched) watched.at = int32_t(pc - base);
    switch (*pc) {
      case I_IS_OP: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && int(n->op) == pc[2]);
        pc += 3;
        break;
      }
      case I_IN_SET: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && program.sets[pc[2]][n->op]);
        pc += 3;
        break;
      }
      case I_SOURCES: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && int(n->nsrc) == pc[2]);
        pc += 3;
        break;
      }
      case I_SOURCES_MIN: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && int(n->nsrc) >= pc[2]);
        pc += 3;
        break;
      }
      case I_SOURCE: {
        Node* n = NODE(pc[2]);
        REQUIRE(n && pc[3] < int(n->nsrc));
        r[pc[1]] = Value::node(n->src[pc[3]]);
        pc += 4;
        break;
      }
      case I_SOURCE_END: {
        Node* n = NODE(pc[2]);
        REQUIRE(n && pc[3] >= 1 && pc[3] <= int(n->nsrc));
        r[pc[1]] = Value::node(n->src[n->nsrc - pc[3]]);
        pc += 4;
        break;
      }
      case I_SOURCE_SLICE: {
        Node* n = NODE(pc[2]);
        REQUIRE(n && pc[3] + pc[4] <= int(n->nsrc));
        uint32_t count = n->nsrc - uint32_t(pc[3] + pc[4]);
        Value* items = allocate(count);
        for (uint32_t k = 0; k < count; k++) items[k] = Value::node(n->src[pc[3] + k]);
        r[pc[1]] = Value::seq(items, count);
        pc += 5;
        break;
      }
      case I_DTYPE_IN: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && (uint32_t(pc[2]) >> n->dtype & 1));
        pc += 3;
        break;
      }
      case I_IS_CONST: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && is_const(n));
        pc += 2;
        break;
      }
      case I_CONST_IS: {
        Node* n = NODE(pc[1]);
        REQUIRE(n && is_const(n));
        const Value &v = const_value(n), &k = program.constants[pc[2]];
        if (v.tag == Tag::Int && k.tag == Tag::Int) {
          REQUIRE(v.i == k.i);
        } else {
          REQUIRE(equal(v, k));
        }
        pc += 3;
        break;
      }
      case I_SAME:
        REQUIRE(r[pc[1]].tag == Tag::Node && r[pc[2]].tag == Tag::Node ? r[pc[1]].n == r[pc[2]].n : equal(r[pc[1]], r[pc[2]]));
        pc += 3;
        break;
      case I_NOT_SAME:
        REQUIRE(!equal(r[pc[1]], r[pc[2]]));
        pc += 3;
        break;
      case I_EQUALS:
        REQUIRE(equal(r[pc[1]], program.constants[pc[2]]));
        pc += 3;
        break;
      case I_GET_DTYPE: {
        Node* n = NODE(pc[2]);
        REQUIRE(n);
        r[pc[1]] = Value::dtype(n->dtype);
        pc += 3;
        break;
      }
      case I_GET_OP: {
        Node* n = NODE(pc[2]);
        REQUIRE(n);
        r[pc[1]] = Value::opcode(n->op);
        pc += 3;
        break;
      }
      case I_GET_ATTR: {
        Node* n = NODE(pc[2]);
        REQUIRE(n && n->attrs && pc[3] < int(n->attrs->size));
        r[pc[1]] = n->attrs->items[pc[3]];
        pc += 4;
        break;
      }
      case I_GET_VALUE: {
        if (r[pc[2]].tag == Tag::Seq) {
          Value s = r[pc[2]];
          Value* items = allocate(s.q.size);
          for (uint32_t k = 0; k < s.q.size; k++) {
            REQUIRE(s.q.items[k].tag == Tag::Node && is_const(s.q.items[k].n));
            items[k] = const_value(s.q.items[k].n);
          }
          r[pc[1]] = Value::seq(items, s.q.size);
        } else {
          Node* n = NODE(pc[2]);
          REQUIRE(n && is_const(n));
          r[pc[1]] = const_value(n);
        }
        pc += 3;
        break;
      }
      case I_GET_MEMBER: {
        Value v;
        REQUIRE(member(r[pc[2]], program.constants[pc[3]].s, v));
        r[pc[1]] = v;
        pc += 4;
        break;
      }
      case I_CONSTANT:
        r[pc[1]] = program.constants[pc[2]];
        pc += 3;
        break;
      case I_MOVE:
        r[pc[1]] = r[pc[2]];
        pc += 3;
        break;
      case I_JUMP: jump(pc[1]); break;
      case I_JUMP_FALSE:
        REQUIRE(r[pc[1]].tag == Tag::Bool);
        if (r[pc[1]].b) pc += 3;
        else jump(pc[2]);
        break;
      case I_JUMP_TRUE:
        REQUIRE(r[pc[1]].tag == Tag::Bool);
        if (r[pc[1]].b) jump(pc[2]);
        else pc += 3;
        break;
      case I_GUARD:
        REQUIRE(r[pc[1]].tag == Tag::Bool && r[pc[1]].b);
        pc += 2;
        break;
      case I_FAIL: goto failed;
      case I_RETURN:
        result = r[pc[1]];
        if constexpr (mode == Mode::All) REQUIRE(!offer(result));
        return Status::Done;
      case I_BEGIN:
        spend(1);
        bottoms.push_back(uint32_t(building.size()));
        pc += 1;
        break;
      case I_APPEND:
        REQUIRE(bottoms.size() > bottom);
        spend(kValueCost);
        building.push_back(r[pc[1]]);
        pc += 2;
        break;
      case I_EXTEND: {
        const Value& s = r[pc[1]];
        REQUIRE(s.tag == Tag::Seq && bottoms.size() > bottom);
        spend(uint64_t(s.q.size) * kValueCost);
        building.insert(building.end(), s.q.items, s.q.items + s.q.size);
        pc += 2;
        break;
      }
      case I_FINISH: {
        REQUIRE(bottoms.size() > bottom);
        uint32_t from = bottoms.back();
        bottoms.pop_back();
        Value made = sequence(building.data() + from, uint32_t(building.size() - from));
        building.resize(from);
        REQUIRE(made.q.depth <= kDeepest);
        r[pc[1]] = made;
        pc += 2;
        break;
      }
      case I_RECORD: {
        const Value& like = program.constants[pc[3]];
        Value made = r[pc[2]];
        REQUIRE(made.tag == Tag::Seq && made.q.size == like.q.size);
        made.q.form = like.q.form;
        r[pc[1]] = made;
        pc += 4;
        break;
      }
      case I_ITERATE: {
        Value &at = r[pc[1]], &s = r[pc[3]];
        REQUIRE(at.tag == Tag::Int && s.tag == Tag::Seq && at.i >= 0);
        if (at.i >= Int(s.q.size)) {
          jump(pc[4]);
        } else {
          Value item = s.q.items[uint32_t(at.i)];
          at.i += 1;
          r[pc[2]] = item;
          pc += 5;
        }
        break;
      }
      case I_UNPACK: {
        Value s = r[pc[1]];
        int32_t n = pc[2];
        REQUIRE(s.tag == Tag::Seq && s.q.size == uint32_t(n));
        for (int32_t k = 0; k < n; k++) r[pc[3 + k]] = s.q.items[k];
        pc += 3 + n;
        break;
      }
      case I_SUBSCRIPT: {
        const Value &s = r[pc[2]], &i = r[pc[3]];
        REQUIRE(s.tag == Tag::Seq && i.tag == Tag::Int);
        Int k = i.i < 0 ? i.i + s.q.size : i.i;
        REQUIRE(k >= 0 && k < Int(s.q.size));
        Value item = s.q.items[uint32_t(k)];
        r[pc[1]] = item;
        pc += 4;
        break;
      }
      case I_SLICE: {
        Value s = r[pc[2]];
        REQUIRE(s.tag == Tag::Seq);
        auto end_of = [&](int32_t reg, Int missing, Int& v) {
          if (reg < 0) {
            v = missing;
            return true;
          }
          if (r[reg].tag != Tag::Int) return false;
          v = r[reg].i < 0 ? r[reg].i + s.q.size : r[reg].i;
          v = v < 0 ? 0 : v > Int(s.q.size) ? Int(s.q.size) : v;
          return true;
        };
        Int from, to;
        REQUIRE(end_of(pc[3], 0, from) && end_of(pc[4], s.q.size, to));
        r[pc[1]] = Value::seq(s.q.items + uint32_t(from), to > from ? uint32_t(to - from) : 0);
        pc += 5;
        break;
      }
      case I_UNARY: {
        Value v;
        REQUIRE(unary(pc[2], true, r[pc[3]], v));
        r[pc[1]] = v;
        pc += 4;
        break;
      }
      case I_BINARY: {
        const Value &a = r[pc[4]], &b = r[pc[5]];
        if (!quick_binary(pc[2], a, b, r[pc[1]])) {
          Value v;
          REQUIRE(binary(pc[2], pc[3] != 0, a, b, v));
          r[pc[1]] = v;
        }
        pc += 6;
        break;
      }
      case I_BUILTIN: {
        int32_t n = pc[3];
        Room<16> arguments;
        REQUIRE(n <= 16);
        for (int32_t k = 0; k < n; k++) arguments.items[k] = r[pc[4 + k]];
        Value v;
        REQUIRE(builtin(program.builtins[pc[2]], arguments.items, uint32_t(n), v) && (v.tag != Tag::Seq || v.q.depth <= kDeepest));
        r[pc[1]] = v;
        pc += 4 + n;
        break;
      }
      case I_FUNCTION: {
        const uint32_t function = uint32_t(pc[2]), given = uint32_t(pc[3]);
        Room<kMostParameters> arguments;
        for (uint32_t k = 0; k < given; k++) arguments.items[k] = r[pc[4 + k]];
        const uint32_t count = packed(arguments.items, given);
        if (simultaneous && program.functions[function].is_dataflow)
          for (uint32_t k = 0; k < count; k++)
            if (arguments.items[k].tag == Tag::Node) arguments.items[k].n = plain(arguments.items[k].n);
        Memo::Entry* entry;
        const Value* found = known_result(function, count, arguments.items, entry);
        if (!found) found = call_within(code, *entry);
        if (!found) {
          needed = entry;
          return Status::Need;
        }
        REQUIRE(found->tag != Tag::None);
        if constexpr (mode == Mode::Watched) watched.calls.push_back(key_of(function, arguments.items, count));
        r[pc[1]] = *found;
        pc += 4 + pc[3];
        break;
      }
      case I_EXTERN: {
        int32_t n = pc[3];
        Value arguments[16];
        REQUIRE(n <= 16);
        for (int32_t k = 0; k < n; k++) arguments[k] = r[pc[4 + k]];
        if (!program.externs[pc[2]] || !program.host)
          throw RewriteError("the extern " + program.extern_names[pc[2]]->text + " has no implementation");
        is_of_run = true;
        try {
          r[pc[1]] = program.host(program.externs[pc[2]], arguments, uint32_t(n), *this);
        } catch (const std::exception& e) { throw RewriteError("the extern " + program.extern_names[pc[2]]->text + " failed: " + e.what()); }
        pc += 4 + n;
        break;
      }
      case I_BUILD: {
        const int32_t* next = construct(pc);
        REQUIRE(next);
        pc = next;
        break;
      }
      case I_TRY:
        spend(kValueCost);
        choices.push_back({base + pc[1], building.size(), bottoms.size()});
        pc += 2;
        break;
      case I_MARK:
        r[pc[1]] = Value::integer(Int(choices.size() - first_choice));
        pc += 2;
        break;
      case I_CUT: {
        const Value& v = r[pc[1]];
        REQUIRE(v.tag == Tag::Int && v.i >= 0);
        if (v.i < Int(choices.size() - first_choice)) choices.resize(first_choice + size_t(v.i));
        pc += 2;
        break;
      }
      case I_CHAIN: {
        Node* n = NODE(pc[2]);
        Value members;
        REQUIRE(n && chain_of(n, uint32_t(pc[3]), uint32_t(pc[4]), uint32_t(pc[5]), members));
        r[pc[1]] = members;
        pc += 6;
        break;
      }
      case I_PICK: {
        Value &at = r[pc[1]], &s = r[pc[3]];
        const OpSet* set = pc[4] >= 0 ? &program.sets[pc[4]] : nullptr;
        REQUIRE(at.tag == Tag::Int && s.tag == Tag::Seq && at.i >= 0 && at.i <= Int(s.q.size));
        uint32_t place = uint32_t(at.i);
        spend(1);
        while (place < s.q.size && !can_pick(s.q.items[place], set, place, pc + 5)) place++;
        REQUIRE(place < s.q.size);
        if (place + 1 < s.q.size) {
          spend(kValueCost);
          choices.push_back({pc, building.size(), bottoms.size()});
        }
        at.i = place + 1;
        r[pc[2]] = s.q.items[place];
        pc += 6 + pc[5];
        break;
      }
      case I_LEFT: {
        Value s = r[pc[2]];
        REQUIRE(s.tag == Tag::Seq);
        Value* items = allocate(s.q.size);
        uint32_t count = 0;
        for (uint32_t k = 0; k < s.q.size; k++)
          if (can_pick(s.q.items[k], nullptr, k, pc + 3)) items[count++] = s.q.items[k];
        r[pc[1]] = Value::seq(items, count);
        pc += 4 + pc[3];
        break;
      }
      case I_FIND: {
        const Value &rows = r[pc[2]], &key = r[pc[3]];
        REQUIRE(rows.tag == Tag::Seq);
        const Value* row = find_row(rows, key);
        REQUIRE(row);
        r[pc[1]] = Value(*row);
        pc += 4;
        break;
      }
      case I_LEAST: {
        Value kept;
        REQUIRE(least_of(r[pc[1]], r[pc[2]], std::max(uint32_t(pc[3]), kept_choices), pc + 4, kept));
        r[pc[1]] = kept;
        pc += 5 + pc[4];
        break;
      }
      default: throw BytecodeError("an unknown instruction");
    }
    continue;
  failed:
    if constexpr (mode == Mode::Watched) watched.fail(r);
    if (choices.size() == first_choice) return Status::Failed;
    spend(1);
    building.resize(choices.back().building);
    bottoms.resize(choices.back().bottoms);
    pc = choices.back().resume;
    choices.pop_back();
  }
#undef NODE
#undef REQUIRE
}

}  // namespace rulegrad
