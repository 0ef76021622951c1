/* Collective tree: groups of neighbouring ranks sum first (INCEPTIONN, figure 1 b and c). A shard
 * has an owner in each group, which adds its group's gradients. One of the owners then adds the
 * groups' sums. So a shard leaves a group at most once and returns at most once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/sum_relay.h"

static uint32_t shards(const double *param, uint32_t ranks) {
    uint32_t group = (uint32_t)param[0];
    return group < ranks ? group : ranks;
}

/* Ranks first .. first + count - 1, and the one of them that owns the shard. */
typedef struct group {
    uint32_t first, count, owner;
} group;

static group group_at(const feddc_collective_job *job, uint32_t q, uint32_t part) {
    uint32_t size = job->plan->shards, first = q * size;
    uint32_t rest = first < job->ranks ? job->ranks - first : 0;
    uint32_t count = rest < size ? rest : size;
    return (group){first, count, first + (count > 0 ? part % count : 0)};
}

static void find_way(const feddc_collective_job *job, uint32_t bucket, uint32_t part,
                     feddc_way *way) {
    uint32_t size = job->plan->shards, groups = (job->ranks + size - 1) / size;
    group own = group_at(job, job->rank / size, part);
    uint32_t top = group_at(job, (bucket + part) % groups, part).owner;
    if (job->rank != own.owner) {
        way->input[way->inputs++] = job->rank;
        way->up = way->down = own.owner;
        return;
    }
    for (uint32_t k = 0; k < own.count; k++) {
        way->input[way->inputs++] = own.first + k;
    }
    way->up = way->down = top;
    for (uint32_t q = 0; job->rank == top && q < groups; q++) {
        uint32_t other = group_at(job, q, part).owner;
        if (other != top) {
            way->input[way->inputs++] = other;
            way->out[way->outs++] = other;
        }
    }
    for (uint32_t k = 0; k < own.count; k++) {
        if (own.first + k != job->rank) {
            way->out[way->outs++] = own.first + k;
        }
    }
}

static fed_status open_tree(const feddc_collective_job *job, void **self, fed_error *err) {
    return feddc_relay_open(job, find_way, (feddc_relay **)self, err);
}

static const fed_param params[] = {{.key = "group",
                                    .preset = 4,
                                    .low = 1,
                                    .high = FEDDC_RANKS,
                                    .help = "ranks of a group: those of one host, or of one switch",
                                    .whole = true},
                                   {.key = NULL}};

const feddc_collective_vtable feddc_collective_tree = {
    .id = 4,
    .name = "tree",
    .about = "groups of ranks sum first, then owners sum the groups; tree:group=4",
    .params = params,
    .recodes = true,
    .shards = shards,
    .open = open_tree,
    .begin = feddc_relay_begin,
    .arrived = feddc_relay_arrived,
    .sent = feddc_relay_sent,
    .taken = feddc_relay_taken,
    .waits_for = feddc_relay_waits_for,
    .close = feddc_relay_close,
};
