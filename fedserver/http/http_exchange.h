/* A request on its way through the HTTPS adapter, and the types that the adapter's files share.
 * http_mhd.c has libmicrohttpd's callbacks, http_exchange.c takes requests in, http_batch.c has
 * them handled and http_answer.c sends the answers. All of it belongs to one thread. */
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
    bool closes; /* close the connection, too */
} http_refusal;

typedef enum http_state {
    STATE_HEAD,    /* the head is being read */
    STATE_BODY,    /* the body is being read */
    STATE_DISCARD, /* refused; the body is read so that the peer gets the refusal */
    STATE_PARKED,  /* complete, connection suspended; in http.queue or http.pending */
    STATE_CUT,     /* the connection broke within the body; in http.queue with what came */
    STATE_ANSWER,  /* there is an answer to send */
    STATE_GONE     /* the peer has closed the connection */
} http_state;

/** Where the request comes from; the answer goes back there. */
typedef enum http_origin {
    ORIGIN_PEER = 0,  /* a connection of this process */
    ORIGIN_FORWARDED, /* another coordinator, a follower, which passes on its device's request */
    ORIGIN_QUESTION   /* the front's process, through front.sock; this coordinator is a follower */
} http_origin;

typedef struct http_exchange {
    http *http;
    http_origin origin;
    http_peer *peer; /* NULL if state is STATE_CUT or origin is not ORIGIN_PEER */
    struct MHD_Connection *connection;
    http_state state;
    struct http_exchange *next; /* the next exchange in http.queue or http.pending */
    int64_t begun_ms, parked_ms, pending_until_ms;
    fedserver_request request;
    http_tls_identity identity; /* of the peer; needed in STATE_CUT, when the peer has left */
    uint8_t *body;
    size_t body_size; /* announced size, and capacity of body; request.body_len bytes are filled */
    size_t taken;     /* bytes of the body that have arrived, kept or discarded */
    fedserver_response response;
    bool handled;    /* the coordinator has made `response` in the open batch of requests */
    uint64_t epoch;  /* fedserver_epoch when the request was handled */
    bool takes_body; /* an answer may have a body: the request is no HEAD */
    const http_refusal *refused; /* the answer instead of `response`; NULL: none */
    uint32_t wait_s;             /* in an answer 429: seconds until the client should come again */
    const char *target_end;      /* end of libmicrohttpd's copy of the target */
    uint64_t carried;   /* id under which the request was sent to the leader; 0: it was not sent */
    int64_t adrift_ms;  /* since when the request waits for a leader; 0: it does not wait */
    char type[64];      /* content type, if the leader has made the answer */
    cluster_link *link; /* of a forwarded request: to its follower; NULL: nobody waits any more */
    uint64_t ticket; /* of a forwarded request: its id at the follower; of a question: its ticket */
    char known[HTTP_OBJECT_CACHE_TAG]; /* ETag of the body that the follower has cached; "": none */
    fedserver_blob *shelved; /* at the follower: its cached body of that ETag; NULL: none */
    char uri[];
} http_exchange;

typedef struct http_queue {
    http_exchange *first, **end;
} http_queue;

struct http {
    fedserver *server;
    const fed_log *log;
    http_listener listeners[2]; /* by fedserver_listener; daemon NULL: another process has it */
    http_tls tls;
    http_peers peers;
    http_queue queue;        /* complete requests, which http_batch_end handles */
    http_queue pending;      /* held requests: they were handled, and got no answer yet */
    int64_t pending_next_ms; /* when the first held request is handled again */
    uint64_t epoch;          /* fedserver_epoch when the held requests were last queued again */
    size_t live;             /* number of exchanges that libmicrohttpd has not completed */
    size_t bodies;           /* sum of the announced bytes of the bodies of all exchanges */
    int64_t next_ms;         /* when fedserver_tick wants to be called, Unix time */
    int64_t batch_ms;        /* when the open batch of requests began, Unix time; 0: none is open */
    fed_error failure;       /* first error of the coordinator while requests were coming in */
    uint64_t progress;       /* grows whenever a byte or a request moves */
    unsigned idle_iterations;
    uint64_t throttled;   /* answers with status 429 since the log's last line about them */
    int64_t throttled_ms; /* when that line was written, by the monotonic clock */
    http_gzip gzip;
    int64_t warned_ms;              /* when http_tls_warn last ran, Unix time; 0: never */
    http_object_cache object_cache; /* at a follower: bodies of the leader's answers */
    bool resumed, stopping, closing;
    bool woken;             /* fedserver_wake_fd is readable: the coordinator wants a batch */
    cluster *cluster;       /* links to other coordinators; NULL: this process serves alone */
    int64_t leader_wait_ms; /* how long a request waits for a leader */
    size_t carried_looked;  /* index of the request that http_forward_look checked last */
    int64_t looked_ms;      /* when http_forward_look last looked, by the monotonic clock */
};

/** Empty the queue, which frees no exchange, or add an exchange at its end. */
void http_queue_clear(http_queue *queue);
void http_queue_add(http_queue *queue, http_exchange *x);

/** Make an exchange when a request line has arrived; uri is copied. NULL: out of memory. */
http_exchange *http_exchange_new(http_listener *listener, http_peer *peer,
                                 struct MHD_Connection *connection, const char *uri);
void http_exchange_free(http_exchange *x);

/* The functions below return what libmicrohttpd is to do: MHD_NO closes the connection. */

/** The head is complete: refuse the request, or wait for its body. version: libmicrohttpd's
 * pointer, which lies after the request's target in memory. */
enum MHD_Result http_exchange_begin(http_exchange *x, const char *method, const char *version);
/** Take a piece of the body that has arrived. */
enum MHD_Result http_exchange_take(http_exchange *x, const char *data, size_t len);
/** Note that the request is complete. true: it is refused, so there is an answer. */
bool http_exchange_end(http_exchange *x);
/** Put the request into the queue for http_batch_end, and suspend its connection. */
enum MHD_Result http_exchange_park(http_exchange *x);

void http_exchange_drop_body(http_exchange *x);

/** The connection is lost. true: the request is kept for http_batch_end, because the beginning of
 * its body is of use (fedserver_body_in_parts). Do not use the connection from here on. */
bool http_exchange_keep_cut(http_exchange *x);

/** Refusals of the adapter. stopping: the coordinator stops. too_many: the peer asks too much;
 * x->wait_s is set. full: there is no memory for a body. no_leader: no coordinator leads. */
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

/* ---- http_batch.c: one transaction handles the requests of one turn of the event loop -------- */

/** A peer's request is complete: handle it in the open batch of requests, or begin a batch with it.
 * true: the answer may leave at once, because the batch has written nothing that the answer could
 * depend on. false: park the request, for http_batch_end. */
bool http_batch_answers(http *h, http_exchange *x);

bool http_batch_is_open(const http *h);

/** Handle the requests of h->queue that http_batch_answers has not handled, then call
 * fedserver_tick, commit, and release the answers. Errors: those of the coordinator, also one that
 * happened in http_batch_answers. After an error no answer of the queue is released. */
fed_status http_batch_end(http *h, fed_error *err) FED_CHECKED;

/* ---- http_release.c: answers or holds a request that was handled ----------------------------- */

/** The coordinator has handled the request: send x->response, or hold the request if the response
 * says so. If nobody waits for the response, free the exchange. */
void http_release(http *h, http_exchange *x);

/** x->response is final: charge the peer for the response's bytes, and free the request's body. */
void http_release_settle(http_exchange *x);

/** Hold the request until until_ms, by the monotonic clock, or until fedserver_epoch grows. */
void http_hold(http *h, http_exchange *x, int64_t until_ms);

/** Resume a complete request in state `as`: its origin gets the answer, in STATE_GONE nothing. */
void http_resume(http *h, http_exchange *x, http_state as);
/** Call http_resume for all exchanges of the queue. The queue is empty afterwards. */
void http_resume_all(http *h, http_queue *queue, http_state as);

/* ---- http_cluster.c: the links between coordinators ------------------------------------------ */

/* Where this process serves alone (h->cluster is NULL), all functions of this file do nothing. */

/** Accept links of other coordinators at a socket, which the adapter owns even after an error. */
fed_status http_cluster_open(http *h, int listening, fed_error *err) FED_CHECKED;

/** Use the devices' certificate for the links. Call it whenever the certificates have been read,
 * and before the first http_cluster_poll. */
void http_cluster_use_keys(http *h);

/** Is this coordinator a follower? Its requests are then passed on to the leader. */
bool http_cluster_follows(const http *h);

/** Read from and write to the links, and tell the coordinator what changed. */
void http_cluster_poll(http *h);

/* ---- http_forward.c: at a follower, passes requests on to the leader ------------------------- */

/** Pass all of h->queue on to the leader. Without a link to the leader, requests that may be sent
 * twice wait for a link, and the others are refused with 503. */
void http_forward_queue(http *h);

/** Drop requests at the leader whose peers have left. Each call checks some of the peers, so that
 * each peer is checked within seconds. */
void http_forward_look(http *h);

/** This process stops: refuse all requests at the leader that may be sent twice, because the
 * leader may hold them for long. */
void http_forward_stop(http *h);

/* The two functions below are the members `answered` and `lost` of cluster_handlers; user: the
 * adapter. */
void http_forward_answered(void *user, void *owner, cluster_answer *answer);
void http_forward_lost(void *user, void *owner);

/* ---- http_loop.c: reads and writes, handles requests, and waits ------------------------------ */

/** One iteration: let both daemons read and write, handle the complete requests, and wait for an
 * event. Errors: those of http_batch_end. */
fed_status http_loop_iterate(http *h, fed_error *err) FED_CHECKED;

/** Accept no more connections, answer the held requests with 503, give up the lead, and send the
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

/** Take the front's next questions, which arrive at front.sock, into h->queue. */
void http_questions_take(http *h);
/** Send x->refused or x->response to the front's process, and free the exchange. */
void http_question_end(http_exchange *x);

#endif
