/* What a coordinator asks a helper of private sums, and what the helper answers: structs, bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PRIVATE_OPENING_H
#define FEDSERVER_PRIVATE_OPENING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/private_terms.h"

FED_API_BEGIN

/*
 * Bytes (docs/protocol.md#openings), little-endian:
 *
 *   question  the terms | u32 groups | u32 count | of each device: u64 lease | fed_private
 *   head      u64 generation | u64 task | u32 round | set digest | str word | str sentence |
 *             u32 count | u32 number of each entry that can't be opened
 *   opening   head | of each group: the fields of the sum of its masks, packed; none unless word
 *             is ""
 */

/** One device of a round: its lease, and what it sealed. */
typedef struct fedserver_sealed {
    uint64_t lease;
    fed_private private_;
} fedserver_sealed;

/** "Which masks are in the sum of these devices?" With more groups than one: in the sum of each
 * group, into which the devices fall by a hash (docs/protocol.md#groups). */
typedef struct fedserver_inquiry {
    fed_private_terms terms;
    fedserver_sealed *devices; /* fedserver_inquiry_free frees them */
    size_t count;
    uint32_t groups; /* 1 to FEDSERVER_GROUPS_MOST */
} fedserver_inquiry;

enum {
    FEDSERVER_INQUIRY_DEVICES = 1 << 20, /* the most devices of a question */
    FEDSERVER_GROUPS_MOST = 64           /* the most groups of a round */
};

void fedserver_inquiry_write(fed_writer *w, const fedserver_inquiry *q);
/** FED_EFORMAT: damaged bytes. FED_ENOMEM. *q has nothing to free after an error. */
fed_status fedserver_inquiry_read(fed_reader *r, fedserver_inquiry *q) FED_CHECKED;
void fedserver_inquiry_free(fedserver_inquiry *q);

/** The digest of the set, whatever the order of the devices is: SHA-256 of the terms' digest, the
 * number of groups (u32) and each device's bytes, in the order of their fingerprints. So the same
 * devices in other groups are another set. FED_ENOMEM. */
fed_status fedserver_inquiry_digest(const fedserver_inquiry *q,
                                    uint8_t digest[FED_SHA256_SIZE]) FED_CHECKED;

/** The word of a reply that names seals which can't be opened. */
#define FEDSERVER_REPLY_SEALS "seals"

/** What a helper answers. */
typedef struct fedserver_reply {
    uint64_t generation, task;
    uint32_t round;
    uint8_t set[FED_SHA256_SIZE];
    char word[32];      /* "": opened. "seals": some seals can't be opened. Else why it refuses. */
    char sentence[256]; /* for people; "" if word is "" */
    /* with "seals", and then at least one: numbers of the question's devices, ascending */
    uint32_t *unopened;
    size_t unopened_count;
    /* packed, of one group after the other, each from a byte on; NULL unless word is "" */
    uint8_t *fields;
    size_t fields_len;
    /* not sent: the task has a generation that is new to the helper, as after a restore of the
     * coordinator. So it may open a round once more, for another set */
    bool renewed;
} fedserver_reply;

void fedserver_reply_write(fed_writer *w, const fedserver_reply *reply);
/** As fedserver_inquiry_read. reply->fields is a copy. */
fed_status fedserver_reply_read(fed_reader *r, fedserver_reply *reply) FED_CHECKED;
void fedserver_reply_free(fedserver_reply *reply);

FED_API_END

#endif
