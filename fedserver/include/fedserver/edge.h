/* An edge aggregator: a coordinator whose rounds are a device's trainings at another coordinator,
 * upstream. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_EDGE_H
#define FEDSERVER_EDGE_H

#include "fed/wire.h"
#include "fedserver/fedserver.h"

FED_API_BEGIN

/*
 * Upstream, an edge aggregator is one device. To its own devices it is their coordinator. The edge
 * aggregator's task has upstream's model, codec and trainer settings. Each of its rounds trains a
 * version of upstream's, and the mean of the round's updates is what the edge aggregator's device
 * has trained:
 *
 *     upstream assigns version v          a round opens; the devices get v, to the bit
 *     the devices send updates            they are stored and acknowledged, as everywhere
 *     goal, or most of the time is over   the round closes: its updates stay, it takes no more
 *     the change goes up                  mean of the updates; weight: their samples
 *     upstream assigns a later version    the closed round commits with that version's values
 *
 * This library knows no network. A program hands over what upstream's device was assigned, again
 * and again, until it gets the change. It hands the change to libfedclient, which makes it durable.
 * The number of the training decides what counted (fedclient_round.number): a round is closed under
 * the number, and is handed over again until a larger number comes. So each update that the edge
 * aggregator has acknowledged is in exactly one training of the edge aggregator's device, whatever
 * dies and when.
 *
 * What the edge aggregator must remember beside its store is one small file in the folder of that
 * device's state. Neither is of use without the other; a backup of the coordinator has neither. If
 * the file is lost, nobody knows whether the open round's updates went up: the edge aggregator's
 * task is then cancelled and begins anew. The same happens when upstream assigns another task, or
 * changes this one's settings.
 *
 * Call these functions in the process that serves, between two batches.
 */
typedef struct fedserver_edge fedserver_edge;

typedef struct fedserver_edge_rules {
    uint32_t cohort;  /* slots of a round: devices that get a lease; 0: every device that comes */
    uint32_t goal;    /* with so many updates a round closes at once; 0: cohort */
    uint32_t minimum; /* fewer updates never go up; 0: 1 */
} fedserver_edge_rules;

/** state: the folder of the device's state, which must exist. Owner: fedserver_edge_close.
 * FED_EINVAL: not minimum <= goal <= cohort; FED_EFORMAT: the edge aggregator's file there is
 * damaged. */
fed_status fedserver_edge_open(fedserver *server, const char *state,
                               const fedserver_edge_rules *rules, fedserver_edge **edge,
                               fed_error *err) FED_CHECKED;
/** NULL is allowed. */
void fedserver_edge_close(fedserver_edge *edge);

/** What upstream has assigned. */
typedef struct fedserver_edge_offer {
    const fed_task *task;
    uint32_t version;
    float *values; /* float32[size]. In: that version. Out: the change */
    size_t size;
    /* of fedclient_round */
    uint64_t number;
    bool owes;
    /* until upstream's deadline: now, and when it was assigned. The round closes in the last
     * quarter */
    uint32_t left_ms, lease_ms;
} fedserver_edge_offer;

/** The answer to an offer. */
typedef struct fedserver_edge_change {
    bool ready;       /* false: offer again later, values are untouched */
    uint32_t samples; /* of the devices whose updates are in it */
    float loss;
} fedserver_edge_change;

/**
 * Go on with the edge aggregator's round. Commits what it writes.
 * Errors: those of the store, after which the server is of no use; FED_EDECLINED: the edge
 * aggregator's store or disk has no room for the task, or the task makes no sense to this release.
 */
fed_status fedserver_edge_poll(fedserver_edge *edge, const fedserver_edge_offer *offer,
                               int64_t now_ms, fedserver_edge_change *change,
                               fed_error *err) FED_CHECKED;

/** Upstream's task of that number is finished, with this version. The edge aggregator's devices get
 * it, and learn that the task is over. Nothing happens if the edge aggregator does not know the
 * task, or has finished it. *done false: call again.
 *   values  float32[size] */
fed_status fedserver_edge_finish(fedserver_edge *edge, uint64_t upstream, const float *values,
                                 size_t size, int64_t now_ms, bool *done,
                                 fed_error *err) FED_CHECKED;

/** How many of the edge aggregator's devices have asked for work lately. */
uint64_t fedserver_edge_devices(fedserver_edge *edge, int64_t now_ms);

FED_API_END

#endif
