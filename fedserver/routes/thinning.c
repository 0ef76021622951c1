/* Leaves out rounds of a long history, so that a chart of the rest still shows each spike. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/thinning.h"

#include <math.h>
#include <stdbool.h>

enum { ENDS = 2, LOSSES = 2, EXTREMES = 4 };

/* Loss, then what evaluators measured; NaN where there is none. */
static double value_of(const fedserver_round_entry *r, int which) {
    const bool graded = r->measured && r->accuracy != 0 && !isnan(r->accuracy);
    return which < LOSSES ? r->loss
           : graded       ? r->accuracy
           : r->measured  ? r->test_loss
                          : (double)NAN;
}

/* Find the extremes of rounds[from .. to): the index of the least and of the greatest value. */
static void find_extremes(const fedserver_round_entry *rounds, size_t from, size_t to,
                          size_t found[EXTREMES]) {
    for (int e = 0; e < EXTREMES; e++) {
        found[e] = from;
        double best = (double)NAN;
        for (size_t k = from; k < to; k++) {
            const double value = value_of(&rounds[k], e);
            if (!isnan(value) && (isnan(best) || (e % 2 == 0 ? value < best : value > best))) {
                best = value;
                found[e] = k;
            }
        }
    }
}

/* Move the rounds with these indexes to rounds[kept ...], the least index first, each once. */
static size_t keep(fedserver_round_entry *rounds, size_t kept, size_t from, size_t to,
                   const size_t found[EXTREMES]) {
    for (size_t k = from; k < to; k++) {
        bool stays = false;
        for (int e = 0; e < EXTREMES; e++) {
            stays = stays || found[e] == k;
        }
        if (stays) {
            rounds[kept++] = rounds[k];
        }
    }
    return kept;
}

size_t fedserver_rounds_thin(fedserver_round_entry *rounds, size_t count, size_t most) {
    if (count <= most) {
        return count;
    }
    const size_t parts = (most - ENDS) / EXTREMES, inner = count - ENDS;
    size_t kept = 1;
    for (size_t p = 0; p < parts; p++) {
        const size_t from = 1 + inner * p / parts, to = 1 + inner * (p + 1) / parts;
        size_t found[EXTREMES];
        find_extremes(rounds, from, to, found);
        kept = keep(rounds, kept, from, to, found);
    }
    rounds[kept++] = rounds[count - 1];
    return kept;
}
