/* An edge aggregator: its rounds are a device's trainings at another coordinator, upstream. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_EDGE_H
#define FEDSERVER_EDGE_H

#include "fed/wire.h"
#include "fedserver/fedserver.h"

FED_API_BEGIN

/*
 * Upstream, an edge aggregator is one device. To its own devices it is their coordinator. The edge
 * aggregator's task has upstream's model, codec and trainer settings. Each of its rounds trains a
 * version of upstream's model, and the mean of the round's updates is what the edge aggregator's
 * device has trained:
 *
 *     upstream assigns version v          a round opens; the devices get v, to the bit
 *     the devices send updates            they are stored and acknowledged
 *     goal, or most of the time is over   the round closes: its updates stay, it takes no more
 *     the change goes up                  mean of the updates; weight: their samples
 *     upstream assigns a later version    the closed round commits with that version's values
 *
 * This library has no network. A program passes a training that upstream has assigned to
 * fedserver_edge_poll, again and again, until it gets the change. The program then hands the change
 * to libfedclient, which makes it durable. A change belongs to one training number
 * (fedclient_round.number), and is handed over again until a larger number comes. So each update
 * that the edge aggregator has acknowledged is in exactly one training of its device, even after
 * crashes, unless its task is cancelled before.
 *
 * Beside its store, the edge aggregator keeps one small file in the folder of the device's state.
 * The file and the device's state are of use only together, and a backup of the coordinator has
 * neither. If the file is lost, the edge aggregator's task is cancelled and begins anew, because it
 * is unknown which updates went upstream. The same happens when upstream assigns another task, or
 * changes the settings of the present task.
 *
 * Call these functions in the process that serves the edge aggregator, between two batches of
 * requests.
 */
typedef struct fedserver_edge fedserver_edge;

typedef struct fedserver_edge_rules {
    uint32_t cohort;  /* slots of a round, one a device; 0: one for every device that checks in */
    uint32_t goal;    /* a round closes as soon as it has this many updates; 0: as cohort */
    uint32_t minimum; /* a change made of fewer updates is never sent upstream; 0: 1 */
} fedserver_edge_rules;

/** Open an edge aggregator. state: the folder of the device's state, which must exist. End with
 * fedserver_edge_close. FED_EINVAL: not minimum <= goal <= cohort; FED_EFORMAT: the edge
 * aggregator's file in that folder is damaged. */
fed_status fedserver_edge_open(fedserver *server, const char *state,
                               const fedserver_edge_rules *rules, fedserver_edge **edge,
                               fed_error *err) FED_CHECKED;
/** Free the edge aggregator; NULL is allowed. */
void fedserver_edge_close(fedserver_edge *edge);

/** The training that upstream has assigned to the edge aggregator's device. */
typedef struct fedserver_edge_offer {
    const fed_task *task;
    /* The model's text (fed_arch.text). It may be NULL if the task holds the text itself. */
    const char *model;
    uint32_t version;
    float *values; /* float32[size]. In: the model's values of that version. Out: the change */
    size_t size;
    uint64_t number; /* number and owes are those of the device's fedclient_round */
    bool owes;
    /* Milliseconds until upstream's deadline: from now, and from when upstream assigned the
     * training. In the last quarter of lease_ms, the round closes once it has `minimum` updates. */
    uint32_t left_ms, lease_ms;
} fedserver_edge_offer;

/** The answer to an offer, set by fedserver_edge_poll. */
typedef struct fedserver_edge_change {
    bool ready;       /* false: make the same offer again later; the offer's values are unchanged */
    uint32_t samples; /* the change's weight: at most the sum of its devices' samples */
    float loss;       /* NaN: none of its devices told a loss */
} fedserver_edge_change;

/**
 * Continue the edge aggregator's round, and commit what was written to the store. Errors: those of
 * the store, after which the server is of no use; FED_EDECLINED: the edge aggregator has no room
 * for the task, or this release can't run the task.
 */
fed_status fedserver_edge_poll(fedserver_edge *edge, const fedserver_edge_offer *offer,
                               int64_t now_ms, fedserver_edge_change *change,
                               fed_error *err) FED_CHECKED;

/** The task with the number `upstream` is finished there, and values (float32[size]) are its last
 * version. The edge aggregator's devices get that version, and learn that the task is over.
 * Nothing happens if the edge aggregator does not know the task, or has finished it. *done false:
 * call again. FED_EDECLINED: values is of another model than the task. */
fed_status fedserver_edge_finish(fedserver_edge *edge, uint64_t upstream, const float *values,
                                 size_t size, int64_t now_ms, bool *done,
                                 fed_error *err) FED_CHECKED;

/** Tell the metrics how many steps of the edge aggregator's device have failed in a row. 0:
 * upstream answers as it should. */
void fedserver_edge_failures(fedserver_edge *edge, uint32_t failures);

/** Count the edge aggregator's devices that have checked in lately. */
uint64_t fedserver_edge_devices(fedserver_edge *edge, int64_t now_ms);

FED_API_END

#endif
