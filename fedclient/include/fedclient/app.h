/* A client with its platform and transport, for apps and for bindings to other languages: its
 * state is in a folder, it uses HTTPS, and any thread can stop it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APP_H
#define FEDCLIENT_APP_H

#include <stdbool.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fedclient/fedclient.h"

FED_API_BEGIN

/*
 *     fedclient_options options = {.server = "https://host:8443", .train = train, .user = me};
 *     fedclient_app *app;
 *     fedclient_app_open(&options, ca_pem, "/var/lib/my-device", &app, &err);
 *     fedclient *client = fedclient_app_client(app);
 *     fedclient_token_give(client, token, &err);
 *     fedclient_app_run(app, NULL, &err);
 *
 * Several apps live side by side in one process, each in a folder of its own. One app is used by
 * one thread at a time; only fedclient_app_stop may be called from another one meanwhile.
 */
typedef struct fedclient_app fedclient_app;

/**
 * Open a platform in the folder `state` (fedclient_platform_posix_open), the first transport of
 * this build, and a client on both.
 * options  as for fedclient_open. Platform and transport must be NULL. The texts and the log are
 *          copied; what the other pointers point to must outlive the app. most_memory_bytes 0: half
 *          of the machine's memory; UINT64_MAX: no limit
 * ca_pem   PEM text: trust these CA certificates, and those that come with the device's certificate
 *
 * Errors those of fedclient_platform_posix_open, fedclient_transport_open and fedclient_open
 */
fed_status fedclient_app_open(const fedclient_options *options, const char *ca_pem,
                              const char *state, fedclient_app **app, fed_error *err) FED_CHECKED;
/** Close client, transport and platform. app may be NULL. */
void fedclient_app_close(fedclient_app *app);

/** The client, for the functions of fedclient/fedclient.h. The app closes it. */
fedclient *fedclient_app_client(fedclient_app *app);

/** Take part until the end, or until fedclient_app_stop is called: fedclient_run for the app's
 * client. */
fed_status fedclient_app_run(fedclient_app *app, const fedclient_run_options *options,
                             fed_error *err) FED_CHECKED;

/** Make all later calls of fedclient_step, fedclient_app_run and fedclient_enrol fail with
 * FED_ECANCELED, and end a running one within about a second. Any thread may call this function,
 * and so may a signal's handler. A training callback sees the stop in fedclient_round_wanted. For a
 * stop that need not last see fedclient_options.stopped. */
void fedclient_app_stop(fedclient_app *app);
bool fedclient_app_stopped(const fedclient_app *app);

FED_API_END

#endif
