// Hopper's matrix instruction, for sm_90a only: four warps multiply what lies in shared memory, while they go on.
//
// An operand lies in lines of 128 bytes, at multiples of 1024 bytes; the eight places of 16 bytes on a line are exchanged by the line's number. Where lines run
// along the depth a block has one for each row or column. Where they do not, it has panels of 64 rows or columns, with 64 lines for the depth each.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RG_HAS_GROUP_MATRICES

// before threads meet: the instructions read shared memory by another way than threads write it
__device__ __forceinline__ void show_to_matrices() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }

#define RG_FOUR(IN, K) IN(c[K]), IN(c[K + 1]), IN(c[K + 2]), IN(c[K + 3])
#define RG_SIXTEEN(IN, K) RG_FOUR(IN, K), RG_FOUR(IN, K + 4), RG_FOUR(IN, K + 8), RG_FOUR(IN, K + 12)
#define RG_32_SUMS(IN) RG_SIXTEEN(IN, 0), RG_SIXTEEN(IN, 16)
#define RG_64_SUMS(IN) RG_SIXTEEN(IN, 0), RG_SIXTEEN(IN, 16), RG_SIXTEEN(IN, 32), RG_SIXTEEN(IN, 48)
#define RG_128_SUMS(IN) RG_64_SUMS(IN), RG_SIXTEEN(IN, 64), RG_SIXTEEN(IN, 80), RG_SIXTEEN(IN, 96), RG_SIXTEEN(IN, 112)
// operands of the assembler, by their tens
#define RG_TEN(N) "%" #N "0, %" #N "1, %" #N "2, %" #N "3, %" #N "4, %" #N "5, %" #N "6, %" #N "7, %" #N "8, %" #N "9, "
#define RG_TO_31 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " RG_TEN(1) RG_TEN(2) "%30, %31"
#define RG_TO_63 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " RG_TEN(1) RG_TEN(2) RG_TEN(3) RG_TEN(4) RG_TEN(5) "%60, %61, %62, %63"
#define RG_TO_127 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " RG_TEN(1) RG_TEN(2) RG_TEN(3) RG_TEN(4) RG_TEN(5) RG_TEN(6) RG_TEN(7) RG_TEN(8) \
  RG_TEN(9) RG_TEN(10) RG_TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127"

// One instruction, whose sums are the first operands. Turned is an operand whose lines do not run along the depth; bytes cannot be. HOW says that it adds, that no
// sign is changed, and which operands are turned.
#define RG_GROUP_INSTRUCTION(NAME, RESULT, SUMS, PLACES, OPERANDS, SHAPE_AND_TYPES, HOW)                                         \
  template <int left_turned, int right_turned>                                                                                   \
  __device__ __forceinline__ void NAME(RESULT* c, unsigned long long left, unsigned long long right) {                           \
    asm volatile("{\n"                                                                                                           \
                 ".reg .pred add;\n"                                                                                             \
                 "setp.eq.u32 add, 0, 0;\n"                                                                                      \
                 "wgmma.mma_async.sync.aligned." SHAPE_AND_TYPES " {" PLACES "}, " OPERANDS ", " HOW ";\n"                       \
                 "}\n"                                                                                                           \
                 : SUMS                                                                                                          \
                 : "l"(left), "l"(right), "n"(left_turned), "n"(right_turned)                                                    \
                 : "memory");                                                                                                    \
  }

RG_GROUP_INSTRUCTION(group_n128_bfloat16, float, RG_64_SUMS("+f"), RG_TO_63, "%64, %65", "m64n128k16.f32.bf16.bf16", "add, 1, 1, %66, %67")
RG_GROUP_INSTRUCTION(group_n128_float16, float, RG_64_SUMS("+f"), RG_TO_63, "%64, %65", "m64n128k16.f32.f16.f16", "add, 1, 1, %66, %67")
RG_GROUP_INSTRUCTION(group_n128_int8, int, RG_64_SUMS("+r"), RG_TO_63, "%64, %65", "m64n128k32.s32.s8.s8", "add")
RG_GROUP_INSTRUCTION(group_n256_bfloat16, float, RG_128_SUMS("+f"), RG_TO_127, "%128, %129", "m64n256k16.f32.bf16.bf16", "add, 1, 1, %130, %131")
RG_GROUP_INSTRUCTION(group_n256_float16, float, RG_128_SUMS("+f"), RG_TO_127, "%128, %129", "m64n256k16.f32.f16.f16", "add, 1, 1, %130, %131")
RG_GROUP_INSTRUCTION(group_n256_int8, int, RG_128_SUMS("+r"), RG_TO_127, "%128, %129", "m64n256k32.s32.s8.s8", "add")

// The same with the left operand in registers: four of a thread.
#define RG_REGISTERS_INSTRUCTION(NAME, SHAPE_AND_TYPES)                                                                          \
  template <int right_turned>                                                                                                    \
  __device__ __forceinline__ void NAME(float* c, const unsigned int* left, unsigned long long right) {                           \
    asm volatile("{\n"                                                                                                           \
                 ".reg .pred add;\n"                                                                                             \
                 "setp.eq.u32 add, 0, 0;\n"                                                                                      \
                 "wgmma.mma_async.sync.aligned." SHAPE_AND_TYPES " {" RG_TO_31 "}, {%32, %33, %34, %35}, %36, add, 1, 1, %37;\n"  \
                 "}\n"                                                                                                           \
                 : RG_32_SUMS("+f")                                                                                              \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "n"(right_turned)                         \
                 : "memory");                                                                                                    \
  }
RG_REGISTERS_INSTRUCTION(registers_n64_bfloat16, "m64n64k16.f32.bf16.bf16")
RG_REGISTERS_INSTRUCTION(registers_n64_float16, "m64n64k16.f32.f16.f16")

__device__ __forceinline__ unsigned int shared_address(const void* place) { return (unsigned int)__cvta_generic_to_shared(place); }
__device__ __forceinline__ void begin_matrices() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
__device__ __forceinline__ void commit_matrices() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
__device__ __forceinline__ void written(float& sum) { asm volatile("" : "+f"(sum) : : "memory"); }
__device__ __forceinline__ void written(int& sum) { asm volatile("" : "+r"(sum) : : "memory"); }
// For the matrices of all calls but the last `pending`. Nobody reads the sums before all are done: what follows is a block of its own, whose condition
// ptxas finds to be true later, as it would otherwise compute with the sums before the wait, or make the instructions wait for each other (C7514).
template <int pending, int count, class Result>
__device__ __forceinline__ void wait_for_matrices(Result* c) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
  if constexpr (pending == 0) {
    int one;
    asm volatile("mov.u32 %0, 1;" : "=r"(one) : : "memory");
    if (!one) __trap();
    _Pragma("unroll") for (int k = 0; k < count; k++) written(c[k]);
  }
}
#endif

#if defined(RG_HAS_GROUP_MATRICES)
// The descriptor of a block: its address, the distances between panels and between eight lines, in units of 16 bytes, and the exchange of places.
__device__ __forceinline__ unsigned long long block_at(const void* first) {
  const unsigned long long panels = 8192 >> 4, eight_lines = 1024 >> 4, by_128_bytes = 1;
  return shared_address(first) >> 4 | panels << 16 | eight_lines << 32 | by_128_bytes << 62;
}

// Four instructions, each of 32 bytes of a line: the next ones are 32 bytes further, or 16 lines where lines do not run along the depth.
#define RG_GROUP_MATRIX(NAME, RESULT, OPERAND, INSTRUCTION, LEFT_TURNED, RIGHT_TURNED)                                           \
  __device__ __forceinline__ void NAME(RESULT* c, const OPERAND* a, const OPERAND* b) {                                          \
    const unsigned long long left = block_at(a), right = block_at(b);                                                            \
    begin_matrices();                                                                                                            \
    _Pragma("unroll") for (int k = 0; k < 4; k++)                                                                                \
      INSTRUCTION<LEFT_TURNED, RIGHT_TURNED>(c, left + k * ((LEFT_TURNED ? 2048 : 32) >> 4),                                     \
                                             right + k * ((RIGHT_TURNED ? 2048 : 32) >> 4));                                     \
    commit_matrices();                                                                                                           \
  }
#define RG_REGISTERS_MATRIX(OPERAND, LETTER, RIGHT_TURNED)                                                                       \
  __device__ __forceinline__ void wgmma_registers_m64n64k64_##OPERAND##_##LETTER(float* c, const OPERAND* a, const OPERAND* b) { \
    const unsigned long long right = block_at(b);                                                                                \
    unsigned int left[16];                                                                                                       \
    memcpy(left, a, sizeof left);                                                                                                \
    begin_matrices();                                                                                                            \
    _Pragma("unroll") for (int k = 0; k < 4; k++)                                                                                \
      registers_n64_##OPERAND<RIGHT_TURNED>(c, left + 4 * k, right + k * ((RIGHT_TURNED ? 2048 : 32) >> 4));                      \
    commit_matrices();                                                                                                           \
  }
RG_REGISTERS_MATRIX(bfloat16, d, 0)
RG_REGISTERS_MATRIX(bfloat16, c, 1)
RG_REGISTERS_MATRIX(float16, d, 0)
RG_REGISTERS_MATRIX(float16, c, 1)
#define RG_GROUP_HALVES(OPERAND, N)                                                                                              \
  RG_GROUP_MATRIX(wgmma_m64n##N##k64_##OPERAND##_dd, float, OPERAND, group_n##N##_##OPERAND, 0, 0)                               \
  RG_GROUP_MATRIX(wgmma_m64n##N##k64_##OPERAND##_dc, float, OPERAND, group_n##N##_##OPERAND, 0, 1)                               \
  RG_GROUP_MATRIX(wgmma_m64n##N##k64_##OPERAND##_rd, float, OPERAND, group_n##N##_##OPERAND, 1, 0)                               \
  RG_GROUP_MATRIX(wgmma_m64n##N##k64_##OPERAND##_rc, float, OPERAND, group_n##N##_##OPERAND, 1, 1)
RG_GROUP_HALVES(bfloat16, 128)
RG_GROUP_HALVES(float16, 128)
RG_GROUP_HALVES(bfloat16, 256)
RG_GROUP_HALVES(float16, 256)
RG_GROUP_MATRIX(wgmma_m64n128k128_int8_dd, int, signed char, group_n128_int8, 0, 0)
RG_GROUP_MATRIX(wgmma_m64n256k128_int8_dd, int, signed char, group_n256_int8, 0, 0)
#endif
