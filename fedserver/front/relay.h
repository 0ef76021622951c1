/* Between the process at the front and the one that does the rounds: the status, for people. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_RELAY_H
#define FEDSERVER_RELAY_H

#include "fed/error.h"
#include "fedserver/fedserver.h"

/*
 * The rounds' process listens on a Unix socket in the directory, `front.sock`; whoever may open
 * that file may ask for what fedserver_relay_answer answers, and for nothing else. A question
 * is one packet, "GET PATH"; so is its answer, a line "STATUS TYPE PATH" and the body. However many
 * people ask the front, there is one question under way for each path, and no more than 50 a
 * second: so visitors can't keep the rounds' process busy.
 */
typedef struct fedserver_relay fedserver_relay;

/** Listen, or remember where to ask. Errors: FED_EIO, FED_ENOMEM. */
fed_status fedserver_relay_open(const char *directory, fedserver_part part, fedserver_relay **relay,
                                fed_error *err) FED_CHECKED;
void fedserver_relay_close(fedserver_relay *relay); /* NULL is fine, here and below */

/** Readable when there is something to serve or to hear; -1: nothing is connected. */
int fedserver_relay_fd(const fedserver_relay *relay);

/** The front: answer with what the rounds' process said after the request had come, or hold the
 * request and ask. False: nobody has answered for ten seconds, and *response is as it was. */
bool fedserver_relay_ask(fedserver_relay *relay, const fedserver_request *request, int64_t now_ms,
                         fedserver_response *response);
/** The front: take what was answered; how many answers there were. */
unsigned fedserver_relay_hear(fedserver_relay *relay);

/** Answers GET path. *known = false: it is not a path that is answered here. */
typedef fed_status (*fedserver_relay_answer)(void *user, const char *path, int64_t now_ms,
                                             bool *known, fedserver_response *response,
                                             fed_error *err);

/** The rounds' process, in a batch: answer what was asked. */
fed_status fedserver_relay_serve(fedserver_relay *relay, fedserver_relay_answer answer, void *user,
                                 int64_t now_ms, fed_error *err) FED_CHECKED;
/** And when the batch is durable: let the answers go. */
void fedserver_relay_send(fedserver_relay *relay);

#endif
