/* Where a coordinator keeps what must survive: the records, and the functions of a store. */
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

/** In place of a device: the custom metrics of a round's updates, summed up. */
enum { FEDSERVER_OWN_OF_UPDATES = 0 };

typedef struct fedserver_token {
    int64_t made_ms; /* 0: not known; releases before layout 8 did not store it */
    int64_t expires_ms;
    int64_t used_ms;      /* 0: not yet */
    int64_t withdrawn_ms; /* 0: not withdrawn */
    /* of the device that enrols with the token: */
    fedserver_role role;
    char tag[FEDSERVER_TAG];   /* a group of devices that a task can name; "": none */
    char name[FEDSERVER_NAME]; /* "": the device names itself */
} fedserver_token;

/** A person's or a program's key to the front: identity/passes.h. */
typedef struct fedserver_pass {
    fedserver_pass_kind kind;
    int64_t expires_ms;
    int64_t used_ms; /* of a link: when it was used; 0: not yet */
} fedserver_pass;

/** A device has at most one lease. The row keeps the last lease whose update was counted, so that
 * an update that is sent again gets the same answer, however late (S3). */
typedef struct fedserver_device {
    int64_t id;
    /* Numbers the writes of identities: of two devices, the one written later has the larger
     * number. Only the store sets it. */
    int64_t change;
    /* SHA-256 of its key; until layout 3, of its certificate */
    uint8_t fingerprint[FED_SHA256_SIZE];
    int64_t enrolled_ms, expires_ms;
    /* the newest lease; 0: none yet. The next members are its task, round and attempt: */
    uint64_t lease;
    uint64_t lease_task;
    uint32_t lease_round, lease_attempt;
    uint64_t counted_lease; /* the last lease whose update was counted; 0: none */
    /* digest of that update's message; 0: not known (layout 7 and before) */
    uint64_t counted_digest;
    uint64_t evaluated_task;    /* the newest model that the device has measured: its task, */
    uint32_t evaluated_version; /* and its version */
    int64_t revoked_ms;         /* 0: not revoked */
    int64_t lease_deadline_ms;  /* the lease has its slot until then */
    int64_t cloned_ms;          /* when a copy of the device's state reported last; 0: never */
    /* samples of its data, as the device last said; 0: it has not said yet */
    uint32_t samples;
    fedserver_role role;
    char tag[FEDSERVER_TAG];
    char name[FEDSERVER_NAME];            /* for people; "": none */
    char software[FEDSERVER_SOFTWARE];    /* its last User-Agent; "": none */
    char computes_on[FEDSERVER_COMPUTES]; /* as its last check-in said; "": the processor */
    int64_t seen_ms;                      /* its last request; 0: none yet */
    /* fedserver_ca_id of the certificate that the device used last; 0: not known */
    uint64_t authority;
    /* its updates: counted; refused as too late; refused for another reason */
    uint64_t counted, late, refused;
    /* Not stored: */
    bool unsaved;           /* a member above is newer than the stored one */
    int64_t checkin_ms;     /* its last check-in to train; 0: none */
    uint64_t declined_task; /* only device_page sets it: the task, if the device declined it */
} fedserver_device;

/** Which task to find. */
typedef enum fedserver_task_pick {
    FEDSERVER_PICK_ID = 0,
    FEDSERVER_PICK_QUEUED = 1,  /* the first of the queue */
    FEDSERVER_PICK_RUNNING = 2, /* of several, the first */
    FEDSERVER_PICK_FINISHED = 3 /* the last that finished */
} fedserver_task_pick;

/** A task's newest model. Values are float32 in the machine's (little-endian) byte order. */
typedef struct fedserver_model_row {
    uint32_t version;
    uint64_t digest;
    float *values;   /* [size] */
    float *residual; /* [size]: values that the deltas have left out so far; NULL: none */
    size_t size;
    uint8_t *state; /* [state_len]: the strategy's state, flat; NULL: none */
    size_t state_len;
    /* The store has values, residual and state as blobs (blob_put). The row names them by their
     * digests; model_put does not read the bytes again. */
    bool kept;
    uint64_t residual_digest, state_digest; /* only where `kept` */
} fedserver_model_row;

/** An older version of a model, kept whole. */
typedef struct fedserver_keyframe {
    uint32_t version;
    uint64_t digest;
    const float *values; /* [size] */
    size_t size;
    bool kept; /* the store has the values as a blob; keyframe_add does not read them */
} fedserver_keyframe;

/** A device that stands out in a round. */
typedef struct fedserver_standout {
    int64_t device; /* 0: not known; releases before layout 8 did not store it */
    char name[17];  /* the first digits of its fingerprint; set when the row is read */
    double amount;
} fedserver_standout;

/** A round, open (committed_ms 0) or committed. */
typedef struct fedserver_round_row {
    uint32_t number, attempts;
    int64_t opened_ms, deadline_ms, committed_ms;
    int64_t closing_ms; /* since when its updates are settled, and no other counts; 0: not yet */
    uint32_t updates;
    uint64_t samples;
    double loss; /* mean over the samples */
    uint64_t update_bytes, delta_bytes;
    uint64_t own_dropped; /* the updates' custom metrics that found no room */
    /* the device with the largest share of the weight; amount: that share, 0 to 1 */
    fedserver_standout heaviest;
    /* the device whose updates move the model most; amount: the largest norm */
    fedserver_standout furthest;
    bool measured; /* evaluating devices have set the fields below. Read only. */
    double accuracy, test_loss;
} fedserver_round_row;

/** An update of the open round: the device that sent it, and which of the device's leases it is
 * for. */
typedef struct fedserver_update_row {
    uint64_t task;
    uint32_t round; /* the round in which it counts */
    int64_t device;
    uint64_t lease;
} fedserver_update_row;

/** A device said that it can't serve a task. */
typedef struct fedserver_decline {
    int64_t device;
    const uint8_t *fingerprint; /* [FED_SHA256_SIZE] of the device */
    const char *reason;         /* a sentence, clean as fed_utf8_clean leaves it */
    int64_t at_ms;
    bool revoked; /* the device is */
} fedserver_decline;

/** Which of the coordinators that share a store leads: it alone has the rounds. */
typedef struct fedserver_lead {
    bool mine;         /* this handle leads */
    char address[256]; /* of the one that leads, as it gave it; "": not known now */
    uint64_t term;     /* of its lead; each change of the lead makes it larger */
} fedserver_lead;

/** The store calls it for one row after the other. A failure ends the walk and becomes the
 * walk's result. The pointers are valid for the call only. */
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

typedef fed_status (*fedserver_decline_visit)(void *user, const fedserver_decline *decline,
                                              fed_error *err);

/** A check of the store: where to report, and the number of findings. */
typedef struct fedserver_checker {
    fedserver_check_report report;
    void *user;
    size_t findings;
} fedserver_checker;

/** Report one sentence. */
void fedserver_check_note(fedserver_checker *checker, fedserver_check_kind kind, const char *format,
                          ...) FED_PRINTF(3, 4);

/** What to do where only a copy can help. It ends a sentence. */
#define FEDSERVER_RESTORE "; restore the coordinator from a backup (fedserver restore)"

/**
 * A store keeps a coordinator's rows. store->open gives a handle, `db`; a process may have several
 * handles on one store, and other processes theirs.
 *
 * Transactions. A handle's first write after a commit starts a transaction, so a batch that writes
 * nothing costs nothing. Commit makes everything since then durable: all of it, or none. A handle's
 * reads see the writes of its own transaction; other handles see them after the commit. One handle
 * writes at a time.
 *
 * A write that returns nothing may run later: its failure is then that of a later call on the
 * handle, also of a read, of the commit at the latest.
 *
 * A failed write, and a failed read within a transaction, undo the transaction: nothing of it will
 * be kept (S18). The handle keeps the first reason, its status and its sentence. Until somebody
 * hears of it, each later write and the commit fail with that reason, and `writing` is true. A read
 * may fail with it, too; what it answers is of no use. Only `rollback`, or the commit that tells
 * the reason, ends this. So a commit never succeeds without all of its transaction, whoever has
 * dropped an error on the way. FED_ENOTFOUND is an answer, and undoes nothing; nor does
 * FED_EFORMAT where a read has found stored bytes to be damaged, if the engine goes on after it.
 *
 * Errors. Every function fills in *err on failure. FED_ENOSPC: the disk is full. FED_EBUSY: another
 * handle has been writing for too long. FED_ENOTFOUND: what is asked for is not there. FED_EIO:
 * anything else, also a row that is added a second time.
 *
 * No function of the coordinator drops a status of a store: each is FED_CHECKED.
 *
 * A member that is optional says so: NULL means that the store can't do it.
 */
typedef struct fedserver_store {
    const char *name;
    /** Another name, which a URL may begin with; NULL: none. */
    const char *alias;
    /** What WHERE is in `fedserver init --store NAME:WHERE`, for people: "a connection string".
     * NULL: the store takes none; functions get "". */
    const char *where;
    /** The bytes of the longest row; 0: no limit. A model's row has its values, its residual and
     * its strategy's state. */
    uint64_t row_limit;

    /** Is there a store? One that `create` or `copy` did not finish is not there. FED_ENOTFOUND:
     * there is none. Any other failure: nobody can tell now. */
    fed_status (*exists)(const char *directory, const char *where, fed_error *err) FED_CHECKED;
    /** Make a new, empty store. It appears whole: after a crash it is complete, or not there.
     * `create` removes the remains of an unfinished one. Call it where `exists` says FED_ENOTFOUND.
     * */
    fed_status (*create)(const char *directory, const char *where, fed_error *err) FED_CHECKED;
    /** FED_ENOTFOUND: there is none; FED_EFORMAT, FED_EVERSION: this build can't read it. */
    fed_status (*open)(const char *directory, const char *where, void **db,
                       fed_error *err) FED_CHECKED;
    void (*close)(void *db); /* drops writes that were not committed, and the lock */
    /** Become the only handle that serves or checks this store, until close. FED_EBUSY: another
     * handle is; the sentence names its process. A handle that has the lock may ask again. */
    fed_status (*lock)(void *db, fed_error *err) FED_CHECKED;
    /**
     * In place of `lock`, where several coordinators share the store: try to lead, or go on
     * leading. Returns soon, and says in *lead who leads. A handle that leads has the lock.
     *
     * The lead is for a time that the store's own clock measures. A process that lives renews it by
     * itself, also while its thread is busy elsewhere; one that is stopped, or cut off from the
     * store, loses it. From then on nothing that it writes is committed: its next write or commit
     * fails with FED_ESTATE or FED_EIO. `lead` is then no more `mine`, and never again.
     *
     * address: "HOST:PORT" where the others reach this coordinator. FED_EINVAL: it is longer than
     * fedserver_lead has room for. Optional, with let_go and serve_term: without it one coordinator
     * alone can use the store.
     */
    fed_status (*lead)(void *db, const char *address, fedserver_lead *lead,
                       fed_error *err) FED_CHECKED;
    /** End the lead, so that another handle can take it at once. Drops what is not committed. The
     * handle is only good for close afterwards. Does nothing where the handle does not lead. */
    void (*let_go)(void *db);
    /** Let this handle write as a part of the lead with that term, which another handle of this
     * process took. Its writes fail once another process leads. FED_ESTATE: another process leads
     * already. */
    fed_status (*serve_term)(void *db, uint64_t term, fed_error *err) FED_CHECKED;
    /** The process that has the lock; 0: none. Do not call it in the process that has the lock:
     * the process may lose the lock. */
    long (*holder)(void *db);
    /** Make a store in that directory as `create` does, with what is committed now. Other
     * handles may go on writing meanwhile. Do not call it inside a transaction. FED_EFORMAT: a body
     * is damaged. Optional: a store that takes a WHERE has its own means of making backups. */
    fed_status (*copy)(void *db, const char *directory, fed_error *err) FED_CHECKED;
    /** Report whether the stored bytes are sound, as far as the store can tell. Changes nothing.
     * The handle has the lock. */
    fed_status (*check)(void *db, fedserver_checker *checker, fed_error *err) FED_CHECKED;
    /** Delete what a crash has left and no answer has promised (S9). The process that serves
     * calls it once, with the lock, before its first write. FED_EFORMAT: something promised is
     * missing. */
    fed_status (*recover)(void *db, fed_error *err) FED_CHECKED;
    /** FED_OK: everything since the last commit is durable. On failure nothing of it is (but see
     * FED_EIO of PostgreSQL, which may not know), and the handle has no transaction any more. */
    fed_status (*commit)(void *db, fed_error *err) FED_CHECKED;
    void (*rollback)(void *db);
    /** Has this handle written anything since its last commit, or tried to? */
    bool (*writing)(const void *db);
    /** Has another handle committed since the last call? True at the first call. A handle with the
     * lock may notice a commit up to FEDSERVER_CHANGED_MS later. */
    fed_status (*changed)(void *db, bool *changed, fed_error *err) FED_CHECKED;

    fed_status (*token_add)(void *db, const uint8_t *hash, const fedserver_token *token,
                            fed_error *err) FED_CHECKED;
    fed_status (*token_find)(void *db, const uint8_t *hash, fedserver_token *token,
                             fed_error *err) FED_CHECKED;
    /** In the order of made_ms; equal times in the order of their hashes. */
    fed_status (*token_each)(void *db, fedserver_token_visit visit, void *user,
                             fed_error *err) FED_CHECKED;
    /** Make sure that nobody can enrol with the token any more. FED_ENOTFOUND: no unused token
     * has that hash. */
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
    /** Delete the passes that expire by that time. */
    fed_status (*pass_end)(void *db, int64_t until_ms, fed_error *err) FED_CHECKED;

    /** Sets device->id. FED_EIO: another device has that fingerprint. */
    fed_status (*device_add)(void *db, fedserver_device *device, fed_error *err) FED_CHECKED;
    /** Write the device's state. Its identity stays as stored, because other processes write it:
     * fingerprint, enrolled_ms, expires_ms, role, tag, name and revoked_ms. */
    fed_status (*device_put)(void *db, const fedserver_device *device, fed_error *err) FED_CHECKED;
    /** device_put, for a device that has got a lease: device_leased finds it. */
    fed_status (*device_lease)(void *db, const fedserver_device *device,
                               fed_error *err) FED_CHECKED;
    /** Revoke a device. A device that is revoked already keeps its first time. */
    fed_status (*device_revoke)(void *db, int64_t device, int64_t now_ms,
                                fed_error *err) FED_CHECKED;
    /** Set its fingerprint. */
    fed_status (*device_name)(void *db, int64_t device, const uint8_t *fingerprint,
                              fed_error *err) FED_CHECKED;
    /** Set its name. */
    fed_status (*device_rename)(void *db, int64_t device, const char *name,
                                fed_error *err) FED_CHECKED;
    /** Note the device's new certificate and when the certificate expires. */
    fed_status (*device_renew)(void *db, int64_t device, int64_t expires_ms,
                               fed_error *err) FED_CHECKED;
    fed_status (*device_find)(void *db, const uint8_t *fingerprint, fedserver_device *device,
                              fed_error *err) FED_CHECKED;
    fed_status (*device_each)(void *db, fedserver_device_visit visit, void *user,
                              fed_error *err) FED_CHECKED;
    /** Visit the devices whose identity was written after that change, in the order of their
     * changes. It costs nothing for the other devices. */
    fed_status (*device_changes)(void *db, int64_t after, fedserver_device_visit visit, void *user,
                                 fed_error *err) FED_CHECKED;
    /** The newest change of an identity; 0: there is no device. */
    fed_status (*device_newest)(void *db, int64_t *change, fed_error *err) FED_CHECKED;
    /** Visit the devices whose lease is of this task and of this round or a later one, and is not
     * counted. In the order of their ids. It costs nothing for the other devices. */
    fed_status (*device_leased)(void *db, uint64_t task, uint32_t round,
                                fedserver_device_visit visit, void *user,
                                fed_error *err) FED_CHECKED;
    /** Visit at most `limit` devices with an id above `after`, in the order of their ids.
     * declined_task is `task` if the device has declined that task. */
    fed_status (*device_page)(void *db, uint64_t task, int64_t after, uint32_t limit,
                              fedserver_device_visit visit, void *user, fed_error *err) FED_CHECKED;
    fed_status (*device_count)(void *db, uint64_t *count, fed_error *err) FED_CHECKED;

    /** Sets task->wire.id. The new task is the last of the queue. */
    fed_status (*task_add)(void *db, fedserver_task *task, fed_error *err) FED_CHECKED;
    fed_status (*task_find)(void *db, fedserver_task_pick pick, uint64_t id, fedserver_task *task,
                            fed_error *err) FED_CHECKED;
    /** Write the task's state and times, if the stored state is in `from`, which has a bit for
     * each state (1 << state). FED_ENOTFOUND: another process has changed the state; nothing is
     * written (S14). */
    fed_status (*task_put)(void *db, const fedserver_task *task, unsigned from,
                           fed_error *err) FED_CHECKED;
    /** Visit the running tasks, the queue in its order, the paused tasks, then the ended ones,
     * newest first. Declines up to that time are not counted. */
    fed_status (*task_each)(void *db, int64_t declines_after_ms, fedserver_task_visit visit,
                            void *user, fed_error *err) FED_CHECKED;
    /** Set its position among the queued, running and paused tasks: small numbers first. */
    fed_status (*task_place)(void *db, uint64_t id, uint64_t position, fed_error *err) FED_CHECKED;
    /** Delete what a cancelled task has left, except its row and its committed rounds. *id =
     * that task. FED_ENOTFOUND: no cancelled task has anything left. */
    fed_status (*task_clear)(void *db, uint64_t *id, fed_error *err) FED_CHECKED;
    /** Return some free space to the disk. *left: more can be returned. */
    fed_status (*shrink)(void *db, bool *left, fed_error *err) FED_CHECKED;

    /** Replaces the device's earlier decline of that task. */
    fed_status (*decline_put)(void *db, uint64_t task, int64_t device, const char *reason,
                              int64_t now_ms, fed_error *err) FED_CHECKED;
    /** The declines of a task after that time, in the order of the devices' ids. */
    fed_status (*decline_each)(void *db, uint64_t task, int64_t after_ms,
                               fedserver_decline_visit visit, void *user,
                               fed_error *err) FED_CHECKED;
    /** Delete all declines of a task. */
    fed_status (*decline_forget)(void *db, uint64_t task, fed_error *err) FED_CHECKED;

    /**
     * Keep bytes of a task's model. A row then names them by their digest: see `kept` of the rows,
     * and delta_add. The bytes never change. They survive once this handle has committed. A row of
     * that transaction may name them, or a later one of any handle. A handle of another thread may
     * do this while other handles write: it waits for none of them.
     * digest: fed_digest_bytes(bytes, len). A blob that is there already is not written again.
     */
    fed_status (*blob_put)(void *db, uint64_t task, uint64_t digest, const void *bytes, size_t len,
                           fed_error *err) FED_CHECKED;
    /** Delete the task's blobs that no committed row names. Not between blob_put and the commit of
     * the rows that name the bytes. `recover` does it for all tasks, and the commit of task_clear
     * for that task. */
    fed_status (*blob_sweep)(void *db, uint64_t task, fed_error *err) FED_CHECKED;
    /** Read a blob. The caller frees *bytes with free(). FED_ENOTFOUND; FED_EFORMAT: the bytes do
     * not fit the digest. */
    fed_status (*blob_find)(void *db, uint64_t task, uint64_t digest, void **bytes, size_t *len,
                            fed_error *err) FED_CHECKED;

    /** Replaces the task's model. */
    fed_status (*model_put)(void *db, uint64_t task, const fedserver_model_row *row,
                            fed_error *err) FED_CHECKED;
    /** The caller frees values, residual and state with free(); the last two may be NULL.
     * FED_EFORMAT: the row is damaged. */
    fed_status (*model_find)(void *db, uint64_t task, fedserver_model_row *row,
                             fed_error *err) FED_CHECKED;

    /** part: the fed_part that turns version - 1 into version.   kept: the digest under which the
     * store has the part as a blob; NULL: it has none, and the row holds the bytes. */
    fed_status (*delta_add)(void *db, uint64_t task, uint32_t version, const uint8_t *part,
                            size_t len, const uint64_t *kept, fed_error *err) FED_CHECKED;
    /** Delete the deltas that lead to versions up to this one. */
    fed_status (*delta_prune)(void *db, uint64_t task, uint32_t version,
                              fed_error *err) FED_CHECKED;
    /** The deltas that lead to versions after `after`, up to `last`; oldest first. */
    fed_status (*delta_each)(void *db, uint64_t task, uint32_t after, uint32_t last,
                             fedserver_delta_visit visit, void *user, fed_error *err) FED_CHECKED;
    /** The number of deltas that lead to versions after `after`, and their bytes. */
    fed_status (*delta_sum)(void *db, uint64_t task, uint32_t after, uint32_t *count,
                            uint64_t *bytes, fed_error *err) FED_CHECKED;

    fed_status (*keyframe_add)(void *db, uint64_t task, const fedserver_keyframe *keyframe,
                               fed_error *err) FED_CHECKED;
    /** Find the newest keyframe of a version up to this one. keyframe->values is NULL. The caller
     * frees *values with free(); pass NULL to go without them. FED_ENOTFOUND: there is none. */
    fed_status (*keyframe_find)(void *db, uint64_t task, uint32_t version,
                                fedserver_keyframe *keyframe, float **values,
                                fed_error *err) FED_CHECKED;
    /** Delete the keyframes of versions before this one. */
    fed_status (*keyframe_prune)(void *db, uint64_t task, uint32_t version,
                                 fed_error *err) FED_CHECKED;

    /** Replaces the round of that number. */
    fed_status (*round_put)(void *db, uint64_t task, const fedserver_round_row *row,
                            fed_error *err) FED_CHECKED;
    /** At most `limit` rounds, newest first; the open round is one of them. */
    fed_status (*round_each)(void *db, uint64_t task, uint32_t limit, fedserver_round_visit visit,
                             void *user, fed_error *err) FED_CHECKED;

    /** body: the body of POST /v1/update, unchanged. FED_EIO, at the commit at the
     * latest: the lease has an update already. */
    fed_status (*update_add)(void *db, const fedserver_update_row *row, const uint8_t *body,
                             size_t len, fed_error *err) FED_CHECKED;
    /** The updates that count in that round of the task (task 0: of all tasks; round 0: in any
     * round), in the order of their arrival. A visit may start a walk of its own; each walk has one
     * long body in memory, or some short ones. FED_EFORMAT: a body is not what was acknowledged
     * (S9). */
    fed_status (*update_each)(void *db, uint64_t task, uint32_t round, fedserver_update_visit visit,
                              void *user, fed_error *err) FED_CHECKED;
    fed_status (*update_count)(void *db, uint64_t task, uint32_t round, uint32_t *count,
                               fed_error *err) FED_CHECKED;
    /** Delete the updates of rounds up to this one. */
    fed_status (*update_clear)(void *db, uint64_t task, uint32_t round, fed_error *err) FED_CHECKED;

    /** Add bytes of the message that a device is sending. They begin where the device's last
     * piece ends. */
    fed_status (*piece_add)(void *db, int64_t device, const fed_piece *piece, const uint8_t *data,
                            size_t len, fed_error *err) FED_CHECKED;
    /** Find the device's last piece, and where it ends. Sets lease, digest, total and offset of
     * *piece. FED_ENOTFOUND: there is none. */
    fed_status (*piece_find)(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                             fed_error *err) FED_CHECKED;
    /** Copy all pieces of the device into dst[cap], in their order. FED_EFORMAT: the pieces
     * leave a gap, or are longer than cap. */
    fed_status (*piece_join)(void *db, int64_t device, uint8_t *dst, size_t cap, size_t *len,
                             fed_error *err) FED_CHECKED;
    fed_status (*piece_clear)(void *db, int64_t device, fed_error *err) FED_CHECKED;
    /** The leases of this task and of earlier rounds are over: delete the pieces of each device
     * that has one. From now on device_leased need not find those devices. */
    fed_status (*lease_prune)(void *db, uint64_t task, uint32_t round, fed_error *err) FED_CHECKED;

    /** Add a line. The newest FEDSERVER_AUDIT_LINES are kept. */
    fed_status (*audit_add)(void *db, const fedserver_audit_entry *entry,
                            fed_error *err) FED_CHECKED;
    /** The lines since that time, oldest first. */
    fed_status (*audit_each)(void *db, int64_t since_ms, fedserver_audit_visit visit, void *user,
                             fed_error *err) FED_CHECKED;

    /** Replaces the device's earlier metric of that version. */
    fed_status (*metric_put)(void *db, int64_t device, const fed_metric *metric,
                             fed_error *err) FED_CHECKED;
    /** Put the custom metrics that an evaluator reported of a version, or those of the updates that
     * made the version (FEDSERVER_OWN_OF_UPDATES). Replaces all that the store has of the two; with
     * count 0 nothing remains.   rows: [count], in the order of their names */
    fed_status (*own_put)(void *db, uint64_t task, uint32_t version, int64_t device,
                          const fedserver_own_metric *rows, size_t count,
                          fed_error *err) FED_CHECKED;
    /** The custom metrics of a task's versions from `first` on, in the order of versions, then of
     * devices, then of names. */
    fed_status (*own_each)(void *db, uint64_t task, uint32_t first, fedserver_own_row_visit visit,
                           void *user, fed_error *err) FED_CHECKED;
} fedserver_store;

#endif
