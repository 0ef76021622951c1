/* Computes the priorities of devices, and the threshold that admits them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/cohort.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "fed/hash.h"

enum { STEPS = 64 };

/* The samples that count in a weighted draw. They are limited, since nobody can check the device's
 * claim. */
static double samples_of(const fedserver_cohort *cohort, const fedserver_candidate *candidate) {
    const uint32_t most = 1 << 20;
    return candidate->samples == 0     ? cohort->samples
           : candidate->samples < most ? candidate->samples
                                       : most;
}

static double samples_mean(const fedserver_candidate *candidates, size_t count) {
    const fedserver_cohort unknown = {.samples = 0};
    double sum = 0;
    size_t known = 0;
    for (size_t k = 0; k < count; k++) {
        sum += samples_of(&unknown, &candidates[k]);
        known += candidates[k].samples > 0;
    }
    return known > 0 ? sum / (double)known : 1;
}

static size_t up_to(const fedserver_candidate *candidates, size_t count, uint32_t round) {
    size_t found = 0;
    for (size_t k = 0; k < count; k++) {
        found += candidates[k].last_round <= round;
    }
    return found;
}

/* Find the first round r for which the candidates whose last round is at most r fill all slots. */
static void find_longest_ago(fedserver_cohort *cohort, const fedserver_candidate *candidates,
                             size_t count, double each, uint32_t slots) {
    uint32_t low = 0;
    uint32_t high = cohort->round;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (each * (double)up_to(candidates, count, middle) >= slots) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    cohort->longest_ago = low;
    cohort->before = low == 0 ? 0 : (double)up_to(candidates, count, low - 1) / (double)count;
    cohort->behind = (double)up_to(candidates, count, low) / (double)count;
}

/* A hash of the drawing and the device, as a number in (0, 1). */
static double chance(const fedserver_cohort *cohort, int64_t device) {
    const uint64_t name[] = {cohort->seed, (uint64_t)cohort->round << 32 | cohort->drawing,
                             (uint64_t)device};
    return ((double)(fed_digest_bytes(name, sizeof name) >> 11) + 0.5) * 0x1p-53;
}

double fedserver_cohort_priority(const fedserver_cohort *cohort,
                                 const fedserver_candidate *candidate) {
    double u = chance(cohort, candidate->device);
    if (cohort->selection == FEDSERVER_SELECT_WEIGHTED) {
        return 1.0 - pow(u, cohort->samples / samples_of(cohort, candidate));
    }
    if (cohort->selection == FEDSERVER_SELECT_UNIFORM) {
        return u;
    }
    /* the candidate may have taken part in a later round after the drawing */
    const uint32_t last_round =
        candidate->last_round < cohort->round ? candidate->last_round : cohort->round;
    if (last_round < cohort->longest_ago) {
        return u * cohort->before;
    }
    if (last_round == cohort->longest_ago) {
        return cohort->before + u * (cohort->behind - cohort->before);
    }
    double later =
        (last_round - cohort->longest_ago - 1 + u) / (cohort->round - cohort->longest_ago);
    return cohort->behind + later * (1.0 - cohort->behind);
}

/* Order the candidates so that the `first` lowest priorities come first, 0 < first < count. Hoare,
 * "Algorithm 65: find", 1961. */
static void put_lowest_first(fedserver_candidate *candidates, size_t count, size_t first) {
    const ptrdiff_t wanted = (ptrdiff_t)first - 1;
    ptrdiff_t low = 0, high = (ptrdiff_t)count - 1;
    while (low < high) {
        const double pivot = candidates[low + (high - low) / 2].priority;
        ptrdiff_t left = low, right = high;
        while (left <= right) {
            if (candidates[left].priority < pivot) {
                left++;
            } else if (candidates[right].priority > pivot) {
                right--;
            } else {
                const fedserver_candidate one = candidates[left];
                candidates[left++] = candidates[right];
                candidates[right--] = one;
            }
        }
        high = wanted <= right ? right : high;
        low = wanted >= left ? left : low;
        if (wanted > right && wanted < left) {
            return;
        }
    }
}

/* The candidates are ordered. Returns the highest of the lowest `slots` priorities. */
static double last_drawn(const fedserver_candidate *candidates, size_t slots) {
    double highest = DBL_MIN; /* a weighted priority can be 0 */
    for (size_t k = 0; k < slots; k++) {
        highest = fmax(highest, candidates[k].priority);
    }
    return highest;
}

/* The threshold where each candidate stands for several devices. It is divided by
 * 1 + 2 / sqrt(slots), so that it seldom admits more devices than there are slots. */
static double estimated_start(const fedserver_cohort *cohort, double all, uint32_t slots) {
    const double start = (double)slots / all / (1.0 + 2.0 / sqrt(slots));
    /* Round robin: the candidates whose last round is before longest_ago are fewer than the slots,
     * so all of them are admitted at once. */
    const bool takes_turns = cohort->selection == FEDSERVER_SELECT_ROUND_ROBIN;
    return takes_turns && cohort->before > start ? cohort->before : start;
}

void fedserver_cohort_draw(fedserver_cohort *cohort, fedserver_candidate *candidates, size_t count,
                           double each, uint32_t slots) {
    const double all = each * (double)count;
    cohort->start = 1;
    cohort->samples = 1;
    cohort->longest_ago = 0;
    cohort->before = 0;
    cohort->behind = 1;
    if (slots == 0 || count == 0 || all <= slots) {
        return;
    }
    cohort->samples = samples_mean(candidates, count);
    if (cohort->selection == FEDSERVER_SELECT_ROUND_ROBIN) {
        find_longest_ago(cohort, candidates, count, each, slots);
    }
    for (size_t k = 0; k < count; k++) {
        candidates[k].priority = fedserver_cohort_priority(cohort, &candidates[k]);
    }
    if (slots < count) {
        put_lowest_first(candidates, count, slots);
    }
    cohort->start = each > 1 ? estimated_start(cohort, all, slots) : last_drawn(candidates, slots);
    /* D6 in docs/durability.md: the threshold reaches every device. */
    assert(cohort->start > 0 && cohort->start <= 1);
}

int64_t fedserver_cohort_admits_ms(const fedserver_cohort *cohort,
                                   const fedserver_candidate *candidate) {
    if (cohort->start >= 1) {
        return cohort->opened_ms;
    }
    double priority = fedserver_cohort_priority(cohort, candidate);
    if (priority <= cohort->start) {
        return cohort->opened_ms;
    }
    double step = ceil(STEPS * (1.0 - log(priority) / log(cohort->start)));
    /* D6 in docs/durability.md: no device waits longer than the window. */
    assert(step >= 0 && step <= STEPS);
    return cohort->opened_ms + (int64_t)(step * (double)cohort->window_ms / STEPS);
}
