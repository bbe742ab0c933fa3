/* What kernels for AMX begin with. Eight tiles of 16 rows of 64 bytes. */
#include <immintrin.h>

static inline void amx_begin(void) {
  static const struct {
    unsigned char palette, start_row, reserved[14];
    unsigned short bytes[16];
    unsigned char rows[16];
  } tiles = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  _tile_loadconfig(&tiles);
}
