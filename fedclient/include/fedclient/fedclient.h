/* The client library: a device embeds it to take part in training. Its data stays on the device. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_FEDCLIENT_H
#define FEDCLIENT_FEDCLIENT_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/error.h"
#include "fed/log.h"
#include "fed/point.h"
#include "fed/rng.h"
#include "fed/wire.h"
#include "fed/worker_group.h"
#include "fedclient/platform.h"
#include "fedclient/transport.h"

FED_API_BEGIN

/*
 * Open a client on a platform (where the client keeps its state) and a transport (how the client
 * reaches the coordinator). Give it a token to enrol with, then let it run:
 *
 *     fedclient_open(&options, &client, &err);
 *     fedclient_token_give(client, token, &err);
 *     fedclient_run(client, NULL, &err);
 *
 * A program with a loop of its own calls fedclient_step instead, and sleeps for event.wait_ms.
 *
 * All state that must survive is in the platform's store (docs/durability.md). A client that is
 * killed at any instant and opened again continues where it was. Between steps the library holds no
 * memory as large as the model.
 */
typedef struct fedclient fedclient;

/** The value of fedclient_round.loss before the callback sets it: the callback has no loss. */
#define FEDCLIENT_NO_LOSS (-FLT_MAX)

/** The value of fedclient_round.correct before the callback sets it: the callback counts none. */
#define FEDCLIENT_NO_CORRECT FED_NO_CORRECT

/** The input and output of a training callback. */
typedef struct fedclient_round {
    const fed_task *task; /* settings: steps, batch, optimizer, learning rate, seed */
    /* The model, parsed. arch->text is its text; task->model may only name it
     * (fed/layout_reference.h). */
    const fed_arch *arch;
    uint32_t round;   /* 0 in an evaluation; asynchronous rounds may repeat a number */
    uint32_t version; /* the model's version */
    /* The task's slot, 0 to fedclient_options.slots - 1. A program that keeps something of its own
     * for a task, such as an optimizer's state, needs one place for each slot. A slot may get
     * another task: note the task's number, too. */
    unsigned slot;
    /* The number of this training; 0 in an evaluation. The library repeats a number until the
     * training is stored, and then uses a larger one. So a callback that sees a larger number knows
     * that the training with the smaller number is stored. */
    uint64_t number;
    /* A training of the device's own copy, after a round and after the task's end (a task's
     * personal_steps): nothing of the result is sent. task->local_steps is then personal_steps, and
     * there is no deadline. Best is an optimizer that begins anew, and whose state is not kept; a
     * program that knows nothing of this flag trains as ever, as if that training were not stored.
     * FED_EDECLINED: this device makes no copy. A failure costs the copy only. With private layers
     * and without personal_steps, task->local_steps is 0: the copy is only to be measured, and the
     * library asks where the task has a holdout. */
    bool is_personal;
    /* The task has private layers (task->private_layers, fed/private_layers.h), and this device has
     * trained none of them yet: `values` has the task's initial values there. They are 0 in a model
     * without layers, where the program may put its own in their place. */
    bool own_is_new;
    /* Training only: this device's last training for this task is in no update that the coordinator
     * has counted. The library adds that training to the new update. */
    bool owes;
    /* float32[arch->layout.size]. In: the model. Out: the trained model. Private layers are this
     * device's own, and stay here. */
    float *values;
    /* Out, training only: values holds the change, trained model - model, instead of the trained
     * model. float32 holds a small change more exactly than the sum of model and change. */
    bool is_change;
    /* Out. Training: the number of samples in this device's data. Evaluation: the number tested. */
    uint32_t samples;
    /* Out: mean loss. A callback without a loss leaves FEDCLIENT_NO_LOSS here. The coordinator then
     * leaves this device out of the round's mean loss. A coordinator of an older release takes the
     * loss for 0. */
    float loss;
    /* Out, evaluation only: samples with the right class. A callback without an accuracy leaves
     * FEDCLIENT_NO_CORRECT here, so set it, and do not add to it. A coordinator of an older release
     * takes that for 0. */
    uint32_t correct;
    const struct fedclient_job *job; /* for the library only */
} fedclient_round;

/** Is the tensor number `tensor` of round->arch->layout in a private layer? */
bool fedclient_round_stays(const fedclient_round *round, size_t tensor);

/** Milliseconds until the coordinator refuses this round's update; 0 when the deadline has passed.
 * An evaluation has no deadline: UINT32_MAX. */
uint32_t fedclient_round_left_ms(const fedclient_round *round);

/**
 * Does the coordinator still want the result of this callback? Call this function after each
 * training iteration. It is cheap: it seldom calls may_train, and seldom asks the coordinator.
 * After its first failure it always fails. The callback should then end soon, in one of two ways:
 *
 * - FED_OK: what round->values holds by then goes with this device's next update.
 * - a failure, such as this function's: what the callback has trained is dropped.
 *
 * After FED_ECANCELED the training is dropped in both cases, and the device trains again later.
 *
 * Errors FED_ETIMEOUT   the deadline has passed
 *        FED_ESTATE     the coordinator no longer wants this device's result
 *        FED_EBUSY      may_train said "not now"
 *        FED_ECANCELED  may_train, stopped or the transport says that the program wants to end
 *        *err says why in a sentence
 */
fed_status fedclient_round_wanted(fedclient_round *round, fed_error *err) FED_CHECKED;

/** Tell the program's progress callback that `done` of `total` training iterations are done. */
void fedclient_round_progress(const fedclient_round *round, uint32_t done, uint32_t total);

/**
 * Report a metric of the program's own beside the loss: "f1", "energy_mj", "val/auc". Call this
 * function in the callback. The metric travels with the update or with the evaluation. The
 * coordinator shows a round's mean, least and greatest value of each name on its page and in its
 * files (docs/protocol.md#custom-metrics). A name that is set again gets the new value.
 *
 * name    1 to 31 letters, digits, '_', '-', '.' and '/'; at most 16 names a round
 * An older coordinator takes no metrics: then the metrics are dropped, and the round goes on.
 * Crash   a process that dies between callback and upload may send the update without its metrics
 * Errors  FED_EINVAL the name is not allowed, the value is not finite, or there are too many names;
 *                    *err says which. The round may go on without the metric
 */
fed_status fedclient_round_metric(const fedclient_round *round, const char *name, double value,
                                  fed_error *err) FED_CHECKED;

/**
 * For momentum masking: which of this device's values has the coordinator counted since the last
 * training? Call this function in a training callback, before training.
 *
 * visit is called once if an update was counted: sent[i] is the value as the coordinator decoded
 * it, 0 where nothing was sent. visit is not called if the update was refused, was another task's,
 * or does not exist yet. Nor is it called if the update left no residual, as one with float32.
 *
 * sent    float32[count], in the memory of round->values, which holds the model again when this
 *         function returns
 * Crash   after a crash visit is called again with the same values, until the training is durable
 * Errors  FED_EFORMAT the stored message is damaged; the platform's errors. End the callback then
 */
typedef void (*fedclient_sent_visit)(void *user, const float *sent, size_t count);
fed_status fedclient_round_sent(fedclient_round *round, fedclient_sent_visit visit, void *user,
                                fed_error *err) FED_CHECKED;

/**
 * For SCAFFOLD with a task's codec_variates: what has the coordinator not counted of this device's
 * changes? Call this function in a training callback, before training and once more after it
 * (fedtrain_optimizer_owed). Both calls give the same values.
 *
 * visit is called once if something is owed to the round's task, with owed float32[count], in the
 * order of round->values
 *
 * Crash   after a crash the values are the same, until the training is durable
 * Errors  FED_EFORMAT the stored message is damaged; the platform's errors. End the callback then
 */
typedef void (*fedclient_owed_visit)(void *user, const float *owed, size_t count);
fed_status fedclient_round_owed(fedclient_round *round, fedclient_owed_visit visit, void *user,
                                fed_error *err) FED_CHECKED;

/**
 * For a device that is a cluster: tell the coordinator, for its page, what the workers behind this
 * device do now. Call this function in a training callback, about once a second. It sends one
 * request, and waits for its answer. If the coordinator is too old for such a message, nothing is
 * sent. If it is too old only for the field computes_on, this function clears that field.
 *
 * group   task and round are filled in
 * Errors  FED_EINVAL a value that fed/worker_group.h does not allow; others: the request failed.
 *         No error of this function is a reason to end the training
 */
fed_status fedclient_round_worker_group(const fedclient_round *round, fed_worker_group *group,
                                        fed_error *err) FED_CHECKED;

typedef struct fedclient_options {
    /** The coordinator's address: "https://host:8443". Or several addresses of the same
     * coordinator, separated by commas, all with the same port for devices. Each device begins at
     * one of them. If nobody answers, or the answer is 5xx, the next try is at the next address. In
     * a step a silent address gets five seconds, and longer once all addresses were silent. */
    const char *server;
    fedclient_platform *platform;
    fedclient_transport *transport;
    const fed_log *log; /* NULL: no log */
    fed_role role;
    /** The coordinator may hold a check-in's answer this long; 0: not at all. With several
     * addresses, at most two seconds. */
    uint32_t hold_ms;
    /** The device's own floor for private tasks (fed/privacy.h). helper: the seal keys of the
     * helper that this device trusts, the present one and perhaps a spare one, from elsewhere than
     * the coordinator. They stay the caller's. NULL: it takes the key that the coordinator names,
     * which a lying coordinator may have made itself. With least_devices or helper, a task that is
     * not summed by a helper, or whose rounds may commit with fewer devices, is declined.
     * most_epsilon: a task that promises a larger epsilon, or none, is declined; 0: any task will
     * do. private_only: a device that trains for private tasks only; helper must be given, and
     * least_devices is 20 where it is 0. A task that is declined leaves a line of level WARN in the
     * log, and its reason is the step's *err. */
    const fed_points *helper;
    uint32_t least_devices;
    float most_epsilon;
    bool private_only;
    /** Enrol with this private key of P-256, for a program whose key is known elsewhere, as a
     * helper of private sums. It stays the caller's, until fedclient_close. A stored identity of
     * another key does not count: the client must enrol. NULL: the client makes a key. */
    const fed_pem *key;
    /** For simulators: fill dst[len] with the random bytes by which the values of a private update
     * are rounded, so that a run can be repeated to the bit. It has no part in seeds and keys,
     * which are always the system's random bytes. NULL: the system's. */
    fed_status (*rounding)(void *user, void *dst, size_t len);
    /** The training callback: train round->values in place, or (FED_ROLE_EVALUATE) measure them.
     * After a failure nothing is uploaded; *err is logged and handed to the caller of
     * fedclient_step. FED_EDECLINED: the task does not fit this device, and *err says why. The
     * library then tells the coordinator, which asks another device instead, and waits for another
     * task. FED_ENONFINITE, FED_ENOMEM, FED_EBUSY, or values or a loss that are not finite: a fault
     * that may pass. The library gives the task back, and tries again later. After several such
     * faults in a row the library declines the task, as for FED_EDECLINED. */
    fed_status (*train)(void *user, fedclient_round *round, fed_error *err);
    void *user;
    /** A large update travels in pieces of about this many bytes; a large model arrives in pieces
     * four times as large, which the store keeps until all are there. At most 1 MiB; 0: 1 MiB. */
    uint32_t piece_bytes;
    /** An update up to this size is first sent whole, for connections that seldom break. 0: up to
     * piece_bytes. */
    uint32_t whole_bytes;
    /** May this device take part now? Called at the beginning of each step, and during training
     * (fedclient_round_wanted). FED_OK: yes. FED_ECANCELED: no, the program wants to end, and
     * fedclient_step returns this status. Any other: not now, and *err says why, such as "it is not
     * charging". NULL: always. */
    fed_status (*may_train)(void *user, fed_error *err);
    /**
     * Optional: memory that holds round->values, for a program whose language may keep a reference
     * to it after the callback. Returns len bytes, aligned as malloc's, with any content; NULL
     * makes the step fail with FED_ENOMEM. The memory belongs to the program, which must keep it
     * until fedclient_step returns; the library never frees it. Called once before each call of
     * `train`. Not called with a platform that has memory of its own (fedclient/memory_store.h).
     */
    void *(*room)(void *user, size_t len);
    /** Shall the client end what it does? Asked at the beginning of each step, during training
     * (fedclient_round_wanted), and five times a second in the waits of fedclient_run; an app's
     * requests ask it, too (fedclient/app.h). true: the running call ends with FED_ECANCELED. A
     * later call goes on where it was, if this function then returns false. NULL: never. */
    bool (*stopped)(void *user);
    /** Called by fedclient_round_progress. NULL: not called. */
    void (*progress)(void *user, const fedclient_round *round, uint32_t done, uint32_t total);
    /** The device's name for the coordinator's operator, up to 63 bytes of UTF-8; sent at
     * enrolment. NULL: no name. */
    const char *name;
    /** Which program this is, such as "fedclientd/0.2.0": sent as User-Agent at enrolment, renewal
     * and check-in. NULL: nothing. */
    const char *software;
    /** The hardware that this device computes on, for the coordinator's operator: "opencl:0
     * pthread-Xeon", "cuda:0 NVIDIA H100". Sent at check-in. NULL or "": the processor. */
    const char *computes_on;
    /** The digest of the names of this device's classes in their order, such as
     * fedtrain_dataset.class_names. Sent at check-in. The coordinator keeps a task from a device
     * whose digest differs from that of the task's other devices. 0: the classes have no names. */
    uint64_t classes;
    /** For downloads that the coordinator has put into caches: a transport that was opened with
     * `for_caches`. Where a cache fails in any way, the coordinator is asked instead. NULL: all
     * downloads come from the coordinator. */
    fedclient_transport *downloads;
    /** For how many tasks this device keeps a model and a residual at the same time, from 1 to
     * FED_SLOTS; 0 is the same as 1. The store needs room for all of them; memory is needed for one
     * at a time. With one slot the device normally stays with its task until that ends. */
    unsigned slots;
    /** The most memory, in bytes, that the library may take for a task: three times the model's
     * values of 4 bytes, and what a layout takes (docs/client-memory.md). A task whose model needs
     * more is declined before its model is downloaded. 0: no limit; a model has up to 2^31 values,
     * so 26 GB. */
    uint64_t most_memory_bytes;
} fedclient_options;

/** Open a client and read its stored state; FED_EFORMAT: the state is damaged. The options are
 * copied; what they point to must outlive the client. Close the client with fedclient_close. */
fed_status fedclient_open(const fedclient_options *options, fedclient **client,
                          fed_error *err) FED_CHECKED;
/** Not within a callback of this client. */
void fedclient_close(fedclient *client);

/** Does the client have a certificate? */
int fedclient_enrolled(const fedclient *client);

/** A count of failures, 0 again after a success. Waits grow with this number. A program may store
 * the number and set it again after a restart, so that its waits stay long. */
uint32_t fedclient_failures(const fedclient *client);
void fedclient_set_failures(fedclient *client, uint32_t failures);
/** Draw from rng how long the library waits, in ms, after the n-th failure in a row (failures = n,
 * from 1): 200 ms to 60 s. told_ms is the wait in the answer to the last check-in. If told_ms is
 * longer than 60 s, the wait is up to told_ms. For simulators, which plan the waits of many
 * clients. */
uint32_t fedclient_backoff_draw(uint32_t failures, uint32_t told_ms, fed_rng *rng);

/**
 * Make a key that never leaves the device, and store it. Ask for a certificate with a one-time
 * token, and store the certificate. After a failure or a crash call this function again with the
 * same token; it continues where it was. An enrolled device becomes another one for the
 * coordinator, and keeps its models and residuals.
 *
 * Errors FED_EAUTH    the token is wrong, expired, or used by another device; *err has the
 *                     coordinator's own words
 *        FED_ENET     the coordinator can't be reached
 *        FED_ETIMEOUT, FED_EBUSY  try again a little later
 *        FED_ESTATE   a callback of this client called this function
 */
fed_status fedclient_enrol(fedclient *client, const char *token, fed_error *err) FED_CHECKED;

/**
 * Give the client a one-time token. A client that is not enrolled enrols with it at once, with the
 * errors of fedclient_enrol. A client that is enrolled keeps a copy. If the coordinator refuses
 * the device (its certificate has expired, it was revoked, it has another role), a step enrols it
 * anew with that token: with a new key, and with the models and residuals that it has.
 */
fed_status fedclient_token_give(fedclient *client, const char *token, fed_error *err) FED_CHECKED;
/**
 * fedclient_token_give for a device whose network or coordinator may not be up yet: while nobody
 * answers, or the coordinator is busy, try again after 0.5 s, then after twice as long each time,
 * up to a minute, or later if the coordinator asks for it. Before each wait there is a log line of
 * level WARN.
 *
 * tries   how often in all; 0: until options.stopped says to end. 8 tries take at least a minute
 * Errors  those of fedclient_token_give; FED_ECANCELED: the client was told to stop
 */
fed_status fedclient_token_give_in_time(fedclient *client, const char *token, unsigned tries,
                                        fed_error *err) FED_CHECKED;

/** The device's fingerprint: SHA-256 of its public key, in hex. It stays the same when the
 * certificate is renewed, which fedclient_step does by itself. "" before enrolment. */
const char *fedclient_device(const fedclient *client);

typedef enum fedclient_outcome {
    FEDCLIENT_WAITED = 0,    /* nothing to do yet (event.reason says why) */
    FEDCLIENT_COUNTED = 1,   /* the update was uploaded and counted */
    FEDCLIENT_REFUSED = 2,   /* the update was uploaded, not counted: it stays in the residual */
    FEDCLIENT_EVALUATED = 3, /* a model was measured, and the result reported */
    FEDCLIENT_FINISHED = 4,  /* the task is done; its final model is stored if it fits */
    FEDCLIENT_RETRY = 5,     /* network, coordinator or training failed, and *err says how */
    FEDCLIENT_DECLINED = 6,  /* the task does not fit this device; *err says why */
    FEDCLIENT_LATE = 7, /* the round ended during training; *err says how. Nothing was uploaded */
    /* may_train said "not now", or the device rests between two rounds, as it was promised (`apart`
     * of the task); *err says which. An assignment is given back */
    FEDCLIENT_PAUSED = 8
} fedclient_outcome;

typedef struct fedclient_event {
    fedclient_outcome outcome;
    fed_wait_reason reason;    /* for WAITED */
    uint32_t round, version;   /* of the event; round 0: none */
    uint32_t wait_ms;          /* call fedclient_step again after this time: a day at most. Without
                                * work, at least 100 */
    float loss;                /* for COUNTED, REFUSED, EVALUATED; NaN: the callback had none */
    uint32_t samples, correct; /* for EVALUATED; FEDCLIENT_NO_CORRECT: the callback had none */
    bool regression; /* for EVALUATED: the model predicts numbers (mse), and "correct" is unused */
    uint64_t task;   /* of the event; 0: none */
    /* FINISHED with one slot, or WAITED since all tasks are finished: a program that takes part
     * until the end can end now */
    bool over;
} fedclient_event;

/**
 * One step of the client: send the pending update, or check in and do what the coordinator asks
 * (download, train, upload). Blocks for as long as that takes.
 *
 * Returns FED_OK with *event filled in, also after a failure that may pass. *err then has the
 * reason of RETRY, DECLINED, LATE and PAUSED. After any error the residual is kept, and the next
 * step continues from the stored state.
 *
 * Errors, which need a person:
 *   FED_EAUTH      the certificate is unknown, revoked or expired, and no unused token was given.
 *                  An unattended device may call again after event->wait_ms, about 4 hours: the
 *                  operator may have admitted it
 *   FED_EFORMAT    the stored state is damaged, or the coordinator's answer can't be read
 *   FED_EVERSION   the coordinator speaks another protocol
 *   FED_EIO, FED_ENOSPC  from the platform
 *   FED_ECANCELED  may_train, stopped or the transport says that the program wants to end
 *   FED_ESTATE     the device is not enrolled; or a callback of this client called this function,
 *                  and the step that runs the callback is not disturbed
 *   or an error of the training callback
 */
fed_status fedclient_step(fedclient *client, fedclient_event *event, fed_error *err) FED_CHECKED;

/** When fedclient_run ends, and whom it tells what happened. */
typedef struct fedclient_run_options {
    /** End once event.over says that nothing is left to do: also in a device that comes after the
     * end, and in an evaluator. false: go on for ever. */
    bool until_finished;
    /** Called after each step. why: the reason of RETRY, DECLINED, LATE and PAUSED, else "". A
     * result of false ends the run. NULL: not called. */
    bool (*event)(void *user, const fedclient_event *event, const char *why);
    void *user;
} fedclient_run_options;

/**
 * Take part: call fedclient_step again and again, and wait in between as long as each event says.
 * Each event is logged in a line of level INFO. A wait for the same reason as the one before, and a
 * failure that the log has already, are lines of level DEBUG.
 *
 * options  read during the call; NULL: until_finished, and no callback
 *
 * Returns FED_OK   the end of until_finished has come, or the event callback returned false
 *         FED_ECANCELED  the client was told to stop; what is not sent yet is kept
 *         others   those of fedclient_step
 */
fed_status fedclient_run(fedclient *client, const fedclient_run_options *options,
                         fed_error *err) FED_CHECKED;

/**
 * Post body[len] to a path of the coordinator's devices' port, as this client's identity: for a
 * program whose role is not that of a device, such as a helper of private sums. It renews the
 * certificate first, when that is due.
 *
 * hold_ms  how long the coordinator may be silent before it answers
 * *status  200, 202, 204, or a 4xx that is the caller's to handle
 * word     char[32]: the error code of a 4xx
 * answer   the answer's body is appended
 *
 * Errors FED_ESTATE not enrolled; FED_ENET, FED_ETIMEOUT, FED_EBUSY try again a little later;
 * FED_EAUTH the coordinator refuses this identity, or its role; FED_ERANGE the answer is longer
 * than 1 GiB; FED_ECANCELED
 */
fed_status fedclient_post(fedclient *client, const char *path, const void *body, size_t len,
                          uint32_t hold_ms, int *status, char word[32], fed_writer *answer,
                          fed_error *err) FED_CHECKED;

/** The model of the task that the client worked on last, with its version, without private layers:
 * fedclient_personal has these. Free *values with free(). FED_ENOTFOUND: no model has been
 * downloaded yet. */
fed_status fedclient_model(fedclient *client, uint64_t *task, uint32_t *version, float **values,
                           size_t *count, fed_error *err) FED_CHECKED;

/** A personal model: the shared one with this device's own private layers, trained further on its
 * own data. */
typedef struct fedclient_personal_model {
    uint64_t task;
    uint32_t version;  /* of the shared model that it was made from */
    const char *model; /* the model's text (fed/arch.h), which says what the values are */
    float *values;     /* float32[count] */
    size_t count;
} fedclient_personal_model;

/**
 * The copy that was made last for a task with personal_steps or private_layers, for the slot that
 * the client worked on last.
 * It is owed to nobody, and stays until the slot's next copy: also after the task's end, and while
 * the slot has another task. A small build (fed/small.h) makes none.
 * Errors: FED_ENOTFOUND there is none yet; FED_EFORMAT the stored one is damaged; FED_ENOMEM.
 * Owner: fedclient_personal_free, which is safe on zeros; it frees the values and the text.
 */
fed_status fedclient_personal(fedclient *client, fedclient_personal_model *personal,
                              fed_error *err) FED_CHECKED;
void fedclient_personal_free(fedclient_personal_model *personal);

FED_API_END

#endif
