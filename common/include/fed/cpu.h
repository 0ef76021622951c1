/* Check which vector instructions this machine can run, in the groups that compilers use. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CPU_H
#define FED_CPU_H

#include <stdbool.h>

#include "fed/api.h"

FED_API_BEGIN

#if defined(__x86_64__)

/** Can this machine run what -march=x86-64-v3 may use: AVX2 and extensions that came with it? */
static inline bool fed_cpu_runs_v3(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

/** Can this machine run what -march=x86-64-v4 may use: the first extensions of AVX-512? */
static inline bool fed_cpu_runs_v4(void) {
    return fed_cpu_runs_v3() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
}

/** Can this machine run what -mavx512bf16 adds to x86-64-v4: sums of products of bfloat16? */
static inline bool fed_cpu_runs_v4_bfloat16(void) {
    return fed_cpu_runs_v4() && __builtin_cpu_supports("avx512bf16");
}

#endif

FED_API_END

#endif
