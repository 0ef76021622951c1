/* Who gets a round's places, among devices that come when they like. Pure. */
#ifndef FEDSERVER_COHORT_H
#define FEDSERVER_COHORT_H

#include <stddef.h>
#include <stdint.h>

#include "fedserver/stores/store.h"

/*
 * Nobody can be called: devices come and ask, each at its own time. So places are not handed out
 * from a list. When places become free each device has a priority in [0, 1), a hash of the task's
 * seed, the drawing and the device, and it may have a place once the threshold has reached that
 * priority. The threshold starts a little below places / candidates and grows to 1 over a window:
 * chosen ones that stay away hold up nobody for long. Where there are places for all candidates,
 * all may come at once.
 */
typedef struct fedserver_cohort {
    fedserver_selection selection;
    uint64_t seed;
    uint32_t round, drawing; /* name the drawing: others have other priorities */
    int64_t opened_ms;       /* when the places became free */
    int64_t window_ms;       /* after it everybody may have one */
    /* what fedserver_cohort_draw has found out */
    double start;   /* the threshold's first value; 1: everybody may have a place */
    double samples; /* mean of those that are known; 1 where none is */
    uint32_t turn;  /* round robin: whose turn it is took part in this round last, */
    double before;  /* this fraction of the candidates in an earlier one, */
    double behind;  /* and this in the same or an earlier one */
} fedserver_cohort;

/** A device that could take a place. */
typedef struct fedserver_candidate {
    int64_t device;
    uint32_t samples;    /* 0: unknown, and taken for the mean */
    uint32_t last_round; /* in which it took part; 0: none */
} fedserver_candidate;

/**
 * Draw: places have become free for these candidates, who were seen lately. The fields before
 * `start` are the caller's.
 *
 * uniform      every candidate has the same chance
 * weighted     in proportion to its samples, without replacement: 1 - (u^(1/samples))^mean, u the
 *              hash, is in [0, 1) and orders as u^(1/samples) does (Efraimidis and Spirakis,
 *              "Weighted random sampling with a reservoir", 2006)
 * round robin  who took part longest ago comes first; among equals chance decides
 */
void fedserver_cohort_draw(fedserver_cohort *cohort, const fedserver_candidate *candidates,
                           size_t count, uint32_t places);

/** In [0, 1): who has less comes first. */
double fedserver_cohort_priority(const fedserver_cohort *cohort,
                                 const fedserver_candidate *candidate);

/** From when on it may have a place, Unix milliseconds: in one of 64 steps, so that those who wait
 * are asked again in groups. */
int64_t fedserver_cohort_admits_ms(const fedserver_cohort *cohort,
                                   const fedserver_candidate *candidate);

#endif
