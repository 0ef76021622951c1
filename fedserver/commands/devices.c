/* The commands devices, rename and revoke: list devices, rename one, shut one out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "fed/clock.h"
#include "fedserver/commands/command.h"

static fed_status print_device(void *user, const fedserver_entry *entry, fed_error *err) {
    char seen[32], until[32];
    (void)err;
    ++*(size_t *)user;
    const bool shut_out = entry->revoked_ms != 0;
    command_time(entry->seen_ms, seen);
    command_time(shut_out ? entry->revoked_ms : entry->expires_ms, until);
    printf("%s  %-8s  seen %-20s  %s %s  ", entry->fingerprint, entry->state,
           entry->seen_ms != 0 ? seen : "never",
           shut_out                                   ? "revoked"
           : entry->expires_ms <= fed_clock_unix_ms() ? "expired"
                                                      : "expires",
           until);
    if (entry->cloned_ms != 0) {
        command_time(entry->cloned_ms, seen);
        printf("RUNS TWICE, seen %s  ", seen);
    }
    if (entry->declined_until_ms != 0) {
        command_time(entry->declined_until_ms, seen);
        printf("DECLINED A TASK until its next start, or until %s  ", seen);
    }
    printf("%s%s%s", fedserver_role_name(entry->role), entry->tag[0] != '\0' ? " " : "",
           entry->tag);
    if (entry->counted + entry->late + entry->refused > 0) {
        printf("  counted %llu late %llu refused %llu", (unsigned long long)entry->counted,
               (unsigned long long)entry->late, (unsigned long long)entry->refused);
    }
    if (entry->computes_on[0] != '\0') {
        printf("  on %s", entry->computes_on);
    }
    printf("%s%s%s%s\n", entry->software[0] != '\0' ? "  " : "", entry->software,
           entry->name[0] != '\0' ? "  " : "", entry->name);
    return FED_OK;
}

static fed_status print_json(void *user, const fedserver_entry *entry, fed_error *err) {
    json_t *item = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:o}",
        "name", entry->name, "fingerprint", entry->fingerprint, "state", entry->state, "role",
        fedserver_role_name(entry->role), "tag", entry->tag, "software", entry->software,
        "computes_on", entry->computes_on, "last_seen_ms", command_json_time(entry->seen_ms),
        "enrolled_ms", (json_int_t)entry->enrolled_ms, "expires_ms", (json_int_t)entry->expires_ms,
        "revoked_ms", command_json_time(entry->revoked_ms), "cloned_ms",
        command_json_time(entry->cloned_ms), "samples", (json_int_t)entry->samples, "counted",
        (json_int_t)entry->counted, "late", (json_int_t)entry->late, "refused",
        (json_int_t)entry->refused, "declined_until_ms",
        command_json_time(entry->declined_until_ms));
    return command_json_item(user, item, err);
}

static fed_status list_devices(fedserver *server, const arguments *args, fed_error *err) {
    size_t count = 0;
    FED_TRY(fedserver_device_each(server, fed_clock_unix_ms(),
                                  args->json ? print_json : print_device, &count, err));
    command_list_end(args, count,
                     "no device is enrolled yet; `fedserver token` makes a token for one");
    return FED_OK;
}

static fed_status rename_device(fedserver *server, const arguments *args, fed_error *err) {
    fedserver_entry entry;
    size_t count = 0;
    FED_TRY(fedserver_device_rename(server, fed_clock_unix_ms(), args->operands[0],
                                    args->operands[1], &entry, err));
    return print_device(&count, &entry, err);
}

static fed_status revoke_device(fedserver *server, const arguments *args, fed_error *err) {
    fedserver_entry entry;
    size_t count = 0;
    FED_TRY(fedserver_device_revoke(server, fed_clock_unix_ms(), args->operands[0], &entry, err));
    return print_device(&count, &entry, err);
}

const command command_devices = {
    .name = "devices",
    .work = list_devices,
    .options = "json",
    .brief = "list them",
    .help =
        "usage: fedserver devices --dir DIR [--json]\n"
        "List the devices: fingerprint, state, last seen, until when its certificate is good or\n"
        "when it was revoked (UTC), role and tag, its updates, what it computes on if not the\n"
        "processor, its software, its name.\n"
        "  --json   a list of objects; times are Unix milliseconds\n"};

const command command_rename = {
    .name = "rename",
    .work = rename_device,
    .operands = "FINGERPRINT NAME",
    .brief = "give a device another name",
    .help = "usage: fedserver rename --dir DIR FINGERPRINT NAME\n"
            "Call a device NAME: up to 63 bytes of printable UTF-8; \"\" takes its name away.\n"
            "FINGERPRINT may be cut to its first 8 digits or more.\n"};

const command command_revoke = {
    .name = "revoke",
    .work = revoke_device,
    .operands = "FINGERPRINT",
    .brief = "shut a device out",
    .help = "usage: fedserver revoke --dir DIR FINGERPRINT\n"
            "Shut a device out, from its next request on. Its acknowledged updates stay "
            "counted.\n"
            "FINGERPRINT may be cut to its first 8 digits or more.\n"};
