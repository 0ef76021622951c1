/* Flushing denormals to zero during a call, since denormals make arithmetic slow. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_DENORMAL_H
#define FEDTRAIN_DENORMAL_H

#include <stdint.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/** Start flushing in this thread. Returns the control register's old value, for
 * fedtrain_denormal_restore. */
static inline uint64_t fedtrain_denormal_flush(void) {
#if defined(__SSE__)
    unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040U); /* denormal results and operands become 0 */
    return saved;
#elif defined(__aarch64__)
    uint64_t saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"(saved | (uint64_t)1 << 24));
    return saved;
#else
    return 0;
#endif
}

static inline void fedtrain_denormal_restore(uint64_t saved) {
#if defined(__SSE__)
    _mm_setcsr((unsigned)saved);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(saved));
#else
    (void)saved;
#endif
}

#endif
