/* Contract of every codec of codecs.def for reading valid and invalid messages, on each vector
 * unit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <float.h>
#include <math.h>

#include "codec_contract.h"
#include "fed/rng.h"
#include "reference_codecs.h"

static void visit_truncation(const contract_message *m, const float *x) {
    (void)x;
    float *y = contract_values(FILL_LAPLACE, m->n), *before = contract_copy(y, m->n);
    for (size_t len = 0; len < m->len; len++) {
        uint8_t *cut = malloc(len + (len == 0));
        memcpy(cut, m->data, len);
        assert_fed_status(fedcodec_decode(m->codec.vtable, cut, len, y, m->n), FED_EFORMAT);
        free(cut);
    }
    assert_memory_equal(y, before, m->n * sizeof *y);
    free(y);
    free(before);
}

static void a_message_cut_anywhere_is_refused(void) {
    contract_each_message(97, visit_truncation);
}

static void visit_trailing(const contract_message *m, const float *x) {
    (void)x;
    float *y = contract_values(FILL_LAPLACE, m->n);
    uint8_t *longer = malloc(m->len + 1);
    memcpy(longer, m->data, m->len);
    for (unsigned byte = 0; byte < 256; byte++) {
        longer[m->len] = (uint8_t)byte;
        assert_fed_status(fedcodec_decode(m->codec.vtable, longer, m->len + 1, y, m->n),
                          FED_EFORMAT);
    }
    free(longer);
    free(y);
}

static void a_trailing_byte_is_refused(void) {
    contract_each_message(97, visit_trailing);
}

/* A changed message must be refused, or decode to the reference's values, at most max_abs. */
static void try_changed(const contract_message *m, const uint8_t *data) {
    float max_abs = -1.0f;
    float *y = contract_values(FILL_LAPLACE, m->n), *expected = contract_copy(y, m->n);
    const fedcodec_vtable *codec = m->codec.vtable;
    fed_status status = codec->check(data, m->len, m->n, &max_abs);
    assert_fed_status(fedcodec_decode(codec, data, m->len, y, m->n), status);
    if (status == FED_OK) {
        fed_reference_decode(codec, data, m->len, expected, m->n);
        float most = 0.0f;
        for (size_t i = 0; i < m->n; i++) {
            assert_true(y[i] == expected[i]);
            most = fmaxf(most, fabsf(y[i]));
        }
        assert_true(most == max_abs && isfinite(most));
    } else {
        assert_fed_status(status, FED_EFORMAT);
        assert_memory_equal(y, expected, m->n * sizeof *y);
        assert_true(max_abs == -1.0f);
    }
    free(y);
    free(expected);
}

static void visit_flips(const contract_message *m, const float *x) {
    (void)x;
    for (size_t bit = 0; bit < 8 * m->len; bit += FED_TEST_TRIES(1, 3)) {
        m->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_changed(m, m->data);
        m->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void a_flipped_bit_is_refused_or_decodes_within_bounds(void) {
    contract_each_message(67, visit_flips);
}

static void random_bytes_are_refused_or_decode_within_bounds(void) {
    fed_rng rng;
    fed_rng_init(&rng, 7, 0, 0);
    for (size_t c = 0; c < FEDCODEC_COUNT; c++) {
        for (int i = 0; i < FED_TEST_TRIES(20000, 5000); i++) {
            contract_message m = {.codec.vtable = contract_unit->codecs[c]};
            m.n = fed_rng_below(&rng, 40);
            m.len = fed_rng_below(&rng, 20);
            m.data = malloc(m.len + (m.len == 0));
            for (size_t k = 0; k < m.len; k++) {
                m.data[k] = (uint8_t)fed_rng_below(&rng, fed_rng_below(&rng, 2) ? 256 : 4);
            }
            try_changed(&m, m.data);
            free(m.data);
        }
    }
}

static void a_message_is_for_its_number_of_values_only(void) {
    fedcodec codec;
    float *x = contract_values(FILL_LAPLACE, 100), y[110];
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        contract_message m = contract_encode(&codec, x, 100);
        fed_status status = fedcodec_decode(codec.vtable, m.data, m.len, y, 1);
        /* Some messages fit any n. */
        assert_true(status == FED_EFORMAT ||
                    (codec.vtable->id == FEDCODEC_ID_randk && m.len == 9) ||
                    (codec.vtable->id == FEDCODEC_ID_threshold && m.len == 1));
        contract_drop(&m);
    }
    free(x);
}

static void visit_axpy(const contract_message *m, const float *x) {
    (void)x;
    float *decoded = contract_values(FILL_LAPLACE, m->n), *y = contract_values(FILL_TIED, m->n);
    float *before = contract_copy(y, m->n);
    assert_fed_ok(fedcodec_decode(m->codec.vtable, m->data, m->len, decoded, m->n));
    assert_fed_ok(fedcodec_axpy(m->codec.vtable, m->data, m->len, 0.37f, y, m->n));
    for (size_t i = 0; i < m->n; i++) {
        float product = 0.37f * decoded[i];
        float expected = before[i] + product;
        assert_true(y[i] == expected);
    }
    free(decoded);
    free(y);
    free(before);
}

static void axpy_adds_the_decoded_values(void) {
    contract_each_message(129, visit_axpy);
}

static void visit_fold(const contract_message *m, const float *x) {
    (void)x;
    float *decoded = contract_values(FILL_LAPLACE, m->n), max_abs = 0.0f;
    int64_t *acc = malloc((m->n + 1) * sizeof *acc);
    for (size_t i = 0; i < m->n; i++) {
        acc[i] = (int64_t)i - 50;
    }
    assert_fed_ok(fedcodec_decode(m->codec.vtable, m->data, m->len, decoded, m->n));
    assert_fed_ok(m->codec.vtable->check(m->data, m->len, m->n, &max_abs));
    bool fits = max_abs <= FEDCODEC_FOLD_LIMIT;
    assert_fed_status(fedcodec_fold(m->codec.vtable, m->data, m->len, 321, acc, m->n),
                      fits ? FED_OK : FED_ERANGE);
    for (size_t i = 0; i < m->n; i++) {
        int64_t added = fits ? 321 * (int64_t)rint(ldexp((double)decoded[i], 30)) : 0;
        assert_int_equal(acc[i], (int64_t)i - 50 + added);
    }
    free(acc);
    free(decoded);
}

static void fold_adds_the_rounded_values(void) {
    contract_each_message(129, visit_fold);
}

static void the_order_of_folds_does_not_matter(void) {
    enum { N = 64, MESSAGES = 5 };
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        static const contract_fill kinds[MESSAGES] = {FILL_LAPLACE, FILL_TIED, FILL_NEGATIVE,
                                                      FILL_SPARSE, FILL_DENORMAL};
        int64_t forth[N] = {0}, back[N] = {0};
        contract_message m[MESSAGES];
        for (int i = 0; i < MESSAGES; i++) {
            float *x = contract_values(kinds[i], N);
            m[i] = contract_encode(&codec, x, N);
            free(x);
            assert_fed_ok(fedcodec_fold(codec.vtable, m[i].data, m[i].len, 1000 + i, forth, N));
        }
        for (int i = MESSAGES; i-- > 0;) {
            assert_fed_ok(fedcodec_fold(codec.vtable, m[i].data, m[i].len, 1000 + i, back, N));
            contract_drop(&m[i]);
        }
        assert_memory_equal(forth, back, sizeof forth);
    }
}

static void fold_refuses_weights_and_values_that_could_overflow(void) {
    fedcodec codec;
    for (size_t k = 0; contract_codec(k, &codec); k++) {
        float fits[3] = {16.0f, -16.0f, 16.0f}, past[3] = {17.0f, 17.0f, 17.0f}, max_abs = 0.0f;
        int64_t acc[3] = {1, 2, 3};
        if (codec.vtable->id == FEDCODEC_ID_threelc) {
            fits[0] = fits[1] = fits[2] = (float)(16.0 / codec.param[0]) * 0.999f;
        }
        if (codec.vtable->id == FEDCODEC_ID_eden) {
            fits[0] = fits[1] = fits[2] = 8.0f;
        }
        contract_message m = contract_encode(&codec, fits, 3), n = contract_encode(&codec, past, 3);
        const fedcodec_vtable *v = codec.vtable;
        assert_fed_status(fedcodec_fold(v, m.data, m.len, 0, acc, 3), FED_ERANGE);
        assert_fed_status(fedcodec_fold(v, m.data, m.len, -1, acc, 3), FED_ERANGE);
        assert_fed_status(fedcodec_fold(v, m.data, m.len, FEDCODEC_FOLD_WEIGHT, acc, 3),
                          FED_ERANGE);
        /* twobit and trunc may send values smaller than `past`, which then fit */
        assert_fed_ok(v->check(n.data, n.len, 3, &max_abs));
        if (max_abs > FEDCODEC_FOLD_LIMIT) {
            assert_fed_status(fedcodec_fold(v, n.data, n.len, 1, acc, 3), FED_ERANGE);
        }
        assert_true(acc[0] == 1 && acc[1] == 2 && acc[2] == 3);
        assert_fed_ok(fedcodec_fold(v, m.data, m.len, FEDCODEC_FOLD_WEIGHT - 1, acc, 3));
        contract_drop(&m);
        contract_drop(&n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(a_message_cut_anywhere_is_refused),
        fed_unit_test(a_trailing_byte_is_refused),
        fed_unit_test(a_flipped_bit_is_refused_or_decodes_within_bounds),
        fed_unit_test(random_bytes_are_refused_or_decode_within_bounds),
        fed_unit_test(a_message_is_for_its_number_of_values_only),
        fed_unit_test(axpy_adds_the_decoded_values),
        fed_unit_test(fold_adds_the_rounded_values),
        fed_unit_test(the_order_of_folds_does_not_matter),
        fed_unit_test(fold_refuses_weights_and_values_that_could_overflow),
    };
    int failed = 0;
    for (size_t k = 0; (contract_unit = fedcodec_unit_at(k)) != NULL; k++) {
        failed += cmocka_run_group_tests_name(contract_unit->name, tests, NULL, NULL);
    }
    return failed;
}
