/* The coordinator's insides: what it holds in memory between requests, and the deeds of a round. */
#ifndef FEDSERVER_SERVER_H
#define FEDSERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/arch.h"
#include "fed/crypto.h"
#include "fed/log.h"
#include "fedserver/batch_log.h"
#include "fedserver/fedserver.h"
#include "fedserver/identity/auth.h"
#include "fedserver/rounds/aggregate.h"
#include "fedserver/rounds/cohort.h"
#include "fedserver/rounds/round.h"
#include "fedserver/stores/store.h"
#include "fedserver/strategies/strategy.h"
#include "fedserver/versions/downloads.h"

/** The task that runs or, where none does, the one that ran last. */
typedef struct fedserver_training {
    bool loaded; /* false: no task has ever started, and nothing below means anything */
    fedserver_task task;
    fed_arch arch;
    uint64_t update_limit; /* bytes of the largest update that any of its phases allows */
    fedserver_strategy strategy;
    float *state; /* the strategy's, after the newest version; NULL: it has none */
    fedserver_round round;
    fedserver_sum sum;       /* of the open round */
    fedserver_cohort cohort; /* who may take its free places */
    int64_t vacant_ms;       /* since when nobody has held a lease; 0: somebody does */
    int64_t lease_ends_ms; /* leases are looked at again then: the first of them ends, or may have;
                              0: at once */
    fedserver_versions versions;
    fedserver_downloads downloads; /* made of them */
} fedserver_training;

enum { FEDSERVER_ROUND_TIMES = 15 };

/** Since this process started to serve. */
typedef struct fedserver_counters {
    uint64_t requests, received_bytes, sent_bytes;
    uint64_t rounds_committed, attempts_abandoned;
    uint64_t round_times[FEDSERVER_ROUND_TIMES]; /* rounds by how long they took: metrics.h */
    double round_seconds;                        /* together */
    uint64_t updates_counted, updates_repeated, updates_closed, updates_expired, updates_unknown,
        updates_stale, updates_cloned;
    uint64_t updates_bad, updates_out_of_range, updates_too_large;
    uint64_t declines;
    uint64_t assignments[4]; /* by fed_action; held requests count when they are answered */
} fedserver_counters;

/*
 * All but the counters is a cache of the store, filled by the first fedserver_begin. Every change
 * is made in the store first or in the same breath; where the store fails, the whole cache is
 * thrown away with the server (`broken`) instead of being repaired.
 */
struct fedserver {
    char *directory;
    const fed_log *log; /* lines of a batch are written after its commit */
    fedserver_batch_log batch_log;
    const fedserver_store *store;
    void *db;
    fedserver_setup setup;
    bool serving; /* the lock is held and the cache is filled */
    bool broken;
    fed_pem ca_key, ca_cert, ca_bundle; /* read when first asked for: auth_open */
    uint64_t authority; /* fedserver_ca_id of the CA that issues; 0: not known. Not in GATE */
    struct fedserver_relay *relay; /* between front and rounds; NULL: one process does both */
    uint16_t front_port, devices_port;
    uint64_t epoch;
    bool queue_changed;    /* a task may be waiting to start */
    bool tasks_changed;    /* by another process: look before the next batch */
    bool shrinks;          /* the store may have space to give back */
    uint64_t update_limit; /* that of the task before the one in memory: its updates may come yet */
    bool asked;            /* in this batch: somebody waits for its answer */
    bool wake_due;         /* places are free: the epoch is to move, */
    int64_t woken_ms;      /* but not too soon after this */
    uint64_t active;       /* devices seen lately, counted at */
    int64_t active_ms;
    uint64_t refusals;  /* that the audit log has not said yet, */
    int64_t refusal_ms; /* and when it said some last */
    int64_t saved_ms;   /* when the devices were last looked through for what is to be saved; */
    size_t save_next;   /* where that goes on; 0: nowhere, it is done */
    fedserver_devices devices;
    fedserver_training training;
    fedserver_counters counters;
    fedserver_wire_totals wire;
};

/** fedserver_open with a store of one's own instead of the directory's, whose rows it uses: how the
 * tests inject faults. NULL: the directory's. */
fed_status fedserver_open_store(const char *directory, const fedserver_store *store,
                                const fed_log *log, fedserver **server, fed_error *err) FED_CHECKED;

/** A device for people: the first digits of its fingerprint and, where it has one, its name; "?"
 * for one that is not known. */
enum { FEDSERVER_DEVICE_SAID = FEDSERVER_NAME + 32 };
void fedserver_device_say(const fedserver *server, int64_t device,
                          char said[FEDSERVER_DEVICE_SAID]);

/** Fill in server->devices from the store. */
fed_status fedserver_devices_load(fedserver *server, fed_error *err) FED_CHECKED;

/** Take over what other processes have written: new devices, revocations, tasks. */
fed_status fedserver_notice_others(fedserver *server, fed_error *err) FED_CHECKED;

/** What enrolment works on. Reads the CA's key: never called in a process without the front. */
fed_status fedserver_auth_open(fedserver *server, fedserver_auth *auth, fed_error *err) FED_CHECKED;

/** A new random token as text. */
fed_status fedserver_token_make(char token[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;

/** Commit what a command has written, or forget it where it failed. */
fed_status fedserver_finish(fedserver *server, fed_status status, fed_error *err) FED_CHECKED;

/** DIRECTORY/name, cut where too long for cap. */
void fedserver_path(const char *directory, const char *name, char *dst, size_t cap);

/* certificates.c */

/** Which of the bundle's certificates (ca.pem) is the key's (ca.key)? FED_EINVAL: none. */
fed_status fedserver_ca_pick(const fed_pem *bundle, const fed_pem *key, fed_pem *cert,
                             fed_error *err) FED_CHECKED;

/** A name for the first CA of that text, which its certificates bear, too: the first 8 bytes of its
 * key's id. 0: it has none. */
uint64_t fedserver_ca_id(const char *pem);

/** That of the directory's ca.pem. 0: it can't be read. */
uint64_t fedserver_ca_id_at(const char *directory);

/* training.c */

/** A stored update taken apart. FED_EFORMAT: it is damaged, or of a round that does not count in
 * the open one. */
fed_status fedserver_training_read(const fedserver_training *t, const fedserver_update_row *row,
                                   const uint8_t *body, size_t len, fedserver_update *update,
                                   fed_error *err) FED_CHECKED;

/** Fill in server->training from the store: devices must be loaded. */
fed_status fedserver_training_load(fedserver *server, fed_error *err) FED_CHECKED;
void fedserver_training_free(fedserver_training *training);

/** Run a queued task, from its start or where it was set aside. Another process may have taken it
 * out of the queue: then nothing runs. */
fed_status fedserver_training_start(fedserver *server, const fedserver_task *task, int64_t now_ms,
                                    fed_error *err) FED_CHECKED;

/** Deadlines and goals: commit or reopen the round where it is time. */
fed_status fedserver_training_advance(fedserver *server, int64_t now_ms,
                                      fed_error *err) FED_CHECKED;

/** Store and fold an update that has been checked, after fedserver_round_step said so. digest: of
 * body. */
fed_status fedserver_training_count(fedserver *server, fedserver_device *device,
                                    const fedserver_update *update, const uint8_t *body,
                                    uint64_t digest, int64_t now_ms, fed_error *err) FED_CHECKED;

/** Which devices have declined the task in memory, from the store. */
fed_status fedserver_declines_load(fedserver *server, fed_error *err) FED_CHECKED;

/** The open round of the task in server->training, from the store: devices must be loaded. */
fed_status fedserver_round_load(fedserver *server, fed_error *err) FED_CHECKED;

/** Mark the devices that have declined the task in server->training: devices must be loaded. */
fed_status fedserver_declines_load(fedserver *server, fed_error *err) FED_CHECKED;

/** Write the open round down as it is now. */
fed_status fedserver_round_save(fedserver *server, fed_error *err) FED_CHECKED;

/* audit_log.c */

/** Write a line to the audit log, and to the log: "enrolled device=1f2e3d4c...", at that level. It
 * is committed with what it is about. */
fed_status fedserver_audit(fedserver *server, fed_log_level level, int64_t now_ms,
                           const char *event, fed_error *err, const char *format, ...)
    FED_PRINTF(6, 7) FED_CHECKED;

/** Somebody was refused for that reason. Of many in a short time it says one in ten seconds, with
 * their number: strangers can't fill the disk. */
fed_status fedserver_audit_refusal(fedserver *server, int64_t now_ms, const char *reason,
                                   fed_error *err) FED_CHECKED;

/* device_list.c */

/** A request has come from that device, or from none: NULL. */
void fedserver_device_seen(fedserver_device *device, const fedserver_request *request,
                           int64_t now_ms);

/** Write a device's row. */
fed_status fedserver_device_save(fedserver *server, fedserver_device *device,
                                 fed_error *err) FED_CHECKED;

/** Once a minute, write the rows of those devices of which only "last seen" and the counts have
 * changed, some hundreds in a batch: these may be a minute old after a crash. */
fed_status fedserver_devices_save(fedserver *server, int64_t now_ms, fed_error *err) FED_CHECKED;

/** Take a name that a device gave itself: cut to what there is room for, and cleaned. */
void fedserver_device_call(fedserver_device *device, const char *name);

/** A name that an operator gives: FED_EINVAL where it is too long or not printable. */
fed_status fedserver_name_check(const char *name, char clean[FEDSERVER_NAME],
                                fed_error *err) FED_CHECKED;

/** One word for what a device does: revoked, expired, cloned, training, declined, late (its lease
 * ended without an update), waiting (seen lately), away. */
const char *fedserver_device_state(const fedserver_training *training,
                                   const fedserver_device *device, int64_t now_ms);
#define FEDSERVER_CLONED_MS (INT64_C(24) * 3600 * 1000) /* so long after two copies were seen */

/* queue.c: which task runs */

/** A person may have cancelled or paused the task that runs: then let go of it. */
fed_status fedserver_queue_follow(fedserver *server, fed_error *err) FED_CHECKED;

/** Set a task aside that nobody serves, start the next one, give space back. *next_ms comes nearer
 * where it is to be called again before. */
fed_status fedserver_queue_advance(fedserver *server, int64_t now_ms, int64_t *next_ms,
                                   fed_error *err) FED_CHECKED;

/** Give back all the space that a cancelled task has left, at once: nobody serves meanwhile. */
fed_status fedserver_queue_tidy(fedserver *server, fed_error *err) FED_CHECKED;

/** Was that task cancelled? Where the store can't tell: no. */
bool fedserver_task_cancelled(fedserver *server, uint64_t id);

/* leases.c */

/** A device checks in: *action says what to answer. For LEASE it has its new lease already; for
 * WAIT_TURN it may ask again at *turn_ms. */
fed_status fedserver_leases_checkin(fedserver *server, fedserver_device *device, int64_t now_ms,
                                    fedserver_round_action *action, int64_t *turn_ms,
                                    fed_error *err) FED_CHECKED;

/** A device can't serve the task in memory: store its reason, and end its lease if that stands.
 * Without a reason it only gives its place back, and may be asked again. */
fed_status fedserver_leases_decline(fedserver *server, fedserver_device *device, const char *reason,
                                    int64_t now_ms, fed_error *err) FED_CHECKED;

/** Has it said so? A decline stands for FEDSERVER_DECLINE_MS. */
bool fedserver_declined(const fedserver_training *training, const fedserver_device *device,
                        int64_t now_ms);
#define FEDSERVER_DECLINE_MS (INT64_C(24) * 3600 * 1000)

/** What an update is to the round: the event that fedserver_round_step wants. digest: of the whole
 * message. */
fedserver_round_event fedserver_leases_update_event(const fedserver_training *training,
                                                    const fedserver_device *device,
                                                    const fed_update *head, uint64_t digest,
                                                    int64_t now_ms);

/** Another copy of the device's state has reported: say so in the log and in its row. */
fed_status fedserver_device_cloned(fedserver *server, fedserver_device *device, int64_t now_ms,
                                   fed_error *err) FED_CHECKED;

/** Would an update with the device's lease count? */
bool fedserver_lease_stands(const fedserver_training *training, const fedserver_device *device,
                            int64_t now_ms);

/** When the lease that stands ends, Unix milliseconds. */
int64_t fedserver_lease_deadline(const fedserver_training *training,
                                 const fedserver_device *device);

/** Take places back from leases that no longer stand, where it is time to look. */
void fedserver_leases_advance(fedserver *server, int64_t now_ms);

/** After a restart: how many places are taken. */
uint32_t fedserver_leases_count(const fedserver *server, const fedserver_training *training);

/** A round or an attempt has opened: draw who may have its places, and wake who waits. */
void fedserver_places_open(fedserver *server, int64_t now_ms);

/** A place is free again: likewise, but many of these become one awakening. */
void fedserver_places_freed(fedserver *server, int64_t now_ms);

/** Move the epoch if it is due. Returns when it will be, or INT64_MAX. */
int64_t fedserver_places_wake(fedserver *server, int64_t now_ms);

/** Has it checked in to train within the last 20 minutes, and may it still? */
bool fedserver_seen_lately(const fedserver_device *device, int64_t now_ms);

/** How many devices checked in lately. */
uint64_t fedserver_devices_active(fedserver *server, int64_t now_ms);

#endif
