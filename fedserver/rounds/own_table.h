/* Custom metrics, which devices report beside loss and accuracy, summed up by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OWN_TABLE_H
#define FEDSERVER_OWN_TABLE_H

#include "fed/own_metrics.h"
#include "fedserver/operator.h"

/** The end of a sentence that refuses a device's list of custom metrics. */
#define FEDSERVER_OWN_RULE                                                                         \
    "custom metrics are 1 to 16, each a name of 1 to 31 letters, digits, _, -, . and / that "      \
    "comes "                                                                                       \
    "once, and a finite number"

/** The custom metrics of a round's updates, or of one model's evaluations. An empty table is all
 * zeros. Its size is fixed, so hostile devices can't make it grow. Once it is full, values of
 * further names are dropped. */
typedef struct fedserver_own_table {
    uint32_t count;
    fedserver_own_metric rows[FEDSERVER_OWN_NAMES];
    uint64_t dropped;
} fedserver_own_table;

/** Add a summary of one metric's values, with at least one report and one sample. */
void fedserver_own_add(fedserver_own_table *table, const fedserver_own_metric *more);

/** Add the custom metrics that one device reports. samples: the number of samples of the device's
 * data, at least 1 */
void fedserver_own_count(fedserver_own_table *table, const fed_own_metrics *told, uint32_t samples);

#endif
