/* A request on its way through the HTTPS adapter, and the types that the adapter's files share.
 * http_mhd.c has libmicrohttpd's callbacks, http_exchange.c takes requests in, http_batch.c has
 * them handled, and http_answer.c sends the answers. One thread runs all of this. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_EXCHANGE_H
#define FEDSERVER_HTTP_EXCHANGE_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedserver/cluster/cluster.h"
#include "fedserver/http/http_gzip.h"
#include "fedserver/http/http_object_cache.h"
#include "fedserver/http/http_peer.h"
#include "fedserver/http/http_pending.h"
#include "fedserver/http/http_tls.h"

/** The HTTPS adapter of one process. */
typedef struct http http;

typedef struct http_listener {
    http *http;
    fedserver_listener kind;
    struct MHD_Daemon *daemon;
    int epoll_fd;
} http_listener;

/** An error that the adapter answers without the coordinator. */
typedef struct http_refusal {
    int status;
    const char *error, *message;
    bool closes; /* close the connection after the answer */
} http_refusal;

typedef enum http_state {
    STATE_HEAD,
    STATE_BODY,
    STATE_DISCARD, /* refused; the rest of the body is read and dropped */
    STATE_PARKED,  /* complete; waits for its answer */
    STATE_CUT,     /* the connection broke within the body */
    STATE_ANSWER,
    STATE_GONE /* the request gets no answer */
} http_state;

/** Where the request comes from; the answer goes back there. */
typedef enum http_origin {
    ORIGIN_PEER = 0,  /* a connection of this process */
    ORIGIN_FORWARDED, /* a follower, which forwards a request */
    ORIGIN_QUESTION   /* the front's process, which asks through the socket front.sock */
} http_origin;

typedef struct http_exchange {
    http *http;
    http_origin origin;
    http_peer *peer; /* NULL if state is STATE_CUT or origin is not ORIGIN_PEER */
    struct MHD_Connection *connection;
    http_state state;
    struct http_exchange *next; /* in http.queue */
    http_held held;             /* in http.pending */
    int64_t begun_ms, parked_ms;
    fedserver_request request;
    char address[HTTP_ADDRESS_TEXT];
    http_tls_identity identity; /* the peer's identity, copied for STATE_CUT */
    uint8_t *body;
    size_t body_size; /* capacity of body; request.body_len bytes are filled */
    size_t taken;     /* bytes of the body that have arrived, kept or discarded */
    fedserver_response response;
    bool handled;                /* the coordinator has made `response` */
    uint64_t epoch;              /* fedserver_epoch when the request was handled */
    bool takes_body;             /* false for HEAD: the answer has no body */
    const http_refusal *refused; /* sent instead of `response`; NULL: `response` is sent */
    uint32_t wait_s;             /* for status 429: seconds until the client may try again */
    const char *target_end;      /* end of the target in libmicrohttpd's memory */
    uint64_t carried;            /* id of the request at the leader; 0: it is not there */
    int64_t adrift_ms;           /* when the wait for a leader began; 0: no wait */
    char type[64];               /* content type of the leader's answer */
    cluster_link *link; /* to the follower that forwarded the request; NULL: no follower waits */
    uint64_t ticket;    /* id of a forwarded request at its follower, or of a question */
    char known[HTTP_OBJECT_CACHE_TAG]; /* ETag of the body that the follower has cached; "": none */
    fedserver_blob *shelved; /* at the follower: the cached body with ETag `known`; NULL: none */
    char uri[];
} http_exchange;

typedef struct http_queue {
    http_exchange *first, **end;
} http_queue;

struct http {
    fedserver *server;
    const fed_log *log;
    http_listener listeners[2]; /* index: fedserver_listener; daemon NULL: not open here */
    http_tls tls;
    http_peers peers;
    http_queue queue;     /* requests that wait for http_batch_end */
    http_pending pending; /* requests whose answers are held back */
    uint64_t epoch;       /* fedserver_epoch when the loop last looked for held requests */
    size_t live;          /* exchanges that libmicrohttpd has not completed */
    size_t bodies;        /* bytes reserved for request bodies, over all exchanges */
    int64_t next_ms;      /* latest time of the next fedserver_tick, Unix time in ms */
    int64_t batch_ms;     /* when the open batch began, Unix time in ms; 0: no batch is open */
    fed_error failure;    /* first error in http_batch_answers, which http_batch_end returns */
    uint64_t progress;    /* grows when bytes move or on_request is called */
    unsigned idle_iterations;
    uint64_t throttled;   /* answers with status 429 since the log's last line about them */
    int64_t throttled_ms; /* when the log's last line about 429 was written, monotonic clock */
    http_gzip gzip;
    int64_t warned_ms; /* when http_tls_warn last ran, Unix time in ms; 0: run it */
    http_object_cache object_cache;
    bool resumed, stopping, closing;
    bool woken;             /* fedserver_wake_fd is readable */
    cluster *cluster;       /* links to other coordinators; NULL: this process serves alone */
    int64_t leader_wait_ms; /* how long a request waits for a leader */
    size_t carried_looked;  /* index of the request that http_forward_look checked last */
    int64_t looked_ms;
};

/** clear: empty the queue without freeing its exchanges. add: append an exchange. */
void http_queue_clear(http_queue *queue);
void http_queue_add(http_queue *queue, http_exchange *x);

/** Make an exchange when a request line has arrived; uri is copied. NULL: out of memory. */
http_exchange *http_exchange_new(http_listener *listener, http_peer *peer,
                                 struct MHD_Connection *connection, const char *uri);
void http_exchange_free(http_exchange *x);

/* With the result MHD_NO, libmicrohttpd closes the connection. */

/** The head is complete: refuse the request, or wait for its body. version: the HTTP version, as
 * libmicrohttpd passed it. */
enum MHD_Result http_exchange_begin(http_exchange *x, const char *method, const char *version);
/** Take a piece of the body that has arrived. */
enum MHD_Result http_exchange_take(http_exchange *x, const char *data, size_t len);
/** The request is complete. true: it was refused, and the answer can be sent. */
bool http_exchange_end(http_exchange *x);
/** Put the request into the queue for http_batch_end, and suspend its connection. */
enum MHD_Result http_exchange_park(http_exchange *x);

void http_exchange_drop_body(http_exchange *x);

/** libmicrohttpd is done with the request. true: its connection broke within the body, and the
 * request is kept for http_batch_end, because the beginning of its body is of use
 * (fedserver_body_in_parts). Do not use the connection from here on. */
bool http_exchange_keep_cut(http_exchange *x);

/** Refusals of the adapter. stopping: the coordinator stops. too_many: the peer exceeds its limits;
 * x->wait_s is set. full: a body can't be taken now. no_leader: no coordinator leads. */
extern const http_refusal http_refusal_stopping, http_refusal_too_many, http_refusal_full,
    http_refusal_no_leader;

/** Get the refusal for a status of fedserver_body_refused. */
const http_refusal *http_refusal_of(int status);

/** The largest number of bytes that all request bodies may take in memory together. */
enum { HTTP_BODIES_MOST = 256 << 20 };

/** Write the refusal as JSON. Returns its length. */
int http_refusal_json(const http_refusal *r, char *json, size_t cap);

/** Send x->refused if there is one, else x->response. */
enum MHD_Result http_answer(http_exchange *x);

/* ---- http_batch.c: handles requests in batches, one transaction a batch ---------------------- */

/** A peer's request is complete: handle it in the open batch; if there is none, open one. true:
 * send the answer at once, because it depends on nothing uncommitted. false: park the request for
 * http_batch_end. */
bool http_batch_answers(http *h, http_exchange *x);

bool http_batch_is_open(const http *h);

/** Handle the remaining requests of h->queue, or at a follower pass them on. Call fedserver_tick,
 * commit, and release the answers. Errors: those of the coordinator, also one that happened in
 * http_batch_answers. After an error no answer of the queue is released. */
fed_status http_batch_end(http *h, fed_error *err) FED_CHECKED;

/* ---- http_release.c: answers or holds a request that was handled ----------------------------- */

/** The coordinator has handled the request: send x->response, or hold the request if the response
 * says so. If nobody waits for the response, free the exchange. */
void http_release(http *h, http_exchange *x);

/** x->response is final: charge the peer for the response's bytes, and free the request's body. */
void http_release_settle(http_exchange *x);

/** Hold the request until until_ms, by the monotonic clock, or until it is woken: fedserver_epoch
 * grows, or fedserver_woken returns x->response.hold_key. Without memory the request is refused. */
void http_hold(http *h, http_exchange *x, int64_t until_ms);

/** Take the request that is due first from those held. NULL: none is held. */
http_exchange *http_release_first(http *h);

/** Take a request with this hold_key from those held. NULL: there is none. */
http_exchange *http_release_with(http *h, uint64_t key);

/** Continue a suspended request in the state `as`. In STATE_GONE it gets no answer. */
void http_resume(http *h, http_exchange *x, http_state as);
/** Call http_resume for all exchanges of the queue. The queue is empty afterwards. */
void http_resume_all(http *h, http_queue *queue, http_state as);

/* ---- http_cluster.c: the links between coordinators ------------------------------------------ */

/* Where h->cluster is NULL, this process serves alone: the functions other than http_cluster_open
 * do nothing. */

/** Accept links of other coordinators at a socket, which the adapter owns even after an error. */
fed_status http_cluster_open(http *h, int listening, fed_error *err) FED_CHECKED;

/** Use the certificate of the devices' listener for the links. Call this function whenever the
 * certificates have been read, and before the first http_cluster_poll. */
void http_cluster_use_keys(http *h);

/** Is this coordinator a follower? Its requests are then passed on to the leader. */
bool http_cluster_follows(const http *h);

/** Read from and write to the links, and tell the coordinator what changed. */
void http_cluster_poll(http *h);

/* ---- http_forward.c: at a follower, passes requests on to the leader ------------------------- */

/** Pass all of h->queue on to the leader. Without a link to the leader, requests wait for a link,
 * at most h->leader_wait_ms; then they are refused with 503. */
void http_forward_queue(http *h);

/** Cancel forwarded requests whose peers have left. Each call checks only some of the requests. */
void http_forward_look(http *h);

/** This process stops: refuse the forwarded requests that the leader may hold for long. */
void http_forward_stop(http *h);

/* The two functions below are the members `answered` and `lost` of cluster_handlers; user: the
 * adapter. */
void http_forward_answered(void *user, void *owner, cluster_answer *answer);
void http_forward_lost(void *user, void *owner);

/* ---- http_loop.c: reads and writes, handles requests, and waits ------------------------------ */

/** One iteration: let the daemons read and write, handle the complete requests, and wait for an
 * event. Errors: those of http_batch_end. */
fed_status http_loop_iterate(http *h, fed_error *err) FED_CHECKED;

/** Accept no more connections, refuse the held requests, give up leadership, and send the
 * remaining answers. */
fed_status http_loop_drain(http *h, fed_error *err) FED_CHECKED;

/* ---- http_forwarded.c: at the leader, handles requests that followers pass on ---------------- */

/* A forwarded request is an exchange like any other, but its answer leaves through a link. The
 * next two functions are the members `asked` and `left` of cluster_handlers; user is the adapter.
 */

fed_status http_forwarded_asked(void *user, cluster_link *link, cluster_frame *frame, void **owner,
                                fed_error *err) FED_CHECKED;
void http_forwarded_left(void *user, void *owner);

/** Send x->refused or x->response if somebody waits for it, and free the exchange. */
void http_forwarded_end(http_exchange *x);

/* ---- http_question.c: at a follower, handles requests of its front's process ----------------- */

/** Take the questions that have arrived at front.sock into h->queue. */
void http_questions_take(http *h);
/** Send x->refused or x->response to the front's process, and free the exchange. */
void http_question_end(http_exchange *x);

#endif
