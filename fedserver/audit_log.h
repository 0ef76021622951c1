/* The audit log: who did what when, in the store and in the log. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_AUDIT_LOG_H
#define FEDSERVER_AUDIT_LOG_H

#include "fedserver/server.h"

/** Write a line to the audit log, and to the log: "enrolled device=1f2e3d4c...", at that level. It
 * is committed with what it is about. */
fed_status fedserver_audit(fedserver *server, fed_log_level level, int64_t now_ms,
                           const char *event, fed_error *err, const char *format, ...)
    FED_PRINTF(6, 7) FED_CHECKED;

/** Somebody was refused for that reason. Of many in a short time it says one in ten seconds, with
 * their number: strangers can't fill the disk. */
fed_status fedserver_audit_refusal(fedserver *server, int64_t now_ms, const char *reason,
                                   fed_error *err) FED_CHECKED;

#endif
