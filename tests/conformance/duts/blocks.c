/* A quantizer of mxfp4 blocks: blocks FAULT [hex].  32 float32 in; out the scale code, then 32 element codes.

   Faults: none, log2 (the logarithm rounds up below a power of two), rceil (another rule), truncate, swap, signs,
   crash (on infinity), few (one code less).  As a library it holds `quantize`, without fault, and `fragile`, which
   dies of infinity. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double VALUES[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
static const char *fault = "none";

static int is(const char *name) { return strcmp(fault, name) == 0; }

/* The nearest value; of two the one with the even code. */
static uint8_t element(double x) {
    double size = fabs(x);
    uint8_t code = 0;
    while (code < 7) {
        double middle = (VALUES[code] + VALUES[code + 1]) / 2;
        if (is("truncate") ? size < VALUES[code + 1] : size < middle || (size == middle && code % 2 == 0)) break;
        code++;
    }
    return (uint8_t)(code | (signbit(x) && !is("signs") ? 8 : 0));
}

static int scale_of(double amax) {
    if (is("log2")) return (int)floorf((float)log2(amax)) - 2;
    if (is("rceil")) {
        int power = -200;
        while (amax > ldexp(6, power)) power++;
        return power;
    }
    int exponent;
    frexp(amax, &exponent); /* amax = m * 2^exponent, m from 0.5 to 1 */
    return exponent - 1 - 2;
}

static void block(const uint8_t *in, uint8_t *out) {
    float x[32];
    double amax = 0;
    int nan = 0;
    memcpy(x, in, sizeof x);
    for (int i = 0; i < 32; i++) {
        if (isinf(x[i]) && is("crash")) abort();
        nan |= isnan(x[i]);
        if (isfinite(x[i]) && fabs(x[i]) > amax) amax = fabs(x[i]);
    }
    int power = amax > 0 ? scale_of(amax) : -127;
    power = power < -127 ? -127 : power > 127 ? 127 : power;
    out[0] = nan ? 0xFF : (uint8_t)(power + 127);
    for (int i = 0; i < 32; i++) out[1 + i] = nan ? 0 : element(ldexp(x[is("swap") ? i ^ 1 : i], -power));
}

void quantize(const void *in, void *out, size_t n) {
    for (size_t i = 0; i < n; i++) block((const uint8_t *)in + 128 * i, (uint8_t *)out + 33 * i);
}

/* For e4m3 conversions: it answers 7F to all but infinity, of which it dies. */
void fragile(const void *in, void *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, (const uint8_t *)in + 4 * i, 4);
        if ((bits & 0x7FFFFFFF) == 0x7F800000) abort();
        ((uint8_t *)out)[i] = 0x7F;
    }
}

int main(int argc, char **argv) {
    uint8_t in[128], out[33];
    fault = argc > 1 ? argv[1] : "none";
    int hex = argc > 2;
    for (;;) {
        for (int i = 0; i < 32 && hex; i++) {
            uint32_t bits;
            if (scanf("%x", &bits) != 1) return 0;
            memcpy(in + 4 * i, &bits, 4);
        }
        if (!hex && fread(in, 1, sizeof in, stdin) != sizeof in) return 0;
        block(in, out);
        int count = is("few") ? 32 : 33;
        for (int i = 0; i < count && hex; i++) printf(i ? " %x" : "%02X", out[i]);
        if (hex) putchar('\n');
        else fwrite(out, 1, (size_t)count, stdout);
    }
}
