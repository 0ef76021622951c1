/* Decides which devices get the slots of a round. Its functions have no side effects. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COHORT_H
#define FEDSERVER_COHORT_H

#include <stddef.h>
#include <stdint.h>

#include "fedserver/stores/store.h"

/* The coordinator can't call a device: each device checks in at a time of its own. So slots are not
 * handed out from a list. When slots become free, each device gets a priority in [0, 1], made from
 * a hash of the task's seed, the drawing and the device. The cohort admits a device once a
 * threshold has reached the device's priority. The threshold grows to 1 over a window. So a device
 * that was drawn and stays away blocks its slot for a short time only. If there are slots for all
 * candidates, all are admitted at once. */
typedef struct fedserver_cohort {
    fedserver_selection selection;
    uint64_t seed;
    uint32_t round, drawing; /* identify the drawing; each drawing gives other priorities */
    int64_t opened_ms;
    int64_t window_ms; /* after this time all devices are admitted */
    /* The fields from here on are the result of fedserver_cohort_draw. */
    double start;   /* the threshold's first value; 1: all devices are admitted */
    double samples; /* mean of the candidates' known samples; 1: none are known */
    /* round robin: slots go first to devices whose last round is at most this */
    uint32_t longest_ago;
    /* round robin: fraction of candidates whose last round is before longest_ago */
    double before;
    /* round robin: fraction of candidates whose last round is at most longest_ago */
    double behind;
} fedserver_cohort;

typedef struct fedserver_candidate {
    int64_t device;
    uint32_t samples;      /* 0: unknown, and the mean of the others is used instead */
    uint32_t last_round;   /* the last round in which the device took part; 0: none */
    double priority;       /* set by fedserver_cohort_draw, and not read by the other functions */
    fedserver_device *row; /* for the caller */
} fedserver_candidate;

/**
 * Draw the devices for slots that have become free. The candidates are devices that checked in
 * lately. The caller sets the cohort's fields before `start`.
 *
 * each         how many devices a candidate stands for: 1, or more if the candidates are a sample
 *
 * The selection decides the order:
 *
 * uniform      every candidate has the same chance
 * weighted     by its samples: the largest u^(1/samples) comes first, with u in (0, 1) a hash
 *              (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006)
 * round robin  the candidate that took part longest ago comes first; equals are drawn as in uniform
 *
 * The candidates with the lowest `slots` priorities come first in `candidates` afterwards. If
 * `each` is 1, the threshold begins at the highest of these priorities, so that just these
 * candidates are admitted at once. If `each` is above 1, the threshold is estimated for all
 * devices, and begins lower.
 */
void fedserver_cohort_draw(fedserver_cohort *cohort, fedserver_candidate *candidates, size_t count,
                           double each, uint32_t slots);

/** The device's priority in [0, 1]. The cohort admits the lowest priority first. */
double fedserver_cohort_priority(const fedserver_cohort *cohort,
                                 const fedserver_candidate *candidate);

/** When the cohort admits the device, in Unix milliseconds. The window has 64 steps, so that the
 * coordinator wakes waiting devices in groups. */
int64_t fedserver_cohort_admits_ms(const fedserver_cohort *cohort,
                                   const fedserver_candidate *candidate);

#endif
