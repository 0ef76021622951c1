/* Golden rounds of the codec ring, vectors/ring: each device's message, and the change that the
 * coordinator makes of their sum. ring.py made them from docs/codec-formats.md. Files never
 * change. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fed/rng.h"
#include "fed_cases.h"
#include "fed_test.h"
#include "fedcodec/ring.h"

enum { MOST = 2000, FILE_MOST = 1 << 20 };

/* Move past the word, which must stand there, and the blank behind it. */
static const char *after(const char *at, const char *word) {
    assert_memory_equal(at, word, strlen(word));
    return at + strlen(word) + 1;
}

static const char *next_line(const char *at) {
    return strchr(at, '\n') + 1;
}

static uint64_t hex(const char *at, unsigned digits) {
    char text[17] = "";
    memcpy(text, at, digits);
    return strtoull(text, NULL, 16);
}

static const char *read_floats(const char *at, const char *word, float *x, size_t n) {
    at = after(at, word);
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)hex(at + 9 * i, 8);
        memcpy(&x[i], &bits, sizeof bits);
    }
    return next_line(at);
}

static fed_status numbers(void *user, void *dst, size_t len) {
    fed_rng_fill(user, dst, len / 4);
    return FED_OK;
}

static void check_message(const fedcodec_ring *ring, float clip, const float *x, fed_rng rng,
                          const char *golden, uint32_t *sums) {
    uint8_t *message = malloc(ring->shape.bytes), *wanted = malloc(ring->shape.bytes);
    char *text = strndup(golden, 2 * ring->shape.bytes);
    assert_true(message != NULL && wanted != NULL && text != NULL);
    assert_fed_ok(fed_unhex(text, wanted, ring->shape.bytes));
    assert_int_equal(golden[2 * ring->shape.bytes], '\n');
    assert_fed_ok(fedcodec_ring_encode(ring, clip, x, numbers, &rng, message, NULL));
    assert_memory_equal(message, wanted, ring->shape.bytes);
    assert_fed_ok(fedcodec_ring_check(ring, wanted, ring->shape.bytes, NULL));
    fedcodec_ring_add(ring, wanted, sums);
    free(message);
    free(wanted);
    free(text);
}

static void check_round(const char *name) {
    char path[512], *text = NULL;
    size_t len = 0;
    fed_error err = {0};
    static float x[MOST], change[MOST];
    unsigned long long round[7];
    snprintf(path, sizeof path, "%s/tests/vectors/ring/%s.txt", FED_SOURCE_DIR, name);
    assert_fed_ok_err(fed_file_read_text(path, FILE_MOST, &text, &len, &err));
    const char *at = after(text, "round");
    for (size_t k = 0; k < 7; k++) {
        char *end;
        round[k] = strtoull(at, &end, 10);
        at = end;
    }
    at = after(at + 1, "p");
    const uint64_t p_bits = hex(at, 16);
    at = after(next_line(at), "clip");
    const uint32_t clip_bits = (uint32_t)hex(at, 8);
    double p;
    float clip;
    memcpy(&p, &p_bits, sizeof p);
    memcpy(&clip, &clip_bits, sizeof clip);
    const size_t n = (size_t)round[1];
    const fed_privacy told = {.clip = clip, .cohort = (uint32_t)round[2]};
    fedcodec_ring ring = {.shape = fed_privacy_shape(&told, (unsigned)round[0], p, n)};
    fed_privacy_draw(round[3], (uint32_t)round[4], ring.draw);
    uint32_t *sums = calloc(ring.shape.fields, sizeof *sums);
    at = next_line(at);
    for (uint32_t device = 0; device < round[5]; device++) {
        fed_rng rng;
        fed_rng_init(&rng, round[6], device, 0);
        at = after(read_floats(at, "values", x, n), "message");
        check_message(&ring, clip, x, rng, at, sums);
        at = next_line(at);
    }
    (void)fedcodec_ring_sums(&ring, sums);
    fedcodec_ring_change(&ring, sums, (double)round[5], change);
    (void)read_floats(at, "change", x, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(change[i] == x[i]);
    }
    free(sums);
    free(text);
}

FED_TEST(golden_rounds_have_the_same_bytes_and_the_same_change) {
    static const char *const names[] = {"few", "blocks", "part", "wide"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        check_round(names[k]);
    }
}
