/* A pool runs the chunks of a job in parallel. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_POOL_H
#define FED_POOL_H

#include <stddef.h>

#include "fed/api.h"

FED_API_BEGIN

/** Runs several chunks at once: on threads, or on what a platform has instead of them. */
typedef struct fed_pool {
    size_t width; /* how many chunks can run at once, at least 1 */

    /** Call part(job, k) once for each k < parts, in any order, possibly at the same time. run
     * returns when all these calls have returned. */
    void (*run)(const struct fed_pool *self, size_t parts, void (*part)(void *job, size_t k),
                void *job);
} fed_pool;

FED_API_END

#endif
