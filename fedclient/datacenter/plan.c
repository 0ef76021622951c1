/* Divide the gradient into buckets, shards and slices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/plan.h"

#include <stdlib.h>

enum {
    SMALL = 256,      /* by default, tensors of fewer values are not coded */
    BUCKET = 1 << 20, /* bytes of a bucket, by default */
    FIRST_PART = 8,   /* the first bucket has about an eighth of the others' size */
    ROUND = 16,       /* in a bucket, shards begin at multiples of 16 values: a cache line */
    SLICES_GROWTH = 64
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Cut buckets from the gradient's end: a short one, then equal ones of at most `most` values. */
static fed_status cut_buckets(feddc_plan *plan, size_t most) {
    size_t first = smaller(plan->n, most / FIRST_PART > 0 ? most / FIRST_PART : 1);
    if (plan->n <= most) {
        first = plan->n;
    }
    size_t rest = plan->n - first, more = (rest + most - 1) / most;
    plan->buckets = (uint32_t)(1 + more);
    plan->bucket = calloc(plan->buckets, sizeof *plan->bucket);
    if (plan->bucket == NULL) {
        return FED_ENOMEM;
    }
    plan->bucket[0] = (feddc_bucket){.offset = rest, .n = first};
    for (size_t k = 0; k < more; k++) {
        size_t begin = rest * (more - 1 - k) / more, end = rest * (more - k) / more;
        plan->bucket[1 + k] = (feddc_bucket){.offset = begin, .n = end - begin};
    }
    return FED_OK;
}

static size_t shard_begin(size_t n, uint32_t shards, uint32_t k) {
    return k == shards ? n : n * k / shards / ROUND * ROUND;
}

static fed_status add_slice(feddc_plan *plan, size_t offset, size_t n, bool plain) {
    if (plan->slices % SLICES_GROWTH == 0) {
        size_t room = (plan->slices + SLICES_GROWTH) * sizeof *plan->slice;
        feddc_slice *more = realloc(plan->slice, room);
        if (more == NULL) {
            return FED_ENOMEM;
        }
        plan->slice = more;
    }
    plan->slice[plan->slices++] = (feddc_slice){.offset = offset, .n = n, .plain = plain};
    return FED_OK;
}

/* Add the part of a tensor that lies in a shard. A plain part after a plain slice extends that
 * slice; any other part becomes new slices. */
static fed_status add_part(feddc_plan *plan, feddc_shard *shard, size_t offset, size_t n,
                           bool plain) {
    feddc_slice *last = shard->count > 0 ? &plan->slice[plan->slices - 1] : NULL;
    if (plain && last != NULL && last->plain) {
        last->n += n;
        return FED_OK;
    }
    size_t pieces = plain ? 1 : (n + FEDDC_SLICE - 1) / FEDDC_SLICE;
    for (size_t k = 0; k < pieces; k++) {
        size_t begin = n * k / pieces, end = n * (k + 1) / pieces;
        FED_TRY(add_slice(plan, offset + begin, end - begin, plain));
        shard->count++;
    }
    return FED_OK;
}

/* at[k]: the offset of tensor k. */
static fed_status cut_slices(feddc_plan *plan, feddc_shard *shard, const size_t *tensor,
                             const size_t *at, size_t tensors, size_t small) {
    size_t end = shard->offset + shard->n;
    shard->first = plan->slices;
    for (size_t k = 0; k < tensors && at[k] < end; k++) {
        size_t from = at[k] > shard->offset ? at[k] : shard->offset;
        size_t to = smaller(at[k] + tensor[k], end);
        if (from < to) {
            FED_TRY(add_part(plan, shard, from, to - from, tensor[k] < small));
        }
    }
    return FED_OK;
}

static fed_status cut_shards(feddc_plan *plan, const size_t *tensor, const size_t *at,
                             size_t tensors, size_t small) {
    plan->shard = calloc((size_t)plan->buckets * plan->shards, sizeof *plan->shard);
    if (plan->shard == NULL) {
        return FED_ENOMEM;
    }
    for (uint32_t b = 0; b < plan->buckets; b++) {
        const feddc_bucket *bucket = &plan->bucket[b];
        for (uint32_t k = 0; k < plan->shards; k++) {
            feddc_shard *shard = &plan->shard[(size_t)b * plan->shards + k];
            size_t begin = shard_begin(bucket->n, plan->shards, k);
            shard->offset = bucket->offset + begin;
            shard->n = shard_begin(bucket->n, plan->shards, k + 1) - begin;
            FED_TRY(cut_slices(plan, shard, tensor, at, tensors, small));
        }
    }
    return FED_OK;
}

static fed_status cut(feddc_plan *plan, const size_t *tensor, size_t tensors, size_t small,
                      size_t bucket) {
    size_t *at = calloc(tensors + 1, sizeof *at); /* + 1: not 0 bytes */
    if (at == NULL) {
        return FED_ENOMEM;
    }
    for (size_t k = 1; k < tensors; k++) {
        at[k] = at[k - 1] + tensor[k - 1];
    }
    fed_status status = cut_buckets(plan, bucket / sizeof(float));
    if (status == FED_OK) {
        status = cut_shards(plan, tensor, at, tensors, small);
    }
    free(at);
    return status;
}

fed_status feddc_plan_make(const size_t *tensor, size_t tensors, size_t small, size_t bucket,
                           uint32_t shards, feddc_plan *plan, fed_error *err) {
    *plan = (feddc_plan){.shards = shards};
    for (size_t k = 0; k < tensors; k++) {
        plan->n += tensor[k];
    }
    if (plan->n == 0) {
        return fed_fail(err, FED_EINVAL,
                        "there is nothing to exchange: the option tensor lists no values");
    }
    if (bucket > 0 && bucket < ROUND * sizeof(float)) {
        return fed_fail(err, FED_EINVAL,
                        "a bucket of %zu bytes is too small: it must have at least %zu", bucket,
                        ROUND * sizeof(float));
    }
    if (cut(plan, tensor, tensors, small > 0 ? small : SMALL, bucket > 0 ? bucket : BUCKET) !=
        FED_OK) {
        feddc_plan_free(plan);
        return fed_fail(err, FED_ENOMEM, "out of memory for the plan of %zu values", plan->n);
    }
    return FED_OK;
}

void feddc_plan_free(feddc_plan *plan) {
    free(plan->bucket);
    free(plan->shard);
    free(plan->slice);
    plan->bucket = NULL;
    plan->shard = NULL;
    plan->slice = NULL;
}

uint32_t feddc_plan_bucket_of(const feddc_plan *plan, size_t value) {
    /* binary search: offsets decrease from bucket to bucket */
    uint32_t low = 0, high = plan->buckets - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (plan->bucket[middle].offset <= value) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}
