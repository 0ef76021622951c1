/* A coder's messages: their contents and lengths, and that no byte after a message is read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedclient/datacenter/coder.h"
#include "guarded.h"

/* Two shards. Tensors of fewer than SMALL values are sent uncompressed. */
enum { TENSORS = 6, SMALL = 8, SHARDS = 2 };
static const size_t tensor[TENSORS] = {40, 3, 90, 2, 5, 70};

static const char *const codecs[] = {"3lc:s=1", "float16", "int8"};
enum { CODECS = sizeof codecs / sizeof codecs[0] };

typedef struct side {
    feddc_plan plan;
    feddc_values values;
    feddc_coder *coder;
    float *x, *y; /* plan.n values each */
} side;

static void open_side(side *s, const char *codec) {
    fed_error err = {0};
    fed_rng rng;
    *s = (side){.coder = NULL};
    assert_fed_ok_err(feddc_plan_make(tensor, TENSORS, SMALL, 0, SHARDS, &s->plan, &err));
    assert_fed_ok_err(feddc_values_open(NULL, NULL, s->plan.n, &s->values, &err));
    assert_fed_ok_err(feddc_coder_new(codec, &s->plan, &s->values, &s->coder, &err));
    s->x = calloc(s->plan.n, sizeof *s->x);
    s->y = calloc(s->plan.n, sizeof *s->y);
    assert_true(s->x != NULL && s->y != NULL);
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < s->plan.n; i++) {
        s->x[i] = fed_rng_float(&rng) - 0.5f;
    }
}

static void close_side(side *s) {
    feddc_coder_free(s->coder);
    feddc_values_close(&s->values);
    feddc_plan_free(&s->plan);
    free(s->x);
    free(s->y);
}

static guarded encode(side *s, const feddc_shard *shard, size_t *len) {
    fed_error err = {0};
    guarded room = guarded_copy(NULL, feddc_coder_bound(s->coder, shard));
    assert_false(feddc_coder_is_raw(s->coder, shard, false));
    assert_fed_ok_err(
        feddc_coder_encode(s->coder, shard, false, s->x + shard->offset, room.data, len, &err));
    assert_in_range(*len, 1, room.len);
    return room;
}

static void assert_no_message(side *s, const feddc_shard *shard, bool plain, const uint8_t *src,
                              size_t len) {
    fed_error err = {0};
    guarded message = guarded_copy(src, len);
    float *y = s->y + shard->offset;
    assert_fed_status(feddc_coder_decode(s->coder, shard, plain, message.data, len, y, &err),
                      FED_EFORMAT);
    assert_fed_says(err, "a message of");
    assert_fed_status(feddc_coder_add(s->coder, shard, plain, message.data, len, y, &err),
                      FED_EFORMAT);
    if (!plain && feddc_coder_has_residual(s->coder)) {
        assert_fed_status(feddc_coder_take_back(s->coder, shard, message.data, len, &err),
                          FED_EFORMAT);
    }
    guarded_free(&message);
}

/* The length before each slice may point past the end of a truncated message. */
FED_TEST(a_message_that_was_cut_off_is_refused_and_not_read_beyond_its_end) {
    for (size_t k = 0; k < CODECS; k++) {
        side s;
        open_side(&s, codecs[k]);
        for (size_t i = 0; i < s.plan.buckets * (size_t)SHARDS; i++) {
            size_t len = 0;
            guarded whole = encode(&s, &s.plan.shard[i], &len);
            for (size_t cut = 0; cut < len; cut++) {
                assert_no_message(&s, &s.plan.shard[i], false, whole.data, cut);
            }
            guarded_free(&whole);
        }
        close_side(&s);
    }
}

FED_TEST(a_length_that_leads_out_of_the_message_is_refused) {
    static const uint32_t more[] = {1, 1000, UINT32_MAX / 2, UINT32_MAX - 1000};
    for (size_t k = 0; k < CODECS; k++) {
        side s;
        size_t len = 0;
        open_side(&s, codecs[k]);
        const feddc_shard *shard = &s.plan.shard[0];
        guarded whole = encode(&s, shard, &len);
        size_t at = 0;
        for (size_t i = 0; i < shard->count; i++) {
            uint32_t bytes;
            memcpy(&bytes, whole.data + at, sizeof bytes);
            for (size_t m = 0; m < sizeof more / sizeof more[0]; m++) {
                const uint32_t wrong = bytes + more[m];
                memcpy(whole.data + at, &wrong, sizeof wrong);
                assert_no_message(&s, shard, false, whole.data, len);
            }
            memcpy(whole.data + at, &bytes, sizeof bytes);
            at += sizeof bytes + bytes;
        }
        assert_int_equal(at, len);
        guarded_free(&whole);
        close_side(&s);
    }
}

FED_TEST(a_message_with_bytes_behind_it_is_refused) {
    for (size_t k = 0; k < CODECS; k++) {
        side s;
        size_t len = 0;
        uint8_t longer[4096] = {0};
        open_side(&s, codecs[k]);
        guarded whole = encode(&s, &s.plan.shard[1], &len);
        assert_true(len + 4 < sizeof longer);
        memcpy(longer, whole.data, len);
        assert_no_message(&s, &s.plan.shard[1], false, longer, len + 1);
        /* One more slice, which is empty. */
        assert_no_message(&s, &s.plan.shard[1], false, longer, len + 4);
        guarded_free(&whole);
        close_side(&s);
    }
}

FED_TEST(raw_values_of_another_number_are_refused) {
    side s;
    open_side(&s, "3lc:s=1");
    const feddc_shard *shard = &s.plan.shard[0];
    const uint8_t *bytes = (const uint8_t *)(s.x + shard->offset);
    const size_t len = shard->n * sizeof(float);
    assert_no_message(&s, shard, true, bytes, len - 1);
    assert_no_message(&s, shard, true, bytes, len - sizeof(float));
    assert_no_message(&s, shard, true, bytes, len + sizeof(float));
    assert_no_message(&s, shard, true, bytes, 0);
    close_side(&s);
}

FED_TEST(a_message_says_the_values_of_its_shard_and_no_others) {
    for (size_t k = 0; k < CODECS; k++) {
        side s;
        fed_error err = {0};
        open_side(&s, codecs[k]);
        for (size_t i = 0; i < s.plan.n; i++) {
            s.y[i] = 100;
        }
        const feddc_shard *shard = &s.plan.shard[1];
        size_t len = 0;
        guarded whole = encode(&s, shard, &len);
        guarded message = guarded_copy(whole.data, len);
        float *y = s.y + shard->offset;
        assert_fed_ok_err(feddc_coder_decode(s.coder, shard, false, message.data, len, y, &err));
        float *once = malloc(shard->n * sizeof *once);
        assert_non_null(once);
        memcpy(once, y, shard->n * sizeof *once);
        assert_fed_ok_err(feddc_coder_add(s.coder, shard, false, message.data, len, y, &err));
        for (size_t i = 0; i < s.plan.n; i++) {
            const bool inside = i >= shard->offset && i < shard->offset + shard->n;
            const float said = inside ? once[i - shard->offset] : 100;
            assert_true(s.y[i] == (inside ? 2 * said : said));
            assert_true(!inside || fabsf(said - s.x[i]) <= 0.5f);
        }
        for (size_t i = 0; i < shard->count; i++) { /* slices without a codec arrive bit for bit */
            const feddc_slice *slice = &s.plan.slice[shard->first + i];
            assert_true(!slice->plain ||
                        memcmp(once + (slice->offset - shard->offset), s.x + slice->offset,
                               slice->n * sizeof(float)) == 0);
        }
        free(once);
        guarded_free(&message);
        guarded_free(&whole);
        close_side(&s);
    }
}

FED_TEST(what_is_taken_back_is_in_the_residual_again) {
    side s;
    fed_error err = {0};
    open_side(&s, "3lc:s=1");
    const feddc_shard *shard = &s.plan.shard[0];
    size_t len = 0;
    float *residual = calloc(s.plan.n, sizeof *residual);
    assert_non_null(residual);
    guarded message = encode(&s, shard, &len);
    assert_fed_ok_err(feddc_coder_take_back(s.coder, shard, message.data, len, &err));
    assert_fed_ok_err(feddc_coder_save(s.coder, residual, &err));
    for (size_t i = 0; i < s.plan.n; i++) {
        const bool inside = i >= shard->offset && i < shard->offset + shard->n;
        assert_true(fabsf(residual[i] - (inside ? s.x[i] : 0)) < 1e-6f);
    }
    guarded_free(&message);
    message = encode(&s, shard, &len);
    assert_fed_ok_err(
        feddc_coder_decode(s.coder, shard, false, message.data, len, s.y + shard->offset, &err));
    assert_fed_ok_err(feddc_coder_save(s.coder, residual, &err));
    for (size_t i = shard->offset; i < shard->offset + shard->n; i++) {
        assert_true(fabsf(s.y[i] + residual[i] - 2 * s.x[i]) < 1e-5f);
    }
    free(residual);
    guarded_free(&message);
    close_side(&s);
}

FED_TEST(a_residual_that_was_saved_can_be_restored) {
    side s;
    fed_error err = {0};
    size_t len = 0, again = 0;
    open_side(&s, "3lc:s=1");
    float *residual = calloc(s.plan.n, sizeof *residual);
    assert_non_null(residual);
    const feddc_shard *shard = &s.plan.shard[0];
    guarded first = encode(&s, shard, &len);
    guarded_free(&first);
    assert_fed_ok_err(feddc_coder_save(s.coder, residual, &err));
    guarded second = encode(&s, shard, &len);
    assert_fed_ok_err(feddc_coder_restore(s.coder, residual, &err));
    guarded third = encode(&s, shard, &again);
    assert_int_equal(again, len);
    assert_memory_equal(second.data, third.data, len);
    guarded_free(&second);
    guarded_free(&third);
    free(residual);
    close_side(&s);
}

/* For a codec without residual, only the first of every sixteen encodes is examined. */
FED_TEST(values_that_became_zero_are_counted_now_and_then) {
    side s;
    size_t len = 0, coded = 0, slices = 0;
    open_side(&s, "stoch3");
    assert_false(feddc_coder_has_residual(s.coder));
    const feddc_shard *shard = &s.plan.shard[0];
    const feddc_slice *first = NULL;
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = &s.plan.slice[shard->first + k];
        first = first == NULL && !slice->plain ? slice : first;
        slices += !slice->plain;
    }
    assert_non_null(first);
    for (size_t i = 0; i < first->n; i++) { /* next to one large value the others become 0 */
        s.x[first->offset + i] = i == 0 ? 1000 : i == 1 ? 0 : 1e-9f;
    }
    for (size_t encodes = 0; encodes < 17 * slices; encodes += slices) {
        guarded message = encode(&s, shard, &len);
        guarded_free(&message);
        if (encodes == 0) {
            coded = feddc_coder_count(s.coder)->coded;
            assert_int_equal(coded, first->n);
            assert_int_equal(feddc_coder_count(s.coder)->zeroed, first->n - 2);
            assert_int_equal(feddc_coder_count(s.coder)->spread[0], 1);
            assert_int_equal(feddc_coder_count(s.coder)->spread[FEDDC_SPREAD - 1], first->n - 1);
        }
    }
    assert_in_range(feddc_coder_count(s.coder)->coded, coded + 1, 17 * coded / 2);
    close_side(&s);
}

FED_TEST(magnitudes_are_counted_by_powers_of_two) {
    static const float x[] = {INFINITY,       -3.0f,    1.0f,      -0x1.fffffep-1f, 0.5f,
                              0x1.fffffep-2f, 0x1p-15f, -0x1p-15f, 0x1p-16f,        0x1.fp-16f,
                              0.0f,           -0.0f,    0x1p-149f};
    uint64_t spread[FEDDC_SPREAD] = {0};
    feddc_spread_add(spread, x, sizeof x / sizeof x[0]);
    assert_int_equal(spread[0], 3);
    assert_int_equal(spread[1], 2);
    assert_int_equal(spread[2], 1);
    assert_int_equal(spread[15], 2);
    assert_int_equal(spread[16], 5);
}

FED_TEST(a_codec_with_a_second_stage_is_refused) {
    side s;
    fed_error err = {0};
    feddc_coder *coder = NULL;
    open_side(&s, "float16");
    assert_fed_status(feddc_coder_new("3lc:s=1+entropy", &s.plan, &s.values, &coder, &err),
                      FED_EINVAL);
    assert_fed_says(err, "leave out \"+entropy\"");
    assert_fed_status(feddc_coder_new("nonsense", &s.plan, &s.values, &coder, &err), FED_EINVAL);
    close_side(&s);
}

FED_TEST(a_gradient_that_is_not_finite_is_named) {
    side s;
    fed_error err = {0};
    size_t len = 0;
    char values[40];
    open_side(&s, "3lc:s=1");
    const feddc_shard *shard = &s.plan.shard[1];
    const feddc_slice *last = NULL;
    for (size_t k = 0; k < shard->count; k++) {
        const feddc_slice *slice = &s.plan.slice[shard->first + k];
        last = slice->plain ? last : slice;
    }
    assert_non_null(last);
    s.x[last->offset] = NAN;
    guarded room = guarded_copy(NULL, feddc_coder_bound(s.coder, shard));
    assert_fed_status(
        feddc_coder_encode(s.coder, shard, false, s.x + shard->offset, room.data, &len, &err),
        FED_ENONFINITE);
    snprintf(values, sizeof values, "values %zu to %zu", last->offset, last->offset + last->n - 1);
    assert_fed_says(err, values);
    guarded_free(&room);
    close_side(&s);
}
