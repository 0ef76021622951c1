/* Metrics in the text format of Prometheus, and those that every process of the coordinator has. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_METRICS_H
#define FEDSERVER_METRICS_H

#include "fedserver/server.h"

/** A metric's two comment lines; its values follow. */
void fedserver_metric_head(fed_writer *w, const char *name, const char *type, const char *help);
void fedserver_metric_counter(fed_writer *w, const char *name, const char *help, uint64_t value);
void fedserver_metric_gauge(fed_writer *w, const char *name, const char *help, double value);

/** Add to the count of what one device or worker computes on, by the kind that its text begins
 * with; "": a processor. A device can name no kind of its own, since each would be a new series. */
enum { FEDSERVER_COMPUTERS = 4 };
void fedserver_metric_computer(uint64_t counts[FEDSERVER_COMPUTERS], const char *computes_on);
/** The gauge of these counts, labelled on="processor", "opencl", "cuda" or "other". */
void fedserver_metric_computers(fed_writer *w, const char *name, const char *help,
                                const uint64_t counts[FEDSERVER_COMPUTERS]);

/** The histogram of how long rounds took. */
void fedserver_metrics_rounds(fed_writer *w, const fedserver_counters *counters);

/** How many worker groups train now, and their workers by state. */
void fedserver_worker_groups_metrics(fedserver *server, int64_t now_ms, fed_writer *w);

/** Metrics of this process, each name beginning with prefix: answers by status, failed
 * handshakes by reason, CPU and memory. */
void fedserver_metrics_process(const fedserver *server, const char *prefix, fed_writer *w);

/** Metrics of the directory: free bytes and the certificates' end; and the build. */
void fedserver_metrics_place(const fedserver *server, fed_writer *w);

/** A front: append its custom metrics to those in `response`, which come from the other process. */
fed_status fedserver_metrics_append(const fedserver *server, fedserver_response *response,
                                    fed_error *err) FED_CHECKED;

#endif
