/* Tests of fedcodec/ring.h: fields that add up, the clip, and what the sum becomes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedcodec/ring.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/rng.h"
#include "fed_cases.h"
#include "fed_test.h"

static fed_status numbers(void *user, void *dst, size_t len) {
    fed_rng_fill(user, dst, len / 4);
    return FED_OK;
}

static fedcodec_ring ring_of(unsigned bits, double p, size_t n, uint32_t cohort) {
    const fed_privacy told = {.clip = 1, .minimum = 1, .goal = cohort, .cohort = cohort};
    fedcodec_ring ring = {.shape = fed_privacy_shape(&told, bits, p, n)};
    fed_privacy_draw(7, 3, ring.draw);
    return ring;
}

static float *values_of(size_t n, uint32_t who, double length) {
    fed_rng rng;
    double squares = 0;
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    fed_rng_init(&rng, 5, who, 0);
    for (size_t i = 0; i < n; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
        squares += (double)x[i] * (double)x[i];
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((double)x[i] * length / sqrt(squares));
    }
    return x;
}

static double encode(const fedcodec_ring *ring, const float *x, uint32_t who, uint8_t *dst) {
    fed_rng rng;
    double kept = 0;
    fed_rng_init(&rng, 99, who, 0);
    assert_fed_ok(fedcodec_ring_encode(ring, 1, x, numbers, &rng, dst, &kept));
    return kept;
}

static double distance(const float *a, const double *b, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        squares += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    }
    return sqrt(squares);
}

/* The mean of many messages is near the mean of the values, whatever their number. */
FED_TEST(the_mean_of_messages_is_the_mean_of_values) {
    static const size_t lengths[] = {1, 2, 63, 64, 65, 300, 1000, 1024, 5000};
    enum { DEVICES = 40 };
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        const size_t n = lengths[k];
        const fedcodec_ring ring = ring_of(8, 1, n, DEVICES);
        uint32_t *y = calloc(ring.shape.fields, sizeof *y);
        uint8_t *message = malloc(ring.shape.bytes);
        double *mean = calloc(n, sizeof *mean);
        float *change = malloc(n * sizeof *change);
        for (uint32_t who = 0; who < DEVICES; who++) {
            float *x = values_of(n, who, 0.9);
            assert_true(encode(&ring, x, who, message) == 1);
            assert_fed_ok(fedcodec_ring_check(&ring, message, ring.shape.bytes, NULL));
            fedcodec_ring_add(&ring, message, y);
            for (size_t i = 0; i < n; i++) {
                mean[i] += (double)x[i] / DEVICES;
            }
            free(x);
        }
        (void)fedcodec_ring_sums(&ring, y);
        fedcodec_ring_change(&ring, y, DEVICES, change);
        assert_true(distance(change, mean, n) < 0.03);
        free(y);
        free(message);
        free(mean);
        free(change);
    }
}

FED_TEST(a_long_update_is_scaled_down_to_the_clip) {
    enum { N = 3000 };
    const fedcodec_ring ring = ring_of(12, 1, N, 1);
    uint8_t *message = malloc(ring.shape.bytes);
    uint32_t *y = calloc(ring.shape.fields, sizeof *y);
    float *x = values_of(N, 1, 4), change[N];
    assert_true(fabs(encode(&ring, x, 1, message) - 0.25) < 1e-6);
    fedcodec_ring_add(&ring, message, y);
    assert_true(fedcodec_ring_sums(&ring, y) <= ring.shape.reach);
    fedcodec_ring_change(&ring, y, 1, change);
    double squares = 0;
    for (size_t i = 0; i < N; i++) {
        squares += (double)change[i] * (double)change[i];
    }
    assert_true(fabs(sqrt(squares) - 1) < 0.01);
    free(message);
    free(y);
    free(x);
}

FED_TEST(a_part_of_the_values_is_sent_and_the_rest_is_owed) {
    enum { N = 20000 };
    const fedcodec_ring ring = ring_of(10, 0.1, N, 1);
    uint8_t *message = malloc(ring.shape.bytes);
    uint32_t *y = calloc(ring.shape.fields, sizeof *y);
    float *x = values_of(N, 1, 1), *change = malloc(N * sizeof *change);
    (void)encode(&ring, x, 1, message);
    fedcodec_ring_add(&ring, message, y);
    (void)fedcodec_ring_sums(&ring, y);
    fedcodec_ring_change(&ring, y, 1, change);
    fedcodec_ring_settle(&ring, x);
    size_t sent = 0;
    for (size_t i = 0; i < N; i++) {
        sent += x[i] == 0;
        assert_true(x[i] == 0 || change[i] == 0); /* no value is both sent and owed */
    }
    assert_int_equal(sent, ring.shape.sent);
    free(message);
    free(y);
    free(x);
    free(change);
}

FED_TEST(masks_that_are_taken_off_leave_the_same_bits) {
    enum { N = 700 };
    const fedcodec_ring ring = ring_of(5, 1, N, 30);
    uint8_t *message = malloc(ring.shape.bytes), *mask = malloc(ring.shape.bytes);
    uint32_t *open = calloc(ring.shape.fields, sizeof *open);
    uint32_t *masked = calloc(ring.shape.fields, sizeof *masked);
    float *x = values_of(N, 1, 1);
    fed_rng rng;
    (void)encode(&ring, x, 1, message);
    fed_rng_init(&rng, 1, 1, 1);
    for (size_t i = 0; i < ring.shape.bytes; i++) {
        mask[i] = (uint8_t)fed_rng_u32(&rng);
    }
    fedcodec_ring_add(&ring, message, open);
    fedcodec_ring_add(&ring, message, masked);
    fedcodec_ring_add(&ring, mask, masked);
    fedcodec_ring_subtract(&ring, mask, masked);
    (void)fedcodec_ring_sums(&ring, open);
    (void)fedcodec_ring_sums(&ring, masked);
    assert_memory_equal(open, masked, ring.shape.fields * sizeof *open);
    free(message);
    free(mask);
    free(open);
    free(masked);
    free(x);
}

/* 130 % of the goal, each field at its largest level: the sum keeps its sign. */
FED_TEST(a_whole_cohort_of_extreme_levels_does_not_wrap) {
    for (unsigned bits = 2; bits <= 16; bits += 7) {
        const uint32_t cohort = 520;
        const fedcodec_ring ring = ring_of(bits, 1, 64, cohort);
        uint8_t *message = calloc(ring.shape.bytes + 8, 1);
        uint32_t y[64] = {0};
        for (int sign = 1; sign >= -1; sign -= 2) {
            memset(message, 0, ring.shape.bytes);
            for (unsigned i = 0; i < 64 * ring.shape.width; i++) {
                const uint32_t field = (uint32_t)(sign * ring.shape.most);
                const unsigned bit = field >> i % ring.shape.width & 1;
                message[i / 8] |= (uint8_t)(bit << i % 8);
            }
            memset(y, 0, sizeof y);
            for (uint32_t who = 0; who < cohort; who++) {
                fedcodec_ring_add(&ring, message, y);
            }
            (void)fedcodec_ring_sums(&ring, y);
            for (size_t i = 0; i < 64; i++) {
                assert_int_equal((int32_t)y[i], sign * (int32_t)cohort * ring.shape.most);
            }
        }
        free(message);
    }
}

FED_TEST(levels_that_no_device_sends_are_refused) {
    const fedcodec_ring ring = ring_of(5, 1, 64, 30);
    uint8_t *message = calloc(ring.shape.bytes + 1, 1);
    fed_error why = {0};
    assert_fed_ok(fedcodec_ring_check(&ring, message, ring.shape.bytes, &why));
    assert_fed_status(fedcodec_ring_check(&ring, message, ring.shape.bytes - 1, &why), FED_EFORMAT);
    assert_fed_status(fedcodec_ring_check(&ring, message, ring.shape.bytes + 1, &why), FED_EFORMAT);
    message[0] = 15;
    assert_fed_ok(fedcodec_ring_check(&ring, message, ring.shape.bytes, &why));
    message[0] = 16;
    assert_fed_status(fedcodec_ring_check(&ring, message, ring.shape.bytes, &why), FED_EFORMAT);
    assert_non_null(strstr(why.text, "field 0 has level 16"));
    for (unsigned i = 0; i < 64; i++) { /* 64 fields of level 15 are longer than any clip allows */
        for (unsigned bit = 0; bit < ring.shape.width; bit++) {
            const unsigned at = i * ring.shape.width + bit;
            message[at / 8] =
                (uint8_t)((message[at / 8] & ~(1U << at % 8)) | (bit < 4 ? 1U << at % 8 : 0));
        }
    }
    assert_fed_status(fedcodec_ring_check(&ring, message, ring.shape.bytes, &why), FED_EFORMAT);
    assert_non_null(strstr(why.text, "did not clip"));
    free(message);
}

/* The count of a message that is not masked. */
static int32_t count_of(const fedcodec_ring *ring, const uint8_t *message) {
    uint32_t *sums = calloc(ring->shape.all, sizeof *sums);
    assert_non_null(sums);
    fedcodec_ring_add(ring, message, sums);
    (void)fedcodec_ring_sums(ring, sums);
    const int32_t count = (int32_t)sums[ring->shape.fields];
    free(sums);
    return count;
}

/* It is 1 up to the clip, which is 1 here, and -1 beyond. The values' bytes are as without it. */
FED_TEST(a_count_says_whether_the_clip_shortened_the_update) {
    enum { N = 300, COHORT = 30 };
    static const double lengths[] = {0.1, 0.999, 1.001, 7};
    fed_privacy told = {.clip = 1, .minimum = 1, .goal = COHORT, .cohort = COHORT, .counted = true};
    fedcodec_ring ring = {.shape = fed_privacy_shape(&told, 5, 1, N)};
    const fedcodec_ring plain = ring_of(5, 1, N, COHORT);
    memcpy(ring.draw, plain.draw, sizeof ring.draw);
    assert_int_equal(ring.shape.all, ring.shape.fields + 1);
    assert_int_equal(ring.shape.bytes, plain.shape.bytes + (ring.shape.width + 7) / 8);
    uint8_t *message = malloc(ring.shape.bytes), *without = malloc(plain.shape.bytes);
    assert_true(message != NULL && without != NULL);
    for (uint32_t k = 0; k < 4; k++) {
        float *x = values_of(N, k, lengths[k]);
        (void)encode(&ring, x, k, message);
        (void)encode(&plain, x, k, without);
        assert_memory_equal(message, without, plain.shape.bytes);
        assert_fed_ok(fedcodec_ring_check(&ring, message, ring.shape.bytes, NULL));
        assert_int_equal(count_of(&ring, message), lengths[k] < 1 ? 1 : -1);
        free(x);
    }
    free(without);
    free(message);
}

FED_TEST(counts_that_no_device_sends_are_refused) {
    fed_privacy told = {.clip = 1, .minimum = 1, .goal = 30, .cohort = 30, .counted = true};
    fedcodec_ring ring = {.shape = fed_privacy_shape(&told, 5, 1, 64)};
    uint8_t *message = calloc(ring.shape.bytes, 1);
    uint8_t *count = message + ring.shape.bytes - 2;
    fed_error why = {0};
    assert_int_equal(ring.shape.width, 10); /* so the last 6 bits are unused */
    static const uint8_t counts[][2] = {{0, 0}, {2, 0}, {0xfe, 3}, {1, 2}, {1, 4}, {0xff, 0x83}};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        memcpy(count, counts[k], 2);
        assert_fed_status(fedcodec_ring_check(&ring, message, ring.shape.bytes, &why), FED_EFORMAT);
        assert_non_null(strstr(why.text, "neither 1 nor -1"));
    }
    memcpy(count, (uint8_t[]){1, 0}, 2);
    assert_fed_ok(fedcodec_ring_check(&ring, message, ring.shape.bytes, &why));
    memcpy(count, (uint8_t[]){0xff, 3}, 2);
    assert_fed_ok(fedcodec_ring_check(&ring, message, ring.shape.bytes, &why));
    free(message);
}

FED_TEST(values_that_are_not_finite_are_refused) {
    const fedcodec_ring ring = ring_of(5, 1, 100, 30);
    uint8_t *message = malloc(ring.shape.bytes);
    fed_rng rng;
    fed_rng_init(&rng, 1, 1, 1);
    for (int k = 0; k < 2; k++) {
        float x[100] = {0};
        x[77] = k == 0 ? NAN : INFINITY;
        assert_fed_status(fedcodec_ring_encode(&ring, 1, x, numbers, &rng, message, NULL),
                          FED_ENONFINITE);
    }
    free(message);
}

typedef struct draws {
    fed_rng rng;
    unsigned count;
} draws;

/* The first draw rounds everything up. */
static fed_status up_first(void *user, void *dst, size_t len) {
    draws *d = user;
    if (d->count++ > 0) {
        return numbers(&d->rng, dst, len);
    }
    memset(dst, 0xff, len);
    return FED_OK;
}

/* One value spreads to 64 equal ones, which are rounded up to 64 levels of 1, or to 0. */
FED_TEST(levels_that_are_too_long_are_drawn_anew) {
    const fedcodec_ring ring = ring_of(2, 1, 64, 30);
    uint8_t *message = malloc(ring.shape.bytes);
    unsigned most = 0;
    assert_true(ring.shape.reach < 8);
    for (int sign = -1; sign <= 1; sign += 2) {
        float x[64] = {(float)sign};
        draws d = {.count = 0};
        fed_rng_init(&d.rng, 1, 1, 1);
        assert_fed_ok(fedcodec_ring_encode(&ring, 1, x, up_first, &d, message, NULL));
        assert_fed_ok(fedcodec_ring_check(&ring, message, ring.shape.bytes, NULL));
        most = d.count > most ? d.count : most;
    }
    assert_int_equal(most, 2);
    free(message);
}

FED_TEST(ring_is_a_codec_of_tasks_and_not_of_envelopes) {
    fedcodec codec;
    char spec[FEDCODEC_SPEC];
    float x[3] = {1, 2, 3};
    uint8_t dst[8];
    size_t len = 0;
    assert_fed_ok(fedcodec_parse("ring", &codec, NULL));
    assert_true(fedcodec_is_ring(codec.vtable));
    fedcodec_format(&codec, spec);
    assert_string_equal(spec, "ring:b=5,p=1");
    assert_fed_status(fedcodec_encode(&codec, NULL, x, 3, NULL, dst, sizeof dst, &len), FED_EINVAL);
    assert_null(fedcodec_by_id(21)); /* no frame of an envelope has it */
    assert_fed_status(fedcodec_parse("ring:b=17", &codec, NULL), FED_EINVAL);
    assert_fed_status(fedcodec_parse("ring:p=0", &codec, NULL), FED_EINVAL);
}
