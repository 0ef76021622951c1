/* Envelopes: layout of the bytes, all-or-nothing encoding, and what is refused. */
#include "fed_test.h"

#include <math.h>
#include <stdbool.h>

#include "fed/rng.h"
#include "fedcodec/envelope.h"

enum { SIZE = 2 * 300 + 7 + 1, SMALL = 100 };

/* Tensors of 600, 7 and 1 values. */
static void make_layout(fed_layout *layout) {
    fed_layout_init(layout);
    assert_fed_ok(fed_layout_add(layout, "dense1.weight", 2, (uint32_t[]){2, 300}));
    assert_fed_ok(fed_layout_add(layout, "dense1.bias", 1, (uint32_t[]){7}));
    assert_fed_ok(fed_layout_add(layout, "scale", 0, NULL));
    assert_int_equal(layout->size, SIZE);
}

static void fill(float *x, uint32_t stream) {
    fed_rng rng;
    fed_rng_init(&rng, 1, stream, 0);
    for (size_t i = 0; i < SIZE; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
}

typedef struct fixture {
    fed_layout layout;
    fedcodec codec;
    float residual[SIZE], x[SIZE], sum[SIZE];
    void *work;
    fed_writer out;
} fixture;

static void set_up(fixture *f, const char *spec) {
    memset(f, 0, sizeof *f);
    make_layout(&f->layout);
    assert_fed_ok(fedcodec_parse(spec, &f->codec, NULL));
    fill(f->residual, 1);
    fill(f->x, 2);
    for (size_t i = 0; i < SIZE; i++) {
        f->sum[i] = f->residual[i] + f->x[i];
    }
    f->work = malloc(fedcodec_envelope_work_size(&f->codec, &f->layout, SMALL) + 1);
    assert_non_null(f->work);
    fed_writer_growing(&f->out);
}

static void encode(fixture *f) {
    assert_fed_ok(fedcodec_envelope_encode(&f->codec, &f->layout, SMALL, f->residual, f->x, f->work,
                                           &f->out));
}

static void tear_down(fixture *f) {
    free(f->work);
    fed_writer_free(&f->out);
    fed_layout_free(&f->layout);
}

/* The two small tensors lie one behind the other in the layout, and so in the group. */
static void head_and_frames_are_as_documented(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "float32");
    encode(&f);
    const uint8_t *at = f.out.data;
    assert_int_equal(f.out.len, 5 + (1 + 2 + 2 + 2400) + (1 + 1 + 1 + 32));
    assert_memory_equal(at, "\xfe\xdc\x02\x64\x02\x01\xd8\x04\xe0\x12", 10);
    assert_memory_equal(at + 10, f.sum, 2400);
    assert_memory_equal(at + 2410, "\x01\x08\x20", 3);
    assert_memory_equal(at + 2413, f.sum + 600, 32);
    tear_down(&f);
}

static void without_small_tensors_there_is_no_group(void **state) {
    (void)state;
    static const uint32_t smalls[] = {0, 1};
    for (size_t k = 0; k < 2; k++) {
        fixture f;
        set_up(&f, "float32");
        assert_fed_ok(fedcodec_envelope_encode(&f.codec, &f.layout, smalls[k], f.residual, f.x,
                                               f.work, &f.out));
        assert_int_equal(f.out.len, 5 + 2405 + 31 + 7);
        assert_memory_equal(f.out.data, "\xfe\xdc\x02\x00\x03", 5);
        assert_memory_equal(f.out.data + 2410, "\x01\x07\x1c", 3);
        assert_memory_equal(f.out.data + 2441, "\x01\x01\x04", 3);
        assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec, smalls[k],
                                              NULL, NULL));
        tear_down(&f);
    }
}

/* dense1.bias and scale, apart from each other. */
static void the_group_is_what_one_tensor_of_its_values_would_be(void **state) {
    (void)state;
    static const char *const specs[] = {"3lc", "sbc:p=0.3", "onebit", "float32"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fixture f;
        float residual[8], x[8], y[SIZE];
        uint8_t message[256];
        size_t len = 0;
        set_up(&f, specs[k]);
        fed_tensor first = f.layout.tensors[0];
        f.layout.tensors[0] = f.layout.tensors[1];
        f.layout.tensors[1] = first;
        f.layout.tensors[0].offset = 0;
        f.layout.tensors[1].offset = 7;
        memcpy(residual, f.residual, 7 * sizeof *x);
        memcpy(x, f.x, 7 * sizeof *x);
        residual[7] = f.residual[SIZE - 1];
        x[7] = f.x[SIZE - 1];
        assert_fed_ok(
            fedcodec_encode(&f.codec, residual, x, 8, f.work, message, sizeof message, &len));
        encode(&f);
        assert_true(f.out.len > len + 3);
        assert_memory_equal(f.out.data + f.out.len - len, message, len);
        assert_memory_equal(f.residual, residual, 7 * sizeof *x);
        assert_memory_equal(&f.residual[SIZE - 1], &residual[7], sizeof *x);
        assert_fed_ok(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, y, NULL));
        for (size_t i = 0; i < SIZE; i++) {
            float left = f.sum[i] - y[i];
            assert_true(left == f.residual[i]);
        }
        tear_down(&f);
    }
}

static void a_model_of_small_tensors_is_one_frame(void **state) {
    (void)state;
    fixture f;
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    set_up(&f, "sbc:p=0.1");
    void *work = malloc(fedcodec_envelope_work_size(&f.codec, &f.layout, 601) + 1);
    assert_fed_ok(
        fedcodec_envelope_encode(&f.codec, &f.layout, 601, f.residual, f.x, work, &f.out));
    assert_fed_ok(fedcodec_envelope_open(&envelope, f.out.data, f.out.len, NULL));
    assert_int_equal(envelope.frames, 1);
    assert_fed_ok(fedcodec_envelope_next(&envelope, &frame, NULL));
    assert_true(frame.group && frame.n == SIZE);
    assert_fed_status(fedcodec_envelope_next(&envelope, &frame, NULL), FED_ENOTFOUND);
    assert_fed_ok(
        fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec, 601, NULL, NULL));
    free(work);
    tear_down(&f);
}

static void it_is_appended_to_what_the_writer_holds(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "sbc:p=0.1");
    fed_write_bytes(&f.out, "head", 4);
    encode(&f);
    assert_memory_equal(f.out.data, "head\xfe\xdc", 6);
    assert_fed_ok(fedcodec_envelope_check(f.out.data + 4, f.out.len - 4, &f.layout, &f.codec, SMALL,
                                          NULL, NULL));
    tear_down(&f);
}

static void an_error_changes_neither_residual_nor_output(void **state) {
    (void)state;
    fixture f;
    float before[SIZE];
    set_up(&f, "sbc");
    memcpy(before, f.residual, sizeof before);
    f.x[SIZE - 1] = NAN; /* in the last tensor: the first would have been sent already */
    assert_fed_status(
        fedcodec_envelope_encode(&f.codec, &f.layout, SMALL, f.residual, f.x, f.work, &f.out),
        FED_ENONFINITE);
    assert_memory_equal(f.residual, before, sizeof before);
    assert_int_equal(f.out.len, 0);

    uint8_t few[20];
    fed_writer fixed;
    fed_writer_fixed(&fixed, few, sizeof few);
    f.x[SIZE - 1] = 0.0f;
    assert_fed_status(
        fedcodec_envelope_encode(&f.codec, &f.layout, SMALL, f.residual, f.x, f.work, &fixed),
        FED_ENOSPC);
    assert_memory_equal(f.residual, before, sizeof before);
    assert_int_equal(fixed.len, 0);
    tear_down(&f);
}

static void wrong_parameters_and_missing_memory_change_nothing(void **state) {
    (void)state;
    fixture f;
    float before[SIZE];
    set_up(&f, "sbc");
    memcpy(before, f.residual, sizeof before);
    assert_fed_status(
        fedcodec_envelope_encode(&f.codec, &f.layout, SMALL, f.residual, f.x, NULL, &f.out),
        FED_EINVAL);
    f.codec.param[0] = 0.9;
    assert_fed_status(
        fedcodec_envelope_encode(&f.codec, &f.layout, SMALL, f.residual, f.x, f.work, &f.out),
        FED_EINVAL);
    assert_memory_equal(f.residual, before, sizeof before);
    assert_int_equal(f.out.len, 0);
    tear_down(&f);
}

static void frames_come_one_by_one(void **state) {
    (void)state;
    fixture f;
    fed_error err = {0};
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    set_up(&f, "sbc");
    encode(&f);
    assert_fed_ok_err(fedcodec_envelope_open(&envelope, f.out.data, f.out.len, &err));
    assert_int_equal(envelope.frames, 2);
    assert_int_equal(envelope.small, SMALL);
    for (size_t k = 0; k < 2; k++) {
        assert_fed_ok_err(fedcodec_envelope_next(&envelope, &frame, &err));
        assert_int_equal(frame.number, k + 1);
        assert_int_equal(frame.n, k == 0 ? 600 : 8);
        assert_int_equal(frame.group, k == 1);
        assert_string_equal(frame.codec->name, "sbc");
    }
    assert_fed_status(fedcodec_envelope_next(&envelope, &frame, &err), FED_ENOTFOUND);
    tear_down(&f);
}

static void axpy_and_fold_agree_with_decode(void **state) {
    (void)state;
    static const char *const specs[] = {"float32", "3lc:s=1.5", "sbc:p=0.05", "inceptionn:e=8"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fixture f;
        fed_error err = {0};
        float y[SIZE], sum[SIZE];
        int64_t acc[SIZE] = {0};
        set_up(&f, specs[k]);
        encode(&f);
        fill(sum, 9);
        assert_fed_ok_err(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, y, &err));
        assert_fed_ok_err(
            fedcodec_envelope_axpy(f.out.data, f.out.len, &f.layout, 0.5f, sum, &err));
        assert_fed_ok_err(fedcodec_envelope_fold(f.out.data, f.out.len, &f.layout, 7, acc, &err));
        fill(f.x, 9);
        for (size_t i = 0; i < SIZE; i++) {
            float expected = f.x[i] + 0.5f * y[i];
            assert_true(sum[i] == expected);
            assert_int_equal(acc[i], 7 * (int64_t)rint(ldexp((double)y[i], 30)));
        }
        tear_down(&f);
    }
}

static void assert_check_says(const fixture *f, const fedcodec *codec, uint32_t small,
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

/* Where the frame's data begins: behind the head, and the frame's own of 1 + 2 + 1 bytes. */
enum { FIRST = 5, FIRST_DATA = FIRST + 4 };

static void check_says_which_tensor_is_wrong(void **state) {
    (void)state;
    fixture f;
    fedcodec sbc;
    set_up(&f, "3lc");
    encode(&f);
    assert_fed_ok(fedcodec_parse("sbc", &sbc, NULL));
    assert_check_says(&f, &sbc, SMALL, "tensor dense1.weight: sent as 3lc, expected sbc");
    assert_check_says(&f, &f.codec, 5, "groups tensors under 100 values, expected 5");
    assert_check_says(&f, &f.codec, 101, "groups tensors under 100 values, expected 101");
    assert_check_says(&f, &f.codec, 1, "groups tensors under 100 values, expected 0");
    f.layout.tensors[0].size = 601;
    assert_check_says(&f, NULL, 0, "dense1.weight: the message has 600 values, the model 601");
    f.layout.tensors[0].size = 600;
    f.layout.tensors[1].size = 8;
    assert_check_says(&f, NULL, 0,
                      "the group of small tensors: the message has 8 values, the model 9");
    f.layout.tensors[1].size = 100;
    assert_check_says(&f, NULL, 0, "the message has 2 frames, the model takes 3");
    f.layout.tensors[1].size = 7;
    f.out.data[f.out.len - 3] = 0xff; /* five zeros, and more values than there are */
    assert_check_says(&f, NULL, 0, "the group of small tensors: its");
    f.out.data[FIRST_DATA + 3] = 0xff; /* the magnitude's last byte: NaN */
    assert_check_says(&f, NULL, 0, "tensor dense1.weight: its");
    f.out.data[FIRST] = 0x3f;
    assert_check_says(&f, NULL, 0, "tensor dense1.weight: unknown codec id 63");
    tear_down(&f);
}

static void the_group_must_be_of_the_codec_too(void **state) {
    (void)state;
    fixture f, other;
    set_up(&f, "3lc");
    set_up(&other, "float32");
    encode(&f);
    encode(&other);
    fed_writer mixed = {0};
    fed_writer_growing(&mixed);
    fed_write_bytes(&mixed, f.out.data, FIRST_DATA + f.out.data[FIRST + 3]);
    fed_write_bytes(&mixed, other.out.data + other.out.len - 35, 35);
    fed_writer_free(&f.out);
    f.out = mixed;
    assert_check_says(&f, &f.codec, SMALL,
                      "the group of small tensors: sent as float32, expected 3lc");
    assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, NULL, 0, NULL, NULL));
    tear_down(&other);
    tear_down(&f);
}

static void check_gives_the_largest_magnitude(void **state) {
    (void)state;
    fixture f;
    float max_abs = 0.0f;
    set_up(&f, "3lc:s=1.5");
    f.x[SIZE - 1] = -7.0f - f.residual[SIZE - 1];
    encode(&f);
    assert_fed_ok(
        fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec, SMALL, &max_abs, NULL));
    assert_true(fabsf(max_abs - 10.5f) < 1e-3f);
    tear_down(&f);
}

static void fold_has_limits(void **state) {
    (void)state;
    fixture f;
    fed_error err = {0};
    int64_t acc[SIZE] = {0};
    set_up(&f, "float32");
    f.x[3] = 17.0f;
    encode(&f);
    assert_fed_status(fedcodec_envelope_fold(f.out.data, f.out.len, &f.layout, 1, acc, &err),
                      FED_ERANGE);
    assert_non_null(strstr(err.text, "magnitude"));
    assert_fed_status(fedcodec_envelope_fold(f.out.data, f.out.len, &f.layout, 0, acc, &err),
                      FED_ERANGE);
    assert_non_null(strstr(err.text, "weight"));
    assert_int_equal(acc[0], 0);
    tear_down(&f);
}

static void a_cut_or_longer_message_is_refused_and_y_untouched(void **state) {
    (void)state;
    fixture f;
    float y[SIZE], before[SIZE];
    set_up(&f, "sbc:p=0.05");
    encode(&f);
    fill(y, 3);
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
    tear_down(&f);
}

static void a_flipped_bit_never_harms(void **state) {
    (void)state;
    fixture f;
    float y[SIZE];
    set_up(&f, "sbc:p=0.02");
    encode(&f);
    for (size_t bit = 0; bit < 8 * f.out.len; bit++) {
        uint8_t *copy = malloc(f.out.len);
        memcpy(copy, f.out.data, f.out.len);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        fed_status status = fedcodec_envelope_decode(copy, f.out.len, &f.layout, y, NULL);
        assert_true(status == FED_OK || status == FED_EFORMAT || status == FED_EVERSION);
        free(copy);
    }
    tear_down(&f);
}

static fed_status open_bytes(const char *bytes, size_t len, fedcodec_envelope *envelope,
                             fed_error *err) {
    return fedcodec_envelope_open(envelope, bytes, len, err);
}

static void heads_that_are_none_are_refused(void **state) {
    (void)state;
    fedcodec_envelope e;
    fed_error err = {0};
    assert_fed_status(open_bytes("\xfe\xdd\x02\x00\x00", 5, &e, &err), FED_EFORMAT);
    assert_fed_status(open_bytes("\xfe\xdc\x01\x00\x00", 5, &e, &err), FED_EVERSION);
    assert_string_equal(err.text, "envelope of version 1; this build reads version 2");
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00", 4, &e, &err), FED_EFORMAT);
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00\x01\x01\x00", 7, &e, &err),
                      FED_EFORMAT); /* no frame is as short */
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00\xff\xff\xff\xff\x7f", 9, &e, &err), FED_EFORMAT);
    assert_fed_status(open_bytes("\xfe\xdc\x02\x05\x00", 5, &e, &err),
                      FED_EFORMAT); /* a group, and no frame for it */
    assert_fed_status(open_bytes("\xfe\xdc\x02\x80\x80\x80\x80\x10\x01\x01\x00\x00", 12, &e, &err),
                      FED_EFORMAT); /* small 2^32 */
}

static void frames_that_are_none_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *says;
    } bad[] = {
        {"\xfe\xdc\x02\x00\x01\x23\x00\x00", 8, "frame 1: unknown codec id 35"},
        {"\xfe\xdc\x02\x00\x01\x01\x80\x80\x80\x80\x10\x00", 12, "frame 1: its head"}, /* 2^32 */
        {"\xfe\xdc\x02\x03\x01\x01\x00\x00", 8, "the group of small tensors: 0 values"},
        {"\xfe\xdc\x02\x03\x02\x01\x02\x08 two fl.\x01\x01\x00", 19, "frame 1: 2 values"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        fedcodec_envelope envelope;
        fedcodec_frame frame;
        fed_error err = {0};
        assert_fed_ok_err(open_bytes(bad[k].bytes, bad[k].len, &envelope, &err));
        assert_fed_status(fedcodec_envelope_next(&envelope, &frame, &err), FED_EFORMAT);
        if (strstr(err.text, bad[k].says) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", err.text, bad[k].says);
        }
    }
}

/* No layout of fed_layout_add has one; fedcodec encodes empty files. */
static void an_empty_tensor_alone_makes_no_group(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "3lc");
    f.layout.tensors[1].size = 0;
    f.layout.tensors[2].size = 0;
    encode(&f);
    assert_memory_equal(f.out.data, "\xfe\xdc\x02\x00\x03", 5);
    assert_fed_ok(
        fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec, SMALL, NULL, NULL));
    tear_down(&f);
}

static void a_model_without_tensors_is_a_head(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "sbc");
    f.layout.count = 0;
    f.layout.size = 0;
    encode(&f);
    assert_int_equal(f.out.len, 5);
    assert_fed_ok(
        fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec, SMALL, NULL, NULL));
    f.layout.count = 3;
    tear_down(&f);
}

/* Second stages */

/* A tensor with two large values: nearly all that 3lc sends of it are runs of zeros. */
enum { LARGE = 70000 };

typedef struct large {
    fed_layout layout;
    fed_writer out;
    fedcodec codec;
    float *residual, *y;
} large;

static void encode_large(large *l, const char *spec) {
    fed_layout_init(&l->layout);
    assert_fed_ok(fed_layout_add(&l->layout, "dense1.weight", 1, (uint32_t[]){LARGE}));
    assert_fed_ok(fedcodec_parse(spec, &l->codec, NULL));
    l->residual = calloc(LARGE, sizeof *l->residual);
    l->y = calloc(LARGE, sizeof *l->y);
    assert_true(l->residual != NULL && l->y != NULL);
    l->residual[7] = 1.0f;
    l->residual[LARGE / 2] = -1.0f;
    void *work = malloc(fedcodec_envelope_work_size(&l->codec, &l->layout, 0) + 1);
    fed_writer_growing(&l->out);
    assert_fed_ok(
        fedcodec_envelope_encode(&l->codec, &l->layout, 0, l->residual, NULL, work, &l->out));
    free(work);
}

static void drop_large(large *l) {
    fed_writer_free(&l->out);
    fed_layout_free(&l->layout);
    free(l->residual);
    free(l->y);
}

static bool have_zstd(void) {
    fedcodec codec;
    return fedcodec_parse("3lc+zstd", &codec, NULL) == FED_OK;
}

static const char *const staged[] = {"3lc:s=1.75+runs", "3lc:s=1.75+zstd"};

static size_t staged_count(void) {
    return have_zstd() ? 2 : 1;
}

static void a_stage_changes_the_bytes_and_no_value(void **state) {
    (void)state;
    large plain;
    encode_large(&plain, "3lc:s=1.75");
    assert_fed_ok(
        fedcodec_envelope_decode(plain.out.data, plain.out.len, &plain.layout, plain.y, NULL));
    for (size_t k = 0; k < staged_count(); k++) {
        large l;
        fed_error err = {0};
        int64_t *acc = calloc(LARGE, sizeof *acc);
        float *sum = calloc(LARGE, sizeof *sum);
        encode_large(&l, staged[k]);
        assert_true(4 * l.out.len < plain.out.len);
        assert_memory_equal(l.residual, plain.residual, LARGE * sizeof *l.residual);
        assert_fed_ok_err(
            fedcodec_envelope_check(l.out.data, l.out.len, &l.layout, &l.codec, 0, NULL, &err));
        assert_fed_ok_err(fedcodec_envelope_decode(l.out.data, l.out.len, &l.layout, l.y, &err));
        assert_memory_equal(l.y, plain.y, LARGE * sizeof *l.y);
        assert_fed_ok_err(
            fedcodec_envelope_axpy(l.out.data, l.out.len, &l.layout, 1.0f, sum, &err));
        assert_memory_equal(sum, plain.y, LARGE * sizeof *sum);
        assert_fed_ok_err(fedcodec_envelope_fold(l.out.data, l.out.len, &l.layout, 2, acc, &err));
        assert_true(acc[7] == INT64_C(7) << 29 && acc[LARGE / 2] == -acc[7] && acc[8] == 0);
        free(acc);
        free(sum);
        drop_large(&l);
    }
    drop_large(&plain);
}

static void a_stage_that_does_not_shrink_is_not_used(void **state) {
    (void)state;
    static const char *const specs[] = {"sbc:p=0.1", "sbc:p=0.1+runs", "sbc:p=0.1+zstd"};
    fixture plain;
    set_up(&plain, specs[0]);
    encode(&plain);
    for (size_t k = 1; k <= staged_count(); k++) {
        fixture f;
        set_up(&f, specs[k]);
        encode(&f);
        assert_int_equal(f.out.len, plain.out.len);
        assert_memory_equal(f.out.data, plain.out.data, f.out.len);
        assert_fed_ok(
            fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec, SMALL, NULL, NULL));
        tear_down(&f);
    }
    tear_down(&plain);
}

static void the_frame_names_its_stage_and_can_be_unpacked_by_hand(void **state) {
    (void)state;
    large l;
    fedcodec_envelope envelope;
    fedcodec_frame frame, plain;
    encode_large(&l, "3lc:s=1.75+runs");
    assert_fed_ok(fedcodec_envelope_open(&envelope, l.out.data, l.out.len, NULL));
    assert_fed_ok(fedcodec_envelope_next(&envelope, &frame, NULL));
    assert_string_equal(fedcodec_stage_name(frame.stage), "runs");
    assert_true(frame.plain_len > frame.len);
    uint8_t *bytes = malloc(frame.plain_len);
    assert_fed_ok(fedcodec_frame_unpack(&frame, bytes, &plain));
    assert_int_equal(plain.stage, 0);
    assert_int_equal(plain.len, frame.plain_len);
    assert_fed_ok(fedcodec_decode(plain.codec, plain.data, plain.len, l.y, LARGE));
    assert_true(l.y[7] == 1.75f);
    free(bytes);
    drop_large(&l);
}

static void a_stage_that_the_task_has_not_is_refused(void **state) {
    (void)state;
    large l;
    fedcodec plain;
    fed_error err = {0};
    encode_large(&l, "3lc:s=1.75+runs");
    assert_fed_ok(fedcodec_parse("3lc:s=1.75", &plain, NULL));
    assert_fed_status(
        fedcodec_envelope_check(l.out.data, l.out.len, &l.layout, &plain, 0, NULL, &err),
        FED_EFORMAT);
    assert_non_null(strstr(err.text, "packed by runs, which is not its codec's stage"));
    assert_fed_ok(fedcodec_envelope_check(l.out.data, l.out.len, &l.layout, NULL, 0, NULL, &err));
    l.codec.stage = 3;
    assert_fed_status(
        fedcodec_envelope_encode(&l.codec, &l.layout, 0, l.residual, NULL, l.y, &l.out),
        FED_EINVAL);
    drop_large(&l);
}

static fed_status decode_copy(const large *l, const uint8_t *data, size_t len) {
    uint8_t *copy = malloc(len + (len == 0));
    memcpy(copy, data, len);
    fed_status status = fedcodec_envelope_decode(copy, len, &l->layout, l->y, NULL);
    free(copy);
    return status;
}

static void packed_messages_cut_or_flipped_do_no_harm(void **state) {
    (void)state;
    for (size_t k = 0; k < staged_count(); k++) {
        large l;
        encode_large(&l, staged[k]);
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
        drop_large(&l);
    }
}

/* An envelope of one packed float32 tensor of n values. */
static fed_status next_packed(uint64_t n, uint64_t plain_len, unsigned stage) {
    uint8_t data[64];
    fed_writer w;
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    fed_writer_fixed(&w, data, sizeof data);
    fed_write_bytes(&w, "\xfe\xdc\x02\x00\x01", 5);
    fed_write_u8(&w, (uint8_t)(1 + 64 * stage));
    fed_write_varint(&w, n);
    fed_write_varint(&w, fed_varint_size(plain_len) + 1);
    fed_write_varint(&w, plain_len);
    fed_write_u8(&w, 0);
    assert_fed_ok(fedcodec_envelope_open(&envelope, data, w.len, NULL));
    return fedcodec_envelope_next(&envelope, &frame, NULL);
}

static void an_unpacked_length_past_what_the_tensor_can_take_is_refused(void **state) {
    (void)state;
    assert_fed_ok(next_packed(10, 114, 1));
    assert_fed_status(next_packed(10, 115, 1), FED_EFORMAT);
    assert_fed_status(next_packed(10, UINT64_MAX, 1), FED_EFORMAT);
    assert_fed_status(next_packed(10, 2, 1), FED_EFORMAT); /* not shorter than it was */
    assert_fed_status(next_packed(10, 100, 3), FED_EFORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_and_frames_are_as_documented),
        cmocka_unit_test(without_small_tensors_there_is_no_group),
        cmocka_unit_test(the_group_is_what_one_tensor_of_its_values_would_be),
        cmocka_unit_test(a_model_of_small_tensors_is_one_frame),
        cmocka_unit_test(it_is_appended_to_what_the_writer_holds),
        cmocka_unit_test(an_error_changes_neither_residual_nor_output),
        cmocka_unit_test(wrong_parameters_and_missing_memory_change_nothing),
        cmocka_unit_test(frames_come_one_by_one),
        cmocka_unit_test(axpy_and_fold_agree_with_decode),
        cmocka_unit_test(check_says_which_tensor_is_wrong),
        cmocka_unit_test(the_group_must_be_of_the_codec_too),
        cmocka_unit_test(check_gives_the_largest_magnitude),
        cmocka_unit_test(fold_has_limits),
        cmocka_unit_test(a_cut_or_longer_message_is_refused_and_y_untouched),
        cmocka_unit_test(a_flipped_bit_never_harms),
        cmocka_unit_test(heads_that_are_none_are_refused),
        cmocka_unit_test(frames_that_are_none_are_refused),
        cmocka_unit_test(an_empty_tensor_alone_makes_no_group),
        cmocka_unit_test(a_model_without_tensors_is_a_head),
        cmocka_unit_test(a_stage_changes_the_bytes_and_no_value),
        cmocka_unit_test(a_stage_that_does_not_shrink_is_not_used),
        cmocka_unit_test(the_frame_names_its_stage_and_can_be_unpacked_by_hand),
        cmocka_unit_test(a_stage_that_the_task_has_not_is_refused),
        cmocka_unit_test(packed_messages_cut_or_flipped_do_no_harm),
        cmocka_unit_test(an_unpacked_length_past_what_the_tensor_can_take_is_refused),
    };
    return cmocka_run_group_tests_name("envelope", tests, NULL, NULL);
}
