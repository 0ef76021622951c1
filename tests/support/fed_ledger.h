/* A ledger of every acknowledged update, and the models that must result from these updates. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LEDGER_H
#define FED_LEDGER_H

#include "fed/error.h"
#include "fed/model.h"
#include "fed/wire.h"

typedef struct fed_ledger_entry {
    uint32_t client;
    uint32_t round, weight; /* where and with which weight the update counted; at first its own
                               round, and 1 */
    fed_update head;
    uint8_t *body;
    size_t len, head_len;
} fed_ledger_entry;

typedef struct fed_ledger {
    fed_ledger_entry *entries;
    size_t count;
} fed_ledger;

void fed_ledger_free(fed_ledger *ledger);

/** Add an update that was acknowledged. An update that is in the ledger is not added again.
 * FED_ESTATE: the same lease has an update with other bytes in the ledger. */
fed_status fed_ledger_add(fed_ledger *ledger, uint32_t client, const uint8_t *body, size_t len,
                          fed_error *err) FED_CHECKED;

/** sum[layout->size] += all acknowledged updates of a device. */
fed_status fed_ledger_sum(const fed_ledger *ledger, const fed_layout *layout, uint32_t client,
                          double *sum, fed_error *err) FED_CHECKED;

/** Asynchronous rounds: note that an update counted in this round. FED_ENOTFOUND: the update was
 * not acknowledged. */
fed_status fed_ledger_place(fed_ledger *ledger, uint64_t lease, uint32_t round) FED_CHECKED;

/** How many updates that count in a round were acknowledged. */
size_t fed_ledger_round(const fed_ledger *ledger, uint32_t round);

/** values += the mean of a round's updates, plainly computed. This is the next version, where the
 * downlink's codec is float32. The updates are added in the order of the ledger, which must not
 * matter. */
fed_status fed_ledger_apply(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                            float *values, fed_error *err) FED_CHECKED;

/** values += the median of a round's updates, value by value. Of an even number of updates, it is
 * the mean of the two in the middle. */
fed_status fed_ledger_median(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                             float *values, fed_error *err) FED_CHECKED;

#endif
