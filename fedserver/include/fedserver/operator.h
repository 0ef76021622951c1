/* What people do with a coordinator: tasks, devices, tokens, backups, certificates. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OPERATOR_H
#define FEDSERVER_OPERATOR_H

#include "fed/api.h"
#include "fed/own_metrics.h"
#include "fedserver/fedserver.h"

FED_API_BEGIN

/*
 * To make a coordinator, give it a task, and let one device enrol:
 *
 *     const char *const hosts[] = {"fed.example.org", NULL};
 *     fedserver_init(directory, &(fedserver_init_options){.hosts = hosts}, &err);
 *     fedserver_open(directory, log, &server, &err);
 *     fedserver_task_add(server, now_ms, "task.json", &id, &err);
 *     fedserver_token_new(server, now_ms, 3600, token, &err);
 *     fedserver_close(server);
 *
 * The command line is made of these functions. Each commits by itself: never call one between
 * fedserver_begin and fedserver_commit. If another process serves the coordinator meanwhile, it
 * takes over the change before its next answer.
 *
 * Strings are UTF-8, times Unix milliseconds. A visit function is called once for each item. If it
 * fails, it is not called again, and the function that called it returns its status.
 */

/* -- Make a coordinator -- */

typedef struct fedserver_init_options {
    /* names and addresses in the server certificate, NULL at the end; NULL: localhost, 127.0.0.1,
     * ::1 */
    const char *const *hosts;
    const char *store; /* "NAME" or "NAME:WHERE"; NULL: the default, sqlite */
} fedserver_init_options;

/** Make directory with a CA, a server certificate and an empty store. FED_EEXIST: the directory
 * has a coordinator already. FED_ENOTFOUND: it has a CA's keys, but its store is gone; nothing is
 * changed. FED_EINVAL: there is no such store. */
fed_status fedserver_init(const char *directory, const fedserver_init_options *options,
                          fed_error *err) FED_CHECKED;

/**
 * Upgrade a coordinator's store from an older release to this release, so that fedserver_open can
 * open it. A program that serves calls it before fedserver_open. Changes nothing where the store is
 * of this release. The older release can't open an upgraded store: to go back, restore a backup.
 * Errors: FED_EBUSY a process serves the directory; else those of fedserver_open.
 */
fed_status fedserver_upgrade(const char *directory, fed_error *err) FED_CHECKED;

/** Check that a process serves the directory, and that it answers a request for which it must read
 * the store. Opens nothing but a socket, and waits for ten seconds at most. FED_EIO: nobody serves
 * the directory, or there is no answer. */
fed_status fedserver_health(const char *directory, fed_error *err) FED_CHECKED;

/* -- Tasks -- */

/**
 * Queue a training task that a JSON file describes (keys: docs/protocol.md#task). The task starts
 * once the tasks before it in the queue have started and there is memory for it beside the running
 * tasks. *id = its number. Errors: FED_EFORMAT, FED_EINVAL with file, line and key; FED_ERANGE:
 * the store can't hold its model, or it takes more than the memory for all tasks; FED_ENOSPC: the
 * disk can't hold its model.
 */
fed_status fedserver_task_add(fedserver *server, int64_t now_ms, const char *path, uint64_t *id,
                              fed_error *err) FED_CHECKED;

/** Check that text[len] would be a valid task. `path` is the file's name in errors; relative paths
 * in the text start in that file's folder. Errors as fedserver_task_add. */
fed_status fedserver_task_check(const char *path, const char *text, size_t len,
                                fed_error *err) FED_CHECKED;

/** What a task promises to its devices, and what of it is used up (docs/protocol.md#private-tasks).
 * promises false: nothing, and all else but the helper is 0. */
typedef struct fedserver_account {
    bool promises;
    bool complete; /* false: a backup's ledger, which does not know what happened since */
    double epsilon, delta;
    double spent; /* epsilon of the device that took part most often */
    double z;     /* sigma of a round's noise, in lengths of the longest update */
    double clip;
    uint32_t participations, apart;
    uint64_t left;      /* enrolled devices that may take part once more */
    double ratio;       /* how much louder the noise of all rounds is than the clip; 0.5 is much */
    double goal;        /* the goal with which ratio would be 0.5 */
    char helper[17];    /* the first digits of the seal key of the task's helper; "": it has none */
    char helper_is[64]; /* the party that runs the helper, or "ours"; "": nobody has said */
} fedserver_account;

/** Find the account of task `id`. FED_ENOTFOUND: there is no such task. */
fed_status fedserver_account_find(fedserver *server, uint64_t id, fedserver_account *account,
                                  fed_error *err) FED_CHECKED;

/** The epsilon that `taken` participations of a device cost. */
double fedserver_account_spent(const fedserver_account *account, uint32_t taken);

/** A device that took part in a task that promises an epsilon. */
typedef struct fedserver_participant {
    char fingerprint[17]; /* the first digits of the device's fingerprint */
    char name[64];
    uint32_t taken;      /* rounds that it is charged for */
    uint32_t last_round; /* the last of them; 0: not known */
    double spent;        /* epsilon */
} fedserver_participant;

typedef fed_status (*fedserver_participant_visit)(void *user,
                                                  const fedserver_participant *participant,
                                                  fed_error *err);

/** Visit the ledger of task `id`. FED_ENOTFOUND: there is no such task. FED_EINVAL: it promises
 * nothing, so it has no ledger. */
fed_status fedserver_participant_each(fedserver *server, uint64_t id,
                                      fedserver_participant_visit visit, void *user,
                                      fed_error *err) FED_CHECKED;

/**
 * Charge `rounds` participations of task `id` to every device: after a restore, for the rounds that
 * the backup does not know. The ledger is complete then. *updates: how many updates of the open
 * round are dropped, since their devices have no participation left. Errors as
 * fedserver_participant_each; FED_ESTATE: a process runs the task; pause it first.
 */
fed_status fedserver_ledger_lost(fedserver *server, int64_t now_ms, uint64_t id, uint32_t rounds,
                                 uint64_t *updates, fed_error *err) FED_CHECKED;

typedef enum fedserver_task_state {
    FEDSERVER_TASK_QUEUED = 0,
    FEDSERVER_TASK_RUNNING = 1,
    FEDSERVER_TASK_FINISHED = 2,
    FEDSERVER_TASK_PAUSED = 3,
    FEDSERVER_TASK_CANCELLED = 4
} fedserver_task_state;

/** The state's name: "queued", "running", "finished", "paused" or "cancelled". */
const char *fedserver_task_state_name(fedserver_task_state state);

enum {
    FEDSERVER_TASK_NAME = 64,
    FEDSERVER_TASK_REASONS = 4,
    FEDSERVER_REASON = 256,
    FEDSERVER_TASK_WAITS = 320,
    FEDSERVER_TASK_CODEC = 64
};

typedef struct fedserver_task_entry {
    uint64_t id;
    char name[FEDSERVER_TASK_NAME];
    fedserver_task_state state;
    uint32_t position;                          /* place in the queue, from 1; 0: none */
    uint32_t rounds, version;                   /* rounds to run; rounds that are committed */
    int64_t queued_ms, started_ms, finished_ms; /* 0: not yet; a cancel sets finished_ms, too */
    uint32_t priority; /* which task comes first where a device could serve several */
    /* of the round that is open or comes next: the codec of updates, and auto:bytes=N if the
     * coordinator chose the codec for it, else "" */
    char codec_up[FEDSERVER_TASK_CODEC], codec_up_asked[FEDSERVER_TASK_CODEC];
    /* why the task is queued, paused or finished early, what to do; "": none of it, or unknown */
    char waits[FEDSERVER_TASK_WAITS];
    uint32_t declined; /* devices that declined the task in the last 24 hours */
    /* when the first of these devices declined the task, 0: none did; and when the coordinator asks
     * that device again, 0: none did, or the task is over */
    int64_t declined_ms, declined_until_ms;
    struct {
        char text[FEDSERVER_REASON]; /* printable UTF-8 */
        uint32_t devices;
    } reasons[FEDSERVER_TASK_REASONS]; /* the most frequent ones; `devices` is 0 after the last */
} fedserver_task_entry;

typedef fed_status (*fedserver_task_visit)(void *user, const fedserver_task_entry *entry,
                                           fed_error *err);

/** Visit all tasks: the running ones, the queue, the paused ones, then the ended ones, newest
 * first. */
fed_status fedserver_task_each(fedserver *server, int64_t now_ms, fedserver_task_visit visit,
                               void *user, fed_error *err) FED_CHECKED;

/** Append the list of tasks to w as JSON, as in /v1/status (docs/protocol.md). */
fed_status fedserver_tasks_json(fedserver *server, int64_t now_ms, fed_writer *w,
                                fed_error *err) FED_CHECKED;

/** An action on a task. */
typedef enum fedserver_task_deed {
    /** End the task. Its model, deltas and updates are deleted; its rounds stay in the history.
     * Devices that train for it are told, and keep their unsent training in their residual. */
    FEDSERVER_CANCEL = 0,
    /** Pause the task: give no device a slot in it. Its open round keeps the acknowledged updates.
     * Queued tasks that fit into the memory that is now free start. */
    FEDSERVER_PAUSE = 1,
    /** Queue a paused task again, as the first. Devices that declined it are asked again. */
    FEDSERVER_RESUME = 2
} fedserver_task_deed;

/** Change a task's state. Errors: FED_ENOTFOUND there is no such task; FED_ESTATE its state does
 * not allow the change. */
fed_status fedserver_task_change(fedserver *server, int64_t now_ms, uint64_t id,
                                 fedserver_task_deed deed, fed_error *err) FED_CHECKED;

typedef struct fedserver_reopening_options {
    const char *helper; /* the keys of another helper, as fed_points_read; NULL: the same one */
    bool spare; /* without `helper`: the spare key that the task names is the helper's now */
    bool force; /* even if the round has updates, which are lost */
} fedserver_reopening_options;

typedef struct fedserver_reopened {
    uint32_t round;   /* the open round; 0: the task did not start yet */
    uint32_t updates; /* its updates, which are lost */
} fedserver_reopened;

/**
 * Void the open round of a private task, which its helper can't open any more, as when its disk is
 * lost. The task gets another generation (docs/protocol.md#a-helper), and its devices new terms.
 * The process that runs the task drops the round's updates and opens its next attempt. *lost is set
 * with FED_EBUSY, too. Errors as fedserver_task_change; FED_EINVAL: the task has no helper, or no
 * spare key, or options->helper is no key; FED_ESTATE: it is over, or the helper has opened the
 * round; FED_EBUSY: updates would be lost, and `force` is false. Nothing is changed then.
 */
fed_status fedserver_task_reopen(fedserver *server, int64_t now_ms, uint64_t id,
                                 const fedserver_reopening_options *options,
                                 fedserver_reopened *lost, fed_error *err) FED_CHECKED;

/** Move a queued task to a position in the queue, from 1; a position beyond the end is the end.
 * Errors as fedserver_task_change. */
fed_status fedserver_task_move(fedserver *server, int64_t now_ms, uint64_t id, uint32_t position,
                               fed_error *err) FED_CHECKED;

/** Set the priority of a task that is not over: where a device could serve several tasks, the
 * larger one comes first. Errors as fedserver_task_change; FED_EINVAL: not from 1 to 9. */
fed_status fedserver_task_prioritize(fedserver *server, int64_t now_ms, uint64_t id,
                                     uint32_t priority, fed_error *err) FED_CHECKED;

/** Estimates of what a task needs while it runs. */
typedef struct fedserver_needs {
    uint64_t values;       /* number of values of the task's model, without private layers */
    uint64_t own_values;   /* values of its private layers, which stay on each device */
    uint64_t row_bytes;    /* bytes of the model's row in the store, with the strategy's state */
    uint64_t model_bytes;  /* bytes of disk for the model, its versions and deltas, and a journal */
    uint64_t update_bytes; /* bytes of disk for the updates of a round, at most */
    uint64_t memory_bytes; /* bytes of memory of the process that serves */
    uint64_t disk_free_bytes; /* free bytes on the disk of the directory; 0: unknown */
    uint64_t machine_bytes;   /* memory of this machine; 0: unknown */
    uint32_t devices;         /* the fewest devices with which rounds can end */
    uint32_t apart;           /* in so many rounds in a row a device takes part once at most */
    /* enrolled devices that may train for the task, when it was queued; at most `devices` */
    uint32_t able;
} fedserver_needs;

fed_status fedserver_task_needs(fedserver *server, uint64_t id, fedserver_needs *needs,
                                fed_error *err) FED_CHECKED;

/** Does the task need more than a gigabyte of disk or memory, more than half of the free disk, or
 * more than half of the machine's memory? Then a person should be told. */
bool fedserver_needs_much(const fedserver_needs *needs);

/** Write the estimate as a sentence, cut if it is longer than cap. */
void fedserver_needs_report(const fedserver_needs *needs, char *dst, size_t cap);

/* -- Status, rounds and models -- */

/**
 * Write the text that `fedserver status` prints: each running task, what its round waits for, and
 * which process serves. Lines that do not fit into cap are cut. Never call it in the process that
 * serves: the process would lose its lock.
 */
fed_status fedserver_status(fedserver *server, int64_t now_ms, char *text, size_t cap,
                            fed_error *err) FED_CHECKED;

/** Write what fedserver_status tells as JSON: {"now_ms", "served_by": the serving process or null,
 * "round" and "tasks" as in /v1/status}. Appends to w. */
fed_status fedserver_status_json(fedserver *server, int64_t now_ms, fed_writer *w,
                                 fed_error *err) FED_CHECKED;

/* The functions below that have an argument `task` accept 0. 0 stands for the first running task of
 * the list (fedserver_task_each) or, if no task runs, the task that finished last. */

/** A committed round. */
typedef struct fedserver_round_entry {
    uint32_t number, attempts;
    int64_t opened_ms, committed_ms;
    uint32_t updates;
    uint64_t samples;
    /* loss in the training on the devices: mean over the samples of those that told one; NaN: none
     * did */
    double loss;
    uint64_t update_bytes, delta_bytes;
    bool measured; /* by evaluators; if not, accuracy and test_loss are 0 */
    /* NaN: no evaluator told it; accuracy is 0 or NaN for a model trained with mse */
    double accuracy, test_loss;
    double clip; /* of a task that promises an epsilon; else 0 */
} fedserver_round_entry;

typedef fed_status (*fedserver_round_entry_visit)(void *user, const fedserver_round_entry *entry,
                                                  fed_error *err);

/** Visit the committed rounds of a task, the newest first, at most `most` of them. May be called
 * between fedserver_begin and fedserver_commit: it shows what the batch has changed. */
fed_status fedserver_round_each(fedserver *server, uint64_t task, uint32_t most,
                                fedserver_round_entry_visit visit, void *user,
                                fed_error *err) FED_CHECKED;

/** A custom metric (fed/own_metrics.h), summed up over all devices that reported it. */
typedef struct fedserver_own_metric {
    char name[FED_OWN_NAME];
    /* updates or evaluators that report the metric; sum of their samples */
    uint64_t reports, samples;
    double mean;        /* weighted by samples */
    double least, most; /* smallest and largest reported value */
} fedserver_own_metric;

enum { FEDSERVER_OWN_NAMES = 64 }; /* the most names in a list */

/** The devices' custom metrics of one round. */
typedef struct fedserver_own_list {
    uint32_t round;
    bool evaluated; /* true: from evaluators of the round's model; false: sent with the updates */
    const fedserver_own_metric *rows; /* [count], in the order of their names */
    size_t count;
    uint64_t dropped; /* evaluators' values left out, beyond FEDSERVER_OWN_NAMES names */
} fedserver_own_list;

typedef fed_status (*fedserver_own_visit)(void *user, const fedserver_own_list *list,
                                          fed_error *err);

/** Visit the devices' custom metrics of a task, of its rounds from `first` on, the oldest first. Of
 * one round, the updates' list comes before the evaluators'. Round 0 has the evaluations of the
 * first model. A list that would be empty is not visited. May be called between fedserver_begin and
 * fedserver_commit. */
fed_status fedserver_own_each(fedserver *server, uint64_t task, uint32_t first,
                              fedserver_own_visit visit, void *user, fed_error *err) FED_CHECKED;

/** Write the newest model of a task as safetensors. The file's mode is 0600. path: a link's target
 * is replaced, and a pipe or a device is written. */
fed_status fedserver_model_export(fedserver *server, uint64_t task, const char *path,
                                  fed_error *err) FED_CHECKED;

/* -- Tokens: who may enrol -- */

/** The role of an enrolled device, which its token has given it. */
typedef enum fedserver_role {
    FEDSERVER_ROLE_DEVICE = 0,    /* trains */
    FEDSERVER_ROLE_EVALUATOR = 1, /* measures models */
    FEDSERVER_ROLE_OPERATOR = 2,  /* reads the status */
    FEDSERVER_ROLE_HELPER = 3     /* opens the sums of private tasks */
} fedserver_role;

/** "device", "evaluator", "operator", "helper"; NULL: there is no such role. */
const char *fedserver_role_name(fedserver_role role);

/* Sizes in bytes, with the NUL: of a tag; of a device's name, which is printable UTF-8; of the
 * name of its software; of what it computes on. */
enum { FEDSERVER_TAG = 32, FEDSERVER_NAME = 64, FEDSERVER_SOFTWARE = 48, FEDSERVER_COMPUTES = 80 };

/** The properties of a new enrolment token. */
typedef struct fedserver_grant {
    int64_t ttl_s; /* how long the token can be used */

    /* Properties of the device that enrols with the token: */
    fedserver_role role;
    const char *tag;  /* the group that tasks may ask for; NULL: none */
    const char *name; /* for people; NULL or "": the name that the device gives itself */

    /* NULL: a new random token. Else the token itself, which nobody can guess: a grant that is
     * repeated with it makes no other one. */
    const char *token;
} fedserver_grant;

/** Make an enrolment token, which works once. It has 43 URL-safe characters. The database keeps
 * only its SHA-256. FED_EINVAL: tag or name is too long, or the name is not printable. FED_ESTATE:
 * grant->token was granted with other properties, or is used or withdrawn. */
enum { FEDSERVER_TOKEN = 44 };
fed_status fedserver_token_grant(fedserver *server, int64_t now_ms, const fedserver_grant *grant,
                                 char token[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;

/** Make a token for a device that trains. */
fed_status fedserver_token_new(fedserver *server, int64_t now_ms, int64_t ttl_s,
                               char token[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;

/** A token's record. The token's characters are not in it: nothing keeps them. */
typedef struct fedserver_token_entry {
    char id[13]; /* the first digits of the token's SHA-256 */
    fedserver_role role;
    char tag[FEDSERVER_TAG], name[FEDSERVER_NAME];
    int64_t made_ms, expires_ms, used_ms, withdrawn_ms; /* 0: not yet, or unknown */
} fedserver_token_entry;

typedef fed_status (*fedserver_token_entry_visit)(void *user, const fedserver_token_entry *entry,
                                                  fed_error *err);

/** Visit all tokens that were ever made, the oldest first. */
fed_status fedserver_token_each(fedserver *server, fedserver_token_entry_visit visit, void *user,
                                fed_error *err) FED_CHECKED;

/** End a token: from now on no device can enrol with it. id: the first 8 or more digits of the
 * token's id. FED_EINVAL: id is too short. FED_ENOTFOUND: no token or several tokens begin with id,
 * or the token is used or withdrawn already. */
fed_status fedserver_token_withdraw(fedserver *server, int64_t now_ms, const char *id,
                                    fedserver_token_entry *entry, fed_error *err) FED_CHECKED;

/* -- Devices -- */

typedef struct fedserver_entry {
    char fingerprint[2 * FED_SHA256_SIZE + 1]; /* fingerprint of the device's key, hexadecimal */
    int64_t enrolled_ms, expires_ms;
    int64_t revoked_ms; /* 0: not revoked */
    int64_t cloned_ms;  /* when a second machine with the device's state last reported; 0: never */
    fedserver_role role;
    char tag[FEDSERVER_TAG];
    char name[FEDSERVER_NAME];         /* "": none */
    char software[FEDSERVER_SOFTWARE]; /* the software that the device names; "": it names none */
    char computes_on[FEDSERVER_COMPUTES]; /* such as "opencl:0 pthread-Xeon"; "": the processor */
    int64_t seen_ms;  /* when the last request came, exact to about a minute; 0: none yet */
    uint32_t samples; /* number of samples of the device's data set; 0: unknown */
    uint64_t counted, late, refused; /* numbers of updates, by outcome */
    int64_t declined_until_ms; /* when the device is asked again for a declined task; 0: none */
    const char *state;         /* a static string of one word, listed in docs/protocol.md#devices */
} fedserver_entry;

typedef fed_status (*fedserver_entry_visit)(void *user, const fedserver_entry *entry,
                                            fed_error *err);

/** Visit all devices, in the order of their enrolment. */
fed_status fedserver_device_each(fedserver *server, int64_t now_ms, fedserver_entry_visit visit,
                                 void *user, fed_error *err) FED_CHECKED;

/**
 * Shut a device out: its next request is refused, whatever its TLS session says. Updates that were
 * acknowledged stay counted. The device needs a new token to come back.
 *
 * prefix  the first 8 or more digits of its fingerprint, lower case
 * entry   the device
 * Errors  FED_EINVAL the prefix is too short; FED_ENOTFOUND no device has it, or several
 */
fed_status fedserver_device_revoke(fedserver *server, int64_t now_ms, const char *prefix,
                                   fedserver_entry *entry, fed_error *err) FED_CHECKED;

/** Give a device another name for people; "": none. prefix, entry and errors are as in
 * fedserver_device_revoke. FED_EINVAL also means that the name is not valid. */
fed_status fedserver_device_rename(fedserver *server, int64_t now_ms, const char *prefix,
                                   const char *name, fedserver_entry *entry,
                                   fed_error *err) FED_CHECKED;

/* -- Passes: who may read the page -- */

typedef enum fedserver_pass_kind {
    FEDSERVER_PASS_NONE = 0,
    FEDSERVER_PASS_LINK = 1,    /* a link that logs one browser in, once */
    FEDSERVER_PASS_SESSION = 2, /* a browser's cookie, made from a link */
    FEDSERVER_PASS_READER = 3   /* a program's bearer token */
} fedserver_pass_kind;

enum { FEDSERVER_LINK_S = 10 * 60, FEDSERVER_SESSION_S = 12 * 3600 };

/** Make a pass of the kind FEDSERVER_PASS_LINK (its page is /login#TOKEN) or
 * FEDSERVER_PASS_READER. The database keeps only the SHA-256 of the token, and forgets passes that
 * have expired. */
fed_status fedserver_pass_grant(fedserver *server, int64_t now_ms, fedserver_pass_kind kind,
                                int64_t ttl_s, char token[FEDSERVER_TOKEN],
                                fed_error *err) FED_CHECKED;

/** The port of the front that has served the coordinator's directory last, for links to the page;
 * 0: not known. */
uint16_t fedserver_front_port(const fedserver *server);

/** End all links, sessions and bearer tokens at once. */
fed_status fedserver_pass_revoke_all(fedserver *server, int64_t now_ms, fed_error *err) FED_CHECKED;

/* -- Audit log -- */

typedef struct fedserver_audit_entry {
    int64_t at_ms;
    char event[32];   /* one word: "enrolled" */
    char detail[480]; /* key=value words, values with blanks in quotes */
} fedserver_audit_entry;

typedef fed_status (*fedserver_audit_visit)(void *user, const fedserver_audit_entry *entry,
                                            fed_error *err);

/** Name the person for whom this process acts, such as "uid=1000": `by` ends the detail of each
 * entry that the process makes. It has at most 127 bytes. */
void fedserver_act_for(fedserver *server, const char *by);

/** Visit all entries since since_ms, the oldest first. */
fed_status fedserver_audit_each(fedserver *server, int64_t since_ms, fedserver_audit_visit visit,
                                void *user, fed_error *err) FED_CHECKED;

/* -- Backup and check -- */

/**
 * Copy a coordinator, its store as of one instant, into a new directory; another process may serve
 * the coordinator meanwhile. After a crash the copy is complete and on the disk, or not there. The
 * copy holds the CA's key: keep it safe. Errors: FED_EINVAL the store makes no copies; FED_EEXIST
 * directory holds a coordinator already; FED_EFORMAT an update is damaged; FED_ENOSPC, FED_EIO.
 */
fed_status fedserver_backup(fedserver *server, const char *directory, fed_error *err) FED_CHECKED;

/** Make a coordinator in directory from a backup, which may be of an older release and stays as it
 * is. Errors as fedserver_backup and fedserver_open. */
fed_status fedserver_restore(const char *backup, const char *directory, fed_error *err) FED_CHECKED;

/** Tell a coordinator that its store was restored by other means, as a database's own. Its private
 * tasks get another generation (docs/protocol.md#a-helper), and its ledgers are marked as a copy's:
 * as fedserver_restore does. FED_EBUSY: a process serves it. */
fed_status fedserver_restored(fedserver *server, int64_t now_ms, fed_error *err) FED_CHECKED;

/** The kind of a line of fedserver_check's report. */
typedef enum fedserver_check_kind {
    FEDSERVER_CHECKED = 0, /* what was checked, and how many */
    FEDSERVER_NOTED = 1,   /* what the next start removes, or what a person should see */
    FEDSERVER_FOUND = 2    /* a rule is broken; the text says where, and what to do */
} fedserver_check_kind;

/** Gets one line of the report. text: one sentence, which begins with the rules of
 * docs/durability.md that it is about, such as "S7: ". */
typedef void (*fedserver_check_report)(void *user, fedserver_check_kind kind, const char *text);

/** Check that everything that is stored keeps the rules of docs/durability.md. Changes nothing.
 * *findings = the number of problems found. Close the server afterwards. Errors: FED_EBUSY another
 * process serves the coordinator (check a backup instead); or the error that stopped the check. */
fed_status fedserver_check(fedserver *server, fedserver_check_report report, void *user,
                           size_t *findings, fed_error *err) FED_CHECKED;

/* -- The coordinator's own certificate: server.pem -- */

enum { FEDSERVER_CERTIFICATE_HOSTS = 64, FEDSERVER_HOST = 256 };

typedef struct fedserver_certificate {
    int64_t expires_s; /* Unix time */
    size_t host_count;
    char hosts[FEDSERVER_CERTIFICATE_HOSTS][FEDSERVER_HOST]; /* host names and IP addresses */
} fedserver_certificate;

/** Read server.pem in the directory. Errors: FED_ENOTFOUND, FED_EIO, FED_EFORMAT; FED_EINVAL too
 * many hosts for *certificate. */
fed_status fedserver_certificate_read(const char *directory, fedserver_certificate *certificate,
                                      fed_error *err) FED_CHECKED;

/** Whole days until server.pem expires; below 0: it has expired. INT32_MIN: it can't be read. */
int32_t fedserver_certificate_days(const char *directory, int64_t now_ms);

/**
 * Issue server.pem again for ten years: the same key, the same hosts and those of `more` (NULL at
 * the end), signed with ca.key. Devices that know the CA notice nothing. A coordinator that serves
 * reads the new server.pem at SIGHUP. Errors: as fedserver_certificate_read; FED_ENOTFOUND,
 * FED_EIO: a key can't be read; FED_EINVAL too many hosts.
 */
fed_status fedserver_certificate_renew(const char *directory, const char *const *more,
                                       int64_t now_ms, fed_error *err) FED_CHECKED;

/*
 * -- The CA --
 *
 * ca.pem has the CA's certificate. While the CA is being changed, ca.pem has the new CA's
 * certificate, then the old CA's. ca.key is the key of the CA that issues: the new one.
 */

/** Make a new CA beside the present one. The new CA issues from now on; server.pem stays as it is.
 * After a crash in this function the old CA may still issue: then call the function again.
 * FED_ESTATE: the last change is not finished. */
fed_status fedserver_ca_new(const char *directory, int64_t now_ms, fed_error *err) FED_CHECKED;

/** Remove the old CA from ca.pem, so that only the new one is trusted. FED_ESTATE: there is no old
 * CA, or the old CA has signed server.pem. */
fed_status fedserver_ca_drop_old(const char *directory, fed_error *err) FED_CHECKED;

/** The progress of a change of the CA. */
typedef struct fedserver_ca_change {
    bool open;          /* ca.pem has an old CA, too */
    bool unfinished;    /* a crash left a new CA without its key: call fedserver_ca_new again */
    bool server_is_old; /* the old CA has signed server.pem */
    uint64_t devices;   /* devices that may connect */
    uint64_t waiting;   /* those of `devices` that have not yet used a certificate of the new CA */
} fedserver_ca_change;

fed_status fedserver_ca_look(fedserver *server, int64_t now_ms, fedserver_ca_change *change,
                             fed_error *err) FED_CHECKED;

FED_API_END

#endif
