/* Writing envelopes: the order of bytes, the group of small tensors; errors write nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "envelope_case.h"
#include "fed_cases.h"

static fed_status encode(envelope_case *f, void *work, fed_writer *out) {
    return fedcodec_envelope_encode(&f->codec, &f->layout, ENVELOPE_SMALL, f->residual, f->x, work,
                                    out);
}

FED_TEST(head_and_frames_are_as_documented) {
    envelope_case f;
    envelope_case_open(&f, "float32");
    envelope_case_encode(&f);
    const uint8_t *at = f.out.data;
    assert_int_equal(f.out.len, 5 + (1 + 2 + 2 + 2400) + (1 + 1 + 1 + 32));
    assert_memory_equal(at, "\xfe\xdc\x02\x64\x02\x01\xd8\x04\xe0\x12", 10);
    assert_memory_equal(at + 10, f.sum, 2400);
    assert_memory_equal(at + 2410, "\x01\x08\x20", 3);
    assert_memory_equal(at + 2413, f.sum + 600, 32);
    envelope_case_close(&f);
}

FED_TEST(without_small_tensors_there_is_no_group) {
    static const uint32_t smalls[] = {0, 1};
    for (size_t k = 0; k < 2; k++) {
        envelope_case f;
        envelope_case_open(&f, "float32");
        assert_fed_ok(fedcodec_envelope_encode(&f.codec, &f.layout, smalls[k], f.residual, f.x,
                                               f.work, &f.out));
        assert_int_equal(f.out.len, 5 + 2405 + 31 + 7);
        assert_memory_equal(f.out.data, "\xfe\xdc\x02\x00\x03", 5);
        assert_memory_equal(f.out.data + 2410, "\x01\x07\x1c", 3);
        assert_memory_equal(f.out.data + 2441, "\x01\x01\x04", 3);
        assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec, smalls[k],
                                              NULL, NULL));
        envelope_case_close(&f);
    }
}

FED_TEST(the_group_is_what_one_tensor_of_its_values_would_be) {
    static const char *const specs[] = {"3lc", "sbc:p=0.3", "onebit", "float32"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        envelope_case f;
        float residual[8], x[8], y[ENVELOPE_SIZE];
        uint8_t message[256];
        size_t len = 0;
        envelope_case_open(&f, specs[k]);
        envelope_case_move_apart(&f);
        memcpy(residual, f.residual, 7 * sizeof *x);
        memcpy(x, f.x, 7 * sizeof *x);
        residual[7] = f.residual[ENVELOPE_SIZE - 1];
        x[7] = f.x[ENVELOPE_SIZE - 1];
        assert_fed_ok(
            fedcodec_encode(&f.codec, residual, x, 8, f.work, message, sizeof message, &len));
        envelope_case_encode(&f);
        assert_true(f.out.len > len + 3);
        assert_memory_equal(f.out.data + f.out.len - len, message, len);
        assert_memory_equal(f.residual, residual, 7 * sizeof *x);
        assert_memory_equal(&f.residual[ENVELOPE_SIZE - 1], &residual[7], sizeof *x);
        assert_fed_ok(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, y, NULL));
        for (size_t i = 0; i < ENVELOPE_SIZE; i++) {
            float left = f.sum[i] - y[i];
            assert_true(left == f.residual[i]);
        }
        envelope_case_close(&f);
    }
}

FED_TEST(a_model_of_small_tensors_is_one_frame) {
    envelope_case f;
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    envelope_case_open(&f, "sbc:p=0.1");
    void *work = malloc(fedcodec_envelope_work_size(&f.codec, &f.layout, 601) + 1);
    assert_fed_ok(
        fedcodec_envelope_encode(&f.codec, &f.layout, 601, f.residual, f.x, work, &f.out));
    assert_fed_ok(fedcodec_envelope_open(&envelope, f.out.data, f.out.len, NULL));
    assert_int_equal(envelope.frames, 1);
    assert_fed_ok(fedcodec_envelope_next(&envelope, &frame, NULL));
    assert_true(frame.group && frame.n == ENVELOPE_SIZE);
    assert_fed_status(fedcodec_envelope_next(&envelope, &frame, NULL), FED_ENOTFOUND);
    assert_fed_ok(
        fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec, 601, NULL, NULL));
    free(work);
    envelope_case_close(&f);
}

FED_TEST(statistics_that_are_not_finite_change_nothing) {
    envelope_case f;
    float before[ENVELOPE_SIZE];
    envelope_case_open(&f, "sbc");
    f.layout.statistics = 2;
    memcpy(before, f.residual, sizeof before);
    f.x[ENVELOPE_SIZE - 1] = INFINITY;
    assert_fed_status(encode(&f, f.work, &f.out), FED_ENONFINITE);
    assert_memory_equal(f.residual, before, sizeof before);
    assert_int_equal(f.out.len, 0);
    envelope_case_close(&f);
}

FED_TEST(it_is_appended_to_what_the_writer_holds) {
    envelope_case f;
    envelope_case_open(&f, "sbc:p=0.1");
    fed_write_bytes(&f.out, "head", 4);
    envelope_case_encode(&f);
    assert_memory_equal(f.out.data, "head\xfe\xdc", 6);
    assert_fed_ok(fedcodec_envelope_check(f.out.data + 4, f.out.len - 4, &f.layout, &f.codec,
                                          ENVELOPE_SMALL, NULL, NULL));
    envelope_case_close(&f);
}

FED_TEST(an_error_changes_neither_residual_nor_output) {
    envelope_case f;
    float before[ENVELOPE_SIZE];
    envelope_case_open(&f, "sbc");
    memcpy(before, f.residual, sizeof before);
    f.x[ENVELOPE_SIZE - 1] = NAN; /* found after the first tensor was encoded */
    assert_fed_status(encode(&f, f.work, &f.out), FED_ENONFINITE);
    assert_memory_equal(f.residual, before, sizeof before);
    assert_int_equal(f.out.len, 0);

    uint8_t few[20];
    fed_writer fixed;
    fed_writer_fixed(&fixed, few, sizeof few);
    f.x[ENVELOPE_SIZE - 1] = 0.0f;
    assert_fed_status(encode(&f, f.work, &fixed), FED_ENOSPC);
    assert_memory_equal(f.residual, before, sizeof before);
    assert_int_equal(fixed.len, 0);
    envelope_case_close(&f);
}

FED_TEST(an_unguarded_residual_changes_nothing_but_itself) {
    static const char *const specs[] = {"float32", "3lc", "int8", "sbc:p=0.1", "trunc", "twobit"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        envelope_case guarded, f;
        envelope_case_open(&guarded, specs[k]);
        envelope_case_encode(&guarded);
        envelope_case_open(&f, specs[k]);
        f.codec.unguarded = true;
        envelope_case_encode(&f);
        assert_int_equal(f.out.len, guarded.out.len);
        assert_memory_equal(f.out.data, guarded.out.data, f.out.len);
        assert_memory_equal(f.residual, guarded.residual, sizeof f.residual);

        f.x[ENVELOPE_SIZE - 1] = NAN;
        assert_fed_status(encode(&f, f.work, &f.out), FED_ENONFINITE);
        assert_int_equal(f.out.len, guarded.out.len);
        envelope_case_close(&guarded);
        envelope_case_close(&f);
    }
}

FED_TEST(without_a_residual_the_message_is_the_same) {
    static const char *const specs[] = {"sbc:p=0.3", "dgc:p=0.3,values=int8", "topk:p=0.3", "int8"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        envelope_case f;
        float values[ENVELOPE_SIZE];
        fed_writer alone;
        envelope_case_open(&f, specs[k]);
        memcpy(values, f.sum, sizeof values);
        fed_writer_growing(&alone);
        const fed_status status = fedcodec_envelope_encode(&f.codec, &f.layout, ENVELOPE_SMALL,
                                                           NULL, values, f.work, &alone);
        envelope_case_encode(&f);
        assert_fed_status(status, fedcodec_needs_residual(f.codec.vtable) ? FED_EINVAL : FED_OK);
        assert_memory_equal(values, f.sum, sizeof values);
        if (status == FED_OK) {
            assert_int_equal(alone.len, f.out.len);
            assert_memory_equal(alone.data, f.out.data, alone.len);
        }
        fed_writer_free(&alone);
        envelope_case_close(&f);
    }
}

FED_TEST(wrong_parameters_and_missing_memory_change_nothing) {
    envelope_case f;
    float before[ENVELOPE_SIZE];
    envelope_case_open(&f, "sbc");
    memcpy(before, f.residual, sizeof before);
    assert_fed_status(encode(&f, NULL, &f.out), FED_EINVAL);
    f.codec.param[0] = 0.9;
    assert_fed_status(encode(&f, f.work, &f.out), FED_EINVAL);
    assert_memory_equal(f.residual, before, sizeof before);
    assert_int_equal(f.out.len, 0);
    envelope_case_close(&f);
}

/* fed_layout_add refuses empty tensors, but fedcodec encodes empty files. */
FED_TEST(an_empty_tensor_alone_makes_no_group) {
    envelope_case f;
    envelope_case_open(&f, "3lc");
    f.layout.tensors[1].size = 0;
    f.layout.tensors[2].size = 0;
    envelope_case_encode(&f);
    assert_memory_equal(f.out.data, "\xfe\xdc\x02\x00\x03", 5);
    assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec,
                                          ENVELOPE_SMALL, NULL, NULL));
    envelope_case_close(&f);
}

FED_TEST(a_model_without_tensors_is_a_head) {
    envelope_case f;
    envelope_case_open(&f, "sbc");
    f.layout.count = 0;
    f.layout.size = 0;
    envelope_case_encode(&f);
    assert_int_equal(f.out.len, 5);
    assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec,
                                          ENVELOPE_SMALL, NULL, NULL));
    f.layout.count = 3;
    envelope_case_close(&f);
}

FED_TEST(a_stage_that_does_not_shrink_is_not_used) {
    static const char *const specs[] = {"sbc:p=0.1", "sbc:p=0.1+runs", "sbc:p=0.1+entropy",
                                        "sbc:p=0.1+zstd"};
    envelope_case plain;
    envelope_case_open(&plain, specs[0]);
    envelope_case_encode(&plain);
    for (size_t k = 1; k < sizeof specs / sizeof specs[0]; k++) {
        envelope_case f;
        if (fedcodec_parse(specs[k], &f.codec, NULL) != FED_OK) {
            continue;
        }
        envelope_case_open(&f, specs[k]);
        envelope_case_encode(&f);
        assert_int_equal(f.out.len, plain.out.len);
        assert_memory_equal(f.out.data, plain.out.data, f.out.len);
        assert_fed_ok(fedcodec_envelope_check(f.out.data, f.out.len, &f.layout, &f.codec,
                                              ENVELOPE_SMALL, NULL, NULL));
        envelope_case_close(&f);
    }
    envelope_case_close(&plain);
}

/* The first tensor is 2 rows of 300, unless the spec names other rows. The group of small tensors
 * is a vector, whose values are sent as they are. */
FED_TEST(a_codec_of_matrices_is_told_the_shapes) {
    static const struct {
        const char *spec, *head; /* the first bytes of the first frame and its message */
        size_t len;              /* length of that message */
    } cases[] = {
        {"powersgd:rank=1", "\x14\xd8\x04\xbe\x09\x01\x00\x02\x00\x00\x00", 6 + 4 * 302},
        {"powersgd:rank=1,rows=5", "\x14\xd8\x04\xfa\x03\x01\x00\x05\x00\x00\x00", 6 + 4 * 125},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        envelope_case f;
        float y[ENVELOPE_SIZE];
        envelope_case_open(&f, cases[k].spec);
        envelope_case_encode(&f);
        assert_memory_equal(f.out.data + 5, cases[k].head, 11);
        assert_memory_equal(f.out.data + 10 + cases[k].len, "\x14\x08\x21\xff", 4);
        assert_int_equal(f.out.len, 10 + cases[k].len + 3 + 1 + 4 * 8);
        assert_true(fedcodec_envelope_bound(&f.codec, &f.layout, ENVELOPE_SMALL) < f.out.len + 16);
        assert_fed_ok(fedcodec_envelope_decode(f.out.data, f.out.len, &f.layout, y, NULL));
        for (size_t i = 0; i < ENVELOPE_SIZE; i++) {
            const float left = f.sum[i] - y[i];
            assert_true(left == f.residual[i]);
        }
        envelope_case_close(&f);
    }
}

FED_TEST(unpacked_it_has_the_bytes_of_its_codec_alone) {
    static const char *const staged[] = {"3lc:s=1.75+runs", "3lc:s=1.75+entropy", "3lc:s=1.75"};
    large_case plain;
    large_case_encode(&plain, "3lc:s=1.75");
    for (size_t k = 0; k < sizeof staged / sizeof staged[0]; k++) {
        large_case l;
        fed_writer out;
        fed_error err = {0};
        fed_writer_growing(&out);
        large_case_encode(&l, staged[k]);
        assert_int_equal(fedcodec_envelope_plain_len(l.out.data, l.out.len), plain.out.len);
        assert_int_equal(l.out.len < plain.out.len, k < 2);
        assert_fed_ok_err(fedcodec_envelope_unpack(l.out.data, l.out.len, &out, &err));
        assert_int_equal(out.len, plain.out.len);
        assert_memory_equal(out.data, plain.out.data, out.len);
        fed_writer_free(&out);
        large_case_close(&l);
    }
    large_case_close(&plain);
}

FED_TEST(what_is_cut_off_is_not_unpacked) {
    large_case l;
    large_case_encode(&l, "3lc:s=1.75+entropy");
    for (size_t len = 0; len < l.out.len; len += 1 + l.out.len / 100) {
        fed_writer out;
        fed_error err = {0};
        fed_writer_growing(&out);
        assert_fed_status(fedcodec_envelope_unpack(l.out.data, len, &out, &err), FED_EFORMAT);
        assert_true(err.text[0] != '\0');
        fed_writer_free(&out);
    }
    large_case_close(&l);
}
