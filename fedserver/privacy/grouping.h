/* Deals the devices of a private round out to groups, each of which is summed by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_GROUPING_H
#define FEDSERVER_GROUPING_H

#include <stddef.h>
#include <stdint.h>

#include "fed/hash.h"
#include "fedserver/private_opening.h"

/*
 * Where a round has groups, its set of updates falls into that many sums, and a median or a trimmed
 * mean runs over them. So nobody has to read an update to keep a hostile one away.
 *
 * A device's place is SHA-256("fed private groups 1" | task | round | SHA-256 of the model that is
 * trained on | the device's fingerprint). The devices of a set are sorted by their places, and
 * dealt out like cards: number i is in group i modulo the number of groups. So
 *
 * - the groups follow from the set alone: coordinator and helper find the same ones, also after a
 *   restart, and nobody sends a grouping that could be another one;
 * - sizes differ by one device at most, and no group has fewer than count / groups;
 * - a device can't choose its group: its key was made before the model, and which number it has
 *   follows from the places of all others, whose fingerprints it does not know.
 *
 * docs/decisions/0049-groups.md has what a coordinator could choose.
 */

/** What decides about the groups of a round, besides the devices. */
typedef struct fedserver_grouping {
    uint64_t task;
    uint32_t round;
    uint8_t model[FED_SHA256_SIZE]; /* as in fed_private_terms */
    uint32_t groups;                /* 1 to FEDSERVER_GROUPS_MOST */
} fedserver_grouping;

/** Deal devices out: group[count], each below which->groups. devices: fingerprints, in any order,
 * none twice. FED_ENOMEM. */
fed_status fedserver_grouping_deal(const fedserver_grouping *which,
                                   uint8_t (*devices)[FED_SHA256_SIZE], size_t count,
                                   uint32_t *group) FED_CHECKED;

/** The digest of one group of a set, for its noise: groups of one round, which has one key, have
 * unrelated noise. With one group it is the set's digest. */
void fedserver_grouping_set(const uint8_t set[FED_SHA256_SIZE], uint32_t groups, uint32_t group,
                            uint8_t digest[FED_SHA256_SIZE]);

#endif
