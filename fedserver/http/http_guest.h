/* At the leader: requests that its followers pass on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_GUEST_H
#define FEDSERVER_HTTP_GUEST_H

#include "fedserver/http/http_exchange.h"

/* A guest is an exchange like any other: it joins the next batch, is held, and is woken by the
 * epoch. Only its answer leaves by another way. The first two are `asked` and `left` of
 * cluster_handlers; user is the adapter. */

fed_status http_guest_asked(void *user, cluster_link *link, cluster_frame *frame, void **owner,
                            fed_error *err) FED_CHECKED;
void http_guest_left(void *user, void *owner);

/** Send x->refused or x->response, where somebody waits for it, and free the exchange. */
void http_guest_end(http_exchange *x);

#endif
