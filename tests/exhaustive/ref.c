/* float32 to eight-bit and narrower floats, written from the standards and from nothing else.
 *
 * Source: OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023-06-20: table 1 (formats), table 3
 *         (overflow); OCP Microscaling Formats (MX) 1.0, 2023-09-07: 5.3.3 (FP4 E2M1),
 *         5.4.1 (E8M0); IEEE 754-2019: 3.4 (float32), 4.3.1 (roundTiesToEven).
 *
 * Plain integers on the bits of one number at a time; no float and no table of codes.  Where a standard leaves a
 * choice, the choice has a name below and in README.md.
 *
 * Build: gcc -O2 -shared -fPIC ref.c -o ref.so     (C11)
 */
#include <stdint.h>

enum { SATURATE, NONSATURATING };    /* OFP8 table 3; for E8M0: FE or FF */
enum { NEGATIVE_ABS, NEGATIVE_NAN }; /* E8M0 has no sign: take the magnitude, or give NaN */

struct small { /* one signed format, its figures typed from the standard */
    int mantissa_bits;
    int emin;          /* exponent of the least normal */
    int emax;          /* exponent of the greatest finite value */
    uint32_t top;      /* significand of the greatest finite value, hidden bit included */
    uint8_t sign, max; /* the sign bit, the code of the greatest finite value */
    uint8_t beyond;    /* nonsaturating overflow, without the sign: Inf or NaN */
    uint8_t nan;       /* what a NaN input becomes, whatever its sign */
};

/*                                 M  emin emax top  sign  max   beyond nan */
static const struct small E4M3 = { 3, -6,  8,   0xE, 0x80, 0x7E, 0x7F,  0x7F }; /* 1.110 x 2^8 = 448 */
static const struct small E5M2 = { 2, -14, 15,  0x7, 0x80, 0x7B, 0x7C,  0x7F }; /* 1.11 x 2^15 = 57344 */
static const struct small E2M1 = { 1, 0,   2,   0x3, 0x08, 0x07, 0x07,  0x07 }; /* 1.1 x 2^2 = 6; NaN: max */

/* roundTiesToEven of n / 2^shift, shift at least 1 */
static uint32_t nearest_even(uint32_t n, int shift)
{
    if (shift > 31)
        return 0; /* n < 2^24 is less than a quarter of the last place */
    uint32_t kept = n >> shift, rest = n - (kept << shift), half = 1u << (shift - 1);
    if (rest > half || (rest == half && kept % 2 == 1))
        kept += 1;
    return kept;
}

static uint8_t to_small(uint32_t bits, const struct small *f, int overflow)
{
    uint8_t sign = bits >> 31 ? f->sign : 0;
    int field = bits >> 23 & 0xFF;
    uint32_t fraction = bits & 0x7FFFFF;
    uint8_t end = overflow == SATURATE ? f->max : f->beyond;

    if (field == 0xFF)
        return fraction ? f->nan : sign | end;

    /* 1. the value is n x 2^e, e the exponent of the last place; exponent: of the first place */
    uint32_t n = field ? fraction | 0x800000 : fraction;
    int e = (field ? field : 1) - 150;
    int exponent = e + 23; /* a float32 subnormal lies below every emin here, and is treated as if 2^-126 */

    /* 2. round to a multiple of the spacing there */
    int binade = exponent > f->emin ? exponent : f->emin;
    uint32_t m = nearest_even(n, binade - f->mantissa_bits - e);

    /* 3. the carry into the next binade */
    uint32_t two = 2u << f->mantissa_bits;
    if (m == two) {
        m = two / 2;
        binade += 1;
    }

    /* 4. beyond the greatest value? */
    if (binade > f->emax || (binade == f->emax && m > f->top))
        return sign | end;

    /* 5. without the hidden bit it is zero or a subnormal, of exponent field 0 */
    uint32_t hidden = two / 2;
    if (m < hidden)
        return sign | (uint8_t)m;
    return sign | (uint8_t)((uint32_t)(binade - f->emin + 1) << f->mantissa_bits | (m - hidden));
}

/* Code c stands for 2^(c - 127), FF for NaN.  A tie goes to the even code; zero and all below go to the least, 00. */
static uint8_t to_e8m0(uint32_t bits, int overflow, int negative)
{
    uint32_t magnitude = bits & 0x7FFFFFFF;
    uint8_t end = overflow == SATURATE ? 0xFE : 0xFF;

    if (magnitude > 0x7F800000)
        return 0xFF;
    if (negative == NEGATIVE_NAN && bits > 0x80000000) /* -0 is a zero */
        return 0xFF;
    if (magnitude == 0x7F800000)
        return end;
    uint32_t field = magnitude >> 23, fraction = magnitude & 0x7FFFFF;
    if (field == 0) /* 00 is 2^-127, half of the least normal; half way to 01 is 1.5 x 2^-127 */
        return fraction > 0x600000;
    uint32_t code = field;
    if (fraction > 0x400000 || (fraction == 0x400000 && code % 2 == 1))
        code += 1;
    return code > 0xFE ? end : (uint8_t)code;
}

/* The codes of `count` float32 given by their bits.  format: 0 E4M3, 1 E5M2, 2 E2M1, 3 E8M0; else 1 is returned. */
int ref_codes(int format, int overflow, int negative, const uint32_t *bits, uint32_t count, uint8_t *codes)
{
    static const struct small *const formats[] = { &E4M3, &E5M2, &E2M1 };
    if (format < 0 || format > 3)
        return 1;
    for (uint32_t i = 0; i < count; i++)
        codes[i] = format == 3 ? to_e8m0(bits[i], overflow, negative) : to_small(bits[i], formats[format], overflow);
    return 0;
}
