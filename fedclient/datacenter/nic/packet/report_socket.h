/* The Unix socket from which people and Prometheus ask a running NIC for its report. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_REPORT_SOCKET_H
#define FEDNIC_REPORT_SOCKET_H

#include <poll.h>

#include "fednic/fednic.h"

/*
 * A client sends "table\n" or "prometheus\n", gets the text, and the connection ends. At most
 * FEDNIC_CLIENTS at once, two seconds each; nothing here blocks.
 */
enum { FEDNIC_CLIENTS = 4, FEDNIC_REPORT_POLLS = FEDNIC_CLIENTS + 1 };

typedef struct fednic_reports fednic_reports;

/** Writes the report as it is now. */
typedef void fednic_report_now(void *user, fednic_format format, fed_writer *text);

/** Errors: FED_EBUSY another NIC answers there; FED_EIO; FED_ENOMEM. */
fed_status fednic_reports_open(const char *path, fednic_reports **reports,
                               fed_error *err) FED_CHECKED;
void fednic_reports_close(fednic_reports *reports); /* NULL is allowed */

/** Fill polls[FEDNIC_REPORT_POLLS]. Returns in how many ms to serve at the latest; -1: any time. */
int fednic_reports_poll(const fednic_reports *reports, struct pollfd *polls);

/** Serve what poll has found. */
void fednic_reports_serve(fednic_reports *reports, const struct pollfd *polls, int64_t now_ms,
                          fednic_report_now *report, void *user);

#endif
