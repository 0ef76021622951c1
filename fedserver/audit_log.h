/* The audit log: which person or device did what, and when, in the store and in the log. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_AUDIT_LOG_H
#define FEDSERVER_AUDIT_LOG_H

#include "fedserver/server.h"

/** Write a line to the audit log, and to the log at that level: "enrolled device=1f2e3d4c...".
 * The line is committed together with the change that it describes. */
fed_status fedserver_audit(fedserver *server, fed_log_level level, int64_t now_ms,
                           const char *event, fed_error *err, const char *format, ...)
    FED_PRINTF(6, 7) FED_CHECKED;

/** Count a refused request. Unless there was a line about refusals within ten seconds, write one to
 * both logs: the number of refusals since the last line, and the reason of this one. While reason
 * and visitor stay the same, the time doubles up to an hour. So strangers can't fill the disk, and
 * a program with a revoked pass does not push other rows out. */
fed_status fedserver_audit_refusal(fedserver *server, int64_t now_ms, const char *reason,
                                   fed_error *err) FED_CHECKED;

#endif
