/* Connects the adapter's loop with the links to other coordinators. */
/* SPDX-License-Identifier: Apache-2.0 */

#include "fedserver/http/http_exchange.h"

static bool admit(void *user, int fd) {
    http *h = user;
    const http_address from = http_address_of(fd);
    return http_peers_admit(&h->peers, HTTP_HANDSHAKE_LINK, &from);
}

fed_status http_cluster_open(http *h, int listening, fed_error *err) {
    const cluster_handlers handlers = {.user = h,
                                       .admit = admit,
                                       .asked = http_forwarded_asked,
                                       .left = http_forwarded_left,
                                       .answered = http_forward_answered,
                                       .lost = http_forward_lost};
    return cluster_open(listening, &handlers, h->log, &h->cluster, err);
}

void http_cluster_use_keys(http *h) {
    const http_tls_pair *pair = h->tls.pairs[FEDSERVER_DEVICES];
    if (h->cluster != NULL && pair != NULL) {
        cluster_use_keys(h->cluster, &(cluster_keys){.credentials = pair->credentials,
                                                     .certificate = pair->certificate});
    }
}

bool http_cluster_follows(const http *h) {
    const char *leader;
    uint64_t term;
    return h->cluster != NULL && fedserver_follows(h->server, &leader, &term);
}

void http_cluster_poll(http *h) {
    if (h->cluster == NULL) {
        return;
    }
    const char *leader;
    uint64_t term;
    const bool follows = fedserver_follows(h->server, &leader, &term);
    cluster_announce(h->cluster, follows ? 0 : fedserver_update_limit(h->server));
    cluster_poll(h->cluster, !follows, leader, term, &h->progress);
    fedserver_followers(h->server, cluster_followers(h->cluster));
    fedserver_update_limit_heard(h->server, cluster_heard(h->cluster));
}
