/* Writes metrics in the text format of Prometheus, also the metrics that every process has. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_METRICS_H
#define FEDSERVER_METRICS_H

#include "fedserver/server.h"

/** Write a metric's two comment lines; the caller writes the values after them. */
void fedserver_metric_head(fed_writer *w, const char *name, const char *type, const char *help);
void fedserver_metric_counter(fed_writer *w, const char *name, const char *help, uint64_t value);
void fedserver_metric_gauge(fed_writer *w, const char *name, const char *help, double value);

/** Count a device or worker by the word before the colon in computes_on; "": a processor. Unknown
 * words count as "other", because each new word would be a new series of the metric. */
enum { FEDSERVER_COMPUTERS = 4 };
void fedserver_metric_computer(uint64_t counts[FEDSERVER_COMPUTERS], const char *computes_on);
/** Write the gauge of these counts, with the label on="processor", "opencl", "cuda" or "other". */
void fedserver_metric_computers(fed_writer *w, const char *name, const char *help,
                                const uint64_t counts[FEDSERVER_COMPUTERS]);

/** Write the histogram of how long rounds took. */
void fedserver_metrics_rounds(fed_writer *w, const fedserver_counters *counters);

/** Write the metrics of worker groups. */
void fedserver_worker_groups_metrics(fedserver *server, int64_t now_ms, fed_writer *w);

/** Write metrics of this process, such as its CPU time, each name beginning with prefix. */
void fedserver_metrics_process(const fedserver *server, const char *prefix, fed_writer *w);

/** Write metrics of the build and of the directory: free bytes, and when certificates expire. */
void fedserver_metrics_place(const fedserver *server, fed_writer *w);

/** Write what a coordinator tells of itself among those that share its store: whether it leads, in
 * which term, and at the leader how many there are. */
void fedserver_metrics_cluster(const fedserver *server, fed_writer *w);

/** Answer GET /metrics at a follower: with the metrics of this process, of its machine and of its
 * place among the coordinators. What counts tasks, devices and updates comes from the leader alone,
 * so that sums over all coordinators are right. */
fed_status fedserver_metrics_of_follower(const fedserver *server, fedserver_response *response,
                                         fed_error *err) FED_CHECKED;

/** The content type of an answer to GET /metrics. */
#define FEDSERVER_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/** At the front: append this process's metrics to those of the rounds' process in *response. */
fed_status fedserver_metrics_append(const fedserver *server, fedserver_response *response,
                                    fed_error *err) FED_CHECKED;

#endif
