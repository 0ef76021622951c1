/* At a follower: requests go to the leader, and come back with its answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_CARRY_H
#define FEDSERVER_HTTP_CARRY_H

#include "fedserver/http/http_exchange.h"

/** Pass all of h->queue on to the leader. Without a link to it, requests that may be sent twice
 * wait for one, and the others are refused with 503. */
void http_carry_queue(http *h);

/** Look whether the peers of requests under way have left; of some at a time, so that each is
 * looked at within seconds. */
void http_carry_look(http *h);

/** This process stops: requests that the leader may hold for long are refused now. */
void http_carry_stop(http *h);

/* `answered` and `lost` of cluster_handlers; user is the adapter. */
void http_carry_answered(void *user, void *owner, cluster_answer *answer);
void http_carry_lost(void *user, void *owner);

#endif
