/* The coordinator as a library: requests in, answers out. No sockets in here; http.h adds those. */
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
 * A coordinator lives in a directory: keys and certificates (ca.pem, ca.key, server.pem,
 * server.key), and the file `store`, which names the store of everything else that must survive:
 * tasks, models, rounds, updates, devices, tokens. The default store is SQLite, in the same
 * directory. What is stored changes only inside a transaction (docs/durability.md).
 */

/** What `fedserver init` makes. */
typedef struct fedserver_init_options {
    const char *const *hosts; /* names and addresses in the server certificate, NULL at the end */
    const char *store;        /* "NAME" or "NAME:WHERE"; NULL: the default, sqlite */
    bool in_process;          /* this process will open it: a store that ends with it will do */
} fedserver_init_options;

/** Make directory with a CA, a server certificate and an empty store. FED_EEXIST: there is a
 * coordinator already. FED_EINVAL: there is no such store, or it would not outlive this process. */
fed_status fedserver_init(const char *directory, const fedserver_init_options *options,
                          fed_error *err) FED_CHECKED;

typedef struct fedserver fedserver;

/**
 * Open a coordinator. The first fedserver_begin takes up where it was: the open round's updates are
 * folded again from the database. Errors: FED_ENOTFOUND (no such directory: run init), FED_EFORMAT,
 * FED_EVERSION, FED_EIO. Owner: fedserver_close. A second process may open the same directory (the
 * command line does, while the service runs); only one may serve: begin says FED_EBUSY to the
 * other.
 */
fed_status fedserver_open(const char *directory, const fed_log *log, fedserver **server,
                          fed_error *err) FED_CHECKED;
void fedserver_close(fedserver *server);

/** What a process does of a coordinator. */
typedef enum fedserver_part {
    FEDSERVER_WHOLE = 0, /* all of it */
    /** Rounds and devices. It never reads the CA's key; the front is another process, which asks
     * this one for the status through a socket in the directory. */
    FEDSERVER_ROUNDS = 1,
    /** The front: people, enrolment and renewal; it alone holds the CA's key. Any number may run;
     * where no other process serves the directory, it enrols all the same. */
    FEDSERVER_GATE = 2
} fedserver_part;

/** Who may read the page, the status, the devices and the metrics at the front. */
typedef enum fedserver_page {
    FEDSERVER_PAGE_LOOPBACK = 0,  /* this machine and operators */
    FEDSERVER_PAGE_OPERATORS = 1, /* who has a pass */
    FEDSERVER_PAGE_ALL = 2        /* everybody */
} fedserver_page;

typedef struct fedserver_setup {
    fedserver_part part;
    fedserver_page page;
    int64_t device_life_s; /* of the certificates that it issues; 0: two years */
} fedserver_setup;

/** Before the first fedserver_begin; without it, all is 0. */
void fedserver_configure(fedserver *server, const fedserver_setup *setup);

/* What follows commits by itself: not between begin and commit. */

/** What a certificate allows. */
typedef enum fedserver_role {
    FEDSERVER_ROLE_DEVICE = 0,    /* trains */
    FEDSERVER_ROLE_EVALUATOR = 1, /* measures models */
    FEDSERVER_ROLE_OPERATOR = 2   /* asks for the status */
} fedserver_role;

/** "device", "evaluator", "operator"; NULL: there is no such role. */
const char *fedserver_role_name(fedserver_role role);

/* bytes, NUL included: of a tag; of a device's name, printable UTF-8; of its software's name */
enum { FEDSERVER_TAG = 32, FEDSERVER_NAME = 64, FEDSERVER_SOFTWARE = 48 };

/** What a token is good for. */
typedef struct fedserver_grant {
    int64_t ttl_s; /* how long it can be used */
    /* what the device that enrols with it becomes */
    fedserver_role role;
    const char *tag;  /* the group that tasks may ask for; NULL: none */
    const char *name; /* what people call it; NULL or "": what it calls itself */
} fedserver_grant;

/** A one-time enrolment token: 43 characters, URL-safe. The database keeps its SHA-256 only.
 * FED_EINVAL: the tag is too long, or the name, or that is not printable. */
enum { FEDSERVER_TOKEN = 44 };
fed_status fedserver_token_grant(fedserver *server, int64_t now_ms, const fedserver_grant *grant,
                                 char token[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;

/** One for a device that trains. */
fed_status fedserver_token_new(fedserver *server, int64_t now_ms, int64_t ttl_s,
                               char token[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;

/** What stands for a certificate at the front. */
typedef enum fedserver_pass_kind {
    FEDSERVER_PASS_NONE = 0,
    FEDSERVER_PASS_LINK = 1,    /* to log in with, once */
    FEDSERVER_PASS_SESSION = 2, /* a browser's cookie, which a link became */
    FEDSERVER_PASS_READER = 3   /* a program's bearer token */
} fedserver_pass_kind;

enum { FEDSERVER_LINK_S = 10 * 60, FEDSERVER_SESSION_S = 12 * 3600 };

/** A pass of the kind LINK (its page is /login#TOKEN) or READER. The database keeps its SHA-256
 * only, and forgets passes that have expired. */
fed_status fedserver_pass_grant(fedserver *server, int64_t now_ms, fedserver_pass_kind kind,
                                int64_t ttl_s, char token[FEDSERVER_TOKEN],
                                fed_error *err) FED_CHECKED;

/** End all links, sessions and bearer tokens at once. */
fed_status fedserver_pass_revoke_all(fedserver *server, fed_error *err) FED_CHECKED;

/** A token, for people: not the token itself, which nobody keeps. */
typedef struct fedserver_token_entry {
    char id[13]; /* the first digits of its SHA-256 */
    fedserver_role role;
    char tag[FEDSERVER_TAG], name[FEDSERVER_NAME];
    int64_t made_ms, expires_ms, used_ms, withdrawn_ms; /* Unix milliseconds; 0: not, or unknown */
} fedserver_token_entry;

/** Is called for each; a failure ends the walk and becomes its result. */
typedef fed_status (*fedserver_token_entry_visit)(void *user, const fedserver_token_entry *entry,
                                                  fed_error *err);

/** All tokens that were ever made, in that order. */
fed_status fedserver_token_each(fedserver *server, fedserver_token_entry_visit visit, void *user,
                                fed_error *err) FED_CHECKED;

/** Let nobody enrol with a token from now on. id: its first 8 digits or more. FED_EINVAL too short;
 * FED_ENOTFOUND none, or several, or it is used or withdrawn already. */
fed_status fedserver_token_withdraw(fedserver *server, int64_t now_ms, const char *id,
                                    fedserver_token_entry *entry, fed_error *err) FED_CHECKED;

/** A line of the audit log. */
typedef struct fedserver_audit_entry {
    int64_t at_ms;
    char event[32];   /* one word: "enrolled" */
    char detail[480]; /* key=value words, values with blanks in quotes */
} fedserver_audit_entry;

/** Is called for each; a failure ends the walk and becomes its result. */
typedef fed_status (*fedserver_audit_visit)(void *user, const fedserver_audit_entry *entry,
                                            fed_error *err);

/** What the audit log has since then, the oldest first. */
fed_status fedserver_audit_each(fedserver *server, int64_t since_ms, fedserver_audit_visit visit,
                                void *user, fed_error *err) FED_CHECKED;

/** A device, for people. */
typedef struct fedserver_entry {
    char fingerprint[2 * FED_SHA256_SIZE + 1];   /* of its key, hexadecimal */
    int64_t enrolled_ms, expires_ms, revoked_ms; /* Unix milliseconds; revoked 0: not */
    int64_t cloned_ms; /* when another copy of its state reported last; 0: none has */
    fedserver_role role;
    char tag[FEDSERVER_TAG];
    char name[FEDSERVER_NAME];         /* ""; it has none */
    char software[FEDSERVER_SOFTWARE]; /* what it says that it runs; "": nothing */
    int64_t seen_ms;                   /* its last request, to about a minute; 0: none yet */
    uint32_t samples;                  /* that its data holds; 0: not known */
    uint64_t counted, late, refused;   /* its updates, by what became of them */
    const char *state;                 /* one word, static: docs/protocol.md#devices */
} fedserver_entry;

/** Is called for each; a failure ends the walk and becomes its result. */
typedef fed_status (*fedserver_entry_visit)(void *user, const fedserver_entry *entry,
                                            fed_error *err);

/** All devices, in the order in which they enrolled. */
fed_status fedserver_device_each(fedserver *server, int64_t now_ms, fedserver_entry_visit visit,
                                 void *user, fed_error *err) FED_CHECKED;

/**
 * Shut a device out: a coordinator that serves meanwhile refuses its next request, whatever its TLS
 * session says. Updates that were acknowledged stay counted. It comes back with a new token only.
 *
 * prefix  the first 8 or more digits of its fingerprint, lower case
 * entry   which one it was
 * Errors  FED_EINVAL too short a prefix; FED_ENOTFOUND none, or several, begin with it
 */
fed_status fedserver_device_revoke(fedserver *server, int64_t now_ms, const char *prefix,
                                   fedserver_entry *entry, fed_error *err) FED_CHECKED;

/** Let people call a device by another name; "": by none. prefix and entry as above. Errors: as
 * above; FED_EINVAL not a name, too. */
fed_status fedserver_device_rename(fedserver *server, int64_t now_ms, const char *prefix,
                                   const char *name, fedserver_entry *entry,
                                   fed_error *err) FED_CHECKED;

/**
 * Queue a training task described by a JSON file (keys: docs/protocol.md#task). It starts when no
 * other runs. Errors: FED_EFORMAT, FED_EINVAL with file, line and key; FED_ERANGE the store or
 * FED_ENOSPC the disk can't hold its model. *id = its number.
 */
fed_status fedserver_task_add(fedserver *server, int64_t now_ms, const char *path, uint64_t *id,
                              fed_error *err) FED_CHECKED;

typedef enum fedserver_task_state {
    FEDSERVER_TASK_QUEUED = 0,
    FEDSERVER_TASK_RUNNING = 1,
    FEDSERVER_TASK_FINISHED = 2,
    FEDSERVER_TASK_PAUSED = 3,
    FEDSERVER_TASK_CANCELLED = 4
} fedserver_task_state;

/** "queued", "running", "finished", "paused", "cancelled" */
const char *fedserver_task_state_name(fedserver_task_state state);

enum { FEDSERVER_TASK_NAME = 64, FEDSERVER_TASK_REASONS = 4, FEDSERVER_REASON = 256 };

/** A task, for people. */
typedef struct fedserver_task_entry {
    uint64_t id;
    char name[FEDSERVER_TASK_NAME];
    fedserver_task_state state;
    uint32_t position;                          /* in the queue, from 1; 0: it is not queued */
    uint32_t rounds, version;                   /* in all; and committed */
    int64_t queued_ms, started_ms, finished_ms; /* 0: not yet; finished_ms: or cancelled */
    /* devices that said in the last 24 hours that they can't serve it */
    uint32_t declined;
    struct {
        char text[FEDSERVER_REASON]; /* printable UTF-8 */
        uint32_t devices;
    } reasons[FEDSERVER_TASK_REASONS]; /* the most frequent ones; behind the last: devices 0 */
} fedserver_task_entry;

/** Is called for each; a failure ends the walk and becomes its result. */
typedef fed_status (*fedserver_task_visit)(void *user, const fedserver_task_entry *entry,
                                           fed_error *err);

/** All tasks: the one that runs, the queue, those that are paused, and those that are over, newest
 * first. */
fed_status fedserver_task_each(fedserver *server, int64_t now_ms, fedserver_task_visit visit,
                               void *user, fed_error *err) FED_CHECKED;

/** What a task takes while it runs, estimated. */
typedef struct fedserver_needs {
    uint64_t values;       /* of its model */
    uint64_t row_bytes;    /* model, what its deltas leave out, the strategy's state */
    uint64_t model_bytes;  /* of disk: model, older versions, deltas, a commit's journal */
    uint64_t update_bytes; /* of disk: the updates of a round, at most */
    uint64_t memory_bytes; /* of the process that serves */
    uint64_t disk_free_bytes, machine_bytes; /* what there is; 0: unknown */
} fedserver_needs;

fed_status fedserver_task_needs(fedserver *server, uint64_t id, fedserver_needs *needs,
                                fed_error *err) FED_CHECKED;

/** Is it a gigabyte, or more than half of what there is? Then a person is to be told. */
bool fedserver_needs_much(const fedserver_needs *needs);

/** As a sentence, cut where it is longer than cap. */
void fedserver_needs_say(const fedserver_needs *needs, char *dst, size_t cap);

/** The list of tasks as JSON, as /v1/status has it (docs/protocol.md). Appends to w. */
fed_status fedserver_tasks_json(fedserver *server, int64_t now_ms, fed_writer *w,
                                fed_error *err) FED_CHECKED;

/** What a person may do to a task. */
typedef enum fedserver_task_deed {
    /** It is over: its model, deltas and updates are deleted, its rounds stay in the history.
     * Devices that train for it are told so, and keep what they owe in their residual. */
    FEDSERVER_CANCEL = 0,
    /** Nobody gets a place in it; its open round keeps the updates that are acknowledged. The next
     * task of the queue runs. */
    FEDSERVER_PAUSE = 1,
    /** It is the first of the queue. What devices have said of it is forgotten: they are asked
     * anew. */
    FEDSERVER_RESUME = 2
} fedserver_task_deed;

/** A coordinator that serves meanwhile follows before its next answer. Errors: FED_ENOTFOUND there
 * is no such task; FED_ESTATE its state does not allow that. */
fed_status fedserver_task_change(fedserver *server, int64_t now_ms, uint64_t id,
                                 fedserver_task_deed deed, fed_error *err) FED_CHECKED;

/** Give a queued task that place in the queue, from 1; beyond the end is the end. Errors: as above.
 */
fed_status fedserver_task_move(fedserver *server, int64_t now_ms, uint64_t id, uint32_t position,
                               fed_error *err) FED_CHECKED;

/** Would text[len] be a task? `path` is its file's name in messages, and relative paths in it start
 * beside it. Errors: as above. */
fed_status fedserver_task_check(const char *path, const char *text, size_t len,
                                fed_error *err) FED_CHECKED;

/**
 * What `fedserver status` prints: the task, what its round waits for, who serves; lines, cut where
 * they are longer than cap. Not in the process that serves: it would lose its lock.
 */
fed_status fedserver_status(fedserver *server, int64_t now_ms, char *text, size_t cap,
                            fed_error *err) FED_CHECKED;

/** The same as JSON: {"now_ms", "served_by": its process or null, "round" and "tasks" as in
 * /v1/status}. Appends to w. */
fed_status fedserver_status_json(fedserver *server, int64_t now_ms, fed_writer *w,
                                 fed_error *err) FED_CHECKED;

/** Write the newest model of a task (0: the latest task) as safetensors. */
fed_status fedserver_model_export(fedserver *server, uint64_t task, const char *path,
                                  fed_error *err) FED_CHECKED;

/** A round that was committed. */
typedef struct fedserver_round_entry {
    uint32_t number, attempts;
    int64_t opened_ms, committed_ms; /* Unix milliseconds */
    uint32_t updates;
    uint64_t samples;
    double loss; /* of the updates' training, mean over the samples */
    uint64_t update_bytes, delta_bytes;
    bool measured; /* by evaluating devices: accuracy (0 with mse) and test_loss are set */
    double accuracy, test_loss;
} fedserver_round_entry;

/** Is called for each; a failure ends the walk and becomes its result. */
typedef fed_status (*fedserver_round_entry_visit)(void *user, const fedserver_round_entry *entry,
                                                  fed_error *err);

/** The committed rounds of a task (0: the latest task), the newest first, `most` at most. In a
 * batch it tells what the batch has done so far. */
fed_status fedserver_round_each(fedserver *server, uint64_t task, uint32_t most,
                                fedserver_round_entry_visit visit, void *user,
                                fed_error *err) FED_CHECKED;

/**
 * Copy a coordinator as of one instant into a directory of its own, while another process may serve
 * it. The copy is a coordinator: complete and on the disk, or not there. Whoever has it has the
 * CA's key. Errors: FED_EINVAL the store makes no copies; FED_EEXIST directory holds a coordinator
 * already; FED_EFORMAT an update is damaged; FED_ENOSPC, FED_EIO.
 */
fed_status fedserver_backup(fedserver *server, const char *directory, fed_error *err) FED_CHECKED;

/** Make a coordinator in directory from a backup, which stays as it is. Errors: as above, and those
 * of fedserver_open. */
fed_status fedserver_restore(const char *backup, const char *directory, fed_error *err) FED_CHECKED;

/** A line of fedserver_check's report. */
typedef enum fedserver_check_kind {
    FEDSERVER_CHECKED = 0, /* what was looked at, and how much of it */
    FEDSERVER_NOTED = 1,   /* a crash has left it; the next start tidies it up */
    FEDSERVER_FOUND = 2    /* a rule is broken: where, and what to do */
} fedserver_check_kind;

/** text: one sentence, which begins with the rules of docs/durability.md that it is about. */
typedef void (*fedserver_check_report)(void *user, fedserver_check_kind kind, const char *text);

/**
 * Does everything that is stored keep the rules? Changes nothing. *findings = how many do not.
 * Close the server afterwards. Errors: FED_EBUSY it is being served (check a backup of it); what
 * else keeps the check from going on.
 */
fed_status fedserver_check(fedserver *server, fedserver_check_report report, void *user,
                           size_t *findings, fed_error *err) FED_CHECKED;

/** The certificate files were changed: read them again. */
void fedserver_certificates_changed(fedserver *server);

/** The coordinator's own certificate, server.pem. */
enum { FEDSERVER_CERTIFICATE_HOSTS = 64, FEDSERVER_HOST = 256 };
typedef struct fedserver_certificate {
    int64_t expires_s; /* Unix time */
    size_t host_count;
    char hosts[FEDSERVER_CERTIFICATE_HOSTS][FEDSERVER_HOST]; /* names and addresses */
} fedserver_certificate;

/** Errors: FED_ENOTFOUND, FED_EIO, FED_EFORMAT; FED_EINVAL more hosts than this can hold. */
fed_status fedserver_certificate_read(const char *directory, fedserver_certificate *certificate,
                                      fed_error *err) FED_CHECKED;

/** Whole days until server.pem expires, below 0 once it has; INT32_MIN: it can't be read. */
int32_t fedserver_certificate_days(const char *directory, int64_t now_ms);

/**
 * Issue server.pem anew for ten years, for the same key and hosts and those of `more` (NULL at the
 * end), by the CA whose key is ca.key: devices that know that CA notice nothing. A coordinator that
 * serves reads it at SIGHUP.
 * Errors: those of reading it; FED_ENOTFOUND, FED_EIO of the keys; FED_EINVAL too many hosts.
 */
fed_status fedserver_certificate_renew(const char *directory, const char *const *more,
                                       int64_t now_ms, fed_error *err) FED_CHECKED;

/*
 * The CA. ca.pem has its certificate; while the CA is being changed, that of the new one and behind
 * it that of the old one. ca.key is the key of the one that issues: the new one.
 */

/** Make a new CA beside the one there is, which issues from now on. server.pem stays as it is.
 * A crash on the way leaves the old CA issuing: then make one again. FED_ESTATE: the last change is
 * not over. */
fed_status fedserver_ca_new(const char *directory, int64_t now_ms, fed_error *err) FED_CHECKED;

/** Trust the new CA alone. FED_ESTATE: there is no old one, or server.pem is of it. */
fed_status fedserver_ca_drop_old(const char *directory, fed_error *err) FED_CHECKED;

/** How far a change of the CA has come. */
typedef struct fedserver_ca_change {
    bool open;          /* ca.pem has an old CA, too */
    bool unfinished;    /* ca.pem has a new one without its key, after a crash: make another */
    bool server_is_old; /* ... which has signed server.pem */
    uint64_t devices;   /* that may come in */
    uint64_t waiting;   /* of them: that have not come yet with a certificate of the new CA */
} fedserver_ca_change;
fed_status fedserver_ca_look(fedserver *server, int64_t now_ms, fedserver_ca_change *change,
                             fed_error *err) FED_CHECKED;

/** Immutable bytes that several answers share. */
typedef struct fedserver_blob fedserver_blob;
fedserver_blob *
fedserver_blob_new(fed_writer *bytes); /* takes the growing writer's memory; NULL: none left */
fedserver_blob *fedserver_blob_share(fedserver_blob *blob); /* one more holder; any thread */
void fedserver_blob_free(
    fedserver_blob *blob); /* one holder less; the last one frees; NULL is fine */
const uint8_t *fedserver_blob_data(const fedserver_blob *blob, size_t *len);

typedef enum fedserver_listener { FEDSERVER_FRONT = 0, FEDSERVER_DEVICES = 1 } fedserver_listener;

typedef struct fedserver_request {
    fedserver_listener listener;
    const char *method;           /* "GET" */
    const char *path;             /* "/v1/status" */
    const char *query;            /* without '?'; "" for none */
    const char *bearer;           /* from Authorization: Bearer; NULL for none */
    const char *range, *if_range; /* the headers of that name; NULL for none */
    const char *cookie;           /* the header of that name; NULL for none */
    bool loopback;     /* the peer is on this machine, and speaks for nobody else as a proxy does */
    const char *agent; /* User-Agent; NULL for none */
    const char *device_name; /* Fed-Device-Name; NULL for none */
    const uint8_t *body;
    size_t body_len;
    const uint8_t *fingerprint; /* DEVICES: of the key in the peer's certificate, which TLS has
                                   verified; else NULL */
    const uint8_t *certificate; /* DEVICES: SHA-256 of that certificate, by which old databases
                                   know it; NULL: not given */
    uint64_t authority;  /* DEVICES: which CA has signed it: the first bytes of its key id; 0: not
                            given */
    uint64_t wire_bytes; /* size of the request with its head, for the traffic totals; 0: unknown */
    int64_t waited_ms;   /* how long this request has been held so far */
} fedserver_request;

typedef struct fedserver_response {
    int status;               /* 200 */
    const char *content_type; /* static */
    fedserver_blob *body;     /* one share, the receiver's; NULL: empty */
    uint32_t retry_after_s;   /* as Retry-After; 0: none */
    char etag[20];            /* as ETag, which names the whole body; "": none */
    char content_range[72];   /* as Content-Range; "": none */
    char set_cookie[128];     /* as Set-Cookie; "": none */
    char file_name[64];       /* to be saved under that name; "": to be shown */
    bool hold; /* nothing to say yet: ask again after the state changed or hold_ms are over */
    uint32_t hold_ms;
} fedserver_response;

/** May a request with this head send a body of `len` bytes? 0, or the HTTP status to refuse it
 * with. */
int fedserver_body_refused(fedserver *server, const fedserver_request *head, uint64_t len);

/** The methods that this request's path takes, as Allow lists them: "GET, HEAD"; "": none. */
const char *fedserver_methods(const fedserver_request *head);

/** Is the beginning of this request's body worth something by itself? Where the line breaks in the
 * middle of such a body, hand over what has arrived all the same; nobody waits for the answer. */
bool fedserver_body_in_parts(const fedserver_request *head);

/**
 * A batch: begin, any number of handle and tick, commit. Only when commit answered FED_OK may the
 * answers leave: they are promises. Where anything but a request's own fault fails (the disk),
 * begin, handle, tick or commit return an error: the server must then be closed without sending,
 * and opened again. One thread at a time. Times are Unix milliseconds.
 */
fed_status fedserver_begin(fedserver *server, fed_error *err) FED_CHECKED;
fed_status fedserver_handle(fedserver *server, const fedserver_request *request, int64_t now_ms,
                            fedserver_response *response, fed_error *err) FED_CHECKED;
/** Let time pass: deadlines, commits, new tasks. *next_ms = when to call again at the latest. */
fed_status fedserver_tick(fedserver *server, int64_t now_ms, int64_t *next_ms,
                          fed_error *err) FED_CHECKED;
fed_status fedserver_commit(fedserver *server, fed_error *err) FED_CHECKED;

/** Why a connection ended before its first request. */
typedef enum fedserver_handshake {
    FEDSERVER_HANDSHAKE_BUDGET = 0,      /* too many from its address, or from all */
    FEDSERVER_HANDSHAKE_CERTIFICATE = 1, /* the device's certificate is not good */
    FEDSERVER_HANDSHAKE_UNFINISHED = 2   /* it failed otherwise, or the peer went or was silent */
} fedserver_handshake;

/** What the sockets have seen since this process started; the adapter counts, /metrics tells. */
typedef struct fedserver_wire_totals {
    uint64_t answers[600]; /* by status */
    uint64_t handshakes[3];
} fedserver_wire_totals;

fedserver_wire_totals *fedserver_wire(fedserver *server);

/** Grows whenever held requests should be asked again. */
uint64_t fedserver_epoch(const fedserver *server);

/*
 * Not promised, so not stored: which devices came lately, who may have a round's free places, the
 * downloads that were made. After a restart the first to come are served until that is known again.
 * A process that is to go on exactly where another one was is given it: written after the last
 * commit, read back between the first begin and its first request, from bytes that the same release
 * wrote on such a machine.
 */

fed_status fedserver_remembered_write(const fedserver *server, fed_writer *w) FED_CHECKED;
/** FED_EFORMAT: it is not of this coordinator. */
fed_status fedserver_remembered_read(fedserver *server, fed_reader *r, fed_error *err) FED_CHECKED;

/** The newest model's version, of the task that runs or, if *running is false, ran last; 0: none
 * has started. As of the batch, where one is open. */
uint32_t fedserver_version(const fedserver *server, bool *running);

/** A descriptor that poll finds readable when a batch should be run though no request came; -1:
 * none. May change with each batch. */
int fedserver_wake_fd(const fedserver *server);

/** The directory it was opened with. */
const char *fedserver_directory(const fedserver *server);

/** Tell it where its listeners are, for enrolment answers and the status. */
void fedserver_ports(fedserver *server, uint16_t front_port, uint16_t devices_port);

FED_API_END

#endif
