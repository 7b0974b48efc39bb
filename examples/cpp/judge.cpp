// Judge NVIDIA's conversion on the host, __nv_cvt_float_to_fp8 of cuda_fp8.h, by the exported headers: ./judge [every]
//
// Tried are both ends of every run and both infinities, or with `every` all 2^32 inputs.  Exit code 0: all right.  1: some are wrong.
#include <cuda_fp8.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "build/nonsat.h"
#include "build/sat.h"

static float as_float(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// One overflow policy: the library's name of it, and the judge's.
struct Policy {
    const char *name;
    __nv_saturation_t saturation;
    int (*check)(std::uint32_t in, std::uint8_t out);
    std::uint8_t (*expected)(std::uint32_t in);
    const std::uint32_t *hi;
    std::size_t lines;
};

static std::uint64_t wrong = 0, tried = 0;

static void judge(const Policy &policy, std::uint32_t in) {
    std::uint8_t got = __nv_cvt_float_to_fp8(as_float(in), policy.saturation, __NV_E4M3);
#ifdef FAULT
    got &= 0xFE; // so that the judge can be seen to find it
#endif
    tried++;
    if (!policy.check(in, got) && wrong++ < 20)
        std::printf("%s: in=%08" PRIX32 " got=%02X want=%02X\n", policy.name, in, got, policy.expected(in));
}

#define LINES(table) (sizeof(table) / sizeof(table)[0])

int main(int argc, char **argv) {
    bool every = argc > 1 && std::strcmp(argv[1], "every") == 0;
    const Policy policies[] = {
        {"saturating", __NV_SATFINITE, convert_f32_e4m3_rne_sat_check, convert_f32_e4m3_rne_sat_expected,
         convert_f32_e4m3_rne_sat_hi, LINES(convert_f32_e4m3_rne_sat_hi)},
        {"non-saturating", __NV_NOSAT, convert_f32_e4m3_rne_nonsat_check, convert_f32_e4m3_rne_nonsat_expected,
         convert_f32_e4m3_rne_nonsat_hi, LINES(convert_f32_e4m3_rne_nonsat_hi)},
    };
    for (const Policy &policy : policies) {
        for (std::uint64_t in = 0; every && in < UINT64_C(1) << 32; in++) judge(policy, static_cast<std::uint32_t>(in));
        for (std::size_t i = 0; !every && i < policy.lines; i++) {
            judge(policy, policy.hi[i]);
            judge(policy, policy.hi[i] + 1); // the first of the next run; 0 after the last
        }
        for (std::uint32_t in : {0x7F800000u, 0xFF800000u}) judge(policy, in); // a path of its own in many converters
    }
    std::printf("%" PRIu64 " inputs, %" PRIu64 " wrong\n", tried, wrong);
    return wrong != 0;
}
