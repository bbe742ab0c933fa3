// The matrix instructions that cuda.rules has rows for: one call of each by all threads of a warp, with their fragments.
// Fragments are arrays of registers; one float32 (as tf32), two halves, or four bytes, are one of the instruction's operands.

#define RG_MATRIX(NAME, RESULT, OPERAND, SHAPE_AND_TYPES, CONSTRAINT)                                             \
  __device__ __forceinline__ void NAME(RESULT* c, const OPERAND* a, const OPERAND* b) {                           \
    unsigned int left[4], right[2];                                                                               \
    memcpy(left, a, sizeof left);                                                                                 \
    memcpy(right, b, sizeof right);                                                                               \
    asm volatile("mma.sync.aligned." SHAPE_AND_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "            \
                 "{%0, %1, %2, %3};"                                                                              \
                 : "+" CONSTRAINT(c[0]), "+" CONSTRAINT(c[1]), "+" CONSTRAINT(c[2]), "+" CONSTRAINT(c[3])         \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));         \
  }

RG_MATRIX(mma_m16n8k16_bfloat16, float, bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32", "f")
RG_MATRIX(mma_m16n8k16_float16, float, float16, "m16n8k16.row.col.f32.f16.f16.f32", "f")
RG_MATRIX(mma_m16n8k32_int8, int, signed char, "m16n8k32.row.col.s32.s8.s8.s32", "r")
RG_MATRIX(mma_m16n8k8_tf32, float, float, "m16n8k8.row.col.f32.tf32.tf32.f32", "f")
#if __CUDA_ARCH__ >= 890
RG_MATRIX(mma_m16n8k32_float8_e4m3fn, float, unsigned char, "m16n8k32.row.col.f32.e4m3.e4m3.f32", "f")
RG_MATRIX(mma_m16n8k32_float8_e5m2, float, unsigned char, "m16n8k32.row.col.f32.e5m2.e5m2.f32", "f")
#endif

// No instruction of its own: sums of products of eight rows and eight columns, by each thread.
__device__ __forceinline__ void outer_m32n64_float32(float* c, const float* a, const float* b) {
  _Pragma("unroll") for (int row = 0; row < 8; row++)
    _Pragma("unroll") for (int column = 0; column < 8; column++)
      c[8 * row + column] = fmaf(a[row], b[column], c[8 * row + column]);
}

// Fragments by lines of 16 bytes in shared memory: the threads give the places of 32 lines (or 16), in groups of eight a matrix. Each register
// then has the thread's part of one matrix, or of its transpose, where the elements are halves.
#define RG_LOAD_4(NAME, HOW)                                                                                        \
  __device__ __forceinline__ void NAME(void* to, const void* from) {                                                \
    const unsigned int place = (unsigned int)__cvta_generic_to_shared(from);                                        \
    unsigned int found[4];                                                                                          \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" HOW ".shared.b16 {%0, %1, %2, %3}, [%4];"                          \
                 : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3])                                   \
                 : "r"(place)                                                                                       \
                 : "memory");                                                                                       \
    memcpy(to, found, sizeof found);                                                                                \
  }
#define RG_LOAD_2(NAME, HOW)                                                                                        \
  __device__ __forceinline__ void NAME(void* to, const void* from) {                                                \
    const unsigned int place = (unsigned int)__cvta_generic_to_shared(from);                                        \
    unsigned int found[2];                                                                                          \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" HOW ".shared.b16 {%0, %1}, [%2];"                                  \
                 : "=r"(found[0]), "=r"(found[1])                                                                   \
                 : "r"(place)                                                                                       \
                 : "memory");                                                                                       \
    memcpy(to, found, sizeof found);                                                                                \
  }

RG_LOAD_4(load_4_matrices, "")
RG_LOAD_4(load_4_matrices_transposed, ".trans")
RG_LOAD_2(load_2_matrices, "")
RG_LOAD_2(load_2_matrices_transposed, ".trans")
