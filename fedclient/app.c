/* A client with its platform and its transport, which can be stopped from any thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/app.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fed/machine.h"

struct fedclient_app {
    fedclient_options given; /* the program's options, with its callbacks and user pointer */
    fed_log log;
    char *texts[4]; /* copies of the options' texts */
    fedclient_platform platform;
    fedclient_transport transport;
    fedclient *client; /* NULL: neither client nor platform is open yet */
    atomic_bool stopped;
};

static bool is_stopped(void *user) {
    const fedclient_app *app = user;
    return fedclient_app_stopped(app) ||
           (app->given.stopped != NULL && app->given.stopped(app->given.user));
}

/* The client calls these functions with the app as user. They call the program's callbacks with the
 * program's own pointer. A new callback needs a function here and a line in options_of. */

static fed_status on_train(void *user, fedclient_round *round, fed_error *err) {
    const fedclient_app *app = user;
    return app->given.train(app->given.user, round, err);
}

static fed_status on_may_train(void *user, fed_error *err) {
    const fedclient_app *app = user;
    return app->given.may_train(app->given.user, err);
}

static void on_progress(void *user, const fedclient_round *round, uint32_t done, uint32_t total) {
    const fedclient_app *app = user;
    app->given.progress(app->given.user, round, done, total);
}

static void *on_room(void *user, size_t len) {
    const fedclient_app *app = user;
    return app->given.room(app->given.user, len);
}

static fed_status keep_text(fedclient_app *app, unsigned k, const char **text) {
    if (*text != NULL) {
        app->texts[k] = strdup(*text);
        FED_REQUIRE(app->texts[k] != NULL, FED_ENOMEM);
        *text = app->texts[k];
    }
    return FED_OK;
}

static fed_status options_of(fedclient_app *app, fedclient_options *options) {
    *options = app->given;
    FED_TRY(keep_text(app, 0, &options->server));
    FED_TRY(keep_text(app, 1, &options->name));
    FED_TRY(keep_text(app, 2, &options->software));
    FED_TRY(keep_text(app, 3, &options->computes_on));
    if (options->log != NULL) {
        app->log = *options->log;
        options->log = &app->log;
    }
    options->platform = &app->platform;
    options->transport = &app->transport;
    options->train = options->train != NULL ? on_train : NULL;
    options->may_train = options->may_train != NULL ? on_may_train : NULL;
    options->stopped = is_stopped;
    options->progress = options->progress != NULL ? on_progress : NULL;
    options->room = options->room != NULL ? on_room : NULL;
    options->user = app;
    if (options->most_memory_bytes == 0) {
        options->most_memory_bytes = fed_machine_bytes() / 2;
    }
    return FED_OK;
}

static fed_status open_all(fedclient_app *app, const char *ca_pem, const char *state,
                           fed_error *err) {
    fedclient_options options;
    FED_TRY(options_of(app, &options));
    const fedclient_transport_options line = {.ca_pem = ca_pem, .stopped = is_stopped, .user = app};
    FED_TRY(fedclient_transport_open(NULL, &line, &app->transport, err));
    FED_TRY(fedclient_platform_posix_open(state, &app->platform, err));
    const fed_status status = fedclient_open(&options, &app->client, err);
    if (status != FED_OK) {
        fedclient_platform_posix_close(&app->platform);
    }
    return status;
}

fed_status fedclient_app_open(const fedclient_options *options, const char *ca_pem,
                              const char *state, fedclient_app **app, fed_error *err) {
    if (options->platform != NULL || options->transport != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "an app has a platform and a transport of its own: leave both NULL, or "
                        "call fedclient_open");
    }
    fedclient_app *fresh = calloc(1, sizeof *fresh);
    FED_REQUIRE(fresh != NULL, FED_ENOMEM);
    fresh->given = *options;
    atomic_init(&fresh->stopped, false);
    const fed_status status = open_all(fresh, ca_pem, state, err);
    if (status != FED_OK) {
        fedclient_app_close(fresh);
        return status;
    }
    *app = fresh;
    return FED_OK;
}

void fedclient_app_close(fedclient_app *app) {
    if (app == NULL) {
        return;
    }
    if (app->client != NULL) {
        fedclient_close(app->client);
        fedclient_platform_posix_close(&app->platform);
    }
    fedclient_transport_close(&app->transport);
    for (size_t k = 0; k < sizeof app->texts / sizeof app->texts[0]; k++) {
        free(app->texts[k]);
    }
    free(app);
}

fedclient *fedclient_app_client(fedclient_app *app) {
    return app->client;
}

fed_status fedclient_app_run(fedclient_app *app, const fedclient_run_options *options,
                             fed_error *err) {
    return fedclient_run(app->client, options, err);
}

void fedclient_app_stop(fedclient_app *app) {
    atomic_store(&app->stopped, true);
}

bool fedclient_app_stopped(const fedclient_app *app) {
    return atomic_load(&app->stopped);
}
