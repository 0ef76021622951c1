/* Picks the kernels for the processor that the program runs on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels.h"
#include "fed/cpu.h"

extern const fedtrain_kernels fedtrain_kernels_baseline;

#if defined(__x86_64__)
extern const fedtrain_kernels fedtrain_kernels_avx2, fedtrain_kernels_avx512;
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
