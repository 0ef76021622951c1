/* The Unix socket from which people and Prometheus ask a running NIC for its report. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_REPORT_SOCKET_H
#define FEDNIC_REPORT_SOCKET_H

#include <poll.h>

#include "fednic/fednic.h"

/* A client sends "table\n" or "prometheus\n" and gets the text; then the connection is closed. At
 * most FEDNIC_CLIENTS clients are served at once, each for about two seconds at most. The NIC never
 * blocks. */
enum { FEDNIC_CLIENTS = 4, FEDNIC_REPORT_POLLS = FEDNIC_CLIENTS + 1 };

typedef struct fednic_reports fednic_reports;

/** Appends the current report to text. */
typedef void fednic_report_now(void *user, fednic_format format, fed_writer *text);

/** Errors: FED_EINVAL the path is too long; FED_EBUSY a NIC answers there; FED_EIO; FED_ENOMEM */
fed_status fednic_reports_open(const char *path, fednic_reports **reports,
                               fed_error *err) FED_CHECKED;
void fednic_reports_close(fednic_reports *reports); /* NULL is allowed */

/** Fill polls[FEDNIC_REPORT_POLLS]. Returns the ms until fednic_reports_serve must be called; -1:
 * only when poll reports something. */
int fednic_reports_poll(const fednic_reports *reports, struct pollfd *polls);

/** Serve the clients that poll reports, accept a new one, and drop those whose time is over. */
void fednic_reports_serve(fednic_reports *reports, const struct pollfd *polls, int64_t now_ms,
                          fednic_report_now *report, void *user);

#endif
