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
 * A coordinator lives in a directory: keys and certificates (ca.pem, ca.key, server.pem,
 * server.key), and the file `store`, which names the store of everything else that must survive:
 * tasks, models, rounds, updates, devices, tokens. The default store is SQLite, in the same
 * directory. What is stored changes only inside a transaction (docs/durability.md).
 *
 * Times are Unix milliseconds. A handle belongs to one thread at a time.
 */

/* -- Open -- */

typedef struct fedserver fedserver;

/**
 * Open a coordinator. The first fedserver_begin continues where the last process stopped: it adds
 * up the updates of each open round again from the store. A second process may open the same
 * directory, as the command line does while the service runs. Only one process may serve:
 * fedserver_begin returns FED_EBUSY to the others, but where they share the store (`address` of the
 * setup). End with fedserver_close.
 *
 * Errors: FED_ENOTFOUND (no such directory: run init), FED_EFORMAT, FED_EVERSION, FED_EIO.
 */
fed_status fedserver_open(const char *directory, const fed_log *log, fedserver **server,
                          fed_error *err) FED_CHECKED;
void fedserver_close(fedserver *server);

/** The role of this process. */
typedef enum fedserver_part {
    FEDSERVER_WHOLE = 0, /* one process does everything */
    /** Rounds and devices. This process never reads the CA's key. The front is another process, and
     * asks this one for the status through a socket in the directory. */
    FEDSERVER_ROUNDS = 1,
    /** The front: people, enrolment and renewal. Only the front holds the CA's key. Any number of
     * fronts may run. A front enrols devices even if no other process serves the directory. */
    FEDSERVER_GATE = 2
} fedserver_part;

/** Who may read the page, the status, the devices and the metrics at the front. */
typedef enum fedserver_page {
    FEDSERVER_PAGE_LOOPBACK = 0,  /* this machine and operators */
    FEDSERVER_PAGE_OPERATORS = 1, /* clients that show a pass */
    FEDSERVER_PAGE_ALL = 2        /* everybody */
} fedserver_page;

typedef struct fedserver_setup {
    fedserver_part part;
    fedserver_page page;
    int64_t device_life_s; /* life of the certificates that this process issues; 0: two years */
    /* A new version of a model of at least so many values is made by a thread, while the server
     * goes on answering. The program then begins a batch when fedserver_wake_fd is readable. 0:
     * versions are made within a batch, however long that takes. */
    size_t apart_values;
    /* bytes of memory that the running tasks may take together; 0: no limit. A task that does not
     * fit beside the others waits in the queue. */
    uint64_t task_memory;
    /* "HOST:PORT", where other coordinators with the same store reach this one; they may take over
     * from each other. The string must outlive the server. NULL: this process serves alone. */
    const char *address;
} fedserver_setup;

/* Of several coordinators with one store, one leads: it has the rounds, and only its handle acts.
 * The others follow: fedserver_begin asks ten times a second who leads, and goes on as the leader
 * where nobody else does. Until then a batch does nothing, and requests get 503. A leader that
 * loses the lead fails with FED_ESTATE: close it. */

/** A good value of apart_values: smaller versions are made faster than a thread is started. */
enum { FEDSERVER_APART_VALUES = 1 << 18 };

/** Call it before the first fedserver_begin. Without it all of the setup is 0. */
void fedserver_configure(fedserver *server, const fedserver_setup *setup);

/** Say which ports the listeners have: enrolment answers and the status name them. */
void fedserver_ports(fedserver *server, uint16_t front_port, uint16_t devices_port);

/** The directory that was opened. */
const char *fedserver_directory(const fedserver *server);

/* -- Requests and answers -- */

/** Immutable bytes, which several answers may refer to. */
typedef struct fedserver_blob fedserver_blob;

/** Takes the growing writer's memory. NULL: out of memory. */
fedserver_blob *fedserver_blob_new(fed_writer *bytes);

/** Add a holder to the blob. Any thread may call it. */
fedserver_blob *fedserver_blob_share(fedserver_blob *blob);

/** Remove a holder; the last one frees the blob. NULL is fine. */
void fedserver_blob_free(fedserver_blob *blob);

const uint8_t *fedserver_blob_data(const fedserver_blob *blob, size_t *len);

typedef enum fedserver_listener { FEDSERVER_FRONT = 0, FEDSERVER_DEVICES = 1 } fedserver_listener;

typedef struct fedserver_request {
    fedserver_listener listener;
    const char *method;           /* "GET" */
    const char *path;             /* "/v1/status" */
    const char *query;            /* without '?'; "" for none */
    const char *bearer;           /* from Authorization: Bearer; NULL: there is none */
    const char *range, *if_range; /* the headers of that name; NULL for none */
    const char *cookie;           /* the header of that name; NULL for none */
    /* the peer is on this machine, and is not a proxy that passes on other peers' requests */
    bool loopback;
    const char *agent;       /* User-Agent; NULL for none */
    const char *device_name; /* Fed-Device-Name; NULL for none */
    const char *computes_on; /* Fed-Computes-On; NULL for none */
    const uint8_t *body;
    size_t body_len;

    /* On the listener FEDSERVER_DEVICES, from the certificate that TLS has verified: */
    const uint8_t *fingerprint; /* fingerprint of the certificate's key; else NULL */
    /* SHA-256 of the certificate, by which old databases know the device; NULL: not given */
    const uint8_t *certificate;
    /* first bytes of the key id of the certificate's CA; 0: not given */
    uint64_t authority;

    uint64_t wire_bytes; /* size of the request with its head, for the traffic totals; 0: unknown */
    int64_t waited_ms;   /* how long this request has been held so far */
} fedserver_request;

typedef struct fedserver_response {
    int status;               /* 200 */
    const char *content_type; /* static */
    fedserver_blob *body;     /* one reference, which the receiver owns; NULL: empty */
    uint32_t retry_after_s;   /* as Retry-After; 0: none */
    char etag[20];            /* as ETag, which names the whole body; "": none */
    char content_range[72];   /* as Content-Range; "": none */
    char set_cookie[128];     /* as Set-Cookie; "": none */
    char file_name[64];       /* a browser saves the body under this name; "": it shows the body */
    bool immutable;           /* the path has these bytes for ever: any cache may keep them */
    bool hold; /* no answer yet: hand the request over again once fedserver_epoch has grown, or
                * after hold_ms */
    uint32_t hold_ms;
} fedserver_response;

/* -- Serve -- */

/**
 * A batch is: begin, any number of handle and tick, commit. Answers are promises: send them only
 * after commit has returned FED_OK, or where fedserver_settled says that they promise nothing.
 *
 * A request's own fault is an answer, not an error. An error of these functions is the disk's or
 * the machine's: send nothing, close the server, and open it again.
 */
fed_status fedserver_begin(fedserver *server, fed_error *err) FED_CHECKED;
fed_status fedserver_handle(fedserver *server, const fedserver_request *request, int64_t now_ms,
                            fedserver_response *response, fed_error *err) FED_CHECKED;

/** Let time pass: deadlines, commits, new tasks. *next_ms = the latest time for the next call. */
fed_status fedserver_tick(fedserver *server, int64_t now_ms, int64_t *next_ms,
                          fed_error *err) FED_CHECKED;
fed_status fedserver_commit(fedserver *server, fed_error *err) FED_CHECKED;

/** Has the open batch written nothing so far? All that its answers tell is then committed, and they
 * may leave at once. */
bool fedserver_settled(const fedserver *server);

/** This process is about to end: let another coordinator lead at once. Not inside a batch. Later
 * requests get 503. Does nothing where no other coordinator can take over. */
void fedserver_let_go(fedserver *server);

/** Grows whenever requests that are held should be handed over again. */
uint64_t fedserver_epoch(const fedserver *server);

/** A descriptor that poll finds readable when a batch should run although no request came; -1:
 * none. May change with each batch. */
int fedserver_wake_fd(const fedserver *server);

/** The version of a model. *running: a task runs, and the version is its own. Of several tasks it
 * is that with the largest priority, and of equals the one that started first. Else the version
 * belongs to the task that finished last. 0: no task has started. Inside a batch it counts what the
 * batch has done so far. */
uint32_t fedserver_version(const fedserver *server, bool *running);

/** Read the certificate files again: they were changed. */
void fedserver_certificates_changed(fedserver *server);

/* -- For an adapter of sockets, such as fedserver/http.h -- */

/** May a request with this head send a body of `len` bytes? 0: yes; else the HTTP status of the
 * refusal. */
int fedserver_body_refused(fedserver *server, const fedserver_request *head, uint64_t len);

/** The methods that this request's path takes, as Allow lists them: "GET, HEAD"; "": none. */
const char *fedserver_methods(const fedserver_request *head);

/** Is the beginning of this request's body of use without the rest? If so, and the connection
 * breaks within the body, hand over what has arrived. Nobody waits for the answer. */
bool fedserver_body_in_parts(const fedserver_request *head);

/** Does the process of the rounds answer a request at the front, as of the status? */
bool fedserver_relays(const fedserver_request *head);

/* Of several coordinators with one store, the adapters pass requests on: from those that follow to
 * the one that leads. */

/** Does another coordinator lead, or none yet? As of the last fedserver_begin. *leader: the address
 * of the one that leads; "": not known. *term: its lead's number; each change makes it larger. */
bool fedserver_follows(const fedserver *server, const char **leader, uint64_t *term);

/** How many coordinators pass requests on to this one, for the status. */
void fedserver_followers(fedserver *server, uint32_t count);

/** The leader: the largest size of an update that may still come, of whichever task, in bytes. */
uint64_t fedserver_update_limit(const fedserver *server);
/** A follower: what that of the leader is. Larger bodies are refused with 503 before they are read,
 * and not with 413: the leader may know of a larger task by now. 0: not known. */
void fedserver_update_limit_heard(fedserver *server, uint64_t bytes);

/** A question of the front's process for something that only the leader knows. */
typedef struct fedserver_question {
    char path[64];
    uint64_t ticket;
} fedserver_question;

/** While this coordinator follows: take the front's next question. False: there is none. */
bool fedserver_front_asks(fedserver *server, fedserver_question *question);
/** Answer it. The response stays the caller's. */
void fedserver_front_answer(fedserver *server, const fedserver_question *question,
                            const fedserver_response *response);

/** Why a connection ended before its first request. */
typedef enum fedserver_handshake {
    /* too many connections from its address, or from all addresses */
    FEDSERVER_HANDSHAKE_BUDGET = 0,
    FEDSERVER_HANDSHAKE_CERTIFICATE = 1, /* the device's certificate is not valid */
    /* the handshake failed for another reason, or the peer left or was silent */
    FEDSERVER_HANDSHAKE_UNFINISHED = 2
} fedserver_handshake;

/** Totals of the sockets since this process started. The adapter counts, /metrics shows them. */
typedef struct fedserver_wire_totals {
    uint64_t answers[600]; /* by status */
    uint64_t handshakes[3];
} fedserver_wire_totals;

fedserver_wire_totals *fedserver_wire(fedserver *server);

FED_API_END

#endif
