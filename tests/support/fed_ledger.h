/* Every update that was acknowledged, kept by the test; and the models that must come of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LEDGER_H
#define FED_LEDGER_H

#include "fed/error.h"
#include "fed/model.h"
#include "fed/wire.h"

typedef struct fed_ledger_entry {
    uint32_t client;
    uint32_t round, weight; /* it counted in, and with; at first its own round, and 1 */
    fed_update head;
    uint8_t *body;
    size_t len, head_len;
} fed_ledger_entry;

typedef struct fed_ledger {
    fed_ledger_entry *entries;
    size_t count;
} fed_ledger;

void fed_ledger_free(fed_ledger *ledger);

/** An update was acknowledged. One that is in the ledger is not added again; FED_ESTATE, where the
 * same lease came with other bytes. */
fed_status fed_ledger_add(fed_ledger *ledger, uint32_t client, const uint8_t *body, size_t len,
                          fed_error *err) FED_CHECKED;

/** sum[layout->size] += what was acknowledged of a device's. */
fed_status fed_ledger_sum(const fed_ledger *ledger, const fed_layout *layout, uint32_t client,
                          double *sum, fed_error *err) FED_CHECKED;

/** Asynchronous: an update counted in that round. FED_ENOTFOUND: it was not acknowledged. */
fed_status fed_ledger_place(fed_ledger *ledger, uint64_t lease, uint32_t round) FED_CHECKED;

/** How many updates that count in a round were acknowledged. */
size_t fed_ledger_round(const fed_ledger *ledger, uint32_t round);

/** values += the mean of a round's updates, plainly computed: the next version, where the
 * downlink's codec is float32. In the order in which they are held, which must not matter. */
fed_status fed_ledger_apply(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                            float *values, fed_error *err) FED_CHECKED;

#endif
