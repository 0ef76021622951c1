/* The command cert: shows and renews the coordinator's own certificate, and changes its CA. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/file.h"
#include "fedserver/commands/command.h"

static fed_status show_json(const fedserver_certificate *certificate,
                            const fedserver_ca_change *change, int32_t days, fed_error *err) {
    json_t *hosts = json_array();
    for (size_t k = 0; k < certificate->host_count; k++) {
        json_array_append_new(hosts, json_string(certificate->hosts[k]));
    }
    json_t *both =
        change->open
            ? json_pack("{s:b, s:I, s:I}", "server_is_old", change->server_is_old, "devices",
                        (json_int_t)change->devices, "waiting", (json_int_t)change->waiting)
            : json_null();
    return command_json(json_pack("{s:I, s:i, s:o, s:b, s:o}", "expires_ms",
                                  (json_int_t)certificate->expires_s * 1000, "days_left", days,
                                  "hosts", hosts, "ca_unfinished", change->unfinished, "ca_change",
                                  both),
                        err);
}

static fed_status show(fedserver *server, const arguments *args, fed_error *err) {
    fedserver_certificate certificate;
    fedserver_ca_change change;
    const int64_t now_ms = fed_clock_unix_ms();
    FED_TRY(fedserver_certificate_read(args->dir, &certificate, err));
    FED_TRY(fedserver_ca_look(server, now_ms, &change, err));
    const int32_t days = fedserver_certificate_days(args->dir, now_ms);
    if (args->json) {
        return show_json(&certificate, &change, days, err);
    }
    if (days < 0) {
        puts("server.pem has expired: run fedserver cert renew");
    } else {
        printf("server.pem: %d days left\n", (int)days);
    }
    for (size_t k = 0; k < certificate.host_count; k++) {
        printf("  %s\n", certificate.hosts[k]);
    }
    if (change.unfinished) {
        puts("ca.pem: the new CA has no key, and the old one issues: run fedserver cert new-ca");
    }
    if (change.open) {
        printf("ca.pem: a new CA and an old one; server.pem is of the %s one\n"
               "  %" PRIu64 " of %" PRIu64 " devices still have certificates of the old CA\n",
               change.server_is_old ? "old" : "new", change.waiting, change.devices);
    }
    return FED_OK;
}

/* Print ca.pem: a container may have no other program to copy the file out. */
static fed_status print_ca(fedserver *server, const arguments *args, fed_error *err) {
    char path[1024];
    uint8_t *text;
    size_t len;
    (void)server;
    snprintf(path, sizeof path, "%s/ca.pem", args->dir);
    FED_TRY(fed_file_read(path, FED_PEM_SIZE, &text, &len, err));
    fwrite(text, 1, len, stdout);
    free(text);
    return FED_OK;
}

static fed_status settled(fedserver *server, const arguments *args, fed_error *err) {
    fedserver_ca_change change;
    FED_TRY(fedserver_ca_look(server, fed_clock_unix_ms(), &change, err));
    if (!change.open || change.waiting == 0 || args->force) {
        return FED_OK;
    }
    return fed_fail(err, FED_EBUSY,
                    "%" PRIu64 " of %" PRIu64 " devices still have certificates of the old CA, and "
                    "this would shut them out: wait until they have checked in, or add --force",
                    change.waiting, change.devices);
}

static fed_status renew(fedserver *server, const arguments *args, fed_error *err) {
    FED_TRY(settled(server, args, err));
    return fedserver_certificate_renew(args->dir, args->add_hosts.items, fed_clock_unix_ms(), err);
}

static fed_status new_ca(fedserver *server, const arguments *args, fed_error *err) {
    (void)server;
    return fedserver_ca_new(args->dir, fed_clock_unix_ms(), err);
}

static fed_status drop_old_ca(fedserver *server, const arguments *args, fed_error *err) {
    FED_TRY(settled(server, args, err));
    return fedserver_ca_drop_old(args->dir, err);
}

static const struct {
    const char *word;
    fed_status (*run)(fedserver *server, const arguments *args, fed_error *err);
} deeds[] = {{"show", NULL},
             {"ca", print_ca},
             {"renew", renew},
             {"new-ca", new_ca},
             {"drop-old-ca", drop_old_ca}};

enum { DEEDS = sizeof deeds / sizeof deeds[0] };

static size_t find_deed(const arguments *args) {
    const char *word = args->operands[0] != NULL   ? args->operands[0]
                       : args->add_hosts.count > 0 ? "renew"
                                                   : "show";
    size_t k = 0;
    while (k < DEEDS && strcmp(deeds[k].word, word) != 0) {
        k++;
    }
    return k;
}

static fed_status do_it(fedserver *server, const arguments *args, fed_error *err) {
    const size_t k = find_deed(args);
    if (deeds[k].run != NULL) {
        FED_TRY(deeds[k].run(server, args, err));
    }
    FED_TRY(show(server, args, err));
    if (deeds[k].run != NULL && !args->json) {
        puts("A coordinator that runs reads the new files at SIGHUP: send it one.");
    }
    return FED_OK;
}

static int cert(const arguments *args) {
    const size_t k = find_deed(args);
    if (k == DEEDS) {
        return command_usage(args, "the action must be show, ca, renew, new-ca or drop-old-ca, not",
                             args->operands[0]);
    }
    if (args->add_hosts.count > 0 && deeds[k].run != renew) {
        return command_usage(args, "--add-host goes only with renew, not with", deeds[k].word);
    }
    if (args->json && deeds[k].run == print_ca) {
        return command_usage(args, "--json does not go with", deeds[k].word);
    }
    return command_with(args, deeds[k].run == print_ca ? print_ca : do_it);
}

const command command_cert = {
    .name = "cert",
    .run = cert,
    .options = "add-host force json",
    .operands = "[show|ca|renew|new-ca|drop-old-ca]",
    .brief = "show or renew the coordinator's certificate, change its CA",
    .help =
        "usage: fedserver cert --dir DIR [show|ca|renew|new-ca|drop-old-ca] [--add-host NAME]...\n"
        "show: how long server.pem is valid, and for which hosts; while the CA changes, how many\n"
        "devices wait. ca: print ca.pem, which devices need. renew: issue server.pem anew for ten\n"
        "years, by the same CA, so that devices notice nothing. Then send SIGHUP to `fedserver "
        "run`,\n"
        "and to a `fedserver front` that was started by hand. To change the CA: new-ca and "
        "SIGHUP,\n"
        "wait for the devices, renew and SIGHUP, drop-old-ca and SIGHUP.\n"
        "  --add-host NAME    a further name or address for server.pem; implies renew\n"
        "  --json             for programs: expires_ms, days_left, hosts, ca_unfinished, "
        "ca_change\n"
        "  --force            renew or drop-old-ca though some devices will be shut out\n"};
