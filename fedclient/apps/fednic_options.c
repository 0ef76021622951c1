/* The options of fednic. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fednic_options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fedclient/apps/option_table.h"

static fed_status take_bound(const char *value, void *values, fed_error *err) {
    uint32_t e = 0;
    if (strncmp(value, "2^-", 3) != 0 || option_number(value + 3, '\0', 1, 15, &e) == NULL) {
        return fed_fail(
            err, FED_EINVAL,
            "--bound is a power of two from 2^-1 to 2^-15, written like 2^-10, not %.60s", value);
    }
    ((fednic_words *)values)->nic.e = (int)e;
    return FED_OK;
}

static fed_status check(const fednic_words *w, fed_error *err) {
    if (w->prometheus && !w->stats) {
        return fed_fail(err, FED_EINVAL, "--prometheus is the format of --stats: give both");
    }
    if (!w->stats && w->nic.wire == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--wire is missing: give the Ethernet interface that connects to the "
                        "network, such as eth0");
    }
    return FED_OK;
}

fed_status fednic_words_read(int argc, char **argv, fednic_words *words, fed_error *err) {
#define AT(member) offsetof(fednic_words, member)
    enum { ANY = 1 };
    static const option_row rows[] = {
        {"tun", OPTION_TEXT, AT(nic.tun), .commands = ANY},
        {"wire", OPTION_TEXT, AT(nic.wire), .commands = ANY},
        {"bound", OPTION_OTHER, .commands = ANY, .take = take_bound},
        {"bypass", OPTION_FLAG, AT(nic.bypass), .commands = ANY},
        {"control", OPTION_TEXT, AT(nic.control), .commands = ANY},
        {"stats", OPTION_FLAG, AT(stats), .commands = ANY},
        {"prometheus", OPTION_FLAG, AT(prometheus), .commands = ANY},
    };
#undef AT
    int after = 0;
    *words = (fednic_words){.nic = {.tun = "nic0", .e = 10}};
    FED_TRY(
        option_table_read(rows, sizeof rows / sizeof rows[0], ANY, argc, argv, words, &after, err));
    if (after < argc) {
        return fed_fail(err, FED_EINVAL,
                        "\"%.200s\" is not expected here: fednic takes only options", argv[after]);
    }
    FED_TRY(check(words, err));
    if (words->nic.control == NULL) {
        if (snprintf(words->control, sizeof words->control, "/run/fednic-%s.sock",
                     words->nic.tun) >= (int)sizeof words->control) {
            return fed_fail(err, FED_EINVAL, "\"%.60s\" is not a name that an interface can have",
                            words->nic.tun);
        }
        words->nic.control = words->control;
    }
    return FED_OK;
}
