/* Notes in the directory where a listener serves, for `fedserver health`, which asks it there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_HEALTH_H
#define FEDSERVER_HTTP_HEALTH_H

#include "fed/error.h"
#include "fedserver/fedserver.h"
#include "fedserver/http.h"

/** Note where the listener serves: options->bind, port, options->proxies. */
fed_status http_health_note(const char *directory, fedserver_listener kind,
                            const fedserver_http_options *options, uint16_t port,
                            fed_error *err) FED_CHECKED;

/** The listener was told to stop, so nobody need ask it any more. */
void http_health_forget(const char *directory, fedserver_listener kind);

#endif
