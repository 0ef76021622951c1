/* Settles what the updates of a round count for, by the three rules of weights.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/weights.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "fedcodec/codec.h"

typedef struct party {
    int64_t device;
    double weight, reach, norm; /* norm: the largest norm of the device's updates */
    /* fractions from 0 to 1 that remain: of the weight after rule 1, of the reach after rule 2 */
    double kept, pulled;
} party;

typedef struct parties {
    party *all;
    size_t count;
    double *sorted, *rest; /* scratch of find_cap: [count], [count + 1] */
} parties;

static void parties_free(parties *p) {
    free(p->all);
    free(p->sorted);
    free(p->rest);
}

static int ascending(double a, double b) {
    return (a > b) - (a < b);
}

/* Compare by device, weight, then reach: sums must not depend on the order of arrival. */
static int compare_parties(const void *a, const void *b) {
    const party *x = a, *y = b;
    if (x->device != y->device) {
        return x->device < y->device ? -1 : 1;
    }
    return x->weight != y->weight ? ascending(x->weight, y->weight) : ascending(x->reach, y->reach);
}

static int descending(const void *a, const void *b) {
    return ascending(*(const double *)b, *(const double *)a);
}

static fed_status gather(const fedserver_contribution *contributions, size_t count, parties *p) {
    p->all = malloc(count * sizeof *p->all);
    p->sorted = malloc(count * sizeof *p->sorted);
    p->rest = malloc((count + 1) * sizeof *p->rest);
    FED_REQUIRE(p->all != NULL && p->sorted != NULL && p->rest != NULL, FED_ENOMEM);
    for (size_t k = 0; k < count; k++) {
        const double weight = (double)contributions[k].weight;
        p->all[k] = (party){.device = contributions[k].device,
                            .weight = weight,
                            .reach = weight * contributions[k].counted,
                            .norm = contributions[k].norm,
                            .kept = 1,
                            .pulled = 1};
    }
    qsort(p->all, count, sizeof *p->all, compare_parties);
    for (size_t k = 0; k < count; k++) {
        party *last = p->count > 0 ? &p->all[p->count - 1] : NULL;
        if (last == NULL || last->device != p->all[k].device) {
            p->all[p->count++] = p->all[k];
            continue;
        }
        last->weight += p->all[k].weight;
        last->reach += p->all[k].reach;
        last->norm = fmax(last->norm, p->all[k].norm);
    }
    return FED_OK;
}

/* The cap to which values must be lowered, so that none is above `most` of their sum. INFINITY:
 * none must be lowered. If the k largest values are at the cap, then cap = most * (k * cap + the
 * sum of the rest). */
static double find_cap(parties *p, double most) {
    const size_t n = p->count;
    double *v = p->sorted, *rest = p->rest;
    if (most * (double)n <= 1) {
        return INFINITY;
    }
    qsort(v, n, sizeof *v, descending);
    rest[n] = 0;
    /* adds the smallest values first, since a huge value would absorb them by rounding */
    for (size_t k = n; k-- > 0;) {
        rest[k] = rest[k + 1] + v[k];
    }
    for (size_t k = 0; k < n; k++) { /* the loop always returns, since most * n is above 1 */
        const double cap = most * rest[k] / (1 - most * (double)k);
        if (v[k] <= cap || most * (double)(k + 1) >= 1 - 1e-9) {
            return k > 0 ? cap : INFINITY;
        }
    }
    return INFINITY;
}

/* Apply rules 1 and 2 of weights.h. Returns whether they lower anything. */
static bool lower(parties *p, double most) {
    bool lowered = false;
    if (most >= 1 || most <= 0) {
        return false;
    }
    for (size_t k = 0; k < p->count; k++) {
        p->sorted[k] = p->all[k].weight;
    }
    double cap = find_cap(p, most);
    for (size_t k = 0; k < p->count; k++) {
        party *one = &p->all[k];
        one->kept = one->weight > cap ? cap / one->weight : 1;
        lowered = lowered || one->kept < 1;
        p->sorted[k] = one->reach * one->kept;
    }
    cap = find_cap(p, most);
    for (size_t k = 0; k < p->count; k++) {
        party *one = &p->all[k];
        one->pulled = one->reach * one->kept > cap ? cap / (one->reach * one->kept) : 1;
        /* D3 in docs/durability.md: no claim is raised. */
        assert(one->kept <= 1 && one->pulled <= 1);
        lowered = lowered || one->pulled < 1;
    }
    return lowered;
}

static const party *find(const parties *p, int64_t device) {
    size_t low = 0, high = p->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        *(p->all[middle].device <= device ? &low : &high) = middle;
    }
    /* D2 in docs/durability.md: each claim's device was gathered. */
    assert(p->all[low].device == device);
    return &p->all[low];
}

/* Apply rule 3 of weights.h: multiply all weights by the largest power of two with which their sum
 * fits. Each weight stays at least 1. */
static void scale(fedserver_contribution *contributions, size_t count, const parties *p,
                  fedserver_weights *weights) {
    double total = 0;
    for (size_t k = 0; k < p->count; k++) {
        total += p->all[k].weight * p->all[k].kept;
    }
    const double room = (double)(FEDCODEC_FOLD_WEIGHT - 1) - (double)count;
    int power = 0;
    (void)frexp(room / total, &power);
    power--;
    weights->weight = 0;
    for (size_t k = 0; k < count; k++) {
        fedserver_contribution *c = &contributions[k];
        const party *one = find(p, c->device);
        const double share = floor(ldexp((double)c->weight * one->kept, power));
        c->share = share >= 1 ? (uint32_t)share : 1;
        c->count = (uint32_t)floor((double)c->share * one->pulled);
        /* D3 in docs/durability.md: no update counts for more than its share of the divisor. */
        assert(c->share >= 1 && c->count <= c->share);
        weights->weight += c->share;
    }
    /* D3 in docs/durability.md: the integer sum can't overflow. */
    assert(weights->weight < (uint64_t)FEDCODEC_FOLD_WEIGHT);
}

static void take_as_claimed(fedserver_contribution *contributions, size_t count) {
    for (size_t k = 0; k < count; k++) {
        /* D3 in docs/durability.md: the weight fits into 32 bits. */
        assert(contributions[k].weight < (uint64_t)FEDCODEC_FOLD_WEIGHT);
        contributions[k].share = contributions[k].count = (uint32_t)contributions[k].weight;
    }
}

/* The mean loss of the updates that have one; NaN: none has. Each loss is limited, so that one
 * device's absurd loss does not become the round's loss.
 *
 * Losses are added as integers, like the values, so that no order changes a bit of the mean (D3 in
 * docs/durability.md). The unit is 2^-33 of the power of two above the largest loss. A weight is
 * an update's samples, or its share. All weights together are below 2^29 (FEDCODEC_FOLD_WEIGHT),
 * so the sum is below 2^62. */
static double mean_loss(const fedserver_contribution *contributions, size_t count, double *room,
                        bool as_claimed) {
    enum { TIMES = 100, FEWEST = 3, FRACTION = 33 };
    int64_t sum = 0;
    int64_t all = 0;
    int above = 0;
    size_t with = 0;
    for (size_t k = 0; k < count; k++) {
        if (!isnan(contributions[k].loss)) {
            room[with++] = fabs((double)contributions[k].loss);
        }
    }
    if (with == 0) {
        return NAN;
    }
    qsort(room, with, sizeof *room, descending);
    const double most = with >= FEWEST ? TIMES * room[with / 2] : INFINITY;
    (void)frexp(fmin(room[0], most), &above);
    for (size_t k = 0; k < count; k++) {
        if (isnan(contributions[k].loss)) {
            continue;
        }
        const int64_t weight = as_claimed ? contributions[k].samples : contributions[k].share;
        const double loss = fmax(-most, fmin((double)contributions[k].loss, most));
        sum += weight * (int64_t)rint(ldexp(loss, FRACTION - above));
        all += weight;
    }
    /* D3 in docs/durability.md: the integer sum can't overflow. */
    assert(all < FEDCODEC_FOLD_WEIGHT);
    return ldexp((double)sum, above - FRACTION) / (double)all;
}

static void name(const parties *p, fedserver_weights *weights) {
    const party *heaviest = &p->all[0], *furthest = &p->all[0];
    double all = 0;
    for (size_t k = 0; k < p->count; k++) {
        all += p->all[k].weight;
        heaviest = p->all[k].weight > heaviest->weight ? &p->all[k] : heaviest;
        furthest = p->all[k].reach > furthest->reach ? &p->all[k] : furthest;
    }
    weights->heaviest = heaviest->device;
    weights->heaviest_share = heaviest->weight / all;
    weights->heaviest_lowered = heaviest->kept < 1;
    weights->furthest = furthest->device;
    weights->furthest_norm = furthest->norm;
    weights->furthest_lowered = furthest->pulled < 1;
}

fed_status fedserver_weights_settle(fedserver_contribution *contributions, size_t count,
                                    double most, fedserver_weights *weights) {
    parties p = {0};
    uint64_t claimed = 0;
    assert(count > 0);
    fed_status status = gather(contributions, count, &p);
    if (status != FED_OK) {
        parties_free(&p);
        return status;
    }
    for (size_t k = 0; k < count; k++) {
        claimed += contributions[k].weight;
    }
    *weights = (fedserver_weights){.weight = claimed};
    weights->as_claimed = !lower(&p, most) && claimed < (uint64_t)FEDCODEC_FOLD_WEIGHT;
    if (weights->as_claimed) {
        take_as_claimed(contributions, count);
    } else {
        scale(contributions, count, &p, weights);
    }
    weights->loss = mean_loss(contributions, count, p.sorted, weights->as_claimed);
    name(&p, weights);
    parties_free(&p);
    return FED_OK;
}
