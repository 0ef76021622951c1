/* The judge's knowledge of a gang, and what follows from it. No sockets, no clocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_ROLL_H
#define FEDDC_ROLL_H

#include "fedclient/datacenter/control/roll_state.h"

/*
 * The judge tells the roll what it hears, and when: all times are arguments, in milliseconds of any
 * clock that never goes back. After each event it calls feddc_roll_settle, does what `todo` says,
 * and sets todo to 0.
 *
 * A slot is a member's index in the roll, in order of arrival. Its worker is its rank in the first
 * generation, and its rank is that of the present one.
 */

/** An empty roll for `size` members. FED_EINVAL, FED_ENOMEM. Owner: feddc_roll_free. */
fed_status feddc_roll_init(feddc_roll *roll, uint32_t size, uint32_t min, uint32_t join_ms,
                           int64_t now_ms, fed_error *err) FED_CHECKED;
void feddc_roll_free(feddc_roll *roll);

/** Who joins, from its record. */
typedef struct feddc_join {
    uint32_t wish; /* a rank; FEDDC_NOBODY: any */
    uint32_t pid;
    char host[FEDDC_HOST];
    char computes_on[FEDDC_COMPUTES]; /* "": the processor, and the record does not have it */
} feddc_join;

/** FED_ESTATE the gang has begun or is full; FED_EEXIST the rank is taken; FED_EINVAL the rank is
 * none of this gang. */
fed_status feddc_roll_join(feddc_roll *roll, const feddc_join *join, int64_t now_ms, uint32_t *slot,
                           fed_error *err) FED_CHECKED;

void feddc_roll_beat(feddc_roll *roll, uint32_t slot, const feddc_beat *beat, int64_t now_ms);

/** The member has left its generation, and asks for the next. broke: "" or why it left. */
void feddc_roll_meet(feddc_roll *roll, uint32_t slot, uint32_t whole, const char *address,
                     const char *broke, int64_t now_ms);

void feddc_roll_digest_is(feddc_roll *roll, uint32_t slot, uint32_t whole, uint64_t digest,
                          int64_t now_ms);

/** Goodbye; why: "" or an error of the member's own. */
void feddc_roll_bye(feddc_roll *roll, uint32_t slot, const char *why, int64_t now_ms);

/** The connection has ended without a goodbye. */
void feddc_roll_gone(feddc_roll *roll, uint32_t slot, int64_t now_ms);

/** End the gang with this sentence. */
void feddc_roll_end(feddc_roll *roll, const char *why);

/** Draw the conclusions at this time. */
void feddc_roll_settle(feddc_roll *roll, int64_t now_ms);

/** The gang as a whole. */
void feddc_roll_look(const feddc_roll *roll, feddc_judge_look *look);

/** One member. false: there is no such worker. */
bool feddc_roll_member_look(const feddc_roll *roll, uint32_t worker, int64_t now_ms,
                            feddc_member_look *look);

#endif
