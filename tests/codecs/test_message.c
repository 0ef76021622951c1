/* Whole messages: decoding, the errors of malformed ones, and second stages, which change no
 * value. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>

#include "envelope_case.h"
#include "fed_cases.h"

static void open_case(const envelope_case *f, fedcodec_message *m) {
    fed_error err = {0};
    assert_fed_ok_err(fedcodec_message_open(f->out.data, f->out.len, &f->layout, &f->codec,
                                            ENVELOPE_SMALL, m, &err));
}

/* Each function is called twice, to see that it leaves the message unchanged. */
FED_TEST(one_open_message_can_be_decoded_added_folded_and_measured) {
    static const char *const specs[] = {"float32",    "3lc:s=1.5",      "sbc:p=0.05",
                                        "stc:p=0.05", "3lc:s=1.9+runs", "inceptionn:e=8"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        envelope_case f;
        fedcodec_message m;
        fed_error err = {0};
        float y[ENVELOPE_SIZE], sum[ENVELOPE_SIZE];
        int64_t acc[ENVELOPE_SIZE] = {0};
        double norm = 0, squares = 0;
        envelope_case_open(&f, specs[k]);
        envelope_case_move_apart(&f);
        envelope_case_encode(&f);
        envelope_case_fill(sum, 9);
        open_case(&f, &m);
        for (size_t times = 0; times < 2; times++) {
            memset(y, 0xff, sizeof y);
            assert_fed_ok_err(fedcodec_message_decode(&m, y, &err));
            assert_fed_ok_err(fedcodec_message_axpy(&m, 0.5f, sum, &err));
            assert_fed_ok_err(fedcodec_message_fold(&m, 7, acc, &err));
            assert_fed_ok_err(fedcodec_message_norm(&m, &norm, &err));
        }
        envelope_case_fill(f.x, 9);
        float most = 0;
        for (size_t i = 0; i < ENVELOPE_SIZE; i++) {
            squares += (double)y[i] * (double)y[i];
            float expected = f.x[i] + 0.5f * y[i];
            assert_true(sum[i] == expected + 0.5f * y[i]);
            assert_int_equal(acc[i], 14 * (int64_t)rint(ldexp((double)y[i], 30)));
            most = fabsf(y[i]) > most ? fabsf(y[i]) : most;
        }
        assert_true(m.max_abs == most);
        assert_true(fabs(norm - sqrt(squares)) <= 1e-12 * norm);
        fedcodec_message_close(&m);
        envelope_case_close(&f);
    }
}

FED_TEST(decode_and_axpy_in_one_call_agree_with_the_open_message) {
    envelope_case f;
    fedcodec_message m;
    fed_error err = {0};
    float y[ENVELOPE_SIZE], same[ENVELOPE_SIZE];
    envelope_case_open(&f, "sbc:p=0.05");
    envelope_case_encode(&f);
    open_case(&f, &m);
    assert_fed_ok_err(fedcodec_message_decode(&m, y, &err));
    assert_fed_ok_err(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, same, &err));
    assert_memory_equal(y, same, sizeof y);
    assert_fed_ok_err(fedcodec_message_axpy(&m, -2.0f, y, &err));
    assert_fed_ok_err(fedcodec_envelope_axpy(f.out.data, f.out.len, &f.layout, -2.0f, same, &err));
    assert_memory_equal(y, same, sizeof y);
    fedcodec_message_close(&m);
    envelope_case_close(&f);
}

FED_TEST(a_message_that_was_refused_or_closed_can_be_closed) {
    envelope_case f;
    fedcodec_message m;
    envelope_case_open(&f, "3lc+runs");
    envelope_case_encode(&f);
    assert_fed_status(
        fedcodec_message_open(f.out.data, f.out.len - 1, &f.layout, NULL, 0, &m, NULL),
        FED_EFORMAT);
    fedcodec_message_close(&m);
    open_case(&f, &m);
    fedcodec_message_close(&m);
    fedcodec_message_close(&m);
    envelope_case_close(&f);
}

static void assert_check_says(const envelope_case *f, const fedcodec *codec, uint32_t small,
                              const char *part) {
    fed_error err = {0};
    float max_abs = -1.0f;
    assert_fed_status(
        fedcodec_envelope_check(f->out.data, f->out.len, &f->layout, codec, small, &max_abs, &err),
        FED_EFORMAT);
    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    }
    assert_true(max_abs == -1.0f);
}

/* Where data begins: after the envelope's head, and the frame's head of 1 + 2 + 1 bytes. */
enum { FIRST = 5, FIRST_DATA = FIRST + 4 };

FED_TEST(check_says_which_tensor_is_wrong) {
    envelope_case f;
    fedcodec sbc;
    envelope_case_open(&f, "3lc");
    envelope_case_encode(&f);
    assert_fed_ok(fedcodec_parse("sbc", &sbc, NULL));
    assert_check_says(&f, &sbc, ENVELOPE_SMALL, "tensor dense1.weight: sent as 3lc, expected sbc");
    assert_check_says(&f, &f.codec, 5, "groups tensors of under 100 values, expected under 5");
    assert_check_says(&f, &f.codec, 101, "groups tensors of under 100 values, expected under 101");
    assert_check_says(&f, &f.codec, 1, "groups tensors of under 100 values, expected under 0");
    f.layout.tensors[0].size = 601;
    assert_check_says(&f, NULL, 0, "dense1.weight: the message has 600 values, the model 601");
    f.layout.tensors[0].size = 600;
    f.layout.tensors[1].size = 8;
    assert_check_says(&f, NULL, 0,
                      "the group of small tensors: the message has 8 values, the model 9");
    f.layout.tensors[1].size = 100;
    assert_check_says(&f, NULL, 0, "the message has 2 frames, the model takes 3");
    f.layout.tensors[1].size = 7;
    f.out.data[f.out.len - 3] = 0xff; /* too many values */
    assert_check_says(&f, NULL, 0, "the group of small tensors: its");
    f.out.data[FIRST_DATA + 3] = 0xff; /* the magnitude becomes negative */
    assert_check_says(&f, NULL, 0, "tensor dense1.weight: its");
    f.out.data[FIRST] = 0x3f;
    assert_check_says(&f, NULL, 0, "tensor dense1.weight: unknown codec id 63");
    envelope_case_close(&f);
}

FED_TEST(the_group_must_be_of_the_codec_too) {
    envelope_case f, other;
    envelope_case_open(&f, "3lc");
    envelope_case_open(&other, "float32");
    envelope_case_encode(&f);
    envelope_case_encode(&other);
    fed_writer mixed = {0};
    fed_writer_growing(&mixed);
    fed_write_bytes(&mixed, f.out.data, FIRST_DATA + f.out.data[FIRST + 3]);
    fed_write_bytes(&mixed, other.out.data + other.out.len - 35, 35);
    fed_writer_free(&f.out);
    f.out = mixed;
    assert_check_says(&f, &f.codec, ENVELOPE_SMALL,
                      "the group of small tensors: sent as float32, expected 3lc");
    assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, NULL, 0, NULL, NULL));
    envelope_case_close(&other);
    envelope_case_close(&f);
}

FED_TEST(check_gives_the_largest_magnitude) {
    envelope_case f;
    float max_abs = 0.0f;
    envelope_case_open(&f, "3lc:s=1.5");
    f.x[ENVELOPE_SIZE - 1] = -7.0f - f.residual[ENVELOPE_SIZE - 1];
    envelope_case_encode(&f);
    assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec,
                                          ENVELOPE_SMALL, &max_abs, NULL));
    assert_true(fabsf(max_abs - 10.5f) < 1e-3f);
    envelope_case_close(&f);
}

FED_TEST(fold_has_limits) {
    envelope_case f;
    fedcodec_message m;
    fed_error err = {0};
    int64_t acc[ENVELOPE_SIZE] = {0};
    envelope_case_open(&f, "float32");
    f.x[3] = 17.0f;
    envelope_case_encode(&f);
    open_case(&f, &m);
    assert_fed_status(fedcodec_message_fold(&m, 1, acc, &err), FED_ERANGE);
    assert_non_null(strstr(err.text, "magnitude"));
    assert_fed_status(fedcodec_message_fold(&m, 0, acc, &err), FED_ERANGE);
    assert_non_null(strstr(err.text, "weight"));
    assert_int_equal(acc[0], 0);
    fedcodec_message_close(&m);
    envelope_case_close(&f);
}

FED_TEST(a_cut_or_longer_message_is_refused_and_y_untouched) {
    envelope_case f;
    float y[ENVELOPE_SIZE], before[ENVELOPE_SIZE];
    envelope_case_open(&f, "sbc:p=0.05");
    envelope_case_encode(&f);
    envelope_case_fill(y, 3);
    memcpy(before, y, sizeof y);
    for (size_t len = 0; len < f.out.len; len++) {
        uint8_t *cut = malloc(len + (len == 0));
        memcpy(cut, f.out.data, len);
        assert_fed_status(fedcodec_envelope_axpy(cut, len, &f.layout, 1.0f, y, NULL), FED_EFORMAT);
        free(cut);
    }
    fed_write_u8(&f.out, 0);
    fed_error err = {0};
    assert_fed_status(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, y, &err),
                      FED_EFORMAT);
    assert_string_equal(err.text, "1 bytes follow the envelope's last frame");
    assert_memory_equal(y, before, sizeof y);
    envelope_case_close(&f);
}

FED_TEST(a_flipped_bit_never_harms) {
    envelope_case f;
    float y[ENVELOPE_SIZE];
    envelope_case_open(&f, "sbc:p=0.02");
    envelope_case_encode(&f);
    for (size_t bit = 0; bit < 8 * f.out.len; bit++) {
        uint8_t *copy = malloc(f.out.len);
        memcpy(copy, f.out.data, f.out.len);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        fed_status status = fedcodec_envelope_decode(copy, f.out.len, &f.layout, y, NULL);
        assert_true(status == FED_OK || status == FED_EFORMAT || status == FED_EVERSION);
        free(copy);
    }
    envelope_case_close(&f);
}

FED_TEST(statistics_must_be_there_and_as_they_are) {
    envelope_case f;
    fed_error err = {0};
    float y[ENVELOPE_SIZE];
    envelope_case_open(&f, "onebit");
    f.layout.statistics = 1; /* the last tensor, scale, has running statistics */
    envelope_case_encode(&f);
    assert_fed_ok_err(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, y, &err));
    assert_true(y[ENVELOPE_SIZE - 1] == f.sum[ENVELOPE_SIZE - 1]);
    assert_true(y[ENVELOPE_SIZE - 2] != f.sum[ENVELOPE_SIZE - 2]);
    assert_true(f.residual[ENVELOPE_SIZE - 1] == 0);

    f.out.data[f.out.len - 7] = 2; /* the id of 3lc */
    assert_fed_status(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec,
                                              ENVELOPE_SMALL, NULL, &err),
                      FED_EFORMAT);
    assert_fed_says(err, "plain float32");
    f.layout.statistics = 0;
    assert_fed_status(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec,
                                              ENVELOPE_SMALL, NULL, &err),
                      FED_EFORMAT);
    assert_fed_says(err, "running statistics, the model none");
    envelope_case_close(&f);
}

/* A model's tensors, then control variates of the same shapes. */
enum { VARIATES = 2 * ENVELOPE_SIZE };

typedef struct variates_case {
    envelope_case of; /* its residual, x and out are not used */
    fedcodec codec[2];
    float x[VARIATES], residual[VARIATES], y[VARIATES];
    fed_writer out;
} variates_case;

static void variates_open(variates_case *v, const char *spec, const char *variates) {
    envelope_case_open(&v->of, spec);
    fed_layout *layout = &v->of.layout;
    assert_fed_ok(fed_layout_add(layout, "scaffold.dense1.weight", 2, (uint32_t[]){2, 300}));
    assert_fed_ok(fed_layout_add(layout, "scaffold.dense1.bias", 1, (uint32_t[]){7}));
    assert_fed_ok(fed_layout_add(layout, "scaffold.scale", 0, NULL));
    layout->controls = 3;
    assert_fed_ok(fedcodec_parse_pair(spec, variates, v->codec, NULL));
    envelope_case_fill(v->x, 3);
    envelope_case_fill(v->x + ENVELOPE_SIZE, 4);
    memset(v->residual, 0, sizeof v->residual);
    fed_writer_growing(&v->out);
    void *work = malloc(fedcodec_envelope_work_size(v->codec, layout, ENVELOPE_SMALL) + 1);
    assert_fed_ok(fedcodec_envelope_encode(v->codec, layout, ENVELOPE_SMALL, v->residual, v->x,
                                           work, &v->out));
    free(work);
    assert_true(v->out.len <= fedcodec_envelope_bound(v->codec, layout, ENVELOPE_SMALL));
}

static void variates_close(variates_case *v) {
    fed_writer_free(&v->out);
    envelope_case_close(&v->of);
}

static fed_status variates_check(const variates_case *v, const fedcodec *codec, fed_error *err) {
    *err = (fed_error){0};
    return fedcodec_envelope_check(v->out.data, v->out.len, &v->of.layout, codec, ENVELOPE_SMALL,
                                   NULL, err);
}

FED_TEST(control_variates_have_a_codec_of_their_own) {
    static variates_case v;
    fed_error err;
    variates_open(&v, "float32", "topk:p=0.1");
    assert_fed_ok_err(variates_check(&v, v.codec, &err));
    assert_fed_ok_err(fedcodec_envelope_decode(v.out.data, v.out.len, &v.of.layout, v.y, &err));
    size_t sent = 0;
    for (size_t i = 0; i < ENVELOPE_SIZE; i++) {
        assert_true(v.y[i] == v.x[i]);
        sent += v.y[ENVELOPE_SIZE + i] != 0;
    }
    assert_in_range(sent, 60, 64);
    for (size_t i = ENVELOPE_SIZE; i < VARIATES; i++) {
        assert_true(v.residual[i] == v.x[i] - v.y[i]);
    }
    variates_close(&v);
}

/* Nobody makes room for a longer update by calling a part of it control variates. */
FED_TEST(the_norm_is_without_control_variates) {
    static variates_case v;
    fedcodec_message m;
    fed_error err = {0};
    double norm = 0, squares = 0;
    variates_open(&v, "float32", "int8");
    assert_fed_ok_err(fedcodec_message_open(v.out.data, v.out.len, &v.of.layout, v.codec,
                                            ENVELOPE_SMALL, &m, &err));
    assert_fed_ok_err(fedcodec_message_norm(&m, &norm, &err));
    for (size_t i = 0; i < ENVELOPE_SIZE; i++) {
        squares += (double)v.x[i] * (double)v.x[i];
    }
    assert_true(fabs(norm - sqrt(squares)) < 1e-6);
    fedcodec_message_close(&m);
    variates_close(&v);
}

FED_TEST(control_variates_by_another_codec_are_refused) {
    static variates_case v;
    fedcodec other[2];
    fed_error err;
    variates_open(&v, "float32", "onebit");
    assert_fed_ok(fedcodec_parse_pair("float32", "", other, NULL));
    assert_fed_status(variates_check(&v, other, &err), FED_EFORMAT);
    assert_fed_says(err, "tensor scaffold.dense1.weight: sent as onebit, expected float32");
    assert_fed_ok(fedcodec_parse_pair("onebit", "onebit", other, NULL));
    assert_fed_status(variates_check(&v, other, &err), FED_EFORMAT);
    assert_fed_says(err, "tensor dense1.weight: sent as float32, expected onebit");
    v.of.layout.controls = 0;
    assert_fed_status(variates_check(&v, v.codec, &err), FED_EFORMAT);
    assert_fed_says(err, "coded control variates, the model none");
    variates_close(&v);
}

FED_TEST(damaged_control_variates_are_refused_whole) {
    static variates_case v;
    fed_error err;
    variates_open(&v, "float32", "float32");
    const float bad = NAN;
    memcpy(v.out.data + v.out.len - sizeof bad, &bad, sizeof bad);
    assert_fed_status(variates_check(&v, v.codec, &err), FED_EFORMAT);
    assert_fed_says(err, "the group of small control variates");
    for (size_t len = 0; len < v.out.len; len++) {
        float y[VARIATES] = {0};
        assert_fed_status(fedcodec_envelope_decode(v.out.data, len, &v.of.layout, y, NULL),
                          FED_EFORMAT);
        assert_true(y[0] == 0);
    }
    v.out.data[4]--; /* the number of frames */
    assert_fed_status(variates_check(&v, v.codec, &err), FED_EFORMAT);
    assert_fed_says(err, "control variates have other frames");
    variates_close(&v);
}

static const char *const staged[] = {"3lc:s=1.75+runs", "3lc:s=1.75+entropy", "3lc:s=1.75+zstd"};

static size_t staged_count(void) {
    fedcodec codec;
    return fedcodec_parse("3lc+zstd", &codec, NULL) == FED_OK ? 3 : 2;
}

/* The length of the envelope's head and of the frame's head if the only tensor is large. */
enum { HEADS = 5 + 1 + 3 + 2 };

FED_TEST(a_stage_changes_the_bytes_and_no_value) {
    large_case plain;
    large_case_encode(&plain, "3lc:s=1.75");
    const size_t plain_len = plain.out.len - HEADS;
    assert_fed_ok(
        fedcodec_envelope_decode(plain.out.data, plain.out.len, &plain.layout, plain.y, NULL));
    for (size_t k = 0; k < staged_count(); k++) {
        large_case l;
        fedcodec_message m;
        fed_error err = {0};
        int64_t *acc = calloc(LARGE, sizeof *acc);
        float *sum = calloc(LARGE, sizeof *sum);
        large_case_encode(&l, staged[k]);
        assert_true(4 * l.out.len < plain.out.len);
        assert_memory_equal(l.residual, plain.residual, LARGE * sizeof *l.residual);
        assert_fed_ok_err(
            fedcodec_message_open(l.out.data, l.out.len, &l.layout, &l.codec, 0, &m, &err));
        assert_int_equal(m.plain.len, plain_len);
        assert_fed_ok_err(fedcodec_message_decode(&m, l.y, &err));
        assert_memory_equal(l.y, plain.y, LARGE * sizeof *l.y);
        assert_fed_ok_err(fedcodec_message_axpy(&m, 1.0f, sum, &err));
        assert_memory_equal(sum, plain.y, LARGE * sizeof *sum);
        assert_fed_ok_err(fedcodec_message_fold(&m, 2, acc, &err));
        assert_true(acc[7] == INT64_C(7) << 29 && acc[LARGE / 2] == -acc[7] && acc[8] == 0);
        fedcodec_message_close(&m);
        free(acc);
        free(sum);
        large_case_close(&l);
    }
    large_case_close(&plain);
}

FED_TEST(a_stage_that_the_task_has_not_is_refused) {
    large_case l;
    fedcodec plain;
    fed_error err = {0};
    large_case_encode(&l, "3lc:s=1.75+runs");
    assert_fed_ok(fedcodec_parse("3lc:s=1.75", &plain, NULL));
    assert_fed_status(
        fedcodec_envelope_check(l.out.data, l.out.len, &l.layout, &plain, 0, NULL, &err),
        FED_EFORMAT);
    assert_non_null(
        strstr(err.text, "packed by second stage runs, which the codec's spec does not name"));
    assert_fed_ok(fedcodec_envelope_check(l.out.data, l.out.len, &l.layout, NULL, 0, NULL, &err));
    l.codec.stage = 4;
    assert_fed_status(
        fedcodec_envelope_encode(&l.codec, &l.layout, 0, l.residual, NULL, l.y, &l.out),
        FED_EINVAL);
    large_case_close(&l);
}

static fed_status decode_copy(const large_case *l, const uint8_t *data, size_t len) {
    uint8_t *copy = malloc(len + (len == 0));
    memcpy(copy, data, len);
    fed_status status = fedcodec_envelope_decode(copy, len, &l->layout, l->y, NULL);
    free(copy);
    return status;
}

FED_TEST(packed_messages_cut_or_flipped_do_no_harm) {
    for (size_t k = 0; k < staged_count(); k++) {
        large_case l;
        large_case_encode(&l, staged[k]);
        for (size_t len = 0; len < l.out.len; len++) {
            assert_fed_status(decode_copy(&l, l.out.data, len), FED_EFORMAT);
        }
        assert_true(l.y[7] == 0.0f);
        for (size_t bit = 0; bit < 8 * l.out.len; bit++) {
            l.out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            fed_status status = decode_copy(&l, l.out.data, l.out.len);
            assert_true(status == FED_OK || status == FED_EFORMAT || status == FED_EVERSION);
            l.out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        large_case_close(&l);
    }
}

/* Specs whose messages differ in length, or in what the receiver divides their norm by. */
static const char *const stretched[] = {"eden",
                                        "eden:bits=2",
                                        "eden:bucket=64",
                                        "eden:rotations=2",
                                        "eden:p=0.008",
                                        "eden:p=0.001",
                                        "eden:p=0.008,rotations=1",
                                        "eden:p=0.9",
                                        "eden:p=0.008,bucket=256",
                                        "eden:p=0.008,scale=tensor"};
enum { STRETCHED = sizeof stretched / sizeof stretched[0] };

/* Otherwise a device could send exact values where the coordinator takes most of an update's length
 * for noise. */
FED_TEST(a_message_of_other_parameters_than_the_tasks_is_refused) {
    for (size_t k = 0; k < STRETCHED; k++) {
        envelope_case f;
        fed_error err = {0};
        envelope_case_open(&f, stretched[k]);
        envelope_case_encode(&f);
        for (size_t wanted = 0; wanted < STRETCHED; wanted++) {
            fedcodec codec;
            assert_fed_ok(fedcodec_parse(stretched[wanted], &codec, NULL));
            assert_fed_status(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &codec,
                                                      ENVELOPE_SMALL, NULL, &err),
                              wanted == k ? FED_OK : FED_EFORMAT);
            if (wanted != k) {
                assert_fed_says(err, "made with other parameters of eden than expected");
            }
        }
        assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, NULL,
                                              ENVELOPE_SMALL, NULL, &err));
        envelope_case_close(&f);
    }
}

FED_TEST(parameters_that_only_the_sender_needs_may_differ) {
    static const char *const same[][2] = {{"eden", "eden:seed=7,rotations=1"},
                                          {"eden:p=0.008", "eden:p=0.009,seed=3,pos=golomb"}};
    for (size_t k = 0; k < 2; k++) {
        envelope_case f;
        fedcodec codec;
        fed_error err = {0};
        envelope_case_open(&f, same[k][1]);
        envelope_case_encode(&f);
        assert_fed_ok(fedcodec_parse(same[k][0], &codec, NULL));
        assert_fed_ok_err(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &codec,
                                                  ENVELOPE_SMALL, NULL, &err));
        envelope_case_close(&f);
    }
}
