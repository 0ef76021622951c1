/* What an edge aggregator remembers beside its store: which round went up under which number. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_EDGE_RECORD_H
#define FEDSERVER_EDGE_RECORD_H

#include <stdint.h>

#include "fed/error.h"

/** All 0: nothing. */
typedef struct fedserver_edge_record {
    uint64_t upstream; /* upstream's task */
    uint64_t task;     /* the edge aggregator's task for it */
    /* the round that was opened last, and the version of upstream's that it trains */
    uint32_t open_round, open_version;
    /* The round that was closed last, its version, and the number under which it goes up. Its
     * change is stored upstream's side, in the device's residual, once a larger number comes. */
    uint32_t closed_round, closed_version;
    uint64_t closed_number;
    uint32_t closed_updates, closed_samples;
    float closed_loss;
} fedserver_edge_record;

/** Read the file "edge aggregator" of the folder. Without the file the record is all 0.
 * FED_EFORMAT. */
fed_status fedserver_edge_record_read(const char *folder, fedserver_edge_record *record,
                                      fed_error *err) FED_CHECKED;

/** Replace the file, so that the new one survives power loss. */
fed_status fedserver_edge_record_write(const char *folder, const fedserver_edge_record *record,
                                       fed_error *err) FED_CHECKED;

#endif
