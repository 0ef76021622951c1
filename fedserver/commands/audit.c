/* The command audit: lists who did what, and when. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "fedserver/commands/command.h"

/* Read "2026-01-31" or "2026-01-31T12:00:00Z" as UTC. False: the text is neither. */
static bool read_time(const char *text, int64_t *ms) {
    int year, month, date, hour = 0, minute = 0, second = 0, end = 0, end_of_day = 0;
    /* NOLINTNEXTLINE(cert-err34-c): no field is wide enough to be out of range */
    const int fields = sscanf(text, "%4d-%2d-%2d%nT%2d:%2d:%2dZ%n", &year, &month, &date,
                              &end_of_day, &hour, &minute, &second, &end);
    const bool day = fields == 3 && text[end_of_day] == '\0';
    if ((!day && (fields != 6 || end == 0 || text[end] != '\0')) || year < 1970 || month < 1 ||
        month > 12 || date < 1 || date > 31) {
        return false;
    }
    /* Days since 1970-01-01. Here years begin in March, so that a leap day comes last. */
    const int64_t y = year - (month <= 2);
    const int64_t m = month + (month <= 2 ? 9 : -3);
    const int64_t days =
        y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + date - 1 - 719468;
    *ms = ((days * 24 + hour) * 60 + minute) * 60000 + second * 1000;
    return true;
}

static fed_status print_line(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    char time[32];
    (void)user, (void)err;
    command_time(entry->at_ms, time);
    printf("%s %s %s\n", time, entry->event, entry->detail);
    return FED_OK;
}

static fed_status print_json(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    return command_json_item(user,
                             json_pack("{s:I, s:s, s:s}", "at_ms", (json_int_t)entry->at_ms,
                                       "event", entry->event, "detail", entry->detail),
                             err);
}

static fed_status list_audit(fedserver *server, const arguments *args, fed_error *err) {
    int64_t since_ms = 0;
    size_t count = 0;
    if (args->since != NULL && !read_time(args->since, &since_ms)) {
        return fed_fail(
            err, FED_EINVAL,
            "--since takes a day, 2026-01-31, or a time, 2026-01-31T12:00:00Z, not \"%s\"",
            args->since);
    }
    FED_TRY(
        fedserver_audit_each(server, since_ms, args->json ? print_json : print_line, &count, err));
    command_list_end(args, count, NULL);
    return FED_OK;
}

const command command_audit = {
    .name = "audit",
    .work = list_audit,
    .options = "since json",
    .brief = "who did what when",
    .help =
        "usage: fedserver audit --dir DIR [--since TIME] [--json]\n"
        "List the newest 100,000 of: enrolments, renewals, refusals, revocations, names, tokens,\n"
        "tasks, logins, links to the page. What a command did ends with its user: uid=0.\n"
        "  --since TIME   2026-01-31 or 2026-01-31T12:00:00Z (UTC)\n"
        "  --json         a list of objects: at_ms, event, detail\n"};
