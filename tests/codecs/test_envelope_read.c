/* Reading envelopes frame by frame: what a frame's head says, and which bytes are refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "envelope_case.h"
#include "fed_cases.h"

FED_TEST(frames_come_one_by_one) {
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
        assert_string_equal(fedcodec_name(frame.codec), "sbc");
    }
    assert_fed_status(fedcodec_envelope_next(&envelope, &frame, &err), FED_ENOTFOUND);
    envelope_case_close(&f);
}

static fed_status open_bytes(const char *bytes, size_t len, fedcodec_envelope *envelope,
                             fed_error *err) {
    return fedcodec_envelope_open(envelope, bytes, len, err);
}

FED_TEST(heads_that_are_none_are_refused) {
    fedcodec_envelope e;
    fed_error err = {0};
    assert_fed_status(open_bytes("\xfe\xdd\x02\x00\x00", 5, &e, &err), FED_EFORMAT);
    assert_fed_status(open_bytes("\xfe\xdc\x01\x00\x00", 5, &e, &err), FED_EVERSION);
    assert_fed_says(err, "envelope of version 1; this build reads versions 2 to 5");
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00", 4, &e, &err), FED_EFORMAT);
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00\x01\x01\x00", 7, &e, &err),
                      FED_EFORMAT); /* the frame has 2 bytes, but the shortest has 3 */
    assert_fed_status(open_bytes("\xfe\xdc\x02\x00\xff\xff\xff\xff\x7f", 9, &e, &err), FED_EFORMAT);
    assert_fed_status(open_bytes("\xfe\xdc\x02\x05\x00", 5, &e, &err),
                      FED_EFORMAT); /* a group is announced, but there is no frame for it */
    assert_fed_status(open_bytes("\xfe\xdc\x03\x05\x01\x01\x00\x00", 8, &e, &err),
                      FED_EFORMAT); /* statistics are announced, but there is no frame for them */
    assert_fed_status(open_bytes("\xfe\xdc\x02\x80\x80\x80\x80\x10\x01\x01\x00\x00", 12, &e, &err),
                      FED_EFORMAT); /* the size limit of small tensors is 2^32 */
}

FED_TEST(frames_that_are_none_are_refused) {
    static const struct {
        const char *bytes;
        size_t len;
        const char *says;
    } bad[] = {
        {"\xfe\xdc\x02\x00\x01\x23\x00\x00", 8, "frame 1: unknown codec id 35"},
        /* a count of 2^32 values */
        {"\xfe\xdc\x02\x00\x01\x01\x80\x80\x80\x80\x10\x00", 12, "frame 1: its head"},
        {"\xfe\xdc\x02\x03\x01\x01\x00\x00", 8, "small tensors: its frame has 0 values"},
        {"\xfe\xdc\x03\x00\x01\x01\x00\x00", 8, "statistics: its frame has 0 values"},
        {"\xfe\xdc\x02\x03\x02\x01\x02\x08 two fl.\x01\x01\x00", 19, "1: its frame has 2 values"},
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

FED_TEST(the_frame_names_its_stage_and_can_be_unpacked_by_hand) {
    large_case l;
    fedcodec_envelope envelope;
    fedcodec_frame frame, plain;
    large_case_encode(&l, "3lc:s=1.75+runs");
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
    large_case_close(&l);
}

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

FED_TEST(an_unpacked_length_past_what_the_tensor_can_take_is_refused) {
    assert_fed_ok(next_packed(10, 114, 1));
    assert_fed_status(next_packed(10, 115, 1), FED_EFORMAT);
    assert_fed_status(next_packed(10, UINT64_MAX, 1), FED_EFORMAT);
    /* the unpacked length is not above the packed one */
    assert_fed_status(next_packed(10, 2, 1), FED_EFORMAT);
    assert_fed_ok(next_packed(10, 100, 3));
}
