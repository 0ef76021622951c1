/* Reading envelopes: frame by frame and whole, what is refused and what an error says; stages. */
#include <math.h>
#include <stdbool.h>

#include "envelope_case.h"
#include "fed_test.h"

static void frames_come_one_by_one(void **state) {
    (void)state;
    envelope_case f;
    fed_error err = {0};
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    envelope_case_open(&f, "sbc");
    envelope_case_encode(&f);
    assert_fed_ok_err(fedcodec_envelope_open(&envelope, f.out.data, f.out.len, &err));
    assert_int_equal(envelope.frames, 2);
    assert_int_equal(envelope.small, ENVELOPE_SMALL);
    for (size_t k = 0; k < 2; k++) {
        assert_fed_ok_err(fedcodec_envelope_next(&envelope, &frame, &err));
        assert_int_equal(frame.number, k + 1);
        assert_int_equal(frame.n, k == 0 ? 600 : 8);
        assert_int_equal(frame.group, k == 1);
        assert_string_equal(frame.codec->name, "sbc");
    }
    assert_fed_status(fedcodec_envelope_next(&envelope, &frame, &err), FED_ENOTFOUND);
    envelope_case_close(&f);
}

static void axpy_fold_and_norm_agree_with_decode(void **state) {
    (void)state;
    static const char *const specs[] = {"float32",    "3lc:s=1.5",  "sbc:p=0.05",
                                        "stc:p=0.05", "dgc:p=0.05", "inceptionn:e=8"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        envelope_case f;
        fed_error err = {0};
        float y[ENVELOPE_SIZE], sum[ENVELOPE_SIZE];
        int64_t acc[ENVELOPE_SIZE] = {0};
        envelope_case_open(&f, specs[k]);
        envelope_case_move_apart(&f);
        envelope_case_encode(&f);
        envelope_case_fill(sum, 9);
        assert_fed_ok_err(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, y, &err));
        assert_fed_ok_err(
            fedcodec_envelope_axpy(f.out.data, f.out.len, &f.layout, 0.5f, sum, &err));
        assert_fed_ok_err(fedcodec_envelope_fold(f.out.data, f.out.len, &f.layout, 7, acc, &err));
        envelope_case_fill(f.x, 9);
        double norm = 0, squares = 0;
        assert_fed_ok_err(fedcodec_envelope_norm(f.out.data, f.out.len, &f.layout, &norm, &err));
        for (size_t i = 0; i < ENVELOPE_SIZE; i++) {
            squares += (double)y[i] * (double)y[i];
            float expected = f.x[i] + 0.5f * y[i];
            assert_true(sum[i] == expected);
            assert_int_equal(acc[i], 7 * (int64_t)rint(ldexp((double)y[i], 30)));
        }
        assert_true(fabs(norm - sqrt(squares)) <= 1e-12 * norm);
        envelope_case_close(&f);
    }
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

/* Where the frame's data begins: behind the head, and the frame's own of 1 + 2 + 1 bytes. */
enum { FIRST = 5, FIRST_DATA = FIRST + 4 };

static void check_says_which_tensor_is_wrong(void **state) {
    (void)state;
    envelope_case f;
    fedcodec sbc;
    envelope_case_open(&f, "3lc");
    envelope_case_encode(&f);
    assert_fed_ok(fedcodec_parse("sbc", &sbc, NULL));
    assert_check_says(&f, &sbc, ENVELOPE_SMALL, "tensor dense1.weight: sent as 3lc, expected sbc");
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
    envelope_case_close(&f);
}

static void the_group_must_be_of_the_codec_too(void **state) {
    (void)state;
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

static void check_gives_the_largest_magnitude(void **state) {
    (void)state;
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

static void fold_has_limits(void **state) {
    (void)state;
    envelope_case f;
    fed_error err = {0};
    int64_t acc[ENVELOPE_SIZE] = {0};
    envelope_case_open(&f, "float32");
    f.x[3] = 17.0f;
    envelope_case_encode(&f);
    assert_fed_status(fedcodec_envelope_fold(f.out.data, f.out.len, &f.layout, 1, acc, &err),
                      FED_ERANGE);
    assert_non_null(strstr(err.text, "magnitude"));
    assert_fed_status(fedcodec_envelope_fold(f.out.data, f.out.len, &f.layout, 0, acc, &err),
                      FED_ERANGE);
    assert_non_null(strstr(err.text, "weight"));
    assert_int_equal(acc[0], 0);
    envelope_case_close(&f);
}

static void a_cut_or_longer_message_is_refused_and_y_untouched(void **state) {
    (void)state;
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

static void a_flipped_bit_never_harms(void **state) {
    (void)state;
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
    assert_fed_says(err, "envelope of version 1; this build reads versions 2 and 3");
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00", 4, &e, &err), FED_EFORMAT);
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00\x01\x01\x00", 7, &e, &err),
                      FED_EFORMAT); /* no frame is as short */
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00\xff\xff\xff\xff\x7f", 9, &e, &err), FED_EFORMAT);
    assert_fed_status(open_bytes("\xfe\xdc\x02\x05\x00", 5, &e, &err),
                      FED_EFORMAT); /* a group, and no frame for it */
    assert_fed_status(open_bytes("\xfe\xdc\x03\x05\x01\x01\x00\x00", 8, &e, &err),
                      FED_EFORMAT); /* statistics, and no frame for them */
    assert_fed_status(open_bytes("\xfe\xdc\x02\x80\x80\x80\x80\x10\x01\x01\x00\x00", 12, &e, &err),
                      FED_EFORMAT); /* small 2^32 */
}

/* The same bytes but for one tensor's role, or one frame's codec. */
static void statistics_must_be_there_and_as_they_are(void **state) {
    (void)state;
    envelope_case f;
    fed_error err = {0};
    float y[ENVELOPE_SIZE];
    envelope_case_open(&f, "onebit");
    f.layout.statistics = 1; /* scale */
    envelope_case_encode(&f);
    assert_fed_ok_err(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, y, &err));
    assert_true(y[ENVELOPE_SIZE - 1] == f.sum[ENVELOPE_SIZE - 1]);
    assert_true(y[ENVELOPE_SIZE - 2] != f.sum[ENVELOPE_SIZE - 2]);
    assert_true(f.residual[ENVELOPE_SIZE - 1] == 0);

    f.out.data[f.out.len - 7] = 2; /* float16's id */
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
        {"\xfe\xdc\x03\x00\x01\x01\x00\x00", 8, "the running statistics: 0 values"},
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
        cmocka_unit_test(frames_come_one_by_one),
        cmocka_unit_test(axpy_fold_and_norm_agree_with_decode),
        cmocka_unit_test(check_says_which_tensor_is_wrong),
        cmocka_unit_test(the_group_must_be_of_the_codec_too),
        cmocka_unit_test(check_gives_the_largest_magnitude),
        cmocka_unit_test(fold_has_limits),
        cmocka_unit_test(a_cut_or_longer_message_is_refused_and_y_untouched),
        cmocka_unit_test(a_flipped_bit_never_harms),
        cmocka_unit_test(heads_that_are_none_are_refused),
        cmocka_unit_test(statistics_must_be_there_and_as_they_are),
        cmocka_unit_test(frames_that_are_none_are_refused),
        cmocka_unit_test(a_stage_changes_the_bytes_and_no_value),
        cmocka_unit_test(the_frame_names_its_stage_and_can_be_unpacked_by_hand),
        cmocka_unit_test(a_stage_that_the_task_has_not_is_refused),
        cmocka_unit_test(packed_messages_cut_or_flipped_do_no_harm),
        cmocka_unit_test(an_unpacked_length_past_what_the_tensor_can_take_is_refused),
    };
    return cmocka_run_group_tests_name("envelope_read", tests, NULL, NULL);
}
