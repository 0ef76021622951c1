/* devices, rename, revoke: who may come in. */
#include <stdio.h>
#include <time.h>

#include "fed/clock.h"
#include "fedserver/commands/command.h"

static void print_time(const char *what, int64_t ms) {
    char text[32];
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", gmtime_r(&seconds, &utc));
    printf("  %s %s", what, text);
}

static fed_status print_device(void *user, const fedserver_entry *entry, fed_error *err) {
    (void)err;
    ++*(size_t *)user;
    printf("%s", entry->fingerprint);
    print_time("enrolled", entry->enrolled_ms);
    if (entry->revoked_ms != 0) {
        print_time("revoked", entry->revoked_ms);
    } else {
        bool over = entry->expires_ms <= fed_clock_unix_ms();
        print_time(over ? "expired" : "expires", entry->expires_ms);
    }
    if (entry->cloned_ms != 0) {
        print_time("RUNS TWICE, seen", entry->cloned_ms);
    }
    printf("  %s%s%s%s%s\n", fedserver_role_name(entry->role), entry->tag[0] != '\0' ? " " : "",
           entry->tag, entry->name[0] != '\0' ? "  " : "", entry->name);
    return FED_OK;
}

static fed_status list_devices(fedserver *server, const arguments *args, fed_error *err) {
    (void)args;
    size_t count = 0;
    FED_TRY(fedserver_device_each(server, print_device, &count, err));
    if (count == 0) {
        fprintf(stderr, "no device is enrolled yet; `fedserver token` admits one\n");
    }
    return FED_OK;
}

static int devices(const arguments *args) {
    return command_with(args, list_devices);
}

static fed_status rename_device(fedserver *server, const arguments *args, fed_error *err) {
    fedserver_entry entry;
    size_t count = 0;
    FED_TRY(fedserver_device_rename(server, args->operands[0], args->operands[1], &entry, err));
    return print_device(&count, &entry, err);
}

static int rename_one(const arguments *args) {
    return command_with(args, rename_device);
}

static fed_status revoke_device(fedserver *server, const arguments *args, fed_error *err) {
    fedserver_entry entry;
    size_t count = 0;
    FED_TRY(fedserver_device_revoke(server, fed_clock_unix_ms(), args->operands[0], &entry, err));
    return print_device(&count, &entry, err);
}

static int revoke(const arguments *args) {
    return command_with(args, revoke_device);
}

const command command_devices = {
    .name = "devices",
    .run = devices,
    .brief = "list them",
    .help = "usage: fedserver devices --dir DIR\n"
            "List the devices: fingerprint, since when, until when or when revoked (UTC).\n"
            "RUNS TWICE: two copies of the device's state have reported with the same lease.\n"};

const command command_rename = {
    .name = "rename",
    .run = rename_one,
    .operands = "FINGERPRINT NAME",
    .brief = "call one by another name",
    .help = "usage: fedserver rename --dir DIR FINGERPRINT NAME\n"
            "Call a device NAME: up to 63 bytes of printable UTF-8; \"\" takes its name away.\n"
            "FINGERPRINT may be cut to its first 8 digits or more.\n"};

const command command_revoke = {
    .name = "revoke",
    .run = revoke,
    .operands = "FINGERPRINT",
    .brief = "shut one out",
    .help = "usage: fedserver revoke --dir DIR FINGERPRINT\n"
            "Shut a device out, from its next request on. Its acknowledged updates stay "
            "counted.\n"
            "FINGERPRINT may be cut to its first 8 digits or more.\n"};
