/* When the clients are available, in virtual time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_PRESENCE_H
#define FEDSIM_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * A spec is one condition, or some joined by '+', all of which must hold:
 *
 *     always                            (the default)
 *     dropout:on=3600,off=600           the client comes and goes, for exponential times with
 *                                       these means in seconds
 *     day:hours=8,spread=24             there for so many hours a day, every day from the same time
 *                                       on; each client's time is drawn from [0, spread) hours
 *     charging:on=28800,off=57600       on the charger: mean seconds, as dropout
 *     wifi:on=36000,off=14400           on Wi-Fi: mean seconds, as dropout
 *     trace:FILE                        CSV of client,from_s,to_s: when a client is there, in
 *                                       seconds from the start. A client's lines are in ascending
 *                                       order; a client without a line is always away
 *
 * The numbers above are the defaults. Each client draws its on and off times from the seed,
 * independently of other clients and conditions, and begins in the steady state. The name of FILE
 * must not contain '+'.
 */
enum { SIM_CONDITIONS = 8 };      /* conditions of a spec, at most */
#define SIM_NEVER (INT64_MAX / 4) /* a time that is never reached */

typedef struct sim_interval {
    int64_t from_us, to_us;
} sim_interval;

typedef enum sim_condition_kind { SIM_ON_AND_OFF, SIM_EVERY_DAY, SIM_TRACE } sim_condition_kind;

typedef struct sim_condition {
    sim_condition_kind kind;
    double on_s, off_s;   /* for SIM_ON_AND_OFF: mean times */
    double hours, spread; /* for SIM_EVERY_DAY */
    /* SIM_TRACE: client k's intervals are interval[first[k] .. first[k + 1]) */
    sim_interval *interval;
    size_t *first;
    uint32_t clients;
} sim_condition;

typedef struct sim_presence {
    size_t count; /* 0: always */
    sim_condition condition[SIM_CONDITIONS];
} sim_presence;

/** Read a spec for that many clients; NULL or "" means always. After a failure other than
 * FED_ENOMEM, *err says what is wrong. Call sim_presence_free afterwards, even after an error. */
fed_status sim_presence_parse(const char *spec, uint32_t clients, sim_presence *presence,
                              fed_error *err) FED_CHECKED;
void sim_presence_free(sim_presence *presence);

/** The part of sim_attendance that a stopped run saves: numbers of fixed size, without padding. */
typedef struct sim_attendance_kept {
    sim_interval now[SIM_CONDITIONS]; /* each condition's newest interval */
    uint32_t drawn[SIM_CONDITIONS];   /* number of intervals drawn, or read from a trace */
} sim_attendance_kept;

/** The times at which one client is available. */
typedef struct sim_attendance {
    const sim_presence *presence;
    uint64_t seed;
    uint32_t k;
    sim_attendance_kept kept;
} sim_attendance;

void sim_attendance_open(sim_attendance *attendance, const sim_presence *presence, uint64_t seed,
                         uint32_t k);

/** Return the first time from `us` on at which the client is available; SIM_NEVER: none comes. `us`
 * must not decrease between calls of this function and of sim_attendance_until. */
int64_t sim_attendance_from(sim_attendance *attendance, int64_t us);

/** Return until when the client is available from `us` on; `us` itself if it is away then. */
int64_t sim_attendance_until(sim_attendance *attendance, int64_t us);

#endif
