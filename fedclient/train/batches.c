/* The batches of a job: which samples, or which windows of a text, each step takes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/batches.h"

#include <inttypes.h>
#include <stdlib.h>

#include "fed/rng.h"
#include "fed/small.h"
#include "fedclient/train/gather.h"
#include "fedclient/train/text_walk.h"
#include "fedtrain/fits.h"

/* These constants make the random numbers for the samples' order and for augmentation differ from
 * those of other uses of the task's seed, such as the first weights. */
static const uint64_t ORDER_SEED = 0x6f72646572;       /* "order" */
static const uint64_t AUGMENT_SEED = 0x6175676d656e74; /* "augment" */

struct fedtrain_batches {
    const fedtrain_job *job;
    uint64_t pass;    /* the pass through the shard that `order` belongs to */
    uint32_t order[]; /* uint32[shard count]: the samples in this pass's order; empty for a text */
};

static bool is_augmented(const fedtrain_job *job) {
    return !FED_SMALL && (job->augment.padding > 0 || job->augment.flip);
}

static fed_status check_samples(const fedtrain_job *job, fed_error *err) {
    FED_TRY(fedtrain_check_batch(job->net, job->batch, err));
    FED_TRY(fedtrain_dataset_fits(job->set, job->net->arch, err));
    if (job->shard->count == 0) {
        return fed_fail(err, FED_EINVAL, "client %" PRIu32 " holds no samples", job->client);
    }
    if (is_augmented(job) && job->set->is_float) {
        return fed_fail(err, FED_EINVAL,
                        "augmentation crops and flips pictures, and these samples are rows of a "
                        "table: leave augmentation out");
    }
    if (job->augment.padding >= job->set->shape.h || job->augment.padding >= job->set->shape.w) {
        return fed_fail(err, FED_EINVAL,
                        "padding of %" PRIu32 " pixels: it must be less than the pictures' sides",
                        job->augment.padding);
    }
    return FED_OK;
}

static bool is_text(const fedtrain_job *job) {
    return !FED_SMALL && job->token != NULL;
}

static void shuffle(fedtrain_batches *b, uint64_t pass) {
    const fedtrain_job *job = b->job;
    const fedtrain_shard *shard = job->shard;
    for (size_t i = 0; i < shard->count; i++) {
        b->order[i] = shard->index[i];
    }
    fed_rng rng;
    fed_rng_init(&rng, job->seed ^ ORDER_SEED, job->client, (uint32_t)pass);
    fed_rng_shuffle(&rng, b->order, shard->count);
    b->pass = pass;
}

fed_status fedtrain_batches_open(const fedtrain_job *job, const float *params,
                                 fedtrain_batches **batches, fed_error *err) {
    FED_TRY(is_text(job) ? fedtrain_text_check(job, err) : check_samples(job, err));
    const size_t count = is_text(job) ? 0 : job->shard->count;
    fedtrain_batches *b = malloc(sizeof *b + count * sizeof b->order[0]);
    if (b == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the order of %zu samples", count);
    }
    *b = (fedtrain_batches){.job = job, .pass = UINT64_MAX};
    fed_status status = is_text(job) ? fedtrain_text_start(job, params, err) : FED_OK;
    if (status != FED_OK) {
        free(b);
        return status;
    }
    *batches = b;
    return FED_OK;
}

void fedtrain_batches_close(fedtrain_batches *batches) {
    free(batches);
}

/* Choose the samples of a step. Every round takes steps * batch samples, so the step's number
 * since the first round gives the place in the sequence of all passes. */
static void pick(fedtrain_batches *b, uint64_t step) {
    const fedtrain_job *job = b->job;
    uint64_t position = step * job->batch;
    for (size_t i = 0; i < job->batch; i++, position++) {
        const uint64_t pass = position / job->shard->count;
        if (pass != b->pass) {
            shuffle(b, pass);
        }
        job->net->index[i] = b->order[position % job->shard->count];
    }
}

/* Each step has its own random numbers, so no state of a generator is kept between steps. */
static void gather(const fedtrain_job *job, uint64_t step) {
    fedtrain_net *net = job->net;
    if (!is_augmented(job)) {
        fedtrain_gather(net, job->set, job->batch);
        return;
    }
    fed_rng rng;
    fed_rng_init(&rng, job->seed ^ AUGMENT_SEED, job->client, (uint32_t)step);
    fedtrain_dataset_gather_augmented(job->set, &job->augment, &rng, net->index, job->batch, net->x,
                                      net->label);
}

void fedtrain_batches_next(fedtrain_batches *batches, size_t step, fedtrain_batch *batch) {
    const fedtrain_job *job = batches->job;
    const uint64_t all = (uint64_t)job->round * job->steps + step; /* steps since round 0 */
    if (is_text(job)) {
        fedtrain_text_gather(job, step);
    } else {
        pick(batches, all);
        gather(job, all);
    }
    *batch = (fedtrain_batch){.size = job->batch,
                              .x = job->net->x,
                              .label = job->net->label,
                              .target = job->net->target,
                              .seed = job->seed ^ ((uint64_t)job->client << 32) ^ all};
}
