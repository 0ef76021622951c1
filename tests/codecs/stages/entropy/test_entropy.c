/* The second stage "entropy": few bytes if some bytes are frequent, never many more than before. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codecs/stage.h"
#include "fed/rng.h"

enum { N = 400000, CAP = 100000 };

static const fedcodec_stage *entropy(void) {
    const fedcodec_stage *stage = fedcodec_stage_by_id(3);
    assert_non_null(stage);
    assert_string_equal(stage->name, "entropy");
    return stage;
}

static size_t pack(const uint8_t *plain, size_t len) {
    static uint8_t packed[2 * CAP], back[CAP];
    assert_true(len <= CAP);
    size_t made = entropy()->pack(plain, len, packed, sizeof packed);
    assert_true(made > 0);
    assert_fed_ok(entropy()->unpack(packed, made, back, len));
    assert_memory_equal(back, plain, len);
    return made;
}

/* Encode x by 3lc and a second stage. Returns the number of bytes after that stage. *plain_len gets
 * the number before that stage. */
static size_t pack_3lc(const char *spec, const float *x, size_t *plain_len) {
    static float residual[N];
    static uint8_t message[CAP];
    fedcodec codec;
    memset(residual, 0, sizeof residual);
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    assert_fed_ok(
        fedcodec_encode(&codec, residual, x, N, NULL, message, sizeof message, plain_len));
    return pack(message, *plain_len);
}

/* Set a share of `sent` of all N values, at random places, to 1 or -1, and the others to 0. Returns
 * the number of values that are not 0. */
static size_t fill(float *x, double sent) {
    fed_rng rng;
    fed_rng_init(&rng, 5, 0, 0);
    size_t count = 0;
    for (size_t i = 0; i < N; i++) {
        float u = fed_rng_float(&rng);
        x[i] = (double)u >= sent ? 0.0f : (double)u < sent / 2 ? -1.0f : 1.0f;
        count += x[i] != 0.0f;
    }
    return count;
}

/* The entropy of N values of -1, 0 and 1, in bytes. count: number of values that are not 0. */
static double entropy_bytes(size_t count) {
    const double p = (double)count / N;
    return N * (-p * log2(p) - (1 - p) * log2(1 - p) + p) / 8;
}

FED_TEST(values_at_random_take_their_entropy_and_a_little) {
    static float x[N];
    static const double sent[] = {0.0001, 0.002, 0.02, 0.1, 0.3};
    for (size_t k = 0; k < sizeof sent / sizeof sent[0]; k++) {
        size_t plain_len, count = fill(x, sent[k]);
        size_t packed = pack_3lc("3lc:s=1", x, &plain_len);
        assert_true((double)packed <= 1.03 * entropy_bytes(count) + 100);
        assert_true(packed < plain_len);
    }
}

FED_TEST(equal_bytes_take_next_to_nothing) {
    static uint8_t plain[CAP];
    assert_true(pack(plain, sizeof plain) < CAP / 300);
    memset(plain, 255, sizeof plain);
    assert_true(pack(plain, sizeof plain) < CAP / 300);
}

FED_TEST(short_messages_take_few_bytes) {
    static const uint8_t one[] = {121}, two[] = {0xff, 0xff};
    assert_int_equal(pack(one, sizeof one), 2);
    assert_int_equal(pack(two, sizeof two), 3);
}

FED_TEST(bytes_at_random_grow_by_less_than_a_tenth) {
    static uint8_t plain[CAP];
    fed_rng rng;
    fed_rng_init(&rng, 6, 0, 0);
    for (size_t i = 0; i < sizeof plain; i++) {
        plain[i] = (uint8_t)fed_rng_below(&rng, 256);
    }
    assert_true(pack(plain, sizeof plain) < sizeof plain / 10 * 11);
}

FED_TEST(even_the_least_probable_bytes_take_three_at_most) {
    static uint8_t plain[300];
    memset(plain, 0, sizeof plain);
    for (size_t i = 250; i < sizeof plain; i++) {
        plain[i] = (uint8_t)(i % 2 ? 17 * (i % 16) : 0);
    }
    assert_true(pack(plain, sizeof plain) < 3 * (sizeof plain - 250));
}

/* AddressSanitizer sees writes past the room. */
FED_TEST(without_room_nothing_is_packed) {
    static const uint8_t plain[] = "A sentence that takes more bytes than there is room for.";
    uint8_t dst[64];
    size_t made = entropy()->pack(plain, sizeof plain, dst, sizeof dst);
    for (size_t cap = 0; cap < made; cap++) {
        uint8_t *small = malloc(cap + (cap == 0));
        assert_non_null(small);
        assert_int_equal(entropy()->pack(plain, sizeof plain, small, cap), 0);
        free(small);
    }
}

FED_TEST(missing_and_no_bytes_are_refused) {
    uint8_t dst[1000];
    assert_fed_status(entropy()->unpack((const uint8_t *)"", 0, dst, 1), FED_EFORMAT);
    assert_fed_status(entropy()->unpack((const uint8_t *)"", 0, dst, sizeof dst), FED_EFORMAT);
    assert_fed_status(entropy()->unpack((const uint8_t *)"a", 1, dst, sizeof dst), FED_EFORMAT);
}
