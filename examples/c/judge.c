/* Judge the encoder by a .run file of E4M3: ./judge FILE [every]

   Tried are both ends and the middle of every run, or with `every` all 2^32 inputs.
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

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: judge FILE.run [every]\n");
        return 2;
    }
    int saturate = strstr(argv[1], ".nonsat.") == NULL; /* what a file means is in its name */
    int every = argc > 2 && strcmp(argv[2], "every") == 0;
    uint32_t lo, hi, z, j;
    uint64_t next = 0, tried = 0, wrong = 0;
    while (fscanf(file, "%" SCNx32 " %" SCNx32 " %" SCNx32 " %" SCNx32, &lo, &hi, &z, &j) == 4) {
        if (lo != next || hi < lo || j > 3) break; /* a gap, or no line of a run file */
        next = (uint64_t)hi + 1;
        uint64_t middle = lo + (uint64_t)(hi - lo) / 2, in = lo;
        while (in <= hi) {
            unsigned got = e4m3_encode((uint32_t)in, saturate);
            tried++;
            if (!passes(got, z, j) && wrong++ < 20)
                printf("in=%08" PRIX64 " got=%02X want=%02" PRIX32 "\n", in, got, z);
            in = every ? in + 1 : in < middle ? middle : in < hi ? hi : next;
        }
    }
    fclose(file);
    printf("%" PRIu64 " inputs, %" PRIu64 " wrong\n", tried, wrong);
    return next != UINT64_C(1) << 32 ? 3 : wrong != 0;
}
