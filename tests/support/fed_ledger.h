/* A ledger of all acknowledged updates, from which the coordinator's models follow. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LEDGER_H
#define FED_LEDGER_H

#include "fed/error.h"
#include "fed/model.h"
#include "fed/wire.h"

typedef struct fed_ledger_entry {
    uint32_t client;
    uint32_t round, weight; /* the round in which the update counted, and its weight; until
                               fed_ledger_place, the round it was trained for, and 1 */
    fed_update head;
    uint8_t *body;
    size_t len, head_len;
} fed_ledger_entry;

typedef struct fed_ledger {
    fed_ledger_entry *entries;
    size_t count;
} fed_ledger;

void fed_ledger_free(fed_ledger *ledger);

/** Add an acknowledged update, once. FED_ESTATE: an earlier update with this lease had other bytes.
 * */
fed_status fed_ledger_add(fed_ledger *ledger, uint32_t client, const uint8_t *body, size_t len,
                          fed_error *err) FED_CHECKED;

/** Add all acknowledged updates of a device to sum[layout->size]. */
fed_status fed_ledger_sum(const fed_ledger *ledger, const fed_layout *layout, uint32_t client,
                          double *sum, fed_error *err) FED_CHECKED;

/** For asynchronous rounds: note the round in which an update counted. FED_ENOTFOUND: the update
 * was not acknowledged. */
fed_status fed_ledger_place(fed_ledger *ledger, uint64_t lease, uint32_t round) FED_CHECKED;

/** Return how many acknowledged updates count in a round. */
size_t fed_ledger_round(const fed_ledger *ledger, uint32_t round);

/** Add the mean of a round's updates to `values`. Values are summed as integers, in units of 2^-30,
 * so the order of the updates does not matter. The result is the next version if the downlink's
 * codec is float32. */
fed_status fed_ledger_apply(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                            float *values, fed_error *err) FED_CHECKED;

/** Add the median of a round's updates, value by value, to `values`. For an even number it is the
 * mean of the two middle values. */
fed_status fed_ledger_median(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                             float *values, fed_error *err) FED_CHECKED;

#endif
