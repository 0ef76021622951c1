/* The coordinator as a library: requests in, answers out. It has no sockets. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_FEDSERVER_H
#define FEDSERVER_FEDSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/error.h"
#include "fed/hash.h"
#include "fed/log.h"

FED_API_BEGIN

/*
 * A program that serves, without sockets:
 *
 *     fedserver *server;
 *     fedserver_upgrade(directory, &err);
 *     fedserver_open(directory, log, &server, &err);
 *     for (;;) {
 *         wait for requests, for fedserver_wake_fd, or until next_ms;
 *         fedserver_begin(server, &err);
 *         for each request:
 *             fedserver_handle(server, &request, now_ms, &response, &err);
 *         fedserver_tick(server, now_ms, &next_ms, &err);
 *         fedserver_commit(server, &err);
 *         send the answers;
 *     }
 *     fedserver_close(server);
 *
 * fedserver/http.h does that over HTTPS. fedserver/operator.h makes a coordinator, and has what
 * people do with one: tasks, tokens, devices, backups.
 *
 * A coordinator is a directory: keys and certificates (ca.pem, ca.key, server.pem, server.key),
 * and the file `store`, which names the store of everything else that must survive: tasks, models,
 * rounds, updates, devices, tokens. The default store is SQLite, in the same directory. What is
 * stored changes only inside a transaction (docs/durability.md).
 *
 * Times are Unix milliseconds. A handle belongs to one thread at a time.
 */

/* -- Open -- */

typedef struct fedserver fedserver;

/**
 * Open a coordinator. The first fedserver_begin continues where the last process stopped: it adds
 * up the updates of each open round again from the store. A second process may open the same
 * directory, as the command line does while the service runs. Only one process may have the rounds:
 * in another one fedserver_begin returns FED_EBUSY, unless the setup has an `address`, with which
 * several coordinators share a store. End with fedserver_close.
 *
 * Errors: FED_ENOTFOUND (no such directory: run init), FED_EFORMAT, FED_EIO. FED_EVERSION: the
 * store is of a newer or of an older release, and stays as it is: a process of that release may
 * serve. fedserver_upgrade (fedserver/operator.h) upgrades an older one.
 */
fed_status fedserver_open(const char *directory, const fed_log *log, fedserver **server,
                          fed_error *err) FED_CHECKED;
void fedserver_close(fedserver *server);

/** The role of this process. */
typedef enum fedserver_part {
    FEDSERVER_WHOLE = 0, /* one process does everything */
    /** The process of rounds and devices. It never reads the CA's key. The front is another
     * process, and asks this one for the status through a socket in the directory. */
    FEDSERVER_ROUNDS = 1,
    /** The front, for people, enrolment and renewal. It reads the CA's key. Any number of fronts
     * may run. A front enrols devices even if no other process serves the directory. */
    FEDSERVER_GATE = 2
} fedserver_part;

/** Who may read the page, the status, the devices and the metrics at the front. */
typedef enum fedserver_page {
    FEDSERVER_PAGE_LOOPBACK = 0,  /* this machine and operators */
    FEDSERVER_PAGE_OPERATORS = 1, /* clients with a pass: a session cookie or a bearer token */
    FEDSERVER_PAGE_ALL = 2        /* everybody */
} fedserver_page;

typedef struct fedserver_setup {
    fedserver_part part;
    fedserver_page page;
    bool page_reads;       /* the page only shows: nobody acts through it, operators neither */
    int64_t device_life_s; /* seconds that issued certificates are valid; 0: two years */
    /* A new version of a model of at least this many values is made by a thread, while the server
     * goes on answering. The program then calls fedserver_begin when fedserver_wake_fd is
     * readable. 0: versions are made between fedserver_begin and fedserver_commit. */
    size_t apart_values;
    /* bytes of memory that the running tasks may take together; 0: no limit. A task that does not
     * fit beside the others waits in the queue. */
    uint64_t task_memory;
    /* "HOST:PORT", where other coordinators with the same store reach this one; they may take over
     * from each other. The string must outlive the server. NULL: this process serves alone. */
    const char *address;
} fedserver_setup;

/* Of several coordinators with one store, one leads: it has the rounds, and handles requests. The
 * others follow: their fedserver_begin asks the store at most ten times a second who leads. If
 * nobody leads, fedserver_begin makes the caller the leader. A follower's batch of requests does
 * nothing, and requests get 503. At a leader that loses leadership the functions fail with
 * FED_ESTATE: close it. */

/** A good value of apart_values. */
enum { FEDSERVER_APART_VALUES = 1 << 18 };

/** Set up the server before the first fedserver_begin. Without this call, all members are 0. */
void fedserver_configure(fedserver *server, const fedserver_setup *setup);

/** Set the ports of the listeners, which enrolment answers and the status name. */
void fedserver_ports(fedserver *server, uint16_t front_port, uint16_t devices_port);

/** The directory that was opened. */
const char *fedserver_directory(const fedserver *server);

/* -- Requests and answers -- */

/** Immutable bytes, which several answers may refer to. */
typedef struct fedserver_blob fedserver_blob;

/** Make a blob of a growing writer's bytes, taking over its memory. NULL: out of memory. */
fedserver_blob *fedserver_blob_new(fed_writer *bytes);

/** Add a reference to the blob. Any thread may call this function. */
fedserver_blob *fedserver_blob_share(fedserver_blob *blob);

/** Remove a reference to the blob. The last one frees the blob. NULL is allowed. */
void fedserver_blob_free(fedserver_blob *blob);

const uint8_t *fedserver_blob_data(const fedserver_blob *blob, size_t *len);

typedef enum fedserver_listener { FEDSERVER_FRONT = 0, FEDSERVER_DEVICES = 1 } fedserver_listener;

typedef struct fedserver_request {
    fedserver_listener listener;
    const char *method;           /* "GET" */
    const char *path;             /* "/v1/status" */
    const char *query;            /* what follows the '?'; "" for none */
    const char *bearer;           /* from Authorization: Bearer; NULL: there is none */
    const char *range, *if_range; /* the headers of that name; NULL for none */
    const char *cookie;           /* the header of that name; NULL for none */
    /* the headers Host, Origin, Sec-Fetch-Site and Fed-Act of a browser; NULL for none */
    const char *host, *origin, *fetch_site, *act;
    const char
        *address;      /* of the peer, or what a trusted proxy's PROXY header says; NULL: unknown */
    bool loopback;     /* the peer is on this machine, and passes on no other peers' requests */
    const char *agent; /* User-Agent; NULL for none */
    const char *device_name; /* Fed-Device-Name; NULL for none */
    const char *computes_on; /* Fed-Computes-On; NULL for none */
    uint64_t classes;        /* Fed-Classes, 16 hex digits; 0 for none */
    const uint8_t *body;
    size_t body_len;

    /* On the listener FEDSERVER_DEVICES, from the certificate that TLS has verified: */
    const uint8_t *fingerprint; /* of the certificate's key; NULL on the other listener */
    const uint8_t *certificate; /* the certificate's SHA-256, for old stores; NULL: none */
    uint64_t authority; /* first bytes of the key id of the certificate's CA; 0: not given */

    uint64_t wire_bytes; /* size of the request with its head, for the traffic totals; 0: unknown */
    int64_t waited_ms;   /* how long this request has been held so far */
} fedserver_request;

typedef struct fedserver_response {
    int status;               /* HTTP status, such as 200 */
    const char *content_type; /* a static string */
    fedserver_blob *body;     /* one reference, which the receiver owns; NULL: empty */
    uint32_t retry_after_s;   /* as Retry-After; 0: none */
    char etag[20];            /* as ETag, which names the whole body; "": none */
    char content_range[72];   /* as Content-Range; "": none */
    char set_cookie[128];     /* as Set-Cookie; "": none */
    char file_name[64];       /* a browser saves the body under this name; "": it shows the body */
    bool immutable;           /* the path has these bytes for ever: any cache may keep them */
    /* There is no answer yet: call fedserver_handle with the request again once fedserver_epoch
     * has grown, or fedserver_woken has returned hold_key, or after hold_ms. */
    bool hold;
    uint32_t hold_ms;
    uint64_t hold_key; /* 0: fedserver_woken never returns it */
} fedserver_response;

/* -- Serve -- */

/**
 * A batch of requests is: fedserver_begin, any number of fedserver_handle and fedserver_tick,
 * fedserver_commit. An answer may depend on what its batch writes. So send it only after
 * fedserver_commit has returned FED_OK, or while fedserver_settled is true.
 *
 * A faulty request gets an answer such as 400, and no function fails. After an error of these
 * functions, send nothing, close the server, and open it again.
 */
fed_status fedserver_begin(fedserver *server, fed_error *err) FED_CHECKED;
fed_status fedserver_handle(fedserver *server, const fedserver_request *request, int64_t now_ms,
                            fedserver_response *response, fed_error *err) FED_CHECKED;

/** Do what is due at now_ms: end leases and rounds at their deadlines, start tasks. *next_ms = the
 * latest time for the next call. */
fed_status fedserver_tick(fedserver *server, int64_t now_ms, int64_t *next_ms,
                          fed_error *err) FED_CHECKED;
fed_status fedserver_commit(fedserver *server, fed_error *err) FED_CHECKED;

/** Has the open batch of requests written nothing to the store so far? Its answers then depend only
 * on what is committed, and may be sent at once. */
bool fedserver_settled(const fedserver *server);

/** This process is about to end: let another coordinator lead at once. Do not call it between
 * fedserver_begin and fedserver_commit. Later requests get 503. The call does nothing where no
 * other coordinator can take over. */
void fedserver_let_go(fedserver *server);

/** A counter. When it has grown, handle all held requests (fedserver_response.hold) again. */
uint64_t fedserver_epoch(const fedserver *server);

/** Take a key: held requests with this hold_key are to be handled again. 0: there is no key left.
 * Take all keys after each fedserver_commit, or earlier: fedserver_begin forgets them. */
uint64_t fedserver_woken(fedserver *server);

/** The hold_key of all requests that wait for a new version of a model. */
#define FEDSERVER_HOLD_VERSION UINT64_MAX

/** A descriptor that poll finds readable when a batch of requests should run although no request
 * came; -1: there is none. Another descriptor may be returned after each batch. */
int fedserver_wake_fd(const fedserver *server);

/** Get the newest version of one task's model: of the running tasks, the one with the largest
 * priority, and among equals the one that started first. *running is then true. If no task runs,
 * the task is the one that finished last. 0: no task has started. Between fedserver_begin and
 * fedserver_commit, versions that are not yet committed count. */
uint32_t fedserver_version(const fedserver *server, bool *running);

/** The certificate files have changed: the server reads them again. */
void fedserver_certificates_changed(fedserver *server);

/* -- For an adapter of sockets, such as fedserver/http.h -- */

/** May a request with this head have a body of `len` bytes? 0: yes; else the refusal's status. */
int fedserver_body_refused(fedserver *server, const fedserver_request *head, uint64_t len);

/** The HTTP methods that a request's path accepts, as the header Allow lists them; "": none. */
const char *fedserver_methods(const fedserver_request *head);

/** Is the beginning of this request's body of use without the rest? If so, and the connection
 * breaks within the body, call fedserver_handle with what has arrived. Nobody gets the answer. */
bool fedserver_body_in_parts(const fedserver_request *head);

/** Must the rounds' process answer this request for the front, such as one for the status? */
bool fedserver_relays(const fedserver_request *head);

/* Several coordinators may share one store. The adapters of the followers then pass requests on to
 * the adapter of the leader. */

/** Is this coordinator a follower, because another one leads, or because none leads yet? The answer
 * is as of the last fedserver_begin. *leader: the address of the leader; "": not known. *term: the
 * number of the leader's term; a later term has a larger number. */
bool fedserver_follows(const fedserver *server, const char **leader, uint64_t *term);

/** Set how many coordinators pass requests on to this one, for the status. */
void fedserver_followers(fedserver *server, uint32_t count);

/** At the leader: the size in bytes of the largest update of any task that may still come. */
uint64_t fedserver_update_limit(const fedserver *server);
/** At a follower: set the fedserver_update_limit that the leader has told; 0: not known. Larger
 * bodies are refused before they are read. The answer is 503 and not 413, because the leader may
 * know of a larger task by now. */
void fedserver_update_limit_heard(fedserver *server, uint64_t bytes);

/** A request that the front's process passes to a follower, and that only the leader can answer. */
typedef struct fedserver_question {
    char path[64];
    uint64_t ticket;
} fedserver_question;

/** At a follower: take the next question of the front's process that the leader must answer; what
 * the follower can answer itself is answered here. False: there is none. */
bool fedserver_front_asks(fedserver *server, fedserver_question *question);
/** Send the front's process the answer to its question. The caller still owns the response. */
void fedserver_front_answer(fedserver *server, const fedserver_question *question,
                            const fedserver_response *response);

/** Why a connection ended before its first request. */
typedef enum fedserver_handshake {
    FEDSERVER_HANDSHAKE_BUDGET = 0,      /* too many handshakes of this address, or of all */
    FEDSERVER_HANDSHAKE_CERTIFICATE = 1, /* the device's certificate is not valid */
    FEDSERVER_HANDSHAKE_UNFINISHED = 2   /* failed otherwise, or the peer left or was silent */
} fedserver_handshake;

/** Counts since this process started, and connections that are open now. The adapter of sockets
 * counts, /metrics shows the counts. */
typedef struct fedserver_wire_totals {
    uint64_t answers[600]; /* by HTTP status */
    uint64_t handshakes[3];
    uint64_t connections; /* open now */
} fedserver_wire_totals;

fedserver_wire_totals *fedserver_wire(fedserver *server);

FED_API_END

#endif
