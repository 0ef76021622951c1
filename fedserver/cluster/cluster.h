/* Coordinators beside each other: the leader takes requests from its followers, a follower passes
 * its devices' requests on to the leader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CLUSTER_H
#define FEDSERVER_CLUSTER_H

#include "fed/log.h"
#include "fedserver/cluster/cluster_link.h"

/** Links of followers at a time. Strangers who have not proved our key have places among them,
 * until the places are needed. */
enum { CLUSTER_LINKS_MOST = 64 };

/*
 * One process is one `cluster`. Who leads is not decided here (`lead` of stores/store.h). A process
 * begins as a follower and may become the leader, never the other way round.
 *
 * `owner` stands for a request in the caller's world. The functions below are called from within
 * cluster_poll, except where it says otherwise.
 */
typedef struct cluster_handlers {
    void *user;
    /** The leader: may whoever has connected with this socket begin a handshake? */
    bool (*admit)(void *user, int fd);
    /** The leader: a follower passes on a request. The function may take over frame->body, and
     * sets *owner. Once it has returned, cluster_answer_send answers. An error ends the link. */
    fed_status (*asked)(void *user, cluster_link *link, cluster_frame *frame, void **owner,
                        fed_error *err);
    /** The leader: nobody waits for that answer any more, and the link may be gone. */
    void (*left)(void *user, void *owner);
    /** A follower: the answer has come. The function owns answer->response.body. */
    void (*answered)(void *user, void *owner, cluster_answer *answer);
    /** A follower: no answer will come, and the request may have been handled or not. */
    void (*lost)(void *user, void *owner);
} cluster_handlers;

typedef struct cluster cluster;

/** listening: a socket, which is taken over, also after an error. Errors: FED_EIO, FED_ENOMEM. */
fed_status cluster_open(int listening, const cluster_handlers *handlers, const fed_log *log,
                        cluster **made, fed_error *err) FED_CHECKED;
/** Ends all links; calls `left` and `lost`. NULL is fine. */
void cluster_close(cluster *c);

/** What new links prove themselves with. */
void cluster_use_keys(cluster *c, const cluster_keys *keys);

/** Readable when cluster_poll has something to do. */
int cluster_fd(const cluster *c);
/** When cluster_poll wants to be called at the latest, by the monotonic clock. */
int64_t cluster_next_ms(const cluster *c);

/** Accept, connect, receive and send what can be without waiting. leads: this process leads; else
 * leader is the address of the one that does ("": not known), and term its lead. *moved grows with
 * what came. */
void cluster_poll(cluster *c, bool leads, const char *leader, uint64_t term, uint64_t *moved);
/** Send what can be sent without waiting. */
void cluster_flush(cluster *c);

/** The leader: the bytes of the largest update that it takes. Each follower hears it. */
void cluster_announce(cluster *c, uint64_t limit);
/** A follower: what a leader said last; 0: nothing yet. */
uint64_t cluster_heard(const cluster *c);

/** How many followers have a link to this process. */
unsigned cluster_followers(const cluster *c);
/** End the links of followers, and take no more: this process is about to end. */
void cluster_dismiss(cluster *c);

/** Pass a request on. known: as of cluster_request_write. Errors: FED_ENOMEM, FED_EBUSY (too many
 * bytes wait), FED_ENET (not linked): nothing was sent. */
fed_status cluster_forward(cluster *c, const fedserver_request *request, const char *known,
                           void *owner, uint64_t *id, fed_error *err) FED_CHECKED;
/** Nobody waits for the answer any more. `lost` and `answered` are not called. */
void cluster_cancel(cluster *c, uint64_t id);
/** Walk over the requests that are under way: owner and id at an index; NULL: none there. */
void *cluster_carried_at(const cluster *c, size_t index, uint64_t *id);
size_t cluster_carried(const cluster *c);

/** The leader: answer a request. same: without the body, which the follower has. Does nothing where
 * nobody waits under that id any more. */
void cluster_answer_send(cluster_link *link, uint64_t id, const fedserver_response *response,
                         bool same);

#endif
