/* float32 to E4M3 (OFP8), round to nearest, ties to even, on bits alone.

   in   | sign 31 | exponent 30..23 | fraction 22..0 |
   out  | sign 7  | exponent 6..3   | mantissa 2..0  |   bias 7, greatest 7E = 448, NaN 7F and FF

   FAULT puts a bug in, so that the judge can be seen to find it. */
#include "encode.h"

uint8_t e4m3_encode(uint32_t in, int saturate) {
    /* 1. Fields.  2^-6, the least normal of E4M3, has the exponent field 121. */
    uint32_t sign = in >> 31, exponent = in >> 23 & 0xFFu, fraction = in & 0x7FFFFFu;
    uint32_t significand = fraction | (exponent ? 0x800000u : 0u);
    int normal = exponent >= 121;

    /* 2. NaN keeps its sign. */
    if (exponent == 0xFF && fraction) return (uint8_t)(sign << 7 | 0x7F);

    /* 3. A normal number drops 20 bits, and one more for each power of two below; 25 drop all. */
    uint32_t drop = normal ? 20 : exponent < 116 ? 25 : 141 - exponent;

    /* 4. Round.  A carry makes 16 of 15, which step 5 adds to the exponent. */
    uint32_t kept = significand >> drop, rest = significand & ((1u << drop) - 1), half = 1u << (drop - 1);
#ifdef FAULT
    uint32_t up = rest >= half; /* ties go away from zero */
#else
    uint32_t up = rest > half || (rest == half && (kept & 1));
#endif

    /* 5. The magnitude: 8 codes a binade.  The hidden bit is the 8 that makes field 0 into field 1. */
    uint32_t magnitude = kept + up + (normal ? (exponent - 121) << 3 : 0);

    /* 6. Only now compare with the greatest: 464 has become 448, and is no overflow. */
    if (magnitude > 0x7E) magnitude = saturate ? 0x7E : 0x7F;
    return (uint8_t)(sign << 7 | magnitude);
}
