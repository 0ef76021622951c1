/* Writes the audit log: which person or device did what, and when, in the store and in the log. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fed/hash.h"
#include "fed/utf8.h"
#include "fedserver/audit_log.h"
#include "fedserver/server.h"

enum { REFUSALS_EVERY_MS = 10 * 1000, SAME_REFUSAL_MS = 3600 * 1000 };

void fedserver_act_for(fedserver *server, const char *by) {
    snprintf(server->actor, sizeof server->actor, "%s", by);
}

fed_status fedserver_audit(fedserver *server, fed_log_level level, int64_t now_ms,
                           const char *event, fed_error *err, const char *format, ...) {
    fedserver_audit_entry entry = {.at_ms = now_ms};
    va_list args;
    va_start(args, format);
    vsnprintf(entry.detail, sizeof entry.detail - sizeof server->actor, format, args);
    va_end(args);
    const size_t len = strlen(entry.detail);
    snprintf(entry.detail + len, sizeof entry.detail - len, "%s%s",
             server->actor[0] != '\0' ? " " : "", server->actor);
    fed_utf8_clean(entry.detail);
    snprintf(entry.event, sizeof entry.event, "%s", event);
    fed_logf(server->log, level, "%s %s", entry.event, entry.detail);
    return server->store->audit_add(server->db, &entry, err);
}

fed_status fedserver_audit_refusal(fedserver *server, int64_t now_ms, const char *reason,
                                   fed_error *err) {
    char what[200];
    snprintf(what, sizeof what, "%s %s", reason, server->actor);
    const uint64_t digest = fed_digest_bytes(what, strlen(what));
    const bool same = server->refusal_ms != 0 && digest == server->refusal;
    const int64_t wait_ms = same ? server->refusal_wait_ms : REFUSALS_EVERY_MS;
    server->refusals++;
    if (server->refusal_ms != 0 && now_ms >= server->refusal_ms &&
        now_ms - server->refusal_ms < wait_ms) {
        return FED_OK;
    }
    server->refusal = digest;
    server->refusal_wait_ms = !same                           ? REFUSALS_EVERY_MS
                              : 2 * wait_ms < SAME_REFUSAL_MS ? 2 * wait_ms
                                                              : SAME_REFUSAL_MS;
    const uint64_t count = server->refusals;
    server->refusals = 0;
    server->refusal_ms = now_ms;
    return fedserver_audit(server, FED_LOG_WARN, now_ms, "refused", err, "reason=%s count=%llu",
                           reason, (unsigned long long)count);
}

fed_status fedserver_audit_each(fedserver *server, int64_t since_ms, fedserver_audit_visit visit,
                                void *user, fed_error *err) {
    return server->store->audit_each(server->db, since_ms, visit, user, err);
}
