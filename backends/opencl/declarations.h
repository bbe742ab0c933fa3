/* What our sources use of OpenCL C's library. PoCL declares all of it, 18,000 functions, anew for each program, which takes five times as long
   as all the rest: with _OPENCL_H_ defined it leaves its own header out. */
#define OVERLOADED __attribute__((overloadable, const))
#define VECTORS(T) \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##4 __attribute__((ext_vector_type(4))); \
  typedef T T##8 __attribute__((ext_vector_type(8))); \
  typedef T T##16 __attribute__((ext_vector_type(16)));
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
VECTORS(char) VECTORS(uchar) VECTORS(short) VECTORS(ushort) VECTORS(int) VECTORS(uint) VECTORS(long) VECTORS(ulong) VECTORS(float)

#define as_char(x) __builtin_astype((x), char)
#define as_uchar(x) __builtin_astype((x), uchar)
#define as_short(x) __builtin_astype((x), short)
#define as_ushort(x) __builtin_astype((x), ushort)
#define as_int(x) __builtin_astype((x), int)
#define as_int2(x) __builtin_astype((x), int2)
#define as_int4(x) __builtin_astype((x), int4)
#define as_int8(x) __builtin_astype((x), int8)
#define as_int16(x) __builtin_astype((x), int16)
#define as_uint(x) __builtin_astype((x), uint)
#define as_uint2(x) __builtin_astype((x), uint2)
#define as_uint4(x) __builtin_astype((x), uint4)
#define as_uint8(x) __builtin_astype((x), uint8)
#define as_uint16(x) __builtin_astype((x), uint16)
#define as_float(x) __builtin_astype((x), float)
#define as_float2(x) __builtin_astype((x), float2)
#define as_float4(x) __builtin_astype((x), float4)
#define as_float8(x) __builtin_astype((x), float8)
#define as_float16(x) __builtin_astype((x), float16)
#define as_long(x) __builtin_astype((x), long)
#define as_ulong(x) __builtin_astype((x), ulong)

#define CLK_LOCAL_MEM_FENCE 1
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

size_t OVERLOADED get_global_id(uint);
size_t OVERLOADED get_group_id(uint);
size_t OVERLOADED get_local_id(uint);
void __attribute__((overloadable, convergent)) barrier(uint);

#define FUNCTIONS(T) \
  T OVERLOADED sqrt(T); T OVERLOADED fabs(T); T OVERLOADED floor(T); T OVERLOADED ceil(T); T OVERLOADED trunc(T); T OVERLOADED rint(T); \
  T OVERLOADED sin(T); T OVERLOADED cos(T); T OVERLOADED tan(T); T OVERLOADED fma(T, T, T); T OVERLOADED fmod(T, T);
FUNCTIONS(float) FUNCTIONS(float2) FUNCTIONS(float4) FUNCTIONS(float8) FUNCTIONS(float16)
#ifdef cl_khr_fp64
VECTORS(double)
#define as_double(x) __builtin_astype((x), double)
#define as_double2(x) __builtin_astype((x), double2)
#define as_double4(x) __builtin_astype((x), double4)
#define as_double8(x) __builtin_astype((x), double8)
#define as_double16(x) __builtin_astype((x), double16)
FUNCTIONS(double) FUNCTIONS(double2) FUNCTIONS(double4) FUNCTIONS(double8) FUNCTIONS(double16)
#endif
#define EXTREMES(T) T OVERLOADED min(T, T); T OVERLOADED max(T, T);
EXTREMES(int) EXTREMES(uint) EXTREMES(long) EXTREMES(ulong)
