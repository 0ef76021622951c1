/* Collective ring (INCEPTIONN, Algorithm 1, with its indices corrected): as many shards as ranks.
 * The partial sum of shard k starts at rank k, and each rank adds its gradient. Rank k - 1
 * completes the sum, which then goes round once more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/sum_relay.h"

static uint32_t shards(const double *param, uint32_t ranks) {
    (void)param;
    return ranks;
}

static void find_way(const feddc_collective_job *job, uint32_t bucket, uint32_t part,
                     feddc_way *way) {
    (void)bucket;
    uint32_t n = job->ranks, self = job->rank;
    uint32_t before = (self + n - 1) % n, after = (self + 1) % n, last = (part + n - 1) % n;
    if (self != part) {
        way->input[way->inputs++] = before;
    }
    way->input[way->inputs++] = self;
    way->up = self == last ? self : after;
    way->down = before;
    if (after != last) {
        way->out[way->outs++] = after;
    }
}

static fed_status open_ring(const feddc_collective_job *job, void **self, fed_error *err) {
    return feddc_relay_open(job, find_way, (feddc_relay **)self, err);
}

static const fed_param params[] = {{.key = NULL}};

const feddc_collective_vtable feddc_collective_ring = {
    .id = 2,
    .name = "ring",
    .about = "partial sums go round from rank to rank, then the sums (INCEPTIONN)",
    .params = params,
    .recodes = true,
    .shards = shards,
    .open = open_ring,
    .begin = feddc_relay_begin,
    .arrived = feddc_relay_arrived,
    .sent = feddc_relay_sent,
    .taken = feddc_relay_taken,
    .waits_for = feddc_relay_waits_for,
    .close = feddc_relay_close,
};
