/* Measure what a private update costs its device, and what a round costs its helper: CPU time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fedserver/private_helper.h"

/*
 *     bench_private [FIELDS [WIDTH [DEVICES...]]]
 *
 * A device seals a seed and masks FIELDS fields of WIDTH bits (defaults: those of lenet5-caffe with
 * ring:b=5 and a goal of 400). Beside it are the operations that this is made of. Then a helper
 * opens a round of each number of DEVICES. What it remembers lies in memory.
 */

enum { TURNS = 50, SIZES = 8 };

typedef struct round_of {
    fed_private_terms terms;
    uint8_t secret[FED_POINT_SECRET];
    fedserver_sealed *devices;
} round_of;

static double now(void) {
    return bench_clock_s(CLOCK_THREAD_CPUTIME_ID);
}

static void *room(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    bench_require(memory != NULL ? FED_OK : FED_ENOMEM, "memory");
    return memory;
}

#define CPU(times, work)                                                                           \
    do {                                                                                           \
        const double start_ = now();                                                               \
        bench_require(work, #work);                                                                \
        (times)->s[(times)->count++] = now() - start_;                                             \
    } while (0)

static void measure_device(const round_of *r) {
    static bench_times seal, mask, pair, product, sign, check;
    const size_t n = (size_t)r->terms.fields;
    uint8_t seeds[FED_HELPERS][FED_SEED], secret[FED_POINT_SECRET], point[FED_POINT];
    uint8_t shared[FED_POINT_SECRET], signature[FED_SIGNATURE];
    uint8_t *fields = room(fed_private_packed(r->terms.width, n), 1);
    fed_private sealed;
    fed_pem key;
    fed_error err;
    bench_require(fed_key_new(&key, &err), "a key");
    for (int k = 0; k < TURNS; k++) {
        CPU(&seal, fed_private_seal(&r->terms, 7, &key, &sealed, seeds, &err));
        CPU(&pair, fed_point_new(secret, point, &err));
        CPU(&product, fed_point_product(secret, r->terms.privacy.helper_key[0], shared, &err));
        CPU(&sign, fed_key_sign(&key, "x", 1, signature, &err));
        CPU(&mask, fed_private_mask_packed(seeds[0], r->terms.width, fields, n));
        CPU(&check, fed_private_check(&sealed, 7, &err));
    }
    const double parts = bench_median_s(&pair) + bench_median_s(&product) + bench_median_s(&sign);
    printf("a device: seal and sign %.2f ms (a pair of keys, a product, a signature: %.2f ms), "
           "mask %.2f ms for %zu bytes\n",
           1e3 * bench_median_s(&seal), 1e3 * parts, 1e3 * bench_median_s(&mask),
           (size_t)fed_private_packed(r->terms.width, n));
    printf(
        "the coordinator: check a signature %.2f ms; bytes of an update beside its fields: %zu\n",
        1e3 * bench_median_s(&check), fed_private_bytes(1));
    free(fields);
}

/* Seal as many updates, each of a device of its own. */
static void seal_all(round_of *r, size_t from, size_t count) {
    fed_error err;
    for (size_t k = from; k < count; k++) {
        uint8_t seeds[FED_HELPERS][FED_SEED];
        fed_pem key;
        bench_require(fed_key_new(&key, &err), "a key");
        r->devices[k].lease = k + 1;
        bench_require(
            fed_private_seal(&r->terms, k + 1, &key, &r->devices[k].private_, seeds, &err),
            "a seal");
    }
}

static double open_once(round_of *r, size_t count) {
    fedserver_helper_options options = {.path = ":memory:", .least = 2};
    fedserver_helper *helper = NULL;
    fedserver_reply reply;
    fed_error err = {0};
    memcpy(options.secret, r->secret, sizeof options.secret);
    bench_require(fedserver_helper_open(&options, &helper, &err), "a helper");
    const fedserver_inquiry question = {r->terms, r->devices, count, 1};
    const double start = now();
    bench_require(fedserver_helper_answer(helper, &question, &reply, &err), "an opening");
    const double took = now() - start;
    bench_require(reply.word[0] == '\0' ? FED_OK : FED_ESTATE, reply.sentence);
    fedserver_reply_free(&reply);
    fedserver_helper_close(helper);
    return took;
}

static void measure_helper(round_of *r, const size_t *counts, size_t sizes) {
    double first = 0;
    for (size_t at = 0, made = 0; at < sizes; at++) {
        seal_all(r, made, counts[at]);
        made = counts[at] > made ? counts[at] : made;
        const double took = open_once(r, counts[at]), each = took / (double)counts[at];
        first = at == 0 ? each : first;
        printf("the helper: %zu devices, %zu masks: %.2f s, %.2f ms each, %.2f of the first\n",
               counts[at], counts[at], took, 1e3 * each, each / first);
    }
}

int main(int argc, char **argv) {
    size_t counts[SIZES] = {360}, sizes = 0, most = 0;
    round_of r = {.terms = {.task = 1, .round = 1, .codec_up = "ring:b=5", .width = 14}};
    fed_error err;
    r.terms.fields = argc > 1 ? strtoull(argv[1], NULL, 10) : 431104;
    r.terms.width = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 14;
    for (int k = 3; k < argc && sizes < SIZES; k++) {
        counts[sizes++] = (size_t)strtoull(argv[k], NULL, 10);
    }
    sizes = sizes > 0 ? sizes : 1;
    for (size_t k = 0; k < sizes; k++) {
        most = counts[k] > most ? counts[k] : most;
    }
    r.terms.privacy = (fed_privacy){.clip = 1,
                                    .minimum = 2,
                                    .goal = (uint32_t)most,
                                    .cohort = (uint32_t)most,
                                    .apart = 1,
                                    .helpers = 1};
    bench_require(fed_point_new(r.secret, r.terms.privacy.helper_key[0], &err), "a seal key");
    r.devices = room(most, sizeof *r.devices);
    measure_device(&r);
    measure_helper(&r, counts, sizes);
    free(r.devices);
    return 0;
}
