/*
 * Measure the codec of compressing NICs (fedcodec/bursts.h), one packet at a time: speeds as
 * ratios to memcpy of as many values in the same rounds, and in Gbit/s of float32 on one core. The
 * output is Markdown.
 *
 *     bench_bursts [ROUNDS [E]]
 *
 * E, 1 to 15: values with magnitudes below 2^-E become 0. Packets have 1,448 or 65,280 bytes of
 * values.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "codecs/registry.h"
#include "fed/rng.h"
#include "fedcodec/bursts.h"

enum { VALUES = 1 << 20, SMALL = 362, LARGE = 16320 };

/* Random values with magnitudes from 2^-(scale + spread) to 2^(spread - scale). */
typedef struct kind {
    const char *name;
    float scale, spread;
} kind;

static const kind kinds[] = {{"nearly all under the bound", 15, 5},
                             {"one in four sent", 13, 6},
                             {"of all classes", 6, 6},
                             {"all of 16 bits", 2.5f, 1},
                             {"incompressible", -2, 1}};

typedef struct run {
    int e;
    size_t rounds, packet;
    float *x, *y;
    uint8_t *dst;
    size_t *len;
    size_t room; /* bytes of dst for each packet */
} run;

static void draw(const kind *k, float *x) {
    fed_rng rng;
    fed_rng_init(&rng, 22, 1, 1);
    for (size_t i = 0; i < VALUES; i++) {
        float power = k->spread * (2.0f * fed_rng_float(&rng) - 1.0f) - k->scale;
        x[i] = fed_rng_below(&rng, 2) ? exp2f(power) : -exp2f(power);
    }
}

static size_t packets(const run *r) {
    return VALUES / r->packet;
}

static void encode_all(const run *r, const fedcodec_burst_coder *coder) {
    for (size_t k = 0; k < packets(r); k++) {
        coder->encode(r->e, r->x + k * r->packet, r->packet, r->dst + k * r->room, r->room,
                      &r->len[k]);
    }
}

static void decode_all(const run *r, const fedcodec_burst_coder *coder) {
    for (size_t k = 0; k < packets(r); k++) {
        bench_require(
            coder->decode(r->dst + k * r->room, r->len[k], r->y + k * r->packet, r->packet),
            "decode");
    }
}

static void round_all(const run *r, const fedcodec_burst_coder *coder) {
    for (size_t k = 0; k < packets(r); k++) {
        coder->round(r->e, r->y + k * r->packet, r->y + k * r->packet, r->packet);
    }
}

static void copy_all(const run *r) {
    for (size_t k = 0; k < packets(r); k++) {
        memcpy(r->y + k * r->packet, r->x + k * r->packet, r->packet * sizeof *r->x);
    }
}

static void print_speed(double copy_s, double s, size_t values) {
    printf(" %5.2f | %6.1f |", copy_s / s, 32e-9 * (double)values / s);
}

static void bench_unit(run *r, const kind *k, const fedcodec_unit *unit) {
    const fedcodec_burst_coder *coder = unit->codecs[FEDCODEC_INDEX_inceptionn]->bursts;
    static bench_times copy, encode, decode, round;
    copy.count = encode.count = decode.count = round.count = 0;
    for (size_t i = 0; i < r->rounds; i++) {
        BENCH_TIME(&copy, copy_all(r));
        BENCH_TIME(&encode, encode_all(r, coder));
        BENCH_TIME(&decode, decode_all(r, coder));
        BENCH_TIME(&round, round_all(r, coder));
    }
    const size_t values = packets(r) * r->packet;
    size_t bytes = 0;
    for (size_t p = 0; p < packets(r); p++) {
        bytes += r->len[p];
    }
    const double copy_s = bench_median_s(&copy);
    printf("| %-26s | %6zu | %-6s | %5.2f |", k->name, r->packet, unit->name,
           8.0 * (double)bytes / (double)values);
    print_speed(copy_s, bench_median_s(&encode), values);
    print_speed(copy_s, bench_median_s(&decode), values);
    print_speed(copy_s, bench_median_s(&round), values);
    putchar('\n');
    fflush(stdout);
}

static void bench_packets(run *r) {
    r->room = fedcodec_bursts_bound(r->packet);
    r->dst = bench_alloc(packets(r) * r->room);
    r->len = bench_alloc(packets(r) * sizeof *r->len);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        draw(&kinds[k], r->x);
        const fedcodec_unit *unit;
        for (size_t u = 0; (unit = fedcodec_unit_at(u)) != NULL; u++) {
            bench_unit(r, &kinds[k], unit);
        }
    }
    free(r->dst);
    free(r->len);
}

int main(int argc, char **argv) {
    run r = {.rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 61,
             .e = argc > 2 ? atoi(argv[2]) : 10};
    if (r.rounds < 1 || r.rounds > BENCH_ROUNDS_MAX || r.e < 1 || r.e > 15) {
        fprintf(stderr, "usage: bench_bursts [ROUNDS, 1 to %d [E, 1 to 15]]\n", BENCH_ROUNDS_MAX);
        return 2;
    }
    r.x = bench_alloc(VALUES * sizeof *r.x);
    r.y = bench_alloc(VALUES * sizeof *r.y);
    printf("Ratio to memcpy, and Gbit/s of float32 on one core; e=%d, %d values, %zu rounds\n\n",
           r.e, VALUES, r.rounds);
    puts("| values                     | packet | unit   | bit/v | encode | Gbit/s | decode | "
         "Gbit/s | round | Gbit/s |\n"
         "|---|---|---|---|---|---|---|---|---|---|");
    for (size_t large = 0; large < 2; large++) {
        r.packet = large ? LARGE : SMALL;
        bench_packets(&r);
    }
    free(r.x);
    free(r.y);
    return 0;
}
