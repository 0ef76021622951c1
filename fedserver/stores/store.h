/* Where a coordinator keeps what must survive: records, and what a store must be able to do. */
#ifndef FEDSERVER_STORE_H
#define FEDSERVER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/hash.h"
#include "fed/wire.h"
#include "fedserver/operator.h"
#include "fedserver/task/task.h"

enum { FEDSERVER_AUDIT_LINES = 100000 };

typedef struct fedserver_token {
    int64_t made_ms; /* 0: by a release before schema 8, which did not say */
    int64_t expires_ms;
    int64_t used_ms;      /* 0: not yet */
    int64_t withdrawn_ms; /* 0: not */
    /* what the device that enrols with it becomes */
    fedserver_role role;
    char tag[FEDSERVER_TAG];   /* a group of devices that tasks may ask for; "": none */
    char name[FEDSERVER_NAME]; /* "": what the device calls itself */
} fedserver_token;

/** What stands for a certificate at the front: passes.h. */
typedef struct fedserver_pass {
    fedserver_pass_kind kind;
    int64_t expires_ms;
    int64_t used_ms; /* of a link; 0: not yet */
} fedserver_pass;

/** A device holds at most one lease, and its last counted one stays known for ever: so an update
 * that is sent again gets the same answer, however late. */
typedef struct fedserver_device {
    int64_t id;
    uint8_t fingerprint[FED_SHA256_SIZE]; /* of its key; until schema 3: of its certificate */
    int64_t enrolled_ms, expires_ms;
    uint64_t lease; /* the newest one, 0: none yet; given for this task, round and attempt: */
    uint64_t lease_task;
    uint32_t lease_round, lease_attempt;
    uint64_t counted_lease;     /* whose update was counted last */
    uint64_t counted_digest;    /* of that message; 0: not known (layout 7 and before) */
    uint64_t evaluated_task;    /* the newest model that it has measured */
    uint32_t evaluated_version; /* ... */
    int64_t revoked_ms;         /* 0: it may come in */
    int64_t lease_deadline_ms;  /* until when the lease holds its place */
    int64_t cloned_ms;          /* when another copy of its state reported last; 0: none has */
    uint32_t samples;           /* that its data holds, as it said last; 0: not yet */
    fedserver_role role;
    char tag[FEDSERVER_TAG];
    char name[FEDSERVER_NAME];         /* for people; "": it has none */
    char software[FEDSERVER_SOFTWARE]; /* its last User-Agent; "": it sends none */
    int64_t seen_ms;                   /* its last request; 0: none yet */
    uint64_t authority; /* of the certificate that it used last: fedserver_ca_id; 0: not known */
    /* its updates: counted; refused because they came too late; refused for another reason */
    uint64_t counted, late, refused;
    bool unsaved;       /* of what is above something is newer than in the store; not stored */
    int64_t checkin_ms; /* last check-in to train, 0: none; not stored */
    /* its decline of the task in memory; stored in a row of its own */
    uint64_t declined_task; /* 0: none */
    int64_t declined_ms;
} fedserver_device;

/** Which task to find. */
typedef enum fedserver_task_pick {
    FEDSERVER_PICK_ID = 0,
    FEDSERVER_PICK_QUEUED = 1,  /* the first of the queue */
    FEDSERVER_PICK_RUNNING = 2, /* there is at most one */
    FEDSERVER_PICK_FINISHED = 3 /* the one that finished last */
} fedserver_task_pick;

/** A task's newest model. Values are float32 in the machine's (little-endian) byte order. */
typedef struct fedserver_model_row {
    uint32_t version;
    uint64_t digest;
    float *values;   /* [size] */
    float *residual; /* [size]: what the deltas so far have left out; NULL: nothing */
    size_t size;
    uint8_t *state; /* [state_len]: the strategy's, flat; NULL: none */
    size_t state_len;
} fedserver_model_row;

/** A version that was kept whole when the next one took its place. */
typedef struct fedserver_keyframe {
    uint32_t version;
    uint64_t digest;
    const float *values; /* [size] */
    size_t size;
} fedserver_keyframe;

/** A device that stands out in a round. */
typedef struct fedserver_standout {
    int64_t device; /* 0: not known, in rounds of releases before layout 8 */
    char name[17];  /* the first digits of its fingerprint. Read only. */
    double amount;
} fedserver_standout;

/** A round, open (committed_ms 0) or committed. */
typedef struct fedserver_round_row {
    uint32_t number, attempts;
    int64_t opened_ms, deadline_ms, committed_ms;
    uint32_t updates;
    uint64_t samples;
    double loss; /* mean over the samples */
    uint64_t update_bytes, delta_bytes;
    fedserver_standout heaviest; /* who claims most of the weight; amount: that share, 0 to 1 */
    fedserver_standout furthest; /* whose updates move the model most; amount: the largest norm */
    bool measured;               /* by evaluating devices: the fields below. Read only. */
    double accuracy, test_loss;
} fedserver_round_row;

/** An update of the open round: who sent it, and for which of the device's leases. */
typedef struct fedserver_update_row {
    uint64_t task;
    uint32_t round; /* in which it counts */
    int64_t device;
    uint64_t lease;
} fedserver_update_row;

/** A device said that it can't serve a task. */
typedef struct fedserver_decline {
    const uint8_t *fingerprint; /* [FED_SHA256_SIZE] of the device */
    const char *reason;         /* a sentence, clean as fed_utf8_clean leaves it */
    int64_t at_ms;
} fedserver_decline;

/** Is called for one row after the other; a failure ends the walk and becomes its result. What the
 * pointers point to lives for the call only. */
typedef fed_status (*fedserver_device_visit)(void *user, const fedserver_device *device,
                                             fed_error *err);
typedef fed_status (*fedserver_token_visit)(void *user, const uint8_t *hash,
                                            const fedserver_token *token, fed_error *err);
typedef fed_status (*fedserver_round_visit)(void *user, const fedserver_round_row *row,
                                            fed_error *err);
typedef fed_status (*fedserver_delta_visit)(void *user, uint32_t version, const uint8_t *part,
                                            size_t len, fed_error *err);
typedef fed_status (*fedserver_update_visit)(void *user, const fedserver_update_row *row,
                                             const uint8_t *body, size_t len, fed_error *err);

typedef fed_status (*fedserver_decline_visit)(void *user, const fedserver_decline *decline,
                                              fed_error *err);

/** Who checks, and how much was found. */
typedef struct fedserver_checker {
    fedserver_check_report report;
    void *user;
    size_t findings;
} fedserver_checker;

/** Report one sentence. */
void fedserver_check_say(fedserver_checker *checker, fedserver_check_kind kind, const char *format,
                         ...) FED_PRINTF(3, 4);

/** What to do where only a copy can help; the end of a sentence. */
#define FEDSERVER_RESTORE "; restore the coordinator from a backup (fedserver restore)"

/**
 * A store keeps a coordinator's rows. store->open gives a handle, `db`; a process may have several
 * handles on one store, and other processes theirs, unless `in_process` says otherwise.
 *
 * Transactions. A handle's first write after a commit starts a transaction, so a batch that writes
 * nothing costs nothing. Commit makes everything since then durable: all of it, or none. After a
 * failed write or commit nothing of the transaction is kept. A handle's reads see the writes of its
 * own transaction; other handles see them after the commit. One handle writes at a time.
 *
 * Errors. Every function fills in *err on failure. FED_ENOSPC: the disk is full. FED_EBUSY: another
 * handle has been writing for too long. FED_ENOTFOUND: what is asked for is not there. FED_EIO:
 * anything else, also a row that is added a second time.
 *
 * A member that is optional says so: NULL means that the store can't do it.
 */
typedef struct fedserver_store {
    const char *name;
    /** What WHERE is in `fedserver init --store NAME:WHERE`, for people: "a connection string".
     * NULL: the store takes none; functions get "". */
    const char *where;
    /** What is stored ends with the process that made it, and other processes never see it. */
    bool in_process;

    /** Is there a store? One that `create` or `copy` did not finish is not there. */
    bool (*exists)(const char *directory, const char *where);
    /** Make a new, empty store, which appears whole: after a crash it is complete, or not there.
     * What an unfinished one has left is removed. Called where `exists` is false. */
    fed_status (*create)(const char *directory, const char *where, fed_error *err);
    /** FED_ENOTFOUND: there is none; FED_EFORMAT, FED_EVERSION: this build can't read it. */
    fed_status (*open)(const char *directory, const char *where, void **db, fed_error *err);
    void (*close)(void *db); /* what was not committed is lost, and so is the lock */
    /** Be the only handle that serves or checks this store, until close. FED_EBUSY: another one is;
     * the sentence names its process. Who has the lock may ask again. */
    fed_status (*lock)(void *db, fed_error *err);
    /** The process that has the lock; 0: none. Not for a process that has the lock itself, which
     * may lose it. */
    long (*holder)(void *db);
    /** Make in that directory a store as `create` does, with what is committed now; other handles
     * may go on writing meanwhile. Not inside a transaction. FED_EFORMAT: a body is damaged.
     * Optional: who takes a WHERE has its own means of making backups. */
    fed_status (*copy)(void *db, const char *directory, fed_error *err);
    /** Say whether what is stored is sound, as far as the store can tell. Changes nothing; nobody
     * serves meanwhile. */
    fed_status (*check)(void *db, fedserver_checker *checker, fed_error *err);
    /** For the process that serves, once, before its first write: what a crash has left behind and
     * nobody was promised goes. No other process may have it open for that. FED_EFORMAT: what was
     * promised is not there. */
    fed_status (*recover)(void *db, fed_error *err);
    fed_status (*commit)(void *db, fed_error *err);
    void (*rollback)(void *db);
    /** Has another process written since the last call? */
    fed_status (*changed)(void *db, bool *changed, fed_error *err);

    fed_status (*token_add)(void *db, const uint8_t *hash, const fedserver_token *token,
                            fed_error *err);
    fed_status (*token_find)(void *db, const uint8_t *hash, fedserver_token *token, fed_error *err);
    /** Every one, in the order in which they were made. */
    fed_status (*token_each)(void *db, fedserver_token_visit visit, void *user, fed_error *err);
    /** Nobody enrols with it from now on. FED_ENOTFOUND: there is no unused one of that hash. */
    fed_status (*token_withdraw)(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err);
    /** FED_ENOTFOUND: there is no unused one of that hash. */
    fed_status (*token_use)(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err);

    fed_status (*pass_add)(void *db, const uint8_t *hash, const fedserver_pass *pass,
                           fed_error *err);
    fed_status (*pass_find)(void *db, const uint8_t *hash, fedserver_pass *pass, fed_error *err);
    fed_status (*pass_use)(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err);
    /** Forget those that expire by then. */
    fed_status (*pass_end)(void *db, int64_t until_ms, fed_error *err);

    fed_status (*device_add)(void *db, fedserver_device *device, fed_error *err); /* sets id */
    fed_status (*device_put)(void *db, const fedserver_device *device, fed_error *err);
    /** One that is revoked already stays so, since then. Everything else of it is kept. */
    fed_status (*device_revoke)(void *db, int64_t device, int64_t now_ms, fed_error *err);
    /** It is known by that fingerprint from now on. */
    fed_status (*device_name)(void *db, int64_t device, const uint8_t *fingerprint, fed_error *err);
    /** People call it that from now on. */
    fed_status (*device_rename)(void *db, int64_t device, const char *name, fed_error *err);
    /** It has a new certificate. */
    fed_status (*device_renew)(void *db, int64_t device, int64_t expires_ms, fed_error *err);
    fed_status (*device_find)(void *db, const uint8_t *fingerprint, fedserver_device *device,
                              fed_error *err);
    fed_status (*device_each)(void *db, fedserver_device_visit visit, void *user, fed_error *err);
    /** At most `limit` of those behind the one with id `after`, as they enrolled. declined_task is
     * `task` where they have declined that. */
    fed_status (*device_page)(void *db, uint64_t task, int64_t after, uint32_t limit,
                              fedserver_device_visit visit, void *user, fed_error *err);
    fed_status (*device_count)(void *db, uint64_t *count, fed_error *err);

    fed_status (*task_add)(void *db, fedserver_task *task, fed_error *err); /* sets wire.id */
    fed_status (*task_find)(void *db, fedserver_task_pick pick, uint64_t id, fedserver_task *task,
                            fed_error *err);
    /** Its state and times. from: the states that it may be in, a bit each (1 << state); in another
     * one, as another process may have put it, nothing changes: FED_ENOTFOUND. */
    fed_status (*task_put)(void *db, const fedserver_task *task, unsigned from, fed_error *err);
    /** All of them: what runs, the queue in its order, what is paused, what is over, newest first.
     * Declines up to that time don't count. */
    fed_status (*task_each)(void *db, int64_t declines_after_ms, fedserver_task_visit visit,
                            void *user, fed_error *err);
    /** Its place among those that are queued, running or paused: small numbers come first. A new
     * task is the last. */
    fed_status (*task_place)(void *db, uint64_t id, uint64_t position, fed_error *err);
    /** Of a cancelled task forget all but its row and the rounds that it has committed. *id = which
     * one it was. FED_ENOTFOUND: there is none of which anything else is left. */
    fed_status (*task_clear)(void *db, uint64_t *id, fed_error *err);
    /** Give some free space back to the disk. *left: there is more. */
    fed_status (*shrink)(void *db, bool *left, fed_error *err);

    /** Replaces what that device said of that task before. */
    fed_status (*decline_put)(void *db, uint64_t task, int64_t device, const char *reason,
                              int64_t now_ms, fed_error *err);
    /** Those of a task after that time, in the order in which the devices enrolled. */
    fed_status (*decline_each)(void *db, uint64_t task, int64_t after_ms,
                               fedserver_decline_visit visit, void *user, fed_error *err);
    fed_status (*decline_forget)(void *db, uint64_t task, fed_error *err); /* all of that task's */

    fed_status (*model_put)(void *db, uint64_t task, const fedserver_model_row *row,
                            fed_error *err);
    /** values, residual and state are the caller's to free(); the last two may be NULL. */
    fed_status (*model_find)(void *db, uint64_t task, fedserver_model_row *row, fed_error *err);

    /** The fed_part that turns version - 1 into version. */
    fed_status (*delta_add)(void *db, uint64_t task, uint32_t version, const uint8_t *part,
                            size_t len, fed_error *err);
    /** Forget those that lead to versions up to this one. */
    fed_status (*delta_prune)(void *db, uint64_t task, uint32_t version, fed_error *err);
    /** Those that lead to versions after `after`, up to `last`; oldest first. */
    fed_status (*delta_each)(void *db, uint64_t task, uint32_t after, uint32_t last,
                             fedserver_delta_visit visit, void *user, fed_error *err);
    /** How many lead to versions after `after`, and their bytes. */
    fed_status (*delta_sum)(void *db, uint64_t task, uint32_t after, uint32_t *count,
                            uint64_t *bytes, fed_error *err);

    fed_status (*keyframe_add)(void *db, uint64_t task, const fedserver_keyframe *keyframe,
                               fed_error *err);
    /** The newest one of a version up to this, without its values. Those are the caller's to free()
     * in *values; NULL: there is no need for them. FED_ENOTFOUND: there is none. */
    fed_status (*keyframe_find)(void *db, uint64_t task, uint32_t version,
                                fedserver_keyframe *keyframe, float **values, fed_error *err);
    /** Forget those of versions before this. */
    fed_status (*keyframe_prune)(void *db, uint64_t task, uint32_t version, fed_error *err);

    fed_status (*round_put)(void *db, uint64_t task, const fedserver_round_row *row,
                            fed_error *err);
    /** Newest first, at most `limit`, the open one among them. */
    fed_status (*round_each)(void *db, uint64_t task, uint32_t limit, fedserver_round_visit visit,
                             void *user, fed_error *err);

    /** The body of POST /v1/update, as it came. A lease has one update. */
    fed_status (*update_add)(void *db, const fedserver_update_row *row, const uint8_t *body,
                             size_t len, fed_error *err);
    /** Those of the task's open round (task 0: of all tasks), in the order of their arrival. A
     * visit may walk again, itself: one body a walk is in memory. FED_EFORMAT: a body is not what
     * was acknowledged. */
    fed_status (*update_each)(void *db, uint64_t task, fedserver_update_visit visit, void *user,
                              fed_error *err);
    fed_status (*update_count)(void *db, uint64_t task, uint32_t *count, fed_error *err);
    fed_status (*update_clear)(void *db, uint64_t task, fed_error *err);

    /** Bytes of the message that a device is sending in pieces: they begin where those before end.
     */
    fed_status (*piece_add)(void *db, int64_t device, const fed_piece *piece, const uint8_t *data,
                            size_t len, fed_error *err);
    /** What the last one added was, and where it ends. FED_ENOTFOUND: there is none. Only lease,
     * digest, total and offset of *piece are set. */
    fed_status (*piece_find)(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                             fed_error *err);
    /** All of them, one behind the other, into dst[cap]. FED_EFORMAT: they leave a gap, or are
     * longer. */
    fed_status (*piece_join)(void *db, int64_t device, uint8_t *dst, size_t cap, size_t *len,
                             fed_error *err);
    fed_status (*piece_clear)(void *db, int64_t device, fed_error *err);
    /** Forget those of all devices whose lease is not of that task, or of a round before this. */
    fed_status (*piece_prune)(void *db, uint64_t task, uint32_t round, fed_error *err);

    /** One more line; of all of them the newest FEDSERVER_AUDIT_LINES are kept. */
    fed_status (*audit_add)(void *db, const fedserver_audit_entry *entry, fed_error *err);
    /** Those since then, the oldest first. */
    fed_status (*audit_each)(void *db, int64_t since_ms, fedserver_audit_visit visit, void *user,
                             fed_error *err);

    /** Replaces what that device said of that version before. */
    fed_status (*metric_put)(void *db, int64_t device, const fed_metric *metric, fed_error *err);
} fedserver_store;

#endif
