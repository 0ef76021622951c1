/* Passes requests for the status from the front's process to the rounds' process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_RELAY_H
#define FEDSERVER_RELAY_H

#include "fed/error.h"
#include "fed/log.h"
#include "fedserver/fedserver.h"

/*
 * The rounds' process listens on a Unix socket in the directory, `front.sock`. A program that may
 * open that file gets answers only for the paths that a fedserver_relay_answer knows. A question is
 * one packet, "GET PATH". An answer is one packet, too: "STATUS PATH ETAG TYPE", and the descriptor
 * of a file in memory that has the body. So no buffer of a socket limits the body. For each path,
 * the front sends one question at a time, and at most 50 a second, however many people ask. So
 * visitors can't keep the rounds' process busy.
 */
typedef struct fedserver_relay fedserver_relay;

/** Make a relay. In the rounds' process it listens. log: gets lines about answers that can't be
 * sent; it must outlive the relay; NULL: there is none. Errors: FED_EIO, FED_ENOMEM. */
fed_status fedserver_relay_open(const char *directory, fedserver_part part, const fed_log *log,
                                fedserver_relay **relay, fed_error *err) FED_CHECKED;
/** Close the relay. Here and in the functions below, except fedserver_relay_ask, relay may be
 * NULL. */
void fedserver_relay_close(fedserver_relay *relay);

/** A descriptor that is readable when there is something to do; -1: nothing is connected. */
int fedserver_relay_fd(const fedserver_relay *relay);

/** At the rounds' process: make fedserver_relay_fd readable also when `fd` is readable. */
void fedserver_relay_watch(const fedserver_relay *relay, int fd);

/** At the front: use an answer that was requested after this request came. If there is none, ask
 * the rounds' process, and set response->hold. False: there was no answer for ten seconds, and
 * *response is unchanged. */
bool fedserver_relay_ask(fedserver_relay *relay, const fedserver_request *request, int64_t now_ms,
                         fedserver_response *response);
/** At the front: receive answers of the rounds' process. Returns how many there were. */
unsigned fedserver_relay_receive(fedserver_relay *relay);

/** A function that answers GET path. *known = false: the relay does not answer that path. */
typedef fed_status (*fedserver_relay_answer)(void *user, const char *path, int64_t now_ms,
                                             bool *known, fedserver_response *response,
                                             fed_error *err);

/** At the rounds' process, inside a batch of requests: answer one question of each front. */
fed_status fedserver_relay_serve(fedserver_relay *relay, fedserver_relay_answer answer, void *user,
                                 int64_t now_ms, fed_error *err) FED_CHECKED;
/** At the rounds' process, after the commit of the batch of requests: send the answers. */
void fedserver_relay_send(fedserver_relay *relay);

/* A follower takes a front's question, passes it on to the leader, and answers it later. */

/** Take the next question of a front that waits for no other answer. False: there is none. */
bool fedserver_relay_next(fedserver_relay *relay, fedserver_question *question);
/** Answer a question at once. The response stays the caller's; NULL: nothing answers that path. */
void fedserver_relay_give(fedserver_relay *relay, const fedserver_question *question,
                          const fedserver_response *response);

#endif
