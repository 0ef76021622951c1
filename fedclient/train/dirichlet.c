/* Splits by a Dirichlet distribution over the classes or over the clients, with the same result on
 * every machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/items.h"

#include <math.h>
#include <stdlib.h>

/* libm's log and exp may round differently between C libraries, and one different bit can send a
 * sample to another client. exact_log and exact_exp use additions, products, quotients, floor and
 * powers of 2 only, which IEEE 754 rounds alike everywhere. Their relative error is about 1e-15. */

/* log x, for a finite x > 0. x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh((m - 1)
 * / (m + 1)). */
static double exact_log(double x) {
    int e;
    double m = frexp(x, &e);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int k = 25; k >= 1; k -= 2) {
        sum = sum * square + 1.0 / k;
    }
    return 2 * s * sum + e * 0x1.62e42fefa39efp-1;
}

/* e^x, for x <= 0. x = k log 2 + r with |r| <= log(2) / 2; e^r comes from its Taylor series. */
static double exact_exp(double x) {
    if (x < -700) {
        return 0;
    }
    double k = floor(x / 0x1.62e42fefa39efp-1 + 0.5), r = x - k * 0x1.62e42fefa39efp-1, sum = 1;
    for (int i = 16; i >= 1; i--) {
        sum = 1 + sum * r / i;
    }
    return ldexp(sum, (int)k);
}

/* A uniform number in (0, 1): the middle of one of 2^52 equal pieces. */
static double draw_uniform(fed_rng *rng) {
    return ((double)(fed_rng_u64(rng) >> 12) + 0.5) * 0x1p-52;
}

/* A standard normal number, by Marsaglia's polar method. */
static double draw_normal(fed_rng *rng) {
    for (;;) {
        double u = 2 * draw_uniform(rng) - 1, v = 2 * draw_uniform(rng) - 1, s = u * u + v * v;
        if (s > 0 && s < 1) {
            return u * sqrt(-2 * exact_log(s) / s);
        }
    }
}

/* The logarithm of a Gamma(alpha, 1) number, which itself may be too small for a double: Marsaglia
 * and Tsang, "A simple method for generating gamma variables" (2000), section 6 for alpha < 1. */
static double draw_log_gamma(double alpha, fed_rng *rng) {
    double boost = 0;
    if (alpha < 1) {
        boost = exact_log(draw_uniform(rng)) / alpha;
        alpha += 1;
    }
    double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = draw_normal(rng), t = 1 + c * x, v = t * t * t;
        if (v > 0 && exact_log(draw_uniform(rng)) < x * x / 2 + d - d * v + d * exact_log(v)) {
            return exact_log(d * v) + boost;
        }
    }
}

/* Draw a mix of classes, or of clients: a Gamma number for each, divided by the largest. mix
 * double[parts] */
static void draw_mix(double *mix, uint32_t parts, double alpha, fed_rng *rng) {
    double top = -INFINITY;
    for (uint32_t c = 0; c < parts; c++) {
        mix[c] = draw_log_gamma(alpha, rng);
        top = mix[c] > top ? mix[c] : top;
    }
    for (uint32_t c = 0; c < parts; c++) {
        mix[c] = exact_exp(mix[c] - top);
    }
}

fed_status fedtrain_share_unequally(const fedtrain_partition *partition, size_t count, double alpha,
                                    fed_rng *rng) {
    const uint32_t clients = partition->clients;
    const size_t to_share = count - clients; /* beside one item each */
    double *mix = malloc(clients * sizeof *mix), all = 0, before = 0;
    FED_REQUIRE(mix != NULL, FED_ENOMEM);
    draw_mix(mix, clients, alpha, rng);
    for (uint32_t k = 0; k < clients; k++) {
        all += mix[k];
    }
    for (uint32_t k = 0; k < clients; k++) {
        partition->start[k] = k + (size_t)((double)to_share * (before / all));
        before += mix[k];
    }
    partition->start[clients] = count;
    free(mix);
    return FED_OK;
}

/* The samples left in each class c: pile[next[c]] to pile[end[c] - 1], in shuffled order. */
typedef struct piles {
    uint32_t *pile;
    size_t *next;
    const size_t *end;
    uint32_t classes;
} piles;

/* Draw one of the classes that have samples left, in proportion to mix. If mix is 0 for all of
 * them, draw in proportion to how many samples are left. */
static uint32_t draw_class(const piles *p, const double *mix, fed_rng *rng) {
    double by_mix = 0, by_size = 0;
    for (uint32_t c = 0; c < p->classes; c++) {
        size_t left = p->end[c] - p->next[c];
        by_mix += left > 0 ? mix[c] : 0;
        by_size += (double)left;
    }
    double at = draw_uniform(rng) * (by_mix > 0 ? by_mix : by_size);
    uint32_t last = 0;
    for (uint32_t c = 0; c < p->classes; c++) {
        size_t left = p->end[c] - p->next[c];
        double share = left == 0 ? 0 : by_mix > 0 ? mix[c] : (double)left;
        if (share > 0) {
            last = c;
            at -= share;
        }
        if (share > 0 && at < 0) {
            break;
        }
    }
    return last;
}

/* Deal one sample to each client in turn, so that running out of a class affects all clients
 * alike. */
static void deal_samples(const piles *p, const double *mix, size_t count, fed_rng *rng,
                         const fedtrain_partition *partition) {
    for (size_t i = 0; i < count; i++) {
        size_t client = i % partition->clients, place = i / partition->clients;
        uint32_t c = draw_class(p, mix + client * p->classes, rng);
        partition->index[partition->start[client] + place] = p->pile[p->next[c]++];
    }
}

fed_status fedtrain_split_dirichlet(const fedtrain_items *items, double alpha, fed_rng *rng,
                                    const fedtrain_partition *partition) {
    size_t classes = items->classes, clients = partition->clients;
    uint32_t *order = malloc(items->count * sizeof *order);
    size_t *start = malloc((classes + 1) * sizeof *start), *next = malloc(classes * sizeof *next);
    double *mix = malloc(clients * classes * sizeof *mix);
    fed_status status = FED_ENOMEM;
    if (order == NULL || start == NULL || next == NULL || mix == NULL) {
        goto done;
    }
    fedtrain_sort_by_label(items, order, start);
    for (size_t c = 0; c < classes; c++) {
        next[c] = start[c];
        fed_rng_shuffle(rng, order + start[c], start[c + 1] - start[c]);
    }
    for (size_t k = 0; k < clients; k++) {
        draw_mix(mix + k * classes, items->classes, alpha, rng);
    }
    fedtrain_share_evenly(partition, items->count);
    deal_samples(&(piles){order, next, start + 1, items->classes}, mix, items->count, rng,
                 partition);
    status = FED_OK;
done:
    free(order);
    free(start);
    free(next);
    free(mix);
    return status;
}
