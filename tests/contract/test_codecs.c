/* Contract of every codec of codecs.def for encoding, on each vector unit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_spec.h"
#include "fed_test.h"

#include <float.h>
#include <math.h>

#include "codec_contract.h"
#include "reference_codecs.h"

static float *make_nothing(size_t n) {
    float *nothing = malloc((n + 1) * sizeof *nothing);
    assert_non_null(nothing);
    for (size_t i = 0; i < n; i++) {
        /* adding -0 leaves every value unchanged, also 0 and -0 */
        nothing[i] = -0.0f;
    }
    return nothing;
}

static void assert_same(const contract_message *made, const contract_message *m, const char *what,
                        const char *how) {
    if (made->len != m->len || memcmp(made->data, m->data, m->len) != 0 ||
        memcmp(made->residual, m->residual, m->n * sizeof *m->residual) != 0) {
        fail_msg("%s: something else %s", what, how);
    }
}

/* Encode x with a residual of -0, guarded or not, and where possible without a residual. The
 * messages must be the same as m. */
static void assert_same_with_x(const contract_message *m, const float *x, const char *what) {
    fedcodec unguarded = m->codec;
    unguarded.unguarded = true;
    contract_message added = contract_encode_with(&m->codec, make_nothing(m->n), x, m->n);
    contract_message spent = contract_encode_with(&unguarded, make_nothing(m->n), x, m->n);
    assert_same(&added, m, what, "with x added to a residual of zeros");
    assert_same(&spent, m, what, "with x added to an unguarded residual of zeros");
    contract_drop(&spent);
    if (!fedcodec_needs_residual(m->codec.vtable)) {
        float *before = contract_copy(x, m->n);
        contract_message alone = contract_encode_with(&m->codec, NULL, x, m->n);
        if (alone.len != m->len || memcmp(alone.data, m->data, m->len) != 0) {
            fail_msg("%s: something else without a residual", what);
        }
        assert_memory_equal(x, before, m->n * sizeof *x);
        free(before);
        contract_drop(&alone);
    }
    contract_drop(&added);
}

typedef struct wanted {
    uint8_t *data;
    size_t len;
    float *residual, *decoded;
} wanted;

static void assert_same_on_unit(const fedcodec *codec, const float *x, size_t n,
                                const wanted *reference, const char *what) {
    contract_message m = contract_encode(codec, x, n);
    assert_same_with_x(&m, x, what);
    if (reference->len != m.len || memcmp(reference->data, m.data, m.len) != 0) {
        fail_msg("%s: %zu bytes differ from the reference's %zu", what, m.len, reference->len);
    }
    if (memcmp(reference->residual, m.residual, n * sizeof *x) != 0) {
        fail_msg("%s: the residual differs", what);
    }
    float *y = contract_copy(m.residual, n);
    assert_fed_ok(fedcodec_decode(codec->vtable, m.data, m.len, y, n));
    if (memcmp(y, reference->decoded, n * sizeof *y) != 0) {
        fail_msg("%s: the decoded values differ", what);
    }
    free(y);
    contract_drop(&m);
}

static void assert_same_as_reference(const fedcodec *codec, contract_fill kind, const float *x,
                                     size_t n) {
    char what[160], spec[FEDCODEC_SPEC];
    fedcodec_format(codec, spec);
    wanted reference = {.residual = contract_copy(x, n), .decoded = contract_copy(x, n)};
    reference.data = fed_reference_encode(codec, reference.residual, n, &reference.len);
    fed_reference_decode(codec->vtable, reference.data, reference.len, reference.decoded, n);
    const fedcodec_unit *each;
    for (size_t k = 0; (each = fedcodec_unit_at(k)) != NULL; k++) {
        fedcodec own = contract_on_unit(codec, each);
        snprintf(what, sizeof what, "%s, %s, %zu values, %s", each->name, spec, n,
                 contract_fill_names[kind]);
        assert_same_on_unit(&own, x, n, &reference, what);
    }
    free(reference.data);
    free(reference.residual);
    free(reference.decoded);
}

static void assert_all_same_as_reference(size_t n, unsigned stride) {
    for (contract_fill kind = n % stride; kind < CONTRACT_FILLS; kind += stride) {
        float *x = contract_values(kind, n);
        fedcodec codec;
        for (size_t k = 0; contract_codec(k, &codec); k++) {
            assert_same_as_reference(&codec, kind, x, n);
        }
        free(x);
    }
}

static void bytes_residual_and_values_are_the_references(void) {
    static const size_t lengths[] = {127, 128, 255, 256, 257, 1000, 5119, 5120, 5121, 8192, 8193};
    for (size_t n = 0; n <= 70; n++) {
        assert_all_same_as_reference(n, FED_TEST_TRIES(1, 4));
    }
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_all_same_as_reference(lengths[i], FED_TEST_TRIES(1, 4));
    }
}

static void a_large_tensor_is_coded_as_the_reference_does(void) {
    assert_all_same_as_reference(70003, FED_TEST_TRIES(1, CONTRACT_FILLS));
}

static void parts_of_a_tensor_make_the_same_message(void) {
    const size_t stride = FED_TEST_TRIES(1, 4);
    static const size_t lengths[] = {40, 32768, 65521, 100003, 200000};
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        for (size_t i = k % stride; i < sizeof lengths / sizeof lengths[0]; i += stride) {
            contract_fill kind = (contract_fill)((k + i) % CONTRACT_FILLS);
            const fed_pool pool = {.width = 2 + (k + i) % 6, .run = contract_run_backwards};
            float *x = contract_values(kind, lengths[i]);
            fedcodec parted = codec;
            parted.pool = &pool;
            char what[120], spec[FEDCODEC_SPEC];
            fedcodec_format(&codec, spec);
            snprintf(what, sizeof what, "%s, %s, %zu values, %s, pool of %zu", contract_unit->name,
                     spec, lengths[i], contract_fill_names[kind], pool.width);
            contract_message whole = contract_encode(&codec, x, lengths[i]),
                             m = contract_encode(&parted, x, lengths[i]);
            if (m.len != whole.len || memcmp(m.data, whole.data, m.len) != 0 ||
                memcmp(m.residual, whole.residual, m.n * sizeof *x) != 0) {
                fail_msg("%s: not what one thread makes", what);
            }
            assert_same_with_x(&m, x, what);
            contract_drop(&m);
            contract_drop(&whole);
            free(x);
        }
    }
}

static void visit_conservation(const contract_message *m, const float *x) {
    float *y = contract_values(FILL_LAPLACE, m->n);
    assert_fed_ok(fedcodec_decode(m->codec.vtable, m->data, m->len, y, m->n));
    for (size_t i = 0; i < m->n; i++) {
        float left = x[i] - y[i];
        assert_true(m->residual[i] == (m->codec.vtable->feedback ? left : 0.0f));
    }
    free(y);
}

static void residual_is_what_was_not_sent(void) {
    contract_each_message(333, visit_conservation);
}

static void visit_unguarded(const contract_message *m, const float *x) {
    fedcodec unguarded = m->codec;
    unguarded.unguarded = true;
    contract_message alike = contract_encode(&unguarded, x, m->n);
    assert_same(&alike, m, unguarded.vtable->name, "from an unguarded residual");
    contract_drop(&alike);
}

static void an_unguarded_residual_makes_the_same_message(void) {
    contract_each_message(333, visit_unguarded);
}

static void x_is_added_to_the_residual_first(void) {
    enum { N = 300 };
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        float *residual = contract_values(FILL_LAPLACE, N), *x = contract_values(FILL_TIED, N);
        float *sum = contract_copy(residual, N);
        for (size_t i = 0; i < N; i++) {
            sum[i] += x[i];
        }
        contract_message expected = contract_encode(&codec, sum, N);
        uint8_t *dst = malloc(fedcodec_bound(&codec, N));
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        size_t len;
        assert_fed_ok(
            fedcodec_encode(&codec, residual, x, N, work, dst, fedcodec_bound(&codec, N), &len));
        assert_int_equal(len, expected.len);
        assert_memory_equal(dst, expected.data, len);
        assert_memory_equal(residual, expected.residual, N * sizeof *residual);
        contract_drop(&expected);
        free(residual);
        free(x);
        free(sum);
        free(dst);
        free(work);
    }
}

static void feedback_sends_everything_in_the_end(void) {
    enum { N = 200, ROUNDS = 400 };
    for (size_t k = 0; k < FEDCODEC_COUNT; k++) {
        fedcodec codec = contract_parse(codec_spec_of(contract_unit->codecs[k]));
        float *x = contract_values(FILL_LAPLACE, N);
        for (size_t i = 0; i < N; i++) {
            x[i] *= 8.0f;
        }
        float *residual = contract_copy(x, N);
        double start = 0.0, end = 0.0;
        for (int round = 0; round < ROUNDS; round++) {
            contract_message m = contract_encode(&codec, residual, N);
            memcpy(residual, m.residual, N * sizeof *residual);
            contract_drop(&m);
        }
        for (size_t i = 0; i < N; i++) {
            start += fabs((double)x[i]);
            end += fabs((double)residual[i]);
        }
        assert_true(end < 0.2 * start);
        free(x);
        free(residual);
    }
}

static void nan_and_infinity_are_refused_and_nothing_changes(void) {
    enum { N = 100 };
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX};
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        float *residual = contract_values(FILL_LAPLACE, N), *x = contract_values(FILL_TIED, N);
        residual[77] = FLT_MAX;
        float *before = contract_copy(residual, N);
        size_t cap = fedcodec_bound(&codec, N), len = 12345;
        uint8_t *dst = calloc(cap, 1);
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            x[77] = bad[i];
            assert_fed_status(fedcodec_encode(&codec, residual, x, N, work, dst, cap, &len),
                              FED_ENONFINITE);
            assert_memory_equal(residual, before, N * sizeof *before);
            assert_int_equal(len, 12345);
        }
        residual[3] = NAN;
        assert_fed_status(fedcodec_encode(&codec, residual, NULL, N, work, dst, cap, &len),
                          FED_ENONFINITE);
        if (!fedcodec_needs_residual(codec.vtable)) {
            assert_fed_status(fedcodec_encode(&codec, NULL, residual, N, work, dst, cap, &len),
                              FED_ENONFINITE);
        } else {
            assert_fed_status(fedcodec_encode(&codec, NULL, x, N, work, dst, cap, &len),
                              FED_EINVAL);
        }
        assert_int_equal(len, 12345);
        free(residual);
        free(x);
        free(before);
        free(dst);
        free(work);
    }
}

static void nan_in_any_part_is_found(void) {
    enum { N = 70000 };
    const fed_pool pool = {.width = 4, .run = contract_run_backwards};
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        codec.pool = &pool;
        float *residual = contract_values(FILL_LAPLACE, N), *x = contract_values(FILL_TIED, N);
        float *before = contract_copy(residual, N);
        size_t cap = fedcodec_bound(&codec, N), len;
        uint8_t *dst = malloc(cap);
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        for (size_t at = 0; at < N; at += 17471) {
            float good = x[at];
            x[at] = NAN;
            assert_fed_status(fedcodec_encode(&codec, residual, x, N, work, dst, cap, &len),
                              FED_ENONFINITE);
            assert_memory_equal(residual, before, N * sizeof *before);
            if (!fedcodec_needs_residual(codec.vtable)) {
                assert_fed_status(fedcodec_encode(&codec, NULL, x, N, work, dst, cap, &len),
                                  FED_ENONFINITE);
            }
            x[at] = good;
        }
        free(residual);
        free(x);
        free(before);
        free(dst);
        free(work);
    }
}

static void an_unguarded_residual_is_refused_too(void) {
    enum { N = 70000 };
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    const fed_pool pool = {.width = 4, .run = contract_run_backwards};
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        codec.unguarded = true;
        float *before = contract_values(FILL_LAPLACE, N), *x = contract_values(FILL_TIED, N);
        float *residual = contract_copy(before, N);
        size_t cap = fedcodec_bound(&codec, N), len = 12345;
        uint8_t *dst = malloc(cap);
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        for (size_t i = 0; i < 4; i++) {
            const size_t at = i * 17471 + 5;
            codec.pool = i % 2 == 0 ? &pool : NULL;
            memcpy(residual, before, N * sizeof *residual);
            residual[at] = bad[i];
            assert_fed_status(fedcodec_encode(&codec, residual, NULL, N, work, dst, cap, &len),
                              FED_ENONFINITE);
            float good = x[at];
            memcpy(residual, before, N * sizeof *residual);
            x[at] = bad[i];
            assert_fed_status(fedcodec_encode(&codec, residual, x, N, work, dst, cap, &len),
                              FED_ENONFINITE);
            x[at] = good;
        }
        assert_int_equal(len, 12345);
        free(before);
        free(residual);
        free(x);
        free(dst);
        free(work);
    }
}

/* Is residual[at] still not finite, and is no other value near the largest float? */
static void assert_spread_nowhere(const float *residual, size_t n, size_t at, const char *name) {
    assert_true(!isfinite(residual[at]));
    for (size_t i = 0; i < n; i++) {
        if (i != at && !(fabsf(residual[i]) < 1e6f)) {
            fail_msg("%s: value %zu becomes %g", name, i, (double)residual[i]);
        }
    }
}

static void refuse_twice(const fedcodec *codec, const float *before, const float *x, size_t n,
                         size_t at) {
    const size_t cap = fedcodec_bound(codec, n);
    float *residual = contract_copy(before, n);
    uint8_t *dst = malloc(cap);
    void *work = malloc(fedcodec_work_size(codec, n) + 1);
    for (int i = 0; i < 2; i++) {
        size_t len = 12345;
        assert_fed_status(fedcodec_encode(codec, residual, x, n, work, dst, cap, &len),
                          FED_ENONFINITE);
        assert_int_equal(len, 12345);
        assert_spread_nowhere(residual, n, at, codec->vtable->name);
    }
    if (x == NULL) {
        assert_memory_equal(residual, before, n * sizeof *before);
    }
    free(residual);
    free(dst);
    free(work);
}

static void a_residual_that_is_not_finite_is_refused_and_spreads_nothing(void) {
    enum { N = 33001 };
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    const size_t at[] = {0, N / 2, N - 1};
    const fed_pool pool = {.width = 2, .run = contract_run_backwards};
    fedcodec codec;
    float *residual = contract_values(FILL_LAPLACE, N), *x = contract_values(FILL_TIED, N);
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        for (size_t i = 0; i < 12; i++) {
            const size_t place = at[i % 3];
            const float good = residual[place];
            codec.pool = i % 2 == 0 ? &pool : NULL;
            residual[place] = bad[i / 3];
            refuse_twice(&codec, residual, x, N, place);
            refuse_twice(&codec, residual, NULL, N, place);
            residual[place] = good;
        }
    }
    free(residual);
    free(x);
}

static void too_small_a_buffer_is_refused_and_nothing_changes(void) {
    enum { N = 100 };
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        float *residual = contract_values(FILL_LAPLACE, N);
        float *before = contract_copy(residual, N);
        size_t cap = fedcodec_bound(&codec, N), len = 12345;
        uint8_t *dst = malloc(cap);
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        assert_fed_status(fedcodec_encode(&codec, residual, before, N, work, dst, cap - 1, &len),
                          FED_ENOSPC);
        assert_memory_equal(residual, before, N * sizeof *before);
        assert_int_equal(len, 12345);
        free(residual);
        free(before);
        free(dst);
        free(work);
    }
}

static void parameters_out_of_range_are_refused(void) {
    float residual[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    uint8_t dst[64];
    uint64_t work[8192];
    size_t len;
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        const fedcodec_param *param = codec.vtable->params;
        for (size_t i = 0; param[i].key != NULL; i++) {
            const double bad[] = {param[i].low > 0.0 ? param[i].low * 0.99 : -1.0,
                                  param[i].high * 1.01, (double)NAN};
            for (size_t j = 0; j < 3; j++) {
                fedcodec wrong = codec;
                wrong.param[i] = bad[j];
                assert_fed_status(
                    fedcodec_encode(&wrong, residual, NULL, 4, work, dst, sizeof dst, &len),
                    FED_EINVAL);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest of_all_units[] = {
        fed_unit_test(bytes_residual_and_values_are_the_references),
        fed_unit_test(a_large_tensor_is_coded_as_the_reference_does),
    };
    const struct CMUnitTest tests[] = {
        fed_unit_test(parts_of_a_tensor_make_the_same_message),
        fed_unit_test(residual_is_what_was_not_sent),
        fed_unit_test(an_unguarded_residual_makes_the_same_message),
        fed_unit_test(x_is_added_to_the_residual_first),
        fed_unit_test(feedback_sends_everything_in_the_end),
        fed_unit_test(nan_and_infinity_are_refused_and_nothing_changes),
        fed_unit_test(nan_in_any_part_is_found),
        fed_unit_test(an_unguarded_residual_is_refused_too),
        fed_unit_test(a_residual_that_is_not_finite_is_refused_and_spreads_nothing),
        fed_unit_test(too_small_a_buffer_is_refused_and_nothing_changes),
        fed_unit_test(parameters_out_of_range_are_refused),
    };
    contract_unit = fedcodec_unit_at(0);
    int failed = cmocka_run_group_tests_name("all units", of_all_units, NULL, NULL);
    for (size_t k = 0; (contract_unit = fedcodec_unit_at(k)) != NULL; k++) {
        failed += cmocka_run_group_tests_name(contract_unit->name, tests, NULL, NULL);
    }
    return failed;
}
