// Hopper's wgmma: an instruction reads shared memory as its descriptors say, and adds to its sums, at some time between its begin and the wait for it.
//
// In orders 0 and 1 that is as late as it may be (and copies are late and early), in others now late and now at once, for each warp: a wait that is missing, or a
// tile that is filled too early or too late, shows as a wrong result.
#pragma once

#define RG_HAS_GROUP_MATRICES

struct GroupInstruction {
  void* sums;
  unsigned long long left, right;
  bool left_turned, right_turned;
  void (*run)(const GroupInstruction& one, unsigned thread);
  float rows[2][16];  // of a left operand that is in registers, all of the depth in the thread's two rows
};
constexpr int most_instructions = 16, most_commits = 4;
struct GroupMatrices {
  GroupInstruction instructions[most_instructions];
  int count, committed[most_commits], commits;  // how many are begun; after each commit
};
inline GroupMatrices group_matrices[shim::most_threads];

inline void group_error(const char* what) {
  fprintf(stderr, "shim: %s\n", what);
  abort();
}

inline unsigned shared_address(const void* place) {
  const size_t address = (const unsigned char*)place - local_memory_0;
  if (address >= local_memory_bytes || address % 16) group_error("a block that is not in shared memory, or not at a multiple of 16 bytes");
  return unsigned(address);
}

// An element, along the rows or columns and along the depth, in the layouts with 128-byte swizzle that the PTX manual draws.
template <class Element>
Element element_at(unsigned long long descriptor, bool turned, int along, int deep) {
  if (descriptor >> 62 != 1 || descriptor >> 46 & 0xffff) group_error("a descriptor of another kind");
  const unsigned panels = (descriptor >> 16 & 0x3fff) << 4, eight_lines = (descriptor >> 32 & 0x3fff) << 4;
  unsigned address = (descriptor & 0x3fff) << 4;
  if (turned) address += along / 64 * panels + along % 64 * 2 + deep / 8 * eight_lines + deep % 8 * 128;
  else address += along / 8 * eight_lines + along % 8 * 128 + deep * sizeof(Element);
  address ^= (address >> 7 & 7) << 4;
  if (address >= local_memory_bytes) group_error("an instruction reads behind the shared memory");
  Element found;
  memcpy(&found, local_memory_0 + address, sizeof found);
  return found;
}

// A thread's part: two neighbours in each eight columns, in two rows of its warp's 16. The depth is 32 bytes.
template <class Result, class Element, Result (*value)(Element), int all_columns>
void run_instruction(const GroupInstruction& one, unsigned thread) {
  constexpr int depth = 32 / sizeof(Element);
  const int first = thread / 32 % 4 * 16 + thread % 32 / 4, columns = thread % 4 * 2;
  Result left[2][depth], right[depth], *sums = static_cast<Result*>(one.sums);
  for (int row = 0; row < 2; row++)
    for (int k = 0; k < depth; k++) left[row][k] = value(element_at<Element>(one.left, one.left_turned, first + row * 8, k));
  for (int column = 0; column < all_columns / 4; column++) {
    for (int k = 0; k < depth; k++)
      right[k] = value(element_at<Element>(one.right, one.right_turned, column / 2 * 8 + columns + column % 2, k));
    for (int row = 0; row < 2; row++)
      for (int k = 0; k < depth; k++) sums[column / 2 * 4 + row * 2 + column % 2] += left[row][k] * right[k];
  }
}
inline int int8_value(signed char code) { return code; }

inline void begin_instruction(const GroupInstruction& one) {
  GroupMatrices& mine = group_matrices[shim::running];
  const bool at_once = shim::order.seed > 1 && (shim::order.seed >> 8) + shim::running / 32 & 1;
  if (at_once && !mine.count) return one.run(one, shim::running);  // in their order: sums are the same registers
  if (mine.count == most_instructions) group_error("so many instructions under way are not kept");
  mine.instructions[mine.count++] = one;
}
#define SHIM_GROUP_INSTRUCTION(NAME, RESULT, CODE, VALUE, COLUMNS)                                                              \
  template <int left_turned, int right_turned>                                                                                  \
  void NAME(RESULT* c, unsigned long long left, unsigned long long right) {                                                     \
    static_assert(sizeof(CODE) > 1 || (!left_turned && !right_turned), "bytes lie along the depth");                            \
    begin_instruction({c, left, right, left_turned == 1, right_turned == 1, run_instruction<RESULT, CODE, VALUE, COLUMNS>});    \
  }
SHIM_GROUP_INSTRUCTION(group_n128_bfloat16, float, unsigned short, shim::bfloat16_value, 128)
SHIM_GROUP_INSTRUCTION(group_n128_float16, float, unsigned short, shim::float16_value, 128)
SHIM_GROUP_INSTRUCTION(group_n128_int8, int, signed char, int8_value, 128)
SHIM_GROUP_INSTRUCTION(group_n256_bfloat16, float, unsigned short, shim::bfloat16_value, 256)
SHIM_GROUP_INSTRUCTION(group_n256_float16, float, unsigned short, shim::float16_value, 256)
SHIM_GROUP_INSTRUCTION(group_n256_int8, int, signed char, int8_value, 256)

// With the left operand in registers: four threads have a row of 16, each two neighbours in either half of it.
template <class Element, float (*value)(Element)>
void run_with_registers(const GroupInstruction& one, unsigned thread) {
  float* sums = static_cast<float*>(one.sums);
  for (int column = 0; column < 16; column++)
    for (int k = 0; k < 16; k++) {
      const float right = value(element_at<Element>(one.right, one.right_turned, column / 2 * 8 + thread % 4 * 2 + column % 2, k));
      for (int row = 0; row < 2; row++) sums[column / 2 * 4 + row * 2 + column % 2] += one.rows[row][k] * right;
    }
}
#define SHIM_REGISTERS_INSTRUCTION(NAME, VALUE)                                                                                 \
  template <int right_turned>                                                                                                   \
  void NAME(float* c, const unsigned* left, unsigned long long right) {                                                         \
    GroupInstruction one{c, 0, right, false, right_turned == 1, run_with_registers<unsigned short, VALUE>};                     \
    for (int beside = 0; beside < 4; beside++)                                                                                  \
      for (int k = 0; k < 4; k++) {                                                                                             \
        const unsigned pair = __shfl_xor_sync(0xffffffffu, left[k], beside);                                                    \
        const int at = k / 2 * 8 + (shim::running % 4 ^ beside) * 2;                                                            \
        one.rows[k % 2][at] = VALUE(pair), one.rows[k % 2][at + 1] = VALUE(pair >> 16);                                         \
      }                                                                                                                         \
    begin_instruction(one);                                                                                                     \
  }
SHIM_REGISTERS_INSTRUCTION(registers_n64_bfloat16, shim::bfloat16_value)
SHIM_REGISTERS_INSTRUCTION(registers_n64_float16, shim::float16_value)

inline void show_to_matrices() {}
inline void begin_matrices() {}
inline void commit_matrices() {
  GroupMatrices& mine = group_matrices[shim::running];
  if (mine.commits == most_commits) group_error("so many groups of instructions are not kept");
  mine.committed[mine.commits++] = mine.count;
}
template <int pending, int count>
void wait_for_matrices(void*) {
  GroupMatrices& mine = group_matrices[shim::running];
  const int gone = mine.commits - pending;
  if (gone <= 0) return;
  const int done = mine.committed[gone - 1];
  for (int k = 0; k < done; k++) mine.instructions[k].run(mine.instructions[k], shim::running);
  for (int k = done; k < mine.count; k++) mine.instructions[k - done] = mine.instructions[k];
  for (int k = gone; k < mine.commits; k++) mine.committed[k - gone] = mine.committed[k] - done;
  mine.count -= done;
  mine.commits -= gone;
}
inline void forget_matrices() {
  for (GroupMatrices& each : group_matrices) each.count = each.commits = 0;
}
