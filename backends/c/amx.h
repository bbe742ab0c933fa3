/* What kernels for AMX call. Eight tiles of 16 rows of 64 bytes: 0 to 3 keep the sums of 32 rows and 32 columns, 4 and 5 are rows of
   the left operand, 6 and 7 columns of the right one; 1, 3 and 7 are not used for 16 columns. The configuration belongs to the thread,
   and others may change it between two kernels. */
#include <immintrin.h>

static inline void amx_clear(void) {
  static const struct {
    unsigned char palette, start_row, reserved[14];
    unsigned short bytes[16];
    unsigned char rows[16];
  } tiles = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  _tile_loadconfig(&tiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

static inline void amx_store_32(void *sums) {
  char *first = sums;
  _tile_stored(0, first, 128);
  _tile_stored(1, first + 64, 128);
  _tile_stored(2, first + 2048, 128);
  _tile_stored(3, first + 2112, 128);
}

static inline void amx_store_16(void *sums) {
  _tile_stored(0, sums, 64);
  _tile_stored(2, (char *)sums + 1024, 64);
}

/* The pitch is in bytes; 32 columns of the right operand are two tiles, one after the other. */
#define AMX_PRODUCTS(NAME, DEPTH, OPERAND, SUM, MULTIPLY)                                                        \
  static inline void NAME##_32x32x##DEPTH##_clear(void) { amx_clear(); }                                         \
  static inline void NAME##_32x16x##DEPTH##_clear(void) { amx_clear(); }                                         \
  static inline void NAME##_32x32x##DEPTH##_store(SUM *sums) { amx_store_32(sums); }                             \
  static inline void NAME##_32x16x##DEPTH##_store(SUM *sums) { amx_store_16(sums); }                             \
  static inline void NAME##_32x32x##DEPTH(const OPERAND *left, long pitch, const OPERAND *right) {               \
    const long bytes = pitch * (long)sizeof(OPERAND);                                                            \
    _tile_loadd(4, left, bytes);                                                                                 \
    _tile_loadd(6, right, 64);                                                                                   \
    _tile_loadd(7, (const char *)right + 1024, 64);                                                              \
    _tile_loadd(5, (const char *)left + 16 * bytes, bytes);                                                      \
    MULTIPLY(0, 4, 6);                                                                                           \
    MULTIPLY(1, 4, 7);                                                                                           \
    MULTIPLY(2, 5, 6);                                                                                           \
    MULTIPLY(3, 5, 7);                                                                                           \
  }                                                                                                              \
  static inline void NAME##_32x16x##DEPTH(const OPERAND *left, long pitch, const OPERAND *right) {               \
    const long bytes = pitch * (long)sizeof(OPERAND);                                                            \
    _tile_loadd(4, left, bytes);                                                                                 \
    _tile_loadd(6, right, 64);                                                                                   \
    _tile_loadd(5, (const char *)left + 16 * bytes, bytes);                                                      \
    MULTIPLY(0, 4, 6);                                                                                           \
    MULTIPLY(2, 5, 6);                                                                                           \
  }
AMX_PRODUCTS(amx_bf16, 32, unsigned short, float, _tile_dpbf16ps)
AMX_PRODUCTS(amx_int8, 64, signed char, int, _tile_dpbssd)
