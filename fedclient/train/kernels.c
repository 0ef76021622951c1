/* Picks the kernels for the processor that the program runs on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels.h"
#include "fed/cpu.h"
#include "fed/small.h"

extern const fedtrain_kernels fedtrain_kernels_baseline, fedtrain_kernels_bfloat16_baseline;

#if defined(__x86_64__)
extern const fedtrain_kernels fedtrain_kernels_avx2, fedtrain_kernels_avx512;
extern const fedtrain_kernels fedtrain_kernels_bfloat16_avx2, fedtrain_kernels_bfloat16_avx512,
    fedtrain_kernels_bfloat16_avx512bf16;
#endif

const fedtrain_kernels *fedtrain_kernels_get(size_t k) {
#if defined(__x86_64__)
    if (fed_cpu_runs_v4() && k-- == 0) {
        return &fedtrain_kernels_avx512;
    }
    if (fed_cpu_runs_v3() && k-- == 0) {
        return &fedtrain_kernels_avx2;
    }
#endif
    return k == 0 ? &fedtrain_kernels_baseline : NULL;
}

const fedtrain_kernels *fedtrain_kernels_best(void) {
    return fedtrain_kernels_get(0);
}

#if !FED_SMALL
const fedtrain_kernels *fedtrain_kernels_bfloat16(size_t k) {
#if defined(__x86_64__)
    if (fed_cpu_runs_v4_bfloat16() && k-- == 0) {
        return &fedtrain_kernels_bfloat16_avx512bf16;
    }
    if (fed_cpu_runs_v4() && k-- == 0) {
        return &fedtrain_kernels_bfloat16_avx512;
    }
    if (fed_cpu_runs_v3() && k-- == 0) {
        return &fedtrain_kernels_bfloat16_avx2;
    }
#endif
    return k == 0 ? &fedtrain_kernels_bfloat16_baseline : NULL;
}
#endif
