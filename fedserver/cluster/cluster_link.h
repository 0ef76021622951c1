/* One connection between two coordinators: socket, TLS, frames and heartbeats. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLUSTER_LINK_H
#define FEDSERVER_CLUSTER_LINK_H

#include "fedserver/cluster/cluster_message.h"

/** A link sends a heartbeat after CLUSTER_HEARTBEAT_MS without other bytes. It ends after
 * CLUSTER_SILENT_MS without bytes of the peer. */
enum { CLUSTER_HEARTBEAT_MS = 1000, CLUSTER_SILENT_MS = 4000 };

/** This side's key. credentials: a gnutls_certificate_credentials_t with server.pem and
 * server.key; certificate: the text of server.pem. Both must outlive the links that use them. */
typedef struct cluster_keys {
    void *credentials;
    const char *certificate;
} cluster_keys;

/** A request is refused if other bytes wait on the link, and its body would make them more than
 * this. Devices may send faster than the link does. */
enum { CLUSTER_WAITING_MOST = 256 << 20 };

typedef struct cluster_link cluster_link;

/** Make a link of a non-blocking socket, which the link owns. caller: this side connected; false:
 * it accepted. Errors: those of cluster_tls_open; then the socket is closed. */
fed_status cluster_link_new(int fd, bool caller, const cluster_keys *keys, int64_t now_ms,
                            cluster_link **link, fed_error *err) FED_CHECKED;
/** Close the connection. NULL is allowed. */
void cluster_link_free(cluster_link *link);

int cluster_link_fd(const cluster_link *link);

/** Have both sides proved their key, and has the peer's CLUSTER_HELLO come? Only then other frames
 * may be sent. */
bool cluster_link_up(const cluster_link *link);
/** Does the link wait for its socket to become writable? */
bool cluster_link_writes(const cluster_link *link);
/** The latest time for the next cluster_link_run, by the monotonic clock. */
int64_t cluster_link_next_ms(const cluster_link *link);

/** Send a number with each heartbeat, and at once when the number changes. The number is 0 at
 * first. */
void cluster_link_announce(cluster_link *link, uint64_t number);
/** The number of the peer's last heartbeat. */
uint64_t cluster_link_heard(const cluster_link *link);

/** Add a frame to those that wait to be sent. bytes[len]: the body. blob: owns these bytes, and is
 * shared until they are sent; NULL: the bytes are copied. FED_ENOMEM; FED_EBUSY: the body of a
 * request has no room beside the frames that wait, and nothing was added. */
fed_status cluster_link_send(cluster_link *link, cluster_kind kind, uint64_t id,
                             const fed_writer *head, const uint8_t *bytes, size_t len,
                             fedserver_blob *blob, fed_error *err) FED_CHECKED;

/** A function that takes a frame that has come; the link itself takes CLUSTER_HELLO and
 * CLUSTER_HEARTBEAT. The function may take over the body's memory. An error ends the link. */
typedef fed_status (*cluster_link_taker)(void *user, cluster_link *link, cluster_frame *frame,
                                         fed_error *err);

/** Continue the handshake, receive and send as far as that is possible without waiting. *moved
 * grows if bytes have come. After an error the link can only be freed, and err says why: FED_ENET,
 * FED_EAUTH, FED_EFORMAT, FED_EVERSION, FED_ENOMEM. */
fed_status cluster_link_run(cluster_link *link, int64_t now_ms, cluster_link_taker taker,
                            void *user, uint64_t *moved, fed_error *err) FED_CHECKED;

/** Send what can be sent without waiting. The next cluster_link_run returns this call's error. */
void cluster_link_flush(cluster_link *link, int64_t now_ms);

/*
 * The unanswered requests of a link. `owner` is this side's pointer for a request. The low half of
 * an id is a small array index, which later requests use again; the high half tells these requests
 * apart.
 */

/** At the side that connected: make a new id for that owner. FED_ENOMEM. */
fed_status cluster_link_claim(cluster_link *link, void *owner, uint64_t *id,
                              fed_error *err) FED_CHECKED;
/** At the side that accepted: store the owner of a received request. FED_EFORMAT: the index in the
 * id is in use, or too large; FED_ENOMEM. */
fed_status cluster_link_own(cluster_link *link, uint64_t id, void *owner,
                            fed_error *err) FED_CHECKED;
/** The owner of that id; NULL: no request with that id waits. */
void *cluster_link_owner(const cluster_link *link, uint64_t id);
/** Forget the owner of that id. */
void cluster_link_disown(cluster_link *link, uint64_t id);
/** The owner at an index below cluster_link_owners; NULL: none. */
void *cluster_link_owner_at(const cluster_link *link, size_t index, uint64_t *id);
size_t cluster_link_owners(const cluster_link *link);

#endif
