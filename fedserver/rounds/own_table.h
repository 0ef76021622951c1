/* What devices report beside loss and accuracy, summed up by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OWN_TABLE_H
#define FEDSERVER_OWN_TABLE_H

#include "fed/own_metrics.h"
#include "fedserver/operator.h"

/** What a list of a device must be: the end of a sentence that refuses another one. */
#define FEDSERVER_OWN_RULE                                                                         \
    "custom metrics are 1 to 16, each a name of 1 to 31 letters, digits, _, -, . and / that "      \
    "comes "                                                                                       \
    "once, and a finite number"

/** The metrics of a round's updates, or of one model's evaluations. All 0 at first. Its size is
 * fixed, so hostile devices can't make it grow: values of a name that finds no room are dropped. */
typedef struct fedserver_own_table {
    uint32_t count;
    fedserver_own_metric rows[FEDSERVER_OWN_NAMES]; /* in the order of their names */
    uint64_t dropped;                               /* values that found no room */
} fedserver_own_table;

/** Add what others have summed up. `more` has at least one report and one sample. */
void fedserver_own_add(fedserver_own_table *table, const fedserver_own_metric *more);

/** Add what one device reports.   samples: of its data; at least 1 */
void fedserver_own_count(fedserver_own_table *table, const fed_own_metrics *told, uint32_t samples);

#endif
