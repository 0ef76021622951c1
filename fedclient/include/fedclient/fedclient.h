/* The client library: a device embeds it to take part in training without giving its data away. */
#ifndef FEDCLIENT_FEDCLIENT_H
#define FEDCLIENT_FEDCLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/error.h"
#include "fed/log.h"
#include "fed/rng.h"
#include "fed/wire.h"
#include "fedclient/platform.h"
#include "fedclient/transport.h"

FED_API_BEGIN

/*
 * Open a client on a platform (where it keeps its state) and a transport (how it reaches the
 * coordinator), enrol it once with a token, then call fedclient_step for ever:
 *
 *     fedclient_open(&options, &client, &err);
 *     if (!fedclient_enrolled(client)) fedclient_enrol(client, token, &err);
 *     for (;;) { fedclient_step(client, &event, &err); sleep for event.wait_ms; }
 *
 * Everything that must survive is in the platform's store (docs/durability.md): a client that is
 * killed at any instant and opened again goes on where it was, and no gradient is lost. Between
 * steps the library holds no model-sized memory.
 */
typedef struct fedclient fedclient;

/** What a training callback is given and gives back. */
typedef struct fedclient_round {
    const fed_task *task; /* model, steps, batch, optimizer, learning rate, seed */
    const fed_arch *arch; /* the same model, parsed */
    uint32_t round;       /* or, in an evaluation, 0; asynchronous: may come again */
    uint32_t version;     /* of the model */
    float *values; /* float32[arch->layout.size]: in, the model; train leaves what it has become */
    uint32_t
        samples; /* out: how many samples this device's data holds (train), or tested (evaluate) */
    float loss;  /* out: mean loss */
    uint32_t correct;                  /* out: evaluate only */
    const struct fedclient_turn *turn; /* the library's own */
} fedclient_round;

/** Milliseconds until the coordinator refuses this round's update, 0 when it does by now. An
 * evaluation has no deadline: UINT32_MAX. */
uint32_t fedclient_round_left_ms(const fedclient_round *round);

/**
 * Is what the callback is doing still wanted? Call it after each step: it costs next to nothing,
 * asks may_train once a second at most, and the coordinator a few times in a round. Once it has
 * said no it says no again. The callback then ends soon, in one of two ways:
 *
 * - FED_OK, with round->values as far as they are trained: they go with this device's next update.
 * - a failure, such as this one: what it has trained is dropped.
 *
 * After FED_ECANCELED it is dropped in both cases: the device trains the same again later.
 *
 * Errors FED_ETIMEOUT the deadline has passed; FED_ESTATE the coordinator has given the place to
 * another device, or the round is over; FED_EBUSY may_train said "not now"; FED_ECANCELED may_train
 * or the transport was told to stop. *err says it in a sentence
 */
fed_status fedclient_round_wanted(fedclient_round *round, fed_error *err) FED_CHECKED;

/** Tell the program's progress callback that so many of all steps are done. */
void fedclient_round_progress(const fedclient_round *round, uint32_t done, uint32_t total);

/**
 * For momentum masking, in a training callback before it trains: what the coordinator has counted
 * of this device since its last training. visit is called once with it, sent[i] as the coordinator
 * decoded it, 0 where nothing was sent; or not at all, where nothing was counted since: the update
 * was refused, or there is none yet, or it was another task's. What a codec without feedback sent,
 * float32 for instance, is not told: it sends everything, so there is nothing to single out.
 *
 * sent    float32[count], in round->values, which hold the model again when this returns: it takes
 *         no memory
 * Crash   a device that dies tells it once more, before the next training, until that is durable
 * Errors  FED_EFORMAT the stored message is damaged; the platform's. Give the round up then
 */
typedef void (*fedclient_sent_visit)(void *user, const float *sent, size_t count);
fed_status fedclient_round_sent(fedclient_round *round, fedclient_sent_visit visit, void *user,
                                fed_error *err) FED_CHECKED;

typedef struct fedclient_options {
    const char *server; /* the coordinator's front: "https://host:8443" */
    fedclient_platform *platform;
    fedclient_transport *transport;
    const fed_log *log; /* NULL: silence */
    fed_role role;
    uint32_t hold_ms; /* long-poll up to this long for work; 0: ask and go */
    /** Train round->values in place, or (FED_ROLE_EVALUATE) measure them. On a failure the round is
     * given up and *err is logged and handed to the caller of fedclient_step; nothing is uploaded.
     * FED_EDECLINED: the task does not fit this device, and *err is the sentence why. The library
     * tells the coordinator, which gives the place to another device, and waits for another task.
     */
    fed_status (*train)(void *user, fedclient_round *round, fed_error *err);
    void *user;
    /** A larger update travels in pieces of so many bytes, a larger model in pieces of four times
     * as many, which are kept in the store until all are there. 0, and at most: 1 MiB. */
    uint32_t piece_bytes;
    /** An update up to this size is tried as one first, for lines that seldom break. 0: up to
     * piece_bytes. */
    uint32_t whole_bytes;
    /** May this device take part now? Asked at the beginning of each step, and while it trains
     * (fedclient_round_wanted). FED_OK: yes. FED_ECANCELED: no, the program wants to end; the step
     * answers with that. Any other: not now, and *err says why, such as "it is not charging". NULL:
     * always. */
    fed_status (*may_train)(void *user, fed_error *err);
    /** Called by fedclient_round_progress. NULL: nobody wants to know. */
    void (*progress)(void *user, const fedclient_round *round, uint32_t done, uint32_t total);
    /** What this device calls itself, for the coordinator's operator; sent when it enrols, up to 63
     * bytes of UTF-8. NULL: nothing. */
    const char *name;
    /** Which program this is, such as "fedclientd/0.2.0": sent as User-Agent when it enrols and
     * checks in. NULL: nothing. */
    const char *software;
} fedclient_options;

/** The options are copied, what they point to must outlive the client. Reads the stored state:
 * FED_EFORMAT where it is damaged. Owner: fedclient_close. */
fed_status fedclient_open(const fedclient_options *options, fedclient **client,
                          fed_error *err) FED_CHECKED;
void fedclient_close(fedclient *client);

/** Does it have a certificate? */
int fedclient_enrolled(const fedclient *client);

/** How many turns in a row have failed by now for reasons that time heals: waits grow with it. A
 * device that keeps it over a restart goes on with waits as long. */
uint32_t fedclient_failures(const fedclient *client);
void fedclient_set_failures(fedclient *client, uint32_t failures);
/** How long the library waits after the n-th failure in a row, n from 1: 200 ms to 60 s, drawn from
 * rng. For a program that plans the waits of many clients itself, such as a simulator. */
uint32_t fedclient_backoff_draw(uint32_t failures, fed_rng *rng);

/**
 * Make a key that never leaves the device, store it, ask for a certificate with a one-time token,
 * store that. Whatever fails or dies on the way, the same call goes on from there, with the same
 * token. Errors: FED_EAUTH the token is wrong, expired, or used by another device (the
 * coordinator's own words are in *err); FED_ENET; FED_ETIMEOUT and FED_EBUSY, where another try a
 * little later is worth it.
 */
fed_status fedclient_enrol(fedclient *client, const char *token, fed_error *err) FED_CHECKED;

/** The device's name at the coordinator: SHA-256 of its public key, hex; it stays when the
 * certificate is renewed, which fedclient_step does by itself. "" before enrolment. */
const char *fedclient_device(const fedclient *client);

typedef enum fedclient_outcome {
    FEDCLIENT_WAITED = 0,    /* nothing to do yet (event.reason says why) */
    FEDCLIENT_COUNTED = 1,   /* trained, uploaded, acknowledged */
    FEDCLIENT_REFUSED = 2,   /* uploaded, not counted: the update is back in the residual */
    FEDCLIENT_EVALUATED = 3, /* measured a model and reported it */
    FEDCLIENT_FINISHED = 4,  /* the task is done; the final model is stored */
    FEDCLIENT_RETRY = 5,    /* the line or the coordinator failed; *err says how; nothing is lost */
    FEDCLIENT_DECLINED = 6, /* the task does not fit this device; *err says why */
    FEDCLIENT_LATE = 7,  /* the round ended while it trained; *err says how. Nothing was uploaded */
    FEDCLIENT_PAUSED = 8 /* may_train said "not now"; *err says why. A place it had is given back */
} fedclient_outcome;

typedef struct fedclient_event {
    fedclient_outcome outcome;
    fed_wait_reason reason;  /* WAITED */
    uint32_t round, version; /* that it concerns; 0 where none */
    uint32_t
        wait_ms; /* call again after this long: the coordinator's word, or back-off with jitter */
    float loss;  /* COUNTED, REFUSED, EVALUATED */
    uint32_t samples, correct; /* EVALUATED */
    bool regression;           /* EVALUATED: a model with mse, of which correct says nothing */
    uint64_t task;             /* that it concerns; 0 where none */
} fedclient_event;

/**
 * One turn of the client: send what is pending, or check in and do what is asked (download, train,
 * upload). Blocks for as long as that takes. Returns FED_OK with event filled in for everything
 * that time can heal (*err then holds the reason of RETRY, DECLINED, LATE and PAUSED). Errors need
 * a person: FED_EAUTH certificate refused (unknown, revoked, expired: a device that can't tell
 * anybody asks again after event->wait_ms, about 4 hours, in case the operator has changed his
 * mind), FED_EFORMAT damaged state or a coordinator that talks nonsense, FED_EVERSION, FED_EIO and
 * FED_ENOSPC from the platform, or the callback's own. FED_ECANCELED: the transport was told to
 * stop. Whatever it is, nothing that is owed is lost, and the next step goes on from what is
 * stored.
 */
fed_status fedclient_step(fedclient *client, fedclient_event *event, fed_error *err) FED_CHECKED;

/** The model that the client holds now, its task and version. FED_ENOTFOUND before the first
 * download. Owner of *values: the caller, free(). */
fed_status fedclient_model(fedclient *client, uint64_t *task, uint32_t *version, float **values,
                           size_t *count, fed_error *err) FED_CHECKED;

FED_API_END

#endif
