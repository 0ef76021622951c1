/* The HTTPS adapter among other coordinators: what its loop does for the links. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_CLUSTER_H
#define FEDSERVER_HTTP_CLUSTER_H

#include "fedserver/http/http_exchange.h"

/* Where this process serves alone (h->cluster NULL), all of these do nothing. */

/** listening: a socket, which is taken over, also after an error. */
fed_status http_cluster_open(http *h, int listening, fed_error *err) FED_CHECKED;
void http_cluster_close(http *h);

/** The devices' certificates were read. Call it before the first http_cluster_turn, too. */
void http_cluster_use_keys(http *h);

/** Does another coordinator lead, or none yet? Then requests are passed on. */
bool http_cluster_follows(const http *h);

/** Let the links move. */
void http_cluster_turn(http *h);

#endif
