// Hopper's matrix instruction, for sm_90a only: four warps multiply what lies in shared memory, while they go on.
//
// An operand lies in lines of 128 bytes, at multiples of 1024 bytes; the eight places of 16 bytes on a line are exchanged by the line's number. Where lines run
// along the depth a block has one for each row or column. Where they do not, it has panels of 64 rows or columns, with 64 lines for the depth each.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RG_HAS_GROUP_MATRICES

#define RG_EIGHT(K)                                                                                                              \
  "+f"(c[K]), "+f"(c[K + 1]), "+f"(c[K + 2]), "+f"(c[K + 3]), "+f"(c[K + 4]), "+f"(c[K + 5]), "+f"(c[K + 6]), "+f"(c[K + 7])

// One instruction: the 64 sums of a thread are operands 0 to 63. Turned is an operand whose lines do not run along the depth.
#define RG_GROUP_INSTRUCTION(NAME, TYPES)                                                                                        \
  template <int left_turned, int right_turned>                                                                                   \
  __device__ __forceinline__ void NAME(float* c, unsigned long long left, unsigned long long right) {                            \
    asm volatile("{\n"                                                                                                           \
                 ".reg .pred add;\n"                                                                                             \
                 "setp.eq.u32 add, 0, 0;\n"                                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPES " {"                                                       \
                   "%0, %1, %2, %3, %4, %5, %6, %7, "                                                                           \
                   "%8, %9, %10, %11, %12, %13, %14, %15, "                                                                     \
                   "%16, %17, %18, %19, %20, %21, %22, %23, "                                                                   \
                   "%24, %25, %26, %27, %28, %29, %30, %31, "                                                                   \
                   "%32, %33, %34, %35, %36, %37, %38, %39, "                                                                   \
                   "%40, %41, %42, %43, %44, %45, %46, %47, "                                                                   \
                   "%48, %49, %50, %51, %52, %53, %54, %55, "                                                                   \
                   "%56, %57, %58, %59, %60, %61, %62, %63"                                                                     \
                 "}, %64, %65, add, 1, 1, %66, %67;\n"                                                                           \
                 "}\n"                                                                                                           \
                 : RG_EIGHT(0), RG_EIGHT(8), RG_EIGHT(16), RG_EIGHT(24), RG_EIGHT(32), RG_EIGHT(40), RG_EIGHT(48), RG_EIGHT(56)  \
                 : "l"(left), "l"(right), "n"(left_turned), "n"(right_turned)                                                    \
                 : "memory");                                                                                                    \
  }

RG_GROUP_INSTRUCTION(group_instruction_bfloat16, "bf16.bf16")
RG_GROUP_INSTRUCTION(group_instruction_float16, "f16.f16")

__device__ __forceinline__ unsigned int shared_address(const void* place) { return (unsigned int)__cvta_generic_to_shared(place); }
__device__ __forceinline__ void begin_matrices() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
__device__ __forceinline__ void commit_matrices() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
// For the matrices of all calls but the last `pending`. Nobody reads the sums before all are done.
template <int pending, int count>
__device__ __forceinline__ void wait_for_matrices(float* c) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
  if constexpr (pending == 0) {
    _Pragma("unroll") for (int k = 0; k < count; k++) asm volatile("" : "+f"(c[k]) : : "memory");
  }
}
#endif

#if defined(RG_HAS_GROUP_MATRICES)
// The descriptor of a block: its address, the distances between panels and between eight lines, in units of 16 bytes, and the exchange of places.
__device__ __forceinline__ unsigned long long block_at(const void* first) {
  const unsigned long long panels = 8192 >> 4, eight_lines = 1024 >> 4, by_128_bytes = 1;
  return shared_address(first) >> 4 | panels << 16 | eight_lines << 32 | by_128_bytes << 62;
}

// Four instructions, of 16 of the depth: on the line the next ones are 32 bytes further, across the lines 16 lines.
#define RG_GROUP_MATRIX(NAME, OPERAND, LEFT_TURNED, RIGHT_TURNED)                                                                \
  __device__ __forceinline__ void wgmma_m64n128k64_##NAME(float* c, const OPERAND* a, const OPERAND* b) {                        \
    const unsigned long long left = block_at(a), right = block_at(b);                                                            \
    begin_matrices();                                                                                                            \
    _Pragma("unroll") for (int k = 0; k < 4; k++)                                                                                \
      group_instruction_##OPERAND<LEFT_TURNED, RIGHT_TURNED>(c, left + k * ((LEFT_TURNED ? 2048 : 32) >> 4),                     \
                                                             right + k * ((RIGHT_TURNED ? 2048 : 32) >> 4));                     \
    commit_matrices();                                                                                                           \
  }
#define RG_GROUP_MATRICES(OPERAND)                                                                                               \
  RG_GROUP_MATRIX(OPERAND##_dd, OPERAND, 0, 0)                                                                                   \
  RG_GROUP_MATRIX(OPERAND##_dc, OPERAND, 0, 1)                                                                                   \
  RG_GROUP_MATRIX(OPERAND##_rd, OPERAND, 1, 0)                                                                                   \
  RG_GROUP_MATRIX(OPERAND##_rc, OPERAND, 1, 1)

RG_GROUP_MATRICES(bfloat16)
RG_GROUP_MATRICES(float16)
#endif
