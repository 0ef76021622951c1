/* A worker group's members and their states, as the failure detector sees them. No sockets, no
 * clocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MEMBERSHIP_H
#define FEDDC_MEMBERSHIP_H

#include "fedclient/datacenter/control/membership_state.h"

/* The failure detector passes each event with its time in milliseconds, of any monotonic clock.
 * After one or more events it calls feddc_membership_settle, does what `todo` says, and sets todo
 * to 0. A slot is a member's index in the membership. A member's `worker` is its rank in the first
 * generation; its `rank` is the one in the present generation. */

/** Make an empty membership for `size` members; free it with feddc_membership_free. Errors:
 * FED_EINVAL, FED_ENOMEM */
fed_status feddc_membership_init(feddc_membership *membership, uint32_t size, uint32_t min,
                                 uint32_t join_ms, int64_t now_ms, fed_error *err) FED_CHECKED;
void feddc_membership_free(feddc_membership *membership);

typedef struct feddc_join {
    uint32_t requested; /* a rank; FEDDC_NOBODY: any */
    uint32_t pid;
    char host[FEDDC_HOST];
    char computes_on[FEDDC_COMPUTES]; /* "": the processor */
    char settings[FEDDC_SETTINGS];    /* "": not told. The record lacks empty fields at its end */
} feddc_join;

/** Refuse members with other settings. Without this call the settings of the first member count,
 * as long as a member is there. settings: shorter than FEDDC_SETTINGS */
void feddc_membership_expect(feddc_membership *membership, const char *settings);

/** Errors: FED_ESTATE the worker group has begun or is full, or the member has other settings;
 * FED_EEXIST the rank is taken; FED_EINVAL the worker group has no such rank */
fed_status feddc_membership_join(feddc_membership *membership, const feddc_join *join,
                                 int64_t now_ms, uint32_t *slot, fed_error *err) FED_CHECKED;

void feddc_membership_heartbeat(feddc_membership *membership, uint32_t slot,
                                const feddc_heartbeat *heartbeat, int64_t now_ms);

/** The member asks for the next generation. broke: why the member left the last generation, or
 * "". */
void feddc_membership_meet(feddc_membership *membership, uint32_t slot, uint32_t completed,
                           const char *address, const char *broke, int64_t now_ms);

void feddc_membership_digest_is(feddc_membership *membership, uint32_t slot, uint32_t completed,
                                uint64_t digest, int64_t now_ms);

/** The member says that it leaves. why: "" or the error that made it leave. */
void feddc_membership_bye(feddc_membership *membership, uint32_t slot, const char *why,
                          int64_t now_ms);

/** The member's connection has ended without feddc_membership_bye. */
void feddc_membership_gone(feddc_membership *membership, uint32_t slot, int64_t now_ms);

void feddc_membership_end(feddc_membership *membership, const char *why);

/** Decide, from all events until now, who is lost and whether a generation begins or ends. */
void feddc_membership_settle(feddc_membership *membership, int64_t now_ms);

void feddc_membership_look(const feddc_membership *membership, feddc_detector_look *look);

/** false: there is no such worker. */
bool feddc_membership_member_look(const feddc_membership *membership, uint32_t worker,
                                  int64_t now_ms, feddc_member_look *look);

#endif
