/* One connection between two coordinators: socket, TLS, frames, and whether the peer still lives.
 * */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLUSTER_LINK_H
#define FEDSERVER_CLUSTER_LINK_H

#include "fedserver/cluster/cluster_message.h"

/** A peer that says nothing for so long is given up: it is stopped, or the line is cut. */
enum { CLUSTER_HEARTBEAT_MS = 1000, CLUSTER_SILENT_MS = 4000 };

/** What proves who we are: credentials is a gnutls_certificate_credentials_t with server.pem and
 * server.key, certificate the text of server.pem. They must outlive the links that use them. */
typedef struct cluster_keys {
    void *credentials;
    const char *certificate;
} cluster_keys;

/** Bytes that may wait for the line. Devices may send faster than the line does, and who leaves
 * gives back the room of its body, but not that of the frame that is under way. */
enum { CLUSTER_WAITING_MOST = 256 << 20 };

typedef struct cluster_link cluster_link;

/** Takes over the socket, which must not block. caller: this side has connected. Errors: those of
 * cluster_tls_open; then the socket is closed. */
fed_status cluster_link_new(int fd, bool caller, const cluster_keys *keys, int64_t now_ms,
                            cluster_link **link, fed_error *err) FED_CHECKED;
/** Closes the connection. NULL is fine. */
void cluster_link_free(cluster_link *link);

int cluster_link_fd(const cluster_link *link);

/** Both sides have proved their key and said hello: frames may be sent. */
bool cluster_link_up(const cluster_link *link);
/** Does the link wait until the socket takes bytes? */
bool cluster_link_writes(const cluster_link *link);
/** When the link wants to run again at the latest, by the monotonic clock. */
int64_t cluster_link_next_ms(const cluster_link *link);

/** Say a number with each heartbeat, and at once where it is another one than before. At first it
 * is 0.
 */
void cluster_link_announce(cluster_link *link, uint64_t number);
/** The number that the peer said last. */
uint64_t cluster_link_heard(const cluster_link *link);

/** Add a frame to what is sent. bytes[len]: the body. blob: holds these bytes, and a reference is
 * kept until they are sent; NULL: they are copied. FED_ENOMEM; FED_EBUSY: a request's body has no
 * room while other frames wait, and nothing was added. */
fed_status cluster_link_send(cluster_link *link, cluster_kind kind, uint64_t id,
                             const fed_writer *head, const uint8_t *bytes, size_t len,
                             fedserver_blob *blob, fed_error *err) FED_CHECKED;

/** A frame has come; kinds HELLO and BEAT are the link's own. The function may take over the body's
 * memory. An error ends the link. */
typedef fed_status (*cluster_link_taker)(void *user, cluster_link *link, cluster_frame *frame,
                                         fed_error *err);

/** Shake hands, receive and send what can be without waiting. *moved grows with what came. Errors:
 * the link is over, and err says why: FED_ENET, FED_EAUTH, FED_EFORMAT, FED_EVERSION, FED_ENOMEM.
 * */
fed_status cluster_link_run(cluster_link *link, int64_t now_ms, cluster_link_taker taker,
                            void *user, uint64_t *moved, fed_error *err) FED_CHECKED;

/** Send what can be sent without waiting. An error comes back in the next cluster_link_run. */
void cluster_link_flush(cluster_link *link, int64_t now_ms);

/*
 * Requests under way on this link. `owner` is whatever stands for one here. The low half of an id
 * is a small number, which the caller uses again; the high half tells its users apart. So both ends
 * find an owner by an index.
 */

/** The caller: a new id for that owner. FED_ENOMEM. */
fed_status cluster_link_claim(cluster_link *link, void *owner, uint64_t *id,
                              fed_error *err) FED_CHECKED;
/** The other end: note whose request that is. FED_EFORMAT: the number is in use, or too large;
 * FED_ENOMEM. */
fed_status cluster_link_own(cluster_link *link, uint64_t id, void *owner,
                            fed_error *err) FED_CHECKED;
/** NULL: nobody waits under that id. */
void *cluster_link_owner(const cluster_link *link, uint64_t id);
/** From now on nobody waits under that id. */
void cluster_link_disown(cluster_link *link, uint64_t id);
/** Walk: the owner at an index, NULL for none. The indices end at cluster_link_owners. */
void *cluster_link_owner_at(const cluster_link *link, size_t index, uint64_t *id);
size_t cluster_link_owners(const cluster_link *link);

#endif
