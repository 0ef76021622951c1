/* Running the parts of a job side by side. */
#ifndef FED_POOL_H
#define FED_POOL_H

#include <stddef.h>

#include "fed/api.h"

FED_API_BEGIN

/** Something that can do several things at once: threads, or what a platform has instead. */
typedef struct fed_pool {
    size_t width; /* how many parts can run at once, at least 1 */

    /** Call part(job, k) once for each k < parts, in any order and at the same time. Returns when
     * all of them have. */
    void (*run)(const struct fed_pool *self, size_t parts, void (*part)(void *job, size_t k),
                void *job);
} fed_pool;

FED_API_END

#endif
