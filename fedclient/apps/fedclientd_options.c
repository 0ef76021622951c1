/* The options of a device of a federation, for fedclientd and for fedworker train --server. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/machine.h"
#include "fedclient/apps/device_option.h"
#include "fedclient/apps/fedclientd.h"

static fed_status take_server(const char *value, void *values, fed_error *err) {
    char *list = ((fedclientd_settings *)values)->server;
    const size_t room = sizeof((fedclientd_settings *)NULL)->server, used = strlen(list);
    const int len = snprintf(list + used, room - used, "%s%s", used > 0 ? "," : "", value);
    return len >= 0 && (size_t)len < room - used
               ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "--server: all addresses together are too long: give fewer");
}

static fed_status take_shard(const char *value, void *values, fed_error *err) {
    workshop_settings *work = &((fedclientd_settings *)values)->work;
    const char *slash = option_number(value, '/', 0, UINT32_MAX, &work->shard);
    if (slash == NULL || option_number(slash + 1, '\0', 0, UINT32_MAX, &work->shards) == NULL ||
        work->shard >= work->shards) {
        return fed_fail(err, FED_EINVAL,
                        "--shard is K/N, part K (from 0) of N parts, with K below N, not %s",
                        value);
    }
    return FED_OK;
}

static fed_status take_split(const char *value, void *values, fed_error *err) {
    return fedtrain_split_parse(value, &((fedclientd_settings *)values)->work.split, err);
}

static fed_status take_when(const char *value, void *values, fed_error *err) {
    fed_error why = {0};
    const fed_status status =
        fedclient_conditions_parse(value, &((fedclientd_settings *)values)->when, &why);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "--when: %s", why.text);
}

static fed_status take_hold(const char *value, void *values, fed_error *err) {
    uint32_t seconds = 0;
    if (option_number(value, '\0', 0, 3600, &seconds) == NULL) {
        return fed_fail(err, FED_EINVAL, "--hold takes 0 to 3600 seconds, not %s", value);
    }
    ((fedclientd_settings *)values)->hold_ms = seconds * 1000;
    return FED_OK;
}

static fed_status take_slots(const char *value, void *values, fed_error *err) {
    uint32_t *slots = &((fedclientd_settings *)values)->slots;
    if (option_number(value, '\0', 1, FED_SLOTS, slots) == NULL) {
        return fed_fail(err, FED_EINVAL, "--slots takes 1 to %d tasks, not %s", FED_SLOTS, value);
    }
    return FED_OK;
}

static fed_status take_epsilon(const char *value, void *values, fed_error *err) {
    char *end = NULL;
    const float epsilon = strtof(value, &end);
    if (end == value || *end != '\0' || !(epsilon > 0) || !isfinite(epsilon)) {
        return fed_fail(err, FED_EINVAL, "--most-epsilon takes a number above 0, not %s", value);
    }
    ((fedclientd_settings *)values)->most_epsilon = epsilon;
    return FED_OK;
}

static fed_status take_transport(const char *value, void *values, fed_error *err) {
    for (size_t k = 0; fedclient_transport_name(k) != NULL; k++) {
        if (strcmp(value, fedclient_transport_name(k)) == 0) {
            ((fedclientd_settings *)values)->transport = value;
            return FED_OK;
        }
    }
    return fed_fail(err, FED_EINVAL,
                    "--transport: this build has no transport \"%s\": leave the option out to use "
                    "this build's first transport",
                    value);
}

static fed_status take_log(const char *value, void *values, fed_error *err) {
    return fed_log_choose(value, NULL, &((fedclientd_settings *)values)->log, err);
}

#define AT(member) offsetof(fedclientd_settings, member)
enum { ANY = FEDCLIENTD_COMMAND };
static const option_row device_rows[] = {
    {"server", OPTION_OTHER, .commands = ANY, .take = take_server},
    {"ca", OPTION_TEXT, AT(ca), .commands = ANY},
    {"downloads-ca", OPTION_TEXT, AT(downloads_ca), .commands = ANY},
    {"no-caches", OPTION_FLAG, AT(no_caches), .commands = ANY},
    {"state", OPTION_TEXT, AT(state), .commands = ANY},
    {"data", OPTION_TEXT, AT(work.data), .commands = ANY},
    {"dataset", OPTION_TEXT, AT(work.dataset), .commands = ANY},
    {"token", OPTION_TEXT, AT(token), .commands = ANY},
    {"token-file", OPTION_TEXT, AT(token_file), .commands = ANY},
    {"name", OPTION_TEXT, AT(name), .commands = ANY},
    {"shard", OPTION_OTHER, .commands = ANY, .take = take_shard},
    {"split", OPTION_OTHER, .commands = ANY, .take = take_split},
    {"when", OPTION_OTHER, .commands = ANY, .take = take_when},
    {"hold", OPTION_OTHER, .commands = ANY, .take = take_hold},
    {"slots", OPTION_OTHER, .commands = ANY, .take = take_slots},
    {"memory", OPTION_NUMBER, AT(memory_mb), 1, UINT32_MAX, ANY, NULL},
    {"most-epsilon", OPTION_OTHER, .commands = ANY, .take = take_epsilon},
    {"helper", OPTION_TEXT, AT(helper), .commands = ANY},
    {"least-devices", OPTION_NUMBER, AT(least_devices), 2, UINT32_MAX, ANY, NULL},
    {"private", OPTION_FLAG, AT(private_), .commands = ANY},
    {"transport", OPTION_OTHER, .commands = ANY, .take = take_transport},
    {"backend", OPTION_TEXT, AT(work.backend), .commands = ANY},
    {"device", OPTION_TEXT, AT(device), .commands = ANY},
    {"evaluate", OPTION_FLAG, AT(work.evaluate), .commands = ANY},
    {"until-finished", OPTION_FLAG, AT(until_finished), .commands = ANY},
    {"normalise", OPTION_FLAG, AT(work.normalise), .commands = ANY},
    {"verbose", OPTION_FLAG, AT(verbose), .commands = ANY},
    {"log", OPTION_OTHER, .commands = ANY, .take = take_log},
};
#undef AT

enum { DEVICE_ROWS = sizeof device_rows / sizeof device_rows[0] };

/* A private device knows its helper itself: the coordinator could name one of its own. */
static fed_status check_private(const fedclientd_settings *s, fed_error *err) {
    return !s->private_ || s->helper != NULL
               ? FED_OK
               : fed_fail(
                     err, FED_EINVAL,
                     "--private needs --helper FILE: get helper.pem from the helper's party, not "
                     "from the coordinator's operator");
}

fed_status fedclientd_read_options(const option_row *more, size_t count, int argc, char **argv,
                                   fedclientd_settings *s, fed_error *err) {
    option_row rows[OPTION_ROWS];
    int words = 0;
    FED_REQUIRE(count <= OPTION_ROWS - DEVICE_ROWS, FED_EINVAL);
    memcpy(rows, device_rows, sizeof device_rows);
    if (count > 0) {
        memcpy(rows + DEVICE_ROWS, more, count * sizeof *more);
    }
    FED_TRY(option_table_read(rows, DEVICE_ROWS + count, ANY, argc, argv, s, &words, err));
    if (words < argc) {
        return fed_fail(err, FED_EINVAL, "\"%.200s\" is not an option: all arguments begin with --",
                        argv[words]);
    }
    if (s->server[0] == '\0' || s->ca == NULL || s->state == NULL || s->work.data == NULL) {
        return fed_fail(err, FED_EINVAL, "--server, --ca, --state and --data must all be given");
    }
    if (s->no_caches && s->downloads_ca != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--no-caches and --downloads-ca contradict each other: give only one of "
                        "them");
    }
    FED_TRY(check_private(s, err));
    FED_TRY(device_option_settle(s->device, &s->work.backend, err));
    const uint64_t given = (uint64_t)s->memory_mb * 1000000;
    s->memory_bytes = given > 0 ? given : fed_machine_bytes() / 2;
    s->work.most_net_bytes = s->device == NULL ? s->memory_bytes : 0; /* a GPU has its own memory */
    s->log.level = s->verbose ? FED_LOG_DEBUG : FED_LOG_INFO;
    return FED_OK;
}
