/* Picks the kernels for the processor that the program runs on. */
#include <stdbool.h>

#include "fedclient/train/kernels.h"
#include "fedtrain/net.h"

extern const fedtrain_kernels fedtrain_kernels_baseline;

#if defined(__x86_64__)
extern const fedtrain_kernels fedtrain_kernels_avx2, fedtrain_kernels_avx512;

static bool runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool runs_avx512(void) {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512cd");
}
#endif

const fedtrain_kernels *fedtrain_kernels_get(size_t k) {
#if defined(__x86_64__)
    if (runs_avx512() && k-- == 0) {
        return &fedtrain_kernels_avx512;
    }
    if (runs_avx2() && k-- == 0) {
        return &fedtrain_kernels_avx2;
    }
#endif
    return k == 0 ? &fedtrain_kernels_baseline : NULL;
}

const fedtrain_kernels *fedtrain_kernels_best(void) {
    return fedtrain_kernels_get(0);
}

const char *fedtrain_isa(void) {
    return fedtrain_kernels_best()->isa;
}
