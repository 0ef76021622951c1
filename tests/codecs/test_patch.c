/* Patches: exact for any values, short if little has changed, and malformed ones are refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <float.h>
#include <math.h>

#include "fed/rng.h"
#include "fedcodec/patch.h"

enum { BLOCK = FEDCODEC_PATCH_BLOCK };

/* Make the patch from `from` (NULL: zeros) to `to`, and check that applying it gives exactly `to`.
 * The caller frees the patch's bytes. */
static fed_writer patch_of(const float *from, const float *to, size_t n) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u8(&w, 77); /* a byte that was in the writer before must stay */
    assert_fed_ok(fedcodec_patch_write(from, to, n, &w));
    assert_int_equal(w.data[0], 77);
    assert_true(w.len - 1 <= fedcodec_patch_bound(n));
    float *values = calloc(n + 1, sizeof *values);
    assert_non_null(values);
    if (from != NULL && n > 0) {
        memcpy(values, from, n * sizeof *values);
    }
    assert_fed_ok(fedcodec_patch_apply(w.data + 1, w.len - 1, values, n));
    assert_memory_equal(values, to, n * sizeof *values);
    free(values);
    return w;
}

static size_t patch_len(const float *from, const float *to, size_t n) {
    fed_writer w = patch_of(from, to, n);
    size_t len = w.len - 1;
    fed_writer_free(&w);
    return len;
}

static float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float any_float(fed_rng *rng) {
    float v;
    do {
        v = float_of(fed_rng_u32(rng));
    } while (!isfinite(v));
    return v;
}

typedef float (*maker)(fed_rng *rng);

static float weight(fed_rng *rng) {
    return (fed_rng_float(rng) - 0.5f) * (fed_rng_float(rng) - 0.5f);
}

static float special(fed_rng *rng) {
    static const float all[] = {0.0f,    -0.0f,    FLT_MAX, -FLT_MAX,        1e-45f, -1e-45f,
                                FLT_MIN, -FLT_MIN, 1.0f,    -0x1.fffffep-1f, 1e-40f, -3e38f};
    return all[fed_rng_below(rng, sizeof all / sizeof all[0])];
}

static float zero(fed_rng *rng) {
    (void)rng;
    return 0.0f;
}

static float *values_of(maker make, size_t n, uint32_t seed) {
    float *values = malloc((n + 1) * sizeof *values);
    fed_rng rng;
    assert_non_null(values);
    fed_rng_init(&rng, seed, 0, 0);
    for (size_t i = 0; i < n; i++) {
        values[i] = make(&rng);
    }
    return values;
}

FED_TEST(every_value_comes_out_to_the_bit) {
    static const size_t sizes[] = {0, 1, 2, 3, 7, 100, 1000, BLOCK - 1, BLOCK, BLOCK + 1};
    static const maker makers[] = {any_float, weight, special, zero};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t a = 0; a < 4; a++) {
            float *to = values_of(makers[a], sizes[s], 1);
            (void)patch_len(NULL, to, sizes[s]);
            for (size_t b = 0; b < 4; b++) {
                float *from = values_of(makers[b], sizes[s], 2);
                (void)patch_len(from, to, sizes[s]);
                free(from);
            }
            free(to);
        }
    }
}

FED_TEST(what_is_not_finite_is_not_written) {
    static const float wrong[] = {INFINITY, -INFINITY, NAN};
    float to[3] = {1.0f, 2.0f, 3.0f};
    for (size_t k = 0; k < 3; k++) {
        fed_writer w;
        fed_writer_growing(&w);
        to[2] = wrong[k];
        assert_fed_status(fedcodec_patch_write(NULL, to, 3, &w), FED_ENONFINITE);
        assert_int_equal(w.len, 0);
        fed_writer_free(&w);
    }
}

/* Of random weights, only the exponents can be compressed. */
FED_TEST(a_whole_model_takes_less_than_its_values) {
    enum { N = 3 * BLOCK / 2 };
    float *to = values_of(weight, N, 3);
    assert_in_range(patch_len(NULL, to, N), N * 4 * 80 / 100, N * 4 * 86 / 100);
    memset(to, 0, BLOCK * sizeof *to);
    assert_in_range(patch_len(NULL, to, N), N * 4 * 26 / 100, N * 4 * 29 / 100);
    free(to);
}

FED_TEST(small_changes_take_few_bits) {
    enum { N = BLOCK };
    float *from = values_of(weight, N, 4), *to = values_of(weight, N, 4);
    size_t whole = patch_len(from, to, N);
    assert_true(whole < 20);
    for (size_t i = 0; i < N; i++) {
        uint32_t bits;
        memcpy(&bits, &to[i], sizeof bits);
        to[i] = float_of(bits + (uint32_t)(i % 64));
    }
    assert_true(patch_len(from, to, N) < N * 10 / 8);
    free(from);
    free(to);
}

FED_TEST(rare_changes_cost_their_places) {
    enum { N = 4 * BLOCK };
    for (size_t every = 16; every <= 16384; every *= 4) {
        float *from = values_of(weight, N, 5), *to = values_of(weight, N, 5);
        fed_rng rng;
        double k = 0, places = log2((double)every) + 1.45;
        fed_rng_init(&rng, 6, 0, 0);
        for (size_t i = 0; i < N; i++) {
            if (fed_rng_below(&rng, (uint32_t)every) == 0) {
                uint32_t bits;
                memcpy(&bits, &to[i], sizeof bits);
                to[i] = float_of(bits + 1 + fed_rng_below(&rng, 1000));
                k++;
            }
        }
        double bits = 8.0 * (double)patch_len(from, to, N);
        assert_true(bits < k * (places + 11) * 1.03 + 4 * 8 * 60);
        free(from);
        free(to);
    }
}

FED_TEST(the_worst_takes_a_few_bytes_more_than_its_values) {
    enum { N = 2 * BLOCK };
    float *to = values_of(any_float, N, 7), *from = values_of(any_float, N, 8);
    assert_true(patch_len(from, to, N) <= 4 * N + 8);
    free(from);
    free(to);
}

/* Check that a patch of n values is refused. Its bytes are the way of coding, the length and the
 * body. */
static void assert_refused(const char *bytes, size_t len, size_t n) {
    float values[300] = {0};
    uint8_t *exact = malloc(len + 1);
    assert_non_null(exact);
    memcpy(exact, bytes, len);
    assert_fed_status(fedcodec_patch_apply(exact, len, values, n), FED_EFORMAT);
    free(exact);
}

#define REFUSED(bytes, n) assert_refused(bytes, sizeof(bytes) - 1, n)

FED_TEST(garbage_is_refused) {
    float y = 0;
    assert_fed_ok(fedcodec_patch_apply((const uint8_t *)"\0\4\2\0\0\0", 6, &y, 1));
    assert_true(y == 1e-45f);
    REFUSED("\0\4\2\0\0\0", 0);   /* a body, but no values */
    REFUSED("", 1);               /* no bytes for one value */
    REFUSED("\0", 1);             /* the length is missing */
    REFUSED("\0\4\2\0\0", 1);     /* the body is shorter than its length */
    REFUSED("\0\4\2\0\0\0\0", 1); /* a byte after the body */
    REFUSED("\0\5\2\0\0\0\0", 1); /* a length above that of one value */
    REFUSED("\0\3\2\0\0", 1);     /* a length below that of one value */
    REFUSED("\3\4\2\0\0\0", 1);   /* an unknown way of coding */
    REFUSED("\0\4\0\0\0\xff", 1); /* infinity */
    REFUSED("\0\4\1\0\0\xff", 1); /* minus infinity */
    REFUSED("\0\4\2\0\0\xff", 1); /* NaN */
    REFUSED("\1\0", 1);           /* the table of frequencies is missing */
    REFUSED("\2\3\0\0\0", 1);
    REFUSED("\2\4\0\0\0\0", 1);
    REFUSED("\0\x84\0\2\0\0\0", 1);               /* a length in a longer varint than necessary */
    REFUSED("\0\xff\xff\xff\xff\xff\xff\1\2", 1); /* a huge length */
}

FED_TEST(what_is_cut_off_or_longer_is_refused) {
    enum { N = 300 };
    float *to = values_of(weight, N, 9), values[N];
    fed_writer w = patch_of(NULL, to, N);
    assert_true(w.len - 1 < sizeof values);
    for (size_t len = 0; len < w.len - 1; len++) {
        assert_refused((const char *)w.data + 1, len, N);
    }
    assert_refused((const char *)w.data + 1, w.len - 1, N - 1);
    fed_write_u8(&w, 0);
    assert_refused((const char *)w.data + 1, w.len - 1, N);
    fed_writer_free(&w);
    free(to);
}
