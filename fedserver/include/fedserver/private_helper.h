/* A helper of private sums: checks a coordinator's question, and opens one set of a round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PRIVATE_HELPER_H
#define FEDSERVER_PRIVATE_HELPER_H

#include "fed/api.h"
#include "fedserver/private_opening.h"

FED_API_BEGIN

/*
 * The helper belongs to another party than the coordinator. It trusts nothing that it is asked: for
 * each device it checks that the device itself signed these terms, this lease and this seed. Then
 * it answers with the sum of the devices' masks, once a round:
 *
 * - The row of a round is on disk before the answer leaves: (generation, task, round) and the
 *   digest of the set. The same question has the same answer, after any restart. Another set of
 *   that round is refused: two sums that differ by a device would show that device's update.
 * - Where the coordinator asks for groups (docs/protocol.md#groups), it answers with a sum of each.
 *   It finds the groups itself, by a hash of the round and the devices. Each has its minimum.
 * - If seals can't be opened, it names them, releases nothing and writes no row.
 * - It counts each device's rounds over all generations, in the same transaction as the row.
 * - A coordinator that was restored has a new generation, under which its devices seal anew. From
 *   its first opening on, the earlier one gets none.
 * - Where the terms promise an epsilon, it adds the noise: what the coordinator takes off the sum
 *   of the updates are masks less the noise. So the coordinator never has the sum without it. The
 *   noise is a function of a key, which is stored with the row, and of the set. The key is
 *   deleted when the task's next round is opened.
 *
 * It is one thread's. The state has no backup on purpose: an old one would open a round twice.
 */

typedef struct fedserver_helper fedserver_helper;

typedef struct fedserver_helper_options {
    const char *path; /* of the state, an SQLite file; made if it is missing */
    uint8_t secret[FED_POINT_SECRET];
    uint32_t least; /* no sum of fewer devices is opened, whatever the terms say; at least 2 */
    /* Fingerprints of the devices that the helper's party knows. NULL: any device, and then a
     * coordinator may make up devices of its own. They are copied. */
    const uint8_t (*roster)[FED_SHA256_SIZE];
    size_t roster_count;
} fedserver_helper_options;

enum { FEDSERVER_HELPER_LEAST = 20 /* the usual value of `least` */ };

/** Errors: FED_EFORMAT no seal key, or a file that is no helper's state; FED_EVERSION a state of a
 * later release; FED_EBUSY another process has it open; FED_EIO, FED_ENOSPC, FED_ENOMEM. */
fed_status fedserver_helper_open(const fedserver_helper_options *options, fedserver_helper **helper,
                                 fed_error *err) FED_CHECKED;
void fedserver_helper_close(fedserver_helper *helper);

/**
 * Answer a question. reply->word says how it went: "" opened; "seals"; or a refusal:
 *
 *   terms       a device sealed under other terms, or the terms contradict themselves
 *   key         the terms name no key of this helper
 *   noise       the terms have less noise than they promise, or promise another epsilon than
 *               those of the task's first round
 *   minimum     fewer devices in a sum than the terms' minimum or the helper's own
 *   groups      groups of a task whose noise is correlated over rounds
 *   cohort      more devices than the terms' cohort
 *   twice       a device or a lease stands in the set twice
 *   roster      a device is not on the helper's list
 *   signature   a device did not sign this
 *   spent       a device has taken part as often as the terms allow, or too recently
 *   second_set  another set of this round was opened
 *   generation  the task has a newer generation: the coordinator was restored since
 *   over        a later round was opened, and the noise of this one is deleted
 *
 * Free the opening. FED_EIO, FED_ENOSPC, FED_EBUSY, FED_ENOMEM: the helper can't answer now, and
 * nothing was released; ask again.
 */
fed_status fedserver_helper_answer(fedserver_helper *helper, const fedserver_inquiry *question,
                                   fedserver_reply *reply, fed_error *err) FED_CHECKED;

FED_API_END

#endif
