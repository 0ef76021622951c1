/* Carries questions about the status from the front to the process of the rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_RELAY_H
#define FEDSERVER_RELAY_H

#include "fed/error.h"
#include "fedserver/fedserver.h"

/*
 * The rounds' process listens on a Unix socket in the directory, `front.sock`. A program that may
 * open that file may ask for what fedserver_relay_answer answers, and for nothing else. A question
 * is one packet, "GET PATH". An answer is one packet, too: a line "STATUS PATH ETAG TYPE" and the
 * body. However many people ask the front, one question is under way for each path, and at most 50
 * a second. So visitors can't keep the rounds' process busy.
 */
typedef struct fedserver_relay fedserver_relay;

/** Listen, or remember where to ask. Errors: FED_EIO, FED_ENOMEM. */
fed_status fedserver_relay_open(const char *directory, fedserver_part part, fedserver_relay **relay,
                                fed_error *err) FED_CHECKED;
void fedserver_relay_close(fedserver_relay *relay); /* NULL is fine, here and below */

/** Readable when there is something to serve or to receive; -1: nothing is connected. */
int fedserver_relay_fd(const fedserver_relay *relay);

/** The rounds' process: fedserver_relay_fd is readable when that descriptor is, too. */
void fedserver_relay_watch(const fedserver_relay *relay, int fd);

/** The front: answer with what the rounds' process has said since the request came, or hold the
 * request and ask. False: there was no answer for ten seconds; *response is unchanged. */
bool fedserver_relay_ask(fedserver_relay *relay, const fedserver_request *request, int64_t now_ms,
                         fedserver_response *response);
/** The front: receive answers. Returns how many there were. */
unsigned fedserver_relay_receive(fedserver_relay *relay);

/** Answers GET path. *known = false: the relay does not answer that path. */
typedef fed_status (*fedserver_relay_answer)(void *user, const char *path, int64_t now_ms,
                                             bool *known, fedserver_response *response,
                                             fed_error *err);

/** The rounds' process, in a batch: answer the questions. */
fed_status fedserver_relay_serve(fedserver_relay *relay, fedserver_relay_answer answer, void *user,
                                 int64_t now_ms, fed_error *err) FED_CHECKED;
/** The rounds' process, after the commit: send the answers. */
void fedserver_relay_send(fedserver_relay *relay);

/*
 * Where another process has the answers (a coordinator that follows): a question is taken, and
 * given its answer later.
 */

/** The next question of a front that has none under way. False: there is none. */
bool fedserver_relay_next(fedserver_relay *relay, fedserver_question *question);
/** Answer it at once. The response stays the caller's. NULL: nothing answers that path. */
void fedserver_relay_give(fedserver_relay *relay, const fedserver_question *question,
                          const fedserver_response *response);

#endif
