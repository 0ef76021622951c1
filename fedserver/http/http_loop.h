/* What drives the HTTPS adapter: batches of requests, one transaction each, and the wait between.
 */
#ifndef FEDSERVER_HTTP_LOOP_H
#define FEDSERVER_HTTP_LOOP_H

#include "fedserver/http/http_exchange.h"

/** Handle what is in h->queue in one transaction, let the coordinator do what is due, and release
 * the answers. Errors: those of the coordinator; then no answer is released. */
fed_status http_loop_batch(http *h, fed_error *err) FED_CHECKED;

/** Let both daemons read and write, handle what is complete, and wait until there is more. Errors:
 * those of http_loop_batch. */
fed_status http_loop_turn(http *h, fed_error *err) FED_CHECKED;

/** Take no more connections, send home who is held, and get out what is owed. */
fed_status http_loop_drain(http *h, fed_error *err) FED_CHECKED;

/** Let the connections of these exchanges go on, at that stage. */
void http_loop_resume_all(http *h, http_queue *queue, http_stage as);

#endif
