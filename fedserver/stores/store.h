/* The interface of a store, where a coordinator keeps what must survive a restart. */
/* SPDX-License-Identifier: Apache-2.0 */
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

enum { FEDSERVER_AUDIT_LINES = 100000, FEDSERVER_CHANGED_MS = 250 };

/** The device id in a row of custom metrics that sums up all updates of a round. */
enum { FEDSERVER_OWN_OF_UPDATES = 0 };

typedef struct fedserver_token {
    int64_t made_ms; /* 0: not known, for a token that an old release made */
    int64_t expires_ms;
    int64_t used_ms;
    int64_t withdrawn_ms;
    /* The next three members are given to the device that enrols with the token. */
    fedserver_role role;
    char tag[FEDSERVER_TAG];   /* a group of devices that a task can name; "": none */
    char name[FEDSERVER_NAME]; /* "": the device names itself */
} fedserver_token;

/** The stored row of a pass, which lets a person or a program read the status:
 * identity/passes.h. */
typedef struct fedserver_pass {
    fedserver_pass_kind kind;
    int64_t expires_ms;
    int64_t used_ms; /* for a link: when it was used; 0: not used yet */
} fedserver_pass;

/** A device. It has at most one lease. The row keeps the last lease whose update was counted, so
 * that an update that is sent again gets the same answer (S3 in docs/durability.md). */
typedef struct fedserver_device {
    int64_t id;
    /* The number of the write that changed the device's identity last. Later writes, of any
     * device, have larger numbers. Only the store sets it. */
    int64_t change;
    /* SHA-256 of the device's public key; old releases stored that of its certificate */
    uint8_t fingerprint[FED_SHA256_SIZE];
    int64_t enrolled_ms, expires_ms;
    /* the newest lease (0: none yet), and its task (0: it was given back), round and attempt */
    uint64_t lease;
    uint64_t lease_task;
    uint32_t lease_round, lease_attempt;
    uint64_t counted_lease;     /* the last lease whose update was counted; 0: none */
    uint64_t counted_digest;    /* digest of the update counted last; 0: not known */
    uint64_t evaluated_task;    /* the task of the model that the device measured last */
    uint32_t evaluated_version; /* version of the model that the device measured last */
    int64_t revoked_ms;
    int64_t lease_deadline_ms;
    int64_t cloned_ms; /* when two copies of the device's state were last noted; 0: never */
    uint32_t samples;  /* number of samples of the device's data, as last reported; 0: not known */
    fedserver_role role;
    char tag[FEDSERVER_TAG];
    char name[FEDSERVER_NAME];
    char software[FEDSERVER_SOFTWARE]; /* last User-Agent of the device; "": none */
    /* the GPU that the device last reported; "": the processor */
    char computes_on[FEDSERVER_COMPUTES];
    int64_t seen_ms;    /* when the device last sent a request; 0: never */
    uint64_t authority; /* fedserver_ca_id of the device's last certificate; 0: not known */
    /* numbers of updates: counted, refused as late, refused otherwise */
    uint64_t counted, late, refused;
    /* The store does not keep the next members. */
    bool unsaved;       /* a stored member has changed since the device was stored */
    uint64_t classes;   /* Fed-Classes of the last check-in; 0: none, or not known */
    int64_t checkin_ms; /* when the device last checked in to train; 0: never */
    uint64_t turn;      /* the device's last turn (rounds/turns.h); 0: none yet */
    uint64_t kept_task; /* the task for which the device needs its only slot; 0: none, or unknown */
    /* not drawn before its next check-in or update: it works on a lease, or let its turn pass */
    bool away;
    int64_t declined_ms; /* when the device declined the task given to device_page; 0: it did not */
} fedserver_device;

typedef enum fedserver_task_pick {
    FEDSERVER_PICK_ID = 0,
    FEDSERVER_PICK_QUEUED = 1,
    FEDSERVER_PICK_RUNNING = 2,
    FEDSERVER_PICK_FINISHED = 3
} fedserver_task_pick;

/** A task's newest model. Values are float32 in the machine's (little-endian) byte order. */
typedef struct fedserver_model_row {
    uint32_t version;
    uint64_t digest;
    float *values;   /* [size] */
    float *residual; /* [size]: what the deltas have left out so far; NULL: none */
    size_t size;
    uint8_t *state; /* [state_len]: the strategy's state as bytes; NULL: none */
    size_t state_len;
    /* The store has values, residual and state as blobs already (blob_put). The row then only
     * names the blobs by their digests, and model_put reads no bytes. */
    bool kept;
    uint64_t residual_digest, state_digest; /* set only where kept is true */
} fedserver_model_row;

/** A keyframe: an older version of a model that the store keeps whole. */
typedef struct fedserver_keyframe {
    uint32_t version;
    uint64_t digest;
    const float *values; /* [size] */
    size_t size;
    bool kept; /* the store has the values as a blob, so keyframe_add does not read `values` */
} fedserver_keyframe;

/** A device that stands out in a round. */
typedef struct fedserver_standout {
    int64_t device; /* 0: none, or not known */
    char name[17];  /* the first digits of the device's fingerprint; set when the row is read */
    double amount;
} fedserver_standout;

/** A round, open (committed_ms 0) or committed. */
typedef struct fedserver_round_row {
    uint32_t number, attempts;
    int64_t opened_ms, deadline_ms, committed_ms;
    int64_t closing_ms; /* when the round began to close; 0: it does not close */
    uint32_t updates;
    uint64_t samples;
    double loss; /* weighted mean of the losses of the updates that have one; NaN: none has */
    uint64_t update_bytes, delta_bytes;
    /* number of values of custom metrics that were dropped for lack of room */
    uint64_t own_dropped;
    /* Of a round of a task that promises an epsilon (rounds/ledger.h), once its set is settled: the
     * clip, the variance of the noise in levels squared, and what one participation costs
     * (privacy/accountant.h); each 0: none. The digest names the set of updates. The key makes the
     * round's noise, and becomes zeros when the noise is used up. */
    double clip, sigma2, rho;
    uint8_t set_digest[FED_SHA256_SIZE];
    uint8_t noise_key[32];
    /* the device with the largest share of the round's weight; amount: the share, 0 to 1 */
    fedserver_standout heaviest;
    /* the device with the largest reach (rounds/weights.h); amount: its largest norm */
    fedserver_standout furthest;
    /* Evaluators have measured the round's model, so accuracy and test_loss are set. Each is NaN if
     * no evaluator told it. round_put ignores all three members. */
    bool measured;
    double accuracy, test_loss;
} fedserver_round_row;

/** The sender of an update of an open round, and the update's lease. */
typedef struct fedserver_update_row {
    uint64_t task;
    uint32_t round;
    int64_t device;
    uint64_t lease;
} fedserver_update_row;

/** A decline: a device can't serve a task. A row whose at_ms is 1 is none: rounds/classes.h keeps a
 * task's digest in it. */
typedef struct fedserver_decline {
    int64_t device;
    const uint8_t *fingerprint; /* [FED_SHA256_SIZE] of the device */
    const char *reason;         /* a sentence in well-formed UTF-8, as fed_utf8_clean makes it */
    int64_t at_ms;
    bool revoked;
} fedserver_decline;

/** The device id in a ledger's row that is a mark: the ledger is a copy's, and does not know what
 * happened since. */
enum { FEDSERVER_LEDGER_COPIED = 0 };

/** A row of a task's ledger: in how many rounds a device took part. */
typedef struct fedserver_ledger_row {
    int64_t device;       /* or FEDSERVER_LEDGER_COPIED */
    uint32_t taken;       /* participations that are charged */
    uint32_t last_round;  /* the last one; 0: none is known */
    char fingerprint[17]; /* the first digits of the device's fingerprint; "": none */
    char name[FEDSERVER_NAME];
} fedserver_ledger_row;

/** How often a device was in the worst group of a task's rounds (rounds/outliers.h). */
typedef struct fedserver_outlier_row {
    int64_t device;
    uint32_t rounds;      /* rounds with groups that it took part in */
    uint32_t worst;       /* in the worst group */
    double expected;      /* of them, by chance: the sum of the worst groups' shares */
    uint32_t last_worst;  /* the last round in the worst group; 0: none */
    char fingerprint[17]; /* the first digits of the device's fingerprint */
    char name[FEDSERVER_NAME];
    bool revoked;
} fedserver_outlier_row;

/** The leader among the coordinators that share a store. Only the leader runs rounds. */
typedef struct fedserver_lead {
    bool mine;
    char address[256]; /* the leader's address, from the leader; "": not known now */
    uint64_t term;     /* each new leader gets a larger term */
} fedserver_lead;

/** A function that the store calls for each row in turn. Where it fails, the store stops and
 * returns its failure. Its pointers are valid during the call only. */
typedef fed_status (*fedserver_device_visit)(void *user, const fedserver_device *device,
                                             fed_error *err);
typedef fed_status (*fedserver_token_visit)(void *user, const uint8_t *hash,
                                            const fedserver_token *token, fed_error *err);
typedef fed_status (*fedserver_round_visit)(void *user, const fedserver_round_row *row,
                                            fed_error *err);
typedef fed_status (*fedserver_own_row_visit)(void *user, uint32_t version, int64_t device,
                                              const fedserver_own_metric *row, fed_error *err);
typedef fed_status (*fedserver_delta_visit)(void *user, uint32_t version, const uint8_t *part,
                                            size_t len, fed_error *err);
typedef fed_status (*fedserver_update_visit)(void *user, const fedserver_update_row *row,
                                             const uint8_t *body, size_t len, fed_error *err);

typedef fed_status (*fedserver_ledger_visit)(void *user, const fedserver_ledger_row *row,
                                             fed_error *err);
typedef fed_status (*fedserver_outlier_visit)(void *user, const fedserver_outlier_row *row,
                                              fed_error *err);
typedef fed_status (*fedserver_decline_visit)(void *user, const fedserver_decline *decline,
                                              fed_error *err);

/** A check of the store: the function that gets the findings, and their number. */
typedef struct fedserver_checker {
    fedserver_check_report report;
    void *user;
    size_t findings;
} fedserver_checker;

/** Pass one sentence to the checker's report function, and count it if kind is FEDSERVER_FOUND. */
void fedserver_check_note(fedserver_checker *checker, fedserver_check_kind kind, const char *format,
                          ...) FED_PRINTF(3, 4);

/** Advice for damage that only a backup can mend. It is the end of an error's sentence. */
#define FEDSERVER_RESTORE "; restore the coordinator from a backup (fedserver restore)"

/**
 * A store keeps a coordinator's rows. store->open gives a handle, `db`. A process may have several
 * handles on one store, and other processes may have theirs.
 *
 * Transactions. A handle's first write after a commit starts a transaction. Commit makes everything
 * since then durable: all of it, or none. A handle's reads see the writes of its own transaction;
 * other handles see them after the commit. One handle writes at a time (except blob_put).
 *
 * A write that returns no result may run later. A later call on the handle then reports its
 * failure: a write, a read, or at the latest the commit.
 *
 * A failed write, and a failed read within a transaction, undo the transaction: nothing of it will
 * be kept (S18 in docs/durability.md). The handle keeps the first failure's status and sentence.
 * Each later write and the commit fail with them, and `writing` stays true. A read may fail with
 * them, too; rows that it still returns must not be used. This state ends with `rollback`, or with
 * the commit that returns the failure. FED_ENOTFOUND is an answer, and undoes nothing. FED_EFORMAT
 * of a read undoes nothing where the database's engine can go on.
 *
 * Errors. Every function fills in *err on failure. FED_ENOSPC: the disk is full. FED_ENOMEM: out of
 * memory. FED_EBUSY: another handle has been writing for too long. FED_ENOTFOUND: what is asked for
 * is not there. FED_EFORMAT: stored bytes are damaged. FED_EIO: another failure, such as a row that
 * is added a second time.
 *
 * A member that is optional says so: NULL means that the store has no such function.
 */
typedef struct fedserver_store {
    const char *name;
    /** A second name of the store, with which its URLs may begin; NULL: none. */
    const char *alias;
    /** Help text for WHERE in `fedserver init --store NAME:WHERE`, such as "a connection string".
     * NULL: the store takes no WHERE, and its functions get "". */
    const char *where;
    /** The most bytes that one row can have; 0: no limit. A model's row has its values, its
     * residual and its strategy's state, unless they are blobs. */
    uint64_t row_limit;

    /** Is there a store? A store that `create` or `copy` did not finish counts as missing.
     * FED_ENOTFOUND: there is none. Any other failure: the answer is unknown. */
    fed_status (*exists)(const char *directory, const char *where, fed_error *err) FED_CHECKED;
    /** Make a new, empty store. After a crash it is either complete or not there. `create` removes
     * the remains of an unfinished store. Call it only where `exists` returned FED_ENOTFOUND. */
    fed_status (*create)(const char *directory, const char *where, fed_error *err) FED_CHECKED;
    /** FED_ENOTFOUND: there is no store. FED_EFORMAT, FED_EVERSION: this build can't read it.
     * FED_EVERSION also for a store of an older release, which stays as it is. */
    fed_status (*open)(const char *directory, const char *where, void **db,
                       fed_error *err) FED_CHECKED;
    /** Upgrade a store of an older release, so that `open` opens it. The older release can't use it
     * any more. Takes the lock meanwhile. FED_EBUSY: another process serves the store. Does nothing
     * to a store of this release. */
    fed_status (*upgrade)(const char *directory, const char *where, fed_error *err) FED_CHECKED;
    void (*close)(void *db); /* rolls back what is not committed, and releases the lock */
    /** Become the only handle that serves or checks this store, until close. FED_EBUSY: another
     * handle has this lock; the sentence names its process. A handle that has the lock may call it
     * again. */
    fed_status (*lock)(void *db, fed_error *err) FED_CHECKED;
    /**
     * Call `lead` in place of `lock` where several coordinators share the store: try to lead, or go
     * on leading. `lead` returns soon, and sets *lead to who leads. A handle that leads has the
     * lock.
     *
     * A lead lasts for a short time, measured by the store's own clock. The store renews it in the
     * background while the process runs, also while the caller's thread is busy. A process that is
     * stopped, or cut off from the store, loses its lead. From then on nothing that it writes is
     * committed: its next write or commit fails with FED_ESTATE or FED_EIO. Then `lead->mine` is
     * false, and the handle can never lead again.
     *
     * address: "HOST:PORT" where the other coordinators reach this one. FED_EINVAL: address is too
     * long for fedserver_lead. Optional, as are let_go and serve_term. A store without them can be
     * used by one coordinator only.
     */
    fed_status (*lead)(void *db, const char *address, fedserver_lead *lead,
                       fed_error *err) FED_CHECKED;
    /** Stop leading, so that another handle can lead at once. Writes that are not committed are
     * lost. Afterwards the handle can only be closed. Does nothing where the handle does not
     * lead. */
    void (*let_go)(void *db);
    /** Let this handle write for the leader with that term, which is another handle of this
     * process. Once another process leads, this handle's writes fail. FED_ESTATE: another process
     * leads already. */
    fed_status (*serve_term)(void *db, uint64_t term, fed_error *err) FED_CHECKED;
    /** The id of the process that has the lock; 0: none. Never call it in a process that has the
     * lock: closing the lock's file would release the lock. */
    long (*holder)(void *db);
    /** Make a store in the directory `to` as `create` does: a copy of what is committed now in the
     * store of the directory `from`. Handles may go on writing to that store. A copy of an older
     * release's store is of this release. FED_EFORMAT: the stored bytes of an update are damaged.
     * Optional: a database server has its own means of making backups. */
    fed_status (*copy)(const char *from, const char *to, fed_error *err) FED_CHECKED;
    /** Report stored bytes that are damaged, as far as the store can tell. Changes nothing. The
     * handle must have the lock. */
    fed_status (*check)(void *db, fedserver_checker *checker, fed_error *err) FED_CHECKED;
    /** Delete what a crash has left behind, such as updates that were never acknowledged (S9 in
     * docs/durability.md). The process that serves calls it once, with the lock, before its first
     * write. FED_EFORMAT: something that was acknowledged is missing. */
    fed_status (*recover)(void *db, fed_error *err) FED_CHECKED;
    /** FED_OK: everything since the last commit is durable. On failure nothing of it is, and the
     * transaction has ended. Exception: after FED_EIO of PostgreSQL it may be unknown whether the
     * transaction is durable. */
    fed_status (*commit)(void *db, fed_error *err) FED_CHECKED;
    void (*rollback)(void *db);
    /** Begin a transaction before its first write, so that this write can't fail with FED_EBUSY.
     * Other handles can't write until the commit or the rollback. FED_EBUSY: another handle has
     * been writing for wait_ms; nothing has changed. Optional. */
    fed_status (*reserve)(void *db, unsigned wait_ms, fed_error *err) FED_CHECKED;
    /** Has this handle written anything since its last commit, or tried to? */
    bool (*writing)(const void *db);
    /** Has another handle committed since the last call? True at the first call. A handle with the
     * lock may notice a commit up to FEDSERVER_CHANGED_MS later. FED_EVERSION: another release has
     * changed the tables. A write then fails with FED_EVERSION, too. */
    fed_status (*changed)(void *db, bool *changed, fed_error *err) FED_CHECKED;

    fed_status (*token_add)(void *db, const uint8_t *hash, const fedserver_token *token,
                            fed_error *err) FED_CHECKED;
    fed_status (*token_find)(void *db, const uint8_t *hash, fedserver_token *token,
                             fed_error *err) FED_CHECKED;
    /** Visit all tokens, ordered by made_ms, then by hash. */
    fed_status (*token_each)(void *db, fedserver_token_visit visit, void *user,
                             fed_error *err) FED_CHECKED;
    /** Make the token useless for enrolment from now on. FED_ENOTFOUND: no unused token has that
     * hash. */
    fed_status (*token_withdraw)(void *db, const uint8_t *hash, int64_t now_ms,
                                 fed_error *err) FED_CHECKED;
    /** FED_ENOTFOUND: no unused token has that hash. */
    fed_status (*token_use)(void *db, const uint8_t *hash, int64_t now_ms,
                            fed_error *err) FED_CHECKED;

    fed_status (*pass_add)(void *db, const uint8_t *hash, const fedserver_pass *pass,
                           fed_error *err) FED_CHECKED;
    fed_status (*pass_find)(void *db, const uint8_t *hash, fedserver_pass *pass,
                            fed_error *err) FED_CHECKED;
    fed_status (*pass_use)(void *db, const uint8_t *hash, int64_t now_ms,
                           fed_error *err) FED_CHECKED;
    /** Delete the passes that expire at or before until_ms. */
    fed_status (*pass_end)(void *db, int64_t until_ms, fed_error *err) FED_CHECKED;

    /** Sets device->id. FED_EIO: another device has that fingerprint. */
    fed_status (*device_add)(void *db, fedserver_device *device, fed_error *err) FED_CHECKED;
    /** Write the device's members, except its identity, which other processes may have changed:
     * fingerprint, enrolled_ms, expires_ms, role, tag, name and revoked_ms stay as stored. */
    fed_status (*device_put)(void *db, const fedserver_device *device, fed_error *err) FED_CHECKED;
    /** device_put for a device that has just got a lease. From then on device_leased finds the
     * device. */
    fed_status (*device_lease)(void *db, const fedserver_device *device,
                               fed_error *err) FED_CHECKED;
    /** Revoke a device. Where it is revoked already, the time of its revocation stays. */
    fed_status (*device_revoke)(void *db, int64_t device, int64_t now_ms,
                                fed_error *err) FED_CHECKED;
    /** Set the device's fingerprint. */
    fed_status (*device_name)(void *db, int64_t device, const uint8_t *fingerprint,
                              fed_error *err) FED_CHECKED;
    fed_status (*device_rename)(void *db, int64_t device, const char *name,
                                fed_error *err) FED_CHECKED;
    /** Store when the device's new certificate expires. */
    fed_status (*device_renew)(void *db, int64_t device, int64_t expires_ms,
                               fed_error *err) FED_CHECKED;
    fed_status (*device_find)(void *db, const uint8_t *fingerprint, fedserver_device *device,
                              fed_error *err) FED_CHECKED;
    fed_status (*device_each)(void *db, fedserver_device_visit visit, void *user,
                              fed_error *err) FED_CHECKED;
    /** Visit the devices whose `change` is larger than `after`, in the order of their changes. The
     * cost does not depend on the number of other devices. */
    fed_status (*device_changes)(void *db, int64_t after, fedserver_device_visit visit, void *user,
                                 fed_error *err) FED_CHECKED;
    /** The largest `change` of any device; 0: there is no device. */
    fed_status (*device_newest)(void *db, int64_t *change, fed_error *err) FED_CHECKED;
    /** Visit the devices whose lease belongs to the task and to this round or a later one, and
     * whose update was not counted, in the order of their ids. The cost does not depend on the
     * number of other devices. */
    fed_status (*device_leased)(void *db, uint64_t task, uint32_t round,
                                fedserver_device_visit visit, void *user,
                                fed_error *err) FED_CHECKED;
    /** Visit at most `limit` devices with an id above `after`, in the order of their ids.
     * declined_ms says when the device declined `task`. */
    fed_status (*device_page)(void *db, uint64_t task, int64_t after, uint32_t limit,
                              fedserver_device_visit visit, void *user, fed_error *err) FED_CHECKED;
    fed_status (*device_count)(void *db, uint64_t *count, fed_error *err) FED_CHECKED;

    /** Sets task->wire.id. The new task is the last of the queue. */
    fed_status (*task_add)(void *db, fedserver_task *task, fed_error *err) FED_CHECKED;
    /** Store the layout of a task whose model names one (fed/layout_reference.h), in the
     * transaction that adds the task. It stays as long as the task's row does. */
    fed_status (*layout_put)(void *db, uint64_t task, const void *layout, size_t len,
                             fed_error *err) FED_CHECKED;
    /** Read a task's layout. The caller frees *layout with free(), and compares its digest.
     * FED_ENOTFOUND: the task has none. */
    fed_status (*layout_find)(void *db, uint64_t task, void **layout, size_t *len,
                              fed_error *err) FED_CHECKED;
    fed_status (*task_find)(void *db, fedserver_task_pick pick, uint64_t id, fedserver_task *task,
                            fed_error *err) FED_CHECKED;
    /** Write the task's state and times, if the stored state is in the bit set `from`, which has
     * bit 1 << state for each allowed state. FED_ENOTFOUND: another process has changed the state,
     * and nothing is written (S14 in docs/durability.md). */
    fed_status (*task_put)(void *db, const fedserver_task *task, unsigned from,
                           fed_error *err) FED_CHECKED;
    /** Write what the task's text says again, such as its priority; its state and times stay. */
    fed_status (*task_describe)(void *db, const fedserver_task *task, fed_error *err) FED_CHECKED;
    /** Give the task another generation, which is random: task->generation. */
    fed_status (*task_renew)(void *db, fedserver_task *task, fed_error *err) FED_CHECKED;
    /** This store is a copy, and does not know what happened to the original since. Give each task
     * another generation, and each ledger of a task that is not over the mark
     * FEDSERVER_LEDGER_COPIED. `copy` does so with what it makes. */
    fed_status (*copied)(void *db, fed_error *err) FED_CHECKED;
    /** Visit the running tasks, the queue in its order, the paused tasks, then the ended tasks,
     * newest first. Only declines after declines_after_ms are counted. */
    fed_status (*task_each)(void *db, int64_t declines_after_ms, fedserver_task_visit visit,
                            void *user, fed_error *err) FED_CHECKED;
    /** Set the task's place among the queued, running and paused tasks; smaller numbers first. */
    fed_status (*task_place)(void *db, uint64_t id, uint64_t position, fed_error *err) FED_CHECKED;
    /** Delete all data of one cancelled task, except its row, its committed rounds and their
     * metrics, and set *id to that task. FED_ENOTFOUND: no cancelled task has data left to
     * delete. */
    fed_status (*task_clear)(void *db, uint64_t *id, fed_error *err) FED_CHECKED;
    /** Return some of the database's free space to the file system. *left: there is more. */
    fed_status (*shrink)(void *db, bool *left, fed_error *err) FED_CHECKED;

    /** Store that the device declined the task, in place of its earlier decline of that task. */
    fed_status (*decline_put)(void *db, uint64_t task, int64_t device, const char *reason,
                              int64_t now_ms, fed_error *err) FED_CHECKED;
    /** Visit the task's declines that are later than after_ms, ordered by the devices' ids. */
    fed_status (*decline_each)(void *db, uint64_t task, int64_t after_ms,
                               fedserver_decline_visit visit, void *user,
                               fed_error *err) FED_CHECKED;
    fed_status (*decline_forget)(void *db, uint64_t task, fed_error *err) FED_CHECKED;

    /**
     * Keep bytes of a task's model under their digest. Rows can then name the bytes by the digest:
     * see `kept` of the rows, and delta_add. The bytes never change, and are durable once this
     * handle has committed. A row of the same transaction may name them, or a later row of any
     * handle. A thread with a handle of its own may call this while other handles write: the call
     * waits for none of these writes.
     *
     * digest: fed_digest_bytes(bytes, len). Where there is such a blob already, nothing is
     * written.
     */
    fed_status (*blob_put)(void *db, uint64_t task, uint64_t digest, const void *bytes, size_t len,
                           fed_error *err) FED_CHECKED;
    /** Delete the task's blobs that no committed row names. Do not call it between blob_put and
     * the commit of the rows that name the blob. `recover` does the same for all tasks, and the
     * commit of task_clear does it for the cleared task. */
    fed_status (*blob_sweep)(void *db, uint64_t task, fed_error *err) FED_CHECKED;
    /** Read a blob. The caller frees *bytes with free(). FED_ENOTFOUND: there is no such blob.
     * FED_EFORMAT: the bytes do not have that digest. */
    fed_status (*blob_find)(void *db, uint64_t task, uint64_t digest, void **bytes, size_t *len,
                            fed_error *err) FED_CHECKED;

    /** Store the task's model in place of the stored one. */
    fed_status (*model_put)(void *db, uint64_t task, const fedserver_model_row *row,
                            fed_error *err) FED_CHECKED;
    /** The caller frees row->values, residual and state with free(). Of these, residual and state
     * may be NULL. FED_EFORMAT: the row is damaged. */
    fed_status (*model_find)(void *db, uint64_t task, fedserver_model_row *row,
                             fed_error *err) FED_CHECKED;

    /** Store `part`, the fed_part that turns the model of version - 1 into that of `version`.
     * kept: the digest of the blob that already holds the part. NULL: there is no such blob, and
     * the row stores the bytes. */
    fed_status (*delta_add)(void *db, uint64_t task, uint32_t version, const uint8_t *part,
                            size_t len, const uint64_t *kept, fed_error *err) FED_CHECKED;
    /** Delete the deltas that lead to `version` or an earlier one. */
    fed_status (*delta_prune)(void *db, uint64_t task, uint32_t version,
                              fed_error *err) FED_CHECKED;
    /** Visit the deltas that lead to versions after `after`, up to `last`, oldest first. */
    fed_status (*delta_each)(void *db, uint64_t task, uint32_t after, uint32_t last,
                             fedserver_delta_visit visit, void *user, fed_error *err) FED_CHECKED;
    /** The number of deltas that lead to versions after `after`, and their bytes. */
    fed_status (*delta_sum)(void *db, uint64_t task, uint32_t after, uint32_t *count,
                            uint64_t *bytes, fed_error *err) FED_CHECKED;

    fed_status (*keyframe_add)(void *db, uint64_t task, const fedserver_keyframe *keyframe,
                               fed_error *err) FED_CHECKED;
    /** Find the newest keyframe whose version is at most `version`. The function sets
     * keyframe->values to NULL, and *values to a copy that the caller frees with free(). Pass
     * values NULL to read no values. FED_ENOTFOUND: there is no such keyframe. */
    fed_status (*keyframe_find)(void *db, uint64_t task, uint32_t version,
                                fedserver_keyframe *keyframe, float **values,
                                fed_error *err) FED_CHECKED;
    /** Delete the keyframes of versions before `version`. */
    fed_status (*keyframe_prune)(void *db, uint64_t task, uint32_t version,
                                 fed_error *err) FED_CHECKED;

    /** Store the round in place of the task's stored round of that number, if there is one. */
    fed_status (*round_put)(void *db, uint64_t task, const fedserver_round_row *row,
                            fed_error *err) FED_CHECKED;
    /** Visit at most `limit` rounds, newest first. The open round is one of them. */
    fed_status (*round_each)(void *db, uint64_t task, uint32_t limit, fedserver_round_visit visit,
                             void *user, fed_error *err) FED_CHECKED;

    /** Charge one participation to each device with an update that counts in that round of the
     * task, unless it was charged for that round before. */
    fed_status (*ledger_charge)(void *db, uint64_t task, uint32_t round,
                                fed_error *err) FED_CHECKED;
    /** Visit the task's ledger, in the order of the devices' ids. */
    fed_status (*ledger_each)(void *db, uint64_t task, fedserver_ledger_visit visit, void *user,
                              fed_error *err) FED_CHECKED;
    /** Count the devices that can train the task and have fewer than `most` participations: those
     * that are not revoked, are no evaluators, and have the tag, where that is not "". With a round
     * above 0 only those that may take part in it: their last one was `apart` rounds before at
     * least, or they are charged for this round already. */
    fed_status (*ledger_left)(void *db, uint64_t task, const char *tag, uint32_t most,
                              uint32_t round, uint32_t apart, uint64_t *count,
                              fed_error *err) FED_CHECKED;
    /** Delete the task's open round: its row alone. */
    fed_status (*round_drop)(void *db, uint64_t task, fed_error *err) FED_CHECKED;
    /** Charge `count` participations to every device, for rounds that this store does not know.
     * Delete the mark FEDSERVER_LEDGER_COPIED, the keys of committed rounds, and the updates of an
     * open round whose devices have `most` participations now, unless the round closes. *lost: how
     * many updates. */
    fed_status (*ledger_lose)(void *db, uint64_t task, uint32_t count, uint32_t most,
                              uint64_t *lost, fed_error *err) FED_CHECKED;
    /** Replace the noise keys of the task's rounds after `after` up to `last` by zeros. */
    fed_status (*noise_forget)(void *db, uint64_t task, uint32_t after, uint32_t last,
                               fed_error *err) FED_CHECKED;

    /** Count a round of the task for each device with an update that counts in it. share: of these
     * devices, those in the worst group. */
    fed_status (*outliers_count)(void *db, uint64_t task, uint32_t round, double share,
                                 fed_error *err) FED_CHECKED;
    /** The device was in the worst group of a round that outliers_count has counted. */
    fed_status (*outlier_add)(void *db, uint64_t task, uint32_t round, int64_t device,
                              fed_error *err) FED_CHECKED;
    /** Visit the task's devices with at least so many rounds in the worst group: those with the
     * most first, and of equal ones in the order of their ids. */
    fed_status (*outliers_each)(void *db, uint64_t task, uint32_t least,
                                fedserver_outlier_visit visit, void *user,
                                fed_error *err) FED_CHECKED;

    /** Store the masks of a round of a private task (rounds/openings.h) or its correlated noise
     * (rounds/ledger.h), once: another call for the round replaces them. */
    fed_status (*opening_put)(void *db, uint64_t task, uint32_t round, const void *masks,
                              size_t len, fed_error *err) FED_CHECKED;
    /** Copy the masks of a round into masks[len]. *found: the store has them. masks NULL: only look
     * whether it has. FED_EFORMAT: they have another length. */
    fed_status (*opening_find)(void *db, uint64_t task, uint32_t round, void *masks, size_t len,
                               bool *found, fed_error *err) FED_CHECKED;
    /** Store why the helper does not open a round, in place of what it said before. Only of a round
     * without masks: opening_put deletes it. refusal: well-formed UTF-8; "" deletes it, too. */
    fed_status (*opening_refuse)(void *db, uint64_t task, uint32_t round, const char *refusal,
                                 fed_error *err) FED_CHECKED;
    /** Copy that text, cut to cap bytes. "": there is none. */
    fed_status (*opening_refused)(void *db, uint64_t task, uint32_t round, char *refusal,
                                  size_t cap, fed_error *err) FED_CHECKED;
    /** Delete the task's masks and refusals of rounds up to `round`. */
    fed_status (*opening_clear)(void *db, uint64_t task, uint32_t round,
                                fed_error *err) FED_CHECKED;

    /** Store an update. body: the body of POST /v1/update, unchanged. FED_EIO: the lease has an
     * update already. Where the write runs later, the commit may be the call that returns
     * FED_EIO. */
    fed_status (*update_add)(void *db, const fedserver_update_row *row, const uint8_t *body,
                             size_t len, fed_error *err) FED_CHECKED;
    /** Visit the updates that count in that round of the task, in the order of their arrival. task
     * 0: of all tasks; round 0: of any round. The visit function may itself call update_each. Each
     * call that runs has one long body in memory, or several short ones. FED_EFORMAT: a stored body
     * is not the one that was acknowledged (S9 in docs/durability.md). */
    fed_status (*update_each)(void *db, uint64_t task, uint32_t round, fedserver_update_visit visit,
                              void *user, fed_error *err) FED_CHECKED;
    fed_status (*update_count)(void *db, uint64_t task, uint32_t round, uint32_t *count,
                               fed_error *err) FED_CHECKED;
    /** Delete the task's update of that lease, if it is there. */
    fed_status (*update_remove)(void *db, uint64_t task, uint64_t lease,
                                fed_error *err) FED_CHECKED;
    /** Delete the task's updates of rounds up to `round`. */
    fed_status (*update_clear)(void *db, uint64_t task, uint32_t round, fed_error *err) FED_CHECKED;

    /** Store a further piece of the message that a device is sending. The piece begins where the
     * device's last stored piece ends. */
    fed_status (*piece_add)(void *db, int64_t device, const fed_piece *piece, const uint8_t *data,
                            size_t len, fed_error *err) FED_CHECKED;
    /** Find the device's last piece. Sets lease, digest, total and offset of *piece, and *end to
     * the offset in the message at which the piece ends. FED_ENOTFOUND: the device has no
     * pieces. */
    fed_status (*piece_find)(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                             fed_error *err) FED_CHECKED;
    /** Copy all pieces of the device into dst[cap], in their order. FED_EFORMAT: the pieces
     * leave a gap, or are longer than cap. */
    fed_status (*piece_join)(void *db, int64_t device, uint8_t *dst, size_t cap, size_t *len,
                             fed_error *err) FED_CHECKED;
    fed_status (*piece_clear)(void *db, int64_t device, fed_error *err) FED_CHECKED;
    /** End the task's leases of rounds before `round`: delete the pieces of each device with such a
     * lease. From now on device_leased need not find those devices. */
    fed_status (*lease_prune)(void *db, uint64_t task, uint32_t round, fed_error *err) FED_CHECKED;

    /** Add a line to the audit log, which keeps its newest FEDSERVER_AUDIT_LINES lines. */
    fed_status (*audit_add)(void *db, const fedserver_audit_entry *entry,
                            fed_error *err) FED_CHECKED;
    /** Visit the audit log's lines since since_ms, oldest first. */
    fed_status (*audit_each)(void *db, int64_t since_ms, fedserver_audit_visit visit, void *user,
                             fed_error *err) FED_CHECKED;

    /** Visit the audit log's lines about tasks whose number is larger than *read, oldest first.
     * *read becomes the number of the last line that was visited. */
    fed_status (*audit_tasks)(void *db, int64_t *read, fedserver_audit_visit visit, void *user,
                              fed_error *err) FED_CHECKED;

    /** Store an evaluator's metric of a version in place of its earlier one. */
    fed_status (*metric_put)(void *db, int64_t device, const fed_metric *metric,
                             fed_error *err) FED_CHECKED;
    /** Store custom metrics of a version, in place of all that are stored of this device and
     * version. device: the evaluator that reported them. With FEDSERVER_OWN_OF_UPDATES, they come
     * from the updates that made the version. rows: [count], sorted by name. count 0 only
     * deletes. */
    fed_status (*own_put)(void *db, uint64_t task, uint32_t version, int64_t device,
                          const fedserver_own_metric *rows, size_t count,
                          fed_error *err) FED_CHECKED;
    /** Visit the custom metrics of a task's versions from `first` on, ordered by version, then by
     * device, then by name. */
    fed_status (*own_each)(void *db, uint64_t task, uint32_t first, fedserver_own_row_visit visit,
                           void *user, fed_error *err) FED_CHECKED;
} fedserver_store;

#endif
