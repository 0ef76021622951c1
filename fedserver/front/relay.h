/* Between the process at the front and the one that does the rounds: the status, for people. */
#ifndef FEDSERVER_RELAY_H
#define FEDSERVER_RELAY_H

#include "fedserver/routes/router.h"

/*
 * The rounds' process listens on a Unix socket in the directory, `front.sock`; whoever may open
 * that file may ask for what fedserver_route_relayed lets through, and for nothing else. A question
 * is one packet, "GET PATH"; so is its answer, a line "STATUS TYPE PATH" and the body. However many
 * people ask the front, there is one question under way for each path, and no more than 50 a
 * second: so nobody at the front can keep the rounds' process busy.
 */
typedef struct fedserver_relay fedserver_relay;

/** Listen, or remember where to ask. Errors: FED_EIO, FED_ENOMEM. */
fed_status fedserver_relay_open(const char *directory, fedserver_part part, fedserver_relay **relay,
                                fed_error *err) FED_CHECKED;
void fedserver_relay_close(fedserver_relay *relay); /* NULL is fine, here and below */

/** Readable when there is something to serve or to hear; -1: nothing is connected. */
int fedserver_relay_fd(const fedserver_relay *relay);

/** The front: answer with what the rounds' process said after the call's request had come, or hold
 * it and ask; 503 where nobody answers. */
fed_status fedserver_relay_ask(fedserver_relay *relay, const fedserver_call *call,
                               fedserver_response *response, fed_error *err) FED_CHECKED;
/** The front: take what was answered; how many answers there were. */
unsigned fedserver_relay_hear(fedserver_relay *relay);

/** The rounds' process, in a batch: answer what was asked. */
fed_status fedserver_relay_serve(fedserver_relay *relay, fedserver *server, int64_t now_ms,
                                 fed_error *err) FED_CHECKED;
/** And when the batch is durable: let the answers go. */
void fedserver_relay_send(fedserver_relay *relay);

#endif
