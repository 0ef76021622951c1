/* cert: the coordinator's own certificate. */
#include <stdio.h>
#include <string.h>

#include "fed/clock.h"
#include "fedserver/commands/command.h"

static fed_status show(const arguments *args, fed_error *err) {
    fedserver_certificate certificate;
    FED_TRY(fedserver_certificate_read(args->dir, &certificate, err));
    const int32_t days = fedserver_certificate_days(args->dir, fed_clock_unix_ms());
    if (days < 0) {
        puts("server.pem has expired: fedserver cert renew");
    } else {
        printf("server.pem: %d days left\n", (int)days);
    }
    for (size_t k = 0; k < certificate.host_count; k++) {
        printf("  %s\n", certificate.hosts[k]);
    }
    return FED_OK;
}

static int cert(const arguments *args) {
    fed_error err = {0};
    const char *word = args->operands[0] != NULL ? args->operands[0] : "show";
    const bool renew = strcmp(word, "renew") == 0 || args->add_hosts.count > 0;
    if (!renew && strcmp(word, "show") != 0) {
        return command_usage(args, "this is neither show nor renew", word);
    }
    fed_status status = FED_OK;
    if (renew) {
        status = fedserver_certificate_renew(args->dir, args->add_hosts.items, fed_clock_unix_ms(),
                                             &err);
    }
    if (status == FED_OK) {
        status = show(args, &err);
    }
    if (status != FED_OK) {
        return command_fail(args, &err);
    }
    if (renew) {
        puts("A coordinator that runs takes it up at SIGHUP.");
    }
    return COMMAND_OK;
}

const command command_cert = {
    .name = "cert",
    .run = cert,
    .options = "add-host",
    .operands = "[show|renew]",
    .brief = "show or renew the coordinator's certificate",
    .help = "usage: fedserver cert --dir DIR [show|renew] [--add-host NAME]...\n"
            "Show how long server.pem is valid, and for which hosts; or issue it anew for ten "
            "years, by\n"
            "the same CA, so that devices notice nothing. Then send SIGHUP to `fedserver run`, and "
            "to a\n"
            "`fedserver front` that was started by hand.\n"
            "  --add-host NAME    a further name or address that it is for; renews\n"};
