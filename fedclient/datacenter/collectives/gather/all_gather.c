/* Collective gather: each worker sends its message to all others, and sums all messages in the
 * order of ranks. So a gradient's value is coded only once. Gather is for small messages,
 * because each of N workers gets N - 1 of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedclient/datacenter/buffers.h"
#include "fedclient/datacenter/inputs.h"

typedef struct gather_bucket {
    feddc_turn turn;
    feddc_inputs in;
    bool summing;
    const float *x;
    feddc_buffer *own; /* the message made of x: coded, rounded or copied; NULL: x itself */
} gather_bucket;

typedef struct gather {
    feddc_collective_job job;
    feddc_buffers buffers;
    gather_bucket *bucket;
} gather;

/* Where NICs round what ranks send, this rank also adds its own gradient rounded. Otherwise its sum
 * would differ from the others'. */
static fed_status encode(gather *g, gather_bucket *b, fed_error *err) {
    const bool rounds = feddc_nic_rounds(&g->job, b->turn.plain);
    const bool raw = feddc_coder_is_raw(g->job.push, b->turn.shard, b->turn.plain);
    if (feddc_coder_lends(g->job.push, b->turn.shard, b->turn.plain) && !rounds) {
        return FED_OK;
    }
    feddc_buffer *buffer = feddc_buffers_get(&g->buffers);
    if (buffer == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a message of %zu bytes",
                        g->buffers.size);
    }
    /* one use for the send to each other rank, and one for this rank's own sum */
    buffer->uses = g->job.ranks;
    b->own = buffer;
    if (rounds) {
        buffer->len = b->turn.shard->n * sizeof *b->x;
        feddc_round(&g->job, &b->turn, b->x, (float *)(void *)buffer->data);
        return FED_OK;
    }
    uint64_t begin = feddc_engine_ns();
    FED_TRY(feddc_coder_encode(g->job.push, b->turn.shard, b->turn.plain, b->x, buffer->data,
                               &buffer->len, err));
    feddc_engine_spent(g->job.engine, raw ? FEDDC_COPY : FEDDC_ENCODE, b->turn.step, b->turn.bucket,
                       buffer->len, begin);
    return FED_OK;
}

static const void *message(const gather_bucket *b, size_t *len) {
    *len = b->own != NULL ? b->own->len : b->turn.shard->n * sizeof *b->x;
    return b->own != NULL ? b->own->data : (const void *)b->x;
}

static fed_status send_to_all(gather *g, gather_bucket *b, fed_error *err) {
    feddc_head head = {.flags = feddc_flags(&g->job, g->job.push, b->turn.shard, b->turn.plain),
                       .bucket = b->turn.bucket,
                       .step = b->turn.step};
    size_t len;
    const void *data = message(b, &len);
    for (uint32_t k = 1; k < g->job.ranks; k++) {
        FED_TRY(feddc_engine_send(g->job.engine, (g->job.rank + k) % g->job.ranks, &head, data, len,
                                  feddc_token_of_buffer(b->own), err));
    }
    return FED_OK;
}

static fed_status advance(gather *g, gather_bucket *b, fed_error *err) {
    if (!b->summing) {
        return FED_OK;
    }
    size_t len;
    const bool raw = feddc_coder_is_raw(g->job.push, b->turn.shard, b->turn.plain);
    const void *sent = message(b, &len);
    /* this rank adds its gradient rounded or coded, if the other ranks get it so */
    const void *own = raw && !feddc_nic_rounds(&g->job, b->turn.plain) ? b->x : sent;
    float *sum = g->job.sum + b->turn.shard->offset;
    FED_TRY(feddc_inputs_add(&b->in, &g->job, &b->turn, own, len, raw, sum, err));
    if (b->in.added == b->in.count) {
        b->summing = false;
        if (b->own != NULL) {
            feddc_buffers_put(&g->buffers, b->own);
        }
        feddc_engine_done(g->job.engine, b->turn.step, b->turn.bucket, 0, sum);
    }
    return FED_OK;
}

static fed_status begin(void *self, uint32_t step, uint32_t bucket, const float *grad, bool plain,
                        fed_error *err) {
    gather *g = self;
    gather_bucket *b = &g->bucket[bucket];
    b->turn.step = step;
    b->turn.plain = plain;
    b->in.added = 0;
    b->summing = true;
    b->x = grad;
    b->own = NULL;
    FED_TRY(encode(g, b, err));
    FED_TRY(send_to_all(g, b, err));
    return advance(g, b, err);
}

static fed_status arrived(void *self, const feddc_event *event, fed_error *err) {
    gather *g = self;
    gather_bucket *b = &g->bucket[event->head.bucket];
    FED_TRY(feddc_inputs_keep(&b->in, event, err));
    return advance(g, b, err);
}

static fed_status sent(void *self, uint64_t token, fed_error *err) {
    gather *g = self;
    (void)err;
    if (token != FEDDC_TOKEN_NOTHING) {
        feddc_buffers_put(&g->buffers, feddc_token_buffer(token));
    }
    return FED_OK;
}

static uint32_t waits_for(const void *self, uint32_t bucket) {
    const gather *g = self;
    const gather_bucket *b = &g->bucket[bucket];
    uint32_t rank = b->summing ? feddc_inputs_missing(&b->in) : UINT32_MAX;
    return rank != g->job.rank ? rank : UINT32_MAX;
}

static void close_gather(void *self) {
    gather *g = self;
    for (uint32_t k = 0; g->bucket != NULL && k < g->job.plan->buckets; k++) {
        feddc_inputs_free(&g->bucket[k].in);
    }
    feddc_buffers_free(&g->buffers);
    free(g->bucket);
    free(g);
}

static fed_status make_buckets(gather *g, uint32_t *rank) {
    const feddc_plan *plan = g->job.plan;
    g->bucket = calloc(plan->buckets, sizeof *g->bucket);
    if (g->bucket == NULL || rank == NULL) {
        return FED_ENOMEM;
    }
    for (uint32_t r = 0; r < g->job.ranks; r++) {
        rank[r] = r;
    }
    for (uint32_t k = 0; k < plan->buckets; k++) {
        gather_bucket *b = &g->bucket[k];
        b->turn = (feddc_turn){.shard = feddc_plan_shard(plan, k, 0), .bucket = k};
        size_t bound = feddc_coder_bound(g->job.push, b->turn.shard);
        g->buffers.size = bound > g->buffers.size ? bound : g->buffers.size;
        FED_TRY(feddc_inputs_make(&b->in, rank, g->job.ranks));
    }
    return FED_OK;
}

static fed_status open_gather(const feddc_collective_job *job, void **self, fed_error *err) {
    const char *pull = fedcodec_name(feddc_coder_codec(job->pull)->vtable);
    if (strcmp(pull, "float32") != 0) {
        return fed_fail(
            err, FED_EINVAL,
            "the collective gather sends no sums that %s could code: leave the pull codec out",
            pull);
    }
    gather *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a collective");
    }
    g->job = *job;
    g->buffers.gpu = job->values->gpu;
    uint32_t *rank = malloc(job->ranks * sizeof *rank);
    fed_status status = make_buckets(g, rank);
    free(rank);
    if (status != FED_OK) {
        close_gather(g);
        return fed_fail(err, FED_ENOMEM, "out of memory for the sums of %u buckets",
                        job->plan->buckets);
    }
    *self = g;
    return FED_OK;
}

static const fed_param params[] = {{.key = NULL}};

const feddc_collective_vtable feddc_collective_gather = {
    .id = 3,
    .name = "gather",
    .about = "each worker's message goes to all: one rounding, for the smallest messages",
    .params = params,
    .open = open_gather,
    .begin = begin,
    .arrived = arrived,
    .sent = sent,
    .waits_for = waits_for,
    .close = close_gather,
};
