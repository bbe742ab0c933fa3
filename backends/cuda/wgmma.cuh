// Hopper's matrix instruction: four warps multiply, and the right operand stays in shared memory. It exists in code for sm_90a only; elsewhere
// each warp multiplies its 16 rows by mma instructions, out of the same blocks.
//
// A block holds 16 (depth) by 128 (columns) elements as 8 x 8 matrices, the depth's neighbours next to each other: the two of a column
// follow each other (64 elements), then come the next 8 columns (128 elements).

#define RG_EIGHT(K)                                                                                                              \
  "+f"(c[K]), "+f"(c[K + 1]), "+f"(c[K + 2]), "+f"(c[K + 3]), "+f"(c[K + 4]), "+f"(c[K + 5]), "+f"(c[K + 6]), "+f"(c[K + 7])

// The 64 sums of a thread are operands 0 to 63.
#define RG_GROUP_MATRIX(NAME, OPERAND, TYPES, INSTRUCTION)                                                                       \
  __device__ __forceinline__ void NAME(float* c, const OPERAND* a, const OPERAND* b) {                                           \
    RG_GROUP_BODY(OPERAND, TYPES, INSTRUCTION)                                                                                   \
  }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// The descriptor of a block: its address, and the distances between the two matrices of a column and between columns, in units of 16 bytes.
#define RG_GROUP_BODY(OPERAND, TYPES, INSTRUCTION)                                                                               \
  unsigned int left[4];                                                                                                          \
  memcpy(left, a, sizeof left);                                                                                                  \
  const unsigned long long place = ((unsigned long long)__cvta_generic_to_shared(b) & 0x3ffff) >> 4;                             \
  const unsigned long long block = place | (128ull >> 4) << 16 | (256ull >> 4) << 32;                                            \
  asm volatile("wgmma.fence.sync.aligned;\n"                                                                                     \
               "{\n"                                                                                                             \
               ".reg .pred add;\n"                                                                                               \
               "setp.eq.u32 add, 0, 0;\n"                                                                                        \
               "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPES " {"                                                         \
                 "%0, %1, %2, %3, %4, %5, %6, %7, "                                                                             \
                 "%8, %9, %10, %11, %12, %13, %14, %15, "                                                                       \
                 "%16, %17, %18, %19, %20, %21, %22, %23, "                                                                     \
                 "%24, %25, %26, %27, %28, %29, %30, %31, "                                                                     \
                 "%32, %33, %34, %35, %36, %37, %38, %39, "                                                                     \
                 "%40, %41, %42, %43, %44, %45, %46, %47, "                                                                     \
                 "%48, %49, %50, %51, %52, %53, %54, %55, "                                                                     \
                 "%56, %57, %58, %59, %60, %61, %62, %63"                                                                       \
               "}, {%64, %65, %66, %67}, %68, add, 1, 1, 0;\n"                                                                 \
               "}\n"                                                                                                             \
               "wgmma.commit_group.sync.aligned;\n"                                                                              \
               "wgmma.wait_group.sync.aligned 0;\n"                                                                              \
               : RG_EIGHT(0), RG_EIGHT(8), RG_EIGHT(16), RG_EIGHT(24), RG_EIGHT(32), RG_EIGHT(40), RG_EIGHT(48), RG_EIGHT(56) \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(block)                                              \
               : "memory");
#else
#define RG_GROUP_BODY(OPERAND, TYPES, INSTRUCTION)                                                                               \
  const OPERAND* first = b + threadIdx.x % 32 / 4 * 8 + threadIdx.x % 4 * 2;                                                     \
  _Pragma("unroll") for (int n = 0; n < 16; n++) {                                                                               \
    const OPERAND* place = first + 128 * n;                                                                                      \
    const OPERAND right[4] = {place[0], place[1], place[64], place[65]};                                                         \
    INSTRUCTION(c + 4 * n, a, right);                                                                                            \
  }
#endif

RG_GROUP_MATRIX(wgmma_m64n128k16_bfloat16, bfloat16, "bf16.bf16", mma_m16n8k16_bfloat16)
RG_GROUP_MATRIX(wgmma_m64n128k16_float16, float16, "f16.f16", mma_m16n8k16_float16)
