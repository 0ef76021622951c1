/* Links between coordinators with one store: followers pass devices' requests on to the leader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLUSTER_H
#define FEDSERVER_CLUSTER_H

#include "fed/log.h"
#include "fedserver/cluster/cluster_link.h"

/** The most links to followers. A peer that has not proved its key may lose its place. */
enum { CLUSTER_LINKS_MOST = 64 };

/*
 * A process has one `cluster`. The store decides who leads (`lead` in stores/store.h). A process
 * begins as a follower and may become the leader, never the other way round.
 *
 * `owner` is the caller's pointer for a request. cluster_poll calls the functions below;
 * cluster_close and cluster_dismiss may call `left` and `lost`, too.
 */
typedef struct cluster_handlers {
    void *user;
    /** At the leader: may the peer that has connected with this socket begin a handshake? */
    bool (*admit)(void *user, int fd);
    /** At the leader: a follower passes on a request. The function may take over frame->body, and
     * sets *owner. Once it has returned, cluster_answer_send may answer. An error ends the link. */
    fed_status (*asked)(void *user, cluster_link *link, cluster_frame *frame, void **owner,
                        fed_error *err);
    /** At the leader: the request's answer is no longer wanted. The link may be gone. */
    void (*left)(void *user, void *owner);
    /** At a follower: the answer has come. The function owns answer->response.body. */
    void (*answered)(void *user, void *owner, cluster_answer *answer);
    /** At a follower: no answer will come. The leader may have handled the request. */
    void (*lost)(void *user, void *owner);
} cluster_handlers;

typedef struct cluster cluster;

/** Make the process's cluster. listening: a socket for links of followers, which the function owns,
 * also after an error. Errors: FED_EIO, FED_ENOMEM. */
fed_status cluster_open(int listening, const cluster_handlers *handlers, const fed_log *log,
                        cluster **made, fed_error *err) FED_CHECKED;
/** End all links, and call `left` and `lost` for their requests. NULL is allowed. */
void cluster_close(cluster *c);

/** Set the key and the certificate that new links use. */
void cluster_use_keys(cluster *c, const cluster_keys *keys);

/** A descriptor that becomes readable when cluster_poll has something to do. */
int cluster_fd(const cluster *c);
/** The latest time for the next cluster_poll, by the monotonic clock. */
int64_t cluster_next_ms(const cluster *c);

/** Accept, connect, receive and send as far as that is possible without waiting. leads: this
 * process leads. Otherwise leader is the leader's address ("": not known), and term the leader's
 * term. *moved grows if bytes have come. */
void cluster_poll(cluster *c, bool leads, const char *leader, uint64_t term, uint64_t *moved);
void cluster_flush(cluster *c);

/** At the leader: tell followers the size of the largest update that this process takes. */
void cluster_announce(cluster *c, uint64_t limit);
/** At a follower: the size that a leader announced last; 0: none yet. */
uint64_t cluster_heard(const cluster *c);

/** Number of followers that have a link to this process. */
unsigned cluster_followers(const cluster *c);
/** End the links of followers, and take no more: this process is about to end. */
void cluster_dismiss(cluster *c);

/** Pass a request on to the leader, and set *id. known: as in cluster_request_write. Errors:
 * FED_ENOMEM, FED_EBUSY (too many bytes wait), FED_ENET (there is no link). After an error the
 * leader does not get the request. */
fed_status cluster_forward(cluster *c, const fedserver_request *request, const char *known,
                           void *owner, uint64_t *id, fed_error *err) FED_CHECKED;
/** At a follower: the request's answer is no longer wanted. No handler is called for it. */
void cluster_cancel(cluster *c, uint64_t id);
/** Get the owner and id of a request that waits for the leader's answer, by an index below
 * cluster_carried. NULL: there is none at that index. */
void *cluster_carried_at(const cluster *c, size_t index, uint64_t *id);
size_t cluster_carried(const cluster *c);

/** At the leader: answer a request. same: leave out the body, which the follower has. Does nothing
 * if no request with that id waits. */
void cluster_answer_send(cluster_link *link, uint64_t id, const fedserver_response *response,
                         bool same);

#endif
