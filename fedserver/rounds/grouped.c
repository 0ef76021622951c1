/* The form `grouped` of updates: masked ones, which are summed in groups when the round closes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/grouped.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fedserver/privacy/grouping.h"
#include "fedserver/rounds/masked.h"
#include "fedserver/rounds/openings.h"
#include "fedserver/rounds/stored.h"
#include "fedserver/stores/stores.h"
#include "fedserver/task/private_task.h"

/* A round on its way to a change of the model. */
typedef struct round_of_groups {
    fedserver_rounds *rounds;
    fedserver_training *t;
    const fedcodec_ring *ring;
    uint32_t groups;
    uint32_t *group;                      /* [t->sum.updates]: of each contribution */
    uint32_t size[FEDSERVER_GROUPS_MOST]; /* devices of each group */
    uint32_t *sums;                       /* [groups][fields] */
    bool worst[FEDSERVER_GROUPS_MOST];
    fedserver_rows rows; /* the means of the groups that are not left out */
} round_of_groups;

/* Deal the devices of the set out. */
static fed_status deal(round_of_groups *r, fed_error *err) {
    fedserver_training *t = r->t;
    const uint32_t count = t->sum.updates;
    fed_private_terms terms;
    uint8_t(*names)[FED_SHA256_SIZE] = calloc(count, sizeof *names);
    fed_status status =
        names != NULL ? FED_OK : fed_fail(err, FED_ENOMEM, "out of memory for a round's groups");
    for (uint32_t k = 0; k < count && status == FED_OK; k++) {
        fedserver_device device;
        status = fedserver_store_device(r->rounds->store, r->rounds->db,
                                        t->sum.contributions[k].device, &device, err);
        if (status == FED_OK) {
            memcpy(names[k], device.fingerprint, sizeof names[k]);
        }
    }
    fedserver_openings_terms(t, &terms);
    fedserver_grouping which = {.task = terms.task, .round = terms.round, .groups = r->groups};
    memcpy(which.model, terms.model, sizeof which.model);
    if (status == FED_OK && fedserver_grouping_deal(&which, names, count, r->group) != FED_OK) {
        status = fed_fail(err, FED_ENOMEM, "out of memory for a round's groups");
    }
    for (uint32_t k = 0; k < count && status == FED_OK; k++) {
        r->size[r->group[k]]++;
    }
    free(names);
    return status;
}

typedef struct adding {
    const round_of_groups *of;
    uint32_t number;
} adding;

static fed_status add_stored(void *user, const fedserver_update_row *row,
                             const fedserver_update *update, fed_error *err) {
    adding *a = user;
    const round_of_groups *r = a->of;
    const fedserver_sum *sum = &r->t->sum;
    const uint32_t number = a->number++;
    (void)row;
    (void)err;
    /* S4 in docs/durability.md: the store returns updates in the order of the contributions. */
    assert(number < sum->updates && sum->contributions[number].device == row->device);
    fedcodec_ring_add(r->ring, fedserver_masked_fields(update, sum->shape.bytes),
                      r->sums + (size_t)r->group[number] * sum->shape.fields);
    return FED_OK;
}

/* D1 in docs/durability.md: no counted update is missing in the groups, and none is twice. */
static bool add_up(const round_of_groups *r) {
    const size_t fields = r->ring->shape.fields;
    bool same = true;
    for (size_t i = 0; i < fields; i++) {
        uint32_t all = 0;
        for (uint32_t g = 0; g < r->groups; g++) {
            all += r->sums[g * fields + i];
        }
        same &= all == r->t->sum.fields[i];
    }
    return same;
}

static fed_status sum_groups(const round_of_groups *r, fed_error *err) {
    adding a = {.of = r};
    FED_TRY(fedserver_stored_each(r->rounds, r->t, r->t->round.number, add_stored, &a, err));
    if (a.number != r->t->sum.updates || !add_up(r)) {
        return fed_fail(err, FED_EFORMAT,
                        "the stored updates of task %llu are not those that were counted; restore "
                        "the database from a backup",
                        (unsigned long long)r->t->task.wire.id);
    }
    return fedserver_masked_open(r->rounds, r->t, r->ring, r->sums, err);
}

/* Add the mean of a group as a row, or leave the group out. */
static fed_status add_mean(round_of_groups *r, uint32_t g, fedserver_weights *weights, float *mean,
                           fed_error *err) {
    const fedserver_training *t = r->t;
    uint32_t *sums = r->sums + (size_t)g * r->ring->shape.fields;
    const fed_privacy told = fedserver_privacy_of(&t->task, &t->arch.layout);
    const double length = fedcodec_ring_sums(r->ring, sums);
    const double longest =
        fedserver_masked_longest(r->ring, r->size[g], fedserver_masked_noise(&told));
    if (length > longest) {
        weights->length = length;
        weights->longest = longest;
        weights->lost += r->size[g];
        r->worst[g] = true;
        return FED_OK;
    }
    /* A divisor that follows from the data would say something of it. */
    const double divisor = fedserver_task_promises(&t->task)
                               ? (double)t->task.rules.goal / (double)r->groups
                               : (double)r->size[g];
    fedcodec_ring_change(r->ring, sums, divisor, mean);
    return fedserver_rows_add(&r->rows, g, 0, mean, err);
}

/* The squared distance of each row from the combined vector. */
typedef struct distances {
    const float *change;
    size_t count;
    double squared[FEDSERVER_GROUPS_MOST];
} distances;

static void measure(void *user, float *block, size_t first, size_t width) {
    distances *d = user;
    for (size_t k = 0; k < d->count; k++) {
        for (size_t i = 0; i < width; i++) {
            const double off = (double)block[k * width + i] - (double)d->change[first + i];
            d->squared[k] += off * off;
        }
    }
}

/* Find the group whose mean is furthest from the change, unless a group was left out. With fewer
 * than three there is no middle to be far from. */
static fed_status find_worst(round_of_groups *r, const float *change, fed_error *err) {
    enum { FEWEST = 3 };
    distances d = {.change = change, .count = r->rows.count};
    if (d.count < r->groups || d.count < FEWEST) {
        return FED_OK;
    }
    FED_TRY(fedserver_rows_each(&r->rows, measure, &d, err));
    size_t far = 0;
    for (size_t k = 1; k < d.count; k++) {
        far = d.squared[k] > d.squared[far] ? k : far;
    }
    r->worst[r->rows.row[far].device] = true;
    return FED_OK;
}

static fed_status combine_means(round_of_groups *r, fedserver_weights *weights, float *change,
                                fed_error *err) {
    const fedserver_strategy_half *half = &r->t->strategy.combine;
    for (uint32_t g = 0; g < r->groups; g++) {
        FED_TRY(add_mean(r, g, weights, change, err));
    }
    if (r->rows.count == 0) {
        memset(change, 0, r->t->arch.layout.size * sizeof *change);
        return FED_OK;
    }
    FED_TRY(half->vtable->combine(half->param, &r->rows, change, err));
    return find_worst(r, change, err);
}

static fed_status name_worst(const round_of_groups *r, fedserver_weights *weights, fed_error *err) {
    const fedserver_sum *sum = &r->t->sum;
    weights->worst = malloc(sum->updates * sizeof *weights->worst);
    if (weights->worst == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the devices of a group");
    }
    for (uint32_t k = 0; k < sum->updates; k++) {
        if (r->worst[r->group[k]]) {
            weights->worst[weights->worst_count++] = sum->contributions[k].device;
        }
    }
    return FED_OK;
}

static fed_status combine_groups(round_of_groups *r, fedserver_weights *weights, float *change,
                                 fed_error *err) {
    FED_TRY(deal(r, err));
    FED_TRY(sum_groups(r, err));
    FED_TRY(fedserver_rows_open(&r->rows, r->rounds->directory, r->t->arch.layout.size, err));
    r->rows.stop = r->rounds->stop;
    r->rows.task = r->t->task.wire.id;
    r->rows.round = r->t->round.number;
    fed_status status = combine_means(r, weights, change, err);
    fedserver_rows_close(&r->rows);
    return status == FED_OK ? name_worst(r, weights, err) : status;
}

static fed_status combine(fedserver_rounds *rounds, fedserver_training *t,
                          fedserver_weights *weights, float *change, fed_error *err) {
    bool refold = false;
    const double no_limit = 1;
    FED_TRY(fedserver_sum_settle(&t->sum, no_limit, weights, &refold, err));
    /* D3 in docs/durability.md: each update counts once, whatever its device claims. */
    assert(!refold && weights->weight == t->sum.updates && t->sum.fields != NULL);
    /* S5 in docs/durability.md: the settled set has enough devices for all groups. */
    assert(t->sum.updates >= fedserver_round_least(&t->task.rules));
    const fedcodec_ring ring = fedserver_masked_ring(&t->task, &t->arch.layout, t->round.number);
    round_of_groups r = {
        .rounds = rounds, .t = t, .ring = &ring, .groups = fedserver_task_groups(&t->task)};
    r.group = calloc(t->sum.updates, sizeof *r.group);
    r.sums = calloc(r.groups * ring.shape.fields, sizeof *r.sums);
    const fed_status status =
        r.group != NULL && r.sums != NULL
            ? combine_groups(&r, weights, change, err)
            : fed_fail(err, FED_ENOMEM, "out of memory for the sums of %u groups", r.groups);
    free(r.sums);
    free(r.group);
    return status;
}

static bool takes(const fedserver_task *task) {
    return fedserver_task_is_private(task) && fedserver_task_groups(task) > 1;
}

const fedserver_intake fedserver_intake_grouped = {
    .name = "grouped",
    .takes = takes,
    .most_bytes = fedserver_masked_most_bytes,
    .open = fedserver_masked_check,
    .drop = fedserver_masked_drop,
    .add = fedserver_masked_add,
    .combine = combine,
};
