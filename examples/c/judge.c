/* Judge the encoder by a .run file of E4M3: ./judge FILE [every]

   Tried are both ends and the middle of every run and both infinities, or with `every` all 2^32 inputs.
   Exit code 0: all right.  1: some are wrong.  2: no such file.  3: damaged, or nothing in it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "encode.h"

static int passes(unsigned got, unsigned z, unsigned j) {
    switch (j) {
        case 0: return 1;                          /* the standard says nothing */
        case 1: return got == z;                   /* these bits */
        case 2: return (got & 0x7F) == 0x7F;       /* any NaN */
        default: return got == z || got == z + 1;  /* either neighbour */
    }
}

static uint64_t tried = 0, wrong = 0;

static void judge(uint32_t in, uint32_t z, uint32_t j, int saturate) {
    unsigned got = e4m3_encode(in, saturate);
    tried++;
    if (!passes(got, z, j) && wrong++ < 20) printf("in=%08" PRIX32 " got=%02X want=%02" PRIX32 "\n", in, got, z);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: judge FILE.run [every]\n");
        return 2;
    }
    FILE *file = fopen(argv[1], "r");
    if (!file) {
        perror(argv[1]);
        return 2;
    }
    int saturate = strstr(argv[1], ".nonsat.") == NULL; /* what a file means is in its name */
    int every = argc > 2 && strcmp(argv[2], "every") == 0;
    uint32_t lo, hi, z, j;
    uint64_t next = 0;
    while (fscanf(file, "%" SCNx32 " %" SCNx32 " %" SCNx32 " %" SCNx32, &lo, &hi, &z, &j) == 4) {
        if (lo != next || hi < lo || j > 3) break; /* a gap, or no line of a run file */
        next = (uint64_t)hi + 1;
        uint64_t middle = lo + (uint64_t)(hi - lo) / 2, in = lo;
        while (in <= hi) {
            judge((uint32_t)in, z, j, saturate);
            in = every ? in + 1 : in < middle ? middle : in < hi ? hi : next;
        }
        for (uint32_t sign = 0; !every && sign < 2; sign++) { /* an encoder has a path of its own for infinity */
            uint32_t infinity = sign << 31 | 0x7F800000;
            if (lo <= infinity && infinity <= hi) judge(infinity, z, j, saturate);
        }
    }
    fclose(file);
    printf("%" PRIu64 " inputs, %" PRIu64 " wrong\n", tried, wrong);
    return next != UINT64_C(1) << 32 ? 3 : wrong != 0;
}
