/* An edge aggregator's record of the rounds that it opened and closed last. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_EDGE_RECORD_H
#define FEDSERVER_EDGE_RECORD_H

#include <stdint.h>

#include "fed/error.h"

/** If all members are 0, nothing is recorded. */
typedef struct fedserver_edge_record {
    uint64_t upstream;
    uint64_t task; /* number of the edge aggregator's own task, which serves upstream's task */
    /* the round that was opened last, and the version of upstream's model that it trains */
    uint32_t open_round, open_version;
    /* The round that was closed last, the version that it trained, and the number of the training
     * (fedclient_round.number) in which the edge aggregator's device sends the round's change. Once
     * a training with a larger number begins, the change is in that device's residual. */
    uint32_t closed_round, closed_version;
    uint64_t closed_number;
    uint32_t closed_updates, closed_samples;
    float closed_loss;
} fedserver_edge_record;

/** Read the folder's file `site`; without it, the record is all 0. FED_EFORMAT: the file is
 * damaged. */
fed_status fedserver_edge_record_read(const char *folder, fedserver_edge_record *record,
                                      fed_error *err) FED_CHECKED;

/** Replace the file `site`. The new file survives a power loss. */
fed_status fedserver_edge_record_write(const char *folder, const fedserver_edge_record *record,
                                       fed_error *err) FED_CHECKED;

#endif
