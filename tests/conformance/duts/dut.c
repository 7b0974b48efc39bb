/* A float32 to e4m3 converter that is right, and its faults by name: ./dut FAULT [hex]
 *
 * Records on stdin, results on stdout; with `hex` one number a line. The same code as a shared
 * library is `encode`, whose fault is the environment variable DUT_FAULT.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *fault = "none";

static int is(const char *name) { return strcmp(fault, name) == 0; }

static uint8_t convert(uint32_t x)
{
    uint32_t sign = x >> 24 & 0x80, magnitude = x & 0x7FFFFFFF, code;
    int exponent = (int)(magnitude >> 23) - 127, drop;
    uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000, kept, rest, half;
    if (magnitude > 0x7F800000) {
        if (is("die_on_nan")) abort();
        if (is("segfault")) *(volatile int *)8 = 1;
        return sign | 0x7F;
    }
    drop = exponent >= -6 ? 20 : 20 - 6 - exponent;
    if (drop > 25 || magnitude < 0x800000) return sign;
    kept = significand >> drop;
    rest = significand & ((1u << drop) - 1);
    half = 1u << (drop - 1);
    if (is("ties_away")) kept += rest >= half;
    else if (!is("truncate")) kept += rest > half || (rest == half && (kept & 1));
    code = exponent >= -6 ? ((uint32_t)(exponent + 6) << 3) + kept : kept;
    if (is("flush") && code < 8) code = 0;
    if (code > 0x7E) code = is("overflow") ? 0x7F : 0x7E;
    return sign | code;
}

void encode(const void *in, void *out, size_t n)
{
    const uint32_t *x = in;
    uint8_t *codes = out;
    if (getenv("DUT_FAULT")) fault = getenv("DUT_FAULT");
    for (size_t i = 0; i < n; i++) codes[i] = convert(x[i]);
}

static int put(uint8_t code, size_t i, int hex)
{
    if (!hex) return putchar(code) == EOF;
    if (is("unknown") && i == 3) return puts("x7") == EOF;
    if (is("unknown") && i == 5) return puts("zz") == EOF;
    if (is("words") && i == 2) return puts("ready") == EOF;
    return printf("%02X\n", code) < 0;
}

int main(int argc, char **argv)
{
    int hex = argc > 2;
    size_t n = 0, room = 1 << 20;
    uint32_t *x = malloc(room * sizeof *x), word;
    if (argc > 1) fault = argv[1];
    while (hex ? scanf("%x", &word) == 1 : fread(&word, 4, 1, stdin) == 1) {
        if (n == room) x = realloc(x, (room *= 2) * sizeof *x);
        x[n++] = word;
    }
    if (is("noisy")) fputs("warning: 3 lanes\nbye\n", stderr);
    if (is("nothing")) return 0;
    if (is("hang")) {
        for (size_t i = 0; i < 7; i++) put(convert(x[i]), i, hex);
        fflush(stdout);
        pause();
    }
    if (is("swap")) for (size_t i = 0; i + 1 < n; i += 2) { word = x[i]; x[i] = x[i + 1]; x[i + 1] = word; }
    if (is("few") && n > 100) n = 100;
    for (size_t i = 0; i < n; i++) if (put(convert(x[i]), i, hex)) return 4;
    if (is("many")) put(0, n, hex);
    return is("status") ? 3 : 0;
}
