/* The C interface of the Python package: the codecs, splits of data and the client as functions of
 * plain numbers, texts and addresses. So Python need not know the layout of any C struct. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDPY_H
#define FEDPY_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

/** For the C side: copy the text of a failure into error[FEDPY_ERROR]. Returns the status. */
int fedpy_give(fed_status status, const fed_error *err, char *error);

FED_API_BEGIN

enum { FEDPY_ERROR = 400 }; /* bytes of an error's text, with its NUL */

/* Codecs. An int result is a fed_status; after a failure `error` has the text. */

/** The k-th codec's name; NULL past the last. */
const char *fedpy_codec_name(size_t k);

/**
 * Compress x[n] into an envelope of one tensor.
 *
 * residual  float32[n]: it is added to x, then set to what the message leaves out; NULL: what the
 *           message leaves out is lost
 * message   malloc'ed; the caller frees it with fedpy_free
 */
int fedpy_encode(const char *spec, const float *x, size_t n, float *residual, uint8_t **message,
                 size_t *len, char *error);

/** Set *n to the number of values of a message, over all its frames. */
int fedpy_count(const uint8_t *message, size_t len, size_t *n, char *error);

/** y += weight * the values of a message, float32[n]. y is untouched after a failure. */
int fedpy_add(const uint8_t *message, size_t len, float weight, float *y, size_t n, char *error);

/** Set y to the values of a message, float32[n]. y is untouched after a failure. */
int fedpy_decode(const uint8_t *message, size_t len, float *y, size_t n, char *error);

void fedpy_free(void *memory);

/* A task's optimizer. */

/** The numbers of fedpy_optimizer: members of fed_optimizer (fed/optimizer_spec.h), in its order. A
 * part that the spec leaves out has 0. */
enum {
    FEDPY_RULE, /* a fed_rule */
    FEDPY_LEARNING_RATE,
    FEDPY_MOMENTUM,
    FEDPY_NESTEROV,
    FEDPY_BETA1,
    FEDPY_BETA2,
    FEDPY_EPSILON,
    FEDPY_DECAY,
    FEDPY_WARMUP_STEPS,
    FEDPY_STEP_EVERY,
    FEDPY_STEP_FACTOR,
    FEDPY_COSINE_STEPS,
    FEDPY_COSINE_LOW,
    FEDPY_STALL_WINDOW,
    FEDPY_CLIP_VALUE,
    FEDPY_CLIP_NORM,
    FEDPY_PROX_MU,
    FEDPY_SCAFFOLD_SHARE,
    FEDPY_MASK,
    FEDPY_STATELESS,
    FEDPY_OPTIMIZER_NUMBERS
};

/** Parse an optimizer's spec into number[FEDPY_OPTIMIZER_NUMBERS], which is untouched after a
 * failure. learning_rate is used if the spec does not name lr. Returns a fed_status. */
int fedpy_optimizer(const char *spec, float learning_rate, double *number, char *error);

/* Samples of clients. */

/**
 * Split n samples among clients as the simulator does (fedtrain/split.h).
 *
 * spec    a split, such as "dirichlet:alpha=0.5"
 * label   uint8[n], each < kinds; NULL: the samples have no classes
 * group   uint32[n], each < kinds; NULL: the samples have no groups. Not both
 * index   uint32[n]: client k's samples are index[start[k]] to index[start[k + 1] - 1]
 * start   uint64[clients + 1]
 */
int fedpy_partition(const char *spec, const uint8_t *label, const uint32_t *group, size_t n,
                    uint32_t kinds, uint32_t clients, uint64_t seed, uint32_t *index,
                    uint64_t *start, char *error);

typedef struct fedpy_client fedpy_client;
typedef struct fedpy_round fedpy_round;

/** The callback behind fedclient_options.train. It returns 0, or a fed_status with the reason in
 * reason[FEDPY_ERROR]. */
typedef int (*fedpy_train)(void *user, fedpy_round *round, char *reason);
/** The callback behind fedclient_options.may_train. It returns 0, or a fed_status with the reason
 * in reason[FEDPY_ERROR]. */
typedef int (*fedpy_may_train)(void *user, char *reason);

/** The callback behind fedclient_options.room. It returns memory that Python owns, so that arrays
 * may outlive the training callback. */
typedef void *(*fedpy_room)(void *user, size_t len);

/** The callback behind fedclient_options.stopped. A result other than 0 ends the running call. */
typedef int (*fedpy_stopped)(void *user);

/** Receives the lines of the library's log, of all levels. level: a fed_log_level. */
typedef void (*fedpy_log)(void *user, int level, const char *line);

/** The program's functions. Each gets `user`. */
typedef struct fedpy_callbacks {
    fedpy_train train;
    fedpy_may_train may_train;
    fedpy_room room;
    fedpy_stopped stopped;
    fedpy_log log;
    void *user;
} fedpy_callbacks;

/** Which tasks a device accepts: members of fedclient_options. helper: the path of a file with a
 * helper's key, or NULL. */
typedef struct fedpy_floor {
    const char *helper;
    uint32_t least_devices;
    float most_epsilon;
    int private_only;
} fedpy_floor;

/** The version of the library, such as "0.2.0". */
const char *fedpy_version(void);

/** Open a client. server: "https://host:8443". ca: the path of the CA's file. state: the folder of
 * the client's state. name: for the operator, or NULL. slots: as fedclient_options.slots.
 * callbacks: copied. */
int fedpy_client_open(const char *server, const char *ca, const char *state, const char *name,
                      int evaluate, unsigned slots, const fedpy_floor *floor,
                      const fedpy_callbacks *callbacks, fedpy_client **client, char *error);
void fedpy_client_close(fedpy_client *client);

/** End the running call, and each later one. May be called from any thread. */
void fedpy_client_stop(fedpy_client *client);

int fedpy_client_token(fedpy_client *client, const char *token, char *error);

/** The numbers in an event of fedpy_client_step: members of fedclient_event. */
enum {
    FEDPY_OUTCOME,
    FEDPY_ROUND,
    FEDPY_VERSION,
    FEDPY_WAIT_MS,
    FEDPY_SAMPLES,
    FEDPY_OVER,
    FEDPY_EVENTS
};

/** Call fedclient_step. event[FEDPY_EVENTS] gets its numbers; `error` gets the reason of an
 * outcome, too. */
int fedpy_client_step(fedpy_client *client, uint32_t *event, float *loss, char *error);

/** Receives the event of a step of fedpy_client_run, as fedpy_client_step would return it. A result
 * of 0 ends the run. */
typedef int (*fedpy_event)(void *user, const uint32_t *event, float loss, const char *reason);

/** Call fedclient_app_run until the end. */
int fedpy_client_run(fedpy_client *client, fedpy_event told, char *error);

/* -- A round: only valid while its callback runs -- */

/** float32[*count]: the model, which the callback trains in place. */
float *fedpy_round_values(fedpy_round *round, size_t *count);
/** The number of the round; 0 in an evaluation. */
uint32_t fedpy_round_number(const fedpy_round *round);
uint32_t fedpy_round_version(const fedpy_round *round);
/** A text of the task. key: "model", "optimizer", "app"; NULL: there is no such text. */
const char *fedpy_round_text(const fedpy_round *round, const char *key);
/** A number of the task. key: "task" (its number), "slot", "local_steps", "batch", "learning_rate",
 * "seed", "personal" (1 or 0), "holdout", "own_is_new" (1 or 0); NaN: there is no such number. */
double fedpy_round_number_of(const fedpy_round *round, const char *key);
/** Describe the k-th tensor: its name, shape dims[8], and offset and size in the values. Returns
 * its rank; -1 past the last. */
int fedpy_round_tensor(const fedpy_round *round, size_t k, const char **name, uint32_t *dims,
                       size_t *offset, size_t *size);
/** 1: the k-th tensor is in a private layer; 0: it travels. */
int fedpy_round_stays(const fedpy_round *round, size_t k);
int fedpy_round_wanted(fedpy_round *round, char *error);
/** Milliseconds until the deadline; UINT32_MAX: there is none. */
uint32_t fedpy_round_left_ms(const fedpy_round *round);
int fedpy_round_metric(const fedpy_round *round, const char *name, double value, char *error);
/** loss NULL, correct FED_NO_CORRECT: the callback has none. */
void fedpy_round_result(fedpy_round *round, uint32_t samples, const float *loss, uint32_t correct);

FED_API_END

#endif
