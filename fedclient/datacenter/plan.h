/* The plan of an exchange divides the gradient into buckets, buckets into shards, and shards into
 * slices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_PLAN_H
#define FEDDC_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/* The gradient is one vector of n values. Buckets are ranges of it. Bucket 0 is the vector's end,
 * which a backward pass finishes first; it is smaller than the others, so that the first message
 * leaves soon. A bucket is divided into shards of about equal size, which different ranks sum. A
 * codec encodes one slice at a time: the part of a tensor that lies in a shard, at most FEDDC_SLICE
 * values. Neighbouring tensors of fewer than `small` values form one slice, which is always sent as
 * float32. */
enum { FEDDC_SLICE = 1 << 18 };

typedef struct feddc_slice {
    size_t offset, n;
    bool plain;
} feddc_slice;

typedef struct feddc_shard {
    size_t offset, n;    /* n may be 0 */
    size_t first, count; /* index of the shard's first slice, and number of its slices */
} feddc_shard;

typedef struct feddc_bucket {
    size_t offset, n; /* n > 0 */
} feddc_bucket;

typedef struct feddc_plan {
    size_t n;
    uint32_t buckets, shards; /* shards of each bucket */
    feddc_bucket *bucket;
    feddc_shard *shard; /* [bucket * shards + k] */
    feddc_slice *slice; /* ordered by shard; within a shard by offset */
    size_t slices;
} feddc_plan;

/** Make a plan, to be freed with feddc_plan_free. small: values, 0: 256. bucket: bytes, 0: 1 MiB.
 * shards >= 1. Errors: FED_EINVAL no values, or too small buckets; FED_ENOMEM */
fed_status feddc_plan_make(const size_t *tensor, size_t tensors, size_t small, size_t bucket,
                           uint32_t shards, feddc_plan *plan, fed_error *err) FED_CHECKED;

/** Also allowed for a zeroed plan. */
void feddc_plan_free(feddc_plan *plan);

static inline const feddc_shard *feddc_plan_shard(const feddc_plan *plan, uint32_t bucket,
                                                  uint32_t shard) {
    return &plan->shard[(size_t)bucket * plan->shards + shard];
}

static inline const feddc_slice *feddc_plan_slice(const feddc_plan *plan, const feddc_shard *shard,
                                                  size_t k) {
    return &plan->slice[shard->first + k];
}

uint32_t feddc_plan_bucket_of(const feddc_plan *plan, size_t value);

static inline size_t feddc_larger(size_t a, size_t b) {
    return a > b ? a : b;
}

#endif
