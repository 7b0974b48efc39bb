#ifndef ENCODE_H
#define ENCODE_H

#include <stdint.h>

/* A float32 pattern to a code of E4M3; too big a number is 448 if `saturate`, else NaN. */
uint8_t e4m3_encode(uint32_t in, int saturate);

#endif
