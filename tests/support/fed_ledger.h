/* A ledger of all acknowledged updates, and simple code for the models that follow from them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LEDGER_H
#define FED_LEDGER_H

#include "fed/error.h"
#include "fed/model.h"
#include "fed/wire.h"

typedef struct fed_ledger_entry {
    uint32_t client;
    uint32_t round, weight; /* set by fed_ledger_place; before: the update's own round, and 1 */
    fed_update head;
    uint8_t *body;
    size_t len, head_len;
} fed_ledger_entry;

typedef struct fed_ledger {
    fed_ledger_entry *entries;
    size_t count;
} fed_ledger;

void fed_ledger_free(fed_ledger *ledger);

/** Add an acknowledged update, or a repetition of it. FED_ESTATE: the lease had another update. */
fed_status fed_ledger_add(fed_ledger *ledger, uint32_t client, const uint8_t *body, size_t len,
                          fed_error *err) FED_CHECKED;

/** Add all updates of a device to sum[layout->size]. */
fed_status fed_ledger_sum(const fed_ledger *ledger, const fed_layout *layout, uint32_t client,
                          double *sum, fed_error *err) FED_CHECKED;

/** For asynchronous rounds: set the round in which an update counted. FED_ENOTFOUND: no update has
 * this lease. */
fed_status fed_ledger_place(fed_ledger *ledger, uint64_t lease, uint32_t round) FED_CHECKED;

/** Return how many updates count in a round. */
size_t fed_ledger_round(const fed_ledger *ledger, uint32_t round);

/** Add the weighted mean of a round's updates to `values`. The result does not depend on the order
 * of the updates, as they are summed as integers in units of 2^-30. */
fed_status fed_ledger_apply(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                            float *values, fed_error *err) FED_CHECKED;

/** Add the median of a round's updates to `values`. The median of an even number of values is the
 * mean of the middle two. */
fed_status fed_ledger_median(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                             float *values, fed_error *err) FED_CHECKED;

#endif
