/* What kernels use of AMX, in plain C: it stands in the place of the compiler's header where the processor has no tiles.
   A tile's rows and bytes are those of its configuration; what does not fit the instruction ends the process. */
#include <stdlib.h>
#include <string.h>

typedef struct {
  unsigned char palette, start_row, reserved[14];
  unsigned short bytes[16];
  unsigned char rows[16];
} emulated_configuration;

static _Thread_local emulated_configuration emulated_now;
static _Thread_local unsigned char emulated_tiles[8][16][64];

static inline void emulated_need(int condition) {
  if (!condition) abort();
}

static inline void _tile_loadconfig(const void *configuration) {
  memcpy(&emulated_now, configuration, 64);
  emulated_need(emulated_now.palette == 1);
  memset(emulated_tiles, 0, sizeof emulated_tiles);
}

static inline void _tile_zero(int tile) {
  emulated_need(emulated_now.palette == 1);
  memset(emulated_tiles[tile], 0, sizeof emulated_tiles[tile]);
}

static inline void _tile_loadd(int tile, const void *base, long stride) {
  emulated_need(emulated_now.palette == 1);
  memset(emulated_tiles[tile], 0, sizeof emulated_tiles[tile]);
  for (int r = 0; r < emulated_now.rows[tile]; r++)
    memcpy(emulated_tiles[tile][r], (const char *)base + r * stride, emulated_now.bytes[tile]);
}

static inline void _tile_stored(int tile, void *base, long stride) {
  for (int r = 0; r < emulated_now.rows[tile]; r++)
    memcpy((char *)base + r * stride, emulated_tiles[tile][r], emulated_now.bytes[tile]);
}

static inline float emulated_bfloat16(int tile, int row, int element) {
  unsigned short code;
  memcpy(&code, &emulated_tiles[tile][row][2 * element], 2);
  unsigned bits = (unsigned)code << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

/* c[m][n] += a[m][2k] * b[k][2n] + a[m][2k + 1] * b[k][2n + 1] */
static inline void _tile_dpbf16ps(int c, int a, int b) {
  emulated_need(emulated_now.bytes[a] == 4 * emulated_now.rows[b] && emulated_now.rows[c] == emulated_now.rows[a]);
  for (int m = 0; m < emulated_now.rows[c]; m++)
    for (int n = 0; n < emulated_now.bytes[c] / 4; n++) {
      float sum;
      memcpy(&sum, &emulated_tiles[c][m][4 * n], 4);
      for (int k = 0; k < emulated_now.rows[b]; k++)
        for (int p = 0; p < 2; p++)
          sum += emulated_bfloat16(a, m, 2 * k + p) * emulated_bfloat16(b, k, 2 * n + p);
      memcpy(&emulated_tiles[c][m][4 * n], &sum, 4);
    }
}

/* the same of quadruples of signed bytes */
static inline void _tile_dpbssd(int c, int a, int b) {
  emulated_need(emulated_now.bytes[a] == 4 * emulated_now.rows[b] && emulated_now.rows[c] == emulated_now.rows[a]);
  for (int m = 0; m < emulated_now.rows[c]; m++)
    for (int n = 0; n < emulated_now.bytes[c] / 4; n++) {
      int sum;
      memcpy(&sum, &emulated_tiles[c][m][4 * n], 4);
      for (int k = 0; k < emulated_now.rows[b]; k++)
        for (int p = 0; p < 4; p++)
          sum += (signed char)emulated_tiles[a][m][4 * k + p] * (signed char)emulated_tiles[b][k][4 * n + p];
      memcpy(&emulated_tiles[c][m][4 * n], &sum, 4);
    }
}

#ifndef __AVX512F__ /* whose instruction scales by powers of two */
#undef SCALED
#undef SCALED_VECTOR
#define SCALED(T, instruction, y, n) ((T)__builtin_ldexp(y, (int)(n)))
#define SCALED_VECTOR(T, M, N, instruction, y, n) ({ \
  VECTOR(T, N) y_ = (y) - (VECTOR(T, N)){}; VECTOR(M, N) n_ = (n) - (VECTOR(M, N)){}; \
  for (int k_ = 0; k_ < N; k_++) y_[k_] = SCALED(T, instruction, y_[k_], n_[k_]); \
  y_; })
#endif
