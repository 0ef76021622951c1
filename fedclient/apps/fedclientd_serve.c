/* The main loop of fedclientd: open store and transport, enrol once, then take part. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/point.h"
#include "fed/privacy.h"
#include "fedclient/apps/fedclientd.h"

enum { CA_LIMIT = 65536, TOKEN_SIZE = 1025 };

typedef struct device {
    const fedclientd_settings *settings;
    char computes_on[FEDCLIENTD_COMPUTES];
    fedclient_conditions when;
    workshop *work;
    fed_points helper; /* the keys of settings->helper */
    int64_t told_ms;   /* when the round began or its progress was last logged */
} device;

static atomic_int stop;

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

const atomic_int *fedclientd_catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &stop;
}

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    device *d = user;
    d->told_ms = fed_clock_monotonic_ms();
    return workshop_work(d->work, round, err);
}

static bool stopped(void *user) {
    const device *d = user;
    return *d->settings->stop != 0;
}

static fed_status may_train(void *user, fed_error *err) {
    device *d = user;
    return fedclient_conditions_hold(&d->when, err);
}

static void progress(void *user, const fedclient_round *round, uint32_t done, uint32_t total) {
    enum { EVERY_MS = 10000 };
    device *d = user;
    int64_t now_ms = fed_clock_monotonic_ms();
    if (now_ms - d->told_ms >= EVERY_MS && done < total) {
        d->told_ms = now_ms;
        const fed_log_about about = {.task = round->task->id, .round = round->round};
        fed_logf_about(&d->settings->log, FED_LOG_INFO, &about,
                       "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " steps, %" PRIu32
                       " s until the deadline",
                       round->round, done, total, fedclient_round_left_ms(round) / 1000);
    }
}

typedef struct listener {
    const fedclientd_settings *settings;
    fedclient *client;
} listener;

static bool on_event(void *user, const fedclient_event *event, const char *why) {
    const listener *l = user;
    (void)why;
    fedclientd_keep_personal(l->settings, l->client, event);
    return true;
}

static fed_status run(const fedclientd_settings *s, fedclient *client, fed_error *err) {
    listener l = {s, client};
    const fedclient_run_options options = {
        .until_finished = s->until_finished, .event = on_event, .user = &l};
    const fed_status status = fedclient_run(client, &options, err);
    if (status != FED_ECANCELED) {
        return status;
    }
    fed_logf(&s->log, FED_LOG_INFO, "stopped; what is not sent yet is kept in %s", s->state);
    return FED_OK;
}

/** Keep the token for the case that the coordinator refuses this device later. The token's file may
 * be gone by now, which is no error. */
static fed_status keep_token(const fedclientd_settings *s, fedclient *client, fed_error *err) {
    char token[TOKEN_SIZE];
    fed_error why = {0};
    const char *given = s->token;
    if (given == NULL && s->token_file != NULL) {
        if (fed_file_read_word(s->token_file, token, sizeof token, &why) != FED_OK) {
            fed_logf(
                &s->log, FED_LOG_INFO,
                "this device is enrolled already, and goes on without a token (%.300s): if the "
                "coordinator refuses this device, start it with a new token",
                why.text);
            return FED_OK;
        }
        given = token;
    }
    if (given == NULL) {
        return FED_OK;
    }
    fed_logf(&s->log, FED_LOG_INFO,
             "this device is enrolled already: it keeps the token, in case the coordinator refuses "
             "this device");
    return fedclient_token_give(client, given, err);
}

/** Enrol. With --until-finished a person or a script waits for the end, so the device gives up
 * after TRIES tries (a minute). */
static fed_status enrol(const fedclientd_settings *s, fedclient *client, fed_error *err) {
    enum { TRIES = 8 };
    char token[TOKEN_SIZE];
    if (fedclient_enrolled(client)) {
        return keep_token(s, client, err);
    }
    if (s->token == NULL && s->token_file == NULL) {
        return fed_fail(err, FED_ESTATE,
                        "--state %s holds no identity yet: let the operator make a token with "
                        "`fedserver token`, and give it with --token or --token-file",
                        s->state);
    }
    if (s->token == NULL) {
        FED_TRY(fed_file_read_word(s->token_file, token, sizeof token, err));
    }
    return fedclient_token_give_in_time(client, s->token != NULL ? s->token : token,
                                        s->until_finished ? TRIES : 0, err);
}

/** The device's transports: to the coordinator, and to download caches. If downloads.send is NULL,
 * no caches are asked. */
typedef struct device_lines {
    fedclient_transport coordinator, downloads;
} device_lines;

static fed_status live(device *d, fedclient_platform *platform, device_lines *lines,
                       fed_error *err) {
    const fedclientd_settings *s = d->settings;
    const fedclient_options options = {
        .server = s->server,
        .platform = platform,
        .transport = &lines->coordinator,
        .downloads = lines->downloads.send != NULL ? &lines->downloads : NULL,
        .log = &s->log,
        .role = s->work.evaluate ? FED_ROLE_EVALUATE : FED_ROLE_TRAIN,
        .hold_ms = s->hold_ms,
        .slots = s->slots,
        .most_epsilon = s->most_epsilon,
        .helper = s->helper != NULL ? &d->helper : NULL,
        .least_devices = s->least_devices,
        .private_only = s->private_,
        .most_memory_bytes = s->memory_bytes,
        .train = train,
        .user = d,
        .may_train = may_train,
        .stopped = stopped,
        .progress = progress,
        .name = s->name,
        .software = s->software,
        .computes_on = d->computes_on,
        .classes = workshop_classes(d->work)};
    fedclient *client = NULL;
    FED_TRY(fedclient_open(&options, &client, err));
    fed_status status = enrol(s, client, err);
    if (status == FED_OK) {
        const bool named = d->computes_on[0] != '\0';
        fed_logf(&s->log, FED_LOG_INFO, "device %.16s... at %s%s%s", fedclient_device(client),
                 s->server, named ? ", computes on " : "", d->computes_on);
        status = run(s, client, err);
    } else if (status == FED_ECANCELED) {
        fed_logf(&s->log, FED_LOG_INFO, "stopped before this device was enrolled");
        status = FED_OK;
    }
    fedclient_close(client);
    return status;
}

/** Open a transport that trusts the CA certificate in `file`; NULL: the system's CAs. option: name
 * of the option for error messages. */
static fed_status open_line(device *d, const char *option, const char *file, bool for_caches,
                            fedclient_transport *transport, fed_error *err) {
    char *ca = NULL;
    size_t len = 0;
    if (file != NULL) {
        FED_TRY(fed_file_read_text(file, CA_LIMIT, &ca, &len, err));
    }
    fed_error why = {0};
    const fedclient_transport_options options = {
        .ca_pem = ca, .stopped = stopped, .user = d, .for_caches = for_caches};
    fed_status status = fedclient_transport_open(d->settings->transport, &options, transport, &why);
    free(ca);
    if (status == FED_EFORMAT) {
        return fed_fail(err, status, "%s %.150s: %.200s", option, file, why.text);
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
}

/** Open both transports; with --no-caches, the coordinator's alone. Without --downloads-ca, the
 * transport for caches needs the system's CAs; if it can't use those, no caches are asked. */
static fed_status open_lines(device *d, device_lines *lines, fed_error *err) {
    const fedclientd_settings *s = d->settings;
    fed_error none = {0};
    FED_TRY(open_line(d, "--ca", s->ca, false, &lines->coordinator, err));
    fed_status status = s->no_caches ? fed_fail(&none, FED_ENOTFOUND, "--no-caches was given")
                                     : open_line(d, "--downloads-ca", s->downloads_ca, true,
                                                 &lines->downloads, &none);
    if (status == FED_OK || s->downloads_ca != NULL) {
        return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", none.text);
    }
    fed_logf(&s->log, FED_LOG_DEBUG, "all downloads come from the coordinator: %s", none.text);
    return FED_OK;
}

static fed_status load_helper(device *d, fed_error *err) {
    fed_error why = {0};
    const fed_status status = fed_points_load(d->settings->helper, &d->helper, &why);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "--helper: %s", why.text);
}

fed_status fedclientd_serve(const fedclientd_settings *s, fed_error *err) {
    fedclient_platform platform = {0};
    device_lines lines = {0};
    device d = {.settings = s, .when = s->when};
    fed_status status = fedclientd_find_device(&s->work, d.computes_on, err);
    if (status == FED_OK) {
        status = workshop_open(&s->work, &platform, &d.work, err);
    }
    if (status == FED_OK && s->helper != NULL) {
        status = load_helper(&d, err);
    }
    if (status == FED_OK) {
        status = fedclient_platform_posix_open(s->state, &platform, err);
    }
    if (status == FED_OK) {
        status = open_lines(&d, &lines, err);
    }
    if (status == FED_OK) {
        status = live(&d, &platform, &lines, err);
    }
    workshop_close(d.work);
    fedclient_transport_close(&lines.coordinator);
    fedclient_transport_close(&lines.downloads);
    fedclient_platform_posix_close(&platform);
    return status;
}
